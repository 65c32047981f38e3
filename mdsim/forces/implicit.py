"""Implicit solvent: the force term of an ImplicitTable."""

from __future__ import annotations

import math

import numpy as np

from mdsim.backends import Backend
from mdsim.box import Box
from mdsim.errors import UnsupportedError
from mdsim.forces.base import ForceBuffers, LocalView
from mdsim.tables import ImplicitTable
from mdsim.units import COULOMB

#: atom arrays are padded to a multiple of this, so that no vector of a kernel reaches beyond them
PADDING = 16


class ImplicitTerm:
    """Generalised Born: every atom's Born radius depends on all others, so one rank holds them all."""

    energy_names: tuple[str, ...] = ("implicit",)

    def __init__(self, table: ImplicitTable, backend: Backend) -> None:
        self.label = table.label
        self.energy_labels: tuple[str, ...] = (table.label,)
        self.halo_width = math.inf
        self.slot = 0
        self._table = table
        self._backend = backend
        self._kernel = backend.kernel("gb.generalized_born")
        self._medium = (
            COULOMB,
            1.0 / table.solute_dielectric,
            1.0 / table.solvent_dielectric,
            float(table.kappa),
            1.0 / table.cutoff,
            float(table.surface_energy),
        )

    def bind(self, view: LocalView) -> None:
        """Take the atoms in the order of the view and make the work arrays."""
        n = len(self._table.charge)
        if view.n_local != n:
            raise UnsupportedError(
                f"{self.label}: implicit solvent needs all {n} atoms on one rank, but this one holds {view.n_local}; "
                "run it with one rank and as many threads as there are cores"
            )
        order, backend = view.ids[:n], self._backend
        self._atoms = backend.asarray(_atom_rows(self._table, order))
        self._spheres = backend.asarray(_sphere_rows(self._table, order))
        self._radius_index, self._neck_tables = (backend.asarray(a) for a in _neck_rows(self._table, order))
        padded = self._spheres.shape[1]
        self._xyz = backend.zeros((3, padded), np.int32)
        self._integrals = backend.zeros(n, np.int64)
        self._per_atom = backend.zeros((2, n), np.float64)
        self._per_atom32 = backend.asarray(np.repeat([[1.0], [0.0]], padded, axis=1), np.float32)
        self._work = backend.zeros((backend.n_threads, 4, padded), np.int64)

    def compute(self, positions: np.ndarray, box: Box, out: ForceBuffers, with_energy: bool) -> None:
        """Add forces, energy and flags."""
        self._kernel(
            positions,
            box.lattice,
            self._atoms,
            self._spheres,
            self._radius_index,
            self._neck_tables,
            float(self._table.neck_scale),
            self._medium,
            float(self._table.cutoff),
            self._backend.n_threads,
            self._xyz,
            self._integrals,
            self._per_atom,
            self._per_atom32,
            self._work,
            out.forces,
            out.energies[self.slot],
            out.flags[self.slot],
        )

    @property
    def born_radii(self) -> np.ndarray:
        """float32[n] nm, in local order, of the last positions computed."""
        return self._backend.to_host(self._per_atom32)[0, : len(self._table.charge)]


def implicit_term(table: ImplicitTable, backend: Backend) -> ImplicitTerm:
    """The force term of an implicit solvent table."""
    return ImplicitTerm(table, backend)


def _atom_rows(table: ImplicitTable, order: np.ndarray) -> np.ndarray:
    """float64[6, n]: radius without offset, radius, charge, alpha, beta, gamma."""
    rows = (table.radius - table.offset, table.radius, table.charge, table.alpha, table.beta, table.gamma)
    return np.array(rows, dtype=np.float64)[:, order]


def _sphere_rows(table: ImplicitTable, order: np.ndarray) -> np.ndarray:
    """float32[4, padded]: radius without offset, scaled radius, radius, charge; harmless numbers in the padding."""
    rho = table.radius - table.offset
    rows = np.array((rho, table.scale * rho, table.radius, table.charge))[:, order]
    padding = np.repeat([[1.0], [0.0], [1.0], [0.0]], -len(order) % PADDING, axis=1)
    return np.hstack([rows, padding]).astype(np.float32)


def _neck_rows(table: ImplicitTable, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int32[n] row of each atom's radius, and the neck tables by (row, atom), float32[4, radii, padded]."""
    n, padding = len(order), -len(order) % PADDING
    if table.neck_scale == 0.0 or table.radius_index is None or table.neck_d0 is None or table.neck_m0 is None:
        return np.zeros(n, np.int32), np.zeros((4, 1, n + padding), np.float32)
    index = table.radius_index[order].astype(np.int32)
    of_atom = np.append(index, np.zeros(padding, np.int32))
    d0, m0 = table.neck_d0, table.neck_m0
    tables = np.array([d0[:, of_atom], m0[:, of_atom], d0[of_atom, :].T, m0[of_atom, :].T])
    return index, tables.astype(np.float32)
