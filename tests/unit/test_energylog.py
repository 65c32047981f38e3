"""The energy log, as text and as columns."""

import csv
import os

import h5py
import numpy as np
import pytest
from io_samples import CUBIC, ISOLATED, small_system, snapshot

from mdsim.errors import OutputError
from mdsim.io.energylog import BUFFERED_ROWS, EnergyLog

_, POSITIONS = small_system()
TERMS = ("bonds", "lj", "coulomb")
N = BUFFERED_ROWS + 6


def fill(log, steps):
    for step in steps:
        log.append(snapshot(POSITIONS, CUBIC, step, 0.002 * step))


def text_rows(directory):
    with open(directory / "energies.csv", newline="") as file:
        return list(csv.DictReader(file))


def columns(directory):
    with h5py.File(directory / "energies.h5") as file:
        return {name: file[name][()] for name in file}


def test_both_files_hold_the_same_numbers(tmp_path):
    log = EnergyLog(tmp_path, TERMS, total_mass=1000.0)
    fill(log, range(N))
    log.close()
    rows, data = text_rows(tmp_path), columns(tmp_path)
    assert len(rows) == N
    assert data["step"].tolist() == list(range(N))
    assert np.allclose(data["time"], 0.002 * np.arange(N))
    assert np.allclose(data["potential"], 10.0 - 20.5 - 100.25 + np.arange(N))
    assert np.allclose(data["total"], data["potential"] + 55.5)
    assert np.allclose(data["temperature"], 300.0 + np.arange(N))
    assert np.allclose(data["volume"], 27.0)
    assert np.allclose(data["density"], 1000.0 * 1.66053907 / 27.0 / 1000.0)  # amu/nm^3 in g/cm^3
    assert np.allclose(data["conserved"], -54.0)
    assert np.allclose(data["bonds"], 10.0 + np.arange(N))
    units = {"step": "step", "time": "time (ps)", "temperature": "temperature (K)", "volume": "volume (nm^3)"}
    units |= {"density": "density (g/cm^3)"} | {name: f"{name} (kJ/mol)" for name in (*TERMS, "potential", "kinetic")}
    for name, header in units.items():
        assert np.allclose([float(row[header]) for row in rows], data[name], atol=1e-6), name
    with h5py.File(tmp_path / "energies.h5") as file:
        assert (file["potential"].attrs["unit"], file["volume"].attrs["unit"]) == ("kJ/mol", "nm^3")
        assert file["potential"].maxshape == (None,)


def test_text_is_there_at_once_and_columns_after_sync(tmp_path):
    log = EnergyLog(tmp_path, TERMS)
    fill(log, range(3))
    assert len(text_rows(tmp_path)) == 3
    log.sync()
    assert columns(tmp_path)["step"].tolist() == [0, 1, 2]
    log.close()


def test_resume_cuts_what_the_checkpoint_does_not_count(tmp_path):
    log = EnergyLog(tmp_path, TERMS)
    fill(log, range(N))
    log.close()
    with open(tmp_path / "energies.csv", "a") as file:
        file.write("999,1.0,-3")  # half a line, by a writer that was killed
    log = EnergyLog(tmp_path, TERMS, n_rows=5)
    fill(log, range(5, 8))
    assert log.n_rows == 8
    log.close()
    assert [int(row["step"]) for row in text_rows(tmp_path)] == list(range(8))
    assert columns(tmp_path)["step"].tolist() == list(range(8))


def test_resume_before_the_first_row(tmp_path):
    log = EnergyLog(tmp_path, TERMS)
    fill(log, range(2))
    log.close()
    log = EnergyLog(tmp_path, TERMS, n_rows=0)
    fill(log, [7])
    log.close()
    assert [int(row["step"]) for row in text_rows(tmp_path)] == [7]
    assert columns(tmp_path)["step"].tolist() == [7]


def test_without_a_box_there_is_no_volume(tmp_path):
    log = EnergyLog(tmp_path, TERMS, total_mass=1000.0)
    log.append(snapshot(POSITIONS, ISOLATED))
    log.close()
    row = text_rows(tmp_path)[0]
    assert (row["volume (nm^3)"], row["density (g/cm^3)"]) == ("", "")
    assert np.isnan(columns(tmp_path)["volume"][0])


def test_a_full_disk_is_an_error_for_people(tmp_path):
    log = EnergyLog(tmp_path, TERMS)
    os.dup2(full := os.open("/dev/full", os.O_WRONLY), log._text._file.fileno())
    os.close(full)
    with pytest.raises(OutputError, match=r"energies.csv cannot be written: No space left"):
        fill(log, [0])


def test_nothing_is_overwritten_and_missing_rows_are_named(tmp_path):
    with pytest.raises(OutputError, match="is gone"):
        EnergyLog(tmp_path, TERMS, n_rows=3)
    log = EnergyLog(tmp_path, TERMS)
    fill(log, range(2))
    log.close()
    with pytest.raises(OutputError, match="not overwritten"):
        EnergyLog(tmp_path, TERMS)
    with pytest.raises(OutputError, match="fewer rows than the 3"):
        EnergyLog(tmp_path, TERMS, n_rows=3)
    with pytest.raises(OutputError, match="other columns"):
        EnergyLog(tmp_path, ("bonds",), n_rows=1)
    (tmp_path / "energies.csv").write_text("step,time\n1,2\n")
    with pytest.raises(OutputError, match="other columns"):
        EnergyLog(tmp_path, TERMS, n_rows=1)
