"""Generalised-Born implicit solvent: GBSAOBCForce, and the OBC and GBn forms of CustomGBForce."""

from __future__ import annotations

from math import pi

import numpy as np
import openmm

from mdsim.errors import UnsupportedError
from mdsim.forcefield.expressions import Expression, parse, same
from mdsim.forcefield.quantities import columns, global_parameters, md, parameter_names, unknown_expression
from mdsim.tables import ImplicitTable

OBC_OFFSET = 0.009  # nm
OBC2_TANH = (1.0, 0.8, 4.85)

_VDW = "select(step(r+sr2-or1), 0.5*(1/L-1/U+0.25*(r-sr2^2/r)*(1/(U^2)-1/(L^2))+0.5*log(L/U)/r), 0)"
_VDW_DEFINITIONS = "U=r+sr2; L=max(or1, D); D=abs(r-sr2)"
#: Born integral: OBC is the van der Waals part alone; GBn and GBn2 add the neck
OBC_INTEGRAL = f"{_VDW}; {_VDW_DEFINITIONS}"
NECK_INTEGRAL = (
    "Ivdw+neckScale*Ineck; Ineck=step(or1+or2+2*offset+neckCut-r)*getm0(radindex1,radindex2)"
    "/(1+100*(r-getd0(radindex1,radindex2))^2+0.3*1000000*(r-getd0(radindex1,radindex2))^6);"
    f"Ivdw={_VDW}; {_VDW_DEFINITIONS}; neckCut=0.68"
)
#: Born radius: coefficients of the tanh as numbers (OBC1, OBC2, GBn) or as parameters of each atom (GBn2)
TANH_FORMS: dict[str, tuple[float, float, float] | None] = {
    "tanh(psi-0.8*psi^2+4.85*psi^3)": OBC2_TANH,
    "tanh(0.8*psi+2.909125*psi^3)": (0.8, 0.0, 2.909125),
    "tanh(1.09511284*psi-1.907992938*psi^2+2.50798245*psi^3)": (1.09511284, 1.907992938, 2.50798245),
    "tanh(alpha*psi-beta*psi^2+gamma*psi^3)": None,
}
SURFACE_TERM = "28.3919551*(or+offset+0.14)^2*((or+offset)/B)^6"
SURFACE_ENERGY = 28.3919551 / (4.0 * pi)  # kJ/mol/nm^2
_CONSTANTS = ("solventDielectric", "soluteDielectric", "kappa")


def gbsa_obc_table(force: openmm.GBSAOBCForce, label: str) -> ImplicitTable:
    values = columns((force.getParticleParameters(i) for i in range(force.getNumParticles())), 0, 3)[1]
    n = len(values)
    return ImplicitTable(
        label=label,
        model="OBC2",
        charge=values[:, 0].copy(),
        radius=values[:, 1].copy(),
        scale=values[:, 2].copy(),
        offset=OBC_OFFSET,
        alpha=np.full(n, OBC2_TANH[0]),
        beta=np.full(n, OBC2_TANH[1]),
        gamma=np.full(n, OBC2_TANH[2]),
        solute_dielectric=float(force.getSoluteDielectric()),
        solvent_dielectric=float(force.getSolventDielectric()),
        surface_energy=md(force.getSurfaceAreaEnergy()),
        cutoff=_cutoff(force, label),
    )


def _cutoff(force: openmm.GBSAOBCForce | openmm.CustomGBForce, label: str) -> float:
    if force.getNonbondedMethod() == force.CutoffPeriodic:
        raise UnsupportedError(f"{label}: implicit solvent in a periodic box; mdsim computes it for isolated systems")
    return float("inf") if force.getNonbondedMethod() == force.NoCutoff else md(force.getCutoffDistance())


def custom_gb_table(force: openmm.CustomGBForce, label: str) -> ImplicitTable:
    """The models that openmm.app writes as CustomGBForce."""
    reader = _CustomGB(force, label)
    cutoff = _cutoff(force, label)
    offset, tanh = reader.born_radius()
    neck = reader.neck_scale(offset)
    surface_energy, constants = reader.energy_terms(offset, cutoff)
    values = reader.parameters()
    off_radius = values["or"]
    if tanh is None:
        alpha, beta, gamma = (values[name] for name in ("alpha", "beta", "gamma"))
    else:
        alpha, beta, gamma = (np.full(len(off_radius), value) for value in tanh)
    return ImplicitTable(
        label=label,
        model="GBn2" if neck is not None else "OBC2",
        charge=values["charge"],
        radius=off_radius + offset,
        scale=np.divide(values["sr"], off_radius, out=np.zeros_like(off_radius), where=off_radius != 0.0),
        offset=offset,
        alpha=alpha,
        beta=beta,
        gamma=gamma,
        solute_dielectric=constants["soluteDielectric"],
        solvent_dielectric=constants["solventDielectric"],
        surface_energy=surface_energy,
        kappa=constants.get("kappa", 0.0),
        cutoff=cutoff,
        neck_scale=0.0 if neck is None else neck,
        neck_d0=None if neck is None else reader.table("getd0"),
        neck_m0=None if neck is None else reader.table("getm0"),
        radius_index=None if neck is None else values["radindex"].astype(np.int32),
    )


