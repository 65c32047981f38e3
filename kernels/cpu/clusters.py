"""Atoms to clusters: a grid of columns in x and y, each sorted along z and cut into clusters of 4 (DESIGN.md section 5).

Pall & Hess, Comput. Phys. Commun. 184, 2641 (2013), section 3. All of it works on box fractions, so that a triclinic box is no
special case: ``u = position - origin`` as uint32 runs from 0 to 2**32 over the box along each axis.

A *slot* is a place of an atom in the cluster order. An i-cluster is 4 consecutive slots, a j-cluster W consecutive slots. A column
is filled up to a multiple of W with padding slots, which carry the position of the column's last atom and no parameters.
"""

import numpy as np
from numba import njit, prange

#: atoms of an i-cluster
CLUSTER = 4


@njit(cache=True, error_model="numpy", inline="never")
def _column_of(position, origin, extent, n_columns):
    """Index along one axis of the column that holds the position. ``extent`` is the largest u + 1, at most 2**32."""
    u = np.uint64(np.uint32(position - origin))
    return np.int64(u * np.uint64(n_columns) // np.uint64(extent))


@njit(cache=True, error_model="numpy")
def count_columns(positions, origin, extent, n_x, n_y, alignment, column_of_atom, rank_in_column, column_start):
    """Sort atoms into columns by counting.

    Parameters
    ----------
    positions : int32[n, 3], box fractions
    origin : int32[3], where u = 0
    extent : int64[3], range of u that atoms are in
    n_x, n_y : int
        Columns along x and y; column number = x index * n_y + y index.
    alignment : int
        Columns hold a multiple of this number of slots.
    column_of_atom, rank_in_column : int32[n] OUTPUT
    column_start : int32[n_x * n_y + 1] OUTPUT, first slot of each column
    """
    column_start[:] = 0
    for i in range(positions.shape[0]):
        x = _column_of(positions[i, 0], origin[0], extent[0], n_x)
        y = _column_of(positions[i, 1], origin[1], extent[1], n_y)
        column = x * n_y + y
        column_of_atom[i] = column
        rank_in_column[i] = column_start[column + 1]
        column_start[column + 1] += 1
    for column in range(n_x * n_y):
        slots = (column_start[column + 1] + alignment - 1) // alignment * alignment
        column_start[column + 1] = column_start[column] + slots


@njit(cache=True, error_model="numpy")
def _sort_keys(keys):
    """Shell sort in place; the keys are distinct, so the order is the only one."""
    gap = 1
    while gap < len(keys) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, len(keys)):
            key, j = keys[i], i
            while j >= gap and keys[j - gap] > key:
                keys[j] = keys[j - gap]
                j -= gap
            keys[j] = key
        gap //= 3


@njit(cache=True, error_model="numpy")
def fill_columns(positions, origin, column_of_atom, rank_in_column, column_start, keys):
    """Put (z, atom) of every atom into its column.

    ``keys`` uint64[n_slots] OUTPUT: u_z in the upper 32 bits, the atom in the lower; all ones in padding slots, which therefore
    sort to the end of the column.
    """
    keys[:] = np.uint64(0xFFFFFFFFFFFFFFFF)
    for i in range(positions.shape[0]):
        z = np.uint64(np.uint32(positions[i, 2] - origin[2]))
        keys[column_start[column_of_atom[i]] + rank_in_column[i]] = (z << np.uint64(32)) | np.uint64(i)


@njit(cache=True, error_model="numpy")
def _lj_first(slot_atom, first, has_lj):
    """Within one i-cluster put the atoms with Lennard-Jones parameters first (order kept); return how many they are."""
    n_lj = 0
    for a in range(first, first + CLUSTER):
        atom = slot_atom[a]
        if atom >= 0 and has_lj[atom]:
            for b in range(a, first + n_lj, -1):
                slot_atom[b] = slot_atom[b - 1]
            slot_atom[first + n_lj] = atom
            n_lj += 1
    return n_lj


