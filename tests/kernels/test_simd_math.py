"""exp and log of float32 vectors: stated errors, and the same bits at every vector width."""

import numpy as np
import pytest
from numba import njit

from mdsim.kernels.cpu import simd_math
from mdsim.kernels.cpu.simd import load, store

RNG = np.random.default_rng(3)


def over_vectors(function, width):
    """Loop over an array in vectors of ``width`` lanes."""

    @njit(error_model="numpy")
    def loop(x, out):
        for i in range(0, len(x), width):
            store(out, i, function(load(x, i, width)))

    return loop


@pytest.mark.parametrize(
    ("function", "exact", "x", "bound"),
    [
        (simd_math.exp, np.exp, RNG.uniform(-87, 88, 4096), 2e-7),
        (simd_math.exp, np.exp, RNG.uniform(-1, 1, 4096), 2e-7),
        (simd_math.log, np.log, np.exp(RNG.uniform(-80, 80, 4096)), 3e-7),
        (simd_math.log, np.log, RNG.uniform(0.5, 2.0, 4096), 3e-7),
    ],
)
def test_relative_error(function, exact, x, bound):
    x = x.astype(np.float32)
    out = {width: np.empty_like(x) for width in (4, 8)}
    for width, result in out.items():
        over_vectors(function, width)(x, result)
    reference = exact(x.astype(np.float64))
    assert np.max(np.abs(out[8] / reference - 1)) < bound
    assert np.array_equal(out[4], out[8])


def test_exp_far_below_zero_is_negligible_and_exp_of_zero_is_one():
    x = np.array([0.0, -87.0, -88.0, -1e4, -np.inf, -0.0, 1e-30, -1e-30], np.float32)
    out = np.empty_like(x)
    over_vectors(simd_math.exp, 8)(x, out)
    assert (out[[0, 5, 6, 7]] == 1.0).all()
    assert (out[1:5] >= 0.0).all()
    assert (out[1:5] < 2e-38).all()
