"""The support table of docs/support.md, written from what the compiler knows."""

from __future__ import annotations

from collections.abc import Mapping

import openmm

from mdsim.forcefield.bonded import IMPROPER_SHAPES
from mdsim.forcefield.compile import OWN_CONTROLS
from mdsim.forcefield.implicit import TANH_FORMS
from mdsim.forcefield.nonbonded import GEOMETRIC_FORM, METHODS, TABULATED_FORMS
from mdsim.forcefield.quantities import class_name, force_labels
from mdsim.forcefield.restraints import DISTANCE_SHAPES, LENNARD_JONES_SHAPES, POSITION_SHAPES
from mdsim.tables import CompiledSystem, NonbondedTable

_HEAD = """# What mdsim computes of OpenMM

Written by `mdsim/forcefield/support.py`; `tests/unit/test_support_table.py` checks that it is current. Anything that is not listed
here is refused with an error that names the class and the expression, before anything runs.

Expressions are recognised whatever the order of terms and factors, the white space and the names of the parameters. A
restraint's shape may be multiplied by any number and by parameters of the force (k, lambda, ...). Global parameters
count as constants at their default values.
"""

CLASSES = {
    "HarmonicBondForce": "all",
    "HarmonicAngleForce": "all",
    "PeriodicTorsionForce": "all",
    "RBTorsionForce": "all",
    "CMAPTorsionForce": "all; maps of several sizes",
    "NonbondedForce": "methods {methods}; exceptions, switching, dispersion correction; refused: parameter offsets, "
    "setIncludeDirectSpace(False); plain Ewald is computed as PME, with a note",
    "CustomNonbondedForce": "Lennard-Jones beside a NonbondedForce with charges only, same cutoff and exclusions: {tabulated}",
    "CustomBondForce": "1-4 Lennard-Jones {lennard_jones}; distance restraints {distance}",
    "CustomTorsionForce": "impropers {impropers}",
    "CustomExternalForce": "position restraints {position}",
    "GBSAOBCForce": "isolated systems",
    "CustomGBForce": "isolated systems; as openmm.app writes OBC1, OBC2, GBn and GBn2, with or without salt, cutoff "
    "and the ACE surface term; radii from {radii}",
    "CMMotionRemover": "all",
}

_SITES = (
    "TwoParticleAverageSite, ThreeParticleAverageSite, OutOfPlaneSite, LocalCoordinatesSite with up to three parents"
)


def support_document(systems: Mapping[str, tuple[openmm.System, CompiledSystem]]) -> str:
    """Markdown; ``systems``: name of a force field -> a System built with it, and what became of it."""
    facts = {
        "methods": ", ".join(dict.fromkeys(METHODS.values())),
        "tabulated": _code([*TABULATED_FORMS, GEOMETRIC_FORM]),
        "lennard_jones": _code(LENNARD_JONES_SHAPES),
        "distance": _code(DISTANCE_SHAPES),
        "impropers": _code(IMPROPER_SHAPES),
        "position": _code(POSITION_SHAPES),
        "radii": _code(TANH_FORMS),
    }
    lines = [_HEAD, "## Forces", "", "| OpenMM class | what of it |", "|---|---|"]
    lines += [f"| {name} | {text.format(**facts)} |" for name, text in CLASSES.items()]
    lines += [f"| {kind.__name__} | left out, with a note: {remedy} |" for kind, remedy in OWN_CONTROLS.items()]
    lines += ["", "## Atoms", ""]
    lines += [f"* Virtual sites: {_SITES}; their parents are atoms with mass."]
    lines += [
        "* Constraints: rigid waters (SETTLE) and groups around one heavy atom (SHAKE); chains of heavy atoms are refused."
    ]
    lines += [
        "* Masses: positive, but for virtual sites. Frozen atoms (mass 0) are refused: use a position restraint.",
        "",
    ]
    lines += ["## Bundled force fields", "", "Built and compared term by term in the tests.", ""]
    for name, (system, compiled) in systems.items():
        lines += [f"### {name}", "", "| force | class | computed as |", "|---|---|---|", *_rows(system, compiled), ""]
    return "\n".join(lines).rstrip() + "\n"


def _code(forms: Mapping[str, object] | list[str]) -> str:
    return ", ".join(f"`{form}`" for form in forms)


def _rows(system: openmm.System, compiled: CompiledSystem) -> list[str]:
    computed: dict[str, list[str]] = {}
    for table in compiled.forces:
        kind = type(table).__name__.removesuffix("Table")
        computed.setdefault(table.label, []).append(kind)
        if isinstance(table, NonbondedTable) and table.lj_label != table.label:
            computed.setdefault(table.lj_label, []).append(f"{kind} (Lennard-Jones)")
    rows = []
    for force, label in sorted(zip(system.getForces(), force_labels(system), strict=True), key=lambda pair: pair[1]):
        what = ", ".join(computed.get(label, ())) or (
            "removed every so many steps" if "Remover" in label else "nothing to compute"
        )
        rows.append(f"| {label} | {class_name(force)} | {what} |")
    return rows
