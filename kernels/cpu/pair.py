"""Short-range pair forces on a cluster pair list: int32 positions in, int32 fixed-point forces out (DESIGN.md sections 2 and 5).

Forms (r < cutoff, u per pair; W = r F(r) is what the functions below pass around, for the vector force is W dr / r^2):

* Coulomb, q_i q_j times 1/r + k_rf r^2 - c_rf (reaction field; k_rf = c_rf = 0 is the plain one), or erfc(alpha r)/r (Ewald);
* Lennard-Jones, 4 eps ((s/r)^12 - (s/r)^6) by Lorentz-Berthelot from half sigmas and 2 sqrt(eps), or a/r^12 - b/r^6 by type pair;
  optionally switched off between a distance and the cutoff as OpenMM does, S(t) = 1 - 10 t^3 + 15 t^4 - 6 t^5;
* LJPME: the direct-space rest of the dispersion mesh, c6 (1 - exp(-x)(1 + x + x^2/2))/r^6 with x = (alpha_d r)^2 and geometric
  c6, and the shift that makes the difference of the combination rules vanish at the cutoff.

Bits: i and j enter every expression symmetrically or antisymmetrically, so a pair gives exactly opposite forces whichever of its
atoms is in the i-cluster; all is IEEE float32 with explicit fused multiply-adds; sums are integers. So the result depends on no
order, no width and no thread. A pair closer than ``CLOSEST`` is computed as if at that distance (and is clipped and flagged if
its atoms repel); coincident atoms get no force, for it has no direction.

Constants are scaled so that forces come out in units of ``PAIR_FORCE_SCALE``, a power of two, which rounds nothing.
"""

import numpy as np
from numba import njit, prange

from mdsim.kernels.cpu import ewald_fit, simd
from mdsim.kernels.cpu.clusters import CLUSTER
from mdsim.kernels.cpu.simd import (
    absolute,
    broadcast,
    constant,
    double_bits,
    fma,
    gather,
    load,
    mask_from_bits,
    mask_to_bits,
    maximum,
    minimum,
    rint_to_int,
    select,
    sqrt,
    store,
    to_double,
    to_float,
    total,
)
from mdsim.kernels.fixed_point import (
    ENERGY_BITS,
    ENERGY_LIMIT,
    FLAG_FORCE_CLIPPED,
    FORCE_BITS,
    PAIR_FORCE_BITS,
    PAIR_FORCE_LIMIT,
    PAIR_FORCE_SCALE,
)

#: nm; anything closer is taken to be at this distance
CLOSEST = 0.01

# compile-time flavour, replaced by ``specialise``
WIDTH = 8
EWALD = True
TABLE = False
LJPME = False
SWITCH = False
TRICLINIC = False
ENERGY = False

CLOSEST2 = np.float32(CLOSEST**2)
LIMIT = np.float32(PAIR_FORCE_LIMIT * PAIR_FORCE_SCALE)
ENERGY_CLIP = np.float32(ENERGY_LIMIT)
UNSCALE = np.float32(1.0 / PAIR_FORCE_SCALE)
#: adding this float64 rounds to a multiple of 2**-ENERGY_BITS, to be read from the low bits of the sum
ROUNDER = 1.5 * 2.0 ** (52 - ENERGY_BITS)
ROUNDER_BITS = int(np.float64(ROUNDER).view(np.int64))
SHIFT = FORCE_BITS - PAIR_FORCE_BITS
NEAR_OVERFLOW = 2**30

