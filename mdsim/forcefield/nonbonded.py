"""Charges, Lennard-Jones, exclusions and exceptions of an ``openmm.System`` as tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import openmm

from mdsim.errors import InputError, UnsupportedError
from mdsim.forcefield.dispersion import dispersion_coefficient, lorentz_berthelot_types
from mdsim.forcefield.ewald_parameters import default_ewald_parameters
from mdsim.forcefield.expressions import same
from mdsim.forcefield.quantities import columns, md, parameter_names, unknown_expression
from mdsim.tables import NonbondedTable, PairExceptionTable

METHODS: dict[int, Any] = {
    openmm.NonbondedForce.NoCutoff: "NoCutoff",
    openmm.NonbondedForce.CutoffNonPeriodic: "CutoffNonPeriodic",
    openmm.NonbondedForce.CutoffPeriodic: "CutoffPeriodic",
    openmm.NonbondedForce.Ewald: "PME",
    openmm.NonbondedForce.PME: "PME",
    openmm.NonbondedForce.LJPME: "LJPME",
}

#: CustomNonbondedForce: which of its methods goes with a method of the NonbondedForce
_CUSTOM_METHODS = {
    "NoCutoff": openmm.CustomNonbondedForce.NoCutoff,
    "CutoffNonPeriodic": openmm.CustomNonbondedForce.CutoffNonPeriodic,
    "CutoffPeriodic": openmm.CustomNonbondedForce.CutoffPeriodic,
    "PME": openmm.CustomNonbondedForce.CutoffPeriodic,
}

#: Lennard-Jones by type pair. Second column: the power of acoef that is the r^-12 coefficient
TABULATED_FORMS = {
    "acoef(type1, type2)/r^12 - bcoef(type1, type2)/r^6": 1,
    "(acoef(type1, type2)/r^6)^2 - bcoef(type1, type2)/r^6": 2,
}
GEOMETRIC_FORM = "A1*A2/r^12-C1*C2/r^6"
#: beyond this many different Lennard-Jones types the type-pair tables get too big
MAX_TYPES = 2000


@dataclass(frozen=True)
class TypedLennardJones:
    """Lennard-Jones by type pair, out of a CustomNonbondedForce."""

    label: str
    types: np.ndarray  # int32[n]
    a: np.ndarray  # float64[t, t] kJ nm^12 / mol
    b: np.ndarray  # float64[t, t] kJ nm^6 / mol
    cutoff: float  # nm
    switch_distance: float | None  # nm
    long_range_correction: bool


def nonbonded_tables(
    force: openmm.NonbondedForce,
    label: str,
    custom: openmm.CustomNonbondedForce | None,
    custom_label: str,
    vectors: np.ndarray,
) -> tuple[list[NonbondedTable | PairExceptionTable], list[str]]:
    """The cutoff pairs and the exceptions of one NonbondedForce, with the Lennard-Jones of ``custom`` if there is one.

    ``vectors`` float64[3, 3]: box vectors in nm, by which the mesh is chosen where the force does not fix it.
    Returns the tables and notes for people.
    """
    _refuse_unsupported(force, label)
    method = METHODS[force.getNonbondedMethod()]
    particles = columns((force.getParticleParameters(i) for i in range(force.getNumParticles())), 0, 3)[1]
    charge, sigma, epsilon = (np.ascontiguousarray(particles[:, i]) for i in range(3))
    pairs, values = columns((force.getExceptionParameters(i) for i in range(force.getNumExceptions())), 2, 3)
    exclusions = _sorted_pairs(pairs)
    cutoff = float("inf") if method == "NoCutoff" else md(force.getCutoffDistance())
    switch = md(force.getSwitchingDistance()) if force.getUseSwitchingFunction() and method != "NoCutoff" else None
    typed = None if custom is None else _typed_lennard_jones(custom, custom_label, len(charge))
    if typed is not None and custom is not None:
        _check_against(custom, typed, label, method, cutoff, epsilon, exclusions)
        switch = typed.switch_distance
    alpha, grid = _mesh(force, vectors, cutoff, method, dispersion=False)
    lj_alpha, lj_grid = _mesh(force, vectors, cutoff, method, dispersion=True)
    table = NonbondedTable(
        label=label,
        lj_label=label if typed is None else typed.label,
        method=method,
        cutoff=cutoff,
        charge=charge,
        sigma=sigma,
        epsilon=epsilon,
        exclusions=exclusions,
        reaction_field_dielectric=float(force.getReactionFieldDielectric()),
        switch_distance=switch,
        lj_type=None if typed is None else typed.types,
        lj_a=None if typed is None else typed.a,
        lj_b=None if typed is None else typed.b,
        ewald_alpha=alpha,
        grid=grid,
        ewald_tolerance=float(force.getEwaldErrorTolerance()),
        ljpme_alpha=lj_alpha,
        ljpme_grid=lj_grid,
        dispersion_coefficient=_dispersion(force, typed, method, sigma, epsilon, cutoff, switch),
    )
    notes = []
    if force.getNonbondedMethod() == openmm.NonbondedForce.Ewald:
        notes.append(f"{label}: plain Ewald summation is computed as PME of the same tolerance")
    kept = (values[:, 0] != 0.0) | (values[:, 2] != 0.0)
    exceptions = PairExceptionTable(label, pairs[kept], values[kept, 0], values[kept, 1], values[kept, 2])
    return [table] + ([exceptions] if kept.any() else []), notes


def _refuse_unsupported(force: openmm.NonbondedForce, label: str) -> None:
    offsets = force.getNumParticleParameterOffsets() + force.getNumExceptionParameterOffsets()
    if offsets:
        raise UnsupportedError(
            f"NonbondedForce '{label}' has {offsets} parameter offsets (alchemical or constant-pH systems), which mdsim does not "
            "compute; build the System with the parameters at their final values"
        )
    if not force.getIncludeDirectSpace():
        raise UnsupportedError(
            f"NonbondedForce '{label}' leaves out direct space (setIncludeDirectSpace), which mdsim does not do"
        )


def _sorted_pairs(pairs: np.ndarray) -> np.ndarray:
    """int32[m, 2] with i < j, sorted, unique."""
    return np.unique(np.sort(pairs, axis=1), axis=0).astype(np.int32).reshape(-1, 2)


def _mesh(
    force: openmm.NonbondedForce, vectors: np.ndarray, cutoff: float, method: str, dispersion: bool
) -> tuple[float, tuple[int, int, int]]:
    """The force's own splitting parameter and mesh if it has set them, else OpenMM's rule."""
    if method != "LJPME" and (dispersion or method != "PME"):
        return 0.0, (0, 0, 0)
    alpha, nx, ny, nz = force.getLJPMEParameters() if dispersion else force.getPMEParameters()
    if md(alpha) > 0.0:
        return md(alpha), (int(nx), int(ny), int(nz))
    return default_ewald_parameters(vectors, cutoff, float(force.getEwaldErrorTolerance()), dispersion)


def _dispersion(
    force: openmm.NonbondedForce,
    typed: TypedLennardJones | None,
    method: str,
    sigma: np.ndarray,
    epsilon: np.ndarray,
    cutoff: float,
    switch: float | None,
) -> float:
    if method not in ("CutoffPeriodic", "PME"):
        return 0.0
    if typed is not None:
        counts = np.bincount(typed.types, minlength=len(typed.a))
        return dispersion_coefficient(counts, typed.a, typed.b, cutoff, switch) if typed.long_range_correction else 0.0
    if not force.getUseDispersionCorrection():
        return 0.0
    return dispersion_coefficient(*lorentz_berthelot_types(sigma, epsilon), cutoff, switch)


def _typed_lennard_jones(force: openmm.CustomNonbondedForce, label: str, n_atoms: int) -> TypedLennardJones:
    if force.getNumParticles() != n_atoms:
        raise InputError(f"{label} has {force.getNumParticles()} particles, the NonbondedForce {n_atoms}")
    energy = force.getEnergyFunction()
    names = parameter_names(force.getNumPerParticleParameters(), force.getPerParticleParameterName)
    values = np.array([force.getParticleParameters(i) for i in range(n_atoms)], dtype=np.float64).reshape(
        n_atoms, len(names)
    )
    if force.getNumInteractionGroups():
        raise UnsupportedError(f"CustomNonbondedForce '{label}' has interaction groups, which mdsim does not compute")
    types, a, b = _coefficients(force, label, energy, names, values)
    return TypedLennardJones(
        label=label,
        types=types,
        a=a,
        b=b,
        cutoff=md(force.getCutoffDistance()),
        switch_distance=md(force.getSwitchingDistance()) if force.getUseSwitchingFunction() else None,
        long_range_correction=bool(force.getUseLongRangeCorrection()),
    )


def _coefficients(
    force: openmm.CustomNonbondedForce, label: str, energy: str, names: list[str], values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(int32[n] types, float64[t, t] a, float64[t, t] b) of a recognised energy."""
    functions = {
        force.getTabulatedFunctionName(i): force.getTabulatedFunction(i)
        for i in range(force.getNumTabulatedFunctions())
    }
    power = next((p for form, p in TABULATED_FORMS.items() if same(energy, form)), None)
    if power is not None and names == ["type"] and {"acoef", "bcoef"} <= set(functions):
        a, b = (_table(functions[name], f"{label}: {name}") for name in ("acoef", "bcoef"))
        types = values[:, 0].astype(np.int32)
        if (types != values[:, 0]).any() or (types < 0).any() or (types >= len(a)).any():
            raise InputError(f"{label}: an atom's Lennard-Jones type lies outside the table of {len(a)} types")
        return types, a**power, b
    if set(names) == {"A", "C"} and same(energy, GEOMETRIC_FORM):
        kinds, inverse = np.unique(values[:, [names.index("A"), names.index("C")]], axis=0, return_inverse=True)
        if len(kinds) > MAX_TYPES:
            raise UnsupportedError(
                f"{label} has {len(kinds)} different Lennard-Jones types; mdsim takes up to {MAX_TYPES}"
            )
        return inverse.astype(np.int32).ravel(), np.outer(kinds[:, 0], kinds[:, 0]), np.outer(kinds[:, 1], kinds[:, 1])
    raise unknown_expression(
        force, label, energy, "Lennard-Jones by type pair, acoef(type1,type2)/r^12-bcoef(type1,type2)/r^6 or with the square of "
        "acoef/r^6, and by geometric mean, A1*A2/r^12-C1*C2/r^6"
    )  # fmt: skip


