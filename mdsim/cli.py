"""The ``mdsim`` command. Everything heavy is imported by the command that needs it, so that ``--help`` is quick."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from mdsim.errors import MdsimError

#: exit codes beside those of mdsim.errors: see docs/errors.md
UNEXPECTED, INTERRUPTED, STOPPED_TO_BE_REQUEUED = 70, 130, 75

app = typer.Typer(
    name="mdsim",
    help="Molecular dynamics for screening drug candidates: the same bits on any number of ranks and threads.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Input = Annotated[Path, typer.Argument(metavar="INPUT.yaml", help="Input file; docs/input.md lists its keys.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. dynamics.seed=7.")]
Threads = Annotated[int | None, typer.Option("--threads", "-t", help="CPU threads (default: all cores this process may use).")]
Steps = Annotated[int | None, typer.Option("--steps", "-n", help="Length of the whole run in steps.")]


def explained(command: Callable[..., int | None]) -> Callable[..., None]:
    """Turn what a command raises into one line on stderr and an exit code; what it returns is the exit code."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        raise typer.Exit(_exit_code(lambda: command(*args, **kwargs)))

    return wrapper


def _exit_code(action: Callable[[], int | None]) -> int:
    try:
        return action() or 0
    except MdsimError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # the last resort: whatever it is, no raw traceback
        if os.environ.get("MDSIM_DEBUG") == "1":
            raise
        first_line = (str(error).strip().splitlines() or [""])[0]
        _say(f"unexpected {type(error).__name__}: {first_line} (a bug; details for a report are in {_save_traceback()})")
        return UNEXPECTED


def _say(message: str) -> None:
    print(f"error: {message}", file=sys.stderr, flush=True)


def _save_traceback() -> str:
    """Write the traceback of the current exception to a file and return its path."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix=f"mdsim-{stamp}-", suffix=".log", delete=False, encoding="utf-8"
        ) as log:
            log.write(f"command: {sys.argv}\n\n{traceback.format_exc()}")
            return log.name
    except OSError:
        return "no file, for none could be written; set MDSIM_DEBUG=1 to see them"


def _version(wanted: bool) -> None:
    if wanted:
        version()


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""


@app.command()
@explained
def run(
    input: Input,
    steps: Steps = None,
    set: Set = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Directory for the results.")] = None,
    threads: Threads = None,
    backend: Annotated[str | None, typer.Option("--backend", help="What computes: cpu.")] = None,
) -> int:
    """Run a simulation. The same command again resumes one that was stopped."""
    from mdsim.config import load_input

    config = load_input(input, set or (), steps=steps, output=output, threads=threads, backend=backend)
    from mdsim.engine.run import run_input

    return run_input(config)


@app.command()
@explained
def check(input: Input, set: Set = None, steps: Steps = None, threads: Threads = None) -> int:
    """Say everything that can be known before a run: errors, system, sizes on disk and in memory."""
    from mdsim.check import check_input

    return check_input(input, set or (), steps=steps, threads=threads)


@app.command()
@explained
def compare(input: Input, set: Set = None, threads: Threads = None) -> int:
    """Compare each force term with OpenMM's Reference platform; exit code 1 beyond tolerance."""
    from mdsim.config import load_input

    config = load_input(input, set or (), threads=threads)
    from mdsim.compare import compare_input

    return compare_input(config)


@app.command()
@explained
def bench(
    input: Input,
    steps: Annotated[int, typer.Option("--steps", "-n", help="Steps of each timed block.")] = 200,
    blocks: Annotated[int, typer.Option("--blocks", help="Blocks of each engine, taken in turn.")] = 3,
    set: Set = None,
    threads: Threads = None,
    alone: Annotated[bool, typer.Option("--alone", help="Time mdsim only, not OpenMM.")] = False,
    save: Annotated[Path | None, typer.Option("--save", metavar="FILE.json", help="Write the figures to a file.")] = None,
) -> int:
    """Time mdsim against OpenMM's CPU platform, in turn, with the same settings and threads."""
    from mdsim.config import load_input

    config = load_input(input, set or (), threads=threads)
    from mdsim.bench import bench_input

    return bench_input(config, steps=steps, blocks=blocks, with_openmm=not alone, save=save)


@app.command()
@explained
def doctor() -> int:
    """Look at this machine: SIMD, threads, MPI, HDF5, GPUs, versions; what is missing and how to get it."""
    from mdsim.doctor import report

    return report()


@app.command()
@explained
def schema(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables of docs/input.md instead.")] = False,
) -> None:
    """Print the JSON schema of input files, for editors."""
    from mdsim.config.reference import json_schema, markdown_reference

    print(markdown_reference() if markdown else json_schema(), end="")


@app.command()
def version() -> None:
    """Print the version."""
    from mdsim.version import __version__

    print(f"mdsim {__version__}")
    raise typer.Exit


def main() -> None:
    """Entry point of the ``mdsim`` command."""
    app()


if __name__ == "__main__":
    main()
