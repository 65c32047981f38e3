"""Langevin dynamics with the noise in the middle: Zhang, Liu, Yan, Tuckerman & Liu, J. Phys. Chem. A 123, 6056 (2019)."""

from __future__ import annotations

from math import sqrt

import numpy as np

from mdsim.checks import require_number
from mdsim.integrators.base import BaseIntegrator, Motion
from mdsim.state import State
from mdsim.units import BOLTZMANN


class LangevinMiddle(BaseIntegrator):
    """V R O R with constraints after V and after R: the discretisation of OpenMM's ``LangevinMiddleIntegrator``.

    The whole step is one kick, so velocities lag the positions by half a step. Configurations of a harmonic oscillator
    are sampled exactly at any timestep.

    Parameters
    ----------
    motion
    timestep : ps
    temperature : K
    friction : 1/ps
    seed
    """

    name = "langevin-middle"

    def __init__(self, motion: Motion, timestep: float, temperature: float, friction: float = 1.0, seed: int = 1) -> None:
        super().__init__(motion, timestep)
        bath = require_number("temperature", temperature, "K", 0.0)
        self.friction = require_number("friction", friction, "1/ps", 0.0)
        self.temperature, self.seed = bath, int(seed)
        self.decay = float(motion.backend.kernel("thermostats.decay_factor")(self.friction, self.timestep))
        self.noise = sqrt(BOLTZMANN * bath * (1.0 - self.decay * self.decay))

    def first_half(self, state: State, forces: np.ndarray) -> None:
        self.motion.kick(state, forces, self.timestep)
        self.motion.constrain_velocities(state)
        self.motion.drift_noise_drift(state, self.timestep, self.decay, self.noise, self.seed)
        self.motion.move(state, self.timestep)

    def second_half(self, state: State, forces: np.ndarray) -> None:
        """Nothing: the step is complete."""