# places of the constants in the kernel's float32 array
CUTOFF2, K_RF2, K_RF, C_RF, SWITCH_START, SWITCH_SCALE, ALPHA, INVERSE_CUTOFF, DISPERSION_SHIFT = range(9)
FORCE_N = 9
FORCE_D = FORCE_N + len(ewald_fit.FORCE_NUMERATOR)
POTENTIAL_N = FORCE_D + len(ewald_fit.FORCE_DENOMINATOR)
POTENTIAL_D = POTENTIAL_N + len(ewald_fit.POTENTIAL_NUMERATOR)
DISPERSION_FORCE_N = POTENTIAL_D + len(ewald_fit.POTENTIAL_DENOMINATOR)
DISPERSION_FORCE_D = DISPERSION_FORCE_N + len(ewald_fit.DISPERSION_FORCE_NUMERATOR)
DISPERSION_N = DISPERSION_FORCE_D + len(ewald_fit.DISPERSION_FORCE_DENOMINATOR)
DISPERSION_D = DISPERSION_N + len(ewald_fit.DISPERSION_NUMERATOR)
N_CONSTANTS = DISPERSION_D + len(ewald_fit.DISPERSION_DENOMINATOR)


def _powers(coefficients, base, factor=1.0):
    """Coefficients of a polynomial in r^2 out of those of one in base * r^2, times a factor."""
    out = []
    for c in coefficients:
        out.append(c * factor)
        factor *= base
    return out


def pack_constants(
    cutoff, dielectric=np.inf, switch_distance=None, alpha=0.0, dispersion_alpha=0.0, reaction_field=True
):
    """The kernel's constants, float32[N_CONSTANTS]: products of float64, rounded once.

    Parameters
    ----------
    cutoff, switch_distance : float, nm
    dielectric : float, of the reaction field
    alpha, dispersion_alpha : float, 1/nm, of Ewald and of LJPME
    """
    c = np.zeros(N_CONSTANTS)
    c[CUTOFF2] = cutoff * cutoff
    c[ALPHA] = alpha
    c[INVERSE_CUTOFF] = 1.0 / cutoff
    if reaction_field and np.isfinite(cutoff):
        c[K_RF] = (dielectric - 1.0) / (2.0 * dielectric + 1.0) / (cutoff * cutoff * cutoff)
        c[K_RF2] = 2.0 * c[K_RF]
        c[C_RF] = 3.0 * dielectric / (2.0 * dielectric + 1.0) / cutoff
    if switch_distance is not None:
        c[SWITCH_START] = switch_distance
        c[SWITCH_SCALE] = 1.0 / (cutoff - switch_distance)
    a2, d2 = alpha * alpha, dispersion_alpha * dispersion_alpha
    for place, coefficients, base, factor in (
        (FORCE_N, ewald_fit.FORCE_NUMERATOR, a2, a2 * alpha),
        (FORCE_D, ewald_fit.FORCE_DENOMINATOR, a2, 1.0),
        (POTENTIAL_N, ewald_fit.POTENTIAL_NUMERATOR, a2, alpha),
        (POTENTIAL_D, ewald_fit.POTENTIAL_DENOMINATOR, a2, 1.0),
        (DISPERSION_FORCE_N, ewald_fit.DISPERSION_FORCE_NUMERATOR, d2, 6.0 * d2 * d2 * d2 * d2),
        (DISPERSION_FORCE_D, ewald_fit.DISPERSION_FORCE_DENOMINATOR, d2, 1.0),
        (DISPERSION_N, ewald_fit.DISPERSION_NUMERATOR, d2, d2 * d2 * d2),
        (DISPERSION_D, ewald_fit.DISPERSION_DENOMINATOR, d2, 1.0),
    ):
        c[place : place + len(coefficients)] = _powers(coefficients, base, factor)
    if dispersion_alpha:
        n, d = ewald_fit.DISPERSION_NUMERATOR, ewald_fit.DISPERSION_DENOMINATOR
        x = d2 * cutoff * cutoff
        c[DISPERSION_SHIFT] = d2 * d2 * d2 * ewald_fit.evaluate(n, x) / ewald_fit.evaluate(d, x)
    return c.astype(np.float32)


# ---- forms -------------------------------------------------------------------------------------------------------------


def polynomial(c, first, last, x):
    """c[first] + c[first + 1] x + ... + c[last - 1] x^(last - 1 - first), Horner with fused multiply-adds."""
    value = constant(c, last - 1, WIDTH)
    for k in range(last - first - 1):
        value = fma(value, x, constant(c, last - 2 - k, WIDTH))
    return value


