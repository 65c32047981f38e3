"""The command line: exit codes, one line of explanation, never a traceback."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mdsim import cli
from mdsim.errors import InputError, OutputError, SimulationError, UnsupportedError

ROOT = Path(__file__).parents[2]


def invoke(*arguments: str):
    return CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)


def raising(error: BaseException):
    def action() -> int:
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code"), [(InputError("x"), 2), (UnsupportedError("x"), 3), (SimulationError("x"), 4), (OutputError("x"), 5)]
)
def test_each_error_has_its_exit_code(error, code, capsys):
    assert cli._exit_code(raising(error)) == code
    assert capsys.readouterr().err == "error: x\n"


def test_unexpected_error_is_one_line_and_a_file(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(cli.tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("MDSIM_DEBUG", raising=False)
    assert cli._exit_code(raising(ZeroDivisionError("division by zero"))) == 70
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    log = Path(re.search(r"are in (\S+)\)", message)[1])
    assert log.parent == tmp_path
    assert "ZeroDivisionError: division by zero" in log.read_text()


def test_debugging_shows_the_traceback(monkeypatch):
    monkeypatch.setenv("MDSIM_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli._exit_code(raising(ZeroDivisionError()))


def test_interrupt(capsys):
    assert cli._exit_code(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


@pytest.mark.parametrize("command", ["run", "check", "compare", "bench"])
def test_missing_input_file(command):
    result = invoke(command, "no/such/input.yaml")
    assert result.exit_code == 2
    assert result.stderr == "error: there is no input file no/such/input.yaml\n"


@pytest.mark.parametrize("command", ["run", "check", "compare", "bench"])
def test_mistaken_override(command):
    result = invoke(command, str(ROOT / "inputs" / "villin.yaml"), "--set", "dynamics.integrator.timestep=2")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "write for instance '2 fs'" in result.stderr


def test_usage_errors():
    assert invoke("run").exit_code == 2
    assert invoke("rnu", "x.yaml").exit_code == 2
    assert invoke("run", "x.yaml", "--steps", "many").exit_code == 2


def test_version_and_schema():
    from mdsim import __version__

    assert invoke("--version").stdout == f"mdsim {__version__}\n" == invoke("version").stdout
    assert '"$schema"' in invoke("schema").stdout


def test_a_reader_that_hangs_up_is_no_error():
    command = f"{sys.executable} -m mdsim.cli schema | head -c 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.stderr == ""


def test_doctor():
    result = invoke("doctor")
    assert result.exit_code == 0, result.stdout
    for topic in ("processor", "pair kernel", "fused multiply-add", "cores", "packages", "HDF5", "mpi4py", "GPU", "kernel cache"):
        assert re.search(rf"^(ok|--|!!)\s+{topic}\s+\S", result.stdout, re.M), topic


def test_doctor_tells_what_is_missing(monkeypatch):
    from mdsim import doctor

    monkeypatch.setattr(doctor, "_installed", lambda name: None)
    findings = {f.topic: f for f in doctor.collect()}
    assert findings["numpy"].status == "problem"
    assert findings["numpy"].remedy == "pip install numpy"
    assert findings["mpi4py"].remedy == "pip install 'mdsim[mpi]'"


def test_doctor_survives_a_check_that_breaks(monkeypatch):
    from mdsim import doctor

    def broken():
        raise OSError("no such device")

    monkeypatch.setattr(doctor, "_openmm", broken)
    findings = list(doctor.collect())
    assert any(f.topic == "broken" and "no such device" in f.value and f.status == "problem" for f in findings)
    assert findings[-1].topic == "kernel cache"


def test_doctor_reads_control_groups(monkeypatch):
    from mdsim import doctor

    files = {"cpu.max": "150000 100000", "memory.max": "1073741824"}
    monkeypatch.setattr(doctor.Path, "read_text", lambda path, *a, **k: files[path.name])
    assert doctor._cpu_quota() == 1.5
    assert doctor._memory_limit() == 2**30
    files.update({"cpu.max": "max 100000", "memory.max": "max"})
    assert doctor._cpu_quota() is None
    assert doctor._memory_limit() is None
