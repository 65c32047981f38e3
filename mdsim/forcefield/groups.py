"""Partitions of the atoms: update groups, molecules, and constraints sorted into SETTLE waters and SHAKE groups."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mdsim.errors import UnsupportedError
from mdsim.tables import ConstraintTable


def partition(n_atoms: int, links: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Connected components as (int32[n] atoms, int32[g + 1] starts), ordered by first atom, atoms ascending in each.

    Parameters
    ----------
    n_atoms : int
    links : int32[m, 2]
        Pairs of atoms that belong together.
    """
    component = component_of(n_atoms, links)
    atoms = np.argsort(component, kind="stable").astype(np.int32)
    starts = (
        np.concatenate([[0], np.cumsum(np.bincount(component))]).astype(np.int32) if n_atoms else np.zeros(1, np.int32)
    )
    return atoms, starts


def component_of(n_atoms: int, links: np.ndarray) -> np.ndarray:
    """int64[n]: component of each atom, numbered in the order of their first atoms."""
    graph = coo_array((np.ones(len(links), dtype=np.int8), (links[:, 0], links[:, 1])), shape=(n_atoms, n_atoms))
    _, component = connected_components(graph, directed=False)
    _, first = np.unique(component, return_index=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbered: np.ndarray = rank[component]
    return numbered


def sort_constraints(
    atoms: np.ndarray, distance: np.ndarray, masses: np.ndarray, describe: Callable[[int], str]
) -> ConstraintTable:
    """Split constraints into rigid waters (SETTLE) and groups around one heavy atom (SHAKE).

    Parameters
    ----------
    atoms : int32[m, 2]
    distance : float64[m]
        nm.
    masses : float64[n]
        amu.
    describe : callable
        Atom index to a name for messages.
    """
    component = component_of(len(masses), atoms)[atoms[:, 0]] if len(atoms) else np.zeros(0, np.int64)
    order = np.argsort(component, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(component[order])) + 1) if len(order) else []
    settle, settle_distances = [], []
    shake_atoms, shake_distance, starts = [], [], [0]
    for group in groups:
        water = _as_water(atoms[group], distance[group], masses)
        if water is not None:
            settle.append(water[0])
            settle_distances.append(water[1])
            continue
        pairs, lengths = _around_centre(atoms[group], distance[group], masses, describe)
        shake_atoms.append(pairs)
        shake_distance.append(lengths)
        starts.append(starts[-1] + len(pairs))
    return ConstraintTable(
        settle=np.array(settle, dtype=np.int32).reshape(-1, 3),
        settle_distances=np.array(settle_distances, dtype=np.float64).reshape(-1, 2),
        atoms=np.concatenate(shake_atoms).astype(np.int32) if shake_atoms else np.zeros((0, 2), np.int32),
        distance=np.concatenate(shake_distance) if shake_distance else np.zeros(0),
        group_start=np.array(starts, dtype=np.int32),
    )


def _as_water(
    pairs: np.ndarray, distance: np.ndarray, masses: np.ndarray
) -> tuple[tuple[int, int, int], tuple[float, float]] | None:
    """Apex and two equal base atoms of a rigid isosceles triangle, and its two lengths; None if it is none."""
    members = np.unique(pairs)
    if len(pairs) != 3 or len(members) != 3:
        return None
    length = {frozenset(p): float(d) for p, d in zip(pairs.tolist(), distance, strict=True)}
    if len(length) != 3:
        return None
    for apex in sorted(members.tolist(), key=lambda i: -masses[i]):
        one, two = (int(i) for i in members if i != apex)
        sides = length[frozenset((apex, one))], length[frozenset((apex, two))]
        if sides[0] == sides[1] and masses[one] == masses[two]:
            return (apex, one, two), (sides[0], length[frozenset((one, two))])
    return None


def _around_centre(
    pairs: np.ndarray, distance: np.ndarray, masses: np.ndarray, describe: Callable[[int], str]
) -> tuple[np.ndarray, np.ndarray]:
    """The constraints of one group, heavy atom first in each, those to the central atom before the others."""
    members = np.unique(pairs)
    neighbours = {int(i): set(pairs[(pairs == i).any(axis=1)].ravel().tolist()) for i in members}
    hubs = [i for i, near in neighbours.items() if len(near) == len(members)]
    if not hubs:
        chain = ", ".join(describe(int(i)) for i in members[:3])
        raise UnsupportedError(
            f"constraints chain {len(members)} atoms together ({chain}, ...): mdsim constrains bonds to hydrogen and rigid "
            "waters, not chains of heavy atoms (AllBonds, or HAngles where a hydrogen's angle reaches a second heavy atom); "
            "use constraints: h-bonds"
        )
    centre = max(hubs, key=lambda i: (masses[i], -i))

    def heavy_first(i: int, j: int) -> tuple[int, int]:
        swap = j == centre or (i != centre and masses[j] > masses[i])
        return (j, i) if swap else (i, j)

    ordered = np.array([heavy_first(i, j) for i, j in pairs.tolist()])
    order = np.lexsort((ordered[:, 1], ordered[:, 0], ordered[:, 0] != centre))
    return ordered[order], distance[order]