def coulomb(qq, r2, r, c):
    """(W, u, 1/r) of a pair with charge product qq."""
    if EWALD:
        # erfc(ar)/r = 1/r - erf(ar)/r; the force of the second is r2 N/D; one division serves both: 1/(r D)
        denominator = polynomial(c, FORCE_D, POTENTIAL_N, r2)
        inverse = 1.0 / (r * denominator)
        r_inverse = inverse * denominator
        smooth = polynomial(c, FORCE_N, FORCE_D, r2) * (inverse * r)
        w = qq * fma(-r2, smooth, r_inverse)
    else:
        r_inverse = 1.0 / r
        w = qq * fma(-r2, constant(c, K_RF2, WIDTH), r_inverse)
    u = qq
    if ENERGY:
        if EWALD:
            smooth = polynomial(c, POTENTIAL_N, POTENTIAL_D, r2) / polynomial(c, POTENTIAL_D, DISPERSION_FORCE_N, r2)
            u = qq * (r_inverse - smooth)
        else:
            u = qq * (fma(r2, constant(c, K_RF, WIDTH), r_inverse) - constant(c, C_RF, WIDTH))
    return w, u, r_inverse


def lennard_jones(i_atom, j_atoms, r2, r, r_inverse, c, table):
    """(W, u) of the Lennard-Jones form; exactly 0 where an atom has no parameters."""
    _, i_half_sigma, i_epsilon, i_c6, i_type = i_atom
    _, j_half_sigma, j_epsilon, j_c6, j_type = j_atoms
    r_inverse2 = r_inverse * r_inverse
    if TABLE:
        index = i_type + j_type  # row of j, column of i; the table is symmetric
        r_inverse6 = r_inverse2 * r_inverse2 * r_inverse2
        attraction = gather(table[1], index) * r_inverse6
        repulsion = gather(table[0], index) * r_inverse6 * r_inverse6
    else:
        sigma = i_half_sigma + j_half_sigma
        ratio2 = sigma * sigma * r_inverse2
        ratio6 = ratio2 * ratio2 * ratio2
        epsilon = i_epsilon * j_epsilon
        attraction = epsilon * ratio6
        repulsion = attraction * ratio6
    w = fma(repulsion, 12.0, attraction * -6.0)
    u = repulsion - attraction
    if SWITCH:
        t = maximum((r - constant(c, SWITCH_START, WIDTH)) * constant(c, SWITCH_SCALE, WIDTH), 0.0)
        value = fma(t * t * t, fma(t, fma(t, -6.0, 15.0), -10.0), 1.0)
        slope = t * t * fma(t, fma(t, -30.0, 60.0), -30.0) * constant(c, SWITCH_SCALE, WIDTH)
        w = fma(w, value, -(u * (r * slope)))
        u = u * value
    if LJPME:
        c6 = i_c6 * j_c6
        smooth = polynomial(c, DISPERSION_FORCE_N, DISPERSION_FORCE_D, r2)
        w = fma(c6 * r2, smooth / polynomial(c, DISPERSION_FORCE_D, DISPERSION_N, r2), w)
        if ENERGY:
            smooth = polynomial(c, DISPERSION_N, DISPERSION_D, r2) / polynomial(c, DISPERSION_D, N_CONSTANTS, r2)
            ratio = (i_half_sigma + j_half_sigma) * constant(c, INVERSE_CUTOFF, WIDTH)
            ratio6 = ratio * ratio * ratio * (ratio * ratio * ratio)
            shift = i_epsilon * j_epsilon * (ratio6 - ratio6 * ratio6)
            u = u + fma(c6, smooth - constant(c, DISPERSION_SHIFT, WIDTH), shift)
    return w, u


