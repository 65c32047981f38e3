"""Smooth particle-mesh Ewald on the CPU: spread charges, influence functions, gather forces.

Essmann et al., J. Chem. Phys. 103, 8577 (1995). Grids have shape (nx, ny, nz) and hold the whole box. Those that atoms
write to and read from have GRID_PAD more points at the end of each z line, so that a row of B-spline weights never
wraps inside a line. Where an atom lies on the grid is integer arithmetic on its position (DESIGN.md section 2):
fraction times points, the high 32 bits are the grid point and the low 32 bits the offset from it. Weights and grid
values are float32; sums over atoms and waves are integers.
"""

import numpy as np
from numba import njit, prange

from mdsim.kernels.bspline import MAX_ORDER, N_WEIGHTS
from mdsim.kernels.cpu.fixed import add_force, to_fixed_energy, to_fixed_force3
from mdsim.kernels.cpu.mathlib import cos, erfc, exp, sin
from mdsim.kernels.cpu.simd import broadcast, fma, load, rint_to_int, store

#: points added to each z line of padded grids
GRID_PAD = N_WEIGHTS

PI = 3.141592653589793
SQRT_PI = 1.7724538509055160273

kernel = njit(parallel=True, cache=True, error_model="numpy")
inline = njit(cache=True, error_model="numpy")


@inline
def grid_point(fraction, n_points):
    """Grid point below a position and the offset from it in grid spacings, float32 in [0, 1), cut to 24 bits."""
    u = np.uint64(np.uint32(fraction)) * np.uint64(n_points)
    offset = np.int32((u & np.uint64(0xFFFFFFFF)) >> np.uint64(8))
    return np.int64(u >> np.uint64(32)), np.float32(offset) * np.float32(2.0**-24)


@inline
def evaluate(polynomials, w):
    """Polynomials at w, all weights of one direction at once; ``polynomials`` flat, N_WEIGHTS for each power."""
    result = load(polynomials, (MAX_ORDER - 1) * N_WEIGHTS, N_WEIGHTS)
    for p in range(MAX_ORDER - 2, -1, -1):
        result = fma(result, w, load(polynomials, p * N_WEIGHTS, N_WEIGHTS))
    return result


@kernel
def spread_charges(positions, charges, values, n_threads, grids):
    """Spread charges over their order**3 nearest grid points (Essmann eq. 4.6), each thread into a grid of its own.

    Parameters
    ----------
    positions : int32[n, 3]
        Box fractions; atoms beyond ``len(charges)`` (ghosts) are not looked at.
    charges : float32[n_local]
        Charges in units of the grid's fixed point.
    values : float32[MAX_ORDER, N_WEIGHTS]
        B-spline polynomials (``bspline.bspline_polynomials``).
    n_threads : int
    grids : int32[n_threads, nx, ny, nz + GRID_PAD], OUTPUT (added)
    """
    n = charges.shape[0]
    nx, ny, stride = grids.shape[1:]
    polynomials = values.reshape(-1)
    for t in prange(n_threads):
        grid = grids[t].reshape(-1)
        theta_x = np.empty(N_WEIGHTS, dtype=np.float32)
        theta_y = np.empty(N_WEIGHTS, dtype=np.float32)
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            x, wx = grid_point(positions[i, 0], nx)
            y, wy = grid_point(positions[i, 1], ny)
            z, wz = grid_point(positions[i, 2], stride - GRID_PAD)
            store(theta_x, 0, evaluate(polynomials, wx))
            store(theta_y, 0, evaluate(polynomials, wy))
            theta_z = evaluate(polynomials, wz)
            for jx in range(MAX_ORDER):
                gx = x + jx if x + jx < nx else x + jx - nx
                charge_x = charges[i] * theta_x[jx]
                for jy in range(MAX_ORDER):
                    gy = y + jy if y + jy < ny else y + jy - ny
                    row = (gx * ny + gy) * stride + z
                    points = load(grid, row, N_WEIGHTS)
                    store(grid, row, points + rint_to_int((charge_x * theta_y[jy]) * theta_z))


