"""A result directory belongs to one input and one process at a time, and is never overwritten."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from mdsim.errors import OutputError
from mdsim.io.checkpoint import current_versions, differences, plain
from mdsim.io.durable import sync_directory, write_durably

MANIFEST, LOCK = "manifest.json", ".lock"
#: the manifest's ``status``
PREPARING, RUNNING, INTERRUPTED, FINISHED, FAILED = "preparing", "running", "interrupted", "finished", "failed"


class ResultDirectory:
    """A locked output directory with its manifest.

    Parameters
    ----------
    path : Path
        Made if it is not there.
    settings : mapping
        The resolved input as flat ``key: value``, without what may change between a run and its continuation (number of
        steps, threads, ...). Compared with the manifest's.
    details : mapping, optional
        Anything else worth keeping in the manifest (the whole input, the command); not compared.
    """

    def __init__(self, path: str | Path, settings: Mapping[str, Any], details: Mapping[str, Any] | None = None) -> None:
        self.path = Path(path)
        self._lock = _take_lock(self.path)
        try:
            self.resumed = (self.path / MANIFEST).exists()
            if self.resumed:
                self.manifest = _read_manifest(self.path)
                self._check_same_input(settings)
            else:
                self._check_empty()
                self.manifest = {
                    "settings": plain(dict(settings)),
                    "details": plain(dict(details or {})),
                    "versions": current_versions(),
                    "created": _now(),
                    "status": PREPARING,
                    "step": 0,
                }
                self._write_manifest()
        except BaseException:
            self.close()
            raise

    @property
    def status(self) -> str:
        return str(self.manifest["status"])

    @property
    def finished(self) -> bool:
        """True if the run in this directory came to its end."""
        return self.status == FINISHED

    def set_status(self, status: str, step: int, message: str = "") -> None:
        """Record how the run stands; on the disk when this returns."""
        self.manifest |= {"status": status, "step": step, "message": message, "changed": _now()}
        self._write_manifest()

    def describe(self) -> str:
        """One line for people: ``results/dhfr: finished at step 500000 on 2026-03-01 12:00:00``."""
        m = self.manifest
        return f"{self.path}: {m['status']} at step {m['step']} on {m.get('changed', m['created'])}"

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)  # which gives the lock back
            self._lock = None

    def __enter__(self) -> ResultDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_same_input(self, settings: Mapping[str, Any]) -> None:
        changed = differences(self.manifest["settings"], settings)
        if changed:
            raise OutputError(
                f"{self.path} holds the result of another input: {'; '.join(changed)}. "
                "Undo the change, or choose another output directory"
            )

    def _check_empty(self) -> None:
        ours = [p.name for pattern in ("*.h5md", "*.h5", "energies.csv") for p in self.path.glob(pattern)]
        if ours:
            raise OutputError(
                f"{self.path} holds {', '.join(sorted(ours))} but no {MANIFEST}; they are not overwritten. "
                "Move them away, or choose another output directory"
            )

    def _write_manifest(self) -> None:
        aside = self.path / (MANIFEST + ".new")
        try:
            write_durably(aside, (json.dumps(self.manifest, indent=2, sort_keys=True) + "\n").encode())
            os.replace(aside, self.path / MANIFEST)
            sync_directory(self.path)
        except OSError as error:
            raise OutputError(f"{self.path / MANIFEST} cannot be written: {error}; is the disk full?") from error


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((path / MANIFEST).read_text())
        dict(manifest["settings"]), str(manifest["status"]), int(manifest["step"]), str(manifest["created"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutputError(f"{path / MANIFEST} cannot be read ({error!r}); choose another output directory") from error
    return manifest


def _take_lock(path: Path) -> int | None:
    """Make the directory and lock it for this process; the lock goes with the process, however it ends."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        raise OutputError(f"the output directory {path} cannot be written: {error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            os.close(descriptor)
            warnings.warn(f"{path} is on a file system without locks; start no second run there", stacklevel=3)
            return None
        holder = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
        os.close(descriptor)
        raise OutputError(
            f"{path} is being written by {holder}; wait for it, or choose another output directory"
        ) from None
    with suppress(OSError):  # on a full disk the lock holds all the same; only its holder stays unnamed
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {os.uname().nodename}, since {_now()}\n".encode())
    return descriptor


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