class _CustomGB:
    """Reads one CustomGBForce, refusing what it does not know."""

    def __init__(self, force: openmm.CustomGBForce, label: str) -> None:
        self._force, self._label = force, label
        values = [force.getComputedValueParameters(i) for i in range(force.getNumComputedValues())]
        self._values = {name: (text, kind) for name, text, kind in values}
        if global_parameters(force) or force.getNumExclusions() or list(self._values) != ["I", "B"]:
            raise self._unknown("; ".join(text for _, text, _ in values))
        self._integral, self._radius = (self._values[name][0] for name in ("I", "B"))
        kinds = tuple(self._values[name][1] for name in ("I", "B"))
        if kinds != (force.ParticlePairNoExclusions, force.SingleParticle):
            raise self._unknown(self._integral)

    def _unknown(self, expression: str) -> UnsupportedError:
        known = "the OBC1, OBC2, GBn and GBn2 models of openmm.app, with no surface term or the ACE one"
        return unknown_expression(self._force, self._label, expression, known)

    def neck_scale(self, offset: float) -> float | None:
        """Factor before the neck integral; None for a model without neck."""
        if same(self._integral, OBC_INTEGRAL):
            return None
        kept = parse(self._integral, keep=("neckScale",))
        if (
            "neckScale" not in kept.constants
            or kept.main.text != parse(f"{NECK_INTEGRAL}; offset={offset!r}").main.text
        ):
            raise self._unknown(self._integral)
        return kept.constants["neckScale"]

    def born_radius(self) -> tuple[float, tuple[float, float, float] | None]:
        """Dielectric offset (nm) and the coefficients of the tanh (None: parameters of each atom)."""
        radius = parse(self._radius, keep=("offset",))
        for form, coefficients in TANH_FORMS.items():
            if (
                radius.main.text == parse(f"1/(1/or-{form}/(or+offset)); psi=I*or").main.text
                and "offset" in radius.constants
            ):
                return radius.constants["offset"], coefficients
        raise self._unknown(self._radius)

    def energy_terms(self, offset: float, cutoff: float) -> tuple[float, dict[str, float]]:
        """Surface energy, kJ/mol/nm^2 (0: none), and the constants of the polar terms."""
        force, surface = self._force, 0.0
        constants: dict[str, float] = {}
        seen: set[str] = set()
        for i in range(force.getNumEnergyTerms()):
            text, kind = force.getEnergyTermParameters(i)
            term = parse(text, keep=_CONSTANTS)
            role = self._role(term, kind, offset, cutoff)
            if role is None or role in seen:
                raise self._unknown(text)
            seen.add(role)
            surface = SURFACE_ENERGY if role == "surface" else surface
            constants |= {} if role == "surface" else term.constants
        if not {"self", "pair"} <= seen:
            raise self._unknown("no polar energy")
        return surface, constants

    def _role(self, term: Expression, kind: int, offset: float, cutoff: float) -> str | None:
        """``self``, ``pair`` or ``surface``; None: unknown."""
        pair = kind == self._force.ParticlePairNoExclusions
        shift = "" if cutoff == float("inf") else f"-{1.0 / cutoff!r}"
        for screened in ("1/solventDielectric", "exp(-kappa*f)/solventDielectric"):
            polar = f"138.935485*(1/soluteDielectric-{screened})"
            pair_form = f"-{polar}*charge1*charge2*(1/f{shift}); f=sqrt(r^2+B1*B2*exp(-r^2/(4*B1*B2)))"
            self_form = f"-0.5*{polar}*charge^2/f; f=B"
            if term.main.text == parse(pair_form if pair else self_form).main.text:
                return "pair" if pair else "self"
        return (
            "surface" if not pair and term.main.text == parse(f"{SURFACE_TERM}; offset={offset!r}").main.text else None
        )

    def parameters(self) -> dict[str, np.ndarray]:
        force = self._force
        names = parameter_names(force.getNumPerParticleParameters(), force.getPerParticleParameterName)
        n = force.getNumParticles()
        values = np.array([force.getParticleParameters(i) for i in range(n)], dtype=np.float64).reshape(n, len(names))
        return {name: values[:, i].copy() for i, name in enumerate(names)}

    def table(self, name: str) -> np.ndarray:
        """float64[r, r]: value for radius indices i, j."""
        force = self._force
        for i in range(force.getNumTabulatedFunctions()):
            function = force.getTabulatedFunction(i)
            if force.getTabulatedFunctionName(i) == name and isinstance(function, openmm.Discrete2DFunction):
                nx, ny, values = function.getFunctionParameters()
                return np.array(values, dtype=np.float64).reshape(ny, nx).T.copy()
        raise self._unknown(name)
