"""Cluster pair list: which j-clusters (W atoms) are near each i-cluster (4 atoms). Half: each pair of atoms once.

Pall & Hess, Comput. Phys. Commun. 184, 2641 (2013). Row ci holds j-clusters in two groups: *masked* ones with W x 4 bits that say
which pairs count (bit a * W + lane; off for exclusions, for an atom with itself and for pairs that another row has), and *plain* ones
in which every pair counts. ``search`` lists by bounding boxes; ``sort_rows`` drops what is beyond the list radius and orders the plain entries by shells of
distance, so that each step can stop at the shell that its atoms may have reached since (``trim_rows``).

The nearest image is the int32 wrap. It holds for atoms closer than half the smallest width of the box, so for centres of clusters it
may pick another image than for their atoms; where it could, only the distance between lattice planes is used, which holds for any image.
"""

import numpy as np
from numba import prange

from mdsim.kernels.cpu import simd
from mdsim.kernels.cpu.clusters import CLUSTER
from mdsim.kernels.cpu.simd import (
    fma,
    load,
    lowest,
    mask_from_bits,
    mask_to_bits,
    maximum,
    minimum,
    to_float,
    trailing_zeros,
)

WIDTH = 8  # lanes; replaced by ``specialise``
HALF_BOX = np.float32(2.0**31)


# ---- exclusions --------------------------------------------------------------------------------------------------------


def find_row_mask(cj, ci, mark, n_masks, mask_cluster, mask_bits):
    """Place of the mask of j-cluster ``cj`` in the row's short list, made (all pairs on) if it is not there."""
    place = mark[cj] & 0xFFFF if mark[cj] >> 16 == ci + 1 else -1
    if place < 0:
        place = n_masks
        mark[cj] = ((ci + 1) << 16) | place
        mask_cluster[place] = cj
        mask_bits[place] = np.uint64(0xFFFFFFFFFFFFFFFF)
    return place


