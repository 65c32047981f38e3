"""Rigid triangles with two equal sides and two equal masses (water): SETTLE, Miyamoto & Kollman, J. Comput. Chem. 13, 952 (1992).

Molecule ``w`` has the apex A = atoms[w, 0] and the base B, C = atoms[w, 1:]. Threads take whole molecules, so no two write to
the same atom.
"""

from math import sqrt

import numpy as np
from numba import njit, prange

from mdsim.kernels.cpu.fixed import displacement
from mdsim.kernels.fixed_point import FLAG_CONSTRAINT


@njit(cache=True, error_model="numpy")
def cross(ax, ay, az, bx, by, bz):
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@njit(cache=True, error_model="numpy")
def dot(ax, ay, az, bx, by, bz):
    return (ax * bx + ay * by) + az * bz


@njit(cache=True, error_model="numpy")
def unit(ax, ay, az):
    inverse = 1.0 / sqrt((ax * ax + ay * ay) + az * az)
    return ax * inverse, ay * inverse, az * inverse


@njit(cache=True, error_model="numpy")
def settle_angles(b0x, b0y, c0x, c0y, az, bx, by, bz, cx, cy, cz, ra, rb, rc):
    """Rotations phi, psi, theta that put the canonical triangle where the constraints want it (equations A5 to A17).

    Old base atoms ``b0``, ``c0`` and new atoms ``a``, ``b``, ``c`` in the molecule's frame, nm; ``ra``, ``rb``, ``rc`` the
    canonical triangle: apex at (0, ra), base at (-rc, -rb) and (rc, -rb) about the centre of mass. Returns the new in-plane
    coordinates (ax, ay, bx, by, cx, cy) and whether a solution exists.
    """
    sin_phi = az / ra
    cos_phi2 = 1.0 - sin_phi * sin_phi
    if not cos_phi2 > 0.0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False
    cos_phi = sqrt(cos_phi2)
    sin_psi = (bz - cz) / (2.0 * rc * cos_phi)
    cos_psi2 = 1.0 - sin_psi * sin_psi
    if not cos_psi2 > 0.0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False
    y_a = ra * cos_phi
    x_b = -rc * sqrt(cos_psi2)
    tilt = rc * sin_psi * sin_phi
    y_b = -rb * cos_phi - tilt
    y_c = -rb * cos_phi + tilt

    alpha = x_b * (b0x - c0x) + (b0y * y_b + c0y * y_c)
    beta = x_b * (c0y - b0y) + (b0x * y_b + c0x * y_c)
    gamma = (b0x * by - bx * b0y) + (c0x * cy - cx * c0y)
    norm2 = alpha * alpha + beta * beta
    root2 = norm2 - gamma * gamma
    if not root2 >= 0.0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False
    sin_theta = (alpha * gamma - beta * sqrt(root2)) / norm2
    cos_theta2 = 1.0 - sin_theta * sin_theta
    if not cos_theta2 > 0.0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False
    cos_theta = sqrt(cos_theta2)
    return (
        -y_a * sin_theta,
        y_a * cos_theta,
        x_b * cos_theta - y_b * sin_theta,
        x_b * sin_theta + y_b * cos_theta,
        -x_b * cos_theta - y_c * sin_theta,
        -x_b * sin_theta + y_c * cos_theta,
        True,
    )


