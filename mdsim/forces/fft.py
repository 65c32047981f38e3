"""The three-dimensional Fourier transforms of the meshes, and whatever else of them concerns more than one rank."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy.fft


class MeshTransform(Protocol):
    """What a mesh term needs of whoever holds the whole grid. Mesh terms know no rank; this object may."""

    def forward(self, grid: np.ndarray) -> np.ndarray:
        """float32[nx, ny, nz] to complex64[nx, ny, nz // 2 + 1], C-contiguous, by lines along z, then x, then y."""

    def inverse(self, spectrum: np.ndarray, nz: int) -> np.ndarray:
        """The unnormalised inverse, by lines along x, then y, then z. May overwrite ``spectrum``."""

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Sum over everybody who holds atoms of an int64 array."""


class LocalTransform:
    """The whole grid in this process.

    A transform of one line does not depend on how many are transformed together, nor by how many threads; the order of
    the axes does matter and is fixed by scipy: last axis first, then the others as given.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        # the last results are kept until the next are made: the allocator then reuses memory that the system has mapped
        self._spectrum: np.ndarray | None = None
        self._grid: np.ndarray | None = None

    def forward(self, grid: np.ndarray) -> np.ndarray:
        spectrum: np.ndarray = scipy.fft.rfftn(grid, workers=self.n_threads)
        self._spectrum = spectrum
        return spectrum

    def inverse(self, spectrum: np.ndarray, nz: int) -> np.ndarray:
        shape = (*spectrum.shape[:2], nz)
        grid: np.ndarray = scipy.fft.irfftn(spectrum, s=shape, norm="forward", overwrite_x=True, workers=self.n_threads)
        self._grid = grid
        return grid

    def sum(self, values: np.ndarray) -> np.ndarray:
        return values
