"""Cardinal B-splines as polynomials: the weights by which PME spreads charges and gathers forces, for any backend.

Essmann et al., J. Chem. Phys. 103, 8577 (1995), eq. 4.1. An atom at u = g + w grid spacings (g whole, 0 <= w < 1)
touches the grid points g .. g + order - 1 with weights theta_j(w) = M_order(w + order - 1 - j).
"""

from fractions import Fraction
from math import comb, factorial

import numpy as np

#: spline orders that the kernels take
ORDERS = (4, 5)
#: polynomial coefficients held per weight. Kernels loop over so many weights for every order; lower orders' last are zero
MAX_ORDER = 5
#: weights per direction, padded with zeros to a SIMD-friendly row
N_WEIGHTS = 8


def _polynomial(order: int, piece: int) -> list[Fraction]:
    """Coefficients of w**p, exact, of M_order(w + piece) on 0 <= w < 1."""
    coefficients = [Fraction(0)] * order
    for k in range(piece + 1):
        for p in range(order):
            term = (-1) ** k * comb(order, k) * comb(order - 1, p) * Fraction(piece - k) ** (order - 1 - p)
            coefficients[p] += term / factorial(order - 1)
    return coefficients


def bspline_polynomials(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights and their derivatives as polynomials in w.

    Returns
    -------
    values : float32[MAX_ORDER, N_WEIGHTS]
        theta_j(w) = sum_p values[p, j] w**p; zero where p or j >= order.
    slopes : float32[MAX_ORDER, N_WEIGHTS]
        d theta_j / dw likewise (the last row is zero).
    """
    if order not in ORDERS:
        raise ValueError(f"B-spline order must be one of {ORDERS}, got {order}")
    values = np.zeros((MAX_ORDER, N_WEIGHTS), dtype=np.float32)
    slopes = np.zeros((MAX_ORDER, N_WEIGHTS), dtype=np.float32)
    for j in range(order):
        polynomial = _polynomial(order, order - 1 - j)
        for p, c in enumerate(polynomial):
            values[p, j] = float(c)
            if p > 0:
                slopes[p - 1, j] = float(p * c)
    return values, slopes


def bspline_at_knots(order: int) -> np.ndarray:
    """float64[order - 1]: M_order(1), ..., M_order(order - 1), by which the grid's Fourier moduli are made."""
    return np.array([float(_polynomial(order, k)[0]) for k in range(1, order)])
