"""A run killed at random moments and started again by the same command ends with the same files as one left alone."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from mdsim.engine.run import REQUEUE
from mdsim.io.checkpoint import load_checkpoint

STEPS = 300
COMMAND = [
    sys.executable, "-m", "mdsim.cli", "run", "inputs/compare/alanine-dipeptide.yaml", "--threads", "1",
    "--set", f"dynamics.steps={STEPS}", "--set", "dynamics.minimize.max_steps=20",
    "--set", "dynamics.barostat={kind: isotropic, pressure: 1 bar, frequency: 25}",
    "--set", "output.trajectory.interval=10", "--set", "output.energies.interval=5",
    "--set", "output.checkpoint={interval: 15, wall_interval: null}",
]  # fmt: skip


def start(directory: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [*COMMAND, "--output", str(directory)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(directory: Path) -> str:
    process = start(directory)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("alone") / "run"
    finish(directory)
    return directory


def assert_same_results(one: Path, other: Path) -> None:
    assert (one / "energies.csv").read_bytes() == (other / "energies.csv").read_bytes()
    a, b = load_checkpoint(one), load_checkpoint(other)
    assert a.step == b.step == STEPS
    for name in ("positions", "images", "velocities"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert a.extra.keys() == b.extra.keys() and all(np.array_equal(a.extra[k], b.extra[k]) for k in a.extra)
    with h5py.File(one / "trajectory.h5md") as f, h5py.File(other / "trajectory.h5md") as g:
        for name in ("position/value", "position/step", "position/time", "box/edges/value"):
            x, y = (file[f"particles/trajectory/{name}"][()] for file in (f, g))
            assert np.array_equal(x, y), name
        assert len(f["particles/trajectory/position/step"]) == STEPS // 10 + 1


def wait_for_step(directory: Path, step: int, process: subprocess.Popen) -> None:
    """Until the energy log has passed ``step``."""
    log, deadline = directory / "energies.csv", time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        lines = log.read_text().splitlines()[1:] if log.exists() else []
        if lines and int(lines[-1].split(",")[0]) >= step:
            return
        time.sleep(0.005)
    raise AssertionError(f"step {step} not reached: {process.communicate()[0]}")


def test_kill_at_random_steps(left_alone, tmp_path):
    directory, rng = tmp_path / "run", random.Random(time.time_ns())
    for _ in range(int(os.environ.get("MDSIM_TEST_KILLS", "2"))):
        process = start(directory)
        done = load_checkpoint(directory) if directory.exists() else None
        wait_for_step(directory, rng.randrange(done.step if done else 0, STEPS - 20), process)
        process.kill()
        process.communicate()
    finish(directory)
    assert_same_results(left_alone, directory)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signal_checkpoints_and_asks_to_be_requeued(number, left_alone, tmp_path):
    directory = tmp_path / "run"
    process = start(directory)
    wait_for_step(directory, 60, process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == REQUEUE, output
    assert signal.Signals(number).name in output and "Traceback" not in output
    stopped_at = load_checkpoint(directory).step
    assert 60 <= stopped_at < STEPS
    again = finish(directory)
    assert f"going on from step {stopped_at}" in again
    assert_same_results(left_alone, directory)


def test_a_finished_run_is_left_alone(left_alone):
    before = {p.name: p.read_bytes() for p in left_alone.iterdir() if p.name != ".lock"}
    assert "nothing is left" in finish(left_alone)
    assert {p.name: p.read_bytes() for p in left_alone.iterdir() if p.name != ".lock"} == before


def test_a_changed_input_is_refused(left_alone):
    process = subprocess.run(
        [*COMMAND, "--output", str(left_alone), "--set", "dynamics.seed=2", "--set", f"dynamics.steps={STEPS + 100}"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (
        process.returncode == 5
        and "dynamics.seed was '1', now '2'" in process.stderr
        and "Traceback" not in process.stderr
    )
