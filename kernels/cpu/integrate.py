"""Velocities by forces, positions by velocities, noise: the letters V, R and O of the integrators.

All run over the ``n`` local atoms. An atom with inverse mass 0 (frozen, or a virtual site) is left alone. Displacements ``dx`` are
float64 nm relative to the positions at the start of the step; positions change once a step, in ``move``.
"""

from math import sqrt

import numpy as np
from numba import njit, prange

from mdsim.kernels.cpu.philox import STREAM_INITIAL_VELOCITIES, STREAM_LANGEVIN, normal3
from mdsim.kernels.fixed_point import FLAG_DISPLACEMENT, FLAG_NOT_FINITE, FORCE_SCALE, FRACTION_SCALE

_HALF_BOX = FRACTION_SCALE / 2.0
#: atoms whose random numbers are drawn in one go
_BLOCK = 256


@njit(cache=True, error_model="numpy")
def draw_normals(seed, step, ids, stream, gx, gy, gz):
    """Three normals for each of ``ids``, into three arrays: this loop, and only such a loop, vectorises (10 ns an atom, not 60)."""
    for i in range(len(ids)):
        gx[i], gy[i], gz[i] = normal3(seed, step, ids[i], stream)


@njit(parallel=True, cache=True, error_model="numpy")
def kick(velocities, forces, inverse_masses, dt, n_threads):
    """V: v += dt f / m.

    Parameters
    ----------
    velocities : float64[n, 3], nm/ps, OUTPUT (added)
    forces : int64[>= n, 3], FORCE_SCALE, total force
    inverse_masses : float64[n], 1/amu
    dt : float64, ps
    """
    n = len(velocities)
    for t in prange(n_threads):
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            scale = dt * inverse_masses[i] / FORCE_SCALE
            for k in range(3):
                velocities[i, k] += scale * np.float64(forces[i, k])


@njit(parallel=True, cache=True, error_model="numpy")
def drift(velocities, inverse_masses, dt, dx, unconstrained, n_threads):
    """R: dx = dt v.

    Parameters
    ----------
    velocities : float64[n, 3], nm/ps
    inverse_masses : float64[n], 1/amu
    dt : float64, ps
    dx, unconstrained : float64[n, 3], nm, OUTPUT; the same numbers twice, the first for constraints to act on
    """
    n = len(velocities)
    for t in prange(n_threads):
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            step = dt if inverse_masses[i] > 0.0 else 0.0
            for k in range(3):
                dx[i, k] = step * velocities[i, k]
                unconstrained[i, k] = dx[i, k]


