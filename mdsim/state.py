"""The state that one rank holds: plain arrays, local atoms first, ghosts after them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mdsim.box import Box


@dataclass
class State:
    """Positions, velocities and what belongs to them, for the atoms of one rank.

    Arrays are the backend's (numpy on the CPU). A ghost atom carries the bits of its owner's atom.
    """

    step: int
    box: Box
    ids: np.ndarray  # int32[n_local + n_ghost] global atom ids
    positions: np.ndarray  # int32[n_local + n_ghost, 3] box fractions / 2**32
    images: np.ndarray  # int32[n_local, 3] whole boxes crossed: unwrapped = positions + images * 2**32
    velocities: np.ndarray  # float64[n_local, 3] nm/ps
    n_local: int
    #: integrator and barostat variables by name (chain positions, volume step, ...), float64/int64 arrays
    extra: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def n_ghost(self) -> int:
        return len(self.positions) - self.n_local


@dataclass(frozen=True)
class LocalView:
    """How global atom ids map to this rank's arrays. Tables are bound to it again after each migration."""

    ids: np.ndarray  # int32[n_local + n_ghost] global id of each held atom
    global_to_local: np.ndarray  # int32[n_global], -1 where not held
    n_local: int


@dataclass(frozen=True)
class Snapshot:
    """What reporters see: gathered on the writer, atoms in global order. A field nobody asked for is None."""

    step: int
    time: float  # ps
    box: Box
    positions: np.ndarray | None = None  # int32[n, 3]
    images: np.ndarray | None = None  # int32[n, 3]
    velocities: np.ndarray | None = None  # float64[n, 3] nm/ps
    forces: np.ndarray | None = None  # int64[n, 3] fixed point, kernels.fixed_point.FORCE_SCALE
    energies: dict[str, float] | None = None  # kJ/mol by term name
    kinetic_energy: float | None = None  # kJ/mol
    temperature: float | None = None  # K
    conserved: float | None = None  # kJ/mol, the quantity that the integrator conserves
    extra: dict[str, np.ndarray] = field(default_factory=dict)
