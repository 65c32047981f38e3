"""A trajectory can be read while it grows and after its writer was killed, and is resumed without a duplicate frame."""

import errno
import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pytest
from io_samples import TRICLINIC, moved, small_system, snapshot, source

from mdsim.errors import OutputError
from mdsim.io.growing import lookup3, repair, writer_mark
from mdsim.io.h5md import TrajectorySettings, TrajectoryWriter, open_trajectory
from mdsim.io.h5md_layout import SMALL_CHUNK_FRAMES
from mdsim.io.size import estimate_size, readable_bytes

TOPOLOGY, POSITIONS = small_system()
EVERYTHING = TrajectorySettings(velocities=True, forces=True)
HERE = Path(__file__).parent


def frame(k):
    return snapshot(moved(POSITIONS, k), TRICLINIC, step=10 * k, time=0.02 * k)


@contextmanager
def writer_process(path, mode):
    """io_writer.py as a process, killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, HERE / "io_writer.py", path, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def assert_sound(path, least=0):
    """The frames that readers count are whole and in order; how many there are."""
    mda = pytest.importorskip("MDAnalysis")
    with h5py.File(path, "r") as file:
        group = file["particles/trajectory"]
        n = len(file["coordinates"])
        others = ("position/time", "velocity/value", "force/value", "box/edges/value")
        assert all(len(group[name]) >= n for name in others)
        assert group["position/step"][:n].tolist() == [10 * k for k in range(n)]
        assert np.allclose(group["position/time"][:n], 0.02 * np.arange(n))
        assert all(np.abs(x).max() > 0.1 for x in file["coordinates"])
        assert all(np.abs(v).max() > 0.1 for v in group["velocity/value"][:n])
    assert n >= least
    if n:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with mda.Universe(path).trajectory as trajectory:
                assert [ts.data["step"] for ts in trajectory] == [10 * k for k in range(n)]
    return n


def test_readers_follow_a_file_that_grows(tmp_path):
    path = tmp_path / "t.h5md"
    with writer_process(path, "steps") as process:
        assert process.stdout.readline() == "ready\n"

        def written():
            process.stdin.write("append\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        for n in (1, 2, 3):
            assert written() == n
            assert assert_sound(path) == n  # readers that know nothing of SWMR, opening the file anew
        with open_trajectory(path) as file:  # one that stays
            position = file["particles/trajectory/position/value"]
            for n in (4, 5, 6):
                assert written() == n
                position.refresh()
                assert len(position) == n
                assert np.abs(position[n - 1]).max() > 0.1


def test_mdtraj_and_pyh5md_read_what_a_killed_writer_left(tmp_path):
    mdtraj, pyh5md = pytest.importorskip("mdtraj"), pytest.importorskip("pyh5md")
    pytest.importorskip("tables")
    path = tmp_path / "t.h5md"
    with writer_process(path, "steps") as process:
        process.stdout.readline()
        for _ in range(3):
            process.stdin.write("append\n")
            process.stdin.flush()
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert assert_sound(path) == 3
    assert len(mdtraj.load_hdf5(str(path))) == 3
    with pyh5md.File(path, "r") as file:
        element = pyh5md.element(file.particles_group("trajectory"), "position")
        assert (len(element.value), element.step[:].tolist()) == (3, [0, 10, 20])


@pytest.mark.parametrize("delay", [0.05, 0.21, 0.43, 0.77])
def test_kill_at_any_moment_then_read_and_resume(tmp_path, delay):
    path = tmp_path / "t.h5md"
    with writer_process(path, "loop") as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
    if writer_mark(path):  # killed in the few microseconds in which the mark is on the disk
        repair(path)
    n = assert_sound(path, least=1)
    keep = n // 2
    writer = TrajectoryWriter.resume(path, source(TOPOLOGY), EVERYTHING, keep)
    for k in range(keep, keep + 3):
        writer.append(frame(k))
    writer.close()
    assert assert_sound(path) == keep + 3


def test_a_mark_left_on_the_disk_is_cleared_by_resuming(tmp_path):
    path = tmp_path / "t.h5md"
    with writer_process(path, "die-marked") as process:
        assert process.wait() == -signal.SIGKILL
    assert writer_mark(path) != 0
    with pytest.raises(OSError, match="already open"):
        h5py.File(path, "r")
    TrajectoryWriter.resume(path, source(TOPOLOGY), EVERYTHING, 3).close()
    assert assert_sound(path) == 3


def test_clearing_the_mark_changes_nothing_else(tmp_path):
    path = tmp_path / "t.h5md"
    with writer_process(path, "die-marked") as process:
        process.wait()
    before = path.read_bytes()
    assert repair(path)
    assert not repair(path)
    after = path.read_bytes()
    assert before[48:] == after[48:]
    assert [k for k in range(44) if before[k] != after[k]] == [11]
    assert assert_sound(path) in (3, 4)


def test_a_write_that_fails_is_explained_and_loses_no_frame(tmp_path, monkeypatch):
    path = tmp_path / "t.h5md"
    writer = TrajectoryWriter.create(path, source(TOPOLOGY), EVERYTHING)
    for k in range(3):
        writer.append(frame(k))

    def fail(dataset, value):
        raise OSError("write failed,\n errno = 5")

    monkeypatch.setattr("mdsim.io.h5md._append", fail)
    with pytest.raises(OutputError, match=r"cannot be written; .* write failed, errno = 5"):
        writer.append(frame(3))
    writer.close()
    assert writer_mark(path) == 0
    assert assert_sound(path) == 3


def test_a_full_disk_loses_no_frame(tmp_path, monkeypatch):
    path = tmp_path / "t.h5md"
    writer = TrajectoryWriter.create(path, source(TOPOLOGY), EVERYTHING)
    for k in range(3):
        writer.append(frame(k))

    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", no_space)
    with pytest.raises(OutputError, match="cannot be written: No space left"):
        writer.append(frame(3))
    writer.close()
    monkeypatch.undo()
    assert writer_mark(path) == 0
    assert assert_sound(path) == 3
    writer = TrajectoryWriter.resume(path, source(TOPOLOGY), EVERYTHING, 3)
    writer.append(frame(3))
    writer.close()
    assert assert_sound(path) == 4


def test_a_file_shorter_than_it_says_is_made_whole(tmp_path):
    path = tmp_path / "t.h5md"
    writer = TrajectoryWriter.create(path, source(TOPOLOGY), EVERYTHING)
    writer.append(frame(0))
    writer.close()
    size = path.stat().st_size
    os.truncate(path, size - 8)
    with pytest.raises(OSError, match="truncated"):
        h5py.File(path, "r")
    assert repair(path)
    assert path.stat().st_size == size
    h5py.File(path, "r").close()


def test_checksum_is_jenkins_lookup3():
    assert lookup3(b"Four score and seven years ago") == 0x17770551  # the self-test of lookup3.c
    assert lookup3(b"") == 0xDEADBEEF


def test_resumed_file_equals_one_written_in_one_go(tmp_path):
    frames = [frame(k) for k in range(SMALL_CHUNK_FRAMES + 4)]
    once, twice = tmp_path / "once.h5md", tmp_path / "twice.h5md"
    writer = TrajectoryWriter.create(once, source(TOPOLOGY), EVERYTHING)
    for s in frames:
        writer.append(s)
    writer.close()
    writer = TrajectoryWriter.create(twice, source(TOPOLOGY), EVERYTHING)
    for s in frames[:-3]:
        writer.append(s)
    writer.close()
    keep = SMALL_CHUNK_FRAMES - 2
    writer = TrajectoryWriter.resume(twice, source(TOPOLOGY), EVERYTHING, keep)
    assert writer.n_frames == keep
    for s in frames[keep:]:
        writer.append(s)
    writer.close()
    with h5py.File(once) as a, h5py.File(twice) as b:
        names = []
        a.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        assert len(names) > 20
        for name in names:
            assert np.array_equal(a[name][()], b[name][()]), name


def test_a_reader_that_holds_the_file_does_not_stop_a_resume(tmp_path):
    path = tmp_path / "t.h5md"
    TrajectoryWriter.create(path, source(TOPOLOGY), EVERYTHING).close()
    hold = f"import h5py, sys; f = h5py.File({str(path)!r}, 'r'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "open\n"
        writer = TrajectoryWriter.resume(path, source(TOPOLOGY), EVERYTHING, 0)
        writer.append(frame(0))
        writer.close()
        reader.stdin.close()
        reader.wait()
    assert assert_sound(path) == 1


def test_the_same_process_can_look_at_its_own_file(tmp_path):
    path = tmp_path / "t.h5md"
    writer = TrajectoryWriter.create(path, source(TOPOLOGY), EVERYTHING)
    writer.append(frame(0))
    with open_trajectory(path) as file:
        assert len(file["coordinates"]) == 1
    assert assert_sound(path) == 1
    writer.append(frame(1))
    writer.close()
    assert assert_sound(path) == 2


def test_nothing_is_overwritten_and_errors_say_what_is_wrong(tmp_path):
    path = tmp_path / "t.h5md"
    with pytest.raises(OutputError, match="is gone"):
        TrajectoryWriter.resume(path, source(TOPOLOGY), EVERYTHING, 3)
    TrajectoryWriter.create(path, source(TOPOLOGY), EVERYTHING).close()
    with pytest.raises(OutputError, match="not overwritten"):
        TrajectoryWriter.create(path, source(TOPOLOGY), EVERYTHING)
    with pytest.raises(OutputError, match=r"holds 0 frames.*says 3"):
        TrajectoryWriter.resume(path, source(TOPOLOGY), EVERYTHING, 3)
    for settings in (TrajectorySettings(), TrajectorySettings(selection="solute", velocities=True, forces=True)):
        with pytest.raises(OutputError, match="another selection"):
            TrajectoryWriter.resume(path, source(TOPOLOGY), settings, 0)
    writer = TrajectoryWriter.resume(path, source(TOPOLOGY), EVERYTHING, 0)
    writer.append(frame(0))
    with pytest.raises(OutputError, match="still being written by this process"):
        TrajectoryWriter.resume(path, source(TOPOLOGY), EVERYTHING, 0)
    writer.close()
    path.write_bytes(b"not HDF5 at all" * 10)
    with pytest.raises(OutputError, match="not an HDF5 file"):
        TrajectoryWriter.resume(path, source(TOPOLOGY), EVERYTHING, 0)
    with pytest.raises(OutputError, match="cannot be read"):
        open_trajectory(path)
    with pytest.raises(OutputError, match="there is no trajectory"):
        open_trajectory(tmp_path / "none.h5md")


@pytest.mark.parametrize(
    "settings",
    [
        TrajectorySettings(),
        EVERYTHING,
        TrajectorySettings(precision=None, velocities=True, significant_bits=24, compression=1),
        TrajectorySettings(selection="solute", precision=0.01),
    ],
    ids=["default", "everything", "exact", "solute"],
)
@pytest.mark.parametrize("n_frames", [4, 60])
def test_size_is_estimated_within_a_fifth(tmp_path, settings, n_frames):
    topology, positions = small_system(n_waters=100)
    estimate = estimate_size(source(topology), settings, snapshot(positions, TRICLINIC, forget_images=True), n_frames)
    path = tmp_path / "t.h5md"
    writer = TrajectoryWriter.create(path, source(topology), settings)
    for k in range(n_frames):
        writer.append(snapshot(moved(positions, k), TRICLINIC, k, 0.01 * k))
    writer.close()
    assert estimate.total == pytest.approx(os.path.getsize(path), rel=0.2)


def test_size_is_said_in_readable_units():
    assert [readable_bytes(n) for n in (0, 999, 1000, 1.4e9, 2.5e15)] == ["0 bytes", "999 bytes", "1 kB", "1.4 GB", "2.5e+03 TB"]
