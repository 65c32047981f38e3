"""Bonds, angles, torsions and maps of an ``openmm.System`` as tables."""

from __future__ import annotations

import numpy as np
import openmm

from mdsim.errors import UnsupportedError
from mdsim.forcefield.cmap_coefficients import cmap_coefficients
from mdsim.forcefield.expressions import match
from mdsim.forcefield.quantities import (
    columns,
    entry_values,
    global_parameters,
    parameter_names,
    strength,
    unknown_expression,
)
from mdsim.tables import (
    AngleTable,
    BondTable,
    CMAPTable,
    ForceTable,
    HarmonicImproperTable,
    PeriodicTorsionTable,
    RBTorsionTable,
)

#: shapes of improper torsions (times k), all of which are the same function but the first, which does not wrap
_UNWRAPPED = "(theta-theta0)^2"
IMPROPER_SHAPES: dict[str, tuple[str, ...]] = {
    _UNWRAPPED: ("theta0",),
    "min(abs(theta-theta0), 6.283185307-abs(theta-theta0))^2": ("theta0",),
    "(step(-(theta-theta0+3.141592654))*6.283185307+theta-step(theta-theta0-3.141592654)*6.283185307-theta0)^2": (
        "theta0",
    ),
}


def bond_table(force: openmm.HarmonicBondForce, label: str) -> BondTable:
    atoms, values = columns((force.getBondParameters(i) for i in range(force.getNumBonds())), 2, 2)
    return BondTable(label, atoms, values[:, 0], values[:, 1])


def angle_table(force: openmm.HarmonicAngleForce, label: str) -> AngleTable:
    atoms, values = columns((force.getAngleParameters(i) for i in range(force.getNumAngles())), 3, 2)
    return AngleTable(label, atoms, values[:, 0], values[:, 1])


def periodic_torsion_table(force: openmm.PeriodicTorsionForce, label: str) -> PeriodicTorsionTable:
    rows = (force.getTorsionParameters(i) for i in range(force.getNumTorsions()))
    atoms, values = columns(rows, 4, 3)
    return PeriodicTorsionTable(label, atoms, values[:, 0].astype(np.int32), values[:, 1], values[:, 2])


def rb_torsion_table(force: openmm.RBTorsionForce, label: str) -> RBTorsionTable:
    atoms, c = columns((force.getTorsionParameters(i) for i in range(force.getNumTorsions())), 4, 6)
    return RBTorsionTable(label, atoms, c)


def cmap_tables(force: openmm.CMAPTorsionForce, label: str) -> list[CMAPTable]:
    """One table for each size of map."""
    maps = [force.getMapParameters(i) for i in range(force.getNumMaps())]
    sizes = np.array([size for size, _ in maps], dtype=np.int64)
    rows = [force.getTorsionParameters(i) for i in range(force.getNumTorsions())]
    which = np.array([row[0] for row in rows], dtype=np.int64)
    atoms = np.array([row[1:] for row in rows], dtype=np.int32).reshape(-1, 8)
    tables = []
    for size in sorted({int(sizes[m]) for m in which}):
        used = np.flatnonzero(sizes == size)
        coefficients = np.stack([cmap_coefficients(size, _kj(maps[m][1])) for m in used])
        mine = sizes[which] == size
        index = np.searchsorted(used, which[mine]).astype(np.int32)
        tables.append(CMAPTable(label, atoms[mine], index, coefficients))
    return tables


def _kj(energies: openmm.unit.Quantity) -> np.ndarray:
    return np.array(energies.value_in_unit(openmm.unit.kilojoule_per_mole), dtype=np.float64)


def custom_torsion_table(force: openmm.CustomTorsionForce, label: str) -> ForceTable:
    """Harmonic impropers: CHARMM's two forms and GROMACS's."""
    energy = force.getEnergyFunction()
    names = parameter_names(force.getNumPerTorsionParameters(), force.getPerTorsionParameterName)
    found = match(energy, IMPROPER_SHAPES, [*names, *global_parameters(force)])
    if found is None:
        raise unknown_expression(
            force, label, energy, "harmonic impropers, k*(theta-theta0)^2, plain or wrapped into [-pi, pi]"
        )
    count = force.getNumTorsions()
    atoms = np.array([force.getTorsionParameters(i)[:4] for i in range(count)], dtype=np.int32).reshape(-1, 4)
    value = entry_values(force, count, names, lambda i: force.getTorsionParameters(i)[4])
    k = strength(found, value, count)
    angle = value[found.parameters["theta0"]]
    wrapped = found.shape != _UNWRAPPED
    if wrapped and (np.abs(angle) > np.pi + 1e-6).any():
        raise UnsupportedError(
            f"{label}: theta0 of a wrapped improper lies outside [-pi, pi], where its form does not repeat"
        )
    return HarmonicImproperTable(label, atoms, angle, k, wrapped)
