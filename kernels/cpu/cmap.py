"""CMAP: torsion-torsion maps by periodic bicubic interpolation."""

from numba import njit, prange

from mdsim.kernels import functional_forms as forms
from mdsim.kernels.cpu.fixed import to_fixed_energy
from mdsim.kernels.cpu.geometry import add_dihedral_forces, chunk, dihedral, no_energy
from mdsim.kernels.cpu.mathlib import PI, atan2, inline

bicubic_patch = inline(forms.bicubic_patch)


@inline
def grid_cell(cos_phi, sin_phi, size):
    """Cell of a periodic grid of ``size`` points from 0 to 2 pi that phi lies in, and the fraction within it."""
    x = atan2(sin_phi, cos_phi) * (size / (2.0 * PI))
    x = x + size if x < 0.0 else x
    cell = min(int(x), size - 1)
    return cell, x - cell


@njit(cache=True, error_model="numpy")
def cmap_torsions_chunk(positions, lattice, atoms, map_index, coefficients, start, stop, forces):
    """Entries ``start:stop`` of ``cmap_torsions`` into ``forces`` int64[n, 3]; return (energy, flag)."""
    energy, flag = no_energy()
    size = coefficients.shape[1]
    cells_per_radian = size / (2.0 * PI)
    for m in range(start, stop):
        a, b, c, d = atoms[m, 0], atoms[m, 1], atoms[m, 2], atoms[m, 3]
        e, f, g, h = atoms[m, 4], atoms[m, 5], atoms[m, 6], atoms[m, 7]
        cos_phi, sin_phi, gradient_phi = dihedral(positions, lattice, a, b, c, d)
        cos_psi, sin_psi, gradient_psi = dihedral(positions, lattice, e, f, g, h)
        i, x = grid_cell(cos_phi, sin_phi, size)
        j, y = grid_cell(cos_psi, sin_psi, size)
        u, du_dx, du_dy = bicubic_patch(coefficients[map_index[m], i, j], x, y)
        flag |= add_dihedral_forces(forces, a, b, c, d, du_dx * cells_per_radian, gradient_phi)
        flag |= add_dihedral_forces(forces, e, f, g, h, du_dy * cells_per_radian, gradient_psi)
        energy += to_fixed_energy(u)
    return energy, flag


@njit(parallel=True, cache=True, error_model="numpy")
def cmap_torsions(positions, lattice, atoms, map_index, coefficients, n_threads, forces, energies, flags):
    """Torsion-torsion correction maps, u = sum_ab c_ab x^a y^b in the cell of (phi, psi).

    Parameters
    ----------
    positions : int32[n, 3], box fractions / 2**32
    lattice : float64[3, 3], box vectors / 2**32, nm
    atoms : int32[m, 8], the atoms of phi, then those of psi
    map_index : int32[m]
    coefficients : float64[maps, size, size, 16], kJ/mol
        ``[map, i, j, 4 a + b]`` belongs to x^a y^b, x and y the fractions of cell (i, j) of phi and psi
        (``mdsim.forcefield.cmap_coefficients``).
    n_threads : int
    forces : int64[n_threads, n, 3], FORCE_SCALE, OUTPUT (added)
    energies : int64[n_threads], ENERGY_SCALE, OUTPUT (added)
    flags : int32[n_threads], FLAG_* bits, OUTPUT (or-ed)
    """
    for t in prange(n_threads):
        start, stop = chunk(len(atoms), t, n_threads)
        energy, flag = cmap_torsions_chunk(positions, lattice, atoms, map_index, coefficients, start, stop, forces[t])
        energies[t] += energy
        flags[t] |= flag
