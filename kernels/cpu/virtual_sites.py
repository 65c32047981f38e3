"""Massless sites placed from up to three parents, and their forces handed to the parents (definitions: ``VirtualSiteTable``).

Sites are sorted into ``clusters``: sites of different clusters share no parent, and threads take whole clusters.
"""

from math import sqrt

import numpy as np
from numba import njit, prange

from mdsim.kernels.cpu.fixed import displacement
from mdsim.kernels.cpu.integrate import advance
from mdsim.kernels.fixed_point import FLAG_NOT_FINITE

AVERAGE, OUT_OF_PLANE, LOCAL_COORDINATES = 0, 1, 2
#: a total force component beyond this (FORCE_SCALE units, 2**30 kJ/mol/nm) is not finite for all purposes
_FORCE_CEILING = 2.0**62


@njit(cache=True, error_model="numpy")
def cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@njit(cache=True, error_model="numpy")
def dot(a, b):
    return (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]


@njit(cache=True, error_model="numpy")
def combine(ca, a, cb, b):
    """ca a + cb b."""
    return ca * a[0] + cb * b[0], ca * a[1] + cb * b[1], ca * a[2] + cb * b[2]


@njit(cache=True, error_model="numpy")
def local_frame(d1, d2, x_weights, y_weights):
    """The axes of a local-coordinates site and what they were made from.

    ``d1``, ``d2``: parents 1 and 2 from parent 0 (nm). Returns unit vectors ex, ey, ez, and X, Y (nm), |X|, |X x Y|.
    """
    x = combine(x_weights[1], d1, x_weights[2], d2)
    y = combine(y_weights[1], d1, y_weights[2], d2)
    z = cross(x, y)
    length_x, length_z = sqrt(dot(x, x)), sqrt(dot(z, z))
    ex = (x[0] / length_x, x[1] / length_x, x[2] / length_x)
    ez = (z[0] / length_z, z[1] / length_z, z[2] / length_z)
    return ex, cross(ez, ex), ez, x, y, length_x, length_z


@njit(cache=True, error_model="numpy")
def site_offset(kind, d1, d2, weights, origin_weights, x_weights, y_weights, local):
    """Site from parent 0, nm."""
    if kind == AVERAGE:
        return combine(weights[1], d1, weights[2], d2)
    if kind == OUT_OF_PLANE:
        in_plane = combine(weights[0], d1, weights[1], d2)
        return combine(1.0, in_plane, weights[2], cross(d1, d2))
    ex, ey, ez, _, _, _, _ = local_frame(d1, d2, x_weights, y_weights)
    origin = combine(origin_weights[1], d1, origin_weights[2], d2)
    along_xy = combine(local[0], ex, local[1], ey)
    return combine(1.0, origin, 1.0, combine(1.0, along_xy, local[2], ez))


@njit(cache=True, error_model="numpy")
def parent_forces(kind, f, d1, d2, weights, origin_weights, x_weights, y_weights, local):
    """Forces on parents 1 and 2 for a force ``f`` on the site: f times the derivative of its position by theirs."""
    if kind == AVERAGE:
        return combine(weights[1], f, 0.0, f), combine(weights[2], f, 0.0, f)
    if kind == OUT_OF_PLANE:
        return (
            combine(weights[0], f, weights[2], cross(d2, f)),
            combine(weights[1], f, weights[2], cross(f, d1)),
        )
    # f.dx = f.do + gx.dex + gz.dez, for ey = ez x ex; then dex by dX, and dez by d(X x Y)
    ex, _, ez, x, y, length_x, length_z = local_frame(d1, d2, x_weights, y_weights)
    gx = combine(local[0], f, local[1], cross(f, ez))
    gz = combine(local[2], f, local[1], cross(ex, f))
    on_x = combine(1.0 / length_x, gx, -dot(ex, gx) / length_x, ex)
    on_z = combine(1.0 / length_z, gz, -dot(ez, gz) / length_z, ez)
    on_x = combine(1.0, on_x, 1.0, cross(y, on_z))
    on_y = cross(on_z, x)
    return (
        combine(1.0, combine(origin_weights[1], f, x_weights[1], on_x), y_weights[1], on_y),
        combine(1.0, combine(origin_weights[2], f, x_weights[2], on_x), y_weights[2], on_y),
    )


