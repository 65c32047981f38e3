"""Generalised Born implicit solvent: OBC (Onufriev, Bashford, Case 2004) and GBn/GBn2 with the neck (Mongan et al. 2007).

Three passes over all pairs. Distances and pair functions are float32 vectors, sums are integers:

1. ``born_integrals``: I_i = sum_j H(r; rho_i, s_j) + neck, over every j != i (Hawkins, Cramer, Truhlar 1996), rho_i = radius_i -
   offset, s_j = scale_j rho_j; ``born_radii`` makes B_i(I_i) and dB_i/dI_i of them, per atom, in float64;
2. ``polar_pairs``: u = -k q_i q_j (1/eps_in - exp(-kappa f)/eps_out) (1/f - 1/cutoff), f^2 = r^2 + B_i B_j exp(-r^2 / 4 B_i B_j)
   (Still et al. 1990), over pairs i < j, its force at fixed Born radii and du/d(log B), which is the same for i and j;
3. ``born_forces``: the chain rule, dU/dI_i dH(r; rho_i, s_j)/dr + dU/dI_j dH(r; rho_j, s_i)/dr over pairs i < j.

Every pair function is symmetric in its operations, so the bits do not depend on the order of the atoms; nor, with integers
summed, on threads. Atoms are padded to whole vectors; lanes are masked.
"""

import math

import numpy as np
from numba import njit, prange

from mdsim.kernels.cpu import mathlib
from mdsim.kernels.cpu.fixed import add_force, to_fixed_energy
from mdsim.kernels.cpu.geometry import chunk
from mdsim.kernels.cpu.mathlib import ROUNDER, ROUNDER_BITS
from mdsim.kernels.cpu.simd import (
    broadcast,
    double_bits,
    fma,
    lane_numbers,
    load,
    mask_to_bits,
    maximum,
    minimum,
    select,
    sqrt,
    store,
    to_double,
    to_float,
    total,
)
from mdsim.kernels.cpu.simd_math import exp, log
from mdsim.kernels.fixed_point import ENERGY_SCALE, FLAG_FORCE_CLIPPED, FORCE_SCALE

#: lanes of float32; atom arrays are padded to a multiple of it
WIDTH = 8
#: Born integrals, int64, 1/nm
INTEGRAL_SCALE = 2.0**40
#: one pair's contribution to a Born integral is clipped here, 1/nm
INTEGRAL_LIMIT = 2.0**10
#: one pair's contribution to a force component (kJ/mol/nm) is clipped here and flagged, so that 32 fraction bits fit
PAIR_LIMIT = 2.0**18
#: one pair's energy, kJ/mol, is clipped here
PAIR_ENERGY_LIMIT = 2.0**22
#: atoms nearer than this are taken to be this far apart, nm: the pair functions have r in the denominator
SMALLEST_DISTANCE = 1e-3
#: the neck reaches so far beyond contact, nm (Mongan et al. 2007: a water diameter 2 x 0.14 and half the widest neck, as OpenMM)
NECK_CUTOFF = 0.68
#: ACE surface term: probe radius, nm
PROBE_RADIUS = 0.14

inline = njit(cache=True, error_model="numpy", forceinline=True)


@inline
def to_fixed(x, scale):
    """float32 lanes to int64 in units of 1/scale; abs(x) * scale < 2**51."""
    return double_bits(fma(to_double(x), scale, ROUNDER)) - ROUNDER_BITS


@inline
def pair_distances(xyz, lattice, i, j):
    """Nearest-image vectors from atoms ``j : j + WIDTH`` to atom i, squared distance, distance and its inverse, float32 lanes."""
    ax, bx, by, cx, cy, cz = lattice
    sx = to_float(xyz[0, i] - load(xyz[0], j, WIDTH))
    sy = to_float(xyz[1, i] - load(xyz[1], j, WIDTH))
    sz = to_float(xyz[2, i] - load(xyz[2], j, WIDTH))
    dx = fma(sx, ax, fma(sy, bx, sz * cx))
    dy = fma(sy, by, sz * cy)
    dz = sz * cz
    r2 = maximum(fma(dx, dx, fma(dy, dy, dz * dz)), SMALLEST_DISTANCE**2)
    r = sqrt(r2)
    return dx, dy, dz, r2, r, 1.0 / r


@inline
def others(i, j, n):
    """Mask of the lanes of atoms ``j : j + WIDTH`` that exist and are not atom i."""
    lanes = lane_numbers(WIDTH) + j
    return (lanes < n) & (lanes != i)


