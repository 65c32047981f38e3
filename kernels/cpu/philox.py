"""Random numbers without a generator state: Philox4x32-10 of Salmon, Moraes, Dror & Shaw, SC'11 (2011), section 3.3.

Every draw is a function of (seed, step, id, stream): 64 bits of seed are the key; the step (64 bits), the atom or draw id and
the stream are the counter. So a draw depends neither on threads nor ranks, and a restart needs nothing but the step number.
"""

from math import sqrt

import numpy as np

from mdsim.kernels.cpu.mathlib import from_bits, inline, log, sincos

#: what a draw is for; each use of random numbers has a stream of its own
STREAM_LANGEVIN = 0  # id: atom
STREAM_INITIAL_VELOCITIES = 1  # id: atom
STREAM_BAROSTAT = 2  # id: draw within the attempt
STREAM_VELOCITY_RESCALING = 3  # id: draw within the step

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint64(0x9E3779B9)  # golden ratio
_WEYL_1 = np.uint64(0xBB67AE85)  # sqrt(3) - 1
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_TWO_PI = 2.0 * np.pi
_TWO_TO_52 = 2.0**52
_TWO_TO_52_BITS = np.int64(0x4330000000000000)


@inline
def philox4x32(c0, c1, c2, c3, k0, k1):
    """Ten rounds on the counter (c0, c1, c2, c3) with the key (k0, k1): four 32-bit words, all held in uint64."""
    for _ in range(10):
        product_0 = _MULTIPLIER_0 * c0
        product_1 = _MULTIPLIER_1 * c2
        c0 = (product_1 >> _32) ^ c1 ^ k0
        c1 = product_1 & _LOW
        c2 = (product_0 >> _32) ^ c3 ^ k1
        c3 = product_0 & _LOW
        k0 = (k0 + _WEYL_0) & _LOW
        k1 = (k1 + _WEYL_1) & _LOW
    return c0, c1, c2, c3


@inline
def random_words(seed, step, id, stream):
    """Four 32-bit words (uint64) for an int64 ``seed`` and ``step``, and ``id`` and ``stream`` below 2**32."""
    s = np.uint64(seed)
    n = np.uint64(step)
    return philox4x32(n & _LOW, n >> _32, np.uint64(id) & _LOW, np.uint64(stream) & _LOW, s & _LOW, s >> _32)


@inline
def word_as_float(w):
    """A 32-bit word held in uint64 as the float64 of the same value, by its bits: loops over this vectorise."""
    return from_bits(np.int64(w) | _TWO_TO_52_BITS) - _TWO_TO_52


@inline
def uniform(seed, step, id, stream):
    """A float64 in the open interval (0, 1), on a lattice of 2**-52."""
    w0, w1, _, _ = random_words(seed, step, id, stream)
    return (np.float64((w0 << np.uint64(20)) | (w1 >> np.uint64(12))) + 0.5) * 2.0**-52


@inline
def normal3(seed, step, id, stream):
    """Three independent standard normal float64 (Box & Muller 1958).

    Uniforms have 32 bits, so that one block serves an atom: the normals reach out to 6.76, beyond which a true one lies once
    in 7e10 draws.
    """
    w0, w1, w2, w3 = random_words(seed, step, id, stream)
    radius = sqrt(-2.0 * log((word_as_float(w0) + 0.5) * 2.0**-32))
    sine, cosine = sincos((word_as_float(w1) * 2.0**-32) * _TWO_PI)
    radius_3 = sqrt(-2.0 * log((word_as_float(w2) + 0.5) * 2.0**-32))
    _, cosine_3 = sincos((word_as_float(w3) * 2.0**-32) * _TWO_PI)
    return radius * cosine, radius * sine, radius_3 * cosine_3
