"""One time step, in order. Everything else in the engine serves these lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mdsim.engine.simulation import Simulation


def advance(sim: Simulation, energy_at_end: bool) -> None:
    """Take ``sim`` from step n to step n + 1, forces (and energies, where asked for) up to date at the end.

    The order is OpenMM's: what changes the state from outside (barostat, centre-of-mass removal) comes first, then the
    integrator. A LangevinMiddle step (Zhang et al. 2019, V R O R) lies wholly in ``first_half``; velocity Verlet kicks twice.
    """
    state, timers = sim.state, sim.timers
    if sim.barostat is not None and state.step % sim.barostat.frequency == 0:
        with timers.part("barostat"):
            sim.attempt_volume_move()
    if sim.remove_cm_frequency and state.step % sim.remove_cm_frequency == 0:
        with timers.part("integrate"):
            sim.integrator.remove_cm_motion(state)
    compute_forces(sim, with_energy=False)  # does nothing where the last step left them
    with timers.part("integrate"):
        sim.integrator.first_half(state, sim.evaluator.forces)
    state.step += 1
    sim.evaluator.invalidate()
    compute_forces(sim, energy_at_end)
    with timers.part("integrate"):
        sim.integrator.second_half(state, sim.evaluator.forces)


def compute_forces(sim: Simulation, with_energy: bool) -> None:
    """Bring forces up to date; an error that names term and atoms where one was clipped or is not a number."""
    sim.evaluator.compute(sim.state, with_energy)
    if sim.evaluator.flags.any():
        sim.raise_for_flags()
