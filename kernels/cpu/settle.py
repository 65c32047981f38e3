"""Rigid triangles with two equal sides and two equal masses (water): SETTLE, Miyamoto & Kollman, J. Comput. Chem. 13, 952 (1992).

Molecule ``w`` has the apex A = atoms[w, 0] and the base B, C = atoms[w, 1:]. Threads take whole molecules, so no two write to
the same atom. Molecules are handled in blocks: gathered into the rows of a ``work`` array, solved, scattered. A row is BLOCK long,
a constant, so that the compiler sees that rows do not overlap and vectorises the solution (16 ns a molecule on AVX2, not 84).
"""

from math import sqrt

import numpy as np
from numba import njit, prange

from mdsim.kernels.cpu.fixed import displacement
from mdsim.kernels.cpu.mathlib import inline
from mdsim.kernels.fixed_point import FLAG_CONSTRAINT

#: molecules solved at a time
BLOCK = 64
#: rows of ``work`` for displacements: old B and C from old A; A, B, C displaced; the canonical triangle
OLD_B, OLD_C, NEW_A, NEW_B, NEW_C, TRIANGLE, DISPLACEMENT_ROWS = 0, 3, 6, 9, 12, 15, 20
#: rows of ``work`` for velocities: vectors along the sides; velocities; inverse masses of A, B, C
AB, BC, CA, V_A, V_B, V_C, INVERSE_MASSES, VELOCITY_ROWS = 0, 3, 6, 9, 12, 15, 18, 21


@inline
def cross(ax, ay, az, bx, by, bz):
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@inline
def dot(ax, ay, az, bx, by, bz):
    return (ax * bx + ay * by) + az * bz


@inline
def unit(ax, ay, az):
    inverse = 1.0 / sqrt((ax * ax + ay * ay) + az * az)
    return ax * inverse, ay * inverse, az * inverse


@inline
def get3(work, row, w):
    """Three rows of column ``w``."""
    return work[row * BLOCK + w], work[(row + 1) * BLOCK + w], work[(row + 2) * BLOCK + w]


@inline
def put3(work, row, w, x, y, z):
    work[row * BLOCK + w] = x
    work[(row + 1) * BLOCK + w] = y
    work[(row + 2) * BLOCK + w] = z


@inline
def rotate_triangle(b0x, b0y, c0x, c0y, az, bx, by, bz, cx, cy, cz, ra, rb, rc):
    """Rotations phi, psi, theta that put the canonical triangle where the constraints want it (equations A5 to A17).

    Old base atoms ``b0``, ``c0`` and new atoms ``a``, ``b``, ``c`` in the molecule's frame, nm; ``ra``, ``rb``, ``rc`` the
    canonical triangle: apex at (0, ra), base at (-rc, -rb) and (rc, -rb) about the centre of mass. Returns the new in-plane
    coordinates (ax, ay, bx, by, cx, cy); NaN where there is no solution.
    """
    sin_phi = az / ra
    cos_phi = sqrt(1.0 - sin_phi * sin_phi)
    sin_psi = (bz - cz) / (2.0 * rc * cos_phi)
    cos_psi = sqrt(1.0 - sin_psi * sin_psi)
    y_a = ra * cos_phi
    x_b = -rc * cos_psi
    tilt = rc * sin_psi * sin_phi
    y_b = -rb * cos_phi - tilt
    y_c = -rb * cos_phi + tilt

    alpha = x_b * (b0x - c0x) + (b0y * y_b + c0y * y_c)
    beta = x_b * (c0y - b0y) + (b0x * y_b + c0x * y_c)
    gamma = (b0x * by - bx * b0y) + (c0x * cy - cx * c0y)
    norm2 = alpha * alpha + beta * beta
    sin_theta = (alpha * gamma - beta * sqrt(norm2 - gamma * gamma)) / norm2
    cos_theta = sqrt(1.0 - sin_theta * sin_theta)
    return (
        -y_a * sin_theta,
        y_a * cos_theta,
        x_b * cos_theta - y_b * sin_theta,
        x_b * sin_theta + y_b * cos_theta,
        -x_b * cos_theta - y_c * sin_theta,
        -x_b * sin_theta + y_c * cos_theta,
    )


