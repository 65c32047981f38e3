"""Cluster pair list: which j-clusters (W atoms) are near each i-cluster (4 atoms). Half: each pair of atoms once.

Pall & Hess, Comput. Phys. Commun. 184, 2641 (2013). Row ci holds j-clusters in two groups: *masked* ones with W x 4 bits that
say which pairs count (bit a * W + lane; off for exclusions, for an atom with itself and for pairs that another row has), and
*plain* ones in which every pair counts. ``search`` lists by bounding boxes; ``sort_rows`` drops what is beyond the list radius
and orders the plain entries by shells of distance, so that each step can stop at the shell that its atoms may have reached
since (``trim_rows``).

The nearest image is the int32 wrap. It holds for atoms closer than half the smallest width of the box, so for centres of
clusters it may pick another image than for their atoms. In an orthorhombic box the distance of bounding boxes is right all the
same, axis by axis; in a triclinic one the distance between lattice planes is used where it could happen, which holds for any
image.
"""

import numpy as np
from numba import prange

from mdsim.kernels.cpu import simd
from mdsim.kernels.cpu.clusters import CLUSTER
from mdsim.kernels.cpu.simd import (
    absolute,
    broadcast,
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
#: box fraction 1/2, less the rounding of float32
HALF_BOX = np.float32(2.0**31 - 2.0**11)


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


def centre_differences(cj, ci, boxes):
    """Centres of the W j-clusters from ``cj`` on less that of ``ci``, box fractions * 2**32."""
    sx = to_float(load(boxes[3][0], cj, WIDTH) - boxes[0][0, ci])
    sy = to_float(load(boxes[3][1], cj, WIDTH) - boxes[0][1, ci])
    sz = to_float(load(boxes[3][2], cj, WIDTH) - boxes[0][2, ci])
    return sx, sy, sz


def near_boxes(cj, ci, boxes, lattice, radius2):
    """Bits of the W j-clusters from ``cj`` on whose bounding box is within the radius of that of ``ci``."""
    sx, sy, sz = centre_differences(cj, ci, boxes)
    i_half, j_half = boxes[2], boxes[5]
    dx = fma(sz, lattice[2, 0], fma(sy, lattice[1, 0], sx * lattice[0, 0]))
    dy = fma(sz, lattice[2, 1], sy * lattice[1, 1])
    dz = sz * lattice[2, 2]
    dx = maximum(absolute(dx) - (load(j_half[0], cj, WIDTH) + i_half[0, ci]), 0.0)
    dy = maximum(absolute(dy) - (load(j_half[1], cj, WIDTH) + i_half[1, ci]), 0.0)
    dz = maximum(absolute(dz) - (load(j_half[2], cj, WIDTH) + i_half[2, ci]), 0.0)
    return mask_to_bits(fma(dz, dz, fma(dy, dy, dx * dx)) < radius2)


def near_by_planes(cj, ci, boxes, widths, radius):
    """Bits of those whose atoms may have another nearest image than the centres, and are within the radius plane by plane."""
    sx, sy, sz = centre_differences(cj, ci, boxes)
    i_half, j_half = boxes[1], boxes[4]
    hx = load(j_half[0], cj, WIDTH) + i_half[0, ci]
    hy = load(j_half[1], cj, WIDTH) + i_half[1, ci]
    hz = load(j_half[2], cj, WIDTH) + i_half[2, ci]
    sx, sy, sz = absolute(sx), absolute(sy), absolute(sz)
    ambiguous = (sx + hx > HALF_BOX) | (sy + hy > HALF_BOX) | (sz + hz > HALF_BOX)
    near = ((sx - hx) * widths[0] < radius) & ((sy - hy) * widths[1] < radius) & ((sz - hz) * widths[2] < radius)
    return mask_to_bits(ambiguous & near)


def search_run(first, last, ci, boxes, metric, out, n_plain, n_masked, row):
    """Add the near ones of the j-clusters ``first`` to ``last`` to the row; returns the counts, which may exceed the space."""
    lattice, widths, triclinic, radius = metric
    plain, masked, masked_bits, plain_limit, masked_limit = out
    mark, mask_bits = row
    for cj in range(first, last, WIDTH):
        bits = near_boxes(cj, ci, boxes, lattice, radius * radius)
        if triclinic:
            bits |= near_by_planes(cj, ci, boxes, widths, radius)
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


def closest_any(ci, first, last, plain, coordinates, lattice, closest2):
    """Squared distance of the closest atom pair of each entry, each pair by its own nearest image."""
    for k in range(first, last):
        cj = np.int64(plain[k])
        d01 = minimum(distance2(0, ci, cj, coordinates, lattice), distance2(1, ci, cj, coordinates, lattice))
        d23 = minimum(distance2(2, ci, cj, coordinates, lattice), distance2(3, ci, cj, coordinates, lattice))
        closest2[k - first] = lowest(minimum(d01, d23))


def offset(a, ci, coordinates, lattice):
    """(-2 x, -2 y, -2 z, x^2 + y^2 + z^2) of atom ``a`` of ``ci`` relative to its atom 0, nm and nm^2."""
    i = ci * CLUSTER
    sx = np.float32(np.int32(coordinates[0, i + a] - coordinates[0, i]))
    sy = np.float32(np.int32(coordinates[1, i + a] - coordinates[1, i]))
    sz = np.float32(np.int32(coordinates[2, i + a] - coordinates[2, i]))
    x = sx * lattice[0, 0] + sy * lattice[1, 0] + sz * lattice[2, 0]
    y = sy * lattice[1, 1] + sz * lattice[2, 1]
    z = sz * lattice[2, 2]
    two = np.float32(-2.0)
    return (
        broadcast(two * x, WIDTH), broadcast(two * y, WIDTH), broadcast(two * z, WIDTH),
        broadcast(x * x + y * y + z * z, WIDTH),
    )  # fmt: skip


def closest_compact(ci, first, last, plain, coordinates, lattice, closest2):
    """The same by |x_j|^2 - 2 x_j x_i + |x_i|^2 relative to atom 0 of ``ci``: half the work.

    It needs the images that are nearest to atom 0 to be nearest to the other three, for every pair within the list radius.
    """
    i = ci * CLUSTER
    x1, y1, z1, n1 = offset(1, ci, coordinates, lattice)
    x2, y2, z2, n2 = offset(2, ci, coordinates, lattice)
    x3, y3, z3, n3 = offset(3, ci, coordinates, lattice)
    for k in range(first, last):
        j = np.int64(plain[k]) * WIDTH
        sx = to_float(load(coordinates[0], j, WIDTH) - coordinates[0, i])
        sy = to_float(load(coordinates[1], j, WIDTH) - coordinates[1, i])
        sz = to_float(load(coordinates[2], j, WIDTH) - coordinates[2, i])
        x = fma(sz, lattice[2, 0], fma(sy, lattice[1, 0], sx * lattice[0, 0]))
        y = fma(sz, lattice[2, 1], sy * lattice[1, 1])
        z = sz * lattice[2, 2]
        own = fma(z, z, fma(y, y, x * x))
        nearest = minimum(fma(x, x1, fma(y, y1, fma(z, z1, n1))), fma(x, x2, fma(y, y2, fma(z, z2, n2))))
        nearest = minimum(nearest, fma(x, x3, fma(y, y3, fma(z, z3, n3))))
        closest2[k - first] = lowest(own + minimum(nearest, 0.0))


def shells_of(n, closest2, cutoff, inverse_spacing, n_shells, shells):
    """Shell 0 is within the cutoff, then they are evenly spaced; ``n_shells`` and more means beyond the list radius."""
    for k in range(n):
        beyond = (np.sqrt(max(closest2[k], np.float32(0.0))) - cutoff) * inverse_spacing
        shells[k] = np.int32(max(np.float32(0.0), min(beyond + np.float32(1.0), np.float32(n_shells))))


def sort_plain(ci, coordinates, lattice, metric, first, last, plain, shell_end, scratch):
    """Order the plain entries of one row by shells; those beyond the last one are dropped (past the row's end)."""
    closest2, shells, copy = scratch
    compact, cutoff, inverse_spacing, _ = metric
    n_shells = shell_end.shape[1]
    if compact:
        closest_compact(ci, first, last, plain, coordinates, lattice, closest2)
    else:
        closest_any(ci, first, last, plain, coordinates, lattice, closest2)
    shells_of(last - first, closest2, cutoff, inverse_spacing, n_shells, shells)
    shell_end[ci, :] = 0
    for k in range(first, last):
        copy[k - first] = plain[k]
        if shells[k - first] < n_shells:
            shell_end[ci, shells[k - first]] += 1
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


def sort_chunk(first_row, last_row, coordinates, lattice, metric, rows, shell_end):
    """Rows ``first_row`` to ``last_row``."""
    plain_start, plain_end, plain, masked_start, masked_end, masked, masked_bits = rows
    longest = 0
    for ci in range(first_row, last_row):
        longest = max(longest, plain_end[ci] - plain_start[ci])
    scratch = (np.empty(longest, np.float32), np.empty(longest, np.int32), np.empty(longest, np.int32))
    for ci in range(first_row, last_row):
        sort_plain(ci, coordinates, lattice, metric, plain_start[ci], plain_end[ci], plain, shell_end, scratch)
        first, last = masked_start[ci], masked_end[ci]
        masked_end[ci] = prune_masked(ci, coordinates, lattice, metric[3], first, last, masked, masked_bits)


def sort_rows(n_threads, coordinates, lattice, metric, row_bounds, rows, shell_end):
    """Order the entries of each row by the distance of their closest atom pair, in shells.

    Parameters
    ----------
    coordinates : int32[3, n_slots]
    lattice : float32[3, 3], nm
    metric : (compact bool, cutoff float32 nm, 1 / spacing float32 1/nm, radius2 float32 nm^2)
        Shell 0 ends at the cutoff, shell k at cutoff + k * spacing, the last one at the list radius; what is beyond is dropped.
        ``compact``: list radius and the extents of a cluster add up to less than half the smallest width of the box.
    row_bounds : int64[T + 1], rows of each thread
    rows : as in ``search``, changed in place
    shell_end : int64[n_i, S] OUTPUT, where in the row each shell ends
    """
    for t in prange(n_threads):
        sort_chunk(row_bounds[t], row_bounds[t + 1], coordinates, lattice, metric, rows, shell_end)


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
    (centre_differences, simd.INLINE),
    (near_boxes, simd.INLINE),
    (near_by_planes, simd.INLINE),
    (search_run, simd.INTERNAL),
    (column_range, simd.INTERNAL),
    (search_row, simd.INTERNAL),
    (search_chunk, simd.INTERNAL),
    (search, {"parallel": True}),
    (distance2, simd.INLINE),
    (closest_any, simd.INTERNAL),
    (offset, simd.INLINE),
    (closest_compact, simd.INTERNAL),
    (shells_of, simd.INTERNAL),
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
