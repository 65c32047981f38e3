"""Virtual sites of a system: placed before the forces, their forces handed to their parents after."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mdsim.backends import Backend
from mdsim.errors import InputError, SimulationError, UnsupportedError
from mdsim.state import LocalView, State
from mdsim.tables import VirtualSiteTable

_ARRAYS = ("weights", "origin_weights", "x_weights", "y_weights", "local")


class VirtualSites:
    """Places sites and spreads their forces.

    Parameters
    ----------
    backend
    table
        Sites and parents by global atom ids.
    """

    def __init__(self, backend: Backend, table: VirtualSiteTable) -> None:
        _check(table)
        self.backend, self.table = backend, table
        self.flags = backend.zeros(backend.n_threads, np.int32)

    def bind(self, view: LocalView) -> None:
        """Take the sites that are local to this rank, sorted so that those with common parents stand together."""
        table, backend = self.table, self.backend
        where = view.global_to_local[table.sites]
        mine = np.flatnonzero((where >= 0) & (where < view.n_local))
        cluster = _clusters(table.parents[mine], len(view.global_to_local))
        order = np.argsort(cluster, kind="stable")
        mine, cluster = mine[order], cluster[order]
        starts = np.flatnonzero(np.diff(cluster, prepend=-1))
        self._cluster_start = backend.asarray(np.append(starts, len(mine)), np.int32)
        self._sites = backend.asarray(where[mine], np.int32)
        self._ids = table.sites[mine]
        self._definition = (
            self._sites,
            backend.asarray(table.kind[mine], np.int32),
            backend.asarray(view.global_to_local[table.parents[mine]].reshape(-1, 3), np.int32),
            *(backend.asarray(getattr(table, name)[mine].reshape(-1, 3), np.float64) for name in _ARRAYS),
        )

    def place(self, state: State) -> None:
        """Put the sites of ``state`` where their parents want them."""
        if not len(self._sites):
            return
        self.backend.kernel("virtual_sites.place_sites")(
            state.positions, state.images, state.box.lattice, state.box.inverse, *self._definition,
            self.backend.n_threads, self.flags,
        )  # fmt: skip
        self._raise_if_flagged(state)

    def spread(self, state: State, forces: np.ndarray) -> None:
        """Hand the total forces int64[n, 3] on the sites to their parents and leave 0 on the sites."""
        if not len(self._sites):
            return
        self.backend.kernel("virtual_sites.spread_forces")(
            state.positions, state.box.lattice, *self._definition, self._cluster_start,
            self.backend.n_threads, forces, self.flags,
        )  # fmt: skip
        self._raise_if_flagged(state)

    def _raise_if_flagged(self, state: State) -> None:
        if not self.backend.to_host(self.flags).any():
            return
        self.flags.fill(0)
        raise SimulationError(
            f"step {state.step}: a virtual site (among atoms {self._ids.min()} to {self._ids.max()}) has no place: its parents "
            "lie on one line or on one point; check the coordinates of its molecule, or minimise first"
        )


def _clusters(parents: np.ndarray, n_atoms: int) -> np.ndarray:
    """int[m]: number of the set of sites that each site belongs to, linked by common parents; ascending by first parent."""
    if not len(parents):
        return np.zeros(0, np.int64)
    row, column = np.repeat(parents[:, 0], 3), parents.ravel()
    graph = coo_array((np.ones(len(row)), (row, column)), shape=(n_atoms, n_atoms))
    _, component = connected_components(graph, directed=False)
    cluster: np.ndarray = component[parents[:, 0]]
    return cluster


def _check(table: VirtualSiteTable) -> None:
    """Refuse what the kernels do not place: sites on sites, and weights that would depend on the origin of the coordinates."""
    on_sites = np.isin(table.parents, table.sites).any(axis=1)
    if on_sites.any():
        site = int(table.sites[np.flatnonzero(on_sites)[0]])
        raise UnsupportedError(
            f"virtual site {site} has another virtual site as its parent; mdsim places sites from real atoms only"
        )
    average, local = table.kind == 0, table.kind == 2
    wrong = average & _differs(table.weights, 1.0)
    wrong |= local & (
        _differs(table.origin_weights, 1.0) | _differs(table.x_weights, 0.0) | _differs(table.y_weights, 0.0)
    )
    if wrong.any():
        site = int(table.sites[np.flatnonzero(wrong)[0]])
        raise InputError(
            f"the weights of virtual site {site} do not add up (to 1 for a position, to 0 for a direction), so that it would move "
            "with the origin of the coordinates; correct them in the force field"
        )


def _differs(weights: np.ndarray, total: float) -> np.ndarray:
    """bool[m]: the rows that do not add up to ``total``."""
    difference: np.ndarray = np.abs(weights.sum(axis=1) - total) > 1e-6
    return difference
