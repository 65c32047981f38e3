"""Rigid bonds and virtual sites."""

from mdsim.constraints.solver import Constraints
from mdsim.constraints.virtual_sites import VirtualSites

__all__ = ["Constraints", "VirtualSites"]
