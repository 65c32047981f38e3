"""Numbers with fewer digits, so that gzip has something to find. Readers need not know: they are ordinary float32."""

from __future__ import annotations

import math

import numpy as np

FLOAT32_BITS = 24  # of the significand, the hidden one included


def lattice_spacing(precision: float | None) -> float | None:
    """The largest power of two not above ``precision`` (nm): multiples of it are exact in binary."""
    return 2.0 ** math.floor(math.log2(precision)) if precision else None


def round_to_lattice(x: np.ndarray, spacing: float | None) -> np.ndarray:
    """float64 to the nearest multiple of ``spacing`` as float32; the error is at most half of it. None: float32 only."""
    return (x if spacing is None else np.rint(x / spacing) * spacing).astype(np.float32)


def round_significand(x: np.ndarray, bits: int) -> np.ndarray:
    """float32 with ``bits`` significant binary digits, rounded half to even; relative error at most 2**-bits."""
    single = np.ascontiguousarray(x, dtype=np.float32)
    drop = FLOAT32_BITS - bits
    if drop <= 0:
        return single
    words = single.view(np.uint32)
    odd = (words >> np.uint32(drop)) & np.uint32(1)
    rounded = words + (np.uint32((1 << (drop - 1)) - 1) + odd)
    return (rounded & np.uint32(0xFFFFFFFF ^ ((1 << drop) - 1))).view(np.float32)
