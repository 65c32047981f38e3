"""Pairs apart from the pair list: what the Ewald meshes hold for excluded pairs, taken off, and exceptions (1-4 pairs).

All in float64. Both mesh corrections are even, entire functions of y = (alpha r)^2, so excluded atoms may sit at the
same place.
"""

import math

import numpy as np
from numba import njit, prange

from mdsim.kernels.cpu.fixed import add_force, displacement, to_fixed_energy, to_fixed_force3
from mdsim.kernels.cpu.mathlib import erf, exp, horner
from mdsim.kernels.cpu.simd import broadcast, fma, load, store
from mdsim.kernels.fixed_point import FLAG_FORCE_CLIPPED

SQRT_PI = 1.7724538509055160273

#: erf(sqrt(y)) / sqrt(y) and minus its derivative for 0 <= y <= COULOMB_RANGE: Chebyshev interpolants in 60-digit
#: arithmetic
COULOMB_RANGE = 2.25
COULOMB_VALUE = (
    1.1283791670955126, -0.37612638903181866, 0.11283791670900496, -0.026866170638893728, 0.005223977588215563,
    -0.0008548325689916845, 0.00012055301956439414, -1.4925158768729858e-05, 1.64566604913032e-06,
    -1.6322915729404037e-07, 1.4567346086268903e-08, -1.1351598548465112e-09, 6.921660972641115e-11,
    -2.4043963385108002e-12,
)  # fmt: skip
COULOMB_SLOPE = (
    0.37612638903183754, -0.2256758334191018, 0.08059851193537033, -0.020895910501461227, 0.004274163509607535,
    -0.0007233199701111359, 0.00010447952862313733, -1.3169646921246775e-05, 1.4728670812007496e-06,
    -1.4801572841592337e-07, 1.3480730605432696e-08, -1.111299254188221e-09, 8.034546395354249e-11,
    -4.560603923717945e-12, 1.4797442450455386e-13,
)  # fmt: skip

#: (1 - exp(-y) (1 + y + y^2/2)) / y^3 and minus its derivative for 0 <= y <= DISPERSION_RANGE: Taylor
DISPERSION_RANGE = 1.0
DISPERSION_VALUE = tuple((-1.0) ** k / (2 * (k + 3) * math.factorial(k)) for k in range(18))
DISPERSION_SLOPE = tuple((-1.0) ** k / (2 * (k + 4) * math.factorial(k)) for k in range(18))

#: pairs whose polynomials are evaluated together
N_LANES = 8

#: exceptions closer than 0.1 pm are computed at that distance and flagged, so that no inf or nan arises
MIN_SQUARED_DISTANCE = 1e-8

kernel = njit(parallel=True, cache=True, error_model="numpy")
inline = njit(cache=True, error_model="numpy")


@inline
def polynomial(y, coefficients):
    """Polynomial of float64 lanes, lowest coefficient first."""
    result = broadcast(coefficients[-1], N_LANES)
    for k in range(len(coefficients) - 2, -1, -1):
        result = fma(result, y, coefficients[k])
    return result


@inline
def coulomb_shapes(y, values, slopes):
    """erf(sqrt(y)) / sqrt(y) and minus its derivative, for N_LANES values of y at once; all float64[N_LANES]."""
    lanes = load(y, 0, N_LANES)
    store(values, 0, polynomial(lanes, COULOMB_VALUE))
    store(slopes, 0, polynomial(lanes, COULOMB_SLOPE))
    for k in range(N_LANES):
        if y[k] > COULOMB_RANGE:
            x = np.sqrt(y[k])
            values[k] = erf(x) / x
            slopes[k] = (0.5 * values[k] - exp(-y[k]) / SQRT_PI) / y[k]


@inline
def dispersion_shape(y):
    """(1 - exp(-y) (1 + y + y^2/2)) / y^3 and minus its derivative."""
    if y <= DISPERSION_RANGE:
        return horner(y, DISPERSION_VALUE), horner(y, DISPERSION_SLOPE)
    gaussian = exp(-y)
    y3 = y * y * y
    value = (1.0 - gaussian * (1.0 + y + 0.5 * y * y)) / y3
    return value, (3.0 * value - 0.5 * gaussian) / y


@inline
def add_pair_force(forces_t, i, j, factor, dx, dy, dz):
    """Add factor * d to atom i and its opposite to atom j; returns the flag."""
    ix, iy, iz, flag = to_fixed_force3(factor * dx, factor * dy, factor * dz)
    add_force(forces_t, i, ix, iy, iz)
    add_force(forces_t, j, -ix, -iy, -iz)
    return flag