def atom_against_cluster(vector, i_atom, j_atoms, with_lj, c, table):
    """(F, u_lj, u_coulomb, 1/r, r < cutoff) of an atom with W others, F > 0 for repulsion."""
    dx, dy, dz = vector
    distance2 = fma(dz, dz, fma(dy, dy, dx * dx))
    r2 = maximum(distance2, CLOSEST2)
    r = sqrt(r2)
    w, u_coulomb, r_inverse = coulomb(i_atom[0] * j_atoms[0], r2, r, c)
    u_lj = w
    if with_lj:
        w_lj, u_lj = lennard_jones(i_atom, j_atoms, r2, r, r_inverse, c, table)
        w = w + w_lj
    return w * r_inverse, u_lj, u_coulomb, r_inverse, distance2 < constant(c, CUTOFF2, WIDTH)


def vector_to_cluster(i, j_position, coordinates, lattice):
    """x_j - x_i of the nearest images, nm."""
    jx, jy, jz = j_position
    sx = to_float(jx - constant(coordinates[0], i, WIDTH))
    sy = to_float(jy - constant(coordinates[1], i, WIDTH))
    sz = to_float(jz - constant(coordinates[2], i, WIDTH))
    dx = sx * constant(lattice, 0, WIDTH)
    dy = sy * constant(lattice, 4, WIDTH)
    dz = sz * constant(lattice, 8, WIDTH)
    if TRICLINIC:
        dx = fma(sz, constant(lattice, 6, WIDTH), fma(sy, constant(lattice, 3, WIDTH), dx))
        dy = fma(sz, constant(lattice, 7, WIDTH), dy)
    return dx, dy, dz


def fixed_energy(u, counts):
    """Energies of the lanes that count, int64 lanes in ENERGY_SCALE units."""
    unscaled = minimum(maximum(u * UNSCALE, -ENERGY_CLIP), ENERGY_CLIP)
    return double_bits(to_double(select(counts, unscaled, np.float32(0.0))) + ROUNDER) - ROUNDER_BITS


# ---- loops -------------------------------------------------------------------------------------------------------------


def add_atoms(first, last, with_lj, masked, bits, i0, j_position, j_atoms, system, field, i_forces, sums):
    """Atoms ``first`` to ``last`` of the i-cluster that begins at slot ``i0``, against one j-cluster.

    ``with_lj`` and ``masked`` are constants once this is inlined. ``sums``: force on the j-cluster (x, y, z), largest |F|,
    Lennard-Jones and Coulomb energies; forces on i-atoms are added to ``i_forces`` int32[4 * 3 * W], which stays in the cache.
    """
    coordinates, parameters, types = system
    lattice, c, table, _ = field
    fx, fy, fz, peak, e_lj, e_coulomb = sums
    counts_all = mask_from_bits(np.uint64(0xFFFF), WIDTH)
    for a in range(first, last):
        i = i0 + a
        i_atom = (
            constant(parameters[0], i, WIDTH),
            constant(parameters[1], i, WIDTH),
            constant(parameters[2], i, WIDTH),
            constant(parameters[3], i, WIDTH),
            constant(types, i, WIDTH),
        )
        dx, dy, dz = vector_to_cluster(i, j_position, coordinates, lattice)
        force, u_lj, u_coulomb, r_inverse, counts = atom_against_cluster(
            (dx, dy, dz), i_atom, j_atoms, with_lj, c, table
        )
        allowed = mask_from_bits(bits >> np.uint64(a * WIDTH), WIDTH) if masked else counts_all
        counts = counts & allowed
        force = select(counts, force, np.float32(0.0))
        peak = maximum(peak, absolute(force))
        scale = minimum(maximum(force, -LIMIT), LIMIT) * r_inverse
        ix, iy, iz = rint_to_int(scale * dx), rint_to_int(scale * dy), rint_to_int(scale * dz)
        fx, fy, fz = fx + ix, fy + iy, fz + iz
        place = 3 * WIDTH * a
        store(i_forces, place, load(i_forces, place, WIDTH) - ix)
        store(i_forces, place + WIDTH, load(i_forces, place + WIDTH, WIDTH) - iy)
        store(i_forces, place + 2 * WIDTH, load(i_forces, place + 2 * WIDTH, WIDTH) - iz)
        if ENERGY:
            e_coulomb = e_coulomb + fixed_energy(u_coulomb, counts)
            if with_lj:
                e_lj = e_lj + fixed_energy(u_lj, counts)
    return fx, fy, fz, peak, e_lj, e_coulomb


