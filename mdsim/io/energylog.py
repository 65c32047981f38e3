"""The energy log: one row a report, as text to look at (energies.csv) and as columns to compute with (energies.h5)."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from io import BufferedRandom, FileIO
from pathlib import Path

import h5py
import numpy as np

from mdsim.errors import OutputError
from mdsim.io.durable import create_hdf5
from mdsim.io.growing import GrowingFile
from mdsim.state import Snapshot

#: g/cm^3 in one amu/nm^3
AMU_PER_NM3 = 1.66053906660e-3
#: name and unit of the columns before the energy terms
COLUMNS = (
    ("step", ""),
    ("time", "ps"),
    ("potential", "kJ/mol"),
    ("kinetic", "kJ/mol"),
    ("total", "kJ/mol"),
    ("temperature", "K"),
    ("volume", "nm^3"),
    ("density", "g/cm^3"),
    ("conserved", "kJ/mol"),
)
#: rows kept in memory before they go to the HDF5 file (the text file gets each at once)
BUFFERED_ROWS = 64
CHUNK_ROWS = 1024


def energy_row(snapshot: Snapshot, terms: Sequence[str], total_mass: float | None) -> list[float]:
    """The values of ``COLUMNS`` and of ``terms``; NaN for what does not apply."""
    energies = snapshot.energies or {}
    potential = math.fsum(energies.values())
    kinetic = math.nan if snapshot.kinetic_energy is None else snapshot.kinetic_energy
    volume = snapshot.box.volume if snapshot.box.periodic else math.nan
    return [
        snapshot.step,
        snapshot.time,
        potential,
        kinetic,
        potential + kinetic,
        math.nan if snapshot.temperature is None else snapshot.temperature,
        volume,
        math.nan if total_mass is None else total_mass / volume * AMU_PER_NM3,
        math.nan if snapshot.conserved is None else snapshot.conserved,
        *(energies.get(term, math.nan) for term in terms),
    ]


class EnergyLog:
    """Both files of one log. ``n_rows`` is None for a new log, and on resuming the rows that the checkpoint counts."""

    def __init__(
        self, directory: str | Path, terms: Sequence[str], total_mass: float | None = None, n_rows: int | None = None
    ) -> None:
        self.terms, self.total_mass = tuple(terms), total_mass
        columns = (*COLUMNS, *((term, "kJ/mol") for term in self.terms))
        self._text = _TextLog(Path(directory) / "energies.csv", columns, n_rows)
        self._columns = _ColumnLog(Path(directory) / "energies.h5", columns, n_rows)
        self.n_rows = n_rows or 0

    def append(self, snapshot: Snapshot) -> None:
        row = energy_row(snapshot, self.terms, self.total_mass)
        self._text.append(row)
        self._columns.append(row)
        self.n_rows += 1

    def sync(self) -> None:
        """Have all rows on the disk."""
        self._text.sync()
        self._columns.sync()

    def close(self) -> None:
        self._text.close()
        self._columns.close()


class _TextLog:
    """Comma-separated values, a header with units, each line handed to the operating system at once."""

    def __init__(self, path: Path, columns: Sequence[tuple[str, str]], n_rows: int | None) -> None:
        self.path = path
        self.header = ",".join(f"{name} ({unit})" if unit else name for name, unit in columns) + "\n"
        if n_rows is not None:
            self._cut(n_rows)
        elif path.exists():
            raise OutputError(f"{path} exists and is not overwritten; choose another output directory")
        self._file = self._opened("ab")
        if n_rows is None:
            self._write(self.header)

    def _opened(self, mode: str) -> FileIO:
        try:
            return FileIO(self.path, mode)
        except OSError as error:
            raise OutputError(f"{self.path} cannot be opened: {error.strerror}") from error

    def _cut(self, n_rows: int) -> None:
        """Drop what follows the first ``n_rows`` rows, half a line of a killed writer included."""
        if not self.path.exists():
            raise OutputError(f"{self.path} is gone, and the checkpoint beside it says that it held {n_rows} rows")
        with BufferedRandom(self._opened("rb+")) as file:
            lines = [file.readline() for _ in range(n_rows + 1)]
            if lines[0] != self.header.encode():
                raise OutputError(f"{self.path} has other columns than this run; choose another output directory")
            if not lines[-1].endswith(b"\n"):
                raise OutputError(
                    f"{self.path} holds fewer rows than the {n_rows} of the checkpoint beside it; it was changed or replaced"
                )
            file.truncate(file.tell())

    def append(self, row: Sequence[float]) -> None:
        step, time, *values = row
        cells = ["" if math.isnan(v) else f"{v:.6f}" for v in values]
        self._write(",".join([str(int(step)), f"{time:.6f}", *cells]) + "\n")

    def _write(self, line: str) -> None:
        """Hand a line to the operating system: unbuffered, so that nothing is left to fail again at ``close``."""
        try:
            rest = memoryview(line.encode())
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
        except OSError as error:
            raise OutputError(f"{self.path} cannot be written: {error.strerror}") from error

    def sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutputError(f"{self.path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        self._file.close()


class _ColumnLog:
    """One growing dataset a column, in an HDF5 file of its own."""

    def __init__(self, path: Path, columns: Sequence[tuple[str, str]], n_rows: int | None) -> None:
        self.names = [name for name, _ in columns]
        if n_rows is None:
            _create_columns(path, columns)
        elif not path.exists():
            raise OutputError(f"{path} is gone, and the checkpoint beside it says that it held {n_rows} rows")
        self._growing = GrowingFile(path)
        with self._growing.checked():
            self._resize(n_rows or 0)
            self._growing.start()
        self._rows: list[Sequence[float]] = []

    def _resize(self, n_rows: int) -> None:
        file = self._growing.file
        if set(file) != set(self.names):
            raise OutputError(f"{self._growing.path} has other columns than this run; choose another output directory")
        self._growing.check_rows([file[name] for name in self.names], n_rows)
        held = min(file[name].shape[0] for name in self.names)
        if held < n_rows:
            raise OutputError(
                f"{self._growing.path} holds {held} rows, and the checkpoint beside it says {n_rows}; it was changed or replaced"
            )
        for name in self.names:
            file[name].resize(n_rows, axis=0)

    def append(self, row: Sequence[float]) -> None:
        self._rows.append(row)
        if len(self._rows) >= BUFFERED_ROWS:
            self._write()

    def _write(self) -> None:
        if not self._rows:
            return
        self._growing.reserve(8 * len(self.names) * CHUNK_ROWS)
        with self._growing.writing():
            for name, column in zip(self.names, zip(*self._rows, strict=True), strict=True):
                dataset = self._growing.file[name]
                n = dataset.shape[0]
                dataset.resize(n + len(column), axis=0)
                dataset[n:] = column
        self._rows.clear()
        self._growing.flush()

    def sync(self) -> None:
        self._write()
        self._growing.sync()

    def close(self) -> None:
        if self._growing.file:
            self._write()
        self._growing.close()


def _create_columns(path: Path, columns: Sequence[tuple[str, str]]) -> None:
    def fill(file: h5py.File) -> None:
        for name, unit in columns:
            dtype = np.int64 if name == "step" else np.float64
            dataset = file.create_dataset(name, shape=(0,), maxshape=(None,), chunks=(CHUNK_ROWS,), dtype=dtype)
            if unit:
                dataset.attrs["unit"] = unit

    create_hdf5(path, fill)
