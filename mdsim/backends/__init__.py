"""Backends by name; a driver is imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module

from mdsim.backends.base import Backend
from mdsim.errors import InputError

BACKENDS = ("cpu",)


def get_backend(name: str = "cpu", n_threads: int | None = None) -> Backend:
    """The backend called ``name``, with ``n_threads`` threads (None: all cores this process may use)."""
    if name not in BACKENDS:
        raise InputError(f"there is no backend '{name}'; known: {', '.join(BACKENDS)}")
    backend: Backend = import_module(f"mdsim.backends.{name}").create(n_threads)
    return backend


__all__ = ["BACKENDS", "Backend", "get_backend"]
