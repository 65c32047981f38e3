"""FIRE 2.0, the pieces that run over atoms: Guenole et al., Comput. Mater. Sci. 175, 109584 (2020), section 2.

All atoms that may move count the same (mass 1 amu). Sums over atoms are integers in two limbs, so that they have the range of
floating point and do not depend on the order of the atoms.
"""

from math import sqrt

import numpy as np
from numba import njit, prange

from mdsim.kernels.fixed_point import DESCENT_VELOCITY_SCALE, FORCE_SCALE, LIMB

_LARGEST = 2.0**60


@njit(cache=True, error_model="numpy")
def split(x):
    """The two limbs of a contribution ``x``, int64 each; |x| is clipped to 2**60."""
    x = min(max(x, -_LARGEST), _LARGEST)
    high = np.rint(x / LIMB)
    return np.int64(high), np.int64(np.rint((x - high * LIMB) * LIMB))


@njit(parallel=True, cache=True, error_model="numpy")
def forces_as_float(forces, movable, out, n_threads):
    """Forces as floating-point numbers, 0 on atoms that may not move.

    Parameters
    ----------
    forces : int64[>= n, 3], FORCE_SCALE
    movable : float64[n], 1 or 0
    out : float64[n, 3], kJ/mol/nm, OUTPUT
    """
    n = len(movable)
    for t in prange(n_threads):
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            for k in range(3):
                out[i, k] = movable[i] * (np.float64(forces[i, k]) / FORCE_SCALE)


@njit(parallel=True, cache=True, error_model="numpy")
def dot_products(forces, velocities, n_threads, sums):
    """F.F, F.v and v.v over all atoms.

    Parameters
    ----------
    forces : float64[n, 3], kJ/mol/nm
    velocities : float64[n, 3], nm/ps
    sums : int64[n_threads, 3, 2], OUTPUT: two limbs each of F.F, DESCENT_VELOCITY_SCALE F.v and DESCENT_VELOCITY_SCALE^2 v.v
    """
    n = len(forces)
    for t in prange(n_threads):
        sums[t] = 0
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            fx, fy, fz = forces[i, 0], forces[i, 1], forces[i, 2]
            vx = velocities[i, 0] * DESCENT_VELOCITY_SCALE
            vy = velocities[i, 1] * DESCENT_VELOCITY_SCALE
            vz = velocities[i, 2] * DESCENT_VELOCITY_SCALE
            products = ((fx * fx + fy * fy) + fz * fz, (fx * vx + fy * vy) + fz * vz, (vx * vx + vy * vy) + vz * vz)
            for p in range(3):
                high, low = split(products[p])
                sums[t, p, 0] += high
                sums[t, p, 1] += low


@njit(parallel=True, cache=True, error_model="numpy")
def downhill_step(forces, velocities, dt, keep, pull, back, max_step, dx, unconstrained, n_threads):
    """v = keep v + pull F, dx = dt v, each atom's step at most ``max_step``; or back uphill and on from rest.

    Parameters
    ----------
    forces : float64[n, 3], kJ/mol/nm
    velocities : float64[n, 3], nm/ps, OUTPUT (updated)
    dt : float64, ps
    keep : float64
    pull : float64, nm/ps per kJ/mol/nm
    back : float64, ps; the displacement starts with -back v
    max_step : float64, nm
    dx, unconstrained : float64[n, 3], nm, OUTPUT
    """
    n = len(forces)
    for t in prange(n_threads):
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            length2 = 0.0
            for k in range(3):
                old = velocities[i, k]
                velocities[i, k] = keep * old + pull * forces[i, k]
                dx[i, k] = dt * velocities[i, k] - back * old
                length2 += dx[i, k] * dx[i, k]
            if length2 > max_step * max_step:
                shrink = max_step / sqrt(length2)
                for k in range(3):
                    dx[i, k] *= shrink
                    velocities[i, k] *= shrink
            for k in range(3):
                unconstrained[i, k] = dx[i, k]
