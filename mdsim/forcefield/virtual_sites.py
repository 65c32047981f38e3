"""Virtual sites of an ``openmm.System`` as one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import openmm

from mdsim.errors import UnsupportedError
from mdsim.forcefield.quantities import class_name, md
from mdsim.tables import VirtualSiteTable

AVERAGE, OUT_OF_PLANE, LOCAL_COORDINATES = 0, 1, 2
_NONE = (0.0, 0.0, 0.0)

Triple = tuple[float, ...]


@dataclass(frozen=True)
class _Site:
    """One row of ``VirtualSiteTable``."""

    atom: int
    kind: int
    parents: tuple[int, ...]
    weights: Triple = _NONE
    origin_weights: Triple = _NONE
    x_weights: Triple = _NONE
    y_weights: Triple = _NONE
    local: Triple = _NONE


def virtual_site_table(system: openmm.System, describe: Callable[[int], str]) -> VirtualSiteTable:
    """All sites, in the order of their atoms; ``describe`` names an atom in an error."""
    rows = [
        _site(i, system.getVirtualSite(i), describe) for i in range(system.getNumParticles()) if system.isVirtualSite(i)
    ]
    sites = {row.atom for row in rows}
    for row in rows:
        nested = sites.intersection(row.parents)
        if nested:
            raise UnsupportedError(f"{describe(row.atom)}: its parent {describe(min(nested))} is a virtual site itself")

    def triples(name: str) -> np.ndarray:
        return np.array([getattr(row, name) for row in rows], dtype=np.float64).reshape(-1, 3)

    return VirtualSiteTable(
        sites=np.array([row.atom for row in rows], dtype=np.int32),
        kind=np.array([row.kind for row in rows], dtype=np.int32),
        parents=np.array([row.parents for row in rows], dtype=np.int32).reshape(-1, 3),
        weights=triples("weights"),
        origin_weights=triples("origin_weights"),
        x_weights=triples("x_weights"),
        y_weights=triples("y_weights"),
        local=triples("local"),
    )


def _site(atom: int, site: openmm.VirtualSite, describe: Callable[[int], str]) -> _Site:
    parents = [site.getParticle(k) for k in range(site.getNumParticles())]
    if isinstance(site, openmm.TwoParticleAverageSite):
        return _Site(atom, AVERAGE, _three(parents), (site.getWeight(0), site.getWeight(1), 0.0))
    if isinstance(site, openmm.ThreeParticleAverageSite):
        return _Site(atom, AVERAGE, _three(parents), tuple(site.getWeight(k) for k in range(3)))
    if isinstance(site, openmm.OutOfPlaneSite):
        weights = (site.getWeight12(), site.getWeight13(), site.getWeightCross())
        return _Site(atom, OUT_OF_PLANE, _three(parents), weights)
    if isinstance(site, openmm.LocalCoordinatesSite) and len(parents) <= 3:
        return _Site(
            atom,
            LOCAL_COORDINATES,
            _three(parents),
            origin_weights=_padded(site.getOriginWeights()),
            x_weights=_padded(site.getXWeights()),
            y_weights=_padded(site.getYWeights()),
            local=tuple(md(component) for component in site.getLocalPosition()),
        )
    raise UnsupportedError(
        f"{describe(atom)} is a {class_name(site)} of {len(parents)} parent(s) and a kind that mdsim does not compute; it knows "
        "TwoParticleAverageSite, ThreeParticleAverageSite, OutOfPlaneSite and LocalCoordinatesSite with up to three parents"
    )


def _three(parents: list[int]) -> tuple[int, ...]:
    return tuple(parents + [parents[0]] * (3 - len(parents)))


def _padded(weights: tuple[float, ...]) -> Triple:
    return tuple(float(w) for w in weights) + (0.0,) * (3 - len(weights))
