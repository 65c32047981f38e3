"""Scalar parts of the global thermostats, in portable arithmetic: what factor the velocities are multiplied by.

Both act on a system with ``n_dof`` degrees of freedom; energies are in kJ/mol, times in ps.
"""

from math import sqrt

from numba import njit

from mdsim.kernels.cpu.mathlib import exp, log
from mdsim.kernels.cpu.philox import STREAM_VELOCITY_RESCALING, normal3, uniform

#: weights of the fourth-order Suzuki-Yoshida factorisation (Martyna et al. 1996, equation 42)
_W = 0.41449077179437573714  # 1 / (4 - 4^(1/3))
SUZUKI_YOSHIDA = (_W, _W, 1.0 - 4.0 * _W, _W, _W)
_TWO_PI = 6.283185307179586
#: substeps of the chain within each half step
CHAIN_SUBSTEPS = 2


@njit(cache=True, error_model="numpy")
def decay_factor(rate, dt):
    """exp(-rate dt)."""
    return exp(-rate * dt)


@njit(cache=True, error_model="numpy")
def normal_and_uniform(seed, step, draw):
    """One normal and one uniform random number for the ``draw``-th trial of this step."""
    gauss, _, _ = normal3(seed, step, 2 * draw, STREAM_VELOCITY_RESCALING)
    return gauss, uniform(seed, step, 2 * draw + 1, STREAM_VELOCITY_RESCALING)


@njit(cache=True, error_model="numpy")
def gamma_variate(shape, seed, step, draw):
    """A gamma-distributed number of unit scale and ``shape`` >= 1, by rejection.

    Marsaglia & Tsang, ACM Trans. Math. Softw. 26, 363 (2000). ``draw`` numbers the first trial.
    """
    d = shape - 1.0 / 3.0
    c = 1.0 / sqrt(9.0 * d)
    while True:
        x, u = normal_and_uniform(seed, step, draw)
        draw += 1
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        if log(u) < 0.5 * x * x + d * (1.0 - v + log(v)):
            return d * v


@njit(cache=True, error_model="numpy")
def sum_of_squares(n, seed, step):
    """Sum of the squares of ``n`` standard normals, n >= 0: chi-squared with n degrees of freedom (twice a gamma of n/2)."""
    if n == 0:
        return 0.0
    if n == 1:
        x, _ = normal_and_uniform(seed, step, 1)
        return x * x
    return 2.0 * gamma_variate(0.5 * n, seed, step, 1)


@njit(cache=True, error_model="numpy")
def rescaling_factor(kinetic, kT, n_dof, dt, coupling_time, seed, step):
    """Factor on the velocities of stochastic velocity rescaling.

    Bussi, Donadio & Parrinello, J. Chem. Phys. 126, 014101 (2007), equation A7, with the sign of equation A8.
    """
    if kinetic <= 0.0:
        return 1.0
    c = exp(-dt / coupling_time)
    ratio = (1.0 - c) * (0.5 * kT) / kinetic
    r1, _ = normal_and_uniform(seed, step, 0)
    others = sum_of_squares(n_dof - 1, seed, step)
    factor2 = c + ratio * (r1 * r1 + others) + 2.0 * r1 * sqrt(c * ratio)
    factor = sqrt(max(factor2, 0.0))
    return factor if r1 + sqrt(c / ratio) >= 0.0 else -factor


@njit(cache=True, error_model="numpy")
def chain_masses(kT, n_dof, coupling_time):
    """Masses of the first and of each further thermostat for a period ``coupling_time``, kJ/mol ps^2."""
    inverse_frequency = coupling_time / _TWO_PI
    mass = kT * (inverse_frequency * inverse_frequency)
    return n_dof * mass, mass


@njit(cache=True, error_model="numpy")
def kick_thermostat(k, h, twice_kinetic, kT, n_dof, mass_1, mass, v_xi):
    """Advance the velocity of thermostat ``k`` by h / 2, dragged by the one after it, pushed by the one before it."""
    if k == 0:
        push = (twice_kinetic - n_dof * kT) / mass_1
    else:
        before = mass_1 if k == 1 else mass
        push = (before * v_xi[k - 1] * v_xi[k - 1] - kT) / mass
    drag = exp(-0.125 * h * v_xi[k + 1]) if k + 1 < len(v_xi) else 1.0
    v_xi[k] = (v_xi[k] * drag + 0.25 * h * push) * drag


@njit(cache=True, error_model="numpy")
def advance_chain(kinetic, kT, n_dof, dt, coupling_time, xi, v_xi):
    """Half a step (``dt`` / 2) of a Nose-Hoover chain; returns the factor on the velocities.

    Martyna, Tuckerman, Tobias & Klein, Mol. Phys. 87, 1117 (1996), section 4.2 and its appendix. The thermostat masses are those
    of a period ``coupling_time``.

    Parameters
    ----------
    kinetic : float64, kJ/mol
    xi : float64[m], thermostat positions, OUTPUT (updated)
    v_xi : float64[m], 1/ps, thermostat velocities, OUTPUT (updated)
    """
    mass_1, mass = chain_masses(kT, n_dof, coupling_time)
    factor = 1.0
    twice_kinetic = 2.0 * kinetic
    for _ in range(CHAIN_SUBSTEPS):
        for weight in SUZUKI_YOSHIDA:
            h = weight * dt / CHAIN_SUBSTEPS
            for k in range(len(xi) - 1, -1, -1):
                kick_thermostat(k, h, twice_kinetic, kT, n_dof, mass_1, mass, v_xi)
            scale = exp(-0.5 * h * v_xi[0])
            factor *= scale
            twice_kinetic *= scale * scale
            for k in range(len(xi)):
                xi[k] += 0.5 * h * v_xi[k]
            for k in range(len(xi)):
                kick_thermostat(k, h, twice_kinetic, kT, n_dof, mass_1, mass, v_xi)
    return factor


@njit(cache=True, error_model="numpy")
def chain_energy(kT, n_dof, coupling_time, xi, v_xi):
    """Energy of the chain, kJ/mol: its sum with the system's energy is conserved (Martyna et al. 1996, section 2.2)."""
    mass_1, mass = chain_masses(kT, n_dof, coupling_time)
    energy = 0.5 * mass_1 * v_xi[0] * v_xi[0] + n_dof * kT * xi[0]
    for k in range(1, len(xi)):
        energy += 0.5 * mass * v_xi[k] * v_xi[k] + kT * xi[k]
    return energy
