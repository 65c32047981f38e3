"""The CPU backend: numpy arrays and Numba kernels, threads by Numba's own pool."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from mdsim.backends import cache
from mdsim.checks import require_whole
from mdsim.errors import InputError

#: each thread has force buffers of its own; no machine has more cores
MOST_THREADS = 4096
#: turns of a waiting thread's loop before it sleeps, about a millisecond
SPIN_COUNT = "300000"


def available_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CpuBackend:
    """Arrays in main memory, kernels from ``mdsim.kernels.cpu``."""

    name = "cpu"

    def __init__(self, n_threads: int) -> None:
        n_threads = require_whole("threads", n_threads, most=MOST_THREADS)
        if n_threads < 1:
            raise InputError(f"threads must be at least 1, got {n_threads}")
        if "numba" not in sys.modules:  # Numba fixes the size of its pool when it is first imported
            os.environ.setdefault("NUMBA_NUM_THREADS", str(max(n_threads, available_cores())))
            _choose_waiting(n_threads)
        cache.configure()
        import numba

        if n_threads > numba.config.NUMBA_NUM_THREADS:
            raise InputError(
                f"{n_threads} threads asked for, but Numba was started with at most "
                f"{numba.config.NUMBA_NUM_THREADS}; set NUMBA_NUM_THREADS={n_threads} before starting Python"
            )
        numba.set_num_threads(n_threads)
        self.n_threads = n_threads

    def kernel(self, name: str) -> Callable[..., Any]:
        module, function = name.rsplit(".", 1)
        kernel: Callable[..., Any] = getattr(import_module(f"mdsim.kernels.cpu.{module}"), function)
        return kernel

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.zeros(shape, dtype=dtype)

    def asarray(self, array: np.ndarray, dtype: Any = None) -> np.ndarray:
        return np.ascontiguousarray(array, dtype=dtype)

    def to_host(self, array: np.ndarray) -> np.ndarray:
        return array


def _choose_waiting(n_threads: int) -> None:
    """How threads wait between kernels, unless the user has said so.

    With a core for each they spin for about as long as a step has between kernels (DHFR on two cores: 13.8 ms a step against
    17.2 asleep), then sleep. With fewer cores they sleep at once: a spinning thread costs a time slice a kernel.
    """
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        return
    if n_threads <= available_cores():
        os.environ["GOMP_SPINCOUNT"] = SPIN_COUNT
    else:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def create(n_threads: int | None) -> CpuBackend:
    return CpuBackend(available_cores() if n_threads is None else n_threads)
