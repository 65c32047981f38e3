"""Philox against the published vectors, and the numbers made from it against their distributions."""

import numpy as np
import pytest
from numba import njit

from mdsim.kernels.cpu import philox
from mdsim.kernels.cpu.integrate import draw_normals

# kat_vectors of Random123 (Salmon et al. 2011), philox4x32, 10 rounds: counter, key, result
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter, key, expected):
    words = philox.philox4x32(*(np.uint64(c) for c in counter), *(np.uint64(k) for k in key))
    assert tuple(int(w) for w in words) == expected


@njit
def draw(n, seed, step, stream):
    normals, uniforms = np.empty((n, 3)), np.empty(n)
    for i in range(n):
        normals[i] = philox.normal3(seed, step, i, stream)
        uniforms[i] = philox.uniform(seed, step, i, stream)
    return normals, uniforms


@njit
def draw_one(seed, step, id, stream):
    return philox.normal3(seed, step, id, stream)


@njit
def draw_uniform(seed, step, id, stream):
    return philox.uniform(seed, step, id, stream)


def test_distributions():
    n = 400_000
    normals, uniforms = draw(n, 7, 11, 0)
    x = normals.ravel()
    for power, moment, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs((x**power).mean() - moment) < 4.5 * np.sqrt(spread / len(x)), power
    correlation = np.corrcoef(np.column_stack([normals, uniforms, np.roll(normals[:, 0], 1)]).T)
    assert np.abs(correlation - np.eye(5)).max() < 4.5 / np.sqrt(n)
    counts = np.histogram(uniforms, bins=64, range=(0, 1))[0]
    assert abs(((counts - n / 64) ** 2 / (n / 64)).sum() - 63) < 5 * np.sqrt(2 * 63)
    assert uniforms.min() > 0
    assert uniforms.max() < 1


def test_vector_loops_give_the_scalar_bits():
    """The loop that vectorises, at every offset into its vectors, against one number at a time."""
    ids = np.arange(1000, 1037, dtype=np.int32)
    scalar = np.array([draw_one(2**40 + 3, 2**33 + 1, i, 5) for i in ids])
    for first in range(9):
        g = np.empty((3, len(ids) - first))
        draw_normals(2**40 + 3, 2**33 + 1, ids[first:], 5, g[0], g[1], g[2])
        assert (scalar[first:] == g.T).all()


def test_every_part_of_the_key_matters():
    base = (1, 2, 3, 0)
    changed = [(2, 2, 3, 0), (1 + 2**40, 2, 3, 0), (1, 3, 3, 0), (1, 2 + 2**40, 3, 0), (1, 2, 4, 0), (1, 2, 3, 1)]
    draws = {draw_uniform(*key) for key in [base, *changed]}
    assert len(draws) == 7
    assert draw_uniform(*base) == draw_uniform(*base)


def test_streams_are_distinct():
    streams = [value for name, value in vars(philox).items() if name.startswith("STREAM_")]
    assert len(streams) >= 4
    assert len(set(streams)) == len(streams)
