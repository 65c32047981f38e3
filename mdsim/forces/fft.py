"""The three-dimensional Fourier transforms of the meshes, and whatever else of them concerns more than one rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from mdsim.backends.base import Backend
from mdsim.kernels.fft_plan import factorise, padded_waves


class MeshTransform(Protocol):
    """What a mesh term needs of whoever holds the whole grid. Mesh terms know no rank; this object may.

    Transforms go line by line: forward along z, y, x, the inverse along x, y, z. They are not normalised.
    """

    #: float32[nx, ny, 2, padded_waves(nz)]: real and imaginary rows along z, 0 <= m_z <= nz / 2, padded with zeros
    waves: np.ndarray

    def forward(self, grid: np.ndarray) -> None:
        """float32[nx, ny, nz] to ``waves``."""

    def inverse(self, grid: np.ndarray) -> None:
        """``waves``, which are overwritten, to float32[nx, ny, nz or more]; what is more along z is left alone."""

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Sum over everybody who holds atoms of an int64 array."""


#: makes the transform of a grid of so many points along x, y, z
TransformFactory = Callable[[tuple[int, int, int], Backend], MeshTransform]


class LocalTransform:
    """The whole grid in this process."""

    def __init__(self, grid: tuple[int, int, int], backend: Backend) -> None:
        nx, ny, nz = grid
        self.waves = backend.zeros((nx, ny, 2, padded_waves(nz)), np.float32)
        self._n_threads = backend.n_threads
        # radices and roots of unity for each axis
        self._plans = [self._plan(n, backend) for n in grid]
        self._transform_axis = backend.kernel("fft.transform_axis")

    @staticmethod
    def _plan(n: int, backend: Backend) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cosine, sine = backend.zeros(n, np.float32), backend.zeros(n, np.float32)
        backend.kernel("fft.fill_roots")(cosine, sine)
        return backend.asarray(factorise(n)), cosine, sine

    def forward(self, grid: np.ndarray) -> None:
        for axis in (2, 1, 0):
            self._transform_axis(axis, False, *self._plans[axis], self._n_threads, grid, self.waves)

    def inverse(self, grid: np.ndarray) -> None:
        for axis in (0, 1, 2):
            self._transform_axis(axis, True, *self._plans[axis], self._n_threads, grid, self.waves)

    def sum(self, values: np.ndarray) -> np.ndarray:
        return values
