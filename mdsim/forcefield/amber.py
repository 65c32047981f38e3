"""AMBER topologies and coordinates, with the checks that tell a file cut off in the middle from a whole one."""

from __future__ import annotations

import re
import warnings
from math import ceil, prod
from pathlib import Path
from typing import Any

from openmm import app, unit

from mdsim.config.system import SystemConfig
from mdsim.errors import InputError
from mdsim.forcefield.loaded import LoadedSystem
from mdsim.forcefield.messages import explained
from mdsim.forcefield.options import system_options
from mdsim.forcefield.quantities import in_md_units

IMPLICIT_MODELS = {"OBC2": app.OBC2, "GBn2": app.GBn2}

#: index of a number in the POINTERS section (AMBER file formats, prmtop)
_POINTERS = {"NATOM": 0, "NTYPES": 1, "NBONH": 2, "NTHETH": 4, "NPHIH": 6, "NNB": 10, "NRES": 11, "NBONA": 12}
_POINTERS |= {"NTHETA": 13, "NPHIA": 14, "NUMBND": 15, "NUMANG": 16, "NPTRA": 17}

#: sections that every topology must have, and how many values each holds
_LENGTHS: dict[str, tuple[int, tuple[str, ...]]] = {
    "ATOM_NAME": (1, ("NATOM",)),
    "CHARGE": (1, ("NATOM",)),
    "MASS": (1, ("NATOM",)),
    "ATOM_TYPE_INDEX": (1, ("NATOM",)),
    "NUMBER_EXCLUDED_ATOMS": (1, ("NATOM",)),
    "NONBONDED_PARM_INDEX": (1, ("NTYPES", "NTYPES")),
    "RESIDUE_LABEL": (1, ("NRES",)),
    "RESIDUE_POINTER": (1, ("NRES",)),
    "BOND_FORCE_CONSTANT": (1, ("NUMBND",)),
    "BOND_EQUIL_VALUE": (1, ("NUMBND",)),
    "ANGLE_FORCE_CONSTANT": (1, ("NUMANG",)),
    "ANGLE_EQUIL_VALUE": (1, ("NUMANG",)),
    "DIHEDRAL_FORCE_CONSTANT": (1, ("NPTRA",)),
    "DIHEDRAL_PERIODICITY": (1, ("NPTRA",)),
    "DIHEDRAL_PHASE": (1, ("NPTRA",)),
    "BONDS_INC_HYDROGEN": (3, ("NBONH",)),
    "BONDS_WITHOUT_HYDROGEN": (3, ("NBONA",)),
    "ANGLES_INC_HYDROGEN": (4, ("NTHETH",)),
    "ANGLES_WITHOUT_HYDROGEN": (4, ("NTHETA",)),
    "DIHEDRALS_INC_HYDROGEN": (5, ("NPHIH",)),
    "DIHEDRALS_WITHOUT_HYDROGEN": (5, ("NPHIA",)),
    "EXCLUDED_ATOMS_LIST": (1, ("NNB",)),
}


def load_amber(config: SystemConfig, prmtop_path: Path, inpcrd_path: Path) -> LoadedSystem:
    with explained(f"reading {prmtop_path}"):
        check_sections(prmtop_path)
        prmtop = app.AmberPrmtopFile(str(prmtop_path))
    with explained(f"reading {inpcrd_path}"):
        inpcrd = app.AmberInpcrdFile(str(inpcrd_path))
    positions = in_md_units(inpcrd.positions)
    n_atoms = prmtop.topology.getNumAtoms()
    if len(positions) != n_atoms:
        raise InputError(
            f"{inpcrd_path} holds {len(positions)} atoms, {prmtop_path} {n_atoms}; they are not of one system"
        )
    vectors = inpcrd.boxVectors if inpcrd.boxVectors is not None else prmtop.topology.getPeriodicBoxVectors()
    if vectors is not None:
        prmtop.topology.setPeriodicBoxVectors(vectors)
    options = system_options(config, has_box=vectors is not None, source=str(inpcrd_path))
    with explained(f"building a system from {prmtop_path}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about radii that are not the model's favourites
        system = prmtop.createSystem(**options, **_implicit_options(config))
    return LoadedSystem(
        system,
        prmtop.topology,
        positions,
        None if vectors is None else in_md_units(vectors),
        velocities=None if inpcrd.velocities is None else in_md_units(inpcrd.velocities),
    )


def _implicit_options(config: SystemConfig) -> dict[str, Any]:
    implicit = config.implicit_solvent
    if implicit is None:
        return {}
    return {
        "implicitSolvent": IMPLICIT_MODELS[implicit.model],
        "soluteDielectric": implicit.solute_dielectric,
        "solventDielectric": implicit.solvent_dielectric,
        "implicitSolventSaltConc": implicit.salt_concentration * unit.molar,
    }


def section_lengths(path: Path) -> tuple[dict[str, int], list[int]]:
    """How many values each section of a topology holds, and the values of POINTERS."""
    lengths: dict[str, int] = {}
    pointers: list[int] = []
    name, width = "", 0
    for line in path.read_text(encoding="latin-1").splitlines():
        if line.startswith("%FLAG"):
            name, width = line[5:].strip(), 0
            lengths[name] = 0
        elif line.startswith("%FORMAT"):
            found = re.search(r"\d*[A-Za-z](\d+)", line)
            width = int(found[1]) if found else 0
        elif not line.startswith("%") and width:
            lengths[name] += ceil(len(line.rstrip()) / width)
            if name == "POINTERS":
                pointers += [int(text) for text in line.split()]
    return lengths, pointers


def check_sections(path: Path) -> None:
    """Every required section is there with as many values as POINTERS says."""
    lengths, pointers = section_lengths(path)
    if len(pointers) < 30:
        raise InputError(f"{path} has no complete POINTERS section; it is no AMBER topology, or was cut off")
    for name, (factor, counts) in _LENGTHS.items():
        expected, found = factor * prod(pointers[_POINTERS[c]] for c in counts), lengths.get(name, 0)
        if found != expected:
            raise InputError(
                f"{path}: section {name} holds {found} values, {expected} are expected; the file was cut off or damaged, "
                "copy it again"
            )
