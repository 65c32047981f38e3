"""Reporters that write files: trajectory, energy log, checkpoint."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from mdsim.errors import InputError
from mdsim.io.checkpoint import Checkpoint, save_checkpoint
from mdsim.io.energylog import EnergyLog
from mdsim.io.fingerprint import Fingerprint
from mdsim.io.h5md import TrajectorySettings, TrajectorySource, TrajectoryWriter
from mdsim.reporters.base import NEVER, IntervalReporter, Reporter
from mdsim.state import Snapshot
from mdsim.tables import CompiledSystem
from mdsim.topology import Topology


class HasSystem(Protocol):
    """A simulation, as far as a trajectory needs one."""

    system: CompiledSystem
    topology: Topology


class TrajectoryReporter(IntervalReporter):
    """Frames of ``source`` (a Simulation will do) to an H5MD file.

    With ``n_frames`` (from a checkpoint) the file is resumed and cut to that many.
    """

    def __init__(
        self,
        path: str | Path,
        interval: int,
        source: TrajectorySource | HasSystem,
        settings: TrajectorySettings | None = None,
        n_frames: int | None = None,
        name: str = "trajectory",
    ) -> None:
        super().__init__(interval, name)
        settings = settings or TrajectorySettings()
        if not isinstance(source, TrajectorySource):
            source = TrajectorySource.from_system(source.system, source.topology)
        wanted = {"positions": True, "velocities": settings.velocities, "forces": settings.forces}
        self.needs = frozenset(field for field, yes in wanted.items() if yes)
        if n_frames is None:
            self.writer = TrajectoryWriter.create(path, source, settings)
        else:
            self.writer = TrajectoryWriter.resume(path, source, settings, n_frames)

    def report(self, snapshot: Snapshot) -> None:
        self.writer.append(snapshot)

    def count(self) -> int:
        return self.writer.n_frames

    def sync(self) -> None:
        self.writer.sync()

    def close(self) -> None:
        self.writer.close()


class EnergyReporter(IntervalReporter):
    """Rows to energies.csv and energies.h5. With ``n_rows`` (from a checkpoint) the logs are resumed and cut to that many."""

    needs = frozenset({"energies"})

    def __init__(
        self,
        directory: str | Path,
        interval: int,
        terms: Sequence[str],
        total_mass: float | None = None,
        n_rows: int | None = None,
        name: str = "energies",
    ) -> None:
        super().__init__(interval, name)
        self.log = EnergyLog(directory, terms, total_mass, n_rows)

    def report(self, snapshot: Snapshot) -> None:
        self.log.append(snapshot)

    def count(self) -> int:
        return self.log.n_rows

    def sync(self) -> None:
        self.log.sync()

    def close(self) -> None:
        self.log.close()


class CheckpointReporter:
    """Saves the state every ``interval`` steps, or once ``wall_interval`` seconds have passed, or both.

    It must be the last reporter of a run: a checkpoint counts what the ``others`` have written up to its step, after having them
    put it on the disk.
    """

    name = "checkpoint"
    needs = frozenset({"positions", "velocities"})

    def __init__(
        self,
        directory: str | Path,
        others: Sequence[Reporter],
        interval: int | None = None,
        wall_interval: float | None = None,
        system: Fingerprint | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if interval is None and wall_interval is None:
            raise InputError("checkpoints need an interval in steps or a wall interval in seconds")
        self.directory, self.others = Path(directory), others
        self.interval, self.wall_interval = interval, wall_interval
        self.system, self.settings = dict(system or {}), dict(settings or {})
        self._last = time.monotonic()
        self.last_step: int | None = None  # of the newest checkpoint made by this process

    def next_step(self, step: int) -> int:
        by_step = NEVER if self.interval is None else (step // self.interval + 1) * self.interval
        overdue = self.wall_interval is not None and time.monotonic() - self._last >= self.wall_interval
        return step + 1 if overdue else by_step

    def report(self, snapshot: Snapshot) -> None:
        """Save ``snapshot``; also to be called with one at the end of a run and on a signal."""
        assert snapshot.positions is not None
        assert snapshot.images is not None
        assert snapshot.velocities is not None
        for reporter in self.others:
            reporter.sync()
        counts = {reporter.name: reporter.count() for reporter in self.others}
        checkpoint = Checkpoint(
            step=snapshot.step,
            time=snapshot.time,
            box=snapshot.box,
            positions=snapshot.positions,
            images=snapshot.images,
            velocities=snapshot.velocities,
            extra=snapshot.extra,
            counts={name: n for name, n in counts.items() if n is not None},
            system=self.system,
            settings=self.settings,
        )
        save_checkpoint(self.directory, checkpoint)
        self._last, self.last_step = time.monotonic(), snapshot.step

    def count(self) -> int | None:
        return None

    def sync(self) -> None: ...

    def close(self) -> None: ...
