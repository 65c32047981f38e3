"""Restraints: atoms to places, and distances to an interval."""

import math

import numpy as np
from numba import njit, prange

from mdsim.kernels import functional_forms as forms
from mdsim.kernels.cpu.fixed import add_force, displacement, to_fixed_energy, to_fixed_force3
from mdsim.kernels.cpu.geometry import add_opposite_forces, chunk, dot, no_energy, scaled
from mdsim.kernels.cpu.mathlib import inline, round_to_int
from mdsim.kernels.fixed_point import FRACTION_SCALE

flat_bottom = inline(forms.flat_bottom)


@inline
def nearest_image(s):
    """A difference of box fractions times 2**32, float64, without whole boxes."""
    boxes, _ = round_to_int(s / FRACTION_SCALE)
    return s - boxes * FRACTION_SCALE


@inline
def displacement_from(positions, lattice, i, place):
    """Nearest-image vector from a place in nm, float64[3], to atom ``i``, nm."""
    z = place[2] / lattice[2, 2]
    y = (place[1] - z * lattice[2, 1]) / lattice[1, 1]
    x = ((place[0] - y * lattice[1, 0]) - z * lattice[2, 0]) / lattice[0, 0]
    sx = nearest_image(np.float64(positions[i, 0]) - x)
    sy = nearest_image(np.float64(positions[i, 1]) - y)
    sz = nearest_image(np.float64(positions[i, 2]) - z)
    dx = (sx * lattice[0, 0] + sy * lattice[1, 0]) + sz * lattice[2, 0]
    dy = sy * lattice[1, 1] + sz * lattice[2, 1]
    return dx, dy, sz * lattice[2, 2]


@njit(cache=True, error_model="numpy")
def position_restraints_chunk(positions, lattice, atoms, reference, k, start, stop, forces):
    """Entries ``start:stop`` of ``position_restraints`` into ``forces`` int64[n, 3]; return (energy, flag)."""
    energy, flag = no_energy()
    for m in range(start, stop):
        i = atoms[m]
        d = displacement_from(positions, lattice, i, reference[m])
        f = scaled(-k[m], d)
        fx, fy, fz, clipped = to_fixed_force3(f[0], f[1], f[2])
        add_force(forces, i, fx, fy, fz)
        flag |= clipped
        energy += to_fixed_energy(0.5 * k[m] * dot(d, d))
    return energy, flag


@njit(parallel=True, cache=True, error_model="numpy")
def position_restraints(positions, lattice, atoms, reference, k, n_threads, forces, energies, flags):
    """Position restraints, u = k/2 abs(x - reference)^2 to the nearest image of the reference.

    Parameters
    ----------
    positions : int32[n, 3], box fractions / 2**32
    lattice : float64[3, 3], box vectors / 2**32, nm
    atoms : int32[m]
    reference : float64[m, 3], nm; fixed in space, whatever the box does
    k : float64[m], kJ/mol/nm^2
    n_threads : int
    forces : int64[n_threads, n, 3], FORCE_SCALE, OUTPUT (added)
    energies : int64[n_threads], ENERGY_SCALE, OUTPUT (added)
    flags : int32[n_threads], FLAG_* bits, OUTPUT (or-ed)
    """
    for t in prange(n_threads):
        start, stop = chunk(len(atoms), t, n_threads)
        energy, flag = position_restraints_chunk(positions, lattice, atoms, reference, k, start, stop, forces[t])
        energies[t] += energy
        flags[t] |= flag


@njit(cache=True, error_model="numpy")
def distance_restraints_chunk(positions, lattice, atoms, bounds, k, start, stop, forces):
    """Entries ``start:stop`` of ``distance_restraints`` into ``forces`` int64[n, 3]; return (energy, flag)."""
    energy, flag = no_energy()
    for m in range(start, stop):
        i, j = atoms[m, 0], atoms[m, 1]
        d = displacement(positions, lattice, i, j)
        r = math.sqrt(dot(d, d))
        u, du_dr = flat_bottom(r, bounds[m, 0], bounds[m, 1], k[m])
        flag |= add_opposite_forces(forces, i, j, scaled(-du_dr / r if r > 0.0 else 0.0, d))
        energy += to_fixed_energy(u)
    return energy, flag


@njit(parallel=True, cache=True, error_model="numpy")
def distance_restraints(positions, lattice, atoms, bounds, k, n_threads, forces, energies, flags):
    """Flat-bottomed harmonic distance restraints, u = k/2 max(0, r - upper, lower - r)^2.

    Parameters
    ----------
    positions : int32[n, 3], box fractions / 2**32
    lattice : float64[3, 3], box vectors / 2**32, nm
    atoms : int32[m, 2]
    bounds : float64[m, 2], lower and upper, nm
    k : float64[m], kJ/mol/nm^2
    n_threads : int
    forces : int64[n_threads, n, 3], FORCE_SCALE, OUTPUT (added)
    energies : int64[n_threads], ENERGY_SCALE, OUTPUT (added)
    flags : int32[n_threads], FLAG_* bits, OUTPUT (or-ed)
    """
    for t in prange(n_threads):
        start, stop = chunk(len(atoms), t, n_threads)
        energy, flag = distance_restraints_chunk(positions, lattice, atoms, bounds, k, start, stop, forces[t])
        energies[t] += energy
        flags[t] |= flag
