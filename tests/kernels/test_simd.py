"""SIMD vectors: every operation against numpy, for every width."""

import numpy as np
import pytest

from mdsim.backends import get_backend
from mdsim.kernels.cpu import simd
from mdsim.kernels.cpu.simd import (
    absolute,
    broadcast,
    constant,
    double_bits,
    fma,
    gather,
    lane_numbers,
    load,
    lowest,
    mask_from_bits,
    mask_to_bits,
    maximum,
    minimum,
    rint_to_int,
    select,
    sqrt,
    store,
    to_double,
    to_float,
    total,
    trailing_zeros,
)

WIDTH = 4  # replaced


def floats(x, y, places, out):
    a, b = load(x, 0, WIDTH), load(y, 0, WIDTH)
    results = (
        a + b,
        a - 2.0 * b,
        a * b / (b * b + 1.0),
        fma(a, b, -1.0),
        sqrt(absolute(a)),
        minimum(a, b),
        maximum(a, 0.25),
        select((a < b) & ~(b >= 1.0), a, -b),
        gather(y, load(places, 0, WIDTH)),
        constant(x, 2, WIDTH),
        broadcast(x[1], WIDTH),
        to_float(load(places, 0, WIDTH)),
        select(mask_from_bits(10, WIDTH) | (a == b), a, 0.0),
    )
    for k, result in enumerate(results):
        store(out, k * WIDTH, result)
    return lowest(a)


def integers(x, counts, out, bits):
    a, n = load(x, 0, WIDTH), load(counts, 0, WIDTH)
    store(out, 0, rint_to_int(a * 4.0))
    store(out, WIDTH, n + n - lane_numbers(WIDTH))
    store(out, 2 * WIDTH, select(n > 3, n, -n))
    store(bits, 0, double_bits(to_double(a) + 0.5))
    mask = mask_to_bits(a > 0.0)
    return total(n), mask, trailing_zeros(mask | 64), mask_to_bits(mask_from_bits(mask, WIDTH) ^ (n != 3))


@pytest.fixture(params=simd.WIDTHS)
def lanes(request):
    """Width, inputs and the two functions compiled for it (not cached on disk: nothing outside this test calls them)."""
    get_backend("cpu", 1)
    width = request.param
    compiled = simd.specialise(
        [(floats, {}), (integers, {})], globals(), f"w{width}", {"WIDTH": width}, cache=False, error_model="numpy"
    )
    rng = np.random.default_rng(width)
    x, y = rng.normal(size=(2, width)).astype(np.float32)
    x[1] = y[1]
    return width, x, y, rng.permutation(width).astype(np.int32), compiled


def test_float_operations(lanes):
    width, x, y, places, compiled = lanes
    out = np.zeros((13, width), np.float32)
    smallest = compiled["floats"](x, y, places, out.reshape(-1))
    lane_bits = (10 >> np.arange(width)) & 1 == 1
    expected = [
        x + y,
        x - np.float32(2.0) * y,
        x * y / (y * y + np.float32(1.0)),
        (x.astype(np.float64) * y - 1.0).astype(np.float32),  # the product is exact in float64
        np.sqrt(np.abs(x)),
        np.minimum(x, y),
        np.maximum(x, np.float32(0.25)),
        np.where((x < y) & ~(y >= 1.0), x, -y),
        y[places],
        np.full(width, x[2]),
        np.full(width, x[1]),
        places,
        np.where(lane_bits | (x == y), x, 0.0),
    ]
    for k, values in enumerate(expected):
        assert np.array_equal(out[k], np.asarray(values, np.float32)), k
    assert smallest == x.min()


def test_integer_and_mask_operations(lanes):
    width, x, _, counts, compiled = lanes
    out, bits = np.zeros((3, width), np.int32), np.zeros(width, np.int64)
    summed, mask, first, different = compiled["integers"](x, counts, out.reshape(-1), bits)
    assert np.array_equal(out[0], np.rint(x * np.float32(4.0)).astype(np.int32))
    assert np.array_equal(out[1], 2 * counts - np.arange(width))
    assert np.array_equal(out[2], np.where(counts > 3, counts, -counts))
    assert np.array_equal(bits, (x.astype(np.float64) + 0.5).view(np.int64))
    powers = 1 << np.arange(width)
    assert summed == counts.sum()
    assert mask == powers[x > 0].sum()
    assert first == min([k for k in range(width) if x[k] > 0] + [6])
    assert different == powers[(x > 0) ^ (counts != 3)].sum()


def test_arrays_with_strides_are_refused(lanes):
    width, _, y, places, compiled = lanes
    with pytest.raises(simd.TypingError, match="contiguous"):
        compiled["floats"](np.zeros(2 * width, np.float32)[::2], y, places, np.zeros(13 * width, np.float32))


def test_width_can_be_forced(monkeypatch):
    monkeypatch.setenv("MDSIM_SIMD_WIDTH", "16")
    assert simd.default_width() == 16
    monkeypatch.setenv("MDSIM_SIMD_WIDTH", "5")
    with pytest.raises(ValueError, match="4, 8, 16"):
        simd.default_width()
