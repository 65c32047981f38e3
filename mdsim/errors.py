"""Errors meant for people: what is wrong, where, and what to do about it. The CLI prints them on one line."""

from __future__ import annotations

from collections.abc import Sequence


class MdsimError(Exception):
    """Anything mdsim can explain. ``str(error)`` is one line that names the cause and the remedy."""

    exit_code = 1


class InputError(MdsimError):
    """The input file, a file it names, or an option is wrong."""

    exit_code = 2


class UnsupportedError(MdsimError):
    """The system holds something that mdsim does not compute (names the class and the expression)."""

    exit_code = 3


class SimulationError(MdsimError):
    """The dynamics broke: overflow, not-a-number, constraints that cannot be met. Names atoms and term.

    Parts that know atoms by number only give their global ids as ``atoms``; the engine adds what they are called.
    """

    exit_code = 4

    def __init__(self, message: str, atoms: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.atoms = tuple(atoms)


class OutputError(MdsimError):
    """A result exists and would be overwritten, or a file cannot be written or read."""

    exit_code = 5
