"""A backend owns arrays and hands out kernels by name; nobody outside this package asks which one it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np


class Backend(Protocol):
    """Same interface for every device."""

    name: str
    n_threads: int  # slices of the force buffers; 1 on a GPU

    def kernel(self, name: str) -> Callable[..., Any]:
        """``kernel("bonds.harmonic_bonds")``: function of that name in the backend's kernel module ``bonds``."""

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray: ...

    def asarray(self, array: np.ndarray, dtype: Any = None) -> np.ndarray:
        """The backend's array with this content (contiguous)."""

    def to_host(self, array: np.ndarray) -> np.ndarray: ...
