"""Velocity Verlet with a global thermostat: stochastic velocity rescaling, and the Nose-Hoover chain."""

from __future__ import annotations

import numpy as np

from mdsim.checks import require_number
from mdsim.errors import InputError
from mdsim.integrators.base import Motion
from mdsim.integrators.verlet import VelocityVerlet
from mdsim.state import State
from mdsim.units import BOLTZMANN


class ThermostattedVerlet(VelocityVerlet):
    """Velocity Verlet coupled to a heat bath through the total kinetic energy."""

    def __init__(self, motion: Motion, timestep: float, temperature: float, coupling_time: float) -> None:
        super().__init__(motion, timestep)
        if self.degrees_of_freedom < 1:
            raise InputError(f"the {self.name} thermostat has nothing to act on: the system has no degree of freedom")
        bath = require_number("temperature", temperature, "K", 0.0, above=True)
        self.coupling_time = require_number("coupling_time", coupling_time, "ps", 0.0, above=True)
        self.temperature, self.kT = bath, BOLTZMANN * bath


class Bussi(ThermostattedVerlet):
    """Velocity Verlet, then stochastic velocity rescaling: Bussi, Donadio & Parrinello, J. Chem. Phys. 126, 014101 (2007).

    Parameters
    ----------
    motion
    timestep : ps
    temperature : K
    coupling_time : ps
        Relaxation time of the kinetic energy, tau of the paper.
    seed
    """

    name = "bussi"
    #: energy taken from the system so far, kJ/mol, float64[1] in ``State.extra``
    BATH = "bussi_bath_energy"

    def __init__(self, motion: Motion, timestep: float, temperature: float, coupling_time: float = 1.0, seed: int = 1) -> None:
        super().__init__(motion, timestep, temperature, coupling_time)
        self.seed = int(seed)

    def second_half(self, state: State, forces: np.ndarray) -> None:
        super().second_half(state, forces)
        kinetic = self.kinetic_energy(state)
        factor = self.motion.backend.kernel("thermostats.rescaling_factor")(
            kinetic, self.kT, self.degrees_of_freedom, self.timestep, self.coupling_time, self.seed, state.step
        )
        self.motion.scale_velocities(state, factor)
        state.extra[self.BATH] = self._bath(state) - kinetic * (factor * factor - 1.0)

    def bath_energy(self, state: State) -> float:
        return float(self._bath(state)[0])

    def _bath(self, state: State) -> np.ndarray:
        return state.extra.setdefault(self.BATH, np.zeros(1))


class NoseHooverChain(ThermostattedVerlet):
    """Half a chain step, velocity Verlet, half a chain step: Martyna, Tuckerman, Tobias & Klein, Mol. Phys. 87, 1117 (1996).

    Parameters
    ----------
    motion
    timestep : ps
    temperature : K
    coupling_time : ps
        Period of the thermostats' own oscillation.
    chain_length
    """

    name = "nose-hoover"
    #: thermostat positions and velocities (1/ps), float64[chain_length] each in ``State.extra``
    POSITIONS, VELOCITIES = "nose_hoover_positions", "nose_hoover_velocities"

    def __init__(
        self, motion: Motion, timestep: float, temperature: float, coupling_time: float = 1.0, chain_length: int = 3
    ) -> None:
        super().__init__(motion, timestep, temperature, coupling_time)
        if chain_length < 1:
            raise InputError(f"chain_length must be at least 1, got {chain_length}")
        self.chain_length = int(chain_length)

    def first_half(self, state: State, forces: np.ndarray) -> None:
        self._half_chain(state)
        super().first_half(state, forces)

    def second_half(self, state: State, forces: np.ndarray) -> None:
        super().second_half(state, forces)
        self._half_chain(state)

    def bath_energy(self, state: State) -> float:
        return float(
            self.motion.backend.kernel("thermostats.chain_energy")(
                self.kT, self.degrees_of_freedom, self.coupling_time, *self._chain(state)
            )
        )

    def _half_chain(self, state: State) -> None:
        factor = self.motion.backend.kernel("thermostats.advance_chain")(
            self.kinetic_energy(state), self.kT, self.degrees_of_freedom, self.timestep, self.coupling_time,
            *self._chain(state),
        )  # fmt: skip
        self.motion.scale_velocities(state, factor)

    def _chain(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Thermostat positions and velocities of ``state``; at rest at first."""
        xi = state.extra.setdefault(self.POSITIONS, np.zeros(self.chain_length))
        v_xi = state.extra.setdefault(self.VELOCITIES, np.zeros(self.chain_length))
        if len(xi) != self.chain_length:
            raise InputError(f"the state holds a chain of {len(xi)} thermostats, but chain_length is {self.chain_length}")
        return xi, v_xi