@inline
def later(i, j, n):
    """Mask of the lanes of atoms ``j : j + WIDTH`` that exist and come after atom i."""
    lanes = lane_numbers(WIDTH) + j
    return (lanes < n) & (lanes > i)


@inline
def sphere_limits(r, rho, s):
    """Radial interval of a sphere of radius s seen at distance r, from l = max(rho, abs(r - s)) to u = r + s: u, l, 1/l, 1/u."""
    u = r + s
    d = r - s
    lower = maximum(maximum(d, -d), rho)
    inverse = 1.0 / (lower * u)
    return u, lower, u * inverse, lower * inverse


@inline
def sphere_integral(r, inv_r, rho, s):
    """H: what a sphere of radius s at distance r adds to the Born integral outside rho (Hawkins et al. 1996), 1/nm."""
    u, lower, inv_l, inv_u = sphere_limits(r, rho, s)
    squares = (inv_u - inv_l) * (inv_u + inv_l)
    h = 0.5 * ((inv_l - inv_u) + 0.25 * (r - s * s * inv_r) * squares + 0.5 * log(lower * inv_u) * inv_r)
    return select(u > rho, h, 0.0)


@inline
def sphere_slope(r, inv_r, rho, s):
    """dH/dr, 1/nm^2."""
    u, lower, inv_l, inv_u = sphere_limits(r, rho, s)
    squares = (inv_u - inv_l) * (inv_u + inv_l)
    s_over_r = s * inv_r
    slope = 0.5 * (0.25 * (1.0 + s_over_r * s_over_r) * squares - 0.5 * log(lower * inv_u) * (inv_r * inv_r))
    # where the sphere engulfs atom i, the lower limit s - r moves too
    slope = slope + select(s - r > rho, inv_l * inv_l, 0.0)
    return select(u > rho, slope, 0.0)


@inline
def neck_integral(r, d0, m0, reach):
    """The neck between two spheres nearer than ``reach`` (Mongan et al. 2007, eq. 21), 1/nm."""
    x2 = (r - d0) * (r - d0)
    return select(r <= reach, m0 / (1.0 + x2 * (100.0 + 3e5 * (x2 * x2))), 0.0)


@inline
def neck_slope(r, d0, m0, reach):
    """Derivative of ``neck_integral`` by r, 1/nm^2."""
    x = r - d0
    x2 = x * x
    inverse = 1.0 / (1.0 + x2 * (100.0 + 3e5 * (x2 * x2)))
    return select(r <= reach, -m0 * (x * (200.0 + 1.8e6 * (x2 * x2))) * (inverse * inverse), 0.0)


@inline
def clipped(x, limit):
    """Lanes within ±limit; nan becomes -limit."""
    return minimum(maximum(x, -limit), limit)


@inline
def to_lattice32(lattice):
    """The six numbers of a lower triangular lattice, float32."""
    return (
        np.float32(lattice[0, 0]),
        np.float32(lattice[1, 0]),
        np.float32(lattice[1, 1]),
        np.float32(lattice[2, 0]),
        np.float32(lattice[2, 1]),
        np.float32(lattice[2, 2]),
    )


@njit(cache=True, error_model="numpy")
def born_integrals_chunk(xyz, lattice32, spheres, neck, neck_scale, cutoff2, n, start, stop, integrals):
    """I_i of atoms ``start:stop``, by pass 1, into ``integrals`` int64[n], INTEGRAL_SCALE."""
    rho, s, radius, _ = spheres
    radius_index, d0, m0, _, _ = neck
    for i in range(start, stop):
        row = radius_index[i]
        integral = broadcast(np.int64(0), WIDTH)
        for j in range(0, n, WIDTH):
            _, _, _, r2, r, inv_r = pair_distances(xyz, lattice32, i, j)
            h = sphere_integral(r, inv_r, rho[i], load(s, j, WIDTH))
            if neck_scale != 0.0:
                reach = (load(radius, j, WIDTH) + radius[i]) + NECK_CUTOFF
                neck_part = neck_integral(r, load(d0[row], j, WIDTH), load(m0[row], j, WIDTH), reach)
                h = fma(neck_part, neck_scale, h)
            counted = others(i, j, n) & (r2 <= cutoff2)
            integral = integral + to_fixed(select(counted, clipped(h, INTEGRAL_LIMIT), 0.0), INTEGRAL_SCALE)
        integrals[i] = total(integral)


