"""Position and distance restraints, and Lennard-Jones pairs, that come as Custom*Force, recognised by their energy."""

from __future__ import annotations

import numpy as np
import openmm

from mdsim.errors import UnsupportedError
from mdsim.forcefield.expressions import match
from mdsim.forcefield.quantities import entry_values, global_parameters, parameter_names, strength, unknown_expression
from mdsim.tables import DistanceRestraintTable, ForceTable, PairExceptionTable, PositionRestraintTable

POSITION_SHAPES: dict[str, tuple[str, ...]] = {
    "periodicdistance(x, y, z, x0, y0, z0)^2": ("x0", "y0", "z0"),
    "(x-x0)^2+(y-y0)^2+(z-z0)^2": ("x0", "y0", "z0"),
}

#: shapes (times k) of distance restraints; r0 and lower, upper are bounds of the flat part
_HARMONIC = {"(r-r0)^2": ("r0",), "r^2": ()}
_ABOVE = {"max(0, r-upper)^2": ("upper",), "step(r-upper)*(r-upper)^2": ("upper",)}
_BELOW = {"max(0, lower-r)^2": ("lower",), "step(lower-r)*(lower-r)^2": ("lower",), "min(0, r-lower)^2": ("lower",)}
_BOTH = {f"{above}+{below}": ("lower", "upper") for above in _ABOVE for below in _BELOW} | {
    "max(0, max(r-upper, lower-r))^2": ("lower", "upper")
}
DISTANCE_SHAPES = _HARMONIC | _ABOVE | _BELOW | _BOTH

LENNARD_JONES_SHAPES = {"(sigma/r)^12-(sigma/r)^6": ("sigma",), "A/r^12-C/r^6": ("A", "C")}


def custom_external_table(force: openmm.CustomExternalForce, label: str) -> PositionRestraintTable:
    energy = force.getEnergyFunction()
    names = parameter_names(force.getNumPerParticleParameters(), force.getPerParticleParameterName)
    found = match(energy, POSITION_SHAPES, [*names, *global_parameters(force)])
    if found is None:
        raise unknown_expression(
            force,
            label,
            energy,
            "position restraints, k*((x-x0)^2+(y-y0)^2+(z-z0)^2) and k*periodicdistance(x,y,z,x0,y0,z0)^2",
        )
    count = force.getNumParticles()
    atoms = np.array([force.getParticleParameters(i)[0] for i in range(count)], dtype=np.int32)
    value = entry_values(force, count, names, lambda i: force.getParticleParameters(i)[1])
    reference = np.column_stack([value[found.parameters[axis]] for axis in ("x0", "y0", "z0")]).reshape(count, 3)
    return PositionRestraintTable(label, atoms, reference, 2.0 * strength(found, value, count))


def custom_bond_table(force: openmm.CustomBondForce, label: str) -> ForceTable:
    """1-4 Lennard-Jones of the CHARMM and GROMACS files, or distance restraints."""
    energy = force.getEnergyFunction()
    names = parameter_names(force.getNumPerBondParameters(), force.getPerBondParameterName)
    found = match(energy, DISTANCE_SHAPES | LENNARD_JONES_SHAPES, [*names, *global_parameters(force)])
    if found is None:
        raise unknown_expression(
            force, label, energy, "1-4 Lennard-Jones, 4*epsilon*((sigma/r)^12-(sigma/r)^6) and A/r^12-C/r^6, and harmonic or "
            "flat-bottomed distance restraints, k*(r-r0)^2, k*max(0,r-upper)^2"
        )  # fmt: skip
    count = force.getNumBonds()
    atoms = np.array([force.getBondParameters(i)[:2] for i in range(count)], dtype=np.int32).reshape(-1, 2)
    value = entry_values(force, count, names, lambda i: force.getBondParameters(i)[2])
    k = strength(found, value, count)
    bound = {name: value[theirs] for name, theirs in found.parameters.items()}
    if found.shape in LENNARD_JONES_SHAPES:
        sigma, epsilon = (
            (bound["sigma"], 0.25 * k) if "sigma" in bound else _sigma_epsilon(k * bound["A"], k * bound["C"], label)
        )
        return PairExceptionTable(label, atoms, np.zeros(count), sigma, epsilon)
    if found.shape in _HARMONIC:
        lower = upper = bound.get("r0", np.zeros(count))
    else:
        lower = bound.get("lower", np.zeros(count))
        upper = bound.get("upper", np.full(count, np.inf))
    if (lower > upper).any():
        raise UnsupportedError(f"{label}: a distance restraint has its lower bound above its upper one")
    return DistanceRestraintTable(label, atoms, lower, upper, 2.0 * k)


def _sigma_epsilon(a: np.ndarray, c: np.ndarray, label: str) -> tuple[np.ndarray, np.ndarray]:
    """sigma (nm) and epsilon (kJ/mol) of a/r^12 - c/r^6."""
    if ((a < 0) | (c < 0) | ((a == 0) != (c == 0))).any():
        raise UnsupportedError(
            f"{label}: a pair has only one of the r^-12 and r^-6 coefficients, which has no sigma and epsilon"
        )
    on = a > 0
    safe_a, safe_c = np.where(on, a, 1.0), np.where(on, c, 1.0)
    return np.where(on, (safe_a / safe_c) ** (1.0 / 6.0), 0.1), np.where(on, 0.25 * safe_c**2 / safe_a, 0.0)
