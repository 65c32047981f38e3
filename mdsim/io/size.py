"""How large a trajectory becomes, said before the run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import h5py
import numpy as np

from mdsim.io.durable import LIBRARY_VERSIONS
from mdsim.io.h5md import FrameDatasets, FrameMaker, TrajectorySettings, TrajectorySource
from mdsim.io.h5md_layout import SMALL_CHUNK_FRAMES, write_layout
from mdsim.kernels.fixed_point import FORCE_SCALE
from mdsim.state import Snapshot
from mdsim.units import BOLTZMANN

#: bytes in HDF5's index for one compressed chunk: address, length, filter mask
INDEX_BYTES = 16 + 4
#: nm; atoms are shaken by this, for an input file's positions are rounder than a trajectory's
THERMAL_SHAKE = 0.003
#: kJ/mol/nm; of a force component where forces are not known
TYPICAL_FORCE = 800.0


@dataclass(frozen=True)
class SizeEstimate:
    """Bytes on disk."""

    fixed: int
    per_frame: int
    n_frames: int

    @property
    def total(self) -> int:
        return self.fixed + self.per_frame * self.n_frames

    def __str__(self) -> str:
        return f"{self.n_frames} frames of {readable_bytes(self.per_frame)}, {readable_bytes(self.total)} in all"


def readable_bytes(n: float) -> str:
    """``1.4 GB``."""
    unit = "bytes"
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if n < 999.5 or unit == "TB":
            break
        n /= 1000.0
    return f"{n:.0f} {unit}" if unit == "bytes" else f"{n:.3g} {unit}"


def estimate_size(
    source: TrajectorySource,
    settings: TrajectorySettings,
    snapshot: Snapshot,
    n_frames: int,
    temperature: float = 300.0,
) -> SizeEstimate:
    """Size of a trajectory of ``n_frames`` frames like ``snapshot``, found by writing one of them to memory.

    Velocities and forces that the snapshot lacks are drawn: Maxwell's at ``temperature`` (K), and normal ones.
    """
    maker = FrameMaker(source, settings)
    with h5py.File("size", "w", driver="core", backing_store=False, block_size=512, libver=LIBRARY_VERSIONS) as file:
        write_layout(file, maker.layout)
        file.flush()
        fixed = file.id.get_filesize()
        datasets = FrameDatasets(file, maker.layout)
        datasets.append(snapshot, maker.frame(_thermal(snapshot, source, temperature)))
        file.flush()
        large = sum(d.id.get_storage_size() for d in datasets.elements.values())
        large += INDEX_BYTES * sum(-(-d.shape[1] // d.chunks[1]) for d in datasets.elements.values())
        small = sum(d.id.get_storage_size() // SMALL_CHUNK_FRAMES for d in datasets.small.values())
    unused = -n_frames % SMALL_CHUNK_FRAMES * small  # the small datasets grow by whole chunks
    return SizeEstimate(fixed + unused, large + small, n_frames)


def _thermal(snapshot: Snapshot, source: TrajectorySource, temperature: float) -> Snapshot:
    """The snapshot with its atoms shaken, and with velocities and forces."""
    assert snapshot.positions is not None
    n, box, rng = len(snapshot.positions), snapshot.box, np.random.default_rng(0)
    shaken = box.cartesian(snapshot.positions, snapshot.images) + rng.normal(0.0, THERMAL_SHAKE, (n, 3))
    positions, images = box.fractions(shaken)
    masses = np.ones(n) if source.masses is None else np.maximum(source.masses, 1.0)
    velocities, forces = snapshot.velocities, snapshot.forces
    if velocities is None:
        velocities = rng.normal(size=(n, 3)) * np.sqrt(BOLTZMANN * temperature / masses)[:, None]
    if forces is None:
        forces = np.rint(rng.normal(0.0, TYPICAL_FORCE, (n, 3)) * FORCE_SCALE).astype(np.int64)
    return replace(snapshot, positions=positions, images=images, velocities=velocities, forces=forces)
