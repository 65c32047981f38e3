"""mdsim: molecular dynamics for screening drug candidates. The same bits on any number of ranks and threads."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mdsim.version import __version__

if TYPE_CHECKING:
    from mdsim.config import config_from_dict, load_input
    from mdsim.engine.simulation import Simulation
    from mdsim.forces import ForceOptions
    from mdsim.io.h5md import open_trajectory
    from mdsim.reporters import CallbackReporter, EnergyReporter, ProgressReporter, TrajectoryReporter

#: public name -> module, imported at first use: ``import mdsim`` alone is quick
_HOMES = {
    "Simulation": "mdsim.engine.simulation",
    "ForceOptions": "mdsim.forces",
    "load_input": "mdsim.config",
    "config_from_dict": "mdsim.config",
    "open_trajectory": "mdsim.io.h5md",
    "CallbackReporter": "mdsim.reporters",
    "EnergyReporter": "mdsim.reporters",
    "ProgressReporter": "mdsim.reporters",
    "TrajectoryReporter": "mdsim.reporters",
}

__all__ = [
    "CallbackReporter",
    "EnergyReporter",
    "ForceOptions",
    "ProgressReporter",
    "Simulation",
    "TrajectoryReporter",
    "__version__",
    "config_from_dict",
    "load_input",
    "open_trajectory",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mdsim' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
