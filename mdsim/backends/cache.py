"""Where compiled kernels are kept between runs.

Numba notices a change in the file of a compiled function, not in the files that it calls. The cache directory is therefore
named by a hash of all kernel sources, and stale code cannot be loaded.
"""

from __future__ import annotations

import hashlib
import os
from importlib.resources import files
from pathlib import Path


def kernel_source_hash() -> str:
    """Hex digest over the names and contents of every kernel source file."""
    root = Path(str(files("mdsim.kernels")))
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def configure() -> Path | None:
    """Point Numba's cache to the directory of these sources and return it: below NUMBA_CACHE_DIR, or the user's cache."""
    import numba

    if os.environ.get("NUMBA_CACHE_DIR"):
        base = Path(os.environ["NUMBA_CACHE_DIR"])
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = base / "mdsim" / "kernels" / kernel_source_hash()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None  # a read-only home: Numba falls back to a directory beside the sources, or compiles each time
    numba.config.CACHE_DIR = str(directory)
    return directory
