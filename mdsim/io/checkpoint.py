"""Checkpoints: all that a run needs to go on with the same bits, on any hardware; written so that one is always there.

A checkpoint is made aside, fsynced and renamed; the one before stays as ``checkpoint.prev.h5``. Forces are not kept: they are
computed again from the positions and come out the same. Nothing in the file speaks of ranks, threads or devices.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mdsim.box import Box
from mdsim.errors import OutputError
from mdsim.io.durable import hdf5_image, sync_directory, write_durably
from mdsim.io.fingerprint import Fingerprint, fingerprint_differences, system_fingerprint
from mdsim.version import __version__

NAME, PREVIOUS_NAME, DAMAGED_NAME = "checkpoint.h5", "checkpoint.prev.h5", "checkpoint.damaged.h5"
FORMAT = 1

__all__ = [
    "Checkpoint",
    "CheckpointWarning",
    "current_versions",
    "differences",
    "load_checkpoint",
    "load_checkpoint_file",
    "put_damaged_aside",
    "save_checkpoint",
    "system_fingerprint",
]


class CheckpointWarning(UserWarning):
    """The newest checkpoint is damaged and the one before it was taken."""


def current_versions() -> dict[str, str]:
    """Versions worth knowing when a file is looked at later."""
    return {
        "mdsim": __version__,
        "numpy": np.__version__,
        "h5py": h5py.__version__,
        "python": platform.python_version(),
    }


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a run, atoms in global order.

    ``counts`` says how far each output had come, by the reporter's name (frames of a trajectory, rows of a log).
    ``settings`` are those that must be equal for the run to be the same run, as flat ``key: value``.
    """

    step: int
    time: float  # ps
    box: Box
    positions: np.ndarray  # int32[n, 3]
    images: np.ndarray  # int32[n, 3]
    velocities: np.ndarray  # float64[n, 3] nm/ps
    extra: dict[str, np.ndarray] = field(default_factory=dict)  # of integrator and barostat
    counts: dict[str, int] = field(default_factory=dict)
    system: Fingerprint = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=current_versions)

    def check_same_run(
        self, system: Fingerprint, settings: Mapping[str, Any], where: str | Path = "the checkpoint"
    ) -> None:
        """Raise OutputError, naming what differs, unless a run of ``system`` under ``settings`` is the one that stopped."""
        changed = differences(self.settings, settings)
        parts = fingerprint_differences(self.system, system) if self.system else []
        if parts:
            more = f" and {len(parts) - 4} more" if len(parts) > 4 else ""
            changed.append(f"the system differs in {', '.join(parts[:4])}{more}")
        if changed:
            raise OutputError(
                f"{where} belongs to another run: {'; '.join(changed)}. Undo the change, or choose another output directory"
            )


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """``key was 'a', now 'b'`` for each key whose values differ."""
    missing = "not set"

    def shown(settings: Mapping[str, Any], key: str) -> str:
        return f"'{settings[key]}'" if key in settings else missing

    return [
        f"{key} was {shown(old, key)}, now {shown(new, key)}"
        for key in sorted(old.keys() | new.keys())
        if key not in old or key not in new or plain(old[key]) != plain(new[key])
    ]


def plain(value: Any) -> Any:
    """The value as it comes back from JSON."""
    return json.loads(json.dumps(value, default=str))


# --- writing -----------------------------------------------------------------------------------------------------------


def save_checkpoint(directory: str | Path, checkpoint: Checkpoint) -> Path:
    """Make ``checkpoint`` the newest one in ``directory`` and keep the one before it. It is on the disk when this returns."""
    directory = Path(directory)
    newest, previous = directory / NAME, directory / PREVIOUS_NAME
    aside = directory / (NAME + ".new")
    try:
        write_durably(aside, hdf5_image(lambda file: _fill(file, checkpoint)))
        if newest.exists():
            _keep_as(newest, previous)
        os.replace(aside, newest)
        sync_directory(directory)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise OutputError(f"the checkpoint {newest} cannot be written: {error}; is the disk full?") from error
    return newest


def _keep_as(newest: Path, previous: Path) -> None:
    """Give the newest file the name of the one before, without a moment in which there is no newest."""
    link = previous.with_name(previous.name + ".link")
    link.unlink(missing_ok=True)
    try:
        os.link(newest, link)
    except OSError:  # a file system without hard links: for a moment the previous one is the only one
        os.replace(newest, previous)
    else:
        os.replace(link, previous)


