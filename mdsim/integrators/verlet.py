"""Velocity Verlet: Swope, Andersen, Berens & Wilson, J. Chem. Phys. 76, 637 (1982); with constraints, RATTLE (Andersen 1983)."""

from __future__ import annotations

import numpy as np

from mdsim.integrators.base import BaseIntegrator
from mdsim.state import State


class VelocityVerlet(BaseIntegrator):
    """V/2 R V/2: constant energy. Velocities are those of the whole step."""

    name = "velocity-verlet"

    def first_half(self, state: State, forces: np.ndarray) -> None:
        self.motion.kick(state, forces, 0.5 * self.timestep)
        self.motion.drift(state, self.timestep)
        self.motion.move(state, self.timestep)

    def second_half(self, state: State, forces: np.ndarray) -> None:
        self.motion.kick(state, forces, 0.5 * self.timestep)
        self.motion.constrain_velocities(state)
