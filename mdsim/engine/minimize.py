"""Energy minimisation by FIRE 2.0, with constraints, from any start, overlapping atoms included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from mdsim.backends import Backend
from mdsim.checks import require_number
from mdsim.constraints import VirtualSites
from mdsim.engine.evaluate import ForceEvaluator
from mdsim.errors import InputError, SimulationError
from mdsim.forces import build_terms
from mdsim.integrators import Motion
from mdsim.kernels.fixed_point import DESCENT_VELOCITY_SCALE, ENERGY_SCALE, FLAG_NOT_FINITE, LIMB
from mdsim.ranks import SumOverRanks, on_one_rank
from mdsim.state import LocalView, State
from mdsim.tables import CompiledSystem, NonbondedTable, PairExceptionTable

if TYPE_CHECKING:
    from mdsim.engine.simulation import Simulation

#: total forces int64[n, 3], potential energy (kJ/mol) and flag bits of the present positions
ForceFunction = Callable[[], tuple[np.ndarray, float, int]]

#: timesteps in ps for masses of 1 amu: first, largest and smallest. The largest is just stable for the stiffest bonds of the
#: force fields (5e5 kJ/mol/nm^2), so that soft modes are not stopped over and over by stiff ones
FIRST_DT, LARGEST_DT, SMALLEST_DT = 5e-4, 1.6e-3, 1e-5
#: parameters of the method, table 1 of the paper
GROW, SHRINK, ALPHA, ALPHA_SHRINK, DELAY = 1.1, 0.5, 0.25, 0.99, 20
#: no atom moves further in one step (nm)
MAX_STEP = 0.02
#: atoms in exactly one place are moved apart by steps of this (nm) along the 26 directions of a cube
SEPARATION = 0.01
#: steps without charges where atoms overlap
OVERLAP_STEPS = 50
DIRECTIONS = np.array([(i, j, k) for i in (0, 1, -1) for j in (0, 1, -1) for k in (0, 1, -1)][1:], dtype=np.float64)


@dataclass(frozen=True)
class MinimizationResult:
    """How a minimisation ended."""

    steps: int
    converged: bool
    energy: float  # kJ/mol
    rms_force: float  # kJ/mol/nm, over the force components along which atoms can move


def minimize(
    sim: Simulation,
    *,
    tolerance: float = 10.0,
    max_steps: int = 1000,
    progress: Callable[[int, float, float], None] | None = None,
) -> MinimizationResult:
    """Relax the positions of ``sim`` until the rms force is below ``tolerance`` (kJ/mol/nm) or ``max_steps`` are done.

    ``progress(step, energy, rms_force)`` is told of each step.
    """
    full = _minimizer(sim, sim.system, sim.evaluator, tolerance, max_steps)
    part_coincident(sim.state, full.movable)
    sim.evaluator.invalidate()
    sim.evaluator.compute(sim.state, with_energy=False)
    clipped = np.array([int((sim.evaluator.flags != 0).sum())], np.int64)
    if sim.comm.sum(clipped)[0]:
        part_overlapping(sim)
    return full.run(sim.state, progress)


def part_overlapping(sim: Simulation) -> None:
    """Move atoms apart by all forces but those of charges.

    Where forces are clipped the repulsion of two overlapping waters is no greater than the attraction of hydrogen and oxygen, which
    then end up in one place; without charges there is nothing to hold them together.
    """
    system = replace(sim.system, forces=tuple(_uncharged(table) for table in sim.system.forces))
    terms = build_terms(system, sim.backend, sim.state.box, sim.force_options)
    evaluator = ForceEvaluator(
        sim.backend, sim.comm, terms, VirtualSites(sim.backend, system.virtual_sites), sim.timers
    )
    evaluator.bind(sim.domain.view(sim.state))
    _minimizer(sim, system, evaluator, 10.0, OVERLAP_STEPS).run(sim.state)
    sim.evaluator.invalidate()


def _uncharged(table: Any) -> Any:
    for name in ("charge", "charge_product"):
        if isinstance(table, NonbondedTable | PairExceptionTable) and hasattr(table, name):
            return replace(table, **{name: np.zeros_like(getattr(table, name))})
    return table


def _minimizer(
    sim: Simulation, system: CompiledSystem, evaluator: ForceEvaluator, tolerance: float, max_steps: int
) -> Minimizer:
    def forces() -> tuple[np.ndarray, float, int]:
        evaluator.invalidate()
        evaluator.compute(sim.state, with_energy=True)
        return evaluator.forces, evaluator.potential / ENERGY_SCALE, int(np.bitwise_or.reduce(evaluator.flags))

    minimizer = Minimizer(
        sim.backend, system, forces, tolerance=tolerance, max_steps=max_steps, sum_over_ranks=sim.comm.sum
    )
    minimizer.bind(sim.domain.view(sim.state))
    return minimizer


class Minimizer:
    """Minimises the energy of a state.

    Parameters
    ----------
    backend
    system
    force_fn
        Places virtual sites, computes forces (site forces handed to the parents) for the state as it then is. Clipped forces are
        fine; a flag that says not finite is not.
    tolerance : kJ/mol/nm
        Stop when the root mean square of the force components is below this.
    max_steps
    sum_over_ranks
        Sums int64 arrays over ranks.
    """

    def __init__(
        self,
        backend: Backend,
        system: CompiledSystem,
        force_fn: ForceFunction,
        *,
        tolerance: float = 10.0,
        max_steps: int = 1000,
        sum_over_ranks: SumOverRanks = on_one_rank,
    ) -> None:
        self.tolerance = require_number("tolerance", tolerance, "kJ/mol/nm", 0.0, above=True)
        if max_steps < 1:
            raise InputError(f"max_steps of the minimisation must be at least 1, got {max_steps}")
        self.backend, self.force_fn, self.max_steps = backend, force_fn, max_steps
        self.sum_over_ranks = sum_over_ranks
        # every atom weighs the same: constraints then project along straight lines, and hydrogens do not run ahead
        movable = (system.masses > 0).astype(np.float64)
        self.n_components = max(3 * int(movable.sum()), 1)
        self.motion = Motion(backend, replace(system, masses=movable), sum_over_ranks)

    @property
    def movable(self) -> np.ndarray:
        """bool[n] of the local atoms: those with mass."""
        movable: np.ndarray = self.backend.to_host(self.motion.inverse_masses) > 0
        return movable

    def bind(self, view: LocalView) -> None:
        """Take the atoms that this rank now holds."""
        self.motion.bind(view)
        self._forces = self.backend.zeros((view.n_local, 3), np.float64)
        self._sums = self.backend.zeros((self.backend.n_threads, 3, 2), np.int64)

    def run(self, state: State, progress: Callable[[int, float, float], None] | None = None) -> MinimizationResult:
        """Move ``state`` downhill; velocities are left as they were."""
        velocities, state.velocities = state.velocities, self.backend.zeros(state.velocities.shape, np.float64)
        try:
            return self._descend(state, progress)
        finally:
            state.velocities = velocities

    def _descend(self, state: State, progress: Callable[[int, float, float], None] | None) -> MinimizationResult:
        dt, alpha, downhill_steps = FIRST_DT, ALPHA, 0
        part_coincident(state, self.movable)
        self.motion.constrain(state)
        for step in range(self.max_steps + 1):
            energy = self._compute_forces(state)
            ff, fv, vv = self._dot_products(state)
            rms = sqrt(ff / self.n_components)
            if progress is not None:
                progress(step, energy, rms)
            converged = rms < self.tolerance and not self._clipped
            if converged or step == self.max_steps or ff == 0.0:
                break
            back, keep = 0.0, 1.0
            if fv > 0.0:
                downhill_steps += 1
                if downhill_steps > DELAY:
                    dt, alpha = min(dt * GROW, LARGEST_DT), alpha * ALPHA_SHRINK
            else:
                downhill_steps, alpha = 0, ALPHA
                back, keep, fv, vv = 0.5 * dt, 0.0, 0.0, 0.0
                if step >= DELAY:
                    dt = max(dt * SHRINK, SMALLEST_DT)
            # v = (1 - alpha) (v + dt F) + alpha |v + dt F| F / |F|
            speed = sqrt(max(vv + 2.0 * dt * fv + dt * dt * ff, 0.0))
            pull = (1.0 - alpha) * dt + alpha * speed / sqrt(ff)
            self._step(state, dt, (1.0 - alpha) * keep, pull, back)
        return MinimizationResult(step, converged, energy, rms)

    def _compute_forces(self, state: State) -> float:
        """Forces along which the atoms can move; returns the energy."""
        forces, energy, flags = self.force_fn()
        if flags & FLAG_NOT_FINITE:
            raise SimulationError(
                "the energy minimisation met a force that is not a number; check the coordinates it started from"
            )
        self._clipped = flags != 0
        self.backend.kernel("fire.forces_as_float")(
            forces, self.motion.inverse_masses, self._forces, self.backend.n_threads
        )
        self.motion.constraints.apply_to_velocities(state.positions, state.box, self._forces)
        return energy

    def _dot_products(self, state: State) -> tuple[float, float, float]:
        """F.F, F.v and v.v over all ranks."""
        self.backend.kernel("fire.dot_products")(self._forces, state.velocities, self.backend.n_threads, self._sums)
        total = self.sum_over_ranks(self.backend.to_host(self._sums).sum(axis=0))
        ff, fv, vv = (float(high) * LIMB + float(low) / LIMB for high, low in total)
        return ff, fv / DESCENT_VELOCITY_SCALE, vv / (DESCENT_VELOCITY_SCALE * DESCENT_VELOCITY_SCALE)

    def _step(self, state: State, dt: float, keep: float, pull: float, back: float) -> None:
        motion = self.motion
        self.backend.kernel("fire.downhill_step")(
            self._forces, state.velocities, dt, keep, pull, back, MAX_STEP,
            motion.dx, motion.unconstrained, self.backend.n_threads,
        )  # fmt: skip
        motion.move(state, dt)


def part_coincident(state: State, movable: np.ndarray) -> None:
    """Move atoms apart that are in exactly one place: no force tells them which way to go. Others are left alone."""
    n = len(movable)
    _, first, inverse = np.unique(state.positions[:n], axis=0, return_index=True, return_inverse=True)
    again = np.flatnonzero((first[inverse.ravel()] != np.arange(n)) & movable)
    if not len(again):
        return
    count = np.arange(len(again))
    steps = DIRECTIONS[count % len(DIRECTIONS)] * (SEPARATION * (1 + count // len(DIRECTIONS)))[:, None]
    shifts, _ = state.box.fractions(steps)
    unwrapped = state.positions[again].astype(np.int64) + shifts
    state.positions[again] = unwrapped.astype(np.int32)  # keeps the low 32 bits: the wrap
    state.images[again] += ((unwrapped - state.positions[again]) >> 32).astype(np.int32)
