"""Bonded terms: each a table, a kernel, and how the one is written as the arguments of the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdsim.backends import Backend
from mdsim.box import Box
from mdsim.errors import SimulationError
from mdsim.forces.base import ForceBuffers, LocalView
from mdsim.tables import (
    AngleTable,
    BondTable,
    CMAPTable,
    HarmonicImproperTable,
    PeriodicTorsionTable,
    RBTorsionTable,
)

#: longest bond that a halo allows for, nm
LONGEST_BOND = 0.3


@dataclass(frozen=True)
class TermArguments:
    """A table as the arguments of its kernel, after positions and lattice."""

    kernel: str  # "module.function" in the backend's kernels
    energy_name: str
    atoms: np.ndarray  # int32[m] or int32[m, a]
    per_entry: tuple[np.ndarray, ...]  # arrays with one row an entry, in the kernel's order after atoms
    shared: tuple[Any, ...] = ()  # arguments that belong to all entries, last
    halo_width: float = 0.0  # nm


class TableTerm:
    """One table's interactions, computed by the rank that owns an entry's first atom."""

    def __init__(self, label: str, arguments: TermArguments, backend: Backend) -> None:
        self.label = label
        self.energy_names: tuple[str, ...] = (arguments.energy_name,)
        self.energy_labels: tuple[str, ...] = (label,)
        self.halo_width = arguments.halo_width
        self.slot = 0
        self._table = arguments
        self._backend = backend
        self._kernel = backend.kernel(arguments.kernel)
        self._arguments: tuple[Any, ...] = ()

    def bind(self, view: LocalView) -> None:
        """Keep the entries whose first atom is local, in local indices."""
        local = view.global_to_local[self._table.atoms]
        first = local if local.ndim == 1 else local[:, 0]
        mine = (first >= 0) & (first < view.n_local)
        if (local[mine] < 0).any():
            self._refuse_missing_atom(local, mine)
        arrays = [local[mine].astype(np.int32), *(column[mine] for column in self._table.per_entry)]
        self._arguments = (*(self._backend.asarray(a) for a in arrays), *self._table.shared)

    def compute(self, positions: np.ndarray, box: Box, out: ForceBuffers, with_energy: bool) -> None:
        """Add forces, energy and flags."""
        if len(self._arguments[0]):
            energies, flags = out.energies[self.slot], out.flags[self.slot]
            self._kernel(positions, box.lattice, *self._arguments, self._backend.n_threads, out.forces, energies, flags)

    def _refuse_missing_atom(self, local: np.ndarray, mine: np.ndarray) -> None:
        entry = int(np.flatnonzero(mine & (local < 0).any(axis=1))[0])
        raise SimulationError(
            f"{self.label}: atoms {self._table.atoms[entry].tolist()} of one {self.energy_names[0]} entry are further "
            f"apart than the {self.halo_width:.2f} nm that neighbouring ranks exchange; use fewer ranks, or minimise first"
        )


def bonded_term(table: Any, backend: Backend) -> TableTerm:
    """The force term of a bond, angle, torsion, improper or CMAP table."""
    return TableTerm(table.label, _ARGUMENTS[type(table)](table, backend), backend)


def _bonds(table: BondTable, backend: Backend) -> TermArguments:
    return TermArguments("bonds.harmonic_bonds", "bonds", table.atoms, (table.length, table.k), halo_width=LONGEST_BOND)


def _angles(table: AngleTable, backend: Backend) -> TermArguments:
    return TermArguments(
        "angles.harmonic_angles", "angles", table.atoms, (table.angle, table.k), halo_width=2 * LONGEST_BOND
    )


def _periodic_torsions(table: PeriodicTorsionTable, backend: Backend) -> TermArguments:
    phase = _cos_sin(table.phase, backend)
    return TermArguments(
        "torsions.periodic_torsions",
        "torsions",
        table.atoms,
        (table.periodicity, phase, table.k),
        halo_width=3 * LONGEST_BOND,
    )


def _rb_torsions(table: RBTorsionTable, backend: Backend) -> TermArguments:
    return TermArguments("torsions.rb_torsions", "rb_torsions", table.atoms, (table.c,), halo_width=3 * LONGEST_BOND)


def _harmonic_impropers(table: HarmonicImproperTable, backend: Backend) -> TermArguments:
    angle = np.column_stack([table.angle, _cos_sin(table.angle, backend)])
    return TermArguments(
        "torsions.harmonic_impropers",
        "impropers",
        table.atoms,
        (angle, table.k),
        shared=(table.wrapped,),
        halo_width=3 * LONGEST_BOND,
    )


def _cmap(table: CMAPTable, backend: Backend) -> TermArguments:
    coefficients = backend.asarray(table.coefficients, np.float64)
    return TermArguments(
        "cmap.cmap_torsions",
        "cmap",
        table.atoms,
        (table.map_index,),
        shared=(coefficients,),
        halo_width=4 * LONGEST_BOND,
    )


def _cos_sin(angle: np.ndarray, backend: Backend) -> np.ndarray:
    """float64[m, 2]: cosine and sine by the backend's own functions, for the C library's differ between machines."""
    sincos = backend.kernel("mathlib.sincos")
    return np.array([sincos(float(a))[::-1] for a in angle], dtype=np.float64).reshape(-1, 2)


_ARGUMENTS: dict[type, Callable[[Any, Backend], TermArguments]] = {
    BondTable: _bonds,
    AngleTable: _angles,
    PeriodicTorsionTable: _periodic_torsions,
    RBTorsionTable: _rb_torsions,
    HarmonicImproperTable: _harmonic_impropers,
    CMAPTable: _cmap,
}
