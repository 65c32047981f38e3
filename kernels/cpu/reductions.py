"""Sums over atoms that come out the same in any order, because they are sums of integers; and what is done with them."""

from math import sqrt

import numpy as np
from numba import njit, prange

from mdsim.kernels.fixed_point import KINETIC_SCALE, MOMENTUM_SCALE

#: one atom's contribution to a sum is clipped here (amu nm^2/ps^2, amu nm/ps)
_KINETIC_LIMIT = 2.0**36
_MOMENTUM_LIMIT = 2.0**28


@njit(cache=True, error_model="numpy")
def to_fixed(x, limit, scale):
    """round(x scale) as int64, |x| clipped to ``limit``; NaN gives the limit."""
    if x >= -limit and x <= limit:
        return np.int64(np.rint(x * scale))
    if x < -limit:
        return np.int64(-limit * scale)
    return np.int64(limit * scale)


@njit(parallel=True, cache=True, error_model="numpy")
def kinetic_and_momentum(velocities, masses, n_threads, sums):
    """Twice the kinetic energy and the momentum.

    Parameters
    ----------
    velocities : float64[n, 3], nm/ps
    masses : float64[n], amu
    sums : int64[n_threads, 4], OUTPUT: twice the kinetic energy (KINETIC_SCALE, kJ/mol), momentum (MOMENTUM_SCALE, amu nm/ps)
    """
    n = len(velocities)
    for t in prange(n_threads):
        twice_kinetic, px, py, pz = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            vx, vy, vz = velocities[i, 0], velocities[i, 1], velocities[i, 2]
            mass = masses[i]
            twice_kinetic += to_fixed(mass * ((vx * vx + vy * vy) + vz * vz), _KINETIC_LIMIT, KINETIC_SCALE)
            px += to_fixed(mass * vx, _MOMENTUM_LIMIT, MOMENTUM_SCALE)
            py += to_fixed(mass * vy, _MOMENTUM_LIMIT, MOMENTUM_SCALE)
            pz += to_fixed(mass * vz, _MOMENTUM_LIMIT, MOMENTUM_SCALE)
        sums[t, 0], sums[t, 1], sums[t, 2], sums[t, 3] = twice_kinetic, px, py, pz


@njit(parallel=True, cache=True, error_model="numpy")
def scale_and_shift(velocities, inverse_masses, factor, shift, n_threads):
    """v = factor v + shift for atoms with mass.

    Parameters
    ----------
    velocities : float64[n, 3], nm/ps, OUTPUT (updated)
    inverse_masses : float64[n], 1/amu
    factor : float64
    shift : float64[3], nm/ps
    """
    n = len(velocities)
    for t in prange(n_threads):
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            if inverse_masses[i] > 0.0:
                for k in range(3):
                    velocities[i, k] = factor * velocities[i, k] + shift[k]


@njit(parallel=True, cache=True, error_model="numpy")
def max_displacement(positions, reference, lattice, n_threads, longest):
    """Largest distance of an atom from where it was.

    Parameters
    ----------
    positions, reference : int32[n, 3], box fractions
    lattice : float64[3, 3], nm
    longest : float64[n_threads], nm, OUTPUT; the maximum over it does not depend on the threads
    """
    n = len(positions)
    for t in prange(n_threads):
        largest2 = 0.0
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            sx = np.float64(np.int32(positions[i, 0] - reference[i, 0]))
            sy = np.float64(np.int32(positions[i, 1] - reference[i, 1]))
            sz = np.float64(np.int32(positions[i, 2] - reference[i, 2]))
            dx = (sx * lattice[0, 0] + sy * lattice[1, 0]) + sz * lattice[2, 0]
            dy = sy * lattice[1, 1] + sz * lattice[2, 1]
            dz = sz * lattice[2, 2]
            largest2 = max(largest2, (dx * dx + dy * dy) + dz * dz)
        longest[t] = sqrt(largest2)
