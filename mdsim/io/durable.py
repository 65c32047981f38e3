"""Files that are on the disk, whole, when the call returns; or an error, and no trace of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import h5py

from mdsim.errors import OutputError

#: superblock version 3 is what SWMR needs; HDF5 1.10 and everything later read it
LIBRARY_VERSIONS = ("v110", "v110")


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Wait until the names in ``directory`` are on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hdf5_image(fill: Callable[[h5py.File], None]) -> bytes:
    """The bytes of an HDF5 file with the content that ``fill`` gives it.

    Made in memory: HDF5 cannot close a file that it cannot write, and crashes the process at its exit.
    """
    with h5py.File("image", "w", driver="core", backing_store=False, block_size=65536, libver=LIBRARY_VERSIONS) as file:
        fill(file)
        file.flush()
        return bytes(file.id.get_file_image())


def create_hdf5(path: Path, fill: Callable[[h5py.File], None]) -> None:
    """A new HDF5 file, there in one piece or not at all; OutputError where the disk is full or the name is taken."""
    if path.exists():
        raise OutputError(f"{path} exists and is not overwritten; resume the run, or choose another output directory")
    aside = path.with_name(path.name + ".new")
    try:
        write_durably(aside, hdf5_image(fill))
        os.replace(aside, path)
        sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise OutputError(f"{path} cannot be written: {error}; is the disk full?") from error
