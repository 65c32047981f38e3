"""Shared by all tests: a thread pool wide enough to test several thread counts on any machine."""

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "4")  # before Numba is first imported
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin would starve each other on a busy machine

from mdsim.backends import cache

cache.configure()  # before a test imports a kernel by itself: stale code must not be loaded from beside the sources
