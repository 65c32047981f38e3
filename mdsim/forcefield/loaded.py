"""A system as it was read: OpenMM's objects, and positions and box as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import openmm
import openmm.app

from mdsim.errors import InputError
from mdsim.forcefield.compile import compile_system
from mdsim.forcefield.topology import topology_from_openmm
from mdsim.tables import CompiledSystem
from mdsim.topology import Topology


@dataclass(frozen=True)
class LoadedSystem:
    """What a loader returns."""

    system: openmm.System
    topology: openmm.app.Topology
    positions: np.ndarray  # float64[n, 3] nm
    vectors: np.ndarray | None  # float64[3, 3] nm, rows a, b, c in reduced form; None: not periodic
    notes: tuple[str, ...] = ()
    velocities: np.ndarray | None = None  # float64[n, 3] nm/ps, where the file with the positions has them

    def compile(self) -> CompiledSystem:
        """Tables of the system."""
        return compile_system(self.system, self.topology)

    @property
    def names(self) -> Topology:
        """Atom, residue and chain names."""
        return topology_from_openmm(self.topology)


def check_loaded(loaded: LoadedSystem, source: str) -> None:
    """As many positions as particles, all of them numbers; ``source`` is the file with the positions."""
    n, positions = loaded.system.getNumParticles(), loaded.positions
    if positions.shape != (n, 3):
        raise InputError(f"{source} holds {len(positions)} atoms, the system {n} particles")
    bad = np.flatnonzero(~np.isfinite(positions).all(axis=1))
    if len(bad):
        raise InputError(f"{source}: the coordinates of {loaded.names.describe(int(bad[0]))} are no numbers")
