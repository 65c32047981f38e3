"""GROMACS topologies and coordinates."""

from __future__ import annotations

from pathlib import Path

from openmm import app

from mdsim.config.system import SystemConfig
from mdsim.errors import InputError
from mdsim.forcefield.loaded import LoadedSystem
from mdsim.forcefield.messages import explained
from mdsim.forcefield.options import system_options
from mdsim.forcefield.quantities import in_md_units


def load_gromacs(config: SystemConfig, top_path: Path, gro_path: Path) -> LoadedSystem:
    with explained(f"reading {gro_path}"):
        gro = app.GromacsGroFile(str(gro_path))
    vectors = gro.getPeriodicBoxVectors()
    with explained(f"reading {top_path}"):
        include = None if config.include_directory is None else str(config.include_directory)
        top = app.GromacsTopFile(str(top_path), periodicBoxVectors=vectors, includeDir=include)
    positions = in_md_units(gro.positions)
    n_atoms = top.topology.getNumAtoms()
    if len(positions) != n_atoms:
        raise InputError(f"{gro_path} holds {len(positions)} atoms, {top_path} {n_atoms}; they are not of one system")
    options = system_options(config, has_box=vectors is not None, source=str(gro_path))
    with explained(f"building a system from {top_path}"):
        system = top.createSystem(**options)
    return LoadedSystem(system, top.topology, positions, None if vectors is None else in_md_units(vectors))
