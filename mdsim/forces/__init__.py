"""Force terms: tables of a compiled system turned into things that compute."""

from __future__ import annotations

from dataclasses import dataclass

from mdsim.backends import Backend
from mdsim.box import Box
from mdsim.errors import UnsupportedError
from mdsim.forces.base import ForceBuffers, ForceTerm, LocalView
from mdsim.forces.bonded import TableTerm, bonded_term
from mdsim.forces.exceptions import ExceptionTerm, ExclusionCorrectionTerm, make_exception_term, make_exclusion_terms
from mdsim.forces.implicit import ImplicitTerm, implicit_term
from mdsim.forces.nonbonded import PairTerm
from mdsim.forces.pme import DEFAULT_ORDER, MeshTerm, make_mesh_terms
from mdsim.forces.restraints import restraint_term
from mdsim.tables import (
    AngleTable,
    BondTable,
    CMAPTable,
    CompiledSystem,
    DistanceRestraintTable,
    HarmonicImproperTable,
    ImplicitTable,
    NonbondedTable,
    PairExceptionTable,
    PeriodicTorsionTable,
    PositionRestraintTable,
    RBTorsionTable,
)

#: kind of term to the part of a step under which it is timed
_PARTS = (
    (PairTerm, "pair"),
    (MeshTerm, "PME"),
    (ExclusionCorrectionTerm, "exclusions"),
    (ExceptionTerm, "bonded"),
    (TableTerm, "bonded"),
    (ImplicitTerm, "implicit solvent"),
)


@dataclass(frozen=True)
class ForceOptions:
    """How forces are computed. Only the order of the PME splines changes a bit of the result."""

    pair_list_buffer: float | None = None  # nm; None: what suits the pair list
    pme_order: int = DEFAULT_ORDER
    simd_width: int | None = None  # 4, 8 or 16; None: what suits the CPU
    sort_origin: tuple[int, int, int] = (0, 0, 0)  # where the sorting of atoms into clusters starts, box fractions * 2**32


def build_terms(
    system: CompiledSystem, backend: Backend, box: Box, options: ForceOptions | None = None
) -> list[ForceTerm]:
    """The terms of all tables of ``system``, the pair term first (so that its list is the first to be looked at)."""
    chosen = options or ForceOptions()
    terms: list[ForceTerm] = []
    for table in sorted(system.forces, key=lambda t: not isinstance(t, NonbondedTable)):
        match table:
            case NonbondedTable():
                terms.append(
                    PairTerm(
                        table, backend, box,
                        buffer=chosen.pair_list_buffer, width=chosen.simd_width, origin=chosen.sort_origin,
                    )
                )  # fmt: skip
                terms.extend(make_mesh_terms(table, backend, order=chosen.pme_order))
                terms.extend(make_exclusion_terms(table, backend))
            case PairExceptionTable():
                terms.append(make_exception_term(table, backend))
            case ImplicitTable():
                terms.append(implicit_term(table, backend))
            case PositionRestraintTable() | DistanceRestraintTable():
                terms.append(restraint_term(table, backend))
            case (
                BondTable() | AngleTable() | PeriodicTorsionTable() | RBTorsionTable() | HarmonicImproperTable() | CMAPTable()
            ):
                terms.append(bonded_term(table, backend))
            case _:
                raise UnsupportedError(f"no force term for a {type(table).__name__}")
    return terms


def part_of(term: ForceTerm) -> str:
    """The part of a step under which ``term`` is timed."""
    for kind, part in _PARTS:
        if isinstance(term, kind):
            return part
    return "other forces"


__all__ = ["ForceBuffers", "ForceOptions", "ForceTerm", "LocalView", "build_terms", "part_of"]
