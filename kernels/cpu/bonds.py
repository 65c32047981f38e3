"""Harmonic bonds."""

import math

from numba import njit, prange

from mdsim.kernels import functional_forms as forms
from mdsim.kernels.cpu.fixed import displacement, to_fixed_energy
from mdsim.kernels.cpu.geometry import add_opposite_forces, chunk, dot, no_energy, scaled
from mdsim.kernels.cpu.mathlib import inline

harmonic = inline(forms.harmonic)


@njit(cache=True, error_model="numpy")
def harmonic_bonds_chunk(positions, lattice, atoms, length, k, start, stop, forces):
    """Entries ``start:stop`` of ``harmonic_bonds`` into ``forces`` int64[n, 3]; return (energy, flag)."""
    energy, flag = no_energy()
    for m in range(start, stop):
        i, j = atoms[m, 0], atoms[m, 1]
        d = displacement(positions, lattice, i, j)
        r = math.sqrt(dot(d, d))
        u, du_dr = harmonic(r, length[m], k[m])
        # two atoms at one point: no direction, no force
        flag |= add_opposite_forces(forces, i, j, scaled(-du_dr / r if r > 0.0 else 0.0, d))
        energy += to_fixed_energy(u)
    return energy, flag


@njit(parallel=True, cache=True, error_model="numpy")
def harmonic_bonds(positions, lattice, atoms, length, k, n_threads, forces, energies, flags):
    """Harmonic bonds, u = k/2 (r - length)^2.

    Parameters
    ----------
    positions : int32[n, 3], box fractions / 2**32
    lattice : float64[3, 3], box vectors / 2**32, nm
    atoms : int32[m, 2]
    length : float64[m], nm
    k : float64[m], kJ/mol/nm^2
    n_threads : int
    forces : int64[n_threads, n, 3], FORCE_SCALE, OUTPUT (added)
    energies : int64[n_threads], ENERGY_SCALE, OUTPUT (added)
    flags : int32[n_threads], FLAG_* bits, OUTPUT (or-ed)
    """
    for t in prange(n_threads):
        start, stop = chunk(len(atoms), t, n_threads)
        energy, flag = harmonic_bonds_chunk(positions, lattice, atoms, length, k, start, stop, forces[t])
        energies[t] += energy
        flags[t] |= flag
