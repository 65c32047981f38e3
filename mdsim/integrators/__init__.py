"""Equations of motion, by name."""

from __future__ import annotations

from typing import Any

from mdsim.backends import Backend
from mdsim.errors import InputError
from mdsim.integrators.base import Integrator, Motion
from mdsim.integrators.langevin import LangevinMiddle
from mdsim.integrators.thermostats import Bussi, NoseHooverChain
from mdsim.integrators.verlet import VelocityVerlet
from mdsim.ranks import SumOverRanks, on_one_rank
from mdsim.tables import CompiledSystem

INTEGRATORS = {cls.name: cls for cls in (LangevinMiddle, VelocityVerlet, Bussi, NoseHooverChain)}


def make_integrator(
    backend: Backend,
    system: CompiledSystem,
    kind: str,
    *,
    sum_over_ranks: SumOverRanks = on_one_rank,
    **parameters: Any,
) -> Integrator:
    """The integrator called ``kind``.

    Parameters
    ----------
    backend
    system
    kind
        ``langevin-middle`` (timestep, temperature, friction, seed), ``velocity-verlet`` (timestep),
        ``bussi`` (timestep, temperature, coupling_time, seed) or
        ``nose-hoover`` (timestep, temperature, coupling_time, chain_length).
    sum_over_ranks
        Sums int64 arrays over ranks.
    parameters
        In ps, K and 1/ps.
    """
    if kind not in INTEGRATORS:
        raise InputError(f"there is no integrator '{kind}'; known: {', '.join(sorted(INTEGRATORS))}")
    try:
        integrator: Integrator = INTEGRATORS[kind](Motion(backend, system, sum_over_ranks), **parameters)
    except TypeError as error:
        raise InputError(f"integrator {kind}: {str(error).split('() ')[-1]}") from error
    return integrator


__all__ = [
    "INTEGRATORS", "Bussi", "Integrator", "LangevinMiddle", "Motion", "NoseHooverChain", "VelocityVerlet", "make_integrator",
]  # fmt: skip
