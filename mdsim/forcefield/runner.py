"""The same run on OpenMM's CPU platform, for ``mdsim bench``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import openmm
from openmm import unit

from mdsim.config import RunConfig
from mdsim.errors import InputError


def openmm_runner(
    config: RunConfig,
    system: openmm.System,
    positions: np.ndarray,
    velocities: np.ndarray,
    vectors: np.ndarray | None,
    threads: int,
) -> Callable[[int], None]:
    """A function that advances ``system`` by so many steps and returns when they are done.

    Parameters
    ----------
    config
        Integrator and barostat.
    system
    positions : float64[n, 3] nm
    velocities : float64[n, 3] nm/ps
    vectors : float64[3, 3] nm
        None where the system is not periodic.
    threads
    """
    copy = openmm.XmlSerializer.clone(system)
    _add_barostat(copy, config)
    platform = openmm.Platform.getPlatformByName("CPU")
    context = openmm.Context(copy, _integrator(config), platform, {"Threads": str(threads)})
    if vectors is not None:
        context.setPeriodicBoxVectors(*vectors)
    context.setPositions(positions)
    context.setVelocities(velocities)

    def advance(steps: int) -> None:
        context.getIntegrator().step(steps)
        context.getState()  # waits for whatever is still running

    return advance


def _integrator(config: RunConfig) -> openmm.Integrator:
    """OpenMM's integrator of the same kind (for Bussi, which it lacks, velocity Verlet: nothing else is slow in it)."""
    given = config.integrator_parameters()
    timestep = given["timestep"] * unit.picoseconds
    if given["kind"] == "langevin-middle":
        return openmm.LangevinMiddleIntegrator(given["temperature"], given["friction"], timestep)
    if given["kind"] == "nose-hoover":
        return openmm.NoseHooverIntegrator(given["temperature"], 1.0 / given["coupling_time"], timestep)
    return openmm.VerletIntegrator(timestep)


def _add_barostat(system: openmm.System, config: RunConfig) -> None:
    given, temperature = config.barostat_parameters(), config.dynamics.temperature
    if given is None:
        return
    if given["kind"] != "isotropic":
        raise InputError(f"mdsim bench does not know OpenMM's twin of a barostat '{given['kind']}'; use isotropic or --alone")
    system.addForce(openmm.MonteCarloBarostat(given["pressure"], temperature, given["frequency"]))
