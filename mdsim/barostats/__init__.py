"""Constant pressure by Monte Carlo moves of the box."""

from __future__ import annotations

from typing import Any

from mdsim.backends import Backend
from mdsim.barostats.molecules import EnergyFunction, Molecules, molecular_pressure
from mdsim.barostats.monte_carlo import (
    AnisotropicBarostat,
    IsotropicBarostat,
    MembraneBarostat,
    MonteCarloBarostat,
)
from mdsim.errors import InputError
from mdsim.ranks import SumOverRanks, on_one_rank
from mdsim.tables import CompiledSystem

BAROSTATS = {cls.kind: cls for cls in (IsotropicBarostat, AnisotropicBarostat, MembraneBarostat)}


def make_barostat(
    backend: Backend,
    system: CompiledSystem,
    kind: str,
    *,
    sum_over_ranks: SumOverRanks = on_one_rank,
    **parameters: Any,
) -> MonteCarloBarostat:
    """The barostat of this ``kind``: ``isotropic``, ``anisotropic`` or ``membrane``.

    ``parameters`` are those of the class: pressure (bar), temperature (K), frequency (steps), seed; anisotropic: scale;
    membrane: surface_tension (bar nm), xy, z.
    """
    if kind not in BAROSTATS:
        raise InputError(f"there is no barostat '{kind}'; known: {', '.join(sorted(BAROSTATS))}")
    try:
        barostat: MonteCarloBarostat = BAROSTATS[kind](Molecules(backend, system, sum_over_ranks), **parameters)
    except TypeError as error:
        raise InputError(f"barostat {kind}: {str(error).split('() ')[-1]}") from error
    return barostat


__all__ = ["BAROSTATS", "EnergyFunction", "Molecules", "MonteCarloBarostat", "make_barostat", "molecular_pressure"]
