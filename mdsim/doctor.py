"""``mdsim doctor``: what this machine offers, what is missing, and how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mdsim.backends.cpu import available_cores

Status = Literal["ok", "optional", "problem"]
_MARK = {"ok": "[green]ok[/green]", "optional": "[yellow]--[/yellow]", "problem": "[red]!![/red]"}

REQUIRED = ("numpy", "scipy", "numba", "llvmlite", "h5py", "OpenMM", "pydantic", "Pint", "PyYAML", "typer", "rich")
#: packages of the extras, with what they are for
OPTIONAL = {
    "openmmtools": ("examples", "the structures of inputs/dhfr.yaml and others"),
    "MDAnalysis": ("notebook", "analysing trajectories"),
    "rdkit": ("screen", "reading ligands"),
}


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    topic: str
    value: str
    status: Status = "ok"
    remedy: str = ""


def report() -> int:
    """Print all findings; 1 if something that mdsim needs is missing."""
    console = Console(width=None if sys.stdout.isatty() else 132)
    table = Table(box=None, show_header=False, pad_edge=False)
    for no_wrap in (True, True, False, False):
        table.add_column(no_wrap=no_wrap)
    findings = list(collect())
    for finding in findings:
        table.add_row(_MARK[finding.status], finding.topic, escape(finding.value), escape(finding.remedy))
    console.print(table)
    problems = [f for f in findings if f.status == "problem"]
    if problems:
        console.print(f"{len(problems)} problem(s): see the lines marked !!")
    return 1 if problems else 0


def collect() -> Iterator[Finding]:
    """Every finding; a check that breaks is itself a finding."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _python,
        _processor,
        _limits,
        _packages,
        _openmm,
        _hdf5,
        _mpi,
        _gpu,
        _directories,
    )
    for check in checks:
        try:
            yield from check()
        except Exception as error:  # noqa: BLE001 - the doctor must get to the end
            yield Finding(check.__name__.strip("_"), f"{type(error).__name__}: {error}", "problem")


def _python() -> Iterator[Finding]:
    from mdsim.version import __version__

    yield Finding("mdsim", f"{__version__} on Python {platform.python_version()}, {platform.platform(terse=True)}")


def _processor() -> Iterator[Finding]:
    """SIMD as LLVM sees it (the same that Numba compiles for)."""
    from llvmlite import binding

    from mdsim.kernels.cpu.simd import default_width

    features = binding.get_host_cpu_features()
    known = [name for name in ("sse4.1", "avx", "avx2", "avx512f", "neon") if features.get(name)]
    yield Finding("processor", f"{cpu_model()} ({binding.get_host_cpu_name()}); SIMD {', '.join(known) or 'unknown'}")
    forced = " (set by MDSIM_SIMD_WIDTH)" if os.environ.get("MDSIM_SIMD_WIDTH") else ""
    yield Finding("pair kernel", f"{default_width()} lanes of float32{forced}")
    if features.get("fma") or platform.machine() == "aarch64":
        yield Finding("fused multiply-add", "in hardware")
    else:
        yield Finding(
            "fused multiply-add", "not in hardware", "problem", "results keep their bits, but very slowly: use a CPU with FMA"
        )


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _limits() -> Iterator[Finding]:
    """Cores and memory that this process may use, not those that the machine has."""
    total, usable = os.cpu_count() or 1, available_cores()
    yield Finding("cores", f"{usable} of {total} usable by this process; --threads auto takes {usable}")
    threads = os.environ.get("NUMBA_NUM_THREADS")
    if threads:
        yield Finding("NUMBA_NUM_THREADS", f"{threads}: no more threads than this")
    quota = _cpu_quota()
    if quota is not None and quota < usable:
        remedy = f"more threads than that are throttled: use --threads {max(1, int(quota))}"
        yield Finding("CPU quota (cgroup)", f"{quota:g} cores", "optional", remedy)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _memory_limit()
    limited = f", limited to {limit / 2**30:.1f} GiB (cgroup)" if limit is not None and limit < memory else ""
    yield Finding("memory", f"{memory / 2**30:.1f} GiB{limited}")


