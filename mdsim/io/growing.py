"""HDF5 files that can be read while they grow, and after the writer was killed.

HDF5's single-writer-multiple-readers mode (SWMR) orders the writer's output so that the file is consistent at every moment. It
also marks the file as being written, in a byte of the superblock, and a reader that does not ask for SWMR (MDAnalysis, MDTraj,
pyh5md, VMD: all of them) refuses a marked file. After ``kill -9`` the mark stays for good. The consistency is wanted and the mark
is not, so ``GrowingFile`` clears it after each flush: between flushes the file on disk is one that was cleanly closed.

A kill between HDF5's write of the superblock and ours, some tens of microseconds in each flush, leaves the mark. The data are sound
then too; ``repair`` (and resuming the run) makes the file readable, as ``h5clear -s`` does.

Source: HDF5 File Format Specification 3.0, II.A "Superblock (Versions 2 and 3)"; checksum: Jenkins' lookup3, ibid.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import h5py

from mdsim.errors import OutputError
from mdsim.io.durable import LIBRARY_VERSIONS

SIGNATURE = b"\x89HDF\r\n\x1a\n"
SUPERBLOCK_SIZE = 48  # bytes of a version 2 or 3 superblock with 8-byte offsets
VERSION_BYTE, OFFSET_SIZE_BYTE, FLAGS_BYTE, CHECKSUM_START = 8, 9, 11, 44
END_OF_FILE = slice(28, 36)
#: room kept for HDF5's own tables, bytes
RESERVE = 1 << 18

_MASK = 0xFFFFFFFF


def _rotate(x: int, k: int) -> int:
    return ((x << k) | (x >> (32 - k))) & _MASK


def lookup3(data: bytes) -> int:
    """Bob Jenkins' ``hashlittle`` with initial value 0: HDF5's checksum of metadata."""
    a = b = c = (0xDEADBEEF + len(data)) & _MASK
    position, left = 0, len(data)
    while left > 12:
        a, b, c = _add_words(a, b, c, data[position : position + 12])
        for k in (4, 6, 8, 16, 19, 4):  # each round is the last one with the letters moved on
            a = (a - c) & _MASK ^ _rotate(c, k)
            c = (c + b) & _MASK
            a, b, c = b, c, a
        position, left = position + 12, left - 12
    if left == 0:
        return c
    a, b, c = _add_words(a, b, c, data[position:].ljust(12, b"\0"))
    for k in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _rotate(b, k)) & _MASK
        a, b, c = b, c, a
    return b  # the letters moved seven times: what was c is b


def _add_words(a: int, b: int, c: int, block: bytes) -> tuple[int, int, int]:
    x, y, z = (int.from_bytes(block[k : k + 4], "little") for k in (0, 4, 8))
    return (a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK


def _read_superblock(descriptor: int, path: Path) -> bytearray:
    block = bytearray(os.pread(descriptor, SUPERBLOCK_SIZE, 0))
    if len(block) < SUPERBLOCK_SIZE or block[:8] != SIGNATURE:
        raise OutputError(f"{path} is not an HDF5 file; it may have been cut short when it was made or copied")
    return block


def _end_of_file(descriptor: int, path: Path) -> int:
    """Where the file ends by its own account, bytes."""
    return int.from_bytes(_read_superblock(descriptor, path)[END_OF_FILE], "little")


def writer_mark(path: str | Path) -> int:
    """The superblock's consistency flags: 0 for a file that anybody may open."""
    path = Path(path)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        block = _read_superblock(descriptor, path)
        return block[FLAGS_BYTE] if block[VERSION_BYTE] == 3 else 0
    finally:
        os.close(descriptor)


def _repair(descriptor: int, path: Path) -> bool:
    """Clear the mark, and extend a file whose last bytes were never written; True if there was anything to do."""
    block = _read_superblock(descriptor, path)
    if block[VERSION_BYTE] != 3 or block[OFFSET_SIZE_BYTE] != 8:
        return False
    end = _end_of_file(descriptor, path)
    short = os.fstat(descriptor).st_size < end
    if short:  # readers refuse a file shorter than it says; what is missing belongs to a frame that is not counted yet
        os.ftruncate(descriptor, end)
    marked = block[FLAGS_BYTE] != 0
    if marked:
        block[FLAGS_BYTE] = 0
        block[CHECKSUM_START:] = lookup3(bytes(block[:CHECKSUM_START])).to_bytes(4, "little")
        os.pwrite(descriptor, bytes(block), 0)
    return marked or short


def repair(path: str | Path) -> bool:
    """Make a file readable that a killed writer left; True if there was anything to do. Not for one that is being written."""
    path = Path(path)
    descriptor = os.open(path, os.O_RDWR)
    try:
        return _repair(descriptor, path)
    finally:
        os.close(descriptor)


