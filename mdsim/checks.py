"""Arguments that must be sensible numbers."""

from __future__ import annotations

from math import inf, isfinite
from operator import index
from typing import Any

from mdsim.errors import InputError


def require_number(name: str, value: float, unit: str, least: float = -inf, above: bool = False) -> float:
    """``value`` as a float; an error if it is not finite, less than ``least``, or (with ``above``) not greater than it."""
    if isfinite(value) and (value > least if above else value >= least):
        return float(value)
    bound = "" if least == -inf else f" greater than {least:g}" if above else f" of {least:g} or more"
    raise InputError(f"{name} must be a finite number{bound} in {unit}, got {value}")


def require_whole(name: str, value: Any, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    """``value`` as an int; an error if it is no whole number (of any integer type) from ``least`` to ``most``."""
    try:
        number = index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, got {value!r}") from None
    if not least <= number <= most:
        raise InputError(f"{name} must be a whole number from {least} to {most}, got {number}")
    return number
