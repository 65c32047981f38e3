"""Boxes that change size with whole molecules in them, and the pressure that this gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mdsim.backends import Backend
from mdsim.box import Box
from mdsim.errors import InputError
from mdsim.kernels.fixed_point import ENERGY_SCALE
from mdsim.ranks import SumOverRanks, on_one_rank
from mdsim.state import LocalView, State
from mdsim.tables import CompiledSystem
from mdsim.units import BAR, BOLTZMANN

#: potential energy of the present positions and box, over all ranks, ENERGY_SCALE units
EnergyFunction = Callable[[], int]
#: relative change of the volume to either side, for the derivative of the energy: at 2e-3 its curvature is worth less than 1 bar
#: in water, and rounding of energies (1e-3 kJ/mol) some 1 bar in 4 nm^3
VOLUME_STEP = 2e-3


@dataclass(frozen=True)
class SavedBox:
    """What a volume move changes, as it was."""

    box: Box
    positions: np.ndarray
    images: np.ndarray


class Molecules:
    """The molecules of a system as things that a box move carries along whole.

    Parameters
    ----------
    backend
    system
    sum_over_ranks
        Sums int64 arrays over ranks: a molecule may lie on several.
    """

    def __init__(
        self, backend: Backend, system: CompiledSystem, sum_over_ranks: SumOverRanks = on_one_rank
    ) -> None:
        if not system.periodic:
            raise InputError("a system without periodic boundaries has no pressure; leave out the barostat")
        self.backend, self.sum_over_ranks = backend, sum_over_ranks
        self.sizes = np.diff(system.molecule_start).astype(np.int64)
        self._molecule = np.empty(system.n_atoms, np.int32)
        self._molecule[system.molecule_atoms] = np.repeat(np.arange(len(self.sizes)), self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def bind(self, view: LocalView) -> None:
        """Take the atoms that this rank now holds."""
        self._local = self.backend.asarray(self._molecule[view.ids[: view.n_local]], np.int32)
        self._sums = self.backend.zeros((self.backend.n_threads, len(self.sizes), 3), np.int64)

    def centres(self, state: State) -> np.ndarray:
        """Unweighted mean of each molecule's atoms, int64[n_molecules, 3], unwrapped, rounded to 2**-32 of the box."""
        self.backend.kernel("volume_moves.molecule_sums")(
            state.positions, state.images, self._local, self.backend.n_threads, self._sums
        )
        total = self.sum_over_ranks(self.backend.to_host(self._sums).sum(axis=0))
        sizes = self.sizes[:, None]
        return (2 * total + sizes) // (2 * sizes)

    def scale(self, state: State, factors: np.ndarray) -> None:
        """Multiply the x, y and z components of the box vectors and of the molecules' centres by ``factors``, float64[3]."""
        old, new = state.box, Box(state.box.vectors * factors, periodic=state.box.periodic)
        self.backend.kernel("volume_moves.keep_shapes")(
            state.positions, state.images, self._local, self.backend.asarray(self.centres(state)),
            old.lattice, new.lattice, new.inverse, self.backend.n_threads,
        )  # fmt: skip
        state.box = new

    @staticmethod
    def save(state: State) -> SavedBox:
        return SavedBox(state.box, state.positions.copy(), state.images.copy())

    @staticmethod
    def restore(state: State, saved: SavedBox) -> None:
        """Bring back every bit of what ``save`` saw."""
        state.box = saved.box
        state.positions[:] = saved.positions
        state.images[:] = saved.images


def molecular_pressure(molecules: Molecules, state: State, energy_fn: EnergyFunction, temperature: float) -> float:
    """Pressure in bar: N kT / V of the ``molecules`` less dU/dV by a central difference over scaled boxes.

    ``state`` comes back as it was; the forces that ``energy_fn`` may have computed on the way do not.
    """
    cube_root = molecules.backend.kernel("volume_moves.power")
    saved, volume = Molecules.save(state), state.box.volume
    energies = []
    for change in (VOLUME_STEP, -VOLUME_STEP):
        molecules.scale(state, np.full(3, cube_root(1.0 + change, 1.0 / 3.0)))
        energies.append(energy_fn())
        Molecules.restore(state, saved)
    slope = (energies[0] - energies[1]) / ENERGY_SCALE / (2.0 * VOLUME_STEP * volume)
    ideal = len(molecules) * BOLTZMANN * temperature / volume
    return float((ideal - slope) / BAR)
