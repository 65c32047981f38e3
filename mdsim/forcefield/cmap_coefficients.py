"""Bicubic coefficients of a CMAP energy grid, as OpenMM computes them: periodic cubic splines give the slopes."""

from __future__ import annotations

import math

import numpy as np


def cmap_coefficients(size: int, energy: np.ndarray) -> np.ndarray:
    """Coefficients of the bicubic patches of one map, for ``CMAPTable.coefficients``.

    The slopes and the mixed derivative at the grid points are those of the periodic cubic splines through the grid's rows and
    columns (A. D. MacKerell, M. Feig, C. L. Brooks, J. Comput. Chem. 25, 1400 (2004)).

    Parameters
    ----------
    size : int
        Points along each angle; point i lies at 2 pi i / size.
    energy : float64[size * size]
        kJ/mol, in the order of ``openmm.CMAPTorsionForce.addMap``: phi runs fastest.

    Returns
    -------
    float64[size, size, 16]
        ``[i, j, 4 a + b]`` belongs to x^a y^b, where x and y are the fractions in [0, 1] of phi's cell i and psi's cell j.
    """
    u = np.asarray(energy, dtype=np.float64).reshape(size, size).T  # [phi, psi]
    u_y = _periodic_spline_slopes(u.T).T
    # Hermite along psi gives four polynomials in y at each phi, as it does for their slopes in phi
    by_y = _hermite(u, u_y, np.roll(u, -1, axis=1), np.roll(u_y, -1, axis=1))
    patches = []
    for row in by_y:
        slope = _periodic_spline_slopes(row)
        patches.append(_hermite(row, slope, np.roll(row, -1, axis=0), np.roll(slope, -1, axis=0)))
    # patches[b][a] -> [i, j, 4 a + b]
    return np.ascontiguousarray(np.array(patches).transpose(2, 3, 1, 0).reshape(size, size, 16))


def _hermite(u0: np.ndarray, slope0: np.ndarray, u1: np.ndarray, slope1: np.ndarray) -> list[np.ndarray]:
    """Coefficients of 1, x, x^2, x^3 of the cubic on [0, 1] with these values and slopes at its ends."""
    rise = u1 - u0
    return [u0, slope0, 3.0 * rise - 2.0 * slope0 - slope1, slope0 + slope1 - 2.0 * rise]


def _periodic_spline_slopes(u: np.ndarray) -> np.ndarray:
    """Slopes, per grid spacing, of the periodic cubic spline through ``u`` along its first axis.

    They solve m[i-1] + 4 m[i] + m[i+1] = 3 (u[i+1] - u[i-1]). The inverse of that circulant matrix has the entries
    z^k / (2 sqrt(3)), z = sqrt(3) - 2, at distance k, summed over periodic images. Written as a sum of rolled arrays:
    no linear algebra library, so the same bits everywhere.
    """
    n = len(u)
    z = math.sqrt(3.0) - 2.0
    powers = [1.0]
    for _ in range(n):
        powers.append(powers[-1] * z)
    right_side = 3.0 * (np.roll(u, -1, axis=0) - np.roll(u, 1, axis=0))
    slopes = np.zeros_like(u)
    for k in range(n):
        weight = (powers[k] + powers[n - k]) / ((1.0 - powers[n]) * (2.0 * math.sqrt(3.0)))
        slopes = slopes + weight * np.roll(right_side, k, axis=0)
    return slopes