def add_row(first, last, clusters, bits, masked, ci, n_lj, system, field, slot_forces, i_forces, sums):
    """i-cluster ``ci`` against the j-clusters ``clusters[first:last]``; its first ``n_lj`` atoms have Lennard-Jones."""
    coordinates, parameters, types = system
    peak, e_lj, e_coulomb = sums
    scale = np.float32(PAIR_FORCE_SCALE)
    n_types = np.int32(field[3])
    row_bits = np.uint64(0)
    for k in range(first, last):
        j = np.int64(clusters[k]) * WIDTH
        if masked:
            row_bits = bits[k]
        j_position = (load(coordinates[0], j, WIDTH), load(coordinates[1], j, WIDTH), load(coordinates[2], j, WIDTH))
        j_atoms = (
            load(parameters[0], j, WIDTH) * scale,
            load(parameters[1], j, WIDTH),
            load(parameters[2], j, WIDTH) * scale,
            load(parameters[3], j, WIDTH) * scale,
            load(types, j, WIDTH) * n_types,
        )
        all_sums = (
            load(slot_forces[0], j, WIDTH), load(slot_forces[1], j, WIDTH), load(slot_forces[2], j, WIDTH),
            peak, e_lj, e_coulomb,
        )  # fmt: skip
        i0 = ci * CLUSTER
        all_sums = add_atoms(
            0, n_lj, True, masked, row_bits, i0, j_position, j_atoms, system, field, i_forces, all_sums
        )
        all_sums = add_atoms(
            n_lj, CLUSTER, False, masked, row_bits, i0, j_position, j_atoms, system, field, i_forces, all_sums
        )
        fx, fy, fz, peak, e_lj, e_coulomb = all_sums
        store(slot_forces[0], j, fx)
        store(slot_forces[1], j, fy)
        store(slot_forces[2], j, fz)
    return peak, e_lj, e_coulomb


def pair_chunk(first_row, last_row, n_lj, rows, system, field, slot_forces, energies):
    """Rows ``first_row`` to ``last_row`` into one thread's forces and energies; returns whether a force was clipped."""
    plain_start, plain_end, plain, masked_start, masked_end, masked, masked_bits = rows
    slot_forces[:, :] = 0
    i_forces = np.zeros(CLUSTER * 3 * WIDTH, np.int32)
    zero = broadcast(np.int32(0), WIDTH)
    no_energy = broadcast(np.int64(0), WIDTH)
    sums = (broadcast(np.float32(0.0), WIDTH), no_energy, no_energy)
    for ci in range(first_row, last_row):
        for k in range(3 * CLUSTER):
            store(i_forces, k * WIDTH, zero)
        first, last, lj = masked_start[ci], masked_end[ci], n_lj[ci]
        sums = add_row(first, last, masked, masked_bits, True, ci, lj, system, field, slot_forces, i_forces, sums)
        first, last = plain_start[ci], plain_end[ci]
        sums = add_row(first, last, plain, masked_bits, False, ci, lj, system, field, slot_forces, i_forces, sums)
        for a in range(CLUSTER):
            for k in range(3):
                slot_forces[k, ci * CLUSTER + a] += total(load(i_forces, (3 * a + k) * WIDTH, WIDTH))
    peak, e_lj, e_coulomb = sums
    if ENERGY:
        energies[0] += total(e_lj)
        energies[1] += total(e_coulomb)
    return mask_to_bits(peak > LIMIT) != 0


