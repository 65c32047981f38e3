"""Short-range non-bonded forces: Lennard-Jones and Coulomb of the pairs within the cutoff, and the dispersion correction."""

from __future__ import annotations

import math

import numpy as np

from mdsim.backends.base import Backend
from mdsim.box import Box
from mdsim.errors import InputError, UnsupportedError
from mdsim.forces.base import ForceBuffers, LocalView
from mdsim.kernels.cpu.ewald_fit import MAX_X
from mdsim.kernels.fixed_point import ENERGY_SCALE, PAIR_FORCE_SCALE
from mdsim.neighbors.pair_list import DEFAULT_BUFFER, PairList
from mdsim.tables import NonbondedTable
from mdsim.units import COULOMB


class AtomParameters:
    """Per-atom parameters of one table as the kernel takes them, in global order, and what they mean for its flavour."""

    def __init__(self, table: NonbondedTable) -> None:
        n = len(table.charge)
        self.by_type = table.lj_type is not None
        #: float32[4, n]: charge * sqrt(1/4 pi eps0), sigma/2, 2 sqrt(eps), sqrt(c6) with c6 = 4 eps sigma^6
        self.values = np.zeros((4, n), np.float32)
        self.types = np.zeros(n, np.int32)
        self.n_types = 1
        self.table = np.zeros((2, 1), np.float32)
        self.values[0] = table.charge * math.sqrt(COULOMB)
        if self.by_type:
            self._take_types(table)
        else:
            self._take_sigma_epsilon(table)
        for name, array in (("charge", self.values[0]), ("Lennard-Jones", self.values[1:]), ("type-pair", self.table)):
            if not np.isfinite(array).all():
                raise InputError(f"{table.label} has a {name} parameter that is not a finite float32 number")

    def _take_sigma_epsilon(self, table: NonbondedTable) -> None:
        if (table.epsilon < 0.0).any():
            atom = int(np.argmax(table.epsilon < 0.0))
            raise UnsupportedError(
                f"{table.lj_label}: atom {atom} has a negative epsilon, {table.epsilon[atom]:g} kJ/mol"
            )
        self.has_lj = (table.epsilon > 0.0) & (table.sigma != 0.0)
        sigma = np.where(self.has_lj, table.sigma, 0.0)
        root = np.where(self.has_lj, 2.0 * np.sqrt(table.epsilon), 0.0)
        self.values[1], self.values[2], self.values[3] = 0.5 * sigma, root, root * sigma**3

    def _take_types(self, table: NonbondedTable) -> None:
        assert table.lj_type is not None and table.lj_a is not None and table.lj_b is not None
        a, b = table.lj_a, table.lj_b
        if not (np.array_equal(a, a.T) and np.array_equal(b, b.T)):
            raise UnsupportedError(f"{table.lj_label}: the coefficients of types (i, j) and (j, i) differ")
        # one more type, without interactions, for padding
        self.n_types = len(a) + 1
        full = np.zeros((2, self.n_types, self.n_types))
        full[0, :-1, :-1], full[1, :-1, :-1] = a, b
        self.table = (full * PAIR_FORCE_SCALE).astype(np.float32).reshape(2, -1)
        self.types[:] = table.lj_type
        self.has_lj = ((a != 0.0) | (b != 0.0)).any(axis=1)[table.lj_type]


