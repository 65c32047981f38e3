"""What a reporter is: it says when it is next due and what it needs, and is handed a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from mdsim.errors import InputError
from mdsim.state import Snapshot

#: what a reporter may need; images come with positions, kinetic energy and temperature with energies
FIELDS = frozenset({"positions", "velocities", "forces", "energies"})
#: a step that no run reaches: "not due"
NEVER = 2**62


class Reporter(Protocol):
    """Anything that looks at a run as it goes. Due steps are absolute, so that a resumed run reports at the same ones."""

    name: str  # unique in a run; the checkpoint counts by it
    needs: frozenset[str]  # subset of FIELDS

    def next_step(self, step: int) -> int:
        """The first step after ``step`` at which it is due."""

    def report(self, snapshot: Snapshot) -> None: ...

    def count(self) -> int | None:
        """Frames or rows written so far, to be kept in checkpoints; None for one that writes no file."""

    def sync(self) -> None:
        """Have on the disk all that ``count`` counts."""

    def close(self) -> None: ...


class IntervalReporter:
    """Due at every multiple of ``interval`` steps."""

    needs: frozenset[str] = frozenset()

    def __init__(self, interval: int, name: str) -> None:
        if interval < 1:
            raise InputError(f"the {name} interval must be at least 1 step, got {interval}")
        self.interval, self.name = interval, name

    def next_step(self, step: int) -> int:
        return (step // self.interval + 1) * self.interval

    def count(self) -> int | None:
        return None

    def sync(self) -> None: ...

    def close(self) -> None: ...


class CallbackReporter(IntervalReporter):
    """Calls a function of one's own: ``CallbackReporter(lambda snapshot: print(snapshot.temperature), 100, {"energies"})``."""

    def __init__(
        self, function: Callable[[Snapshot], None], interval: int, needs: Iterable[str] = (), name: str = "callback"
    ) -> None:
        super().__init__(interval, name)
        self.function, self.needs = function, frozenset(needs)
        unknown = self.needs - FIELDS
        if unknown:
            raise InputError(f"a reporter cannot need {', '.join(sorted(unknown))}; known: {', '.join(sorted(FIELDS))}")

    def report(self, snapshot: Snapshot) -> None:
        self.function(snapshot)
