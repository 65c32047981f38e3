"""Numbers with units as people write them, turned into mdsim's units (nm, ps, amu, K, kJ/mol) by pint."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import pint
from pydantic_core import PydanticCustomError, core_schema

_NUMBER_AND_UNIT = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*", re.DOTALL)
_UNIT_TEXT = re.compile(r"[\w/*^ ()°²³µμÅ⁻¹·-]*")
#: units that are easily taken for another: A is the ampere, k the Boltzmann constant, C the coulomb
_LOOKALIKES = {
    "A": "Å or angstrom",
    "k": "K",
    "C": "degC",
    "PS": "ps",
    "FS": "fs",
    "NM": "nm",
    "kj": "kJ",
    "KJ": "kJ",
}


@cache
def registry() -> pint.UnitRegistry[Any]:
    """The one unit registry: pint's built-in definitions."""
    return pint.UnitRegistry(autoconvert_offset_to_baseunit=True)


def _unit(text: str) -> pint.Unit | None:
    """The unit that ``text`` names ("ps", "1/ps", "/ps", "kJ/mol/nm^2"), or None."""
    if not _UNIT_TEXT.fullmatch(text):
        return None
    try:
        return registry().parse_units("1" + text if text.startswith("/") else text)
    except Exception:  # noqa: BLE001 - pint raises a dozen types for malformed text, all with the same meaning here
        return None


def parse_quantity(text: str, unit: str, example: str) -> float:
    """The value of ``text``, such as ``"2 fs"``, in ``unit``; ValueError says what to write instead."""
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a number with a unit; write for instance '{example}'")
    number, unit_text = float(match[1]), match[2]
    if not math.isfinite(number):
        raise ValueError(f"'{text}' is too large for a number; write for instance '{example}'")
    if not unit_text:
        raise ValueError(f"'{text}' has no unit; write for instance '{example}'")
    found = _unit(unit_text)
    if found is None or not found.is_compatible_with(unit):
        problem = (
            f"'{unit_text}' is not a unit" if found is None else f"'{unit_text}' does not measure the same as '{unit}'"
        )
        words = re.findall(r"[^\W\d_]+", unit_text)
        hints = [f"for {w} write {_LOOKALIKES[w]}" for w in words if w in _LOOKALIKES]
        raise ValueError(f"{problem}{'; ' + ', '.join(hints) if hints else ''}; write for instance '{example}'")
    if found == registry().parse_units(unit):
        return number
    value = float(registry().Quantity(number, found).to(unit).magnitude)
    return float(f"{value:.14g}")  # 9 Å is 0.9 nm, not 0.9000000000000001


@dataclass(frozen=True)
class Measure:
    """A kind of quantity: its unit inside mdsim, an example for messages, and the allowed range."""

    unit: str
    example: str
    minimum: float = 0.0
    exclusive: bool = True

    def validate(self, value: object) -> float:
        """pydantic's validator: text with a unit to a float in ``unit``."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise _error(f"{value} has no unit; write for instance '{self.example}'")
        if not isinstance(value, str):
            raise _error(f"must be a number with a unit; write for instance '{self.example}'")
        try:
            number = parse_quantity(value, self.unit, self.example)
        except ValueError as error:
            raise _error(str(error)) from None
        if number < self.minimum or (self.exclusive and number == self.minimum):
            bound = f"{'greater than' if self.exclusive else 'at least'} {self.minimum:g} {self.unit}"
            raise _error(f"'{value}' must be {bound}; write for instance '{self.example}'")
        return number

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        as_text = core_schema.plain_serializer_function_ser_schema(
            lambda value: f"{value!r} {self.unit}" if isinstance(value, float) else value, when_used="json"
        )
        return core_schema.no_info_plain_validator_function(self.validate, serialization=as_text)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """For editors."""
        return {
            "type": "string",
            "description": f"a number with a unit; mdsim uses {self.unit}",
            "pattern": r"^\s*[+-]?[0-9.]+([eE][+-]?[0-9]+)?\s*[A-Za-z/°µμÅ(].*$",
            "examples": [self.example],
        }


def _error(message: str) -> PydanticCustomError:
    return PydanticCustomError("quantity", "{message}", {"message": message})


Time = Annotated[float, Measure("ps", "2 fs")]
Duration = Annotated[float, Measure("ps", "100 ps")]
CouplingTime = Annotated[float, Measure("ps", "1 ps")]
Length = Annotated[float, Measure("nm", "0.9 nm")]
Buffer = Annotated[float, Measure("nm", "0.1 nm")]
Resolution = Annotated[float, Measure("nm", "0.001 nm")]
Distance = Annotated[float, Measure("nm", "0.3 nm", exclusive=False)]
Temperature = Annotated[float, Measure("K", "300 K", exclusive=False)]
Mass = Annotated[float, Measure("amu", "1.5 amu")]
Rate = Annotated[float, Measure("1/ps", "1 /ps", exclusive=False)]
Pressure = Annotated[float, Measure("bar", "1 bar", minimum=-1e6)]
SurfaceTension = Annotated[float, Measure("bar*nm", "0 bar*nm", minimum=-1e6)]
Concentration = Annotated[float, Measure("mol/L", "0.15 mol/L", exclusive=False)]
ForceConstant = Annotated[float, Measure("kJ/mol/nm^2", "1000 kJ/mol/nm^2", exclusive=False)]
ForceTolerance = Annotated[float, Measure("kJ/mol/nm", "10 kJ/mol/nm")]
WallTime = Annotated[float, Measure("s", "10 min")]
