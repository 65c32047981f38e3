"""A result directory belongs to one input and one process, and says how its run stands."""

import json
import os
import signal
import subprocess
import sys

import pytest

from mdsim.errors import OutputError
from mdsim.io.results import FINISHED, INTERRUPTED, MANIFEST, PREPARING, ResultDirectory

SETTINGS = {"dynamics.timestep": 0.002, "system.coordinates": "a.pdb", "list": [1, 2]}


def test_a_new_directory_gets_a_manifest(tmp_path):
    path = tmp_path / "deep" / "results"
    with ResultDirectory(path, SETTINGS, {"title": "x"}) as results:
        assert not results.resumed
        assert not results.finished
    manifest = json.loads((path / MANIFEST).read_text())
    assert manifest["settings"] == SETTINGS
    assert manifest["details"] == {"title": "x"}
    assert manifest["status"] == PREPARING
    assert set(manifest["versions"]) >= {"mdsim", "numpy", "h5py", "python"}


def test_the_same_input_goes_on_and_a_finished_run_says_so(tmp_path):
    with ResultDirectory(tmp_path, SETTINGS) as results:
        results.set_status(INTERRUPTED, 70, "SIGTERM")
    with ResultDirectory(tmp_path, {**SETTINGS, "list": (1, 2)}) as results:
        assert results.resumed
        assert not results.finished
        assert "interrupted at step 70" in results.describe()
        results.set_status(FINISHED, 100)
    with ResultDirectory(tmp_path, SETTINGS) as results:
        assert results.finished
        assert "finished at step 100" in results.describe()


def test_another_input_is_refused_by_key(tmp_path):
    ResultDirectory(tmp_path, SETTINGS).close()
    before = (tmp_path / MANIFEST).read_bytes()
    with pytest.raises(OutputError, match=r"dynamics.timestep was '0.002', now '0.004'; seed was not set, now '3'"):
        ResultDirectory(tmp_path, {**SETTINGS, "dynamics.timestep": 0.004, "seed": 3})
    assert (tmp_path / MANIFEST).read_bytes() == before
    ResultDirectory(tmp_path, SETTINGS).close()  # the refused one kept no lock


@pytest.mark.parametrize("name", ["trajectory.h5md", "checkpoint.h5", "energies.csv"])
def test_files_without_a_manifest_are_not_overwritten(tmp_path, name):
    (tmp_path / name).write_bytes(b"precious")
    with pytest.raises(OutputError, match=f"{name} but no manifest"):
        ResultDirectory(tmp_path, SETTINGS)
    assert (tmp_path / name).read_bytes() == b"precious"


def test_a_broken_manifest_is_an_error_for_people(tmp_path):
    (tmp_path / MANIFEST).write_text('{"settings": ')
    with pytest.raises(OutputError, match="cannot be read"):
        ResultDirectory(tmp_path, SETTINGS)


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        ResultDirectory(tmp_path / "file" / "results", SETTINGS)


def test_two_processes_cannot_write_one_directory(tmp_path):
    code = (
        "import sys; from mdsim.io.results import ResultDirectory\n"
        f"r = ResultDirectory({str(tmp_path)!r}, {SETTINGS!r}); print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(OutputError, match=f"is being written by process {process.pid} on {os.uname().nodename}"):
            ResultDirectory(tmp_path, SETTINGS)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with ResultDirectory(tmp_path, SETTINGS) as results:  # the lock went with the process
        assert results.resumed
