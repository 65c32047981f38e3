"""Monte Carlo moves of the box: molecules keep their shape in nm while their centres keep their box fractions."""

import numpy as np
from numba import njit, prange

from mdsim.kernels.cpu.integrate import shift
from mdsim.kernels.cpu.mathlib import exp, log
from mdsim.kernels.cpu.philox import STREAM_BAROSTAT, uniform
from mdsim.kernels.fixed_point import FRACTION_SCALE


@njit(cache=True, error_model="numpy")
def barostat_uniform(seed, step, draw):
    """The ``draw``-th random number in (0, 1) of the attempt at ``step``."""
    return uniform(seed, step, draw, STREAM_BAROSTAT)


@njit(cache=True, error_model="numpy")
def power(x, exponent):
    """x**exponent for x > 0."""
    return exp(exponent * log(x))


@njit(cache=True, error_model="numpy")
def acceptance(energy_change, work, n_molecules, kT, volume_ratio):
    """Probability to accept, at most 1: exp(-(dU + work - N kT ln(V'/V)) / kT).

    Chow & Ferguson, Comput. Phys. Commun. 91, 283 (1995); Aqvist et al., Chem. Phys. Lett. 384, 288 (2004). Energies in kJ/mol.
    """
    w = energy_change + work - n_molecules * kT * log(volume_ratio)
    return 1.0 if w <= 0.0 else exp(-w / kT)


@njit(parallel=True, cache=True, error_model="numpy")
def molecule_sums(positions, images, molecule, n_threads, sums):
    """Sum of the unwrapped positions of each molecule's atoms.

    Parameters
    ----------
    positions : int32[>= n, 3], box fractions
    images : int32[n, 3]
    molecule : int32[n], number of each atom's molecule
    sums : int64[n_threads, n_molecules, 3], OUTPUT, units of 2**-32 of the box
    """
    n = len(images)
    for t in prange(n_threads):
        sums[t] = 0
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            for k in range(3):
                sums[t, molecule[i], k] += np.int64(positions[i, k]) + (np.int64(images[i, k]) << 32)


@njit(parallel=True, cache=True, error_model="numpy")
def keep_shapes(positions, images, molecule, centres, lattice, new_lattice, new_inverse, n_threads):
    """Box fractions for a new box in which each atom has the old vector (nm) from its molecule's centre.

    Parameters
    ----------
    positions : int32[>= n, 3], box fractions, OUTPUT (updated)
    images : int32[n, 3], OUTPUT (updated)
    molecule : int32[n]
    centres : int64[n_molecules, 3], unwrapped box fractions
    lattice, new_lattice : float64[3, 3], nm
    new_inverse : float64[3, 3], 1/nm
    """
    n = len(images)
    for t in prange(n_threads):
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            centre = centres[molecule[i]]
            sx = np.float64(np.int64(positions[i, 0]) + (np.int64(images[i, 0]) << 32) - centre[0])
            sy = np.float64(np.int64(positions[i, 1]) + (np.int64(images[i, 1]) << 32) - centre[1])
            sz = np.float64(np.int64(positions[i, 2]) + (np.int64(images[i, 2]) << 32) - centre[2])
            # only the change is rounded: an atom at its molecule's centre does not move at all
            change_x = (sx * (lattice[0, 0] - new_lattice[0, 0]) + sy * (lattice[1, 0] - new_lattice[1, 0])) + sz * (
                lattice[2, 0] - new_lattice[2, 0]
            )
            change_y = sy * (lattice[1, 1] - new_lattice[1, 1]) + sz * (lattice[2, 1] - new_lattice[2, 1])
            change_z = sz * (lattice[2, 2] - new_lattice[2, 2])
            fx = (change_x * new_inverse[0, 0] + change_y * new_inverse[1, 0]) + change_z * new_inverse[2, 0]
            fy = change_y * new_inverse[1, 1] + change_z * new_inverse[2, 1]
            fz = change_z * new_inverse[2, 2]
            shift(positions, images, i, 0, np.int64(np.rint(fx * FRACTION_SCALE)))
            shift(positions, images, i, 1, np.int64(np.rint(fy * FRACTION_SCALE)))
            shift(positions, images, i, 2, np.int64(np.rint(fz * FRACTION_SCALE)))
