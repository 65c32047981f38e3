"""The cluster pair list of a rank: made by bounding boxes, pruned by distances, and valid by measured displacement.

Two lists are kept. The *outer* one, of radius cutoff + buffer, is searched for on the column grid when it has to be. The *inner*
one, of radius cutoff + inner_buffer, is pruned out of it, more often and at little cost, and is what forces are computed from.

A list of radius R made in a box B_old is complete for the cutoff as long as

    rho * (cutoff + 2 * displacement) <= R,      rho = largest singular value of B_new^-1 B_old (1 while the box is the same)

with the largest displacement of an atom since then, in box fractions, measured in the present box: of a pair not in the list
|ds B_new| >= |ds_old B_new| - 2 displacement and |ds_old B_new| >= |ds_old B_old| / rho >= R / rho. Nothing here is statistical.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mdsim.backends.base import Backend
from mdsim.box import Box
from mdsim.errors import InputError

#: relative; covers the float32 arithmetic of the search and of the force kernel (each below 1e-6)
ROUNDING = 1e-5
CLUSTER = 4


def box_stretch(old: Box, new: Box) -> float:
    """Upper bound of the largest singular value of M = B_new^-1 B_old: 1 if equal, exact for uniform scaling.

    The row-sum norm of M^T M bounds its largest eigenvalue (Gershgorin).
    """
    if np.array_equal(old.vectors, new.vectors):
        return 1.0
    m = [[sum(float(new.inverse[i, k] * old.vectors[k, j]) for k in range(3)) for j in range(3)] for i in range(3)]
    gram = [[sum(m[k][i] * m[k][j] for k in range(3)) for j in range(3)] for i in range(3)]
    return math.sqrt(max(sum(abs(x) for x in row) for row in gram)) * (1.0 + 1e-12)


def exclusions_by_atom(pairs: np.ndarray, n_atoms: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs int32[m, 2] as rows by atom: (start int64[n + 1], atoms int32[2 m]), each pair in both directions."""
    both = np.concatenate([pairs, pairs[:, ::-1]]).astype(np.int32)
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    start = np.zeros(n_atoms + 1, np.int64)
    np.cumsum(np.bincount(both[:, 0], minlength=n_atoms), out=start[1:])
    return start, np.ascontiguousarray(both[:, 1])


@dataclass
class ClusterRows:
    """Rows of cluster pairs, as the kernels take them (see ``kernels/cpu/pair_list.py``)."""

    plain_start: np.ndarray  # int64[n_rows]
    plain_end: np.ndarray  # int64[n_rows]
    plain: np.ndarray  # int32[space] j-clusters
    masked_start: np.ndarray  # int64[n_rows]
    masked_end: np.ndarray  # int64[n_rows]
    masked: np.ndarray  # int32[space] j-clusters
    masked_bits: np.ndarray  # uint64[space]

    @classmethod
    def empty(cls, n_rows: int, plain_space: int, masked_space: int) -> ClusterRows:
        row = [np.zeros(n_rows, np.int64) for _ in range(4)]
        return cls(
            row[0], row[1], np.zeros(plain_space, np.int32),
            row[2], row[3], np.zeros(masked_space, np.int32), np.zeros(masked_space, np.uint64),
        )  # fmt: skip

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return (
            self.plain_start, self.plain_end, self.plain,
            self.masked_start, self.masked_end, self.masked, self.masked_bits,
        )  # fmt: skip

    @property
    def pruned_arrays(self) -> tuple[np.ndarray, ...]:
        return self.plain_end, self.plain, self.masked_end, self.masked, self.masked_bits

    @property
    def n_cluster_pairs(self) -> int:
        return int((self.plain_end - self.plain_start).sum() + (self.masked_end - self.masked_start).sum())


@dataclass
class Reference:
    """What a list was made from."""

    coordinates: np.ndarray  # int32[3, n_slots]
    box: Box
    radius: float  # nm