@njit(cache=True, error_model="numpy")
def _arrange_column(first, last, keys, has_lj, slot_atom, slot_source, slot_of_atom, n_lj):
    """Slots of one column out of its sorted keys."""
    _sort_keys(keys[first:last])
    for slot in range(first, last):
        padding = keys[slot] == np.uint64(0xFFFFFFFFFFFFFFFF)
        slot_atom[slot] = -1 if padding else np.int32(keys[slot] & np.uint64(0xFFFFFFFF))
    for cluster in range(first // CLUSTER, last // CLUSTER):
        n_lj[cluster] = _lj_first(slot_atom, cluster * CLUSTER, has_lj)
    source = slot_atom[first]
    for slot in range(first, last):
        if slot_atom[slot] >= 0:
            source = slot_atom[slot]
            slot_of_atom[source] = slot
        slot_source[slot] = source


@njit(parallel=True, cache=True, error_model="numpy")
def arrange_slots(column_start, has_lj, n_threads, keys, slot_atom, slot_source, slot_of_atom, n_lj):
    """Sort every column along z and number the slots.

    Parameters
    ----------
    column_start : int32[n_columns + 1]
    has_lj : bool[n]
    keys : uint64[n_slots], from ``fill_columns``; sorted here
    slot_atom : int32[n_slots] OUTPUT, -1 for padding
    slot_source : int32[n_slots] OUTPUT, the atom whose position the slot takes
    slot_of_atom : int32[n] OUTPUT
    n_lj : int32[n_slots / 4] OUTPUT, atoms with Lennard-Jones in each i-cluster; they come first in it
    """
    n_columns = len(column_start) - 1
    for t in prange(n_threads):
        for column in range(n_columns * t // n_threads, n_columns * (t + 1) // n_threads):
            first, last = column_start[column], column_start[column + 1]
            if last > first:
                _arrange_column(first, last, keys, has_lj, slot_atom, slot_source, slot_of_atom, n_lj)


@njit(cache=True, error_model="numpy")
def _gather_cluster(cluster, positions, slot_source, lattice, reference, coordinates):
    """Positions of the 4 slots of a cluster and their largest squared displacement from the reference, nm^2."""
    largest = 0.0
    for slot in range(cluster * CLUSTER, (cluster + 1) * CLUSTER):
        atom = slot_source[slot]
        sx, sy, sz = positions[atom, 0], positions[atom, 1], positions[atom, 2]
        coordinates[0, slot], coordinates[1, slot], coordinates[2, slot] = sx, sy, sz
        ux = np.float64(np.int32(sx - reference[0, slot]))
        uy = np.float64(np.int32(sy - reference[1, slot]))
        uz = np.float64(np.int32(sz - reference[2, slot]))
        dx = (ux * lattice[0, 0] + uy * lattice[1, 0]) + uz * lattice[2, 0]
        dy = uy * lattice[1, 1] + uz * lattice[2, 1]
        dz = uz * lattice[2, 2]
        largest = max(largest, dx * dx + dy * dy + dz * dz)
    return largest


@njit(parallel=True, cache=True, error_model="numpy")
def gather_slots(positions, slot_source, lattice, reference, n_threads, coordinates, displacement2, largest2):
    """Positions in cluster order, and how far atoms have moved since the list was made.

    Parameters
    ----------
    positions : int32[n, 3]
    slot_source : int32[n_slots]
    lattice : float64[3, 3], nm; of the present box
    reference : int32[3, n_slots], positions when the list was made
    coordinates : int32[3, n_slots] OUTPUT
    displacement2 : float64[n_slots / 4] OUTPUT, the largest squared displacement in each i-cluster, nm^2
    largest2 : float64[T] OUTPUT, the largest of each thread
    """
    n_clusters = len(slot_source) // CLUSTER
    for t in prange(n_threads):
        largest = 0.0
        for cluster in range(n_clusters * t // n_threads, n_clusters * (t + 1) // n_threads):
            d2 = _gather_cluster(cluster, positions, slot_source, lattice, reference, coordinates)
            displacement2[cluster] = d2
            largest = max(largest, d2)
        largest2[t] = largest


@njit(cache=True, error_model="numpy")
def bounding_boxes(coordinates, size, origin, lattice, centre, half_fraction, half_cartesian):
    """Box around each cluster of ``size`` slots.

    Parameters
    ----------
    coordinates : int32[3, n_slots]
    origin : int32[3], where the columns begin: a cluster does not wrap around it
    lattice : float64[3, 3], nm
    centre : int32[3, n_slots / size] OUTPUT, box fractions
    half_fraction : float32[3, n_slots / size] OUTPUT, half the extent along each axis in box fractions * 2**32, rounded up
    half_cartesian : float32[3, n_slots / size] OUTPUT, largest |x|, |y|, |z| of an atom from the centre, nm, rounded up
    """
    for cluster in range(coordinates.shape[1] // size):
        first = cluster * size
        for k in range(3):
            low, high = np.uint32(0xFFFFFFFF), np.uint32(0)
            for slot in range(first, first + size):
                u = np.uint32(coordinates[k, slot] - origin[k])
                low, high = min(low, u), max(high, u)
            middle = np.uint32(low + (high - low) // np.uint32(2))
            centre[k, cluster] = np.int32(np.uint32(middle + np.uint32(origin[k])))
            half_fraction[k, cluster] = np.float32(np.float64(high - middle) * 1.000001 + 1.0)
        hx, hy, hz = 0.0, 0.0, 0.0
        for slot in range(first, first + size):
            ux = np.float64(np.int32(coordinates[0, slot] - centre[0, cluster]))
            uy = np.float64(np.int32(coordinates[1, slot] - centre[1, cluster]))
            uz = np.float64(np.int32(coordinates[2, slot] - centre[2, cluster]))
            hx = max(hx, abs((ux * lattice[0, 0] + uy * lattice[1, 0]) + uz * lattice[2, 0]))
            hy = max(hy, abs(uy * lattice[1, 1] + uz * lattice[2, 1]))
            hz = max(hz, abs(uz * lattice[2, 2]))
        half_cartesian[0, cluster] = np.float32(hx * 1.000001)
        half_cartesian[1, cluster] = np.float32(hy * 1.000001)
        half_cartesian[2, cluster] = np.float32(hz * 1.000001)
