"""All pairs in float64 numpy, O(N^2): the oracle of ``kernels/cpu/pair.py``. Slow, plain, and without tricks."""

import numpy as np
from scipy.special import erf, erfc


def all_pairs(positions, lattice, cutoff, exclusions):
    """Pairs i < j within the cutoff that are not excluded.

    Parameters
    ----------
    positions : int32[n, 3], box fractions
    lattice : float64[3, 3], nm
    cutoff : float, nm
    exclusions : int32[m, 2]

    Returns
    -------
    i, j : int64[p]
    vector : float64[p, 3], x_i - x_j of the nearest image, nm
    """
    n = len(positions)
    i, j = np.triu_indices(n, 1)
    excluded = np.zeros((n, n), bool)
    excluded[exclusions[:, 0], exclusions[:, 1]] = excluded[exclusions[:, 1], exclusions[:, 0]] = True
    vector = (positions[i] - positions[j]).astype(np.float64) @ lattice
    keep = ~excluded[i, j] & ((vector**2).sum(axis=1) < cutoff**2)
    return i[keep], j[keep], vector[keep]


def reaction_field(qq, r, k_rf, c_rf):
    """(r F, u) with u = qq (1/r + k_rf r^2 - c_rf); Tironi et al., J. Chem. Phys. 102, 5451 (1995)."""
    return qq * (1.0 / r - 2.0 * k_rf * r**2), qq * (1.0 / r + k_rf * r**2 - c_rf)


def ewald_direct(qq, r, alpha):
    """(r F, u) with u = qq erfc(alpha r)/r; Essmann et al., J. Chem. Phys. 103, 8577 (1995), eq. 2.2."""
    u = qq * erfc(alpha * r) / r
    return u + qq * 2.0 * alpha / np.sqrt(np.pi) * np.exp(-((alpha * r) ** 2)), u


def lennard_jones(a, b, r):
    """(r F, u) with u = a/r^12 - b/r^6."""
    repulsion, attraction = a / r**12, b / r**6
    return 12.0 * repulsion - 6.0 * attraction, repulsion - attraction


def switched(w, u, r, start, cutoff):
    """(r F, u) of u S(t), t = (r - start)/(cutoff - start), S = 1 - 10 t^3 + 15 t^4 - 6 t^5 beyond ``start`` (as OpenMM)."""
    t = np.clip((r - start) / (cutoff - start), 0.0, None)
    value = 1.0 - 10.0 * t**3 + 15.0 * t**4 - 6.0 * t**5
    slope = (-30.0 * t**2 + 60.0 * t**3 - 30.0 * t**4) / (cutoff - start)
    return w * value - r * u * slope, u * value


def dispersion_direct(c6, r, alpha):
    """(r F, u) with u = c6 (1 - exp(-x)(1 + x + x^2/2))/r^6, x = (alpha r)^2: what the mesh holds too much within the cutoff."""
    x = (alpha * r) ** 2
    u = c6 / r**6 * (1.0 - np.exp(-x) * (1.0 + x + x**2 / 2.0))
    return 6.0 * c6 / r**6 * (1.0 - np.exp(-x) * (1.0 + x + x**2 / 2.0 + x**3 / 6.0)), u


def pair_forces(
    positions,
    lattice,
    cutoff,
    exclusions,
    charge,
    sigma=None,
    epsilon=None,
    lj_type=None,
    lj_a=None,
    lj_b=None,
    k_rf=0.0,
    c_rf=0.0,
    alpha=0.0,
    switch_distance=None,
    dispersion_alpha=0.0,
):
    """Forces and energies of all pairs.

    Parameters
    ----------
    charge : float64[n], e * sqrt(1/4 pi eps0), so that products are kJ nm/mol
    sigma, epsilon : float64[n], nm, kJ/mol; or
    lj_type : int32[n] with lj_a, lj_b float64[t, t]
    k_rf, c_rf : float, 1/nm^3 and 1/nm, of the reaction field; used where ``alpha`` is 0
    alpha, dispersion_alpha : float, 1/nm, Ewald splitting; LJPME if the second is not 0
    switch_distance : float, nm, optional

    Returns
    -------
    forces : float64[n, 3], kJ/mol/nm
    lj, coulomb : float, kJ/mol
    """
    i, j, vector = all_pairs(positions, lattice, cutoff, exclusions)
    r = np.sqrt((vector**2).sum(axis=1))
    qq = charge[i] * charge[j]
    w, u_coulomb = ewald_direct(qq, r, alpha) if alpha else reaction_field(qq, r, k_rf, c_rf)
    if lj_type is None:
        well, distance = 4.0 * np.sqrt(epsilon[i] * epsilon[j]), 0.5 * (sigma[i] + sigma[j])
        a, b = well * distance**12, well * distance**6
    else:
        a, b = lj_a[lj_type[i], lj_type[j]], lj_b[lj_type[i], lj_type[j]]
    w_lj, u_lj = lennard_jones(a, b, r)
    if switch_distance is not None:
        w_lj, u_lj = switched(w_lj, u_lj, r, switch_distance, cutoff)
    if dispersion_alpha:
        c6 = 4.0 * np.sqrt(epsilon[i] * epsilon[j]) * (sigma[i] * sigma[j]) ** 3
        w_grid, u_grid = dispersion_direct(c6, r, dispersion_alpha)
        shift = -lennard_jones(a, b, cutoff)[1] - dispersion_direct(c6, cutoff, dispersion_alpha)[1]
        w_lj, u_lj = w_lj + w_grid, u_lj + u_grid + shift
    force = ((w + w_lj) / r**2)[:, None] * vector
    forces = np.zeros((len(positions), 3))
    np.add.at(forces, i, force)
    np.add.at(forces, j, -force)
    return forces, float(u_lj.sum()), float(u_coulomb.sum())


def erf_over(z):
    """erf(z)/z with its limit at 0."""
    return np.where(z == 0.0, 2.0 / np.sqrt(np.pi), erf(z) / np.where(z == 0.0, 1.0, z))