def pair_forces(n_threads, row_bounds, n_lj, rows, system, field, slot_forces, energies, flags):
    """Forces of all cluster pairs.

    Parameters
    ----------
    row_bounds : int64[T + 1]
        i-clusters of each thread.
    n_lj : int32[n_slots / 4]
        Leading atoms of each i-cluster that have Lennard-Jones parameters.
    rows : the pair list, as ``pair_list.search`` and ``sort_rows`` make it
    system : (coordinates int32[3, n_slots] box fractions,
              parameters float32[4, n_slots]: charge * sqrt(1/4 pi eps0), sigma/2 nm, 2 sqrt(eps), sqrt(c6) for LJPME,
              types int32[n_slots])
    field : (lattice float32[9] nm, constants float32[N_CONSTANTS], table float32[2, n_types^2]: a, b * PAIR_FORCE_SCALE,
             n_types int)
    slot_forces : int32[T, 3, n_slots] OUTPUT, PAIR_FORCE_SCALE
    energies : int64[2, T] OUTPUT (added): Lennard-Jones, Coulomb; only if compiled with energies
    flags : int32[T] OUTPUT (or-ed)
    """
    for t in prange(n_threads):
        thread_energies = np.zeros(2, np.int64)
        clipped = pair_chunk(
            row_bounds[t], row_bounds[t + 1], n_lj, rows, system, field, slot_forces[t], thread_energies
        )
        if ENERGY:
            energies[0, t] += thread_energies[0]
            energies[1, t] += thread_energies[1]
        if clipped:
            flags[t] |= FLAG_FORCE_CLIPPED


@njit(parallel=True, cache=True, error_model="numpy")
def reduce_forces(slot_atom, slot_forces, n_threads, forces, flags):
    """Sum the threads' int32 forces and add them to the atoms' int64 forces.

    Parameters
    ----------
    slot_atom : int32[n_slots], -1 for padding
    slot_forces : int32[T, 3, n_slots], PAIR_FORCE_SCALE
    forces : int64[T, n, 3] OUTPUT (added), FORCE_SCALE
    flags : int32[T] OUTPUT (or-ed): FLAG_FORCE_CLIPPED where a total is within a factor of two of overflow
    """
    n_slots = len(slot_atom)
    for t in prange(n_threads):
        flag = np.int32(0)
        for slot in range(n_slots * t // n_threads, n_slots * (t + 1) // n_threads):
            atom = slot_atom[slot]
            if atom < 0:
                continue
            for k in range(3):
                force = np.int32(0)
                for u in range(n_threads):
                    force = np.int32(force + slot_forces[u, k, slot])
                if abs(np.int64(force)) >= NEAR_OVERFLOW:
                    flag = np.int32(FLAG_FORCE_CLIPPED)
                forces[t, atom, k] += np.int64(force) << SHIFT
        flags[t] |= flag


_TEMPLATES = [
    (polynomial, simd.INLINE),
    (coulomb, simd.INLINE),
    (lennard_jones, simd.INLINE),
    (atom_against_cluster, simd.INLINE),
    (fixed_energy, simd.INLINE),
    (vector_to_cluster, simd.INLINE),
    (add_atoms, simd.INLINE),
    (add_row, simd.INLINE),
    (pair_chunk, simd.INTERNAL),
    (pair_forces, {"parallel": True}),
]
_flavours = {}


def pair_kernel(width, ewald, table, ljpme, switch, triclinic, energy):
    """``pair_forces`` compiled for one flavour (see the module docstring)."""
    flavour = (width, bool(ewald), bool(table), bool(ljpme), bool(switch), bool(triclinic), bool(energy))
    if flavour not in _flavours:
        names = ("EWALD", "TABLE", "LJPME", "SWITCH", "TRICLINIC", "ENERGY")
        constants = dict(zip(names, flavour[1:], strict=True))
        suffix = "_".join([f"w{width}", *(name.lower() for name in names if constants[name])])
        compiled = simd.specialise(
            _TEMPLATES, globals(), suffix, {"WIDTH": width, **constants}, cache=True, error_model="numpy"
        )
        _flavours[flavour] = compiled
    return _flavours[flavour]["pair_forces"]
