"""Reading systems with OpenMM and compiling them into tables; besides ``mdsim.compare`` the only importer of openmm."""

from __future__ import annotations

from mdsim.forcefield.compile import compile_system
from mdsim.forcefield.load import load_system
from mdsim.forcefield.loaded import LoadedSystem
from mdsim.forcefield.topology import topology_from_openmm

__all__ = ["LoadedSystem", "compile_system", "load_system", "topology_from_openmm"]
