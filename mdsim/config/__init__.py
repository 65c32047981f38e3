"""The input file: YAML, quantities with units, checked before anything runs (docs/input.md)."""

from mdsim.config.fields import Interval
from mdsim.config.models import RunConfig
from mdsim.config.read import config_from_dict, load_input
from mdsim.config.system import SystemConfig

__all__ = ["Interval", "RunConfig", "SystemConfig", "config_from_dict", "load_input"]
