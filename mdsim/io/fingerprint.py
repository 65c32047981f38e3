"""Is this the same system? Compared by tolerance, so that another machine's last digits do not count as another system.

Whole numbers and names must be equal and are hashed. Real numbers are summed in blocks of 64 under weights that differ by place:
a change in one number of about 1e-5 of the block's mean shows, noise of 1e-9 in all of them does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from mdsim.tables import CompiledSystem

BLOCK = 64
#: of a block's weighted sum of magnitudes
TOLERANCE = 1e-7
#: weights are 1/2 and up, by the fractional parts of multiples of the golden ratio
GOLDEN = 0.6180339887498949

#: by name of the quantity: a hex digest (exact), or float64[2, blocks] (sums, sums of magnitudes)
Fingerprint = dict[str, "str | np.ndarray"]


def system_fingerprint(system: CompiledSystem) -> Fingerprint:
    """What identifies ``system``: a few thousand numbers for a hundred thousand atoms."""
    return {name: _fingerprint(value) for name, value in _quantities("", system)}


def fingerprint_differences(saved: Fingerprint, current: Fingerprint) -> list[str]:
    """Names of the quantities that differ, ascending; empty for the same system."""
    return sorted(
        name
        for name in saved.keys() | current.keys()
        if name not in saved or name not in current or not _same(saved[name], current[name])
    )


def _quantities(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of all leaves of a table: ``HarmonicBondForce.length``."""
    if is_dataclass(value):
        label = getattr(value, "label", None)
        start = f"{label} {type(value).__name__}" if label else prefix
        for field in fields(value):
            if field.name != "notes":
                yield from _quantities(f"{start}.{field.name}" if start else field.name, getattr(value, field.name))
    elif isinstance(value, tuple) and any(is_dataclass(v) for v in value):
        for k, table in enumerate(value):
            yield from _quantities(f"{prefix}[{k}]", table)
    else:
        yield prefix, value


def _fingerprint(value: Any) -> str | np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind == "f" and np.isfinite(array).all():
        return _block_sums(array.astype(np.float64).ravel())
    if array.dtype.kind in "iub":
        array = array.astype(np.int64)
        return hashlib.sha256(repr(array.shape).encode() + array.tobytes()).hexdigest()
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _block_sums(x: np.ndarray) -> np.ndarray:
    """float64[2, blocks]: weighted sums of x and of its magnitude; the number of entries comes first in the first row."""
    weights = 0.5 + (np.arange(1, len(x) + 1) * GOLDEN) % 1.0
    starts = np.arange(0, len(x), BLOCK)
    sums = [np.add.reduceat(y * weights, starts) if len(x) else np.zeros(0) for y in (x, np.abs(x))]
    return np.stack([np.concatenate([[len(x)], sums[0]]), np.concatenate([[0.0], sums[1]])])


def _same(a: str | np.ndarray, b: str | np.ndarray) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str) and a == b
    return a.shape == b.shape and bool((np.abs(a[0] - b[0]) <= TOLERANCE * np.maximum(a[1], b[1])).all())