def row_masks(ci, slot_atom, slot_of_atom, exclusion_start, exclusions, mark, mask_cluster, mask_bits):
    """Masks of all j-clusters in row ``ci`` that need one; returns their number."""
    n_masks = 0
    for a in range(CLUSTER):
        slot = ci * CLUSTER + a
        place = find_row_mask(slot // WIDTH, ci, mark, n_masks, mask_cluster, mask_bits)
        n_masks = max(n_masks, place + 1)
        for lane in range(slot % WIDTH + 1):  # itself, and what comes before it
            mask_bits[place] &= ~(np.uint64(1) << np.uint64(a * WIDTH + lane))
        atom = slot_atom[slot]
        if atom < 0:
            continue
        for e in range(exclusion_start[atom], exclusion_start[atom + 1]):
            other = slot_of_atom[exclusions[e]]
            if other > slot:
                place = find_row_mask(other // WIDTH, ci, mark, n_masks, mask_cluster, mask_bits)
                n_masks = max(n_masks, place + 1)
                mask_bits[place] &= ~(np.uint64(1) << np.uint64(a * WIDTH + other % WIDTH))
    return n_masks


# ---- search by bounding boxes ------------------------------------------------------------------------------------------


def near_clusters(cj, ci, boxes, lattice, widths, triclinic, radius):
    """Mask of the W j-clusters from ``cj`` on that may have an atom within ``radius`` of one in ``ci``."""
    i_centre, i_fraction, i_cartesian, j_centre, j_fraction, j_cartesian = boxes
    sx = to_float(i_centre[0, ci] - load(j_centre[0], cj, WIDTH))
    sy = to_float(i_centre[1, ci] - load(j_centre[1], cj, WIDTH))
    sz = to_float(i_centre[2, ci] - load(j_centre[2], cj, WIDTH))
    gx = maximum(sx, -sx) - (load(j_fraction[0], cj, WIDTH) + i_fraction[0, ci])
    gy = maximum(sy, -sy) - (load(j_fraction[1], cj, WIDTH) + i_fraction[1, ci])
    gz = maximum(sz, -sz) - (load(j_fraction[2], cj, WIDTH) + i_fraction[2, ci])
    near = (gx * widths[0] < radius) & (gy * widths[1] < radius) & (gz * widths[2] < radius)

    dx = fma(sz, lattice[2, 0], fma(sy, lattice[1, 0], sx * lattice[0, 0]))
    dy = fma(sz, lattice[2, 1], sy * lattice[1, 1])
    dz = sz * lattice[2, 2]
    dx = maximum(maximum(dx, -dx) - (load(j_cartesian[0], cj, WIDTH) + i_cartesian[0, ci]), 0.0)
    dy = maximum(maximum(dy, -dy) - (load(j_cartesian[1], cj, WIDTH) + i_cartesian[1, ci]), 0.0)
    dz = maximum(maximum(dz, -dz) - (load(j_cartesian[2], cj, WIDTH) + i_cartesian[2, ci]), 0.0)
    near_box = fma(dz, dz, fma(dy, dy, dx * dx)) < radius * radius
    if triclinic:  # |difference| + extents beyond half a box: atoms may have another nearest image than the centres
        hx = fma(maximum(sx, -sx), 2.0, -gx) > HALF_BOX
        hy = fma(maximum(sy, -sy), 2.0, -gy) > HALF_BOX
        hz = fma(maximum(sz, -sz), 2.0, -gz) > HALF_BOX
        near_box = near_box | hx | hy | hz
    return near & near_box


def search_run(first, last, ci, boxes, metric, out, n_plain, n_masked, row):
    """Add the near ones of the j-clusters ``first`` to ``last`` to the row; returns the counts, which may exceed the space."""
    lattice, widths, triclinic, radius = metric
    plain, masked, masked_bits, plain_limit, masked_limit = out
    mark, mask_bits = row
    for cj in range(first, last, WIDTH):
        bits = mask_to_bits(near_clusters(cj, ci, boxes, lattice, widths, triclinic, radius))
        if last - cj < WIDTH:
            bits &= (1 << (last - cj)) - 1
        while bits != 0:
            k = cj + trailing_zeros(bits)
            bits &= bits - 1
            if mark[k] >> 16 == ci + 1:
                if n_masked < masked_limit:
                    masked[n_masked] = k
                    masked_bits[n_masked] = mask_bits[mark[k] & 0xFFFF]
                n_masked += 1
            else:
                if n_plain < plain_limit:
                    plain[n_plain] = k
                n_plain += 1
    return n_plain, n_masked


def column_range(centre, half, origin, extent, reach, n_columns, periodic):
    """First column and number of columns along one axis that hold atoms within ``reach`` (box fractions * 2**32)."""
    u = np.float64(np.uint32(centre - origin))
    scale = n_columns / np.float64(extent)
    first = np.int64(np.floor((u - half - reach) * scale - 1e-6))
    last = np.int64(np.floor((u + half + reach) * scale + 1e-6))
    if not periodic:
        first, last = max(first, 0), min(last, n_columns - 1)
    elif last - first + 1 >= n_columns:
        first, last = 0, n_columns - 1
    return first, last - first + 1


def search_row(ci, boxes, metric, grid, out, n_plain, n_masked, row):
    """All of row ``ci``: runs of columns in y that lie together, for each column in x; only j-clusters not before ci's."""
    origin, extent, reach, n_x, n_y, column_start, periodic = grid
    centre, half = boxes[0], boxes[1]
    own = ci * CLUSTER // WIDTH
    x0, n_near_x = column_range(centre[0, ci], half[0, ci], origin[0], extent[0], reach[0], n_x, periodic)
    y0, n_near_y = column_range(centre[1, ci], half[1, ci], origin[1], extent[1], reach[1], n_y, periodic)
    y0 %= n_y
    for x in range(x0, x0 + n_near_x):
        column = x % n_x * n_y
        # the columns y0 ... y0 + n_near_y - 1, cut where they wrap
        for a, b in ((y0, min(y0 + n_near_y, n_y)), (0, y0 + n_near_y - n_y)):
            if b > a:
                first = max(own, column_start[column + a] // WIDTH)
                last = column_start[column + b] // WIDTH
                n_plain, n_masked = search_run(first, last, ci, boxes, metric, out, n_plain, n_masked, row)
    return n_plain, n_masked


def search_chunk(t, n_threads, boxes, metric, grid, slots, exclusions, scratch, lists):
    """Rows of thread ``t``, written to its part of the lists."""
    slot_atom, slot_of_atom = slots
    exclusion_start, excluded = exclusions
    mark, mask_cluster, mask_bits = scratch
    plain_start, plain_end, plain, masked_start, masked_end, masked, masked_bits, needed = lists
    n_rows = len(plain_start)
    plain_space, masked_space = len(plain) // n_threads, len(masked) // n_threads
    n_plain, n_masked = plain_space * t, masked_space * t
    out = (plain, masked, masked_bits, plain_space * (t + 1), masked_space * (t + 1))
    mark[t, :] = 0
    for ci in range(n_rows * t // n_threads, n_rows * (t + 1) // n_threads):
        plain_start[ci], masked_start[ci] = n_plain, n_masked
        if slot_atom[ci * CLUSTER] >= 0:
            row_masks(ci, slot_atom, slot_of_atom, exclusion_start, excluded, mark[t], mask_cluster[t], mask_bits[t])
            row = (mark[t], mask_bits[t])
            n_plain, n_masked = search_row(ci, boxes, metric, grid, out, n_plain, n_masked, row)
        plain_end[ci], masked_end[ci] = n_plain, n_masked
    needed[t, 0], needed[t, 1] = n_plain - plain_space * t, n_masked - masked_space * t


def search(n_threads, boxes, metric, grid, slots, exclusions, scratch, lists):
    """List all cluster pairs whose bounding boxes are within a radius.

    Parameters
    ----------
    boxes : (centre, half_fraction, half_cartesian of i-clusters, the same of j-clusters)
        As by ``bounding_boxes``; j-cluster arrays are at least W longer than their content.
    metric : (lattice float32[3, 3] nm, widths / 2**32 float32[3] nm, triclinic bool, radius float32 nm)
    grid : (origin int32[3], extent int64[3], reach float64[3], n_x, n_y, column_start int32[n_x * n_y + 1], periodic bool)
    slots : (slot_atom int32[n_slots], slot_of_atom int32[n])
    exclusions : (start int64[n + 1], atoms int32[...]), by atom, each pair in both directions
    scratch : (mark int64[T, n_j], mask_cluster int32[T, m], mask_bits uint64[T, m])
    lists : (plain_start, plain_end int64[n_i], plain int32[...], masked_start, masked_end int64[n_i], masked int32[...],
             masked_bits uint64[...], needed int64[T, 2]) OUTPUT
        ``needed``: entries that each thread would fill; where it exceeds the thread's space (length / T) the list is not whole,
        and the caller repeats with longer arrays.
    """
    for t in prange(n_threads):
        search_chunk(t, n_threads, boxes, metric, grid, slots, exclusions, scratch, lists)


# ---- sorting by atom distances -----------------------------------------------------------------------------------------


def distance2(a, ci, cj, coordinates, lattice):
    """Squared distances of the atoms of ``cj`` from atom ``a`` of ``ci``, nm^2."""
    i = ci * CLUSTER + a
    sx = to_float(load(coordinates[0], cj * WIDTH, WIDTH) - coordinates[0, i])
    sy = to_float(load(coordinates[1], cj * WIDTH, WIDTH) - coordinates[1, i])
    sz = to_float(load(coordinates[2], cj * WIDTH, WIDTH) - coordinates[2, i])
    dx = fma(sz, lattice[2, 0], fma(sy, lattice[1, 0], sx * lattice[0, 0]))
    dy = fma(sz, lattice[2, 1], sy * lattice[1, 1])
    dz = sz * lattice[2, 2]
    return fma(dz, dz, fma(dy, dy, dx * dx))


def shell_of(ci, cj, coordinates, lattice, thresholds2):
    """How many of the thresholds the closest atom pair reaches."""
    d01 = minimum(distance2(0, ci, cj, coordinates, lattice), distance2(1, ci, cj, coordinates, lattice))
    d23 = minimum(distance2(2, ci, cj, coordinates, lattice), distance2(3, ci, cj, coordinates, lattice))
    closest2 = lowest(minimum(d01, d23))
    shell = 0
    while shell < len(thresholds2) and closest2 >= thresholds2[shell]:
        shell += 1
    return shell


def sort_plain(ci, coordinates, lattice, thresholds2, first, last, plain, shell_end, scratch):
    """Order the plain entries of one row by shells; those beyond the last threshold are dropped (past the row's end)."""
    shells, copy = scratch
    n_shells = len(thresholds2)
    shell_end[ci, :] = 0
    for k in range(first, last):
        cj = plain[k]
        shell = shell_of(ci, np.int64(cj), coordinates, lattice, thresholds2)
        shells[k - first], copy[k - first] = shell, cj
        if shell < n_shells:
            shell_end[ci, shell] += 1
    end = first
    for shell in range(n_shells):  # counts to starts
        end, shell_end[ci, shell] = end + shell_end[ci, shell], end
    for k in range(last - first):
        shell = shells[k]
        if shell < n_shells:
            plain[shell_end[ci, shell]] = copy[k]
            shell_end[ci, shell] += 1  # which makes a start an end


def prune_masked(ci, coordinates, lattice, radius2, first, last, masked, masked_bits):
    """Keep the masked entries of one row that have a pair which counts within the radius; returns the new end."""
    n = first
    for k in range(first, last):
        cj, bits = masked[k], masked_bits[k]
        near = mask_from_bits(np.uint64(0), WIDTH)
        for a in range(CLUSTER):
            allowed = mask_from_bits(bits >> np.uint64(a * WIDTH), WIDTH)
            near = near | (allowed & (distance2(a, ci, np.int64(cj), coordinates, lattice) < radius2))
        masked[n], masked_bits[n] = cj, bits
        n += mask_to_bits(near) != 0
    return n


def sort_chunk(first_row, last_row, coordinates, lattice, thresholds2, rows, shell_end):
    """Rows ``first_row`` to ``last_row``."""
    plain_start, plain_end, plain, masked_start, masked_end, masked, masked_bits = rows
    longest = 0
    for ci in range(first_row, last_row):
        longest = max(longest, plain_end[ci] - plain_start[ci])
    scratch = (np.empty(longest, np.int32), np.empty(longest, np.int32))
    for ci in range(first_row, last_row):
        sort_plain(ci, coordinates, lattice, thresholds2, plain_start[ci], plain_end[ci], plain, shell_end, scratch)
        first, last = masked_start[ci], masked_end[ci]
        masked_end[ci] = prune_masked(ci, coordinates, lattice, thresholds2[-1], first, last, masked, masked_bits)


def sort_rows(n_threads, coordinates, lattice, thresholds2, row_bounds, rows, shell_end):
    """Order the entries of each row by the distance of their closest atom pair, in shells.

    Parameters
    ----------
    coordinates : int32[3, n_slots]
    lattice : float32[3, 3], nm
    thresholds2 : float32[S], nm^2, ascending
        The inner radii of shells 1, 2, ... S - 1, squared, and the list radius; what is beyond it is dropped.
    row_bounds : int64[T + 1], rows of each thread
    rows : as in ``search``, changed in place
    shell_end : int64[n_i, S] OUTPUT, where in the row each shell ends
    """
    for t in prange(n_threads):
        sort_chunk(row_bounds[t], row_bounds[t + 1], coordinates, lattice, thresholds2, rows, shell_end)


def trim_rows(shell_end, displacement2, largest, cutoff, stretch, spacing, plain_end):
    """End each row where its remaining shells are too far away to matter yet.

    A shell beginning at distance d cannot hold a pair within the cutoff as long as stretch * (cutoff + D_i + D_max) <= d, with the
    displacement D_i of the row's own atoms and the largest one, D_max, for the others.

    Parameters
    ----------
    shell_end : int64[n_i, S]; shell k > 0 begins at cutoff + (k - 1) * spacing
    displacement2 : float64[n_i], nm^2
    largest, cutoff, spacing : float, nm
    stretch : float, by how much lengths may have shrunk with the box since the list was made
    plain_end : int64[n_i] OUTPUT
    """
    for ci in range(shell_end.shape[0]):
        reach = stretch * (cutoff + largest + np.sqrt(displacement2[ci]))
        shell = np.int64(np.ceil((reach - cutoff) / spacing - 1e-9))
        plain_end[ci] = shell_end[ci, min(max(shell, 0), shell_end.shape[1] - 1)]


def balance(n_threads, plain_start, plain_end, masked_start, masked_end, row_bounds):
    """Cut the rows into runs with about equal numbers of cluster pairs: ``row_bounds`` int64[T + 1] OUTPUT."""
    n_rows, pairs = len(plain_start), 0
    for ci in range(n_rows):
        pairs += plain_end[ci] - plain_start[ci] + masked_end[ci] - masked_start[ci] + 1
    seen, t = 0, 1
    row_bounds[0] = 0
    for ci in range(n_rows):
        seen += plain_end[ci] - plain_start[ci] + masked_end[ci] - masked_start[ci] + 1
        while t < n_threads and seen * n_threads >= pairs * t:
            row_bounds[t] = ci + 1
            t += 1
    row_bounds[t:] = n_rows


_TEMPLATES = [
    (find_row_mask, simd.INLINE),
    (row_masks, simd.INTERNAL),
    (near_clusters, simd.INLINE),
    (search_run, simd.INTERNAL),
    (column_range, simd.INTERNAL),
    (search_row, simd.INTERNAL),
    (search_chunk, simd.INTERNAL),
    (search, {"parallel": True}),
    (distance2, simd.INLINE),
    (shell_of, simd.INLINE),
    (sort_plain, simd.INTERNAL),
    (prune_masked, simd.INTERNAL),
    (sort_chunk, simd.INTERNAL),
    (sort_rows, {"parallel": True}),
    (trim_rows, {}),
    (balance, {}),
]
_by_width = {}


def kernels(width):
    """The functions of this module compiled for W lanes: a dict with ``search``, ``sort_rows``, ``trim_rows``, ``balance``."""
    if width not in _by_width:
        _by_width[width] = simd.specialise(
            _TEMPLATES, globals(), f"w{width}", {"WIDTH": width}, cache=True, error_model="numpy"
        )
    return _by_width[width]

