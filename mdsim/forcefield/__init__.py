"""Reading systems with OpenMM and compiling them into tables; besides ``mdsim.compare`` the only importer of openmm."""

from __future__ import annotations

from mdsim.forcefield.compile import compile_system
from mdsim.forcefield.topology import topology_from_openmm

__all__ = ["compile_system", "topology_from_openmm"]
