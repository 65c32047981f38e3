"""Reciprocal space: smooth particle-mesh Ewald for the Coulomb sum and, with LJPME, for the dispersion sum.

Essmann et al., J. Chem. Phys. 103, 8577 (1995). Grid, alpha and conventions are OpenMM's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import frexp, fsum, pi, sqrt

import numpy as np

from mdsim.backends.base import Backend
from mdsim.box import Box
from mdsim.errors import InputError
from mdsim.forces.base import ForceBuffers, ForceTerm, LocalView
from mdsim.forces.fft import LocalTransform, TransformFactory
from mdsim.kernels.bspline import N_WEIGHTS, ORDERS, bspline_at_knots, bspline_polynomials
from mdsim.kernels.fft_plan import padded_waves
from mdsim.kernels.fixed_point import ENERGY_SCALE, GRID_SCALE
from mdsim.tables import NonbondedTable
from mdsim.units import COULOMB

#: B-spline order; OpenMM's
DEFAULT_ORDER = 5
#: fewest grid points along an axis; OpenMM's
MIN_GRID = 6


class MeshTerm(ABC):
    """Charges of some kind spread on a grid, folded with an influence function, and the forces gathered from it.

    The mesh does not conserve momentum: its net force is taken off, the same share from every atom. Energies: of the
    mesh, and of what it holds of each charge with itself, taken off.
    """

    halo_width = 0.0
    slot = 0

    def __init__(
        self,
        label: str,
        energy_names: tuple[str, str],
        charges: np.ndarray,
        alpha: float,
        grid: tuple[int, int, int],
        backend: Backend,
        make_transform: TransformFactory,
        order: int,
    ) -> None:
        """``charges`` float64[n_global], of any kind; ``alpha`` in 1/nm."""
        if order not in ORDERS:
            raise InputError(f"the PME order must be one of {', '.join(map(str, ORDERS))}, got {order}")
        if min(grid) < MIN_GRID or alpha <= 0.0:
            raise InputError(
                f"the Ewald mesh of {label} needs alpha > 0 and at least {MIN_GRID} grid points along each axis; "
                f"got alpha = {alpha} / nm and a grid of {grid[0]} x {grid[1]} x {grid[2]}"
            )
        self.label = label
        self.energy_names: tuple[str, ...] = energy_names
        self.energy_labels: tuple[str, ...] = (label, label)
        self.alpha = alpha
        self.grid = grid
        self._all_charges = np.asarray(charges, dtype=np.float64)
        self._backend = backend
        self._n_threads = backend.n_threads
        self._transform = make_transform(grid, backend)
        self._set_up_spline(order)
        self._set_up_grids()
        self._take_kernels()
        self._fitted_to: np.ndarray | None = None  # box vectors of the influence function

    def _set_up_spline(self, order: int) -> None:
        self.order = order
        values, slopes = bspline_polynomials(order)
        self._values, self._slopes = self._backend.asarray(values), self._backend.asarray(slopes)
        self._moduli = [self._backend.zeros(n, np.float64) for n in self.grid]
        for moduli in self._moduli:
            self._backend.kernel("pme.bspline_moduli")(bspline_at_knots(order), moduli)

    def _set_up_grids(self) -> None:
        nx, ny, nz = self.grid
        # the grid's fixed-point unit follows the largest charge, so that dispersion coefficients fill it as charges do
        _, exponent = frexp(float(abs(self._all_charges).max(initial=0.0)))
        self._grid_scale = GRID_SCALE * 2.0**-exponent
        self._grid_unit = np.float32(1.0 / self._grid_scale)
        self._thread_grids = self._backend.zeros((self._n_threads, nx, ny, nz + N_WEIGHTS), np.int32)
        self._charge_grid = self._backend.zeros((nx, ny, nz), np.float32)
        self._potential = self._backend.zeros((nx, ny, nz + N_WEIGHTS), np.float32)
        self._influence = self._backend.zeros((nx, ny, padded_waves(nz)), np.float32)
        self._totals = self._backend.zeros((self._n_threads, 3), np.int64)

    def _take_kernels(self) -> None:
        kernel = self._backend.kernel
        self._spread_charges = kernel("pme.spread_charges")
        self._collect_charges = kernel("pme.collect_charges")
        self._reciprocal_energy = kernel("pme.reciprocal_energy")
        self._convolve = kernel("pme.convolve")
        self._wrap_lines = kernel("pme.wrap_lines")
        self._gather_forces = kernel("pme.gather_forces")
        self._subtract_net_force = kernel("pme.subtract_net_force")

    def bind(self, view: LocalView) -> None:
        charges = self._all_charges[view.ids[: view.n_local]]
        self._n_atoms = len(view.global_to_local)
        self._ids = self._backend.asarray(view.ids[: view.n_local], np.int32)
        self._charges = self._backend.asarray(charges)
        self._grid_charges = self._backend.asarray(charges * self._grid_scale, np.float32)
        # rounded atom by atom, so that their sum over ranks does not depend on who holds which
        self._self_energy = int(np.rint(self._energies_with_themselves(charges) * ENERGY_SCALE).astype(np.int64).sum())
        # what belongs to the whole system is counted where the first atom is
        self._counts_whole = 0 <= view.global_to_local[0] < view.n_local

    def compute(self, positions: np.ndarray, box: Box, out: ForceBuffers, with_energy: bool) -> None:
        self._fit_to(box)
        self._spread_charges(positions, self._grid_charges, self._values, self._n_threads, self._thread_grids)
        self._collect_charges(self._thread_grids, self._grid_unit, self._n_threads, self._charge_grid)
        self._transform.forward(self._charge_grid)
        if with_energy:
            self._add_energies(out)
        self._convolve(self._influence, self._n_threads, self._transform.waves)
        self._transform.inverse(self._potential)
        self._wrap_lines(self._n_threads, self._potential)
        self._add_forces(positions, out)

    def _fit_to(self, box: Box) -> None:
        """Recompute the influence function if the box has changed."""
        if self._fitted_to is not None and np.array_equal(self._fitted_to, box.vectors):
            return
        self._inverse = box.inverse
        self._compute_influence(box)
        self._whole_energy = round(self._energy_of_the_whole(box) * ENERGY_SCALE)
        self._fitted_to = box.vectors

    def _add_energies(self, out: ForceBuffers) -> None:
        waves, nz = self._transform.waves, self.grid[2]
        self._reciprocal_energy(waves, self._influence, nz, self._n_threads, out.energies[self.slot])
        out.energies[self.slot + 1, 0] += self._self_energy + (self._whole_energy if self._counts_whole else 0)

    def _add_forces(self, positions: np.ndarray, out: ForceBuffers) -> None:
        self._gather_forces(
            positions,
            self._charges,
            self._inverse,
            self._potential,
            self._values,
            self._slopes,
            self._n_threads,
            out.forces,
            self._totals,
            out.flags[self.slot],
        )
        mean, remainder = np.divmod(self._transform.sum(self._totals.sum(axis=0)), self._n_atoms)
        self._subtract_net_force(self._ids, mean, remainder, self._n_threads, out.forces)

    @abstractmethod
    def _compute_influence(self, box: Box) -> None:
        """Fill ``_influence`` for this box."""

    @abstractmethod
    def _energies_with_themselves(self, charges: np.ndarray) -> np.ndarray:
        """Energy, kJ/mol, that takes off what the mesh holds of each charge with itself."""

    def _energy_of_the_whole(self, box: Box) -> float:
        """Energy, kJ/mol, that belongs to no atom."""
        return 0.0


class PmeTerm(MeshTerm):
    """Reciprocal-space Coulomb energy and forces of periodic systems.

    A system with a net charge lives in a uniform neutralising background, whose energy -pi Q^2 / (2 V alpha^2), as in
    OpenMM, is counted under ``coulomb_self``.
    """

    def __init__(
        self,
        table: NonbondedTable,
        backend: Backend,
        make_transform: TransformFactory = LocalTransform,
        order: int = DEFAULT_ORDER,
    ) -> None:
        names = ("coulomb_reciprocal", "coulomb_self")
        super().__init__(
            table.label, names, table.charge, table.ewald_alpha, table.grid, backend, make_transform, order
        )
        self._net_charge = fsum(table.charge)
        self._coulomb_influence = backend.kernel("pme.coulomb_influence")

    def _compute_influence(self, box: Box) -> None:
        self._coulomb_influence(
            self._inverse, box.volume, self.alpha, COULOMB, *self._moduli, self._n_threads, self._influence
        )

    def _energies_with_themselves(self, charges: np.ndarray) -> np.ndarray:
        return -COULOMB * self.alpha / sqrt(pi) * charges**2

    def _energy_of_the_whole(self, box: Box) -> float:
        return -COULOMB * pi * self._net_charge**2 / (2.0 * box.volume * self.alpha**2)


class DispersionPmeTerm(MeshTerm):
    """LJPME: reciprocal-space sum of -c_i c_j / r^6, c = 2 sqrt(epsilon) sigma^3 (OpenMM's geometric combination)."""

    def __init__(
        self,
        table: NonbondedTable,
        backend: Backend,
        make_transform: TransformFactory = LocalTransform,
        order: int = DEFAULT_ORDER,
    ) -> None:
        names = ("lj_reciprocal", "lj_self")
        c6 = dispersion_coefficients(table)
        super().__init__(table.lj_label, names, c6, table.ljpme_alpha, table.ljpme_grid, backend, make_transform, order)
        self._dispersion_influence = backend.kernel("pme.dispersion_influence")

    def _compute_influence(self, box: Box) -> None:
        self._dispersion_influence(
            self._inverse, box.volume, self.alpha, *self._moduli, self._n_threads, self._influence
        )

    def _energies_with_themselves(self, charges: np.ndarray) -> np.ndarray:
        energies: np.ndarray = self.alpha**6 / 12.0 * charges**2
        return energies


def dispersion_coefficients(table: NonbondedTable) -> np.ndarray:
    """float64[n]: c such that LJPME's long-range dispersion is -c_i c_j / r^6, (kJ nm^6 / mol)^(1/2)."""
    coefficients: np.ndarray = 2.0 * np.sqrt(table.epsilon) * table.sigma**3
    return coefficients


def make_mesh_terms(
    table: NonbondedTable,
    backend: Backend,
    make_transform: TransformFactory = LocalTransform,
    order: int = DEFAULT_ORDER,
) -> list[ForceTerm]:
    """The reciprocal-space terms that the table's method asks for."""
    terms: list[ForceTerm] = []
    if table.method in ("PME", "LJPME"):
        terms.append(PmeTerm(table, backend, make_transform, order))
    if table.method == "LJPME":
        terms.append(DispersionPmeTerm(table, backend, make_transform, order))
    return terms
