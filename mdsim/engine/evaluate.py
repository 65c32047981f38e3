"""Total forces and energies of a state: all terms, all threads, all ranks, summed as integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdsim.backends import Backend
from mdsim.constraints.virtual_sites import VirtualSites
from mdsim.domain.comm import Communicator
from mdsim.engine.timers import Timers
from mdsim.forces import part_of
from mdsim.forces.base import ForceBuffers, ForceTerm, ListedTerm, LocalView
from mdsim.kernels.fixed_point import ENERGY_SCALE, FORCE_SCALE
from mdsim.state import State


class ForceEvaluator:
    """Owns the force buffers and the terms.

    Attributes
    ----------
    forces : int64[n_local + n_ghost, 3]
        Total forces of the last ``compute``, kJ/mol/nm in FORCE_SCALE units; zero on virtual sites (handed to their parents).
    energies : int64[n_energies]
        Energies of the last ``compute`` that asked for them, kJ/mol in ENERGY_SCALE units, summed over ranks.
    flags : int32[n_energies]
        Flag bits of the last ``compute`` by energy name.
    """

    def __init__(
        self,
        backend: Backend,
        comm: Communicator,
        terms: Sequence[ForceTerm],
        sites: VirtualSites,
        timers: Timers,
    ) -> None:
        self.backend, self.comm, self.terms, self.sites, self.timers = backend, comm, list(terms), sites, timers
        self._listed = [term for term in self.terms if isinstance(term, ListedTerm)]
        self.names: list[str] = []
        self.labels: list[str] = []
        for term in self.terms:
            term.slot = len(self.names)
            self.names.extend(_unique(term.energy_names, self.names))
            self.labels.extend(term.energy_labels)
        self.forces = backend.zeros((0, 3), np.int64)
        self.energies = np.zeros(len(self.names), np.int64)
        self.flags = np.zeros(len(self.names), np.int32)
        self._sum_and_clear = backend.kernel("accumulate.sum_and_clear")
        self._current: tuple[bool, bool] = (False, False)  # forces, energies belong to the present positions

    def bind(self, view: LocalView) -> None:
        """Take the atoms that this rank now holds."""
        n, threads = len(view.ids), self.backend.n_threads
        self.buffers = ForceBuffers(
            forces=self.backend.zeros((threads, n, 3), np.int64),
            energies=self.backend.zeros((len(self.names), threads), np.int64),
            flags=self.backend.zeros((len(self.names), threads), np.int32),
        )
        self.forces = self.backend.zeros((n, 3), np.int64)
        for term in self.terms:
            term.bind(view)
        self.sites.bind(view)
        self.invalidate()

    def invalidate(self) -> None:
        """The positions or the box have changed."""
        self._current = (False, False)

    def compute(self, state: State, with_energy: bool) -> None:
        """Place virtual sites and bring ``forces`` (and ``energies``) up to date with ``state``; nothing if they are."""
        forces_current, energies_current = self._current
        if forces_current and (energies_current or not with_energy):
            return
        out = self.buffers
        out.energies.fill(0)
        out.flags.fill(0)
        with self.timers.part("virtual sites"):
            self.sites.place(state)
        self._update_lists(state)
        for term in self.terms:
            with self.timers.part(part_of(term)):
                term.compute(state.positions, state.box, out, with_energy)
        with self.timers.part("force sum"):
            self._sum_and_clear(out.forces, self.backend.n_threads, self.forces)
        with self.timers.part("virtual sites"):
            self.sites.spread(state, self.forces)
        self.flags = np.bitwise_or.reduce(self.backend.to_host(out.flags), axis=1)
        if with_energy:
            self.energies = self.comm.sum(self.backend.to_host(out.energies).sum(axis=1))
        self._current = (True, with_energy)

    def _update_lists(self, state: State) -> None:
        for term in self._listed:
            with self.timers.part("list"):
                term.update_list(state.positions, state.box)

    def forces_by_term(self, state: State, atom: int) -> list[tuple[str, float]]:
        """(energy names of a term, size of its force on local ``atom`` in kJ/mol/nm), term by term. For diagnoses: slow."""
        out, result = self.buffers, list[tuple[str, float]]()
        self._update_lists(state)
        for term in self.terms:
            out.forces.fill(0)
            term.compute(state.positions, state.box, out, False)
            force = self.backend.to_host(out.forces)[:, atom].astype(np.float64).sum(axis=0) / FORCE_SCALE
            result.append((", ".join(term.energy_names), float(np.sqrt((force**2).sum()))))
        out.forces.fill(0)
        self.invalidate()
        return result

    @property
    def potential(self) -> int:
        """Potential energy of the last ``compute`` with energies, ENERGY_SCALE units (exact)."""
        return int(self.energies.sum())

    def energy_by_name(self) -> dict[str, float]:
        """Energies of the last ``compute`` that asked for them, kJ/mol."""
        return {name: int(e) / ENERGY_SCALE for name, e in zip(self.names, self.energies, strict=True)}

    def confirm(self) -> None:
        """The last ``compute`` (with energies) was for the state as it now is."""
        self._current = (True, True)

    def save(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Copies of the present results, to go back to after a rejected Monte Carlo move."""
        return self.forces.copy(), self.energies.copy(), self.flags.copy()

    def restore(self, saved: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Results that ``save`` returned, for the positions it was called with."""
        self.forces[:] = saved[0]
        self.energies, self.flags = saved[1], saved[2]
        self.confirm()


def _unique(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """``names``, numbered where the system has several forces of a kind: bonds, bonds:2, ..."""
    result: list[str] = []
    for name in names:
        known = [*taken, *result]
        count = 2
        unique = name
        while unique in known:
            unique, count = f"{name}:{count}", count + 1
        result.append(unique)
    return result
