"""The keys of the input as documentation: a JSON schema for editors, and tables for docs/input.md."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mdsim.config.fields import InputDirectory, InputFile, Interval, IntervalField, Section
from mdsim.config.models import RunConfig
from mdsim.config.quantities import Measure
from mdsim.config.system import ForceFieldFile


def json_schema() -> str:
    """The JSON schema of input files, for editors."""
    schema = RunConfig.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "mdsim input"
    return json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def markdown_reference() -> str:
    """A table for each section of the input."""
    return "\n".join(line for path, model in _sections(RunConfig, "") for line in _table(path, model))


def _sections(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    if path:
        yield path, model
    for name, info in model.model_fields.items():
        for inner in _models(info.annotation):
            kind = inner.model_fields.get("kind")
            suffix = f" ({get_args(kind.annotation)[0]})" if kind else ""
            yield from _sections(inner, f"{path.split(' (')[0]}.{name}{suffix}".lstrip("."))


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) is Literal:
        return []
    return [found for argument in get_args(annotation) for found in _models(argument)]


def _table(path: str, model: type[BaseModel]) -> Iterator[str]:
    yield from (f"### {path}", "", " ".join((model.__doc__ or "").split()), "", "| key | value | default | meaning |")
    yield "|---|---|---|---|"
    for name, info in model.model_fields.items():
        value = " or ".join(dict.fromkeys(_values(info.annotation, info.metadata))).replace("|", "\\|")
        yield f"| `{name}` | {value} | {_default(info)} | {info.description or ''} |"
    yield ""


def _values(annotation: Any, metadata: list[Any]) -> Iterator[str]:
    """What may be written for a field."""
    for mark in metadata:
        if isinstance(mark, Measure):
            yield f"e.g. `{mark.example}`"
            return
        if isinstance(mark, IntervalField):
            yield "steps or e.g. `1 ps`"
            return
        if isinstance(mark, InputDirectory):
            yield "directory"
            return
        if isinstance(mark, InputFile | ForceFieldFile):
            yield "file"
            return
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _values(arguments[0], list(arguments[1:]))
    elif origin is Literal:
        yield ", ".join(f"`{json.dumps(a) if not isinstance(a, str) else a}`" for a in arguments)
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from _values(argument, [])
    elif origin is tuple:
        count = "" if arguments[-1] is Ellipsis else f"{len(arguments)} "
        yield f"list of {count}({next(_values(arguments[0], []), '')})"
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "section"
    elif annotation is not type(None):
        yield {int: "whole number", float: "number", bool: "`true`, `false`", str: "text"}.get(annotation, "path")


def _default(info: FieldInfo) -> str:
    value = info.default
    if info.is_required():
        return "required"
    if value is None or value == () or value == "":
        return ""
    if isinstance(value, Section):
        return "as below"
    if isinstance(value, Interval):
        return f"`{IntervalField.serialize(value)}`"
    measures = [m for m in _marks(info.annotation, info.metadata) if isinstance(m, Measure)]
    if measures and isinstance(value, float):
        return f"`{value:g} {measures[0].unit}`"
    return (
        f"`{json.dumps(value) if not isinstance(value, str) else value}`"
        if not hasattr(value, "parts")
        else f"`{value}`"
    )


def _marks(annotation: Any, metadata: list[Any]) -> Iterator[Any]:
    yield from metadata
    for argument in get_args(annotation):
        if get_origin(argument) is Annotated:
            yield from get_args(argument)[1:]
