"""Reading numbers out of OpenMM objects: nm, ps, kJ/mol, amu, e, rad; and the labels of forces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import openmm
from openmm import unit

from mdsim.errors import UnsupportedError
from mdsim.forcefield.expressions import Match


def parameter_value(quantity: Any) -> Any:
    """A parameter of an integrator or a barostat as mdsim takes it: ps, K, 1/ps; pressures in bar, tensions in bar nm."""
    for wanted in (unit.bar, unit.bar * unit.nanometer):
        if quantity.unit.is_compatible(wanted):
            return quantity.value_in_unit(wanted)
    return quantity.value_in_unit_system(unit.md_unit_system)


def md(value: Any) -> float:
    """A quantity as a number in OpenMM's own unit system (which is mdsim's)."""
    return float(value.value_in_unit_system(unit.md_unit_system)) if unit.is_quantity(value) else float(value)


def in_md_units(quantity: Any) -> np.ndarray:
    """float64 array of an OpenMM quantity's (or plain) values in nm, ps, kJ/mol, amu, e, rad."""
    if unit.is_quantity(quantity):  # Quantity's own conversion copies a list of vectors element by element
        return np.array(quantity._value, dtype=np.float64) * _scale(quantity)
    if isinstance(quantity, list | tuple) and any(unit.is_quantity(v) for v in quantity):
        return np.array([in_md_units(v) for v in quantity])
    return np.array(quantity, dtype=np.float64)


def _scale(value: Any) -> float:
    """What a number in the unit of ``value`` has to be multiplied by."""
    return md(unit.Quantity(1.0, value.unit)) if unit.is_quantity(value) else 1.0


def columns(rows: Iterable[Sequence[Any]], n_atoms: int, n_values: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ``n_atoms`` indices followed by ``n_values`` quantities as (int32[m, n_atoms], float64[m, n_values]).

    A column has one unit, as in all of OpenMM's getters: it is looked up in the first row, since converting each quantity
    takes longer than the rest of reading a system.
    """
    table = list(rows)
    atoms = np.array([row[:n_atoms] for row in table], dtype=np.int32).reshape(len(table), n_atoms)
    plain = [[v._value if unit.is_quantity(v) else v for v in row[n_atoms:]] for row in table]
    values = np.array(plain, dtype=np.float64).reshape(len(table), n_values)
    return atoms, values * np.array([_scale(v) for v in table[0][n_atoms:]]) if table else values


def force_labels(system: openmm.System) -> list[str]:
    """Name of each force, ``NAME:1``, ``NAME:2`` where a name occurs again. Tables and comparisons go by these."""
    seen: Counter[str] = Counter()
    labels = []
    for force in system.getForces():
        name = force.getName()
        labels.append(name if not seen[name] else f"{name}:{seen[name]}")
        seen[name] += 1
    return labels


def class_name(force: openmm.Force) -> str:
    return type(force).__name__


def parameter_names(count: int, name: Any) -> list[str]:
    """Names of ``count`` parameters, ``name(i)`` giving each."""
    return [name(i) for i in range(count)]


def global_parameters(force: Any) -> dict[str, float]:
    """Default values of a Custom force's global parameters."""
    return {
        force.getGlobalParameterName(i): float(force.getGlobalParameterDefaultValue(i))
        for i in range(force.getNumGlobalParameters())
    }


def entry_values(force: Any, count: int, names: list[str], row: Any) -> dict[str, np.ndarray]:
    """Parameter name -> float64[count]: per entry as ``row(i)`` gives them, global ones at their default."""
    table = np.array([row(i) for i in range(count)], dtype=np.float64).reshape(count, len(names))
    values = {name: table[:, i] for i, name in enumerate(names)}
    return values | {name: np.full(count, v) for name, v in global_parameters(force).items()}


def strength(found: Match, values: dict[str, np.ndarray], count: int) -> np.ndarray:
    """float64[count]: the factor before a matched shape."""
    k = np.full(count, found.coefficient)
    for name in found.strength:
        k = k * values[name]
    return k


def unknown_expression(force: openmm.Force, label: str, energy: str, known: str) -> UnsupportedError:
    """Error for an energy that mdsim does not know."""
    kind = class_name(force)
    name = kind if label == kind else f"{kind} '{label}'"
    return UnsupportedError(f"{name} has the energy '{energy}', which mdsim does not compute; it knows {known}")
