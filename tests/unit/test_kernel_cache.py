"""Compiled kernels are never taken for those of other sources."""

import subprocess
import sys
from pathlib import Path

from mdsim.backends.cache import kernel_source_hash


def cache_directory(**environment) -> Path:
    code = "from mdsim.backends import get_backend, cache; get_backend('cpu', 1); import numba; print(numba.config.CACHE_DIR)"
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return Path(run.stdout.strip())


def test_directory_is_named_by_the_sources(tmp_path):
    expected = Path("mdsim") / "kernels" / kernel_source_hash()
    assert cache_directory(HOME=str(tmp_path)) == tmp_path / ".cache" / expected
    assert cache_directory(HOME="/", XDG_CACHE_HOME=str(tmp_path)) == tmp_path / expected
    assert cache_directory(HOME="/", NUMBA_CACHE_DIR=str(tmp_path)) == tmp_path / expected


def test_hash_follows_the_sources(tmp_path, monkeypatch):
    (tmp_path / "cpu").mkdir()
    kernel = tmp_path / "cpu" / "pair.py"
    kernel.write_text("BITS = 13\n")
    monkeypatch.setattr("mdsim.backends.cache.files", lambda package: tmp_path)
    before = kernel_source_hash()
    kernel.write_text("BITS = 14\n")
    assert kernel_source_hash() != before
