"""Harmonic angles."""

import math

from numba import njit, prange

from mdsim.kernels import functional_forms as forms
from mdsim.kernels.cpu.fixed import add_force, displacement, to_fixed_energy, to_fixed_force3
from mdsim.kernels.cpu.geometry import chunk, cross, dot, no_energy, scaled
from mdsim.kernels.cpu.mathlib import atan2, inline

harmonic = inline(forms.harmonic)


@njit(cache=True, error_model="numpy")
def harmonic_angles_chunk(positions, lattice, atoms, angle, k, start, stop, forces):
    """Entries ``start:stop`` of ``harmonic_angles`` into ``forces`` int64[n, 3]; return (energy, flag)."""
    energy, flag = no_energy()
    for m in range(start, stop):
        i, j, n = atoms[m, 0], atoms[m, 1], atoms[m, 2]
        a = displacement(positions, lattice, i, j)
        b = displacement(positions, lattice, n, j)
        p = cross(a, b)
        area = math.sqrt(dot(p, p))
        u, du_dtheta = harmonic(atan2(area, dot(a, b)), angle[m], k[m])
        # dtheta/da = a x p / (a^2 |p|), dtheta/db = p x b / (b^2 |p|); on a line there is no plane, and no force
        straight = area == 0.0
        f = scaled(0.0 if straight else -du_dtheta / (dot(a, a) * area), cross(a, p))
        h = scaled(0.0 if straight else -du_dtheta / (dot(b, b) * area), cross(p, b))
        fx, fy, fz, flag_f = to_fixed_force3(f[0], f[1], f[2])
        hx, hy, hz, flag_h = to_fixed_force3(h[0], h[1], h[2])
        add_force(forces, i, fx, fy, fz)
        add_force(forces, n, hx, hy, hz)
        add_force(forces, j, -fx - hx, -fy - hy, -fz - hz)
        flag |= flag_f | flag_h
        energy += to_fixed_energy(u)
    return energy, flag


@njit(parallel=True, cache=True, error_model="numpy")
def harmonic_angles(positions, lattice, atoms, angle, k, n_threads, forces, energies, flags):
    """Harmonic angles, u = k/2 (theta - angle)^2, theta = atan2(abs(a x b), a . b).

    Parameters
    ----------
    positions : int32[n, 3], box fractions / 2**32
    lattice : float64[3, 3], box vectors / 2**32, nm
    atoms : int32[m, 3], the middle one the apex
    angle : float64[m], rad
    k : float64[m], kJ/mol/rad^2
    n_threads : int
    forces : int64[n_threads, n, 3], FORCE_SCALE, OUTPUT (added)
    energies : int64[n_threads], ENERGY_SCALE, OUTPUT (added)
    flags : int32[n_threads], FLAG_* bits, OUTPUT (or-ed)
    """
    for t in prange(n_threads):
        start, stop = chunk(len(atoms), t, n_threads)
        energy, flag = harmonic_angles_chunk(positions, lattice, atoms, angle, k, start, stop, forces[t])
        energies[t] += energy
        flags[t] |= flag
