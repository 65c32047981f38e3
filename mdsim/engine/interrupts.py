"""Ctrl-C in scripts and notebooks: a step is finished first, for half a step cannot be gone on from."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_after_a_step() -> Iterator[Callable[[], bool]]:
    """Hold back Ctrl-C (in a notebook: "interrupt"); the context's value says whether it came. A second one breaks at once.

    Does nothing beside the main thread, or where another handler than Python's own is installed, as in ``mdsim run``.
    """
    came: list[int] = []

    def hold_back(number: int, frame: FrameType | None) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, hold_back)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
