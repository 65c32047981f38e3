"""Ewald splitting parameter and mesh from an error tolerance, by OpenMM's rule, so that both use the same."""

from __future__ import annotations

from decimal import Decimal
from math import ceil

import numpy as np

from mdsim.errors import InputError

SMALLEST_GRID = 6  # points along an axis, as OpenMM


def default_ewald_parameters(
    vectors: np.ndarray, cutoff: float, tolerance: float, dispersion: bool = False
) -> tuple[float, tuple[int, int, int]]:
    """Splitting parameter alpha (1/nm) and mesh for a box and a direct-space cutoff.

    alpha = sqrt(-ln(2 delta)) / r_cut, n = ceil(2 alpha L / (3 delta^(1/5))) along each vector (half of that without the 2 for
    the dispersion mesh), at least 6 (OpenMM user guide, "Nonbonded Forces / Coulomb Interaction With Particle Mesh Ewald").

    Parameters
    ----------
    vectors : float64[3, 3]
        Box vectors in reduced form, nm.
    cutoff : float
        nm.
    tolerance : float
        delta, the wanted relative error of a force, below 1/2.
    dispersion : bool
        For the r^-6 mesh of LJPME.
    """
    if not 0.0 < tolerance < 0.5:
        raise InputError(f"the Ewald error tolerance must be between 0 and 0.5, got {tolerance}; 5e-4 is usual")
    # correctly rounded: alpha reaches every bit of a trajectory, and the C libraries' logarithms differ
    alpha = float((-(2 * Decimal(tolerance)).ln()).sqrt() / Decimal(cutoff))
    factor = (1.0 if dispersion else 2.0) * alpha / (3.0 * tolerance**0.2)
    nx, ny, nz = (max(SMALLEST_GRID, ceil(factor * float(edge))) for edge in np.diag(vectors))
    return alpha, (nx, ny, nz)
