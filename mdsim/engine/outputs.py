"""The reporters that an input asks for."""

from __future__ import annotations

from mdsim.config import RunConfig
from mdsim.engine.simulation import Simulation
from mdsim.io.checkpoint import Checkpoint
from mdsim.io.h5md import TrajectorySettings, TrajectorySource
from mdsim.reporters import EnergyReporter, Reporter, TrajectoryReporter

TRAJECTORY_FILE = "trajectory.h5md"
#: everything that the reporters write
OUTPUT_FILES = (TRAJECTORY_FILE, "energies.csv", "energies.h5")


def make_reporters(config: RunConfig, sim: Simulation, checkpoint: Checkpoint | None) -> list[Reporter]:
    """Trajectory and energy log, new ones, or those of the stopped run cut back to its ``checkpoint``."""
    counts = checkpoint.counts if checkpoint is not None else {}
    output, reporters = config.output, list[Reporter]()
    if output.trajectory:
        assert sim.topology is not None
        reporters.append(
            TrajectoryReporter(
                output.directory / TRAJECTORY_FILE,
                config.every(output.trajectory.interval),
                TrajectorySource.from_system(sim.system, sim.topology),
                trajectory_settings(config),
                n_frames=counts.get("trajectory"),
            )
        )
    if output.energies:
        reporters.append(
            EnergyReporter(
                output.directory,
                config.every(output.energies.interval),
                sim.evaluator.names,
                float(sim.system.masses.sum()) if sim.system.periodic else None,
                n_rows=counts.get("energies"),
            )
        )
    return reporters


def trajectory_settings(config: RunConfig) -> TrajectorySettings:
    """What of the run goes into the trajectory."""
    wanted = config.output.trajectory
    assert wanted
    return TrajectorySettings(
        selection=wanted.selection, precision=wanted.precision, velocities=wanted.velocities, forces=wanted.forces
    )
