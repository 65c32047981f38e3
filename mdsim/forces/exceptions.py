"""Pairs apart from the pair list: corrections for pairs excluded from it, and exceptions (1-4 pairs).

The Ewald meshes sum over all pairs of charges. What they hold for a pair excluded from the pair list is taken off
again, at any distance, also where an exception puts another interaction in its place. A reaction field needs no such
correction: as in OpenMM, excluded pairs have no part in it. Distances are to the nearest image, so a molecule must be
smaller than half the box.
"""

from __future__ import annotations

import numpy as np

from mdsim.backends.base import Backend
from mdsim.box import Box
from mdsim.forces.base import ForceBuffers, ForceTerm
from mdsim.forces.bonded import TableTerm, TermArguments
from mdsim.forces.pme import dispersion_coefficients
from mdsim.tables import NonbondedTable, PairExceptionTable
from mdsim.units import COULOMB

#: nm; the two atoms of an excluded pair or an exception, three bonds apart, are no farther from each other
LONGEST_PAIR = 0.8


class ExclusionCorrectionTerm(TableTerm):
    """Takes off what a mesh holds for excluded pairs."""

    def __init__(
        self,
        label: str,
        energy_name: str,
        kernel: str,
        exclusions: np.ndarray,
        products: np.ndarray,
        alpha: float,
        backend: Backend,
    ) -> None:
        """``products`` float64[m] of the pairs' charges (of the mesh's kind); where they are zero, nothing is computed."""
        charged = products != 0.0
        arguments = TermArguments(
            kernel, energy_name, exclusions[charged], (products[charged],), (alpha,), halo_width=LONGEST_PAIR
        )
        super().__init__(label, arguments, backend)


class ExceptionTerm(TableTerm):
    """Coulomb and Lennard-Jones of the pairs that have parameters of their own, without cutoff."""

    def __init__(self, table: PairExceptionTable, backend: Backend) -> None:
        interacting = (table.charge_product != 0.0) | (table.epsilon != 0.0)
        columns = (COULOMB * table.charge_product, table.sigma, table.epsilon)
        arguments = TermArguments(
            "exceptions.exceptions",
            "coulomb_14",
            table.atoms[interacting],
            tuple(column[interacting] for column in columns),
            halo_width=LONGEST_PAIR,
        )
        super().__init__(table.label, arguments, backend)
        self.energy_names = ("coulomb_14", "lj_14")
        self.energy_labels = (table.label, table.label)

    def compute(self, positions: np.ndarray, box: Box, out: ForceBuffers, with_energy: bool) -> None:
        if len(self._arguments[0]):
            both = slice(self.slot, self.slot + 2)
            energies, flags = out.energies[both], out.flags[both]
            self._kernel(positions, box.lattice, *self._arguments, self._backend.n_threads, out.forces, energies, flags)


def make_exclusion_terms(table: NonbondedTable, backend: Backend) -> list[ForceTerm]:
    """The corrections for excluded pairs that the table's method asks for."""
    terms: list[ForceTerm] = []
    pairs = table.exclusions
    i, j = pairs[:, 0], pairs[:, 1]
    if table.method in ("PME", "LJPME"):
        products = COULOMB * table.charge[i] * table.charge[j]
        kernel = "exceptions.coulomb_exclusions"
        terms.append(
            ExclusionCorrectionTerm(
                table.label, "coulomb_exclusions", kernel, pairs, products, table.ewald_alpha, backend
            )
        )
    if table.method == "LJPME":
        c6 = dispersion_coefficients(table)
        kernel = "exceptions.dispersion_exclusions"
        terms.append(
            ExclusionCorrectionTerm(
                table.lj_label, "lj_exclusions", kernel, pairs, c6[i] * c6[j], table.ljpme_alpha, backend
            )
        )
    return terms


def make_exception_term(table: PairExceptionTable, backend: Backend) -> ForceTerm:
    """The term of one table of exceptions."""
    return ExceptionTerm(table, backend)
