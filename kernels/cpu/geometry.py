"""Vectors as tuples, dihedral angles, and force sums of a term that are zero to the last bit."""

import math

import numpy as np

from mdsim.kernels.cpu.fixed import add_force, displacement, to_fixed_force3
from mdsim.kernels.cpu.mathlib import inline

#: sin^2 of a bond angle below which four atoms define no dihedral: rounding error of the cross product
COLLINEAR = 1e-28


@inline
def dot(a, b):
    """a . b, summed in the order x, y, z."""
    return (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]


@inline
def cross(a, b):
    """a x b."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@inline
def scaled(s, a):
    """s a."""
    return s * a[0], s * a[1], s * a[2]


@inline
def subtract(a, b):
    """a - b."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@inline
def dihedral(positions, lattice, i, j, k, m):
    """Dihedral angle i-j-k-m and its gradient (Blondel and Karplus, J. Comput. Chem. 17, 1132 (1996), eqs. 4, 27).

    Where three of the atoms lie on a line there is no angle: phi = 0 and its gradient 0.

    Returns
    -------
    cos_phi, sin_phi : float64
        phi = 0 for cis, positive by the right-hand rule (IUPAC).
    gradient : three vectors, rad/nm
        By F = r_i - r_j, G = r_j - r_k and H = r_m - r_k.
    """
    f = displacement(positions, lattice, i, j)
    g = displacement(positions, lattice, j, k)
    h = displacement(positions, lattice, m, k)
    a = cross(f, g)
    b = cross(h, g)
    a2, b2, g2 = dot(a, a), dot(b, b), dot(g, g)
    if a2 <= COLLINEAR * (dot(f, f) * g2) or b2 <= COLLINEAR * (dot(h, h) * g2):
        zero = (0.0, 0.0, 0.0)
        return 1.0, 0.0, (zero, zero, zero)
    g1 = math.sqrt(g2)
    ab = math.sqrt(a2) * math.sqrt(b2)
    cos_phi = dot(a, b) / ab
    sin_phi = dot(cross(b, a), g) / (ab * g1)
    gradient_f = scaled(-g1 / a2, a)
    gradient_h = scaled(g1 / b2, b)
    gradient_g = subtract(scaled(dot(f, g) / (a2 * g1), a), scaled(dot(h, g) / (b2 * g1), b))
    return cos_phi, sin_phi, (gradient_f, gradient_g, gradient_h)


@inline
def add_dihedral_forces(forces, i, j, k, m, du_dphi, gradient):
    """Add -du/dphi grad phi to the four atoms, the sum of the integers exactly zero; return the flag."""
    f = scaled(-du_dphi, gradient[0])
    g = scaled(-du_dphi, gradient[1])
    h = scaled(-du_dphi, gradient[2])
    fx, fy, fz, flag_f = to_fixed_force3(f[0], f[1], f[2])
    gx, gy, gz, flag_g = to_fixed_force3(g[0], g[1], g[2])
    hx, hy, hz, flag_h = to_fixed_force3(h[0], h[1], h[2])
    add_force(forces, i, fx, fy, fz)
    add_force(forces, j, gx - fx, gy - fy, gz - fz)
    add_force(forces, k, -gx - hx, -gy - hy, -gz - hz)
    add_force(forces, m, hx, hy, hz)
    return flag_f | flag_g | flag_h


@inline
def add_opposite_forces(forces, i, j, f):
    """Add a force (a vector) to atom i and its exact opposite to atom j; return the flag."""
    fx, fy, fz, flag = to_fixed_force3(f[0], f[1], f[2])
    add_force(forces, i, fx, fy, fz)
    add_force(forces, j, -fx, -fy, -fz)
    return flag


@inline
def chunk(m, t, n_threads):
    """Start and stop of the entries of thread ``t`` among ``m``."""
    return m * t // n_threads, m * (t + 1) // n_threads


@inline
def no_energy():
    """Zero energy and flag, in the types that kernels sum them in."""
    return np.int64(0), np.int32(0)