def _table(function: openmm.TabulatedFunction, what: str) -> np.ndarray:
    """Symmetric square table, float64[t, t]."""
    if not isinstance(function, openmm.Discrete2DFunction):
        raise UnsupportedError(f"{what} is a {type(function).__name__}, not a Discrete2DFunction")
    nx, ny, values = function.getFunctionParameters()
    table = np.array(values, dtype=np.float64).reshape(ny, nx)
    if nx != ny or not np.allclose(table, table.T, rtol=1e-12, atol=0.0):
        raise UnsupportedError(
            f"{what} is not a symmetric square table, so that the force between two atoms would not be mutual"
        )
    return table


def _check_against(
    custom: openmm.CustomNonbondedForce,
    typed: TypedLennardJones,
    label: str,
    method: str,
    cutoff: float,
    epsilon: np.ndarray,
    exclusions: np.ndarray,
) -> None:
    """The two forces must describe one pair interaction: same pairs, same cutoff, one Lennard-Jones."""
    if (epsilon != 0.0).any():
        raise UnsupportedError(
            f"both {label} and {typed.label} hold Lennard-Jones parameters; mdsim computes one of them"
        )
    expected = _CUSTOM_METHODS.get(method)
    if expected is None or custom.getNonbondedMethod() != expected:
        raise UnsupportedError(f"{typed.label} and {label} ({method}) use different cutoff methods")
    if method != "NoCutoff" and typed.cutoff != cutoff:
        raise UnsupportedError(
            f"{typed.label} has a cutoff of {typed.cutoff:g} nm, {label} one of {cutoff:g} nm; mdsim uses one"
        )
    rows = [custom.getExclusionParticles(i) for i in range(custom.getNumExclusions())]
    theirs = _sorted_pairs(np.array(rows, dtype=np.int32).reshape(-1, 2))
    if not np.array_equal(theirs, exclusions):
        raise UnsupportedError(
            f"{typed.label} leaves out {len(theirs)} pairs, {label} has {len(exclusions)} exceptions; mdsim needs the same pairs"
        )