@njit(parallel=True, cache=True, error_model="numpy")
def settle_displacements(positions, lattice, atoms, triangles, dx, n_threads, flags):
    """Change displacements so that the molecules keep their shape, along the old bonds and with the momentum unchanged.

    Parameters
    ----------
    positions : int32[n, 3], box fractions at the start of the step
    lattice : float64[3, 3], nm
    atoms : int32[w, 3]
    triangles : float64[w, 5]
        Share of the mass in A and in B (or C); and nm: ra, rb, rc of ``settle_angles``.
    dx : float64[n, 3], nm, OUTPUT (updated): displacements from ``positions``
    flags : int32[n_threads], OUTPUT (or-ed)
    """
    m = len(atoms)
    for t in prange(n_threads):
        flag = np.int32(0)
        for w in range(m * t // n_threads, m * (t + 1) // n_threads):
            a, b, c = atoms[w, 0], atoms[w, 1], atoms[w, 2]
            weight_a, weight_b = triangles[w, 0], triangles[w, 1]

            # old base atoms from the old apex, new atoms from their new centre of mass
            b0x, b0y, b0z = displacement(positions, lattice, b, a)
            c0x, c0y, c0z = displacement(positions, lattice, c, a)
            ax, ay, az = dx[a, 0], dx[a, 1], dx[a, 2]
            bx, by, bz = b0x + dx[b, 0], b0y + dx[b, 1], b0z + dx[b, 2]
            cx, cy, cz = c0x + dx[c, 0], c0y + dx[c, 1], c0z + dx[c, 2]
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
            a_x, a_y, b_x, b_y, c_x, c_y, solved = settle_angles(
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
                triangles[w, 2],
                triangles[w, 3],
                triangles[w, 4],
            )
            if not solved:
                flag |= np.int32(FLAG_CONSTRAINT)
                continue
            dx[a, 0] = mx + (xx * a_x + yx * a_y + zx * a_z)
            dx[a, 1] = my + (xy * a_x + yy * a_y + zy * a_z)
            dx[a, 2] = mz + (xz * a_x + yz * a_y + zz * a_z)
            dx[b, 0] = mx + (xx * b_x + yx * b_y + zx * b_z) - b0x
            dx[b, 1] = my + (xy * b_x + yy * b_y + zy * b_z) - b0y
            dx[b, 2] = mz + (xz * b_x + yz * b_y + zz * b_z) - b0z
            dx[c, 0] = mx + (xx * c_x + yx * c_y + zx * c_z) - c0x
            dx[c, 1] = my + (xy * c_x + yy * c_y + zy * c_z) - c0y
            dx[c, 2] = mz + (xz * c_x + yz * c_y + zz * c_z) - c0z
        flags[t] |= flag


@njit(parallel=True, cache=True, error_model="numpy")
def settle_velocities(positions, lattice, atoms, masses, velocities, n_threads):
    """Take out the velocities along the three sides, by impulses along them (a symmetric 3 x 3 system, by cofactors).

    Parameters
    ----------
    positions : int32[n, 3], box fractions
    lattice : float64[3, 3], nm
    atoms : int32[w, 3]
    masses : float64[n], amu
    velocities : float64[n, 3], nm/ps, OUTPUT (updated)
    """
    m = len(atoms)
    for t in prange(n_threads):
        for w in range(m * t // n_threads, m * (t + 1) // n_threads):
            a, b, c = atoms[w, 0], atoms[w, 1], atoms[w, 2]
            wa, wb, wc = 1.0 / masses[a], 1.0 / masses[b], 1.0 / masses[c]
            abx, aby, abz = displacement(positions, lattice, b, a)
            bcx, bcy, bcz = displacement(positions, lattice, c, b)
            cax, cay, caz = displacement(positions, lattice, a, c)
            abx, aby, abz = unit(abx, aby, abz)
            bcx, bcy, bcz = unit(bcx, bcy, bcz)
            cax, cay, caz = unit(cax, cay, caz)
            vax, vay, vaz = velocities[a, 0], velocities[a, 1], velocities[a, 2]
            vbx, vby, vbz = velocities[b, 0], velocities[b, 1], velocities[b, 2]
            vcx, vcy, vcz = velocities[c, 0], velocities[c, 1], velocities[c, 2]
            u_ab = dot(abx, aby, abz, vbx - vax, vby - vay, vbz - vaz)
            u_bc = dot(bcx, bcy, bcz, vcx - vbx, vcy - vby, vcz - vbz)
            u_ca = dot(cax, cay, caz, vax - vcx, vay - vcy, vaz - vcz)

            # matrix of the effect of an impulse along one side on the velocity along another
            m00, m11, m22 = wa + wb, wb + wc, wc + wa
            m01 = -wb * dot(abx, aby, abz, bcx, bcy, bcz)
            m12 = -wc * dot(bcx, bcy, bcz, cax, cay, caz)
            m02 = -wa * dot(cax, cay, caz, abx, aby, abz)
            c00, c01, c02 = m11 * m22 - m12 * m12, m02 * m12 - m01 * m22, m01 * m12 - m02 * m11
            c11, c12, c22 = m00 * m22 - m02 * m02, m01 * m02 - m00 * m12, m00 * m11 - m01 * m01
            determinant = (m00 * c00 + m01 * c01) + m02 * c02
            p_ab = ((c00 * u_ab + c01 * u_bc) + c02 * u_ca) / determinant
            p_bc = ((c01 * u_ab + c11 * u_bc) + c12 * u_ca) / determinant
            p_ca = ((c02 * u_ab + c12 * u_bc) + c22 * u_ca) / determinant

            velocities[a, 0] = vax + wa * (p_ab * abx - p_ca * cax)
            velocities[a, 1] = vay + wa * (p_ab * aby - p_ca * cay)
            velocities[a, 2] = vaz + wa * (p_ab * abz - p_ca * caz)
            velocities[b, 0] = vbx + wb * (p_bc * bcx - p_ab * abx)
            velocities[b, 1] = vby + wb * (p_bc * bcy - p_ab * aby)
            velocities[b, 2] = vbz + wb * (p_bc * bcz - p_ab * abz)
            velocities[c, 0] = vcx + wc * (p_ca * cax - p_bc * bcx)
            velocities[c, 1] = vcy + wc * (p_ca * cay - p_bc * bcy)
            velocities[c, 2] = vcz + wc * (p_ca * caz - p_bc * bcz)