@njit(parallel=True, cache=True, error_model="numpy")
def drift_noise_drift(
    velocities, inverse_masses, ids, seed, step, dt, decay, noise, dx, unconstrained, n_threads
):
    """R O R: half a drift, the Ornstein-Uhlenbeck step v = decay v + noise g / sqrt(m), half a drift.

    The middle of the scheme of Zhang, Liu, Yan, Tuckerman & Liu, J. Phys. Chem. A 123, 6056 (2019), "LFMiddle".

    Parameters
    ----------
    velocities : float64[n, 3], nm/ps, OUTPUT (updated)
    inverse_masses : float64[n], 1/amu
    ids : int32[>= n], global atom ids
    seed, step : int64, keys of the random numbers
    dt : float64, ps
    decay : float64, exp(-friction dt)
    noise : float64, sqrt(kT (1 - decay^2)), (kJ/mol)^1/2
    dx, unconstrained : float64[n, 3], nm, OUTPUT; as in ``drift``
    """
    n = len(velocities)
    half = 0.5 * dt
    for t in prange(n_threads):
        gauss = np.zeros((3, _BLOCK))
        last = n * (t + 1) // n_threads
        for first in range(n * t // n_threads, last, _BLOCK):
            end = min(first + _BLOCK, last)
            if noise != 0.0:
                draw_normals(seed, step, ids[first:end], STREAM_LANGEVIN, gauss[0], gauss[1], gauss[2])
            for i in range(first, end):
                width = noise * sqrt(inverse_masses[i])
                drift, keep = (half, decay) if inverse_masses[i] > 0.0 else (0.0, 1.0)
                for k in range(3):
                    old = velocities[i, k]
                    new = keep * old + width * gauss[k, i - first]
                    velocities[i, k] = new
                    dx[i, k] = drift * old + drift * new
                    unconstrained[i, k] = dx[i, k]


@njit(cache=True, error_model="numpy")
def advance(positions, images, i, dx, dy, dz, inverse):
    """Move atom ``i`` by (dx, dy, dz) nm on the fixed-point lattice, counting boundary crossings; returns a flag."""
    sx = ((dx * inverse[0, 0] + dy * inverse[1, 0]) + dz * inverse[2, 0]) * FRACTION_SCALE
    sy = (dy * inverse[1, 1] + dz * inverse[2, 1]) * FRACTION_SCALE
    sz = (dz * inverse[2, 2]) * FRACTION_SCALE
    if not (abs(sx) < _HALF_BOX and abs(sy) < _HALF_BOX and abs(sz) < _HALF_BOX):
        finite = np.isfinite(sx) and np.isfinite(sy) and np.isfinite(sz)
        return np.int32(FLAG_DISPLACEMENT if finite else FLAG_NOT_FINITE)
    shift(positions, images, i, 0, np.int64(np.rint(sx)))
    shift(positions, images, i, 1, np.int64(np.rint(sy)))
    shift(positions, images, i, 2, np.int64(np.rint(sz)))
    return np.int32(0)


@njit(cache=True, error_model="numpy")
def shift(positions, images, i, k, delta):
    """Add ``delta`` (int64) to one unwrapped coordinate: the low 32 bits stay in ``positions``, the rest in ``images``."""
    unwrapped = np.int64(positions[i, k]) + delta
    wrapped = np.int32(unwrapped)
    positions[i, k] = wrapped
    images[i, k] += np.int32((unwrapped - np.int64(wrapped)) >> 32)


@njit(parallel=True, cache=True, error_model="numpy")
def move(positions, images, velocities, dx, unconstrained, inverse_dt, inverse, n_threads, flags):
    """End of a step: v += (dx - unconstrained) / dt, and positions take up dx.

    Parameters
    ----------
    positions : int32[>= n, 3], box fractions, OUTPUT (updated)
    images : int32[n, 3], OUTPUT (updated)
    velocities : float64[n, 3], nm/ps, OUTPUT (updated)
    dx : float64[n, 3], nm, displacements that obey the constraints
    unconstrained : float64[n, 3], nm, displacements before the constraints were applied
    inverse_dt : float64, 1/ps; 0 leaves the velocities alone
    inverse : float64[3, 3], inverse box matrix, 1/nm
    flags : int32[n_threads], OUTPUT (or-ed); an atom that would move half a box or to NaN is flagged and stays
    """
    n = len(velocities)
    for t in prange(n_threads):
        flag = np.int32(0)
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            for k in range(3):
                velocities[i, k] += (dx[i, k] - unconstrained[i, k]) * inverse_dt
            flag |= advance(positions, images, i, dx[i, 0], dx[i, 1], dx[i, 2], inverse)
        flags[t] |= flag


@njit(parallel=True, cache=True, error_model="numpy")
def maxwell_boltzmann(velocities, inverse_masses, ids, seed, kT, n_threads):
    """Velocities drawn from the Maxwell-Boltzmann distribution; atoms without mass get 0.

    Parameters
    ----------
    velocities : float64[n, 3], nm/ps, OUTPUT
    inverse_masses : float64[n], 1/amu
    ids : int32[>= n], global atom ids
    seed : int64
    kT : float64, kJ/mol
    """
    n = len(velocities)
    for t in prange(n_threads):
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            width = sqrt(kT * inverse_masses[i])
            gx, gy, gz = normal3(seed, 0, ids[i], STREAM_INITIAL_VELOCITIES)
            velocities[i, 0] = width * gx
            velocities[i, 1] = width * gy
            velocities[i, 2] = width * gz