@inline
def born_radius(integral, rho, radius, alpha, beta, gamma):
    """Effective Born radius B and dB/dI (Onufriev, Bashford, Case 2004, eq. 6); nm, nm^2."""
    psi = integral * rho
    t = mathlib.tanh(psi * (alpha - psi * (beta - psi * gamma)))
    b = 1.0 / (1.0 / rho - t / radius)
    slope = alpha - psi * (2.0 * beta - psi * (3.0 * gamma))
    return b, b * b * (1.0 - t * t) * slope * (rho / radius)


@inline
def self_energy(b, charge, radius, medium):
    """Polar self energy and ACE surface energy of an atom with Born radius b, and their derivative by b; kJ/mol, kJ/mol/nm."""
    coulomb, inv_eps_in, inv_eps_out, kappa, _, surface_energy = medium
    screening = mathlib.exp(-kappa * b) * inv_eps_out
    polar = -0.5 * coulomb * charge * charge / b
    ratio2 = (radius / b) * (radius / b)
    area = 4.0 * math.pi * (radius + PROBE_RADIUS) * (radius + PROBE_RADIUS)
    surface = surface_energy * area * (ratio2 * ratio2 * ratio2)
    u = polar * (inv_eps_in - screening) + surface
    du_db = polar * (kappa * screening - (inv_eps_in - screening) / b) - 6.0 * surface / b
    return u, du_db


@njit(cache=True, error_model="numpy")
def born_radii_chunk(integrals, atoms, medium, start, stop, born, self_slope, radius_slope):
    """B, dU_self/dB and dB/dI of atoms ``start:stop``; return their self and surface energy, int64."""
    rho, radius, charge, alpha, beta, gamma = atoms
    energy = np.int64(0)
    for i in range(start, stop):
        integral = np.float64(integrals[i]) / INTEGRAL_SCALE
        b, radius_slope[i] = born_radius(integral, rho[i], radius[i], alpha[i], beta[i], gamma[i])
        u, self_slope[i] = self_energy(b, charge[i], radius[i], medium)
        born[i] = b
        energy += to_fixed_energy(u)
    return energy


@inline
def polar_pair(r2, qq, bb, medium32):
    """Polar energy u of a pair, -(du/dr)/r and du/d(log B), from r^2, q_i q_j and B_i B_j; in units of k/eps_in."""
    eps_ratio, kappa, inv_cutoff = medium32
    d = 0.25 * r2 / bb
    decay = exp(-d)
    f2 = fma(bb, decay, r2)
    f = sqrt(f2)
    inv_f = 1.0 / f
    shifted = inv_f - inv_cutoff
    screening = broadcast(eps_ratio, WIDTH)
    if kappa != 0.0:
        screening = exp(f * -kappa) * eps_ratio
    tau = 1.0 - screening
    # -(du/df) / f
    slope = qq * inv_f * (kappa * (screening * shifted) - tau * (inv_f * inv_f))
    return -qq * (tau * shifted), slope * (1.0 - 0.25 * decay), -slope * (0.5 * decay) * (1.0 + d) * bb


@inline
def fixed_force(f_over_r, dx, dy, dz, unit):
    """f/r, in ``unit`` kJ/mol/nm^2, times the vector: int64 lanes in FORCE_SCALE, and the bits of the lanes clipped."""
    x, y, z = f_over_r * dx, f_over_r * dy, f_over_r * dz
    limit = PAIR_LIMIT / unit
    scale = FORCE_SCALE * unit
    largest = maximum(maximum(maximum(x, -x), maximum(y, -y)), maximum(z, -z))
    clip = mask_to_bits(largest > limit)
    if clip != 0:
        x, y, z = clipped(x, limit), clipped(y, limit), clipped(z, limit)
    return to_fixed(x, scale), to_fixed(y, scale), to_fixed(z, scale), clip