def _open_to_extend(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r+", libver=LIBRARY_VERSIONS)
    except BlockingIOError:
        # Somebody looks at the file and holds HDF5's lock: this must not keep a run from resuming. (Not the first choice, for
        # HDF5 then refuses to open the file a second time in this process.) The result directory's lock keeps writers apart.
        return h5py.File(path, "r+", libver=LIBRARY_VERSIONS, locking=False)
    except OSError as error:
        hint = "; close it first where this process has it open for reading" if "already open" in str(error) else ""
        raise OutputError(f"{path} cannot be opened to be continued: {error}{hint}") from error


class GrowingFile:
    """An existing HDF5 file opened to be extended, in SWMR mode and without the mark.

    Made in two steps: between them the file is an ordinary one (``shorten`` datasets, add attributes); after ``start`` only
    datasets can be resized and written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            size_found = self.path.stat().st_size
            extended = repair(self.path) and self.path.stat().st_size > size_found
        except OSError as error:
            raise OutputError(f"{self.path} cannot be opened to be continued: {error.strerror}") from error
        self._size_found = size_found if extended else None
        self.file = _open_to_extend(self.path)
        if self.file.swmr_mode:  # HDF5 has handed out the file that is open already
            self.file.close()
            raise OutputError(f"{self.path} is still being written by this process; close its writer first")
        self._descriptor = os.open(self.path, os.O_RDWR)

    def check_rows(self, datasets: Iterable[h5py.Dataset], n_rows: int) -> None:
        """OutputError where the file was cut short and the first ``n_rows`` of ``datasets`` are not all there."""
        if self._size_found is None:
            return
        missing = 0

        def count(chunk: h5py.h5d.StoreInfo) -> None:
            nonlocal missing
            missing += chunk.chunk_offset[0] < n_rows and chunk.byte_offset + chunk.size > self._size_found

        for dataset in datasets:
            dataset.id.chunk_iter(count)
        if missing:
            raise OutputError(
                f"{self.path} was cut short: of the data that the checkpoint beside it counts, {missing} pieces are gone. Put a "
                "whole copy there, or choose another output directory"
            )

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Around the first look at a file to be continued: what HDF5 says of a damaged one becomes an error for people."""
        try:
            yield
        except (OSError, KeyError, RuntimeError, ValueError, TypeError) as error:
            self._abandon()
            reason = " ".join(str(error).split()).strip("'\"")
            raise OutputError(
                f"{self.path} is damaged ({reason}). Put a whole copy there, or choose another output directory"
            ) from error
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """From here on the file can be read by others at any time."""
        self.file.swmr_mode = True
        _repair(self._descriptor, self.path)

    def reserve(self, n_bytes: int) -> None:
        """Have room on the disk for ``n_bytes`` more, or raise OutputError before anything is changed.

        HDF5 goes on after a write that failed: it would count a frame whose data are not there.
        """
        if not hasattr(os, "posix_fallocate"):  # macOS
            return
        try:
            os.posix_fallocate(self._descriptor, _end_of_file(self._descriptor, self.path), n_bytes + RESERVE)
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV):
                return  # a file system that cannot tell
            self._abandon()
            raise OutputError(f"{self.path} cannot be written: {error.strerror}") from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Around all writing: a failed one (the disk is full) becomes an error for people, and the file stays readable."""
        try:
            yield
        except (OSError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            self._abandon()
            raise OutputError(f"{self.path} cannot be written; is the disk full? HDF5 says: {reason}") from error

    def _abandon(self) -> None:
        """Close the HDF5 file without another byte going to the disk.

        HDF5 cannot close a file that it cannot write, and crashes the process at its exit. So it gets memory to write to.
        """
        if hasattr(os, "memfd_create"):  # Linux
            memory = os.memfd_create("abandoned")
            os.dup2(memory, self.file.id.get_vfd_handle())
            os.close(memory)
        with suppress(OSError, RuntimeError):  # even memory may be out
            self.file.close()
        with suppress(OSError):
            _repair(self._descriptor, self.path)
            os.ftruncate(self._descriptor, _end_of_file(self._descriptor, self.path))
        os.close(self._descriptor)

    def flush(self) -> None:
        """Hand everything to the operating system: it is there after ``kill -9``."""
        with self.writing():
            self.file.flush()
        _repair(self._descriptor, self.path)

    def sync(self) -> None:
        """Hand everything to the disk: it is there after a power failure."""
        self.flush()
        os.fsync(self._descriptor)

    def close(self) -> None:
        if self.file:
            self.flush()
            self.file.close()
            os.ftruncate(self._descriptor, _end_of_file(self._descriptor, self.path))  # gives back what was reserved
            os.close(self._descriptor)

    def __enter__(self) -> GrowingFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
