"""What the sections of the input are made of: strict frozen models, files, intervals, and errors that name a key."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError, core_schema

from mdsim.config.quantities import Measure

PACKAGE_PREFIX = "package:"
#: which extra of mdsim brings a package that inputs may name files in
_EXTRA_OF_PACKAGE = {"openmmtools": "mdsim[examples]"}


class Section(BaseModel):
    """A part of the input: unknown keys are errors and nothing changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def problem(message: str) -> PydanticCustomError:
    """An error at the value being read."""
    return PydanticCustomError("problem", "{message}", {"message": message})


class Problems:
    """Errors that concern several keys of one section, each pinned to the key where the user should look."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def add(self, key: str, message: str) -> None:
        self.found.append((key, message))

    def raise_any(self) -> None:
        if self.found:
            text = "; ".join(f"{key}: {message}" for key, message in self.found)
            raise PydanticCustomError("problems", "{text}", {"text": text, "found": self.found})


def package_file(text: str) -> Path:
    """The file that ``package:NAME/path`` names, inside the installed package NAME (which is not imported)."""
    name, _, inside = text.removeprefix(PACKAGE_PREFIX).partition("/")
    spec = find_spec(name) if name.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        remedy = f"pip install '{_EXTRA_OF_PACKAGE.get(name, name)}'"
        raise ValueError(f"the Python package '{name}' is not installed; try: {remedy}")
    return Path(next(iter(spec.submodule_search_locations))) / inside


def resolve_file(text: str, directory: Path) -> Path:
    """An existing file named in the input: ``package:NAME/path``, absolute, or relative to the input file's directory."""
    path = package_file(text) if text.startswith(PACKAGE_PREFIX) else directory / Path(text).expanduser()
    if path.is_dir():
        raise ValueError(f"{path} is a directory, a file is needed")
    if not path.is_file():
        raise ValueError(f"there is no file {path}{_nearest_file(path)}")
    return path


def _nearest_file(path: Path) -> str:
    """A hint at the file that was perhaps meant."""
    if not path.parent.is_dir():
        return f" (there is no directory {path.parent} either)"
    near = get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1)
    return f"; did you mean {near[0]}?" if near else ""


class InputFile:
    """Annotation for a ``Path`` field: an existing file, relative to the input file or ``package:NAME/path``."""

    @staticmethod
    def validate(value: object, info: core_schema.ValidationInfo) -> Path:
        if not isinstance(value, str | Path) or not str(value):
            raise problem("must be the name of a file, relative to the input file")
        try:
            return resolve_file(str(value), Path((info.context or {}).get("directory", ".")))
        except (ValueError, OSError) as error:
            raise problem(str(error)) from None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(
            self.validate, serialization=core_schema.to_string_ser_schema(when_used="json")
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {
            "type": "string",
            "description": "a file, relative to the input file; package:NAME/path is inside an installed package",
        }


class InputDirectory(InputFile):
    """Annotation for a ``Path`` field: an existing directory, named like an input file."""

    @staticmethod
    def validate(value: object, info: core_schema.ValidationInfo) -> Path:
        if not isinstance(value, str | Path) or not str(value):
            raise problem("must be the name of a directory, relative to the input file")
        text, base = str(value), Path((info.context or {}).get("directory", "."))
        try:
            path = package_file(text) if text.startswith(PACKAGE_PREFIX) else base / Path(text).expanduser()
        except ValueError as error:
            raise problem(str(error)) from None
        if not path.is_dir():
            raise problem(f"there is no directory {path}{_nearest_file(path)}")
        return path


@dataclass(frozen=True)
class Interval:
    """How often something happens: every so many steps, or every so many picoseconds."""

    steps: int | None = None
    time: float | None = None  # ps

    def in_steps(self, timestep: float) -> int:
        """Steps of ``timestep`` ps; ValueError where the time is not a multiple of it."""
        if self.steps is not None:
            return self.steps
        assert self.time is not None
        ratio = self.time / timestep
        steps = round(ratio)
        if steps < 1 or abs(ratio - steps) > 1e-6 * steps:
            near = max(1, steps) * timestep
            raise ValueError(
                f"{self.time:g} ps is not a multiple of the timestep of {timestep:g} ps; "
                f"write a number of steps, or for instance '{near:.9g} ps'"
            )
        return steps


class IntervalField:
    """Annotation for an ``Interval`` field: a whole number of steps, or a time with a unit."""

    measure = Measure("ps", "1 ps")

    def validate(self, value: object) -> Interval:
        if isinstance(value, Interval):
            return value
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            if value < 1:
                raise problem(f"{value} is not a positive number of steps; write for instance 500 or '1 ps'")
            return Interval(steps=value)
        if not isinstance(value, str):
            raise problem("must be a whole number of steps or a time; write for instance 500 or '1 ps'")
        return Interval(time=self.measure.validate(value))

    @staticmethod
    def serialize(value: Interval) -> int | str:
        return value.steps if value.steps is not None else f"{value.time!r} ps"

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        as_written = core_schema.plain_serializer_function_ser_schema(self.serialize, when_used="json")
        return core_schema.no_info_plain_validator_function(self.validate, serialization=as_written)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        steps = {"type": "integer", "minimum": 1, "description": "steps"}
        time = self.measure.__get_pydantic_json_schema__(None, None)
        return {"anyOf": [steps, time], "description": "steps, or a time that is a multiple of the timestep"}