class PairTerm:
    """Pairs within the cutoff that are not excluded; exceptions and the mesh are other terms.

    Parameters
    ----------
    table : NonbondedTable
    backend : Backend
    box : Box
        Decides between the orthorhombic and the triclinic kernel.
    buffer : float, optional
        nm by which the pair list reaches beyond the cutoff (see ``PairList``). It changes no result.
    width : int, optional
        SIMD width (4, 8, 16); None: what suits the CPU. It changes no result.
    origin : three int
        Where the pair list's grid begins, box fraction as int32. It changes no result.
    """

    energy_names: tuple[str, ...] = ("lj", "coulomb", "dispersion_correction")

    def __init__(
        self,
        table: NonbondedTable,
        backend: Backend,
        box: Box,
        buffer: float | None = None,
        width: int | None = None,
        origin: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        self.label = table.label
        self.energy_labels: tuple[str, ...] = (table.lj_label, table.label, table.lj_label)
        self.table, self.backend = table, backend
        self.slot = 0
        self._buffer = DEFAULT_BUFFER if buffer is None else buffer
        self._width, self._origin = width, origin
        if table.method == "LJPME" and table.switch_distance is not None:
            raise UnsupportedError(
                f"{table.lj_label} switches the Lennard-Jones forces off and sums them by LJPME too; "
                "LJPME has no discontinuity to be smoothed: turn the switching function off"
            )
        self._parameters = AtomParameters(table)
        self._ewald = table.method in ("PME", "LJPME")
        self._triclinic = not box.orthorhombic
        self._constants = self._pack_constants()
        self.bind(LocalView(*(np.arange(len(table.charge), dtype=np.int32),) * 2, len(table.charge)))
        self.halo_width = self.pair_list.cutoff + self.pair_list.buffer

    @property
    def cutoff(self) -> float:
        """nm; inf where there is none."""
        return math.inf if self.table.method == "NoCutoff" else self.table.cutoff

    def _pack_constants(self) -> np.ndarray:
        table, cutoff = self.table, self.cutoff
        limit = math.sqrt(MAX_X)
        for name, alpha in (("Ewald", table.ewald_alpha), ("LJPME", table.ljpme_alpha)):
            if self._ewald and alpha * cutoff > limit:
                raise InputError(
                    f"the {name} splitting parameter {alpha:g}/nm is too large for a cutoff of {cutoff:g} nm: their product "
                    f"may be at most {limit:g}; raise the error tolerance"
                )
        constants: np.ndarray = self.backend.kernel("pair.pack_constants")(
            cutoff,
            dielectric=table.reaction_field_dielectric,
            switch_distance=table.switch_distance,
            alpha=table.ewald_alpha if self._ewald else 0.0,
            dispersion_alpha=table.ljpme_alpha if table.method == "LJPME" else 0.0,
            reaction_field=not self._ewald,
        )
        return self.backend.asarray(constants)

    def _kernel(self, with_energy: bool):  # type: ignore[no-untyped-def]
        return self.backend.kernel("pair.pair_kernel")(
            self.pair_list.width,
            ewald=self._ewald,
            table=self._parameters.by_type,
            ljpme=self.table.method == "LJPME",
            switch=self.table.switch_distance is not None,
            triclinic=self._triclinic,
            energy=with_energy,
        )

    # ---- ForceTerm ------------------------------------------------------------------------------------------------------

    def bind(self, view: LocalView) -> None:
        """Make the pair list for the atoms of this rank."""
        self._ids = view.ids
        exclusions = view.global_to_local[self.table.exclusions.reshape(-1, 2)]
        exclusions = exclusions[(exclusions >= 0).all(axis=1)]
        self.pair_list = PairList(
            self.backend, self.cutoff, len(view.ids), exclusions, self._parameters.has_lj[view.ids],
            buffer=self._buffer, width=self._width, origin=self._origin,
        )  # fmt: skip

    def update_list(self, positions: np.ndarray, box: Box) -> None:
        """Make the pair list good for ``positions``; ``compute`` is for the same ones."""
        if self.pair_list.update(positions, box):
            self._fill_slots()

    def compute(self, positions: np.ndarray, box: Box, out: ForceBuffers, with_energy: bool) -> None:
        """Add forces (and energies) at ``positions`` int32[n, 3], for which the list was updated."""
        pairs, threads = self.pair_list, self.backend.n_threads
        if not self._triclinic and not box.orthorhombic:
            self._triclinic = True
        lattice = box.lattice.astype(np.float32).ravel()
        self._kernel(with_energy)(
            threads, pairs.row_bounds, pairs.n_lj, pairs.rows.arrays,
            (pairs.coordinates, self._slot_parameters, self._slot_types),
            (lattice, self._constants, self._parameters.table, self._parameters.n_types),
            self._slot_forces, out.energies[self.slot : self.slot + 2], out.flags[self.slot],
        )  # fmt: skip
        self.backend.kernel("pair.reduce_forces")(
            pairs.slot_atom, self._slot_forces, threads, out.forces, out.flags[self.slot]
        )
        if with_energy and self.table.dispersion_coefficient:
            energy = self.table.dispersion_coefficient / box.volume
            out.energies[self.slot + 2, 0] += round(energy * ENERGY_SCALE)

    def _fill_slots(self) -> None:
        """Parameters in cluster order; none in padding slots."""
        slot_atom = self.pair_list.slot_atom
        real = slot_atom >= 0
        atoms = self._ids[np.where(real, slot_atom, 0)]
        parameters = np.where(real, self._parameters.values[:, atoms], np.float32(0.0))
        self._slot_parameters = self.backend.asarray(parameters)
        self._slot_types = np.where(real, self._parameters.types[atoms], np.int32(self._parameters.n_types - 1))
        shape = (self.backend.n_threads, 3, len(slot_atom))
        if getattr(self, "_slot_forces", np.empty(0)).shape != shape:
            self._slot_forces = self.backend.zeros(shape, np.int32)
