"""Reporters are due when they say, and together they survive a kill and resume without a duplicate."""

import io
import shutil

import h5py
import numpy as np
import pytest
from io_samples import CUBIC, moved, small_system, snapshot, source

from mdsim.errors import InputError
from mdsim.io.checkpoint import load_checkpoint
from mdsim.io.h5md import TrajectorySettings
from mdsim.reporters import CallbackReporter, CheckpointReporter, EnergyReporter, ProgressReporter, TrajectoryReporter
from mdsim.reporters.progress import Speed, readable_time

TOPOLOGY, POSITIONS = small_system()
TERMS = ("bonds", "lj", "coulomb")


def serve(reporters, start, end):
    """What the engine does, with made-up snapshots."""
    step = start
    while (step := min(r.next_step(step) for r in reporters)) <= end:
        s = snapshot(moved(POSITIONS, step), CUBIC, step, 0.002 * step)
        for r in reporters:
            if r.next_step(step - 1) == step:
                r.report(s)


def run_directory(path, resumed=None):
    counts = resumed.counts if resumed else {}
    trajectory = TrajectoryReporter(path / "trajectory.h5md", 10, source(TOPOLOGY), n_frames=counts.get("trajectory"))
    energies = EnergyReporter(path, 4, TERMS, n_rows=counts.get("energies"))
    saver = CheckpointReporter(path, [trajectory, energies], 25, settings={"seed": 1})
    return [trajectory, energies, saver]


def test_due_steps_are_absolute_multiples():
    reporter = CallbackReporter(print, 10)
    assert [reporter.next_step(s) for s in (-1, 0, 3, 9, 10, 11)] == [0, 10, 10, 10, 20, 20]


def test_callback_gets_the_snapshot():
    seen = []
    serve([CallbackReporter(lambda s: seen.append((s.step, s.temperature)), 5, {"energies"})], 0, 12)
    assert seen == [(5, 305.0), (10, 310.0)]


def test_bad_reporters_are_refused():
    with pytest.raises(InputError, match="at least 1 step"):
        CallbackReporter(print, 0)
    with pytest.raises(InputError, match="cannot need charges"):
        CallbackReporter(print, 1, {"charges"})
    with pytest.raises(InputError, match="need an interval"):
        CheckpointReporter(".", [])


def test_a_reporter_needs_what_its_file_holds(tmp_path):
    plain = TrajectoryReporter(tmp_path / "a.h5md", 1, source(TOPOLOGY))
    full = TrajectoryReporter(tmp_path / "b.h5md", 1, source(TOPOLOGY), TrajectorySettings(velocities=True, forces=True))
    assert plain.needs == {"positions"}
    assert full.needs == {"positions", "velocities", "forces"}
    plain.close()
    full.close()


def test_what_was_written_after_the_checkpoint_is_written_once(tmp_path):
    reporters = run_directory(tmp_path)
    serve(reporters, 0, 47)  # stopped at 47, two frames and five rows after the checkpoint at 25
    for r in reporters:
        r.sync()
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path, killed)  # what a kill would leave
    saved = load_checkpoint(killed)
    assert (saved.step, saved.counts) == (25, {"trajectory": 2, "energies": 6})
    assert saved.extra["chain"].tolist() == [0.0, 1.0, 2.0]
    resumed = run_directory(killed, saved)
    serve(resumed, saved.step, 60)
    for r in resumed + reporters:
        r.close()
    with h5py.File(killed / "trajectory.h5md") as file:
        assert file["particles/trajectory/position/step"][()].tolist() == list(range(10, 61, 10))
    with h5py.File(killed / "energies.h5") as file:
        assert file["step"][()].tolist() == list(range(4, 61, 4))
    rows = np.loadtxt(killed / "energies.csv", delimiter=",", skiprows=1, usecols=0)
    assert rows.tolist() == list(range(4, 61, 4))


def test_outputs_are_on_the_disk_before_the_checkpoint_that_counts_them(tmp_path, monkeypatch):
    happened = []

    class Output(CallbackReporter):
        def count(self):
            return 7

        def sync(self):
            happened.append("sync")

    monkeypatch.setattr("mdsim.reporters.files.save_checkpoint", lambda _, c: happened.append(c.counts))
    CheckpointReporter(tmp_path, [Output(print, 1, name="mine")], 1).report(snapshot(POSITIONS, CUBIC))
    assert happened == ["sync", {"mine": 7}]


def test_checkpoints_by_the_clock(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("mdsim.reporters.files.time.monotonic", lambda: now[0])
    saver = CheckpointReporter(tmp_path, [], interval=1000, wall_interval=60.0)
    assert saver.next_step(5) == 1000
    now[0] = 161.0
    assert saver.next_step(5) == 6
    saver.report(snapshot(POSITIONS, CUBIC, step=6))
    assert saver.last_step == 6
    assert saver.next_step(6) == 1000


def test_plain_progress_lines():
    out = io.StringIO()
    progress = ProgressReporter(10, 25, stream=out, line_seconds=0.0)
    progress.start(0, 0.0)
    serve([progress], 0, 25)
    lines = out.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["10", "20", "25"]
    assert all("of 25" in line and " ps" in line and " K" in line for line in lines)
    assert "ns/day" not in lines[0]  # until then kernels were loaded
    assert all("ns/day" in line for line in lines[1:])
    assert "left" in lines[1]
    assert "left" not in lines[-1]


def test_lines_are_not_printed_too_often_but_the_last_is():
    out = io.StringIO()
    serve([ProgressReporter(10, 95, stream=out, line_seconds=3600.0)], 0, 95)
    assert [line.split()[1] for line in out.getvalue().splitlines()] == ["10", "95"]


def test_a_bar_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    progress = ProgressReporter(10, 20, stream=out)
    progress.start(0, 0.0)
    serve([progress], 0, 20)
    progress.close()
    assert "step 20/20" in out.getvalue()
    assert "100%" in out.getvalue()


def test_progress_without_temperature_needs_no_energies():
    assert ProgressReporter(10, 20, temperature=False).needs == frozenset()


def test_speed_by_a_known_clock():
    now = [0.0]
    speed = Speed(lambda: now[0])
    speed.mark(0, 0.0)
    assert speed.ns_per_day is None
    now[0] = 10.0
    speed.mark(500, 1.0)  # 1 ps in 10 s
    assert speed.ns_per_day == pytest.approx(8.64)
    assert speed.seconds_to(1500) == pytest.approx(20.0)


def test_times_as_people_write_them():
    assert [readable_time(s) for s in (5.2, 200, 18420, 183600)] == ["5 s", "3 min 20 s", "5 h 07 min", "2 d 03 h"]
