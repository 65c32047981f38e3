"""The cluster pair list of a rank: made by bounding boxes, sorted by distance, and valid by measured displacement.

A cluster pair whose closest atoms were d apart when the list was made, in a box B_old, cannot have a pair within the cutoff as
long as

    rho * (cutoff + D_i + D_j) <= d,      rho = largest singular value of B_new^-1 B_old (1 while the box is the same)

with D the largest displacement in each cluster since then, in box fractions, measured in the present box: for its atoms
|ds B_new| >= |ds_old B_new| - D_i - D_j and |ds_old B_new| >= |ds_old B_old| / rho. Nothing here is statistical.

So the list is made with a radius of cutoff + buffer, each row sorted into shells of d. Each step computes the shells that the atoms
may have brought within the cutoff by then, few at first; when the list radius itself is reached, the list is made anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdsim.backends.base import Backend
from mdsim.box import Box
from mdsim.errors import InputError

#: shells between the cutoff and the list radius
N_SHELLS = 16
#: relative; covers the float32 arithmetic of the search and of the force kernel (each below 1e-6)
ROUNDING = 1e-5
CLUSTER = 4
#: nm; for water at 300 K the list then lives some 12 steps of 2 fs. From 0.1 to 0.2 the time of a step is about the same.
DEFAULT_BUFFER = 0.15


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


def _default_width(backend: Backend) -> int:
    try:
        width: int = backend.kernel("simd.default_width")()
    except ValueError as error:
        raise InputError(str(error)) from None
    return width


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
    buffer : float
        nm beyond the cutoff. A larger one makes the list live longer and the making of it dearer.
    width : int, optional
        SIMD width: atoms of a j-cluster.
    origin : three int
        Box fraction (int32) at which the grid begins.

    Neither the buffer nor the width nor the origin changes a bit of what is computed from the list.
    """

    def __init__(
        self,
        backend: Backend,
        cutoff: float,
        n_atoms: int,
        exclusions: np.ndarray,
        has_lj: np.ndarray,
        buffer: float = DEFAULT_BUFFER,
        width: int | None = None,
        origin: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        if not cutoff > 0.0:
            raise InputError(f"the cutoff must be positive, got {cutoff} nm")
        if not 0.0 <= buffer < math.inf:
            raise InputError(f"the pair-list buffer must be a length and not negative, got {buffer} nm")
        self.backend, self.cutoff, self.n_atoms = backend, cutoff, n_atoms
        self.buffer = buffer
        self.width = width or _default_width(backend)
        self.origin = np.array(origin, np.int32)
        self.has_lj = backend.asarray(has_lj, np.bool_)
        self.exclusions = exclusions_by_atom(np.asarray(exclusions, np.int32).reshape(-1, 2), n_atoms)
        self.n_rebuilds = self.n_updates = 0
        self.n_slots = 0

        self._kernels = backend.kernel("pair_list.kernels")(self.width)
        for name in ("count_columns", "fill_columns", "arrange_slots", "gather_slots", "bounding_boxes"):
            self._kernels[name] = backend.kernel(f"clusters.{name}")
        self._column_of_atom = backend.zeros(n_atoms, np.int32)
        self._rank_in_column = backend.zeros(n_atoms, np.int32)
        self.slot_of_atom = backend.zeros(n_atoms, np.int32)
        self.row_bounds = backend.zeros(backend.n_threads + 1, np.int64)
        self._largest2 = backend.zeros(backend.n_threads, np.float64)
        self._plain_space = self._masked_space = 0
        self._reference: Reference | None = None
        self._checked_box: Box | None = None

    # ---- each step ------------------------------------------------------------------------------------------------------

    def update(self, positions: np.ndarray, box: Box) -> bool:
        """Bring ``coordinates`` and ``rows`` up to date with positions int32[n, 3]; returns whether the list was rebuilt."""
        self.n_updates += 1
        self._check_box(box)
        if self._reference is not None and self._follow(self._reference, positions, box):
            return False
        self._rebuild(positions, box)
        return True

    def invalidate(self) -> None:
        """Rebuild at the next update (atoms were renumbered or migrated)."""
        self._reference = None

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

    def _gather(self, reference: np.ndarray, positions: np.ndarray, box: Box) -> float:
        """Load the positions; the largest displacement from the reference coordinates, nm."""
        self._kernels["gather_slots"](
            positions, self.slot_source, box.lattice, reference, self.backend.n_threads,
            self.coordinates, self._displacement2, self._largest2,
        )  # fmt: skip
        return math.sqrt(float(self._largest2.max()))

    def _follow(self, reference: Reference, positions: np.ndarray, box: Box) -> bool:
        """Take the list made at the reference to the present positions, or find that it does not reach so far."""
        largest = self._gather(reference.coordinates, positions, box)
        if math.isinf(reference.radius):
            return True
        stretch = box_stretch(reference.box, box)
        if stretch * (self.cutoff + 2.0 * largest) > reference.radius:
            return False
        self._trim(largest, stretch, reference.radius)
        return True

    def _trim(self, largest: float, stretch: float, radius: float) -> None:
        spacing = max(radius - self.cutoff, 1e-6) / N_SHELLS
        self._kernels["trim_rows"](
            self._shell_end, self._displacement2, largest, self.cutoff, stretch, spacing, self.rows.plain_end
        )

    def _list_radius(self, box: Box) -> float:
        """List radius, nm: at most half the smallest width, beyond which the nearest image is not the int32 wrap."""
        if not box.periodic:
            return self.cutoff + self.buffer
        return max(self.cutoff, min(self.cutoff + self.buffer, 0.5 * float(box.widths.min())))

    # ---- making the lists -----------------------------------------------------------------------------------------------

    def _rebuild(self, positions: np.ndarray, box: Box) -> None:
        self.n_rebuilds += 1
        radius = self._list_radius(box)
        grid = self._make_clusters(positions, box, radius)
        self._search(box, radius, grid)
        self._balance()
        if math.isfinite(radius):
            self._sort_rows(box, radius)
            self._trim(0.0, 1.0, radius)
            self._balance()
        self._reference = Reference(self.coordinates.copy(), box, radius)

    def _sort_rows(self, box: Box, radius: float) -> None:
        cutoff, reach = self.cutoff * (1.0 + ROUNDING), radius * (1.0 + ROUNDING)
        extent = 2.0 * self._i_boxes[1].max(axis=1)  # box fractions * 2**32
        compact = bool((extent + reach / box.widths * 2.0**32 < 2.0**31).all())
        metric = (compact, np.float32(cutoff), np.float32(N_SHELLS / max(reach - cutoff, 1e-6)), np.float32(reach**2))
        self._kernels["sort_rows"](
            self.backend.n_threads, self.coordinates, box.lattice.astype(np.float32), metric,
            self.row_bounds, self.rows.arrays, self._shell_end,
        )  # fmt: skip

    def _balance(self) -> None:
        """Share the rows between the threads."""
        rows = self.rows
        self._kernels["balance"](
            self.backend.n_threads,
            rows.plain_start,
            rows.plain_end,
            rows.masked_start,
            rows.masked_end,
            self.row_bounds,
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

    def _make_clusters(self, positions: np.ndarray, box: Box, radius: float) -> tuple[Any, ...]:
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
            column_start,
            self.has_lj,
            threads,
            self._keys,
            self.slot_atom,
            self.slot_source,
            self.slot_of_atom,
            self.n_lj,
        )
        self._gather(self.coordinates, positions, box)
        self._displacement2[:] = 0.0
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
        self._displacement2 = zeros(n_i, np.float64)
        self._shell_end = zeros((n_i, N_SHELLS + 1), np.int64)
        self._i_boxes, self._j_boxes = (
            (zeros((3, n), np.int32), zeros((3, n), np.float32), zeros((3, n), np.float32))
            for n in (n_i, n_j + self.width)
        )
        threads = self.backend.n_threads
        most = CLUSTER * (int(np.diff(self.exclusions[0]).max(initial=0)) + 1)
        self._scratch = (
            zeros((threads, n_j), np.int64),
            zeros((threads, most), np.int32),
            zeros((threads, most), np.uint64),
        )
        self._plain_space = max(self._plain_space, threads * (1024 + 40 * n_i // threads))
        self._masked_space = max(self._masked_space, threads * (1024 + 8 * n_i // threads))
        self._allocate_rows()

    def _allocate_rows(self) -> None:
        sizes = (self.n_slots // CLUSTER, self._plain_space, self._masked_space)
        self.rows = ClusterRows.empty(*sizes)

    def _search(self, box: Box, radius: float, grid: tuple[Any, ...]) -> None:
        """List by bounding boxes; where it does not fit, make room and repeat."""
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
                self.exclusions, self._scratch, (*self.rows.arrays, needed),
            )  # fmt: skip
            plain, masked = (int(n) * threads for n in needed.max(axis=0))
            if plain <= self._plain_space and masked <= self._masked_space:
                break
            self._plain_space = max(self._plain_space, plain + plain // 8)
            self._masked_space = max(self._masked_space, masked + masked // 8)
            self._allocate_rows()