@njit(cache=True, error_model="numpy")
def solve_displacements(work):
    """Replace the displacements in a block by those that keep the triangles; NaN where there are none."""
    for w in range(BLOCK):
        b0x, b0y, b0z = get3(work, OLD_B, w)
        c0x, c0y, c0z = get3(work, OLD_C, w)
        ax, ay, az = get3(work, NEW_A, w)
        bx, by, bz = get3(work, NEW_B, w)
        cx, cy, cz = get3(work, NEW_C, w)
        weight_a, weight_b, ra = get3(work, TRIANGLE, w)
        rb, rc = work[(TRIANGLE + 3) * BLOCK + w], work[(TRIANGLE + 4) * BLOCK + w]

        # new atoms from their centre of mass m, which is reckoned from the old apex
        bx, by, bz = bx + b0x, by + b0y, bz + b0z
        cx, cy, cz = cx + c0x, cy + c0y, cz + c0z
        mx = weight_a * ax + weight_b * (bx + cx)
        my = weight_a * ay + weight_b * (by + cy)
        mz = weight_a * az + weight_b * (bz + cz)
        ax, ay, az = ax - mx, ay - my, az - mz
        bx, by, bz = bx - mx, by - my, bz - mz
        cx, cy, cz = cx - mx, cy - my, cz - mz

        # frame: Z normal to the old plane, Y towards the new apex
        zx, zy, zz = cross(b0x, b0y, b0z, c0x, c0y, c0z)
        xx, xy, xz = cross(ax, ay, az, zx, zy, zz)
        yx, yy, yz = cross(zx, zy, zz, xx, xy, xz)
        inverse_z = 1.0 / sqrt(dot(zx, zy, zz, zx, zy, zz))
        inverse_x = 1.0 / sqrt(dot(xx, xy, xz, xx, xy, xz))
        inverse_y = inverse_z * inverse_x
        xx, xy, xz = xx * inverse_x, xy * inverse_x, xz * inverse_x
        yx, yy, yz = yx * inverse_y, yy * inverse_y, yz * inverse_y
        zx, zy, zz = zx * inverse_z, zy * inverse_z, zz * inverse_z
        a_z = dot(zx, zy, zz, ax, ay, az)
        b_z = dot(zx, zy, zz, bx, by, bz)
        c_z = dot(zx, zy, zz, cx, cy, cz)
        a_x, a_y, b_x, b_y, c_x, c_y = rotate_triangle(
            dot(xx, xy, xz, b0x, b0y, b0z),
            dot(yx, yy, yz, b0x, b0y, b0z),
            dot(xx, xy, xz, c0x, c0y, c0z),
            dot(yx, yy, yz, c0x, c0y, c0z),
            a_z,
            dot(xx, xy, xz, bx, by, bz),
            dot(yx, yy, yz, bx, by, bz),
            b_z,
            dot(xx, xy, xz, cx, cy, cz),
            dot(yx, yy, yz, cx, cy, cz),
            c_z,
            ra,
            rb,
            rc,
        )

        # back to the laboratory: X x + Y y + Z z
        ax, ay, az = xx * a_x + yx * a_y + zx * a_z, xy * a_x + yy * a_y + zy * a_z, xz * a_x + yz * a_y + zz * a_z
        bx, by, bz = xx * b_x + yx * b_y + zx * b_z, xy * b_x + yy * b_y + zy * b_z, xz * b_x + yz * b_y + zz * b_z
        cx, cy, cz = xx * c_x + yx * c_y + zx * c_z, xy * c_x + yy * c_y + zy * c_z, xz * c_x + yz * c_y + zz * c_z
        put3(work, NEW_A, w, mx + ax, my + ay, mz + az)
        put3(work, NEW_B, w, mx + bx - b0x, my + by - b0y, mz + bz - b0z)
        put3(work, NEW_C, w, mx + cx - c0x, my + cy - c0y, mz + cz - c0z)