@kernel
def coulomb_exclusions(positions, lattice, atoms, charge_product, alpha, n_threads, forces, energies, flags):
    """Take off what the Coulomb mesh holds for excluded pairs: u = -q_i q_j erf(alpha r) / r.

    Parameters
    ----------
    positions : int32[n, 3]
    lattice : float64[3, 3]
    atoms : int32[m, 2]
    charge_product : float64[m]
        q_i q_j / (4 pi epsilon_0), kJ nm / mol.
    alpha : float
        1/nm.
    n_threads : int
    forces : int64[T, n, 3], OUTPUT (added)
    energies : int64[T], OUTPUT (added)
    flags : int32[T], OUTPUT (or-ed)
    """
    m = atoms.shape[0]
    alpha2 = alpha * alpha
    for t in prange(n_threads):
        energy = np.int64(0)
        flag = np.int32(0)
        d = np.empty((N_LANES, 3))
        y, values, slopes = np.zeros(N_LANES), np.empty(N_LANES), np.empty(N_LANES)
        end = m * (t + 1) // n_threads
        for first in range(m * t // n_threads, end, N_LANES):
            n = min(N_LANES, end - first)
            for k in range(n):
                dx, dy, dz = displacement(positions, lattice, atoms[first + k, 0], atoms[first + k, 1])
                d[k, 0], d[k, 1], d[k, 2] = dx, dy, dz
                y[k] = alpha2 * ((dx * dx + dy * dy) + dz * dz)
            coulomb_shapes(y, values, slopes)
            for k in range(n):
                i, j = atoms[first + k, 0], atoms[first + k, 1]
                qa = charge_product[first + k] * alpha
                energy -= to_fixed_energy(qa * values[k])
                factor = -2.0 * alpha2 * qa * slopes[k]
                flag |= add_pair_force(forces[t], i, j, factor, d[k, 0], d[k, 1], d[k, 2])
        energies[t] += energy
        flags[t] |= flag


@kernel
def dispersion_exclusions(positions, lattice, atoms, c6_product, alpha, n_threads, forces, energies, flags):
    """Take off what the dispersion mesh holds for excluded pairs: u = c6_i c6_j (1 - exp(-y) (1 + y + y^2/2)) / r^6.

    Parameters
    ----------
    c6_product : float64[m]
        kJ nm^6 / mol; the others as in ``coulomb_exclusions``.
    """
    m = atoms.shape[0]
    alpha2 = alpha * alpha
    for t in prange(n_threads):
        energy = np.int64(0)
        flag = np.int32(0)
        for k in range(m * t // n_threads, m * (t + 1) // n_threads):
            i, j = atoms[k, 0], atoms[k, 1]
            dx, dy, dz = displacement(positions, lattice, i, j)
            value, slope = dispersion_shape(alpha2 * ((dx * dx + dy * dy) + dz * dz))
            ca = c6_product[k] * (alpha2 * alpha2 * alpha2)
            energy += to_fixed_energy(ca * value)
            flag |= add_pair_force(forces[t], i, j, 2.0 * alpha2 * ca * slope, dx, dy, dz)
        energies[t] += energy
        flags[t] |= flag


@kernel
def exceptions(positions, lattice, atoms, charge_product, sigma, epsilon, n_threads, forces, energies, flags):
    """Coulomb and Lennard-Jones of pairs with parameters of their own, without cutoff.

    Parameters
    ----------
    positions, lattice, atoms, charge_product, n_threads, forces : as in ``coulomb_exclusions``
    sigma, epsilon : float64[m]
        nm, kJ/mol.
    energies : int64[2, T], OUTPUT (added)
        Coulomb, Lennard-Jones.
    flags : int32[2, T], OUTPUT (or-ed)
    """
    m = atoms.shape[0]
    for t in prange(n_threads):
        coulomb_energy = np.int64(0)
        lj_energy = np.int64(0)
        coulomb_flag = np.int32(0)
        lj_flag = np.int32(0)
        for k in range(m * t // n_threads, m * (t + 1) // n_threads):
            i, j = atoms[k, 0], atoms[k, 1]
            dx, dy, dz = displacement(positions, lattice, i, j)
            r2 = (dx * dx + dy * dy) + dz * dz
            if r2 < MIN_SQUARED_DISTANCE:
                r2 = MIN_SQUARED_DISTANCE
                lj_flag |= np.int32(FLAG_FORCE_CLIPPED)
            if charge_product[k] != 0.0:
                u = charge_product[k] / np.sqrt(r2)
                coulomb_energy += to_fixed_energy(u)
                coulomb_flag |= add_pair_force(forces[t], i, j, u / r2, dx, dy, dz)
            if epsilon[k] != 0.0:
                s2 = sigma[k] * sigma[k] / r2
                s6 = s2 * s2 * s2
                e4 = 4.0 * epsilon[k]
                lj_energy += to_fixed_energy(e4 * (s6 * s6 - s6))
                lj_flag |= add_pair_force(forces[t], i, j, 6.0 * e4 * (2.0 * s6 * s6 - s6) / r2, dx, dy, dz)
        energies[0, t] += coulomb_energy
        energies[1, t] += lj_energy
        flags[0, t] |= coulomb_flag
        flags[1, t] |= lj_flag
