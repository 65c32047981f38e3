"""YAML with the line of each key remembered, and ``--set`` overrides laid over it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from mdsim.errors import InputError

KeyPath = tuple[str | int, ...]


@dataclass
class Source:
    """The plain content of an input file, and where each part of it was written."""

    name: str
    data: Any
    places: dict[KeyPath, str] = field(default_factory=dict)  # "line 12", or the --set that put it there

    def place(self, path: KeyPath) -> str:
        """Where the value at ``path`` was written, or else the nearest section around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, "")


def read_yaml(path: Path) -> Source:
    """Read ``path``; InputError for a missing file, malformed YAML and keys given twice."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no input file {path}{_nearest(path)}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a directory; give the input file in it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the input file {path}: {error}") from None
    source = Source(str(path), {})
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        source.data = _plain(node, (), source, loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        reason = " ".join(filter(None, (error.context, error.problem)))
        raise InputError(f"{path}{line}: not valid YAML, {reason}; check indentation, colons and quotes") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not valid YAML, {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InputError(
            f"{path}: sections within sections without end, or an alias of what it is in; write it plainly"
        ) from None
    if not isinstance(source.data, dict):
        raise InputError(f"{path} must hold the sections 'system:' and 'dynamics:'; see docs/input.md for an example")
    return source


def _nearest(path: Path) -> str:
    names = [entry.name for entry in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    near = get_close_matches(path.name, names, n=1)
    return f"; did you mean {path.parent / near[0]}?" if near else ""


def _plain(node: yaml.Node | None, path: KeyPath, source: Source, loader: yaml.SafeLoader) -> Any:
    """A YAML node as dicts, lists and scalars, noting the line of each."""
    if node is None:
        return None
    source.places.setdefault(path, f"line {node.start_mark.line + 1}")
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, source, loader)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, i), source, loader) for i, item in enumerate(node.value)]
    value = loader.construct_object(node, deep=True)
    return value if isinstance(value, str | int | float | bool | None) else str(node.value)  # dates stay text


def _mapping(node: yaml.MappingNode, path: KeyPath, source: Source, loader: yaml.SafeLoader) -> dict[str, Any]:
    loader.flatten_mapping(node)  # YAML's "<<" merges
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key, line = str(key_node.value), key_node.start_mark.line + 1
        if key in result:
            where = source.places[(*path, key)]
            raise InputError(
                f"{source.name}, line {line}: '{key}' is given twice (first on {where}); remove one of them"
            )
        source.places[(*path, key)] = f"line {line}"
        result[key] = _plain(value_node, (*path, key), source, loader)
    return result


def apply_overrides(source: Source, overrides: Iterable[str]) -> None:
    """Lay ``section.key=value`` texts over the data; values are read as YAML."""
    for text in overrides:
        dotted, equals, raw = text.partition("=")
        keys = dotted.strip().split(".")
        if not equals or not all(keys):
            raise InputError(
                f"--set {text}: write section.key=value, for instance --set dynamics.integrator.timestep='2 fs'"
            )
        try:
            value = yaml.safe_load(raw)
        except yaml.YAMLError:
            raise InputError(f"--set {text}: the value is not valid YAML; put it in quotes") from None
        set_value(source, keys, value, f"--set {text}")


def set_value(source: Source, keys: list[str], value: Any, place: str) -> None:
    """Put ``value`` at ``keys``, making the sections on the way."""
    here: Any = source.data
    path: KeyPath = ()
    for i, text in enumerate(keys):
        key: str | int = int(text) if isinstance(here, list) and text.isdecimal() else text
        path = (*path, key)
        last = i == len(keys) - 1
        if isinstance(here, list) and (not isinstance(key, int) or key >= len(here)):
            raise InputError(
                f"{place}: there is no item {text} in {'.'.join(keys[:i])}, which has {len(here)}; count from 0"
            )
        if last:
            here[key] = value
            source.places = {p: w for p, w in source.places.items() if p[: len(path)] != path}
        elif isinstance(here, dict) and not isinstance(here.get(key), dict | list):
            here[key] = {}
        here = here[key]
        source.places.setdefault(path, place)
