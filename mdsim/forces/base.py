"""What a force term is: it adds fixed-point forces and energies for the atoms that a rank holds, and knows no rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from mdsim.box import Box
from mdsim.state import LocalView


@dataclass
class ForceBuffers:
    """Where terms add. Zeroed by the engine before a force computation; one slice a thread."""

    forces: np.ndarray  # int64[n_threads, n_local + n_ghost, 3], FORCE_SCALE
    energies: np.ndarray  # int64[n_energy_names, n_threads], ENERGY_SCALE
    flags: np.ndarray  # int32[n_energy_names, n_threads], FLAG_* bits


class ForceTerm(Protocol):
    """One group of interactions.

    ``slot`` is the row of ``ForceBuffers.energies`` of the term's first energy name; the engine sets it.
    """

    label: str  # OpenMM force it came from
    energy_names: tuple[str, ...]  # e.g. ("bonds",) or ("lj", "coulomb")
    energy_labels: tuple[str, ...]  # the OpenMM force that each energy belongs to
    halo_width: float  # nm; how far beyond its own domain a rank must know atoms
    slot: int

    def bind(self, view: LocalView) -> None:
        """Take the entries that this rank computes and express them in local indices."""

    def compute(self, positions: np.ndarray, box: Box, out: ForceBuffers, with_energy: bool) -> None:
        """Add forces for ``positions`` int32[n, 3] (and energies; always allowed, required ``with_energy``)."""


@runtime_checkable
class ListedTerm(ForceTerm, Protocol):
    """A term that keeps a list of pairs, which is looked after (and timed) apart from the forces."""

    def update_list(self, positions: np.ndarray, box: Box) -> None:
        """Make the list good for ``positions``, before ``compute``."""


__all__ = ["ForceBuffers", "ForceTerm", "ListedTerm", "LocalView"]
