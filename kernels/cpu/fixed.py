"""Float to fixed point, with clipping that is flagged and NaN that is caught (DESIGN.md section 2: saturate, never wrap)."""

import numpy as np
from numba import njit

from mdsim.kernels.fixed_point import (
    ENERGY_LIMIT,
    ENERGY_SCALE,
    FLAG_FORCE_CLIPPED,
    FLAG_NOT_FINITE,
    FORCE_LIMIT,
    FORCE_SCALE,
)


@njit(cache=True, error_model="numpy")
def to_fixed_force(f):
    """Force component, kJ/mol/nm, to (int64 in FORCE_SCALE units, flag). NaN becomes 0 and FLAG_NOT_FINITE."""
    if f >= -FORCE_LIMIT and f <= FORCE_LIMIT:
        return np.int64(np.rint(f * FORCE_SCALE)), np.int32(0)
    if f > FORCE_LIMIT:
        return np.int64(FORCE_LIMIT * FORCE_SCALE), np.int32(FLAG_FORCE_CLIPPED)
    if f < -FORCE_LIMIT:
        return np.int64(-FORCE_LIMIT * FORCE_SCALE), np.int32(FLAG_FORCE_CLIPPED)
    return np.int64(0), np.int32(FLAG_NOT_FINITE)


@njit(cache=True, error_model="numpy")
def to_fixed_force3(fx, fy, fz):
    """Three force components at once: (int64, int64, int64, flag)."""
    ix, flag_x = to_fixed_force(fx)
    iy, flag_y = to_fixed_force(fy)
    iz, flag_z = to_fixed_force(fz)
    return ix, iy, iz, flag_x | flag_y | flag_z


@njit(cache=True, error_model="numpy")
def add_force(forces_t, i, ix, iy, iz):
    """Add a fixed-point force to atom ``i`` of one thread's buffer, int64[n, 3]."""
    forces_t[i, 0] += ix
    forces_t[i, 1] += iy
    forces_t[i, 2] += iz


@njit(cache=True, error_model="numpy")
def to_fixed_energy(u):
    """Energy, kJ/mol, to int64 in ENERGY_SCALE units, clipped to ±ENERGY_LIMIT; NaN gives the limit."""
    if u >= -ENERGY_LIMIT and u <= ENERGY_LIMIT:
        return np.int64(np.rint(u * ENERGY_SCALE))
    if u < -ENERGY_LIMIT:
        return np.int64(-ENERGY_LIMIT * ENERGY_SCALE)
    return np.int64(ENERGY_LIMIT * ENERGY_SCALE)


@njit(cache=True, error_model="numpy")
def displacement(positions, lattice, i, j):
    """Nearest-image vector x_i - x_j, nm; ``positions`` int32[n, 3], ``lattice`` float64[3, 3]."""
    sx = np.float64(np.int32(positions[i, 0] - positions[j, 0]))
    sy = np.float64(np.int32(positions[i, 1] - positions[j, 1]))
    sz = np.float64(np.int32(positions[i, 2] - positions[j, 2]))
    dx = (sx * lattice[0, 0] + sy * lattice[1, 0]) + sz * lattice[2, 0]
    dy = sy * lattice[1, 1] + sz * lattice[2, 1]
    dz = sz * lattice[2, 2]
    return dx, dy, dz