@njit(parallel=True, cache=True, error_model="numpy")
def place_sites(
    positions, images, lattice, inverse, sites, kind, parents, weights, origin_weights, x_weights, y_weights, local,
    n_threads, flags,
):  # fmt: skip
    """Put each site where its parents want it, in the image of parent 0.

    Parameters
    ----------
    positions : int32[>= n, 3], box fractions, OUTPUT (of the sites)
    images : int32[n, 3], OUTPUT (of the sites)
    lattice, inverse : float64[3, 3], nm and 1/nm
    sites, kind : int32[m]
    parents : int32[m, 3]
    weights, origin_weights, x_weights, y_weights : float64[m, 3]
    local : float64[m, 3], nm
    flags : int32[n_threads], OUTPUT (or-ed)
    """
    m = len(sites)
    for t in prange(n_threads):
        flag = np.int32(0)
        for v in range(m * t // n_threads, m * (t + 1) // n_threads):
            p0 = parents[v, 0]
            d1 = displacement(positions, lattice, parents[v, 1], p0)
            d2 = displacement(positions, lattice, parents[v, 2], p0)
            d = site_offset(kind[v], d1, d2, weights[v], origin_weights[v], x_weights[v], y_weights[v], local[v])
            for k in range(3):
                positions[sites[v], k] = positions[p0, k]
                images[sites[v], k] = images[p0, k]
            flag |= advance(positions, images, sites[v], d[0], d[1], d[2], inverse)
        flags[t] |= flag


@njit(parallel=True, cache=True, error_model="numpy")
def spread_forces(
    positions, lattice, sites, kind, parents, weights, origin_weights, x_weights, y_weights, local, cluster_start,
    n_threads, forces, flags,
):  # fmt: skip
    """Hand the force on each site to its parents; the integer sum stays exactly what it was.

    Parameters
    ----------
    positions : int32[n, 3], box fractions
    lattice : float64[3, 3], nm
    sites, ..., local : as ``place_sites``
    cluster_start : int32[c + 1], sites of cluster c are cluster_start[c] .. cluster_start[c + 1]
    forces : int64[n, 3], FORCE_SCALE, OUTPUT (updated; 0 on the sites)
    flags : int32[n_threads], OUTPUT (or-ed)
    """
    n_clusters = len(cluster_start) - 1
    for t in prange(n_threads):
        flag = np.int32(0)
        first = cluster_start[n_clusters * t // n_threads]
        last = cluster_start[n_clusters * (t + 1) // n_threads]
        for v in range(first, last):
            s, p0, p1, p2 = sites[v], parents[v, 0], parents[v, 1], parents[v, 2]
            d1 = displacement(positions, lattice, p1, p0)
            d2 = displacement(positions, lattice, p2, p0)
            f = (np.float64(forces[s, 0]), np.float64(forces[s, 1]), np.float64(forces[s, 2]))
            f1, f2 = parent_forces(
                kind[v], f, d1, d2, weights[v], origin_weights[v], x_weights[v], y_weights[v], local[v]
            )
            for k in range(3):
                if not (abs(f1[k]) < _FORCE_CEILING and abs(f2[k]) < _FORCE_CEILING):
                    flag |= np.int32(FLAG_NOT_FINITE)
                    continue
                on_1, on_2 = np.int64(np.rint(f1[k])), np.int64(np.rint(f2[k]))
                forces[p1, k] += on_1
                forces[p2, k] += on_2
                forces[p0, k] += forces[s, k] - on_1 - on_2
                forces[s, k] = 0
        flags[t] |= flag
