"""Communicators: the serial one has the parallel one's interface, so that one rank is not a code path of its own."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np

from mdsim.errors import InputError

#: set by the launchers of Open MPI, MPICH / Hydra, and Slurm for each process of a job
_SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")


class Communicator(Protocol):
    """What the engine needs of a communicator. All sums are of integers and so independent of their order."""

    rank: int
    size: int

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Element-wise sum over ranks of an int64 array, on every rank."""

    def gather(self, values: np.ndarray) -> list[np.ndarray] | None:
        """The arrays of all ranks by rank, on rank 0; None elsewhere."""

    def broadcast(self, values: np.ndarray) -> np.ndarray:
        """Rank 0's array on every rank."""

    def barrier(self) -> None: ...


class SerialCommunicator:
    """One rank: sums, gathers and broadcasts are the value itself."""

    rank = 0
    size = 1

    def sum(self, values: np.ndarray) -> np.ndarray:
        return values

    def gather(self, values: np.ndarray) -> list[np.ndarray] | None:
        return [values]

    def broadcast(self, values: np.ndarray) -> np.ndarray:
        return values

    def barrier(self) -> None:
        return None


def world() -> Communicator:
    """The communicator of this job. Under a launcher with several processes this is an error: none of them may run alone."""
    for name in _SIZE_VARIABLES:
        size = int(os.environ.get(name) or 1)
        if size > 1:
            raise InputError(
                f"started as {size} processes ({name}), but this version of mdsim runs on one rank and every process would "
                "write the same files; start it without the launcher, and use --threads for the cores"
            )
    return SerialCommunicator()
