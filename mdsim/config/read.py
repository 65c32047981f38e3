"""From an input file to a checked ``RunConfig``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mdsim.config.messages import input_error
from mdsim.config.models import RunConfig
from mdsim.config.source import Source, apply_overrides, read_yaml, set_value


def load_input(
    path: str | Path,
    overrides: Iterable[str] = (),
    *,
    steps: int | None = None,
    output: str | Path | None = None,
    threads: int | None = None,
    backend: str | None = None,
) -> RunConfig:
    """Read and check an input file, with ``--set`` texts and the command's own options laid over it.

    Raises InputError with everything that is wrong, each with its line and key.
    """
    path = Path(path)
    source = read_yaml(path)
    apply_overrides(source, overrides)
    if steps is not None:
        if isinstance(source.data.get("dynamics"), dict):
            source.data["dynamics"].pop("duration", None)
        set_value(source, ["dynamics", "steps"], steps, "--steps")
    if output is not None:
        set_value(source, ["output", "directory"], str(output), "--output")
    if threads is not None:
        set_value(source, ["compute", "threads"], threads, "--threads")
    if backend is not None:
        set_value(source, ["compute", "backend"], backend, "--backend")
    _default_directory(source.data, path)
    return _validate(source, path.parent)


def config_from_dict(data: Mapping[str, Any], directory: str | Path = ".") -> RunConfig:
    """A checked ``RunConfig`` from plain data; files are relative to ``directory``."""
    return _validate(Source("the input", dict(data)), Path(directory))


def _default_directory(data: dict[str, Any], path: Path) -> None:
    """Results of NAME.yaml go to results/NAME unless the input says otherwise."""
    output = data.setdefault("output", {})
    if output is None:
        output = data["output"] = {}
    if isinstance(output, dict):
        output.setdefault("directory", str(Path("results") / path.stem))


def _validate(source: Source, directory: Path) -> RunConfig:
    try:
        return RunConfig.model_validate(source.data, context={"directory": directory})
    except ValidationError as error:
        raise input_error(error, RunConfig, source) from None
