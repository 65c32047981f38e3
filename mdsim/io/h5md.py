"""Trajectories: writing, resuming, reading, and how large they become. The format is described in docs/files.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from mdsim.box import Box
from mdsim.errors import InputError, OutputError
from mdsim.io.durable import LIBRARY_VERSIONS, create_hdf5
from mdsim.io.growing import GrowingFile
from mdsim.io.h5md_layout import GROUP, Layout, write_layout
from mdsim.io.imaging import Imager
from mdsim.io.rounding import FLOAT32_BITS, lattice_spacing, round_significand, round_to_lattice
from mdsim.io.selection import find_molecules, select_atoms, subset_topology
from mdsim.kernels.fixed_point import FORCE_SCALE
from mdsim.state import Snapshot
from mdsim.tables import CompiledSystem, NonbondedTable
from mdsim.topology import Topology


@dataclass(frozen=True)
class TrajectorySettings:
    """What of a run is kept, and how exactly."""

    selection: str | Sequence[int] | np.ndarray = "all"  # all, solute, protein, or atom indices
    precision: float | None = 1e-3  # nm; positions are off by at most half of it. None or 0: float32 as it is
    velocities: bool = False
    forces: bool = False
    significant_bits: int = 14  # of velocities and forces; 24 is all of float32
    compression: int = 4  # gzip level, 0 to 9

    def __post_init__(self) -> None:
        if self.precision is not None and not 0 <= self.precision < 1:
            raise InputError(f"trajectory precision must be a length from 0 to 1 nm, got {self.precision} nm")
        if not 2 <= self.significant_bits <= FLOAT32_BITS:
            raise InputError(f"trajectory significant_bits must be 2 to {FLOAT32_BITS}, got {self.significant_bits}")
        if self.compression not in range(10):
            raise InputError(f"trajectory compression must be a gzip level from 0 to 9, got {self.compression}")


@dataclass(frozen=True)
class TrajectorySource:
    """The system that frames come from, in global atom order."""

    topology: Topology
    periodic: bool
    masses: np.ndarray | None = None  # float64[n] amu
    charges: np.ndarray | None = None  # float64[n] e
    more_links: np.ndarray | None = None  # int32[:, 2] atoms of one molecule; used where no bond joins them
    provenance: Mapping[str, str] = field(default_factory=dict)  # attributes of /parameters/mdsim

    @classmethod
    def from_system(
        cls, system: CompiledSystem, topology: Topology, provenance: Mapping[str, str] | None = None
    ) -> TrajectorySource:
        """Masses, charges and what holds molecules together, out of the compiled system."""
        charges = [table.charge for table in system.forces if isinstance(table, NonbondedTable)]
        return cls(
            topology=topology,
            periodic=system.periodic,
            masses=system.masses,
            charges=charges[0] if charges else None,
            more_links=system.molecule_links,
            provenance=dict(provenance or {}),
        )


class FrameMaker:
    """Turns snapshots into what the file holds: chosen atoms, whole molecules, rounded float32."""

    def __init__(self, source: TrajectorySource, settings: TrajectorySettings) -> None:
        topology = source.topology
        molecules = find_molecules(topology, source.more_links)
        self.atoms = select_atoms(topology, molecules, settings.selection)
        self.imager = Imager(topology, self.atoms, molecules, source.more_links)
        self.layout = Layout(
            topology=subset_topology(topology, self.atoms),
            atoms=self.atoms,
            periodic=source.periodic,
            velocities=settings.velocities,
            forces=settings.forces,
            precision=settings.precision,
            lattice_spacing=lattice_spacing(settings.precision),
            significant_bits=settings.significant_bits,
            compression=settings.compression,
            masses=None if source.masses is None else source.masses[self.atoms],
            charges=None if source.charges is None else source.charges[self.atoms],
            provenance=source.provenance,
        )

    def positions(self, snapshot: Snapshot) -> np.ndarray:
        """float64[m, 3] nm: whole molecules in one box, solutes together."""
        s = _given(snapshot.positions, "positions")
        images = self.imager.images(s, snapshot.images, snapshot.box)
        return snapshot.box.cartesian(s[self.atoms], images)

    def frame(self, snapshot: Snapshot) -> dict[str, np.ndarray]:
        """float32[m, 3] by H5MD element name."""
        layout = self.layout
        frame = {"position": round_to_lattice(self.positions(snapshot), layout.lattice_spacing)}
        if layout.velocities:
            frame["velocity"] = round_significand(
                _given(snapshot.velocities, "velocities")[self.atoms], layout.significant_bits
            )
        if layout.forces:
            forces = _given(snapshot.forces, "forces")[self.atoms] / FORCE_SCALE
            frame["force"] = round_significand(forces, layout.significant_bits)
        return frame


def _given(array: np.ndarray | None, name: str) -> np.ndarray:
    if array is None:
        raise ValueError(f"the snapshot has no {name}, which the trajectory was set up to hold")
    return array


class TrajectoryWriter:
    """An H5MD file that grows by frames. Make one with ``create`` or ``resume``."""

    def __init__(self, growing: GrowingFile, maker: FrameMaker) -> None:
        self._growing, self._maker = growing, maker
        self._datasets = FrameDatasets(growing.file, maker.layout)
        self._started = False

    @classmethod
    def create(cls, path: str | Path, source: TrajectorySource, settings: TrajectorySettings) -> TrajectoryWriter:
        """A new file; refused where one is."""
        path = Path(path)
        maker = FrameMaker(source, settings)
        create_hdf5(path, lambda file: write_layout(file, maker.layout))
        return cls(GrowingFile(path), maker)

    @classmethod
    def resume(
        cls, path: str | Path, source: TrajectorySource, settings: TrajectorySettings, n_frames: int
    ) -> TrajectoryWriter:
        """Continue the file of a run that was stopped, whatever it was stopped by, after its first ``n_frames`` frames."""
        path = Path(path)
        if not path.exists():
            raise OutputError(f"{path} is gone, and the checkpoint beside it says that it held {n_frames} frames")
        maker, growing = FrameMaker(source, settings), GrowingFile(path)
        with growing.checked():
            writer = cls(growing, maker)
            writer._check_same_layout()
            growing.check_rows(writer._datasets.all, n_frames)
            writer.truncate_to(n_frames)
        return writer

    @property
    def n_frames(self) -> int:
        """Whole frames in the file."""
        return self._datasets.n_frames

    def truncate_to(self, n_frames: int) -> None:
        """Drop frames after the first ``n_frames``. Only before the first ``append``."""
        if self._started:
            raise ValueError("frames cannot be dropped from a file that others may be reading")
        if self.n_frames < n_frames:
            raise OutputError(
                f"{self._growing.path} holds {self.n_frames} frames, and the checkpoint beside it says {n_frames}; "
                "they are not of the same run, or the file was replaced"
            )
        self._datasets.resize(n_frames)
        self._growing.file.flush()

    def append(self, snapshot: Snapshot) -> None:
        """Write a frame and hand it to the operating system."""
        if not self._started:
            self._growing.start()
            self._started = True
        frame = self._maker.frame(snapshot)
        size = sum(array.nbytes for array in frame.values())

        def flush_the_rest() -> None:
            self._growing.flush()
            self._growing.reserve(size)

        self._growing.reserve(size)
        with self._growing.writing():
            self._datasets.append(snapshot, frame, between=flush_the_rest)
        self._growing.flush()

    def flush(self) -> None:
        self._growing.flush()

    def sync(self) -> None:
        """Have all frames on the disk."""
        self._growing.sync()

    def close(self) -> None:
        self._growing.close()

    def _check_same_layout(self) -> None:
        layout, trajectory = self._maker.layout, self._growing.file[GROUP]
        held = {name for name in ("position", "velocity", "force") if name in trajectory}
        if held != set(layout.elements) or not np.array_equal(trajectory["id"][()], layout.atoms):
            raise OutputError(
                f"{self._growing.path} was written with another selection of atoms or quantities ({', '.join(sorted(held))} of "
                f"{len(trajectory['id'])} atoms); keep the trajectory settings, or choose another output directory"
            )


class FrameDatasets:
    """The datasets of a trajectory file that grow."""

    def __init__(self, file: h5py.File, layout: Layout) -> None:
        trajectory = file[GROUP]
        self.elements = {name: trajectory[name]["value"] for name in layout.elements}
        self.small = {"step": trajectory["position/step"], "time": trajectory["position/time"]}
        if layout.periodic:
            self.small |= {"edges": trajectory["box/edges/value"]}
            self.small |= {name: file[name] for name in ("cell_lengths", "cell_angles")}

    @property
    def all(self) -> tuple[h5py.Dataset, ...]:
        return (*self.elements.values(), *self.small.values())

    @property
    def n_frames(self) -> int:
        return int(min(d.shape[0] for d in self.all))

    def resize(self, n_frames: int) -> None:
        for dataset in self.all:
            dataset.resize(n_frames, axis=0)

    def append(
        self, snapshot: Snapshot, frame: Mapping[str, np.ndarray], between: Callable[[], None] = lambda: None
    ) -> None:
        """Write a frame; its step and positions last, after a call of ``between``.

        Readers count frames by these two. With a flush between, a file cut at any moment holds the rest of each frame that is
        counted; there is but one flush in which the two are written.
        """
        _append(self.small["time"], snapshot.time)
        if "edges" in self.small:
            lengths, angles = lengths_and_angles(snapshot.box)
            _append(self.small["edges"], snapshot.box.vectors)
            _append(self.small["cell_lengths"], lengths)
            _append(self.small["cell_angles"], angles)
        for name in (name for name in self.elements if name != "position"):
            _append(self.elements[name], frame[name])
        between()
        _append(self.elements["position"], frame["position"])
        _append(self.small["step"], snapshot.step)


def _append(dataset: h5py.Dataset, value: object) -> None:
    n = dataset.shape[0]
    dataset.resize(n + 1, axis=0)
    dataset[n] = value


def lengths_and_angles(box: Box) -> tuple[np.ndarray, np.ndarray]:
    """Edge lengths float64[3], nm, and angles float64[3] (b^c, a^c, a^b), degrees."""
    v = box.vectors
    lengths = np.sqrt((v * v).sum(axis=1))
    cosines = [(v[i] * v[j]).sum() / (lengths[i] * lengths[j]) for i, j in ((1, 2), (0, 2), (0, 1))]
    return lengths, np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0)))


def open_trajectory(path: str | Path) -> h5py.File:
    """A trajectory for reading, one that is being written included: ``file["particles/trajectory/position/value"]``.

    Call ``dataset.refresh()`` to see frames that were added since.
    """
    path = Path(path)
    if not path.exists():
        raise OutputError(f"there is no trajectory {path}")
    try:
        return h5py.File(path, "r", swmr=True, libver=LIBRARY_VERSIONS)
    except OSError as error:
        raise OutputError(f"{path} cannot be read as HDF5: {error}") from error
