"""Long-range dispersion correction: the Lennard-Jones energy that the cutoff leaves out, for a uniform fluid."""

from __future__ import annotations

import numpy as np


def lorentz_berthelot_types(sigma: np.ndarray, epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group atoms of equal parameters: (int64[t] counts, float64[t, t] a, float64[t, t] b) with u = a/r^12 - b/r^6."""
    kinds, counts = np.unique(np.column_stack([sigma, epsilon]), axis=0, return_counts=True)
    s = 0.5 * (kinds[:, None, 0] + kinds[None, :, 0])
    with np.errstate(invalid="ignore"):  # a negative epsilon is reported with its atom when tables are checked
        four_epsilon = 4.0 * np.sqrt(kinds[:, None, 1] * kinds[None, :, 1])
    return counts, four_epsilon * s**12, four_epsilon * s**6


def dispersion_coefficient(
    counts: np.ndarray, a: np.ndarray, b: np.ndarray, cutoff: float, switch_distance: float | None
) -> float:
    """Coefficient c of the correction energy c / V, kJ nm^3 / mol.

    c = 2 pi N^2 <∫ (1 - S(r)) u(r) r^2 dr>, the mean being over all pairs of atoms with each atom paired with itself once
    (Shirts et al., J. Phys. Chem. B 111, 13052 (2007), as OpenMM counts them), S the switching function, 0 beyond the cutoff.

    Parameters
    ----------
    counts : int64[t]
        Atoms of each type.
    a, b : float64[t, t]
        u = a/r^12 - b/r^6, kJ nm^12/mol and kJ nm^6/mol.
    cutoff, switch_distance : float
        nm; no switching where ``switch_distance`` is None.
    """
    n = int(counts.sum())
    if n == 0:
        return 0.0
    pairs = np.multiply.outer(counts, counts).astype(np.float64)
    np.fill_diagonal(pairs, counts * (counts + 1.0))
    weight = pairs / (
        n * (n + 1.0)
    )  # of ordered pairs: the sum over both triangles counts each pair twice, as n(n+1) does
    mean_a, mean_b = float((weight * a).sum()), float((weight * b).sum())
    integral_12, integral_6 = cutoff**-9 / 9.0, cutoff**-3 / 3.0
    if switch_distance is not None:
        integral_12 += _switched_integral(12, switch_distance, cutoff)
        integral_6 += _switched_integral(6, switch_distance, cutoff)
    return 2.0 * np.pi * n * n * (mean_a * integral_12 - mean_b * integral_6)


def _switched_integral(power: int, start: float, end: float) -> float:
    """∫ (1 - S(r)) r^(2 - power) dr over the switching region, S = 1 - 10 x^3 + 15 x^4 - 6 x^5, by Gauss-Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(32)
    x = 0.5 * (nodes + 1.0)
    r = start + (end - start) * x
    left_out = x**3 * (10.0 + x * (-15.0 + 6.0 * x))
    return float(0.5 * (end - start) * (weights * left_out * r ** (2 - power)).sum())
