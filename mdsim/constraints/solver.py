"""Distance constraints of a system: which kernel solves which, and words for those that cannot be met."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdsim.backends import Backend
from mdsim.box import Box
from mdsim.errors import InputError, SimulationError
from mdsim.state import LocalView
from mdsim.tables import ConstraintTable

#: relative error of a constrained distance at which SHAKE stops (fixed-point positions resolve some 1e-11)
DISTANCE_TOLERANCE = 1e-10
#: velocity along a constraint at which RATTLE stops, relative to 1 nm/ps + the relative speed of the atoms
VELOCITY_TOLERANCE = 1e-11


class Constraints:
    """SETTLE for rigid triangles with equal base masses, SHAKE and RATTLE for everything else.

    Parameters
    ----------
    backend
    table
        Constraints by global atom ids.
    masses : float64[n_global], amu
    """

    def __init__(self, backend: Backend, table: ConstraintTable, masses: np.ndarray) -> None:
        self.backend = backend
        self.masses = np.asarray(masses, dtype=np.float64)
        _check(table, self.masses)
        self.table = _triangles_as_shake_where_unequal(table, self.masses)
        self.flags = backend.zeros(backend.n_threads, np.int32)

    @property
    def n_constraints(self) -> int:
        """Over all ranks."""
        return 3 * len(self.table.settle) + len(self.table.distance)

    def bind(self, view: LocalView) -> None:
        """Take the groups whose atoms are local to this rank."""
        table, backend = self.table, self.backend
        local = view.global_to_local
        masses = self.masses[view.ids]
        inverse = np.divide(1.0, masses, out=np.zeros_like(masses), where=masses > 0)
        self._ids = view.ids
        self._inverse_masses = backend.asarray(inverse)

        apex = local[table.settle[:, 0]]
        mine = (apex >= 0) & (apex < view.n_local)
        self._settle = backend.asarray(local[table.settle[mine]], np.int32)
        self._settle_distances = table.settle_distances[mine]
        self._triangles = backend.asarray(_canonical_triangles(self._settle_distances, self.masses[table.settle[mine]]))

        first = local[table.atoms[table.group_start[:-1], 0]]
        groups = np.flatnonzero((first >= 0) & (first < view.n_local))
        sizes = np.diff(table.group_start)[groups]
        rows = [np.arange(table.group_start[g], table.group_start[g + 1]) for g in groups]
        chosen = np.concatenate(rows) if rows else np.zeros(0, np.int64)
        self._pairs = backend.asarray(local[table.atoms[chosen]].reshape(-1, 2), np.int32)
        self._distance = backend.asarray(table.distance[chosen])
        self._group_start = backend.asarray(np.concatenate([[0], np.cumsum(sizes)]), np.int32)
        self._scratch = backend.zeros((len(chosen), 3), np.float64)

    def apply_to_displacements(self, positions: np.ndarray, box: Box, dx: np.ndarray, step: int = -1) -> None:
        """Change ``dx`` float64[n_local, 3] (nm, from ``positions`` int32[n, 3]) so that every distance is right after it."""
        threads, lattice = self.backend.n_threads, box.lattice
        if len(self._settle):
            self.backend.kernel("settle.settle_displacements")(
                positions, lattice, self._settle, self._triangles, dx, threads, self.flags
            )
        if len(self._pairs):
            self.backend.kernel("shake.shake_displacements")(
                positions, lattice, self._pairs, self._distance, self._group_start, self._inverse_masses,
                DISTANCE_TOLERANCE, dx, self._scratch, threads, self.flags,
            )  # fmt: skip
        self._raise_if_flagged(lambda: self.relative_errors(positions, box, dx), step)

    def apply_to_velocities(self, positions: np.ndarray, box: Box, velocities: np.ndarray, step: int = -1) -> None:
        """Take the velocities along the constraints out of ``velocities`` float64[n_local, 3] (nm/ps)."""
        threads, lattice = self.backend.n_threads, box.lattice
        if len(self._settle):
            self.backend.kernel("settle.settle_velocities")(
                positions, lattice, self._settle, self._inverse_masses, velocities, threads
            )
        if len(self._pairs):
            self.backend.kernel("shake.rattle_velocities")(
                positions, lattice, self._pairs, self._distance, self._group_start, self._inverse_masses,
                VELOCITY_TOLERANCE, velocities, self._scratch, threads, self.flags,
            )  # fmt: skip
        self._raise_if_flagged(lambda: self.velocity_errors(positions, box, velocities), step)

    def relative_errors(self, positions: np.ndarray, box: Box, dx: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Constrained pairs (global ids, int[m, 2]) and |distance / target - 1| after ``dx``, float64[m]; settles first."""
        pairs, vectors = self._bonds(positions, box)
        lengths = self._settle_distances
        target = np.concatenate([lengths[:, 0], lengths[:, 0], lengths[:, 1], self.backend.to_host(self._distance)])
        vectors = vectors + _differences(self.backend.to_host(dx), pairs)
        return self._ids[pairs], np.abs(np.sqrt((vectors**2).sum(axis=1)) / target - 1.0)

    def velocity_errors(
        self, positions: np.ndarray, box: Box, velocities: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Constrained pairs (global ids) and the velocity along each constraint relative to 1 nm/ps + that of its atoms."""
        pairs, vectors = self._bonds(positions, box)
        relative = _differences(self.backend.to_host(velocities), pairs)
        along = np.abs((vectors * relative).sum(axis=1)) / np.sqrt((vectors**2).sum(axis=1))
        return self._ids[pairs], along / (1.0 + np.sqrt((relative**2).sum(axis=1)))

    def _bonds(self, positions: np.ndarray, box: Box) -> tuple[np.ndarray, np.ndarray]:
        """Local indices int[m, 2] of all constrained pairs, settles first, and the vectors between them, nm."""
        settle = self.backend.to_host(self._settle)
        rest = self.backend.to_host(self._pairs)
        pairs = np.concatenate([settle[:, [0, 1]], settle[:, [0, 2]], settle[:, [1, 2]], rest])
        return pairs, box.cartesian(_differences(self.backend.to_host(positions), pairs))

    def _raise_if_flagged(self, measure: Callable[[], tuple[np.ndarray, np.ndarray]], step: int) -> None:
        if not self.backend.to_host(self.flags).any():
            return
        self.flags.fill(0)
        pairs, errors = measure()
        worst = np.argsort(-np.nan_to_num(errors, nan=np.inf))[:3]
        names = "; ".join(f"atoms {pairs[w, 0]} and {pairs[w, 1]} off by {100 * errors[w]:.3g} %" for w in worst)
        when = f"step {step}: " if step >= 0 else ""
        raise SimulationError(
            f"{when}constraints cannot be met: {names}. The forces there are too large or the timestep too long: "
            "minimise first, or shorten the timestep",
            atoms=pairs[worst[0]].tolist(),
        )


def _canonical_triangles(distances: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """float64[w, 5] for ``settle_displacements``, out of leg and base float64[w, 2] (nm) and masses float64[w, 3] (amu)."""
    total = masses[:, 0] + 2.0 * masses[:, 1]
    share_apex, share_base = masses[:, 0] / total, masses[:, 1] / total
    half_base = 0.5 * distances[:, 1]
    height = np.sqrt(distances[:, 0] * distances[:, 0] - half_base * half_base)
    to_apex = 2.0 * share_base * height
    return np.stack([share_apex, share_base, to_apex, height - to_apex, half_base], axis=1)


def _differences(values: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """values[i] - values[j] of each pair; of int32 positions: the nearest image."""
    difference: np.ndarray = values[pairs[:, 0]] - values[pairs[:, 1]]
    return difference


def _check(table: ConstraintTable, masses: np.ndarray) -> None:
    constrained = np.concatenate([table.settle.ravel(), table.atoms.ravel()])
    massless = constrained[masses[constrained] <= 0]
    if len(massless):
        raise InputError(
            f"atom {massless[0]} has no mass but takes part in a constraint; give it a mass, or take the constraint away"
        )
    if len(table.settle):
        legs, base = table.settle_distances.T
        flat = np.flatnonzero(~(2.0 * legs > base))
        if len(flat):
            raise InputError(f"the constraints of atoms {table.settle[flat[0]].tolist()} form no triangle; check their lengths")


def _triangles_as_shake_where_unequal(table: ConstraintTable, masses: np.ndarray) -> ConstraintTable:
    """SETTLE needs equal masses on the base; triangles without become groups of three constraints for SHAKE."""
    unequal = masses[table.settle[:, 1]] != masses[table.settle[:, 2]]
    if not unequal.any():
        return table
    triangles, lengths = table.settle[unequal], table.settle_distances[unequal]
    pairs = triangles[:, [[0, 1], [0, 2], [1, 2]]].reshape(-1, 2)
    distance = lengths[:, [0, 0, 1]].reshape(-1)
    starts = len(table.atoms) + 3 * np.arange(1, len(triangles) + 1)
    return ConstraintTable(
        settle=table.settle[~unequal],
        settle_distances=table.settle_distances[~unequal],
        atoms=np.concatenate([table.atoms, pairs]).astype(np.int32),
        distance=np.concatenate([table.distance, distance]),
        group_start=np.concatenate([table.group_start, starts]).astype(np.int32),
    )
