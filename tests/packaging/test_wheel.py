"""The wheel holds everything, and its imports obey the layers of docs/architecture.md."""

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def in_wheel(site: Path, code: str) -> str:
    """Output of ``code`` in a Python that sees the wheel and no checkout."""
    setup = f"import sys; sys.path.insert(0, {str(site)!r})\n"
    result = subprocess.run([sys.executable, "-c", setup + code], capture_output=True, text=True, cwd=site, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def declared_packages() -> list[str]:
    setup = ConfigParser(interpolation=None)
    setup.read(ROOT / "setup.cfg")
    return [line for line in setup["options"]["packages"].splitlines() if line and not line.startswith("#")]


def test_every_source_package_is_declared():
    found = {"mdsim"}
    for folder, name in [(ROOT / "mdsim", "mdsim"), (ROOT / "kernels", "mdsim.kernels")]:
        for init in folder.rglob("__init__.py"):
            found.add(".".join([name, *init.parent.relative_to(folder).parts]))
    assert sorted(declared_packages()) == sorted(found)


def test_every_module_is_in_the_wheel(installed):
    for folder, name in [(ROOT / "mdsim", "mdsim"), (ROOT / "kernels", "mdsim/kernels")]:
        for path in folder.rglob("*.py"):
            assert (installed / name / path.relative_to(folder)).is_file(), path
    assert (installed / "mdsim" / "py.typed").is_file()


def test_every_module_of_the_wheel_imports(installed):
    code = """
import importlib, pkgutil, mdsim, mdsim.kernels
names = [m.name for p in (mdsim, mdsim.kernels) for m in pkgutil.walk_packages(p.__path__, p.__name__ + ".")]
for name in names:
    module = importlib.import_module(name)
    assert module.__file__.startswith(sys.path[0]), module.__file__
print(len(names))
"""
    assert int(in_wheel(installed, code)) > 40


def test_imports_obey_the_layers(installed):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [Path(sys.executable).parent / "lint-imports", ROOT / "setup.cfg", "--no-cache"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=installed, env=environment, check=False)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    assert "mdsim.kernels" not in result.stderr
    assert " kept, 0 broken" in result.stdout


@pytest.mark.parametrize("module", ["openmm", "numba", "h5py", "mpi4py", "cupy", "scipy", "pydantic"])
def test_import_mdsim_is_light(module):
    code = f"import sys, mdsim; print({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def fastest_of(count: int, command: list[str]) -> float:
    """Seconds, the least of ``count`` runs."""
    timer = "import subprocess, sys, time; t = time.perf_counter(); subprocess.run(sys.argv[1:], check=True, stdout=-3); "
    report = "print(time.perf_counter() - t)"
    runs = [
        subprocess.run([sys.executable, "-c", timer + report, *command], capture_output=True, text=True, check=True).stdout
        for _ in range(count)
    ]
    return min(map(float, runs))


def test_import_takes_less_than_half_a_second():
    bare = fastest_of(3, [sys.executable, "-c", "pass"])
    assert fastest_of(3, [sys.executable, "-c", "import mdsim"]) - bare < 0.5


def test_help_is_quick():
    assert fastest_of(3, [sys.executable, "-m", "mdsim.cli", "--help"]) < 1.5
