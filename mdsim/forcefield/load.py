"""The ``system`` section of an input to a :class:`LoadedSystem`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mdsim.config.system import SystemConfig
from mdsim.forcefield.amber import load_amber
from mdsim.forcefield.gromacs import load_gromacs
from mdsim.forcefield.held_atoms import add_restraints
from mdsim.forcefield.loaded import LoadedSystem, check_loaded
from mdsim.forcefield.options import PERIODIC, set_nonbonded
from mdsim.forcefield.serialized import load_serialized
from mdsim.forcefield.structure import load_structure


def load_system(config: SystemConfig) -> LoadedSystem:
    """Read and build what the input describes.

    Raises
    ------
    InputError
        A file is missing, cut off or does not fit the others; the force field has no template for a residue; a periodic
        method without a box.
    """
    loaded, source = _read(config)
    if config.system_xml is None:
        loaded = _with_box(loaded, periodic=config.nonbonded.method in PERIODIC)
        set_nonbonded(loaded.system, config.nonbonded, loaded.vectors)
    check_loaded(loaded, str(source))
    add_restraints(loaded.system, loaded.topology, loaded.positions, config.restraints)
    return loaded


def _read(config: SystemConfig) -> tuple[LoadedSystem, Path]:
    """The system, and the file that its positions come from."""
    match config:
        case SystemConfig(prmtop=Path() as prmtop, inpcrd=Path() as inpcrd):
            return load_amber(config, prmtop, inpcrd), inpcrd
        case SystemConfig(top=Path() as top, gro=Path() as gro):
            return load_gromacs(config, top, gro), gro
        case SystemConfig(system_xml=Path() as xml, pdb=Path() as pdb):
            return load_serialized(xml, pdb), pdb
        case SystemConfig(forcefield=tuple() as files):
            structure = config.pdb or config.mmcif
            assert structure is not None  # the input was checked
            return load_structure(config, structure, files), structure
    raise AssertionError("the input was checked to name one source")


def _with_box(loaded: LoadedSystem, periodic: bool) -> LoadedSystem:
    """Box of the file as the System's own; none where the method is not periodic."""
    if not periodic or loaded.vectors is None:
        return replace(loaded, vectors=None)
    loaded.system.setDefaultPeriodicBoxVectors(*loaded.vectors)
    return loaded
