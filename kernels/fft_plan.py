"""What the Fourier transforms of every backend have in common: radices and the layout of the waves."""

import numpy as np

#: rows of waves along z are padded to a multiple of this
WAVE_PADDING = 8


def factorise(n):
    """Radices of the passes for lines of length n, int64[k]: fours first, then 2, 3, 5 and larger primes."""
    factors = []
    radices = (4, 2, 3, *range(5, n + 1, 2))
    for radix in radices:
        while n % radix == 0:
            factors.append(radix)
            n //= radix
    return np.array(factors, dtype=np.int64)


def padded_waves(nz):
    """Row length of the waves along z: nz // 2 + 1, rounded up to a multiple of WAVE_PADDING."""
    return -(-(nz // 2 + 1) // WAVE_PADDING) * WAVE_PADDING
