"""OpenMM's exceptions in one line for people: what is wrong with which file, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import openmm.app

from mdsim.errors import InputError, MdsimError

#: what a reader raises on a file that is cut off or of another format says nothing to a person
_INTERNAL = (IndexError, KeyError, AttributeError, TypeError, UnicodeDecodeError, AssertionError)
_NO_TEMPLATE = re.compile(r"No template found for residue (\d+) \((\S*)\)\.\s*(.*)", re.DOTALL)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn any exception inside into an InputError that begins with ``what`` ("reading the file X")."""
    try:
        yield
    except MdsimError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{what}: there is no file {error.filename or error}") from error
    except _INTERNAL as error:
        raise InputError(
            f"{what}: the content is not what it should be ({type(error).__name__}: {one_line(error)}); is the file complete "
            "and of the right format?"
        ) from error
    except Exception as error:  # openmm.OpenMMException, ValueError, ParseError and whatever else a parser may raise
        raise InputError(f"{what}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """The message of an exception without line breaks and without OpenMM's pointer to its web pages."""
    text = " ".join(str(error).split()) or type(error).__name__
    return re.sub(r"\s*For more information, see \S+", "", text)


@contextmanager
def templates_explained(topology: openmm.app.Topology, files: tuple[str, ...]) -> Iterator[None]:
    """Name the residue, as its file numbers it, for which the force field has no template."""
    try:
        yield
    except ValueError as error:
        found = _NO_TEMPLATE.match(str(error))
        if found is None:
            raise
        residue = list(topology.residues())[int(found[1])]
        reason = one_line(ValueError(found[3]))
        chain = f" of chain {residue.chain.id}" if residue.chain.id.strip() else ""
        raise InputError(
            f"no template for residue {residue.name} {residue.id}{chain} in {', '.join(files)}: {reason} "
            "Missing hydrogens: add 'modeller: {hydrogens: {pH: 7}}'; missing virtual sites: 'extra_particles: true'; a ligand: a "
            "force-field XML for it"
        ) from error