def _fill(file: h5py.File, checkpoint: Checkpoint) -> None:
    """Give an empty HDF5 file the content of ``checkpoint``."""
    for name in ("positions", "images", "velocities"):
        file[f"state/{name}"] = getattr(checkpoint, name)
    file["state/box"] = checkpoint.box.vectors
    file["state"].attrs.update(step=checkpoint.step, time=checkpoint.time, periodic=checkpoint.box.periodic)
    for name, array in checkpoint.extra.items():
        file[f"extra/{name}"] = array
    for name, value in checkpoint.system.items():
        file[f"system/{name}"] = value
    for name in ("counts", "settings", "versions"):
        file[name] = json.dumps(getattr(checkpoint, name), default=str, sort_keys=True)
    file.attrs["format"] = FORMAT
    file.attrs["checksum"] = _checksum(file)


def _checksum(file: h5py.File) -> str:
    """SHA-256 over names, types, shapes and contents of all datasets and the attributes of the state."""
    digest = hashlib.sha256()

    def add(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            value = item[()]
            digest.update(f"{name} {item.shape} ".encode())
            digest.update(value if isinstance(value, bytes) else value.dtype.str.encode() + value.tobytes())

    file.visititems(add)
    digest.update(repr([(k, file["state"].attrs[k].item()) for k in ("step", "time", "periodic")]).encode())
    return digest.hexdigest()


# --- reading -----------------------------------------------------------------------------------------------------------


def load_checkpoint(directory: str | Path) -> Checkpoint | None:
    """The newest sound checkpoint in ``directory``; None where there never was one.

    Warns (CheckpointWarning) where the newest is damaged and the one before is taken; raises OutputError where both are.
    """
    found = [path for name in (NAME, PREVIOUS_NAME) if (path := Path(directory) / name).exists()]
    problems: list[str] = []
    for path in found:
        try:
            checkpoint = load_checkpoint_file(path)
        except OutputError as error:
            problems.append(str(error))
            continue
        if problems:
            warnings.warn(
                f"{'; '.join(problems)}; going on from the one before, {path.name}, at step {checkpoint.step}",
                CheckpointWarning,
                stacklevel=2,
            )
        return checkpoint
    if problems:
        raise OutputError(
            f"no checkpoint in {directory} can be read: {'; '.join(problems)}. Start in another directory"
        )
    return None


def put_damaged_aside(directory: str | Path) -> None:
    """After a warning of ``load_checkpoint``: the damaged file gets a name of its own and the sound one becomes the newest.

    Else the next checkpoint would keep the damaged file as the one before, in the sound one's place.
    """
    directory = Path(directory)
    try:
        os.replace(directory / NAME, directory / DAMAGED_NAME)
        os.replace(directory / PREVIOUS_NAME, directory / NAME)
        sync_directory(directory)
    except OSError as error:
        raise OutputError(f"{directory / NAME} is damaged and cannot be put aside: {error}") from error


def load_checkpoint_file(path: str | Path) -> Checkpoint:
    """One file, checked against its checksum; OutputError if it is damaged."""
    try:
        with h5py.File(path, "r") as file:
            if file.attrs["format"] != FORMAT:
                raise OutputError(
                    f"{path} has checkpoint format {file.attrs['format']}; this mdsim reads format {FORMAT}"
                )
            if _checksum(file) != file.attrs["checksum"]:
                raise OutputError(f"{path} is damaged: its content does not match its checksum")
            return _from_file(file)
    except (OSError, KeyError, ValueError, RuntimeError, TypeError, EOFError) as error:
        raise OutputError(f"{path} is damaged: {error}") from error


def _from_file(file: h5py.File) -> Checkpoint:
    state = file["state"]
    return Checkpoint(
        step=int(state.attrs["step"]),
        time=float(state.attrs["time"]),
        box=Box(state["box"][()], periodic=bool(state.attrs["periodic"])),
        positions=state["positions"][()],
        images=state["images"][()],
        velocities=state["velocities"][()],
        extra={name: np.asarray(item[()]) for name, item in file.get("extra", {}).items()},
        system={name: _text_or_array(item) for name, item in file.get("system", {}).items()},
        **{name: json.loads(file[name].asstr()[()]) for name in ("counts", "settings", "versions")},
    )


def _text_or_array(item: h5py.Dataset) -> str | np.ndarray:
    value = item[()]
    return value.decode() if isinstance(value, bytes) else value
