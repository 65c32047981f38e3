"""When the dynamics breaks: which term, which atoms, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np

from mdsim.engine.evaluate import ForceEvaluator
from mdsim.errors import SimulationError
from mdsim.kernels.fixed_point import FLAG_NOT_FINITE, FORCE_SCALE, PAIR_FORCE_LIMIT
from mdsim.state import State
from mdsim.topology import Topology

#: nm; no two atoms that are not bonded come so near
OVERLAP = 0.05
#: atoms looked at around each: the water that an atom fell on has four sites beside it
NEIGHBOURS = 8


def closest_atom(state: State, atom: int, topology: Topology | None) -> tuple[int, float]:
    """Local index of the atom of another residue nearest to local ``atom``, and the distance, nm (nearest image)."""
    difference = state.positions - state.positions[atom]  # int32: wraps to the nearest image
    squared = (state.box.cartesian(difference) ** 2).sum(axis=1)
    squared[atom] = np.inf
    if topology is not None and len(topology.residue_names) > 1:
        residue = topology.residue_index[state.ids]
        squared[residue == residue[atom]] = np.inf
    nearest = int(np.argmin(squared))
    return nearest, float(np.sqrt(squared[nearest]))


def coincident_atoms(state: State, topology: Topology | None) -> tuple[int, int, float] | None:
    """(local index, local index, distance in nm) of the closest two atoms of different residues, if nearer than OVERLAP.

    Atoms in one place push each other nowhere, so that no force tells them. Pairs across a face of the box are left out.
    """
    from scipy.spatial import cKDTree

    x = state.box.cartesian(state.positions)
    count = min(NEIGHBOURS, len(x))
    distances, neighbours = cKDTree(x).query(x, k=count, distance_upper_bound=OVERLAP)
    distances, neighbours = distances.reshape(len(x), count), neighbours.reshape(len(x), count)
    distances[neighbours == np.arange(len(x))[:, None]] = np.inf
    if topology is not None and len(topology.residue_names) > 1:
        residue = np.append(topology.residue_index[state.ids], -1)  # neighbours not found have the index len(x)
        distances[residue[neighbours] == residue[:-1, None]] = np.inf
    i, k = np.unravel_index(int(np.argmin(distances)), distances.shape)
    found = float(distances[i, k])
    return (int(i), int(neighbours[i, k]), found) if np.isfinite(found) else None


def flagged_terms(evaluator: ForceEvaluator) -> list[str]:
    """Energy names whose kernels raised a flag in the last force computation."""
    return [name for name, flag in zip(evaluator.names, evaluator.flags, strict=True) if flag]


def describe(topology: Topology | None, atom: int) -> str:
    return topology.describe(atom) if topology is not None else f"atom {atom}"


def force_error(evaluator: ForceEvaluator, state: State, topology: Topology | None) -> SimulationError:
    """The error for a state whose forces were clipped or not finite: names the term and the worst atom with its neighbour."""
    names = flagged_terms(evaluator)
    what = "not a number" if (evaluator.flags & FLAG_NOT_FINITE).any() else "beyond the fixed-point range"
    magnitude = np.abs(evaluator.forces.astype(np.float64)).max(axis=1) / FORCE_SCALE
    atom = int(np.argmax(magnitude))
    nearest, distance = closest_atom(state, atom, topology)
    if magnitude[atom] < PAIR_FORCE_LIMIT and (overlap := coincident_atoms(state, topology)) is not None:
        atom, nearest, distance = overlap
    ids = evaluator.backend.to_host(state.ids)
    return SimulationError(
        f"step {state.step}: the force of {', '.join(names)} is {what}; worst at {describe(topology, int(ids[atom]))} with "
        f"{magnitude[atom]:.3g} kJ/mol/nm, {distance:.4f} nm from {describe(topology, int(ids[nearest]))}. Overlapping atoms "
        "or too long a timestep: minimise first (dynamics.minimize), or shorten dynamics.integrator.timestep"
    )


@contextmanager
def atoms_named(evaluator: ForceEvaluator, state: Callable[[], State], topology: Topology | None) -> Iterator[None]:
    """Errors from inside that know atoms by number only are told with their names and the strongest force term on the first."""
    try:
        yield
    except SimulationError as error:
        if not error.atoms:
            raise
        names = [describe(topology, atom) for atom in error.atoms] if topology is not None else []
        facts = [f"{' and '.join(names)}"] if names else []
        with suppress(SimulationError):  # the terms may be unable to say anything of a broken state
            facts.append(_strongest_term(evaluator, state(), error.atoms[0]))
        raise SimulationError(" ".join([str(error), *(f"({fact})" for fact in ["; ".join(facts)] if fact)])) from None


def _strongest_term(evaluator: ForceEvaluator, state: State, atom: int) -> str:
    """``largest force on atom 7: bonds, 1.2e+05 kJ/mol/nm``"""
    local = int(np.flatnonzero(evaluator.backend.to_host(state.ids) == atom)[0])
    name, force = max(evaluator.forces_by_term(state, local), key=lambda item: item[1], default=("no term", 0.0))
    return f"largest force on atom {atom}: {name}, {force:.3g} kJ/mol/nm"