class PairList:
    """Half list of cluster pairs within the cutoff; ``update`` before each force computation.

    Parameters
    ----------
    backend : Backend
    cutoff : float
        nm; inf lists every pair, once and for all.
    n_atoms : int
    exclusions : int32[m, 2]
        Pairs left out.
    has_lj : bool[n_atoms]
        Atoms with Lennard-Jones parameters, which come first in their cluster.
    buffer, inner_buffer : float
        nm beyond the cutoff of the outer and the inner list.
    width : int, optional
        SIMD width: atoms of a j-cluster.
    axes : sequence of three int
        Which of the box axes play x, y and z of the column grid. Like ``origin`` it changes no result.
    origin : sequence of three int
        Box fraction (int32) at which the grid begins.
    """

    def __init__(
        self,
        backend: Backend,
        cutoff: float,
        n_atoms: int,
        exclusions: np.ndarray,
        has_lj: np.ndarray,
        buffer: float = 0.2,
        inner_buffer: float = 0.08,
        width: int | None = None,
        origin: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        if not cutoff > 0.0:
            raise InputError(f"the cutoff must be positive, got {cutoff} nm")
        if not (buffer >= 0.0 and inner_buffer >= 0.0):
            raise InputError(f"pair-list buffers must not be negative, got {buffer} and {inner_buffer} nm")
        self.backend, self.cutoff, self.n_atoms = backend, cutoff, n_atoms
        self.buffer, self.inner_buffer = buffer, min(inner_buffer, buffer)
        self.width = width or backend.kernel("simd.default_width")()
        self.origin = np.array(origin, np.int32)
        self.has_lj = backend.asarray(has_lj, np.bool_)
        self.exclusions = exclusions_by_atom(np.asarray(exclusions, np.int32).reshape(-1, 2), n_atoms)
        self.n_rebuilds = self.n_prunes = self.n_updates = 0
        self.n_slots = 0

        self._kernels = backend.kernel("pair_list.kernels")(self.width)
        for name in ("count_columns", "fill_columns", "arrange_slots", "gather_slots", "bounding_boxes"):
            self._kernels[name] = backend.kernel(f"clusters.{name}")
        self._column_of_atom = backend.zeros(n_atoms, np.int32)
        self._rank_in_column = backend.zeros(n_atoms, np.int32)
        self.slot_of_atom = backend.zeros(n_atoms, np.int32)
        self.row_bounds = backend.zeros(backend.n_threads + 1, np.int64)
        self._displacement2 = backend.zeros(backend.n_threads, np.float64)
        self._plain_space = self._masked_space = 0
        self._outer: Reference | None = None
        self._inner: Reference | None = None
        self._checked_box: Box | None = None

    # ---- each step ------------------------------------------------------------------------------------------------------

    def update(self, positions: np.ndarray, box: Box) -> bool:
        """Bring ``coordinates`` and ``rows`` up to date with positions int32[n, 3]; returns whether the list was rebuilt."""
        self.n_updates += 1
        self._check_box(box)
        if self._inner is not None and self._covers(self._inner, self.cutoff, positions, box):
            return False
        if self._outer is not None and self._inner is not None:
            radius = self._inner_radius(box)
            if self._covers(self._outer, radius, positions, box):
                self._prune(radius, box)
                return False
        self._rebuild(positions, box)
        return True

    def invalidate(self) -> None:
        """Rebuild at the next update (atoms were renumbered or migrated)."""
        self._outer = self._inner = None

    def _check_box(self, box: Box) -> None:
        if box is self._checked_box:
            return
        smallest = float(box.widths.min())
        if box.periodic and self.cutoff > 0.5 * smallest:
            raise InputError(
                f"the cutoff of {self.cutoff:g} nm exceeds half the smallest width of the box, {smallest:.4g} nm: "
                "use a larger box or a shorter cutoff"
            )
        self._checked_box = box

    def _covers(self, reference: Reference, radius: float, positions: np.ndarray, box: Box) -> bool:
        """Load the positions; is every pair within ``radius`` in the list made at the reference?"""
        self._kernels["gather_slots"](
            positions, self.slot_source, box.lattice, reference.coordinates, self.backend.n_threads,
            self.coordinates, self._displacement2,
        )  # fmt: skip
        if math.isinf(reference.radius):
            return True
        displacement = math.sqrt(float(self._displacement2.max()))
        return box_stretch(reference.box, box) * (radius + 2.0 * displacement) <= reference.radius

    def _inner_radius(self, box: Box) -> float:
        return min(self.cutoff + self.inner_buffer, self._outer_radius(box))

    def _outer_radius(self, box: Box) -> float:
        """List radius, nm: at most half the smallest width, beyond which the nearest image is not the int32 wrap."""
        if not box.periodic:
            return self.cutoff + self.buffer
        return max(self.cutoff, min(self.cutoff + self.buffer, 0.5 * float(box.widths.min())))

    # ---- making the lists -----------------------------------------------------------------------------------------------

    def _rebuild(self, positions: np.ndarray, box: Box) -> None:
        self.n_rebuilds += 1
        radius = self._outer_radius(box)
        grid = self._make_clusters(positions, box, radius)
        self._search(box, radius, grid)
        self._balance(self.outer_rows)
        if math.isinf(radius):
            self.rows = self.outer_rows
        else:
            self._prune_rows(self.outer_rows, radius, box, self.outer_rows)
            self._balance(self.outer_rows)
        self._outer = Reference(self.coordinates.copy(), box, radius)
        self._prune(self._inner_radius(box), box)

    def _prune(self, radius: float, box: Box) -> None:
        """Make the inner list out of the outer one."""
        if math.isfinite(radius):
            self.n_prunes += 1
            self._prune_rows(self.outer_rows, radius, box, self.rows)
            self._balance(self.rows)
        self._inner = Reference(self.coordinates.copy(), box, radius)

    def _prune_rows(self, source: ClusterRows, radius: float, box: Box, kept: ClusterRows) -> None:
        self._kernels["prune"](
            self.backend.n_threads, self.coordinates, box.lattice.astype(np.float32),
            np.float32((radius * (1.0 + ROUNDING)) ** 2), self.row_bounds, source.arrays, kept.pruned_arrays,
        )  # fmt: skip

    def _balance(self, rows: ClusterRows) -> None:
        self._kernels["balance"](
            self.backend.n_threads, rows.plain_start, rows.plain_end, rows.masked_start, rows.masked_end, self.row_bounds
        )

    def _grid(self, positions: np.ndarray, box: Box) -> tuple[np.ndarray, np.ndarray, int, int]:
        """Origin int32[3], extent int64[3] and number of columns, such that columns are about as wide as clusters are high.

        The factor 4/3 gave the fewest cluster pairs for water at W = 8 (2 % fewer than 1).
        """
        extent = np.full(3, 2**32, np.int64)
        origin = self.origin
        if not box.periodic:
            relative = positions - positions[0]  # wraps
            origin = positions[0] + relative.min(axis=0)
            extent = relative.max(axis=0).astype(np.int64) - relative.min(axis=0) + 1
        edges = np.maximum(box.widths * (extent / 2.0**32), 0.1)
        edge = (4 / 3 * math.sqrt(CLUSTER * self.width) * float(edges.prod()) / self.n_atoms) ** (1 / 3)
        # an empty box (vacuum around a droplet) shall not cost a column for each cubic nanometre of nothing
        n_x, n_y = (int(min(max(round(e / edge), 1), math.ceil(math.sqrt(self.n_atoms)))) for e in edges[:2])
        return origin, extent, n_x, n_y

    def _make_clusters(self, positions: np.ndarray, box: Box, radius: float) -> tuple:
        """Sort atoms into columns and clusters; the grid as ``search`` takes it."""
        k, threads = self._kernels, self.backend.n_threads
        origin, extent, n_x, n_y = self._grid(positions, box)
        column_start = np.zeros(n_x * n_y + 1, np.int32)
        k["count_columns"](
            positions, origin, extent, n_x, n_y, max(CLUSTER, self.width),
            self._column_of_atom, self._rank_in_column, column_start,
        )  # fmt: skip
        self._allocate_slots(int(column_start[-1]))
        k["fill_columns"](positions, origin, self._column_of_atom, self._rank_in_column, column_start, self._keys)
        k["arrange_slots"](
            column_start, self.has_lj, threads, self._keys, self.slot_atom, self.slot_source, self.slot_of_atom, self.n_lj
        )
        k["gather_slots"](
            positions, self.slot_source, box.lattice, self.coordinates, threads, self.coordinates, self._displacement2
        )
        for size, boxes in ((CLUSTER, self._i_boxes), (self.width, self._j_boxes)):
            k["bounding_boxes"](self.coordinates, size, origin, box.lattice, *boxes)
        reach = (radius if math.isfinite(radius) else 1e6) / box.widths * 2.0**32 * (1.0 + ROUNDING)
        return origin, extent, reach, n_x, n_y, column_start, box.periodic

    def _allocate_slots(self, n_slots: int) -> None:
        if n_slots == self.n_slots:
            return
        zeros, n_i, n_j = self.backend.zeros, n_slots // CLUSTER, n_slots // self.width
        self.n_slots = n_slots
        self.slot_atom, self.slot_source = zeros(n_slots, np.int32), zeros(n_slots, np.int32)
        self.n_lj = zeros(n_i, np.int32)
        self.coordinates = zeros((3, n_slots), np.int32)
        self._keys = zeros(n_slots, np.uint64)
        self._i_boxes, self._j_boxes = (
            (zeros((3, n), np.int32), zeros((3, n), np.float32), zeros((3, n), np.float32))
            for n in (n_i, n_j + self.width)
        )
        threads = self.backend.n_threads
        most = CLUSTER * (int(np.diff(self.exclusions[0]).max(initial=0)) + 1)
        self._scratch = (zeros((threads, n_j), np.int64), zeros((threads, most), np.int32), zeros((threads, most), np.uint64))
        self._plain_space = max(self._plain_space, threads * (1024 + 40 * n_i // threads))
        self._masked_space = max(self._masked_space, threads * (1024 + 8 * n_i // threads))
        self._allocate_rows()

    def _allocate_rows(self) -> None:
        sizes = (self.n_slots // CLUSTER, self._plain_space, self._masked_space)
        self.outer_rows, self.rows = ClusterRows.empty(*sizes), ClusterRows.empty(*sizes)

    def _search(self, box: Box, radius: float, grid: tuple) -> None:
        """Outer list by bounding boxes; where it does not fit, make room and repeat."""
        threads = self.backend.n_threads
        finite = radius if math.isfinite(radius) else 1e6
        metric = (
            box.lattice.astype(np.float32),
            (box.widths / 2.0**32).astype(np.float32),
            not box.orthorhombic,
            np.float32(finite * (1.0 + ROUNDING)),
        )
        needed = self.backend.zeros((threads, 2), np.int64)
        while True:
            self._kernels["search"](
                threads, (*self._i_boxes, *self._j_boxes), metric, grid, (self.slot_atom, self.slot_of_atom),
                self.exclusions, self._scratch, (*self.outer_rows.arrays, needed),
            )  # fmt: skip
            plain, masked = (int(n) * threads for n in needed.max(axis=0))
            if plain <= self._plain_space and masked <= self._masked_space:
                break
            self._plain_space = max(self._plain_space, plain + plain // 8)
            self._masked_space = max(self._masked_space, masked + masked // 8)
            self._allocate_rows()
        self.rows.plain_start[:] = self.outer_rows.plain_start
        self.rows.masked_start[:] = self.outer_rows.masked_start
