"""What must hold of a System before anything is computed from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import openmm

from mdsim.errors import InputError
from mdsim.forcefield.quantities import force_labels
from mdsim.tables import ForceTable, NonbondedTable

#: forces that hold parameters of every atom
PER_ATOM = (openmm.NonbondedForce, openmm.CustomNonbondedForce, openmm.GBSAOBCForce, openmm.CustomGBForce)


def check_system(
    system: openmm.System, masses: np.ndarray, topology: openmm.app.Topology | None, describe: Callable[[int], str]
) -> None:
    """Numbers of particles agree; every atom that is no virtual site has a positive mass."""
    n = system.getNumParticles()
    if n == 0:
        raise InputError("the System holds no particles")
    if topology is not None and topology.getNumAtoms() != n:
        raise InputError(
            f"the System holds {n} particles, the topology {topology.getNumAtoms()} atoms; if the model has virtual sites, "
            "add them (modeller: addExtraParticles)"
        )
    for force, label in zip(system.getForces(), force_labels(system), strict=True):
        if isinstance(force, PER_ATOM) and force.getNumParticles() != n:
            raise InputError(f"the System holds {n} particles, its force '{label}' {force.getNumParticles()}")
    for i, mass in enumerate(masses.tolist()):
        if not mass >= 0.0 or mass == float("inf"):
            raise InputError(f"{describe(i)} has the mass {mass:g} amu")
        if mass == 0.0 and not system.isVirtualSite(i):
            raise InputError(
                f"{describe(i)} has no mass and is no virtual site; mdsim does not freeze atoms: give it a mass and hold it "
                "with a position restraint"
            )
        if mass > 0.0 and system.isVirtualSite(i):
            raise InputError(f"{describe(i)} is a virtual site with a mass of {mass:g} amu; virtual sites are massless")


def check_tables(tables: tuple[ForceTable, ...], describe: Callable[[int], str]) -> None:
    """All parameters are numbers; radii and well depths are not negative; nothing acts between an atom and itself."""
    for table in tables:
        atoms = getattr(table, "atoms", None)
        for column in fields(table):
            values = getattr(table, column.name)
            if isinstance(values, np.ndarray) and values.dtype.kind == "f":
                allowed_infinite = column.name == "upper"
                _check_column(table.label, column.name, values, atoms, describe, allowed_infinite)
        if atoms is not None and atoms.ndim == 2 and atoms.shape[1] <= 4:
            _check_distinct(table.label, atoms, describe)
        for name in ("sigma", "epsilon"):
            values = getattr(table, name, None)
            if values is not None and (values < 0.0).any():
                row = int(np.argmax(values < 0.0))
                raise InputError(f"{table.label}: {name} of {_who(row, atoms, describe)} is negative ({values[row]:g})")
        if isinstance(table, NonbondedTable):
            _check_cutoff(table)


def _check_column(
    label: str, name: str, values: np.ndarray, atoms: np.ndarray | None, describe: Callable[[int], str], infinite: bool
) -> None:
    bad = np.isnan(values) if infinite else ~np.isfinite(values)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        what = _who(row, atoms, describe) if atoms is None or len(atoms) == len(values) else f"entry {row}"
        raise InputError(f"{label}: {name} of {what} is not a finite number")


def _check_distinct(label: str, atoms: np.ndarray, describe: Callable[[int], str]) -> None:
    ordered = np.sort(atoms, axis=1)
    same = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if same.any():
        row = atoms[int(np.argmax(same))]
        raise InputError(
            f"{label}: an interaction names {describe(int(row[0]))} and the same atom twice: {row.tolist()}"
        )


def _check_cutoff(table: NonbondedTable) -> None:
    if table.method != "NoCutoff" and not table.cutoff > 0.0:
        raise InputError(f"{table.label}: the cutoff must be positive, it is {table.cutoff:g} nm")
    switch: Any = table.switch_distance
    if switch is not None and not 0.0 <= switch < table.cutoff:
        raise InputError(
            f"{table.label}: the switch distance ({switch:g} nm) must lie between 0 and the cutoff ({table.cutoff:g} nm)"
        )


def _who(row: int, atoms: np.ndarray | None, describe: Callable[[int], str]) -> str:
    """Names of the atoms of an entry; of the atom itself for a table with one row an atom."""
    if atoms is None:
        return describe(row)
    return ", ".join(describe(int(i)) for i in np.atleast_1d(atoms[row]))
