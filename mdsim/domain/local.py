"""Which atoms a rank holds: distribution of a global configuration, gathering of snapshots, halo exchange.

On one rank every dimension wraps onto itself: all atoms are local, in global order, and there is no message to send.
"""

from __future__ import annotations

import numpy as np

from mdsim.backends import Backend
from mdsim.box import Box
from mdsim.domain.comm import Communicator
from mdsim.state import LocalView, State


class Domain:
    """The part of the box that this rank owns."""

    def __init__(self, comm: Communicator, backend: Backend, n_atoms: int) -> None:
        self.comm = comm
        self.backend = backend
        self.n_atoms = n_atoms

    def distribute(
        self, positions: np.ndarray, images: np.ndarray, velocities: np.ndarray, box: Box, step: int = 0
    ) -> State:
        """State of the local atoms out of global arrays int32[n, 3], int32[n, 3], float64[n, 3] (copied)."""
        return State(
            step=step,
            box=box,
            ids=self.backend.asarray(np.arange(self.n_atoms), np.int32),
            positions=self.backend.asarray(positions.copy(), np.int32),
            images=self.backend.asarray(images.copy(), np.int32),
            velocities=self.backend.asarray(velocities.copy(), np.float64),
            n_local=self.n_atoms,
        )

    def view(self, state: State) -> LocalView:
        """Map of global ids to local indices for the atoms in ``state``."""
        ids = self.backend.to_host(state.ids)
        global_to_local = np.full(self.n_atoms, -1, dtype=np.int32)
        global_to_local[ids] = np.arange(len(ids), dtype=np.int32)
        return LocalView(ids=ids, global_to_local=global_to_local, n_local=state.n_local)

    def gather(self, state: State, values: np.ndarray) -> np.ndarray:
        """Per-atom ``values`` [n_local, ...] of all ranks in global atom order, on rank 0."""
        local = self.backend.to_host(values)[: state.n_local]
        ids = self.comm.gather(self.backend.to_host(state.ids)[: state.n_local])
        parts = self.comm.gather(local)
        if ids is None or parts is None:
            return local[:0]
        whole = np.empty((self.n_atoms, *local.shape[1:]), dtype=local.dtype)
        for part_ids, part in zip(ids, parts, strict=True):
            whole[part_ids] = part
        return whole
