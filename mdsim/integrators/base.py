"""What an integrator is, and the moves that all of them are made of."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mdsim.backends import Backend
from mdsim.checks import require_number
from mdsim.constraints import Constraints
from mdsim.errors import SimulationError
from mdsim.kernels.fixed_point import FLAG_NOT_FINITE, KINETIC_SCALE, MOMENTUM_SCALE
from mdsim.ranks import SumOverRanks, on_one_rank
from mdsim.state import LocalView, State
from mdsim.tables import CompiledSystem
from mdsim.units import BOLTZMANN


class Integrator(Protocol):
    """Advances a state by one step, in two halves around the force computation (``mdsim/engine/step.py``)."""

    name: str
    timestep: float  # ps
    temperature: float | None  # K; None where the integrator has no heat bath
    degrees_of_freedom: int

    def bind(self, view: LocalView) -> None:
        """Take the atoms that this rank now holds."""

    def first_half(self, state: State, forces: np.ndarray) -> None:
        """From positions at n and forces int64[n, 3] at n to positions at n + 1."""

    def second_half(self, state: State, forces: np.ndarray) -> None:
        """What is left of the step once the forces at n + 1 are known."""

    def kinetic_energy(self, state: State) -> float:
        """kJ/mol, over all ranks, of the velocities as they are."""

    def bath_energy(self, state: State) -> float:
        """kJ/mol to add to potential and kinetic energy for the conserved quantity; 0 where the integrator has none."""

    def constrain(self, state: State) -> None:
        """Make positions and velocities obey the constraints."""

    def draw_velocities(self, state: State, temperature: float, seed: int) -> None:
        """Velocities of the Maxwell-Boltzmann distribution at ``temperature`` (K)."""

    def remove_cm_motion(self, state: State) -> None:
        """Stop the centre of mass."""


class Motion:
    """Kicks, drifts and constraints on the local atoms of one system, and the sums over its atoms.

    Parameters
    ----------
    backend
    system
    sum_over_ranks
        Sums of int64 arrays over all ranks; the default is for one rank.
    """

    def __init__(
        self, backend: Backend, system: CompiledSystem, sum_over_ranks: SumOverRanks = on_one_rank
    ) -> None:
        self.backend, self.system, self.sum_over_ranks = backend, system, sum_over_ranks
        self.constraints = Constraints(backend, system.constraints, system.masses)
        self.flags = backend.zeros(backend.n_threads, np.int32)
        self.total_mass = float(sum(system.masses.tolist()))  # in the order of the global ids

    def bind(self, view: LocalView) -> None:
        """Take the atoms that this rank now holds."""
        backend, n = self.backend, view.n_local
        masses = self.system.masses[view.ids[:n]]
        self.masses = backend.asarray(masses, np.float64)
        self.inverse_masses = backend.asarray(np.divide(1.0, masses, out=np.zeros(n), where=masses > 0))
        self.dx = backend.zeros((n, 3), np.float64)
        self.unconstrained = backend.zeros((n, 3), np.float64)
        self._sums = backend.zeros((backend.n_threads, 4), np.int64)
        self.constraints.bind(view)

    def kick(self, state: State, forces: np.ndarray, dt: float) -> None:
        """V: velocities by forces over ``dt`` (ps)."""
        self.backend.kernel("integrate.kick")(
            state.velocities, forces, self.inverse_masses, dt, self.backend.n_threads
        )

    def drift(self, state: State, dt: float) -> None:
        """R: displacements by velocities over ``dt`` (ps)."""
        self.backend.kernel("integrate.drift")(
            state.velocities, self.inverse_masses, dt, self.dx, self.unconstrained, self.backend.n_threads
        )

    def drift_noise_drift(self, state: State, dt: float, decay: float, noise: float, seed: int) -> None:
        """R O R: displacements over ``dt`` (ps) with noise in the middle."""
        self.backend.kernel("integrate.drift_noise_drift")(
            state.velocities, self.inverse_masses, state.ids, seed, state.step, dt, decay, noise,
            self.dx, self.unconstrained, self.backend.n_threads,
        )  # fmt: skip

    def move(self, state: State, dt: float) -> None:
        """Constrain the displacements, correct the velocities for it (over ``dt``; 0: leave them), and move the atoms."""
        self.constraints.apply_to_displacements(state.positions, state.box, self.dx, state.step)
        self.backend.kernel("integrate.move")(
            state.positions, state.images, state.velocities, self.dx, self.unconstrained,
            1.0 / dt if dt > 0 else 0.0, state.box.inverse, self.backend.n_threads, self.flags,
        )  # fmt: skip
        if self.backend.to_host(self.flags).any():
            self._raise_flagged(state)

    def constrain_velocities(self, state: State) -> None:
        """Take out the velocities along constraints."""
        self.constraints.apply_to_velocities(state.positions, state.box, state.velocities, state.step)

    def constrain(self, state: State) -> None:
        """Make positions and velocities obey the constraints, without moving anything else."""
        self.dx.fill(0.0)
        self.unconstrained.fill(0.0)
        self.move(state, dt=0.0)
        self.constrain_velocities(state)

    def draw_velocities(self, state: State, temperature: float, seed: int) -> None:
        """Maxwell-Boltzmann velocities at ``temperature`` (K) that obey the constraints; at rest as a whole if the system is."""
        require_number("temperature", temperature, "K", 0.0)
        self.backend.kernel("integrate.maxwell_boltzmann")(
            state.velocities, self.inverse_masses, state.ids, seed, BOLTZMANN * temperature, self.backend.n_threads
        )
        self.constrain_velocities(state)
        if self.system.remove_cm_frequency:
            self.remove_cm_motion(state)

    def scale_velocities(self, state: State, factor: float, shift: np.ndarray | None = None) -> None:
        """v = factor v + shift for all atoms with mass."""
        by = self.backend.asarray(np.zeros(3) if shift is None else shift, np.float64)
        self.backend.kernel("reductions.scale_and_shift")(
            state.velocities, self.inverse_masses, factor, by, self.backend.n_threads
        )

    def remove_cm_motion(self, state: State) -> None:
        """Stop the centre of mass."""
        self.scale_velocities(state, 1.0, -self.momentum(state) / self.total_mass)

    def kinetic_energy(self, state: State) -> float:
        """kJ/mol, over all ranks."""
        twice_kinetic = int(self._moments(state)[0])
        return 0.5 * twice_kinetic / float(KINETIC_SCALE)

    def momentum(self, state: State) -> np.ndarray:
        """float64[3], amu nm/ps, over all ranks."""
        momentum: np.ndarray = self._moments(state)[1:] / MOMENTUM_SCALE
        return momentum

    def _moments(self, state: State) -> np.ndarray:
        """int64[4]: twice the kinetic energy and the momentum, over all ranks."""
        self.backend.kernel("reductions.kinetic_and_momentum")(
            state.velocities, self.masses, self.backend.n_threads, self._sums
        )
        return self.sum_over_ranks(self.backend.to_host(self._sums).sum(axis=0))

    def _raise_flagged(self, state: State) -> None:
        not_finite = (self.backend.to_host(self.flags) & FLAG_NOT_FINITE).any()
        self.flags.fill(0)
        length = np.sqrt((self.backend.to_host(self.dx) ** 2).sum(axis=1))
        atom = int(np.argmax(np.nan_to_num(length, nan=np.inf)))
        how = "to a place that is not a number" if not_finite else f"{length[atom]:.3g} nm, half the box or more"
        number = int(state.ids[atom])
        raise SimulationError(
            f"step {state.step}: atom {number} would move {how}, in one step. Minimise first, or shorten the timestep",
            atoms=(number,),
        )


class BaseIntegrator:
    """What the integrators share: a ``Motion`` and the questions it answers."""

    name = "base"
    temperature: float | None = None

    def __init__(self, motion: Motion, timestep: float) -> None:
        self.motion = motion
        self.timestep = require_number("timestep", timestep, "ps", 0.0, above=True)
        self.degrees_of_freedom = motion.system.degrees_of_freedom

    def bind(self, view: LocalView) -> None:
        self.motion.bind(view)

    def kinetic_energy(self, state: State) -> float:
        return self.motion.kinetic_energy(state)

    def bath_energy(self, state: State) -> float:
        return 0.0

    def constrain(self, state: State) -> None:
        self.motion.constrain(state)

    def draw_velocities(self, state: State, temperature: float, seed: int) -> None:
        self.motion.draw_velocities(state, temperature, seed)

    def remove_cm_motion(self, state: State) -> None:
        self.motion.remove_cm_motion(state)