@njit(cache=True, error_model="numpy")
def polar_pairs_chunk(xyz, lattice32, charge, born, strength, medium32, cutoff2, n, first, step, work):
    """Pass 2 for atoms ``first::step`` with all later ones; return (energy, flag).

    ``strength``: k/eps_in, float64, kJ/mol nm/e^2. ``work`` int64[4, padded]: forces along x, y, z and du/d(log B), FORCE_SCALE
    (added).
    """
    fx, fy, fz, fb = work[0], work[1], work[2], work[3]
    zero = broadcast(np.int64(0), WIDTH)
    energy, clips = zero, np.int64(0)
    for i in range(first, n, step):
        ix, iy, iz, ib = zero, zero, zero, zero
        for j in range(i // WIDTH * WIDTH, n, WIDTH):
            dx, dy, dz, r2, _, _ = pair_distances(xyz, lattice32, i, j)
            counted = later(i, j, n) & (r2 <= cutoff2)
            qq = select(counted, charge[i] * load(charge, j, WIDTH), 0.0)
            u, f_over_r, du_dlogb = polar_pair(r2, qq, born[i] * load(born, j, WIDTH), medium32)
            energy = energy + to_fixed(clipped(u, PAIR_ENERGY_LIMIT / strength), ENERGY_SCALE * strength)
            jx, jy, jz, clip = fixed_force(f_over_r, dx, dy, dz, strength)
            jb = to_fixed(clipped(du_dlogb, PAIR_LIMIT / strength), FORCE_SCALE * strength)
            ix, iy, iz, ib = ix + jx, iy + jy, iz + jz, ib + jb
            store(fx, j, load(fx, j, WIDTH) - jx)
            store(fy, j, load(fy, j, WIDTH) - jy)
            store(fz, j, load(fz, j, WIDTH) - jz)
            store(fb, j, load(fb, j, WIDTH) + jb)
            clips |= clip
        fx[i] += total(ix)
        fy[i] += total(iy)
        fz[i] += total(iz)
        fb[i] += total(ib)
    return total(energy), np.int32(FLAG_FORCE_CLIPPED if clips != 0 else 0)


@njit(cache=True, error_model="numpy")
def integral_slopes_chunk(work, born, self_slope, radius_slope, start, stop, slopes):
    """dU/dI of atoms ``start:stop`` from all threads' du/d(log B), into ``slopes`` float32[padded], kJ/mol nm."""
    for i in range(start, stop):
        du_dlogb = np.int64(0)
        for t in range(work.shape[0]):
            du_dlogb += work[t, 3, i]
        du_db = np.float64(du_dlogb) / FORCE_SCALE / np.float64(born[i]) + self_slope[i]
        slopes[i] = du_db * radius_slope[i]


@njit(cache=True, error_model="numpy")
def born_forces_chunk(xyz, lattice32, spheres, neck, neck_scale, slopes, cutoff2, n, first, step, work):
    """Pass 3 for atoms ``first::step`` with all later ones into ``work`` as in pass 2; return the flag."""
    rho, s, radius, _ = spheres
    radius_index, d0, m0, d0_reversed, m0_reversed = neck
    fx, fy, fz = work[0], work[1], work[2]
    zero = broadcast(np.int64(0), WIDTH)
    clips = np.int64(0)
    for i in range(first, n, step):
        row = radius_index[i]
        ix, iy, iz = zero, zero, zero
        for j in range(i // WIDTH * WIDTH, n, WIDTH):
            dx, dy, dz, r2, r, inv_r = pair_distances(xyz, lattice32, i, j)
            slope_i = sphere_slope(r, inv_r, rho[i], load(s, j, WIDTH))
            slope_j = sphere_slope(r, inv_r, load(rho, j, WIDTH), s[i])
            if neck_scale != 0.0:
                reach = (load(radius, j, WIDTH) + radius[i]) + NECK_CUTOFF
                neck_i = neck_slope(r, load(d0[row], j, WIDTH), load(m0[row], j, WIDTH), reach)
                neck_j = neck_slope(r, load(d0_reversed[row], j, WIDTH), load(m0_reversed[row], j, WIDTH), reach)
                slope_i = fma(neck_i, neck_scale, slope_i)
                slope_j = fma(neck_j, neck_scale, slope_j)
            counted = later(i, j, n) & (r2 <= cutoff2)
            # a plain sum of two products: with an FMA it would not be the same with i and j exchanged
            du_dr = slopes[i] * slope_i + load(slopes, j, WIDTH) * slope_j
            jx, jy, jz, clip = fixed_force(select(counted, -du_dr * inv_r, 0.0), dx, dy, dz, 1.0)
            ix, iy, iz = ix + jx, iy + jy, iz + jz
            store(fx, j, load(fx, j, WIDTH) - jx)
            store(fy, j, load(fy, j, WIDTH) - jy)
            store(fz, j, load(fz, j, WIDTH) - jz)
            clips |= clip
        fx[i] += total(ix)
        fy[i] += total(iy)
        fz[i] += total(iz)
    return np.int32(FLAG_FORCE_CLIPPED if clips != 0 else 0)


@njit(parallel=True, cache=True, error_model="numpy")
def generalized_born(
    positions,
    lattice,
    atoms,
    spheres,
    radius_index,
    neck_tables,
    neck_scale,
    medium,
    cutoff,
    n_threads,
    xyz,
    integrals,
    per_atom,
    per_atom32,
    work,
    forces,
    energies,
    flags,
):
    """Polar solvation energy by generalised Born and, where asked for, the ACE surface energy.

    Parameters
    ----------
    positions : int32[n, 3], box fractions / 2**32
    lattice : float64[3, 3], box vectors / 2**32, nm
    atoms : float64[6, n]
        rho = radius - offset (nm), radius (nm), charge (e), and alpha, beta, gamma of the Born radius.
    spheres : float32[4, padded]
        rho, s = scale * rho, radius (nm) and charge (e); 1 nm, 0, 1 nm and 0 beyond n.
    radius_index : int32[n]
        Row of an atom's radius in ``neck_tables``.
    neck_tables : float32[4, radii, padded]
        d0 (nm) and m0 (1/nm) of (row's radius, radius of atom j), then d0 and m0 of (radius of atom j, row's radius).
    neck_scale : float
        0: no neck.
    medium : tuple of 6 float
        Coulomb constant (kJ/mol nm/e^2), 1/eps_in, 1/eps_out, kappa (1/nm), 1/cutoff (1/nm), surface energy (kJ/mol/nm^2).
    cutoff : float
        nm, may be inf.
    n_threads : int
    xyz : int32[3, padded], WORKSPACE
    integrals : int64[n], INTEGRAL_SCALE, OUTPUT
        Born integrals.
    per_atom : float64[2, n], WORKSPACE
    per_atom32 : float32[2, padded], OUTPUT
        Born radii (nm) and dU/dI (kJ/mol nm); INPUT 1 and 0 beyond n.
    work : int64[n_threads, 4, padded], WORKSPACE
    forces : int64[n_threads, n, 3], FORCE_SCALE, OUTPUT (added)
    energies : int64[n_threads], ENERGY_SCALE, OUTPUT (added)
    flags : int32[n_threads], FLAG_* bits, OUTPUT (or-ed)
    """
    n = len(positions)
    lattice32 = to_lattice32(lattice)
    strength = medium[0] * medium[1]
    medium32 = (np.float32(medium[2] / medium[1]), np.float32(medium[3]), np.float32(medium[4]))
    cutoff2 = np.float32(cutoff * cutoff)
    scale32 = np.float32(neck_scale)
    neck = (radius_index, neck_tables[0], neck_tables[1], neck_tables[2], neck_tables[3])
    sphere_rows = (spheres[0], spheres[1], spheres[2], spheres[3])
    atom_rows = (atoms[0], atoms[1], atoms[2], atoms[3], atoms[4], atoms[5])
    born, slopes = per_atom32[0], per_atom32[1]
    self_slope, radius_slope = per_atom[0], per_atom[1]
    for t in prange(n_threads):
        start, stop = chunk(n, t, n_threads)
        for i in range(start, stop):
            for k in range(3):
                xyz[k, i] = positions[i, k]
        work[t] = 0
    for t in prange(n_threads):
        start, stop = chunk(n, t, n_threads)
        born_integrals_chunk(xyz, lattice32, sphere_rows, neck, scale32, cutoff2, n, start, stop, integrals)
        energies[t] += born_radii_chunk(integrals, atom_rows, medium, start, stop, born, self_slope, radius_slope)
    for t in prange(n_threads):
        energy, flag = polar_pairs_chunk(
            xyz, lattice32, spheres[3], born, strength, medium32, cutoff2, n, t, n_threads, work[t]
        )
        energies[t] += energy
        flags[t] |= flag
    for t in prange(n_threads):
        start, stop = chunk(n, t, n_threads)
        integral_slopes_chunk(work, born, self_slope, radius_slope, start, stop, slopes)
    for t in prange(n_threads):
        flags[t] |= born_forces_chunk(
            xyz, lattice32, sphere_rows, neck, scale32, slopes, cutoff2, n, t, n_threads, work[t]
        )
        for i in range(n):
            add_force(forces[t], i, work[t, 0, i], work[t, 1, i], work[t, 2, i])
