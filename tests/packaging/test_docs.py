"""README and docs say what the program does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mdsim.config.reference import json_schema, markdown_reference

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
DOCS = sorted((ROOT / "docs").glob("*.md"))


def help_of(*command: str) -> str:
    arguments = [sys.executable, "-m", "mdsim.cli", *command, "--help"]
    environment = {"COLUMNS": "200", "TERM": "dumb", "PATH": ""}
    return subprocess.run(arguments, capture_output=True, text=True, env=environment, check=True).stdout


def test_schema_is_current():
    assert (ROOT / "docs" / "input.schema.json").read_text() == json_schema(), "run: mdsim schema > docs/input.schema.json"


def test_input_reference_is_current():
    assert markdown_reference() in (ROOT / "docs" / "input.md").read_text(), "paste what mdsim schema --markdown prints"


def test_readme_starts_with_the_two_commands():
    """``newcomer`` runs the first two bash blocks in an empty environment."""
    run, test = re.findall(r"^```(?:bash|sh|console|shell)\n(.*?)^```", README, re.M | re.S)[:2]
    assert re.fullmatch(r"pip install -e \.\nmdsim run inputs/villin\.yaml\n", run)
    assert re.fullmatch(r"pip install -e '\.\[test\]'\npython -m pytest -q\n", test)


def test_commands_named_in_the_docs_exist():
    commands = set(re.findall(r"^│ (\w+) ", help_of(), re.M))
    assert {"run", "check", "compare", "doctor"} <= commands
    for path in [ROOT / "README.md", *DOCS]:
        named = set(re.findall(r"(?:^    |`|\$ )mdsim ([a-z]+)", path.read_text(), re.M))
        assert named <= commands, f"{path.name} names {named - commands}"


def test_options_named_in_cli_md_exist():
    usage = re.findall(r"^    mdsim (\w+)(.*)$", (ROOT / "docs" / "cli.md").read_text(), re.M)
    for command, rest in usage:
        if command != "run" or "INPUT.yaml [" in rest:
            shown = help_of(command)
            assert all(option in shown for option in re.findall(r"--[a-z]+", rest)), (command, rest)


@pytest.mark.parametrize("path", [ROOT / "README.md", *DOCS], ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    text = path.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    named = re.findall(r"`((?:docs|inputs|mdsim|kernels|tests|benchmarks)/[\w./-]+\.(?:md|py|yaml|json|cff))`", text)
    for link in links:
        assert (path.parent / link).exists(), link
    for name in named:
        assert (ROOT / name).exists() or (ROOT / name.replace("mdsim/kernels", "kernels")).exists(), name


def test_no_source_file_is_too_long():
    long = {
        str(path.relative_to(ROOT)): n
        for folder in ("mdsim", "kernels", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if (n := len(path.read_text().splitlines())) > 550
    }
    assert not long
