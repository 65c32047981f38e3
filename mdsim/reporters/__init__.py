"""Reporters look at a run as it goes. Each says at which step it is next due and what it needs."""

from mdsim.reporters.base import FIELDS, CallbackReporter, IntervalReporter, Reporter
from mdsim.reporters.files import CheckpointReporter, EnergyReporter, TrajectoryReporter
from mdsim.reporters.progress import ProgressReporter

__all__ = [
    "FIELDS",
    "CallbackReporter",
    "CheckpointReporter",
    "EnergyReporter",
    "IntervalReporter",
    "ProgressReporter",
    "Reporter",
    "TrajectoryReporter",
]
