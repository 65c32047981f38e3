"""A System written by ``openmm.XmlSerializer``, with the structure it belongs to."""

from __future__ import annotations

from pathlib import Path
from xml.parsers import expat

import numpy as np
import openmm

from mdsim.errors import InputError
from mdsim.forcefield.loaded import LoadedSystem
from mdsim.forcefield.messages import explained
from mdsim.forcefield.quantities import in_md_units
from mdsim.forcefield.structure import read_structure

#: a PDB file rounds edges to 5e-5 nm and angles to 0.005 degrees; a box that differs by more is another box
PDB_ROUNDING = 1e-3  # nm


def _check_complete(path: Path, text: str) -> None:
    """OpenMM reads what there is of a file cut off between two forces, and says nothing."""
    try:
        expat.ParserCreate().Parse(text, True)
    except expat.ExpatError as error:
        raise InputError(f"{path} is no complete XML ({error}); it was cut off or damaged, make or copy it again") from None


def load_serialized(system_path: Path, structure_path: Path) -> LoadedSystem:
    """Positions are the structure's. So is the box, where it differs from the System's by more than rounding."""
    with explained(f"reading {system_path}"):
        text = system_path.read_text(encoding="utf-8")
        _check_complete(system_path, text)
        system = openmm.XmlSerializer.deserialize(text)
    if not isinstance(system, openmm.System):
        raise InputError(f"{system_path} holds a {type(system).__name__}, not a System")
    structure = read_structure(structure_path)
    positions = in_md_units(structure.positions)
    if len(positions) != system.getNumParticles():
        raise InputError(
            f"{structure_path} holds {len(positions)} atoms, {system_path} {system.getNumParticles()} particles"
        )
    if not system.usesPeriodicBoundaryConditions():
        return LoadedSystem(system, structure.topology, positions, None)
    vectors = in_md_units(system.getDefaultPeriodicBoxVectors())
    written = structure.topology.getPeriodicBoxVectors()
    if written is None or np.allclose(in_md_units(written), vectors, rtol=0.0, atol=PDB_ROUNDING):
        return LoadedSystem(system, structure.topology, positions, vectors)
    note = f"the box is that of {structure_path.name}; the one in {system_path.name} is another"
    system.setDefaultPeriodicBoxVectors(*written)
    return LoadedSystem(system, structure.topology, positions, in_md_units(written), (note,))