@njit(parallel=True, cache=True, error_model="numpy")
def settle_displacements(positions, lattice, atoms, triangles, dx, n_threads, flags):
    """Change displacements so that the molecules keep their shape, along the old bonds and with the momentum unchanged.

    Parameters
    ----------
    positions : int32[n, 3], box fractions at the start of the step
    lattice : float64[3, 3], nm
    atoms : int32[w, 3]
    triangles : float64[w, 5]
        Share of the mass in A and in B (or C); and nm: ra, rb, rc of ``rotate_triangle``.
    dx : float64[n, 3], nm, OUTPUT (updated): displacements from ``positions``; left alone where there is no solution
    flags : int32[n_threads], OUTPUT (or-ed)
    """
    m = len(atoms)
    for t in prange(n_threads):
        flag = np.int32(0)
        work = np.zeros(DISPLACEMENT_ROWS * BLOCK)
        last = m * (t + 1) // n_threads
        for first in range(m * t // n_threads, last, BLOCK):
            count = min(BLOCK, last - first)
            for w in range(count):
                a, b, c = atoms[first + w, 0], atoms[first + w, 1], atoms[first + w, 2]
                bx, by, bz = displacement(positions, lattice, b, a)
                cx, cy, cz = displacement(positions, lattice, c, a)
                put3(work, OLD_B, w, bx, by, bz)
                put3(work, OLD_C, w, cx, cy, cz)
                put3(work, NEW_A, w, dx[a, 0], dx[a, 1], dx[a, 2])
                put3(work, NEW_B, w, dx[b, 0], dx[b, 1], dx[b, 2])
                put3(work, NEW_C, w, dx[c, 0], dx[c, 1], dx[c, 2])
                for k in range(5):
                    work[(TRIANGLE + k) * BLOCK + w] = triangles[first + w, k]
            solve_displacements(work)
            for w in range(count):
                a, b, c = atoms[first + w, 0], atoms[first + w, 1], atoms[first + w, 2]
                if np.isnan(work[NEW_C * BLOCK + w]):
                    flag |= np.int32(FLAG_CONSTRAINT)
                    continue
                dx[a, 0], dx[a, 1], dx[a, 2] = get3(work, NEW_A, w)
                dx[b, 0], dx[b, 1], dx[b, 2] = get3(work, NEW_B, w)
                dx[c, 0], dx[c, 1], dx[c, 2] = get3(work, NEW_C, w)
        flags[t] |= flag


@njit(cache=True, error_model="numpy")
def solve_velocities(work):
    """Take out the velocities along the sides in a block: a symmetric 3 x 3 system for the impulses, by cofactors."""
    for w in range(BLOCK):
        abx, aby, abz = get3(work, AB, w)
        bcx, bcy, bcz = get3(work, BC, w)
        cax, cay, caz = get3(work, CA, w)
        vax, vay, vaz = get3(work, V_A, w)
        vbx, vby, vbz = get3(work, V_B, w)
        vcx, vcy, vcz = get3(work, V_C, w)
        wa, wb, wc = get3(work, INVERSE_MASSES, w)
        abx, aby, abz = unit(abx, aby, abz)
        bcx, bcy, bcz = unit(bcx, bcy, bcz)
        cax, cay, caz = unit(cax, cay, caz)
        u_ab = dot(abx, aby, abz, vbx - vax, vby - vay, vbz - vaz)
        u_bc = dot(bcx, bcy, bcz, vcx - vbx, vcy - vby, vcz - vbz)
        u_ca = dot(cax, cay, caz, vax - vcx, vay - vcy, vaz - vcz)

        # what an impulse along one side does to the velocity along another
        m00, m11, m22 = wa + wb, wb + wc, wc + wa
        m01 = -wb * dot(abx, aby, abz, bcx, bcy, bcz)
        m12 = -wc * dot(bcx, bcy, bcz, cax, cay, caz)
        m02 = -wa * dot(cax, cay, caz, abx, aby, abz)
        c00, c01, c02 = m11 * m22 - m12 * m12, m02 * m12 - m01 * m22, m01 * m12 - m02 * m11
        c11, c12, c22 = m00 * m22 - m02 * m02, m01 * m02 - m00 * m12, m00 * m11 - m01 * m01
        inverse = 1.0 / ((m00 * c00 + m01 * c01) + m02 * c02)
        p_ab = ((c00 * u_ab + c01 * u_bc) + c02 * u_ca) * inverse
        p_bc = ((c01 * u_ab + c11 * u_bc) + c12 * u_ca) * inverse
        p_ca = ((c02 * u_ab + c12 * u_bc) + c22 * u_ca) * inverse

        put3(
            work, V_A, w,
            vax + wa * (p_ab * abx - p_ca * cax), vay + wa * (p_ab * aby - p_ca * cay), vaz + wa * (p_ab * abz - p_ca * caz),
        )  # fmt: skip
        put3(
            work, V_B, w,
            vbx + wb * (p_bc * bcx - p_ab * abx), vby + wb * (p_bc * bcy - p_ab * aby), vbz + wb * (p_bc * bcz - p_ab * abz),
        )  # fmt: skip
        put3(
            work, V_C, w,
            vcx + wc * (p_ca * cax - p_bc * bcx), vcy + wc * (p_ca * cay - p_bc * bcy), vcz + wc * (p_ca * caz - p_bc * bcz),
        )  # fmt: skip


@njit(parallel=True, cache=True, error_model="numpy")
def settle_velocities(positions, lattice, atoms, inverse_masses, velocities, n_threads):
    """Take out the velocities along the three sides, by impulses along them.

    Parameters
    ----------
    positions : int32[n, 3], box fractions
    lattice : float64[3, 3], nm
    atoms : int32[w, 3]
    inverse_masses : float64[n], 1/amu
    velocities : float64[n, 3], nm/ps, OUTPUT (updated)
    """
    m = len(atoms)
    for t in prange(n_threads):
        work = np.zeros(VELOCITY_ROWS * BLOCK)
        last = m * (t + 1) // n_threads
        for first in range(m * t // n_threads, last, BLOCK):
            count = min(BLOCK, last - first)
            for w in range(count):
                a, b, c = atoms[first + w, 0], atoms[first + w, 1], atoms[first + w, 2]
                abx, aby, abz = displacement(positions, lattice, b, a)
                bcx, bcy, bcz = displacement(positions, lattice, c, b)
                cax, cay, caz = displacement(positions, lattice, a, c)
                put3(work, AB, w, abx, aby, abz)
                put3(work, BC, w, bcx, bcy, bcz)
                put3(work, CA, w, cax, cay, caz)
                put3(work, V_A, w, velocities[a, 0], velocities[a, 1], velocities[a, 2])
                put3(work, V_B, w, velocities[b, 0], velocities[b, 1], velocities[b, 2])
                put3(work, V_C, w, velocities[c, 0], velocities[c, 1], velocities[c, 2])
                put3(work, INVERSE_MASSES, w, inverse_masses[a], inverse_masses[b], inverse_masses[c])
            solve_velocities(work)
            for w in range(count):
                a, b, c = atoms[first + w, 0], atoms[first + w, 1], atoms[first + w, 2]
                velocities[a, 0], velocities[a, 1], velocities[a, 2] = get3(work, V_A, w)
                velocities[b, 0], velocities[b, 1], velocities[b, 2] = get3(work, V_B, w)
                velocities[c, 0], velocities[c, 1], velocities[c, 2] = get3(work, V_C, w)
