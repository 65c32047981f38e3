"""The input's restraints as OpenMM forces, so that they are compiled and compared like any other force."""

from __future__ import annotations

import numpy as np
import openmm
from openmm import app

from mdsim.config.system import DistanceRestraint, PositionRestraint, Restraint
from mdsim.errors import InputError

POSITION_ENERGY = "0.5*k*periodicdistance(x, y, z, x0, y0, z0)^2"
DISTANCE_ENERGY = "0.5*k*max(0, max(r-upper, lower-r))^2"

SOLVENT = frozenset(
    "HOH WAT TIP3 TIP4 TIP5 SOL OPC SPC NA CL K LI RB CS BR F I MG CA ZN Na+ Cl- K+ Li+ Rb+ Cs+ Br- F- I- SOD CLA POT Cl Na".split()
)
BACKBONE = frozenset(("N", "CA", "C", "O"))


def add_restraints(
    system: openmm.System, topology: app.Topology, positions: np.ndarray, restraints: tuple[Restraint, ...]
) -> None:
    """Add one force for each restraint of the input; references are ``positions``, float64[n, 3] nm."""
    for restraint in restraints:
        if isinstance(restraint, PositionRestraint):
            system.addForce(_position_force(system, topology, positions, restraint))
        else:
            system.addForce(_distance_force(system, restraint))


def _position_force(
    system: openmm.System, topology: app.Topology, positions: np.ndarray, restraint: PositionRestraint
) -> openmm.CustomExternalForce:
    force = openmm.CustomExternalForce(POSITION_ENERGY)
    force.setName("PositionRestraint")
    for name in ("x0", "y0", "z0", "k"):
        force.addPerParticleParameter(name)
    for i in _selected(system, topology, restraint):
        force.addParticle(i, [*positions[i].tolist(), restraint.k])
    return force


def _selected(system: openmm.System, topology: app.Topology, restraint: PositionRestraint) -> list[int]:
    """Atom indices; virtual sites are never held, their parents are."""
    n = system.getNumParticles()
    if isinstance(restraint.atoms, tuple):
        wrong = [i for i in restraint.atoms if not 0 <= i < n or system.isVirtualSite(i)]
        if wrong:
            raise InputError(
                f"a position restraint names atom {wrong[0]}, which is no atom with a mass; atoms are 0 to {n - 1}"
            )
        return list(restraint.atoms)
    chosen = [a.index for a in topology.atoms() if not system.isVirtualSite(a.index) and _belongs(a, restraint.atoms)]
    if not chosen:
        raise InputError(f"a position restraint on '{restraint.atoms}' finds no such atoms")
    return chosen


def _belongs(atom: app.topology.Atom, selection: str) -> bool:
    if atom.residue.name in SOLVENT:
        return False
    if selection == "heavy":
        return atom.element is not None and atom.element.symbol != "H"
    if selection == "backbone":
        return atom.name in BACKBONE and _is_amino_acid(atom.residue)
    if selection == "ca":
        return atom.name == "CA" and _is_amino_acid(atom.residue)
    return True


def _is_amino_acid(residue: app.topology.Residue) -> bool:
    names = {a.name for a in residue.atoms()}
    return {"N", "CA", "C"} <= names


def _distance_force(system: openmm.System, restraint: DistanceRestraint) -> openmm.CustomBondForce:
    n = system.getNumParticles()
    wrong = [i for i in restraint.atoms if not 0 <= i < n]
    if wrong:
        raise InputError(f"a distance restraint names atom {wrong[0]}; atoms are 0 to {n - 1}")
    force = openmm.CustomBondForce(DISTANCE_ENERGY)
    force.setName("DistanceRestraint")
    force.setUsesPeriodicBoundaryConditions(system.usesPeriodicBoundaryConditions())
    for name in ("lower", "upper", "k"):
        force.addPerBondParameter(name)
    force.addBond(*restraint.atoms, [restraint.lower, restraint.upper, restraint.k])
    return force