def _first_word(*names: str) -> str | None:
    """First word of the first of these files under /sys/fs/cgroup that exists."""
    for name in names:
        try:
            return (Path("/sys/fs/cgroup") / name).read_text().split()[0]
        except (OSError, IndexError):
            continue
    return None


def _cpu_quota() -> float | None:
    """Cores that the control group allows (version 2, else 1), None: no limit."""
    try:
        quota, period = (Path("/sys/fs/cgroup/cpu.max")).read_text().split()
    except (OSError, ValueError):
        quota, period = _first_word("cpu/cpu.cfs_quota_us") or "max", _first_word("cpu/cpu.cfs_period_us") or "100000"
    return None if quota in ("max", "-1") else int(quota) / int(period)


def _memory_limit() -> int | None:
    """Bytes that the control group allows, None: no limit."""
    text = _first_word("memory.max", "memory/memory.limit_in_bytes")
    return None if text is None or text == "max" else int(text)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _packages() -> Iterator[Finding]:
    found = {name: _installed(name) for name in REQUIRED}
    yield Finding("packages", ", ".join(f"{name} {v}" for name, v in found.items() if v))
    for name, installed in found.items():
        if installed is None:
            yield Finding(name, "missing", "problem", f"pip install {name}")
    for name, (extra, purpose) in OPTIONAL.items():
        installed = _installed(name)
        status: Status = "ok" if installed else "optional"
        yield Finding(name, installed or "not installed", status, "" if installed else f"pip install 'mdsim[{extra}]': {purpose}")


def _openmm() -> Iterator[Finding]:
    from mdsim.forcefield.platforms import openmm_platforms

    yield Finding("OpenMM platforms", ", ".join(openmm_platforms()))


def _hdf5() -> Iterator[Finding]:
    import h5py

    yield Finding("HDF5", f"{h5py.version.hdf5_version} in h5py {h5py.__version__}")


def _mpi() -> Iterator[Finding]:
    """Looks, without starting MPI: importing mpi4py would."""
    launcher, binding = shutil.which("mpirun") or shutil.which("srun"), _installed("mpi4py")
    if launcher:
        yield Finding("MPI launcher", launcher)
    else:
        yield Finding("MPI launcher", "no mpirun or srun", "optional", "apt-get install openmpi-bin libopenmpi-dev")
    if binding:
        yield Finding("mpi4py", binding)
    else:
        yield Finding("mpi4py", "not installed", "optional", "pip install 'mdsim[mpi]'")


def _gpu() -> Iterator[Finding]:
    devices = _nvidia_devices()
    for device in devices:
        yield Finding("GPU", device)
    if not devices:
        yield Finding("GPU", "none found (nvidia-smi)", "optional", "not needed: the CPU backend computes")
    cupy = next((f"{name} {v}" for name in ("cupy-cuda13x", "cupy-cuda12x") if (v := _installed(name))), None)
    if cupy:
        yield Finding("CuPy", cupy)
    elif devices:
        yield Finding("CuPy", "not installed", "optional", "pip install 'mdsim[gpu]', or 'mdsim[gpu12]' for a CUDA 12 driver")


def _nvidia_devices() -> list[str]:
    """Name, memory and driver of each GPU, as nvidia-smi has them."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    query = [command, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        result = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in result.stdout.splitlines() if line.strip()]


def _directories() -> Iterator[Finding]:
    """The cache of compiled kernels must be writable, or each start compiles for minutes."""
    from mdsim.backends import cache

    directory = cache.configure()
    if directory is not None and _writable(directory):
        yield Finding("kernel cache", str(directory))
    else:
        remedy = "each start compiles anew: set NUMBA_CACHE_DIR or XDG_CACHE_HOME to a writable directory"
        yield Finding("kernel cache", f"{directory or 'its directory'} is not writable", "problem", remedy)


def _writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False
