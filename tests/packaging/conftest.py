"""The wheel, built once and unpacked: what a user gets."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Path:
    """A directory, outside the checkout, that holds what the wheel installs."""
    out = tmp_path_factory.mktemp("wheel")
    source = out / "source"
    ignored = {".git", "build", "dist", "results"}
    subprocess.run(["git", "-C", str(ROOT), "checkout-index", "--all", f"--prefix={source}/"], check=True)
    for path in _changed_files():
        target = source / path
        if (ROOT / path).is_file() and Path(path).parts[0] not in ignored:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / path).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    (wheel,) = out.glob("*.whl")
    site = out / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def _changed_files() -> list[str]:
    """Files that differ from the index or that git does not know yet."""
    command = ["git", "-C", str(ROOT), "ls-files", "--modified", "--others", "--exclude-standard"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
