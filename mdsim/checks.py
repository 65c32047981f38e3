"""Arguments that must be sensible numbers."""

from __future__ import annotations

from math import inf, isfinite

from mdsim.errors import InputError


def require_number(name: str, value: float, unit: str, least: float = -inf, above: bool = False) -> float:
    """``value`` as a float; an error if it is not finite, less than ``least``, or (with ``above``) not greater than it."""
    if isfinite(value) and (value > least if above else value >= least):
        return float(value)
    bound = "" if least == -inf else f" greater than {least:g}" if above else f" of {least:g} or more"
    raise InputError(f"{name} must be a finite number{bound} in {unit}, got {value}")
