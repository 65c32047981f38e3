"""Plain Ewald sums in float64, the oracle for PME (Essmann et al. 1995, eqs. 2.1 to 2.5 and 5.1 to 5.5).

Box vectors are the rows of ``vectors``, float64[3, 3], nm; positions float64[n, 3], nm. Every function returns (energy,
forces) in kJ/mol and kJ/mol/nm. The reciprocal sums take all waves of |m_i| <= m_max, so alpha must suit m_max.
"""

import itertools
from math import erf, erfc, exp, pi, sqrt

import numpy as np

#: 1 / (4 pi epsilon_0), kJ nm / mol / e^2
COULOMB = 138.93545764438198


def _waves(vectors, m_max):
    """float64[k, 3]: reciprocal vectors m (without 2 pi) of all waves but zero, 1/nm."""
    m = np.array([m for m in itertools.product(range(-m_max, m_max + 1), repeat=3) if any(m)], dtype=float)
    return m @ np.linalg.inv(vectors).T


def coulomb_reciprocal(positions, charges, vectors, alpha, m_max):
    """Reciprocal-space Coulomb sum (without self and background energy)."""
    m = _waves(vectors, m_max)
    m2 = (m**2).sum(axis=1)
    green = COULOMB / (pi * np.linalg.det(vectors)) * np.exp(-(pi**2) * m2 / alpha**2) / m2
    return _wave_sum(positions, charges, m, green)


def dispersion_reciprocal(positions, c6, vectors, alpha, m_max):
    """Reciprocal-space sum of -c6_i c6_j / r^6 (without self energy); its zero wave adds energy but no force."""
    m = np.concatenate([[[0.0, 0.0, 0.0]], _waves(vectors, m_max)])
    b = pi / alpha * np.sqrt((m**2).sum(axis=1))
    decay = (1 - 2 * b**2) * np.exp(-(b**2)) + 2 * b**3 * sqrt(pi) * np.array([erfc(x) for x in b])
    green = -(pi**1.5) * alpha**3 / (3 * np.linalg.det(vectors)) * decay
    return _wave_sum(positions, c6, m, green)


def _wave_sum(positions, charges, m, green):
    """u = 1/2 sum_m green(m) |S(m)|^2 with S(m) = sum_i q_i exp(2 pi i m . x_i)."""
    phase = np.exp(2j * pi * positions @ m.T)
    structure = charges @ phase
    energy = 0.5 * (green * abs(structure) ** 2).sum()
    weight = 2 * pi * (green * structure * phase.conj()).imag * charges[:, None]
    return energy, -weight @ m


def coulomb_self(charges, vectors, alpha):
    """Energy of each charge with its own Gaussian and of the net charge with the neutralising background."""
    background = pi * charges.sum() ** 2 / (2 * np.linalg.det(vectors) * alpha**2)
    return -COULOMB * (alpha / sqrt(pi) * (charges**2).sum() + background)


def dispersion_self(c6, alpha):
    """Energy of each dispersion site with itself, taken off."""
    return alpha**6 / 12 * (c6**2).sum()


def coulomb_direct(positions, charges, vectors, alpha, images=1):
    """Real-space sum of q_i q_j erfc(alpha r) / r over all pairs and the nearest ``images`` cells."""
    energy, forces = 0.0, np.zeros_like(positions)
    shifts = [np.array(s) @ vectors for s in itertools.product(range(-images, images + 1), repeat=3)]
    for i, j in itertools.product(range(len(charges)), repeat=2):
        for shift in shifts:
            d = positions[i] - positions[j] + shift
            r = sqrt(d @ d)
            if r == 0.0:
                continue
            qq = COULOMB * charges[i] * charges[j]
            energy += 0.5 * qq * erfc(alpha * r) / r
            slope = erfc(alpha * r) / r + 2 * alpha / sqrt(pi) * exp(-((alpha * r) ** 2))
            forces[i] += qq * slope / r**2 * d
    return energy, forces


def _pair_loop(positions, vectors, pairs, radial):
    """Sum of radial(k, r) -> (u, du/dr) over nearest-image pairs."""
    energy, forces = 0.0, np.zeros_like(positions)
    inverse = np.linalg.inv(vectors)
    for k, (i, j) in enumerate(pairs):
        f = (positions[i] - positions[j]) @ inverse
        d = (f - np.rint(f)) @ vectors
        r = sqrt(d @ d)
        u, slope = radial(k, r)
        energy += u
        forces[i] -= slope / r * d
        forces[j] += slope / r * d
    return energy, forces


def coulomb_exclusions(positions, charges, vectors, pairs, alpha):
    """What the reciprocal sum holds for excluded pairs, taken off: -q_i q_j erf(alpha r) / r."""

    def radial(k, r):
        qq = COULOMB * charges[pairs[k][0]] * charges[pairs[k][1]]
        slope = erf(alpha * r) / r - 2 * alpha / sqrt(pi) * exp(-((alpha * r) ** 2))
        return -qq * erf(alpha * r) / r, qq * slope / r

    return _pair_loop(positions, vectors, pairs, radial)


def dispersion_exclusions(positions, c6, vectors, pairs, alpha):
    """The same for dispersion: +c6_i c6_j (1 - exp(-y) (1 + y + y^2 / 2)) / r^6 with y = (alpha r)^2."""

    def radial(k, r):
        cc, y = c6[pairs[k][0]] * c6[pairs[k][1]], (alpha * r) ** 2
        mesh = 1 - exp(-y) * (1 + y + y**2 / 2)
        return cc * mesh / r**6, cc * (y**3 * exp(-y) - 6 * mesh) / r**7

    return _pair_loop(positions, vectors, pairs, radial)


def exceptions(positions, vectors, pairs, charge_product, sigma, epsilon):
    """Pairs with parameters of their own, without cutoff: (coulomb energy, lj energy, forces)."""

    def coulomb(k, r):
        return COULOMB * charge_product[k] / r, -COULOMB * charge_product[k] / r**2

    def lj(k, r):
        s6 = (sigma[k] / r) ** 6
        return 4 * epsilon[k] * (s6**2 - s6), -24 * epsilon[k] * (2 * s6**2 - s6) / r

    u_coulomb, f_coulomb = _pair_loop(positions, vectors, pairs, coulomb)
    u_lj, f_lj = _pair_loop(positions, vectors, pairs, lj)
    return u_coulomb, u_lj, f_coulomb + f_lj
