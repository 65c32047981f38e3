"""Dihedral terms: periodic, Ryckaert-Bellemans and harmonic improper."""

from numba import njit, prange

from mdsim.kernels import functional_forms as forms
from mdsim.kernels.cpu.fixed import to_fixed_energy
from mdsim.kernels.cpu.geometry import add_dihedral_forces, chunk, dihedral, no_energy
from mdsim.kernels.cpu.mathlib import atan2, inline

periodic_torsion = inline(forms.periodic_torsion)
ryckaert_bellemans = inline(forms.ryckaert_bellemans)
harmonic_improper = inline(forms.harmonic_improper)


@njit(cache=True, error_model="numpy")
def periodic_torsions_chunk(positions, lattice, atoms, periodicity, phase, k, start, stop, forces):
    """Entries ``start:stop`` of ``periodic_torsions`` into ``forces`` int64[n, 3]; return (energy, flag)."""
    energy, flag = no_energy()
    for m in range(start, stop):
        a, b, c, d = atoms[m, 0], atoms[m, 1], atoms[m, 2], atoms[m, 3]
        cos_phi, sin_phi, gradient = dihedral(positions, lattice, a, b, c, d)
        u, du_dphi = periodic_torsion(cos_phi, sin_phi, periodicity[m], phase[m, 0], phase[m, 1], k[m])
        flag |= add_dihedral_forces(forces, a, b, c, d, du_dphi, gradient)
        energy += to_fixed_energy(u)
    return energy, flag


@njit(parallel=True, cache=True, error_model="numpy")
def periodic_torsions(positions, lattice, atoms, periodicity, phase, k, n_threads, forces, energies, flags):
    """Periodic torsions, u = k (1 + cos(n phi - phase)).

    Parameters
    ----------
    positions : int32[n, 3], box fractions / 2**32
    lattice : float64[3, 3], box vectors / 2**32, nm
    atoms : int32[m, 4]
    periodicity : int32[m], n >= 0
    phase : float64[m, 2], cosine and sine of the phase
    k : float64[m], kJ/mol
    n_threads : int
    forces : int64[n_threads, n, 3], FORCE_SCALE, OUTPUT (added)
    energies : int64[n_threads], ENERGY_SCALE, OUTPUT (added)
    flags : int32[n_threads], FLAG_* bits, OUTPUT (or-ed)
    """
    for t in prange(n_threads):
        start, stop = chunk(len(atoms), t, n_threads)
        energy, flag = periodic_torsions_chunk(positions, lattice, atoms, periodicity, phase, k, start, stop, forces[t])
        energies[t] += energy
        flags[t] |= flag


@njit(cache=True, error_model="numpy")
def rb_torsions_chunk(positions, lattice, atoms, c, start, stop, forces):
    """Entries ``start:stop`` of ``rb_torsions`` into ``forces`` int64[n, 3]; return (energy, flag)."""
    energy, flag = no_energy()
    for m in range(start, stop):
        i, j, k, n = atoms[m, 0], atoms[m, 1], atoms[m, 2], atoms[m, 3]
        cos_phi, sin_phi, gradient = dihedral(positions, lattice, i, j, k, n)
        u, du_dphi = ryckaert_bellemans(cos_phi, sin_phi, c[m, 0], c[m, 1], c[m, 2], c[m, 3], c[m, 4], c[m, 5])
        flag |= add_dihedral_forces(forces, i, j, k, n, du_dphi, gradient)
        energy += to_fixed_energy(u)
    return energy, flag


@njit(parallel=True, cache=True, error_model="numpy")
def rb_torsions(positions, lattice, atoms, c, n_threads, forces, energies, flags):
    """Ryckaert-Bellemans torsions, u = sum_n c_n cos(phi - pi)^n.

    Parameters
    ----------
    positions : int32[n, 3], box fractions / 2**32
    lattice : float64[3, 3], box vectors / 2**32, nm
    atoms : int32[m, 4]
    c : float64[m, 6], kJ/mol
    n_threads : int
    forces : int64[n_threads, n, 3], FORCE_SCALE, OUTPUT (added)
    energies : int64[n_threads], ENERGY_SCALE, OUTPUT (added)
    flags : int32[n_threads], FLAG_* bits, OUTPUT (or-ed)
    """
    for t in prange(n_threads):
        start, stop = chunk(len(atoms), t, n_threads)
        energy, flag = rb_torsions_chunk(positions, lattice, atoms, c, start, stop, forces[t])
        energies[t] += energy
        flags[t] |= flag


@njit(cache=True, error_model="numpy")
def harmonic_impropers_chunk(positions, lattice, atoms, angle, k, wrapped, start, stop, forces):
    """Entries ``start:stop`` of ``harmonic_impropers`` into ``forces`` int64[n, 3]; return (energy, flag)."""
    energy, flag = no_energy()
    for m in range(start, stop):
        a, b, c, d = atoms[m, 0], atoms[m, 1], atoms[m, 2], atoms[m, 3]
        cos_phi, sin_phi, gradient = dihedral(positions, lattice, a, b, c, d)
        deviation = atan2(sin_phi, cos_phi) - angle[m, 0]
        if wrapped:  # the angle of the difference, from cosine and sine of both
            cos_0, sin_0 = angle[m, 1], angle[m, 2]
            deviation = atan2(sin_phi * cos_0 - cos_phi * sin_0, cos_phi * cos_0 + sin_phi * sin_0)
        u, du_dphi = harmonic_improper(deviation, k[m])
        flag |= add_dihedral_forces(forces, a, b, c, d, du_dphi, gradient)
        energy += to_fixed_energy(u)
    return energy, flag


@njit(parallel=True, cache=True, error_model="numpy")
def harmonic_impropers(positions, lattice, atoms, angle, k, wrapped, n_threads, forces, energies, flags):
    """Harmonic impropers, u = k (phi - phi0)^2 (CHARMM; no 1/2).

    Parameters
    ----------
    positions : int32[n, 3], box fractions / 2**32
    lattice : float64[3, 3], box vectors / 2**32, nm
    atoms : int32[m, 4]
    angle : float64[m, 3], phi0 in rad, its cosine and its sine
    k : float64[m], kJ/mol/rad^2
    wrapped : bool, the difference taken into [-pi, pi]; else as it stands, phi in (-pi, pi]
    n_threads : int
    forces : int64[n_threads, n, 3], FORCE_SCALE, OUTPUT (added)
    energies : int64[n_threads], ENERGY_SCALE, OUTPUT (added)
    flags : int32[n_threads], FLAG_* bits, OUTPUT (or-ed)
    """
    for t in prange(n_threads):
        start, stop = chunk(len(atoms), t, n_threads)
        energy, flag = harmonic_impropers_chunk(positions, lattice, atoms, angle, k, wrapped, start, stop, forces[t])
        energies[t] += energy
        flags[t] |= flag
