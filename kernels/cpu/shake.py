"""Distance constraints by iteration within small groups: SHAKE and RATTLE.

SHAKE: Ryckaert, Ciccotti & Berendsen, J. Comput. Phys. 23, 327 (1977). RATTLE: Andersen, J. Comput. Phys. 52, 24 (1983).
Group ``g`` holds the constraints group_start[g] .. group_start[g + 1]; groups share no atom, so threads take whole groups, and each
group iterates until it has converged, whatever the others do. The constraints of a group may be any graph, redundant ones too.
"""

from math import sqrt

import numpy as np
from numba import njit, prange

from mdsim.kernels.cpu.fixed import displacement
from mdsim.kernels.fixed_point import FLAG_CONSTRAINT

#: sweeps over a group before it is given up; a methyl group needs some ten
MAX_SWEEPS = 1000
#: smallest cosine between a bond before and after the step for which SHAKE can act
MIN_COSINE = 1e-3


@njit(cache=True, error_model="numpy")
def shake_sweep(first, last, atoms, distance, inverse_masses, tolerance, old, dx):
    """One pass over constraints first .. last: (number not met within the tolerance, whether all can be acted on)."""
    violated = 0
    for c in range(first, last):
        i, j = atoms[c, 0], atoms[c, 1]
        ox, oy, oz = old[c, 0], old[c, 1], old[c, 2]
        rx = ox + (dx[i, 0] - dx[j, 0])
        ry = oy + (dx[i, 1] - dx[j, 1])
        rz = oz + (dx[i, 2] - dx[j, 2])
        d2 = distance[c] * distance[c]
        excess = ((rx * rx + ry * ry) + rz * rz) - d2
        if abs(excess) <= 2.0 * tolerance * d2:
            continue
        violated += 1
        projection = (rx * ox + ry * oy) + rz * oz
        if not projection > MIN_COSINE * d2:
            return violated, False
        g = excess / (2.0 * (inverse_masses[i] + inverse_masses[j]) * projection)
        gi, gj = g * inverse_masses[i], g * inverse_masses[j]
        dx[i, 0] -= gi * ox
        dx[i, 1] -= gi * oy
        dx[i, 2] -= gi * oz
        dx[j, 0] += gj * ox
        dx[j, 1] += gj * oy
        dx[j, 2] += gj * oz
    return violated, True


@njit(parallel=True, cache=True, error_model="numpy")
def shake_displacements(
    positions, lattice, atoms, distance, group_start, inverse_masses, tolerance, dx, old, n_threads, flags
):
    """Change displacements so that all distances come out right, by impulses along the old bonds.

    Parameters
    ----------
    positions : int32[n, 3], box fractions at the start of the step
    lattice : float64[3, 3], nm
    atoms : int32[m, 2]
    distance : float64[m], nm
    group_start : int32[g + 1]
    inverse_masses : float64[n], 1/amu
    tolerance : float64, relative error of a distance
    dx : float64[n, 3], nm, OUTPUT (updated): displacements from ``positions``
    old : float64[m, 3], nm, OUTPUT (scratch): bonds at the start of the step
    flags : int32[n_threads], OUTPUT (or-ed)
    """
    n_groups = len(group_start) - 1
    for t in prange(n_threads):
        flag = np.int32(0)
        for g in range(n_groups * t // n_threads, n_groups * (t + 1) // n_threads):
            first, last = group_start[g], group_start[g + 1]
            for c in range(first, last):
                old[c, 0], old[c, 1], old[c, 2] = displacement(positions, lattice, atoms[c, 0], atoms[c, 1])
            violated, possible, sweep = 1, True, 0
            while violated > 0 and possible and sweep < MAX_SWEEPS:
                violated, possible = shake_sweep(
                    first, last, atoms, distance, inverse_masses, tolerance, old, dx
                )
                sweep += 1
            if violated > 0:
                flag |= np.int32(FLAG_CONSTRAINT)
        flags[t] |= flag


@njit(cache=True, error_model="numpy")
def rattle_sweep(first, last, atoms, distance, inverse_masses, tolerance, bonds, velocities):
    """One pass over constraints first .. last: number whose velocity along the bond exceeds the tolerance."""
    violated = 0
    for c in range(first, last):
        i, j = atoms[c, 0], atoms[c, 1]
        bx, by, bz = bonds[c, 0], bonds[c, 1], bonds[c, 2]
        vx = velocities[i, 0] - velocities[j, 0]
        vy = velocities[i, 1] - velocities[j, 1]
        vz = velocities[i, 2] - velocities[j, 2]
        along = (bx * vx + by * vy) + bz * vz
        speed = sqrt((vx * vx + vy * vy) + vz * vz)
        if abs(along) <= tolerance * distance[c] * (1.0 + speed):
            continue
        violated += 1
        g = along / ((inverse_masses[i] + inverse_masses[j]) * ((bx * bx + by * by) + bz * bz))
        gi, gj = g * inverse_masses[i], g * inverse_masses[j]
        velocities[i, 0] -= gi * bx
        velocities[i, 1] -= gi * by
        velocities[i, 2] -= gi * bz
        velocities[j, 0] += gj * bx
        velocities[j, 1] += gj * by
        velocities[j, 2] += gj * bz
    return violated


@njit(parallel=True, cache=True, error_model="numpy")
def rattle_velocities(
    positions, lattice, atoms, distance, group_start, inverse_masses, tolerance, velocities, bonds, n_threads, flags
):
    """Take out the velocities along the bonds, by impulses along them.

    Parameters
    ----------
    As ``shake_displacements``, and
    tolerance : float64; a velocity along a bond may be ``tolerance`` (1 nm/ps + relative speed of its atoms)
    velocities : float64[n, 3], nm/ps, OUTPUT (updated)
    bonds : float64[m, 3], nm, OUTPUT (scratch)
    """
    n_groups = len(group_start) - 1
    for t in prange(n_threads):
        flag = np.int32(0)
        for g in range(n_groups * t // n_threads, n_groups * (t + 1) // n_threads):
            first, last = group_start[g], group_start[g + 1]
            for c in range(first, last):
                bonds[c, 0], bonds[c, 1], bonds[c, 2] = displacement(positions, lattice, atoms[c, 0], atoms[c, 1])
            violated, sweep = 1, 0
            while violated > 0 and sweep < MAX_SWEEPS:
                violated = rattle_sweep(
                    first, last, atoms, distance, inverse_masses, tolerance, bonds, velocities
                )
                sweep += 1
            if violated > 0:
                flag |= np.int32(FLAG_CONSTRAINT)
        flags[t] |= flag
