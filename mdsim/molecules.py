"""Molecules as graphs: what is connected, and the images that make them whole.

With positions as 32-bit fractions, the nearest image of a neighbour is an integer difference; whole boxes are counted, never
measured.
"""

from __future__ import annotations

import numpy as np

from mdsim.kernels.fixed_point import FRACTION_BITS


def connected(n: int, links: np.ndarray) -> tuple[np.ndarray, int]:
    """Connected component of each of n atoms, int64[n], numbered by first atom; and how many there are."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    graph = coo_matrix((np.ones(len(links), dtype=np.int8), (links[:, 0], links[:, 1])), shape=(n, n))
    count, label = connected_components(graph, directed=False)
    _, first = np.unique(label, return_index=True)
    rank = np.empty(count, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(count)
    return rank[label], int(count)


def spanning_forest(n: int, links: np.ndarray) -> np.ndarray:
    """int64[n] parent of each atom in a breadth-first tree of its molecule; the first atom of each is its own parent."""
    if len(links) == 0:
        return np.arange(n)
    start, end = np.concatenate([links, links[:, ::-1]]).T
    order = np.argsort(start, kind="stable")
    neighbours, first = end[order], np.searchsorted(start[order], np.arange(n + 1))
    parent = np.full(n, -1, dtype=np.int64)
    label, _ = connected(n, links)
    _, frontier = np.unique(label, return_index=True)
    parent[frontier] = frontier
    while len(frontier):
        degree = first[frontier + 1] - first[frontier]
        offset = np.arange(degree.sum()) - np.repeat(np.cumsum(degree) - degree, degree)
        child, of = neighbours[np.repeat(first[frontier], degree) + offset], np.repeat(frontier, degree)
        new = parent[child] < 0
        child, which = np.unique(child[new], return_index=True)
        parent[child] = of[new][which]
        frontier = child
    return parent


def boxes_to_whole(fractions: np.ndarray, counts: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """int64[n, 3] boxes that bring each atom to the nearest image of its parent, down from its molecule's root.

    Parameters
    ----------
    fractions : int32[n, 3]
    counts : int64[n, 3]
        Boxes that each atom is away already.
    parent : int64[n]
        From ``spanning_forest``.
    """
    shift = nearest_boxes(fractions, counts, fractions[parent], counts[parent])
    if not shift.any():
        return shift
    ancestor = parent
    while (ancestor != ancestor[ancestor]).any():  # path doubling: log2(longest chain) passes
        shift = shift + shift[ancestor]
        ancestor = ancestor[ancestor]
    return shift


def nearest_boxes(s: np.ndarray, images: np.ndarray, other: np.ndarray, other_images: np.ndarray) -> np.ndarray:
    """int64[..., 3] boxes that bring the atom ``s + images`` to the image nearest to ``other + other_images``."""
    difference = s.astype(np.int64) - other
    nearest = difference.astype(np.int32)  # keeps the low 32 bits: the nearest image
    boxes: np.ndarray = ((nearest - difference) >> FRACTION_BITS) - (images - other_images)
    return boxes
