"""How far a run is, how fast it goes and when it will be done: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from mdsim.reporters.base import IntervalReporter
from mdsim.state import Snapshot

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SECONDS_PER_DAY = 86400.0


class Speed:
    """Rates from where the first report was made, and over the recent past."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._marks: list[tuple[float, int, float]] = []  # wall seconds, step, ps

    def mark(self, step: int, time_ps: float) -> None:
        self._marks.append((self._clock(), step, time_ps))
        if len(self._marks) > 32:  # the start is dropped: compilation and list building are over
            del self._marks[0]

    @property
    def ns_per_day(self) -> float | None:
        return self._rate(2, 1e-3 * SECONDS_PER_DAY)

    def seconds_to(self, step: int) -> float | None:
        rate = self._rate(1, 1.0)
        return (step - self._marks[-1][1]) / rate if rate else None

    def _rate(self, column: int, scale: float) -> float | None:
        if len(self._marks) < 2 or self._marks[-1][0] <= self._marks[0][0]:
            return None
        first, last = self._marks[0], self._marks[-1]
        return scale * (last[column] - first[column]) / (last[0] - first[0])


class ProgressReporter(IntervalReporter):
    """Progress towards ``end_step``.

    Parameters
    ----------
    interval : int
        Steps between reports.
    end_step : int
        The last step of the run.
    stream : text file, optional
        stderr if not given. A bar is drawn where it is a terminal.
    line_seconds : float
        Plain lines are printed at most this often.
    temperature : bool
        Show it; energies must then be computed at each report.
    """

    def __init__(
        self,
        interval: int,
        end_step: int,
        stream: TextIO | None = None,
        line_seconds: float = 10.0,
        temperature: bool = True,
        name: str = "progress",
    ) -> None:
        super().__init__(interval, name)
        self.needs = frozenset({"energies"}) if temperature else frozenset()
        self.end_step, self.stream = end_step, stream or sys.stderr or StringIO()  # stderr may have been closed
        self.line_seconds, self.speed = line_seconds, Speed()
        self._bar: tuple[Progress, TaskID] | None = None
        self._printed: float | None = None

    def next_step(self, step: int) -> int:
        due = super().next_step(step)
        return min(due, self.end_step) if step < self.end_step else due

    def start(self, step: int, time_ps: float) -> None:
        """Show the bar before the first step. The speed is measured from the first report on, when all is loaded."""
        if self.stream.isatty():
            self._show(step, "")

    def report(self, snapshot: Snapshot) -> None:
        self.speed.mark(snapshot.step, snapshot.time)
        if self.stream.isatty():
            self._show(snapshot.step, self._facts(snapshot))
        else:
            self._print(snapshot)

    def _facts(self, snapshot: Snapshot) -> str:
        """``123 ns/day  301.2 K  1 h 05 min left``"""
        facts = [f"{snapshot.time:.1f} ps" if snapshot.time < 1000.0 else f"{snapshot.time / 1000.0:.3f} ns"]
        if (rate := self.speed.ns_per_day) is not None:
            facts.append(f"{rate:.3g} ns/day")
        if snapshot.temperature is not None:
            facts.append(f"{snapshot.temperature:.1f} K")
        left = self.speed.seconds_to(self.end_step)
        if left is not None and snapshot.step < self.end_step:
            facts.append(f"{readable_time(left)} left")
        return "  ".join(facts)

    def _print(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        last = snapshot.step >= self.end_step
        if self._printed is None or last or now - self._printed >= self.line_seconds:
            with suppress(OSError):  # a reader that went away must not end a run
                print(f"step {snapshot.step} of {self.end_step}  {self._facts(snapshot)}", file=self.stream, flush=True)
            self._printed = now

    def _show(self, step: int, facts: str) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

            progress = Progress(
                TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[facts]}"),
                console=Console(file=self.stream),
            )
            progress.start()
            self._bar = progress, progress.add_task("", total=self.end_step, facts=facts)
        progress, task = self._bar
        progress.update(task, completed=step, facts=facts)

    def close(self) -> None:
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None


def readable_time(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``, ``5 h 07 min``, ``2 d 03 h``."""
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} min {s % 60:02d} s"
    if s < 86400:
        return f"{s // 3600} h {s % 3600 // 60:02d} min"
    return f"{s // 86400} d {s % 86400 // 3600:02d} h"