@kernel
def collect_charges(grids, scale, n_threads, charge_grid):
    """Sum the threads' grids, fold the padding back, convert to float32, and leave the grids zero for the next call.

    Parameters
    ----------
    grids : int32[n_threads, nx, ny, nz + GRID_PAD], INPUT and OUTPUT (zeroed)
    scale : float32
        Charge of one fixed-point unit, a power of two.
    n_threads : int
    charge_grid : float32[nx, ny, nz], OUTPUT
    """
    nx, ny, nz = charge_grid.shape
    for t in prange(n_threads):
        for gx in range(nx * t // n_threads, nx * (t + 1) // n_threads):
            for gy in range(ny):
                line = grids[0, gx, gy]
                for b in range(1, grids.shape[0]):
                    for z in range(nz + GRID_PAD):
                        line[z] += grids[b, gx, gy, z]
                        grids[b, gx, gy, z] = 0
                for z in range(GRID_PAD):
                    line[z % nz] += line[nz + z]
                for z in range(nz):
                    charge_grid[gx, gy, z] = np.float32(line[z]) * scale
                for z in range(nz + GRID_PAD):
                    line[z] = 0


@njit(cache=True, error_model="numpy")
def bspline_moduli(knots, moduli):
    """Squared moduli of the B-spline's Fourier coefficients on a grid line (Essmann eq. 4.4, the inverse of |b(m)|^2).

    Odd orders have a zero at the highest wave of an even grid; it gets the mean of its neighbours, as in OpenMM.

    Parameters
    ----------
    knots : float64[order - 1]
        The B-spline at whole numbers (``bspline.bspline_at_knots``).
    moduli : float64[n], OUTPUT
    """
    n = moduli.shape[0]
    for m in range(n):
        real = 0.0
        imaginary = 0.0
        for k in range(knots.shape[0]):
            angle = 2.0 * PI * ((m * k) % n) / n
            real += knots[k] * cos(angle)
            imaginary += knots[k] * sin(angle)
        moduli[m] = real * real + imaginary * imaginary
    for m in range(n):
        if moduli[m] < 1e-7:
            moduli[m] = 0.5 * (moduli[m - 1] + moduli[(m + 1) % n])


@inline
def wave_squared(ix, iy, iz, nx, ny, nz, inverse):
    """|m|^2, 1/nm^2, of the wave at a place of the transformed grid; the upper halves hold negative frequencies."""
    mx = ix if 2 * ix < nx else ix - nx
    my = iy if 2 * iy < ny else iy - ny
    mz = iz if 2 * iz < nz else iz - nz
    hx = mx * inverse[0, 0]
    hy = mx * inverse[1, 0] + my * inverse[1, 1]
    hz = (mx * inverse[2, 0] + my * inverse[2, 1]) + mz * inverse[2, 2]
    return (hx * hx + hy * hy) + hz * hz


@kernel
def coulomb_influence(inverse, volume, alpha, coulomb, moduli_x, moduli_y, moduli_z, n_threads, influence):
    """Influence function of the Coulomb mesh: potential per charge of each wave (Essmann eq. 4.8).

    Parameters
    ----------
    inverse : float64[3, 3]
        Inverse box, lower triangular (``Box.inverse``), 1/nm.
    volume, alpha, coulomb : float
        nm^3, 1/nm, kJ nm / mol / e^2.
    moduli_x, moduli_y, moduli_z : float64[nx], float64[ny], float64[nz]
    n_threads : int
    influence : float32[nx, ny, padded_waves(nz)], OUTPUT
        kJ/mol/e^2: energy = 1/2 sum influence |structure factor|^2. Zero for the zero wave.
    """
    nx, ny, nz = moduli_x.shape[0], moduli_y.shape[0], moduli_z.shape[0]
    decay = -(PI * PI) / (alpha * alpha)
    prefactor = coulomb / (PI * volume)
    for t in prange(n_threads):
        for ix in range(nx * t // n_threads, nx * (t + 1) // n_threads):
            for iy in range(ny):
                for iz in range(nz // 2 + 1):
                    m2 = wave_squared(ix, iy, iz, nx, ny, nz, inverse)
                    modulus = (moduli_x[ix] * moduli_y[iy]) * moduli_z[iz]
                    value = 0.0
                    if ix + iy + iz > 0:
                        value = prefactor * exp(decay * m2) / (m2 * modulus)
                    influence[ix, iy, iz] = np.float32(value)


@kernel
def dispersion_influence(inverse, volume, alpha, moduli_x, moduli_y, moduli_z, n_threads, influence):
    """Influence function of the mesh for -c_i c_j / r^6 (Essmann sec. 5); arguments as in ``coulomb_influence``."""
    nx, ny, nz = moduli_x.shape[0], moduli_y.shape[0], moduli_z.shape[0]
    prefactor = -PI * SQRT_PI * alpha * alpha * alpha / (3.0 * volume)
    for t in prange(n_threads):
        for ix in range(nx * t // n_threads, nx * (t + 1) // n_threads):
            for iy in range(ny):
                for iz in range(nz // 2 + 1):
                    b2 = wave_squared(ix, iy, iz, nx, ny, nz, inverse) * (PI * PI / (alpha * alpha))
                    b = np.sqrt(b2)
                    modulus = (moduli_x[ix] * moduli_y[iy]) * moduli_z[iz]
                    shape = (1.0 - 2.0 * b2) * exp(-b2) + 2.0 * SQRT_PI * b * b2 * erfc(b)
                    influence[ix, iy, iz] = np.float32(prefactor * shape / modulus)


@kernel
def reciprocal_energy(waves, influence, nz, n_threads, energies):
    """Energy of the mesh, 1/2 sum over waves of influence |S|^2.

    A wave between the ends of z stands for its complex conjugate too.

    Parameters
    ----------
    waves : float32[nx, ny, 2, padded_waves(nz)]
        Transformed charge grid, real and imaginary rows along z.
    influence : float32[nx, ny, padded_waves(nz)]
    nz, n_threads : int
    energies : int64[n_threads], OUTPUT (added), ENERGY_SCALE
    """
    nx, ny = waves.shape[:2]
    for t in prange(n_threads):
        energy = np.int64(0)
        for ix in range(nx * t // n_threads, nx * (t + 1) // n_threads):
            for iy in range(ny):
                for iz in range(nz // 2 + 1):
                    real = np.float64(waves[ix, iy, 0, iz])
                    imaginary = np.float64(waves[ix, iy, 1, iz])
                    weight = 0.5 if iz == 0 or 2 * iz == nz else 1.0
                    square = real * real + imaginary * imaginary
                    energy += to_fixed_energy(weight * np.float64(influence[ix, iy, iz]) * square)
        energies[t] += energy


@kernel
def convolve(influence, n_threads, waves):
    """Multiply the transformed charges by the influence function: ``waves`` as above, INPUT and OUTPUT."""
    nx, ny, _, row = waves.shape
    for t in prange(n_threads):
        for ix in range(nx * t // n_threads, nx * (t + 1) // n_threads):
            for iy in range(ny):
                for part in range(2):
                    for iz in range(row):
                        waves[ix, iy, part, iz] *= influence[ix, iy, iz]


@kernel
def wrap_lines(n_threads, potential):
    """Repeat the first points of each z line in its padding: ``potential`` float32[nx, ny, nz + GRID_PAD], OUTPUT."""
    nx, ny, stride = potential.shape
    nz = stride - GRID_PAD
    for t in prange(n_threads):
        for gx in range(nx * t // n_threads, nx * (t + 1) // n_threads):
            for gy in range(ny):
                for z in range(GRID_PAD):
                    potential[gx, gy, nz + z] = potential[gx, gy, z % nz]


@inline
def lane_sum(vector, lanes):
    """Sum, float64, of the first MAX_ORDER lanes, the others being 0; ``lanes`` float32[N_WEIGHTS] is scratch."""
    store(lanes, 0, vector)
    result = np.float64(lanes[0])
    for j in range(1, MAX_ORDER):
        result += np.float64(lanes[j])
    return result


@kernel
def gather_forces(positions, charges, inverse, potential, values, slopes, n_threads, forces, totals, flags):
    """Force on each charge from the potential grid, -q grad phi (Essmann eq. 4.9).

    Parameters
    ----------
    positions, values : as in ``spread_charges``
    charges : float64[n_local]
    inverse : float64[3, 3]
        Inverse box, lower triangular, 1/nm.
    potential : float32[nx, ny, nz + GRID_PAD]
    slopes : float32[MAX_ORDER, N_WEIGHTS]
        Derivatives of the B-spline polynomials.
    n_threads : int
    forces : int64[n_threads, n, 3], OUTPUT (added), FORCE_SCALE
    totals : int64[n_threads, 3], OUTPUT
        Sum of the forces that each thread added.
    flags : int32[n_threads], OUTPUT (or-ed)
    """
    n = charges.shape[0]
    nx, ny, stride = potential.shape
    nz = stride - GRID_PAD
    grid = potential.reshape(-1)
    polynomials, slope_polynomials = values.reshape(-1), slopes.reshape(-1)
    for t in prange(n_threads):
        theta_x = np.empty(N_WEIGHTS, dtype=np.float32)
        theta_y = np.empty(N_WEIGHTS, dtype=np.float32)
        slope_x = np.empty(N_WEIGHTS, dtype=np.float32)
        slope_y = np.empty(N_WEIGHTS, dtype=np.float32)
        lanes = np.empty(N_WEIGHTS, dtype=np.float32)
        totals[t] = 0
        flag = np.int32(0)
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            x, wx = grid_point(positions[i, 0], nx)
            y, wy = grid_point(positions[i, 1], ny)
            z, wz = grid_point(positions[i, 2], nz)
            store(theta_x, 0, evaluate(polynomials, wx))
            store(theta_y, 0, evaluate(polynomials, wy))
            store(slope_x, 0, evaluate(slope_polynomials, wx))
            store(slope_y, 0, evaluate(slope_polynomials, wy))
            # sums over x and y for each of the points along z
            along_x = broadcast(np.float32(0.0), N_WEIGHTS)
            along_y = broadcast(np.float32(0.0), N_WEIGHTS)
            along_z = broadcast(np.float32(0.0), N_WEIGHTS)
            for jx in range(MAX_ORDER):
                gx = x + jx if x + jx < nx else x + jx - nx
                plane = broadcast(np.float32(0.0), N_WEIGHTS)
                plane_slope = broadcast(np.float32(0.0), N_WEIGHTS)
                for jy in range(MAX_ORDER):
                    gy = y + jy if y + jy < ny else y + jy - ny
                    points = load(grid, (gx * ny + gy) * stride + z, N_WEIGHTS)
                    plane = fma(points, theta_y[jy], plane)
                    plane_slope = fma(points, slope_y[jy], plane_slope)
                along_x = fma(plane, slope_x[jx], along_x)
                along_y = fma(plane_slope, theta_x[jx], along_y)
                along_z = fma(plane, theta_x[jx], along_z)
            theta_z = evaluate(polynomials, wz)
            gradient_x = lane_sum(along_x * theta_z, lanes)
            gradient_y = lane_sum(along_y * theta_z, lanes)
            gradient_z = lane_sum(along_z * evaluate(slope_polynomials, wz), lanes)
            # derivatives by box fractions, then by nm
            sx = -charges[i] * (nx * gradient_x)
            sy = -charges[i] * (ny * gradient_y)
            sz = -charges[i] * (nz * gradient_z)
            fx = inverse[0, 0] * sx
            fy = inverse[1, 0] * sx + inverse[1, 1] * sy
            fz = (inverse[2, 0] * sx + inverse[2, 1] * sy) + inverse[2, 2] * sz
            ix, iy, iz, clipped = to_fixed_force3(fx, fy, fz)
            add_force(forces[t], i, ix, iy, iz)
            totals[t, 0] += ix
            totals[t, 1] += iy
            totals[t, 2] += iz
            flag |= clipped
        flags[t] |= flag


@kernel
def subtract_net_force(ids, mean, remainder, n_threads, forces):
    """Take the mesh's net force off, an equal share from every atom, so that its forces sum to exactly zero.

    Parameters
    ----------
    ids : int32[n_local]
        Global atom ids.
    mean : int64[3]
        Whole share of each atom.
    remainder : int64[3]
        Units left over, 0 <= remainder < number of atoms: one more from each atom with a smaller id.
    n_threads : int
    forces : int64[n_threads, n, 3], OUTPUT (added), FORCE_SCALE
    """
    n = ids.shape[0]
    for t in prange(n_threads):
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            for k in range(3):
                forces[t, i, k] -= mean[k] + (1 if ids[i] < remainder[k] else 0)
