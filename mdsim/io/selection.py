"""Molecules of a topology, what they are, and which atoms a file holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdsim.errors import InputError
from mdsim.molecules import connected
from mdsim.topology import Topology

AMINO_ACIDS = frozenset(
    "ALA ARG ASH ASN ASP CYM CYS CYX GLH GLN GLU GLY HID HIE HIP HIS HSD HSE HSP HYP ILE LEU LYN LYS MET MSE PHE PRO "
    "PYL SEC SEP SER THR TPO PTR TRP TYR VAL ACE NH2 NHE NMA NME".split()
)
#: Amber names the chain ends by a letter before the residue name
TERMINAL_AMINO_ACIDS = frozenset(end + name for end in "NC" for name in AMINO_ACIDS if len(name) == 3)
NUCLEOTIDES = frozenset("A C G U DA DC DG DT DU A3 A5 C3 C5 G3 G5 U3 U5 DA3 DA5 DC3 DC5 DG3 DG5 DT3 DT5".split())

#: more copies of one molecule than this make it a bulk component (lipid, cosolvent), not a solute
BULK_COPIES = 20

SELECTIONS = ("all", "solute", "protein")


@dataclass(frozen=True)
class Molecules:
    """Connected molecules, numbered by their first atom."""

    label: np.ndarray  # int64[n_atoms] molecule of each atom
    count: int

    def atoms_in(self, wanted: np.ndarray) -> np.ndarray:
        """int64[:] atoms, ascending, of the molecules that the array ``wanted`` lists."""
        chosen = np.zeros(self.count, dtype=bool)
        chosen[wanted] = True
        return np.flatnonzero(chosen[self.label])

    @property
    def sizes(self) -> np.ndarray:
        """int64[count] atoms of each molecule."""
        return np.bincount(self.label, minlength=self.count)


def find_molecules(topology: Topology, more_links: np.ndarray | None = None) -> Molecules:
    """Molecules as connected by bonds; a virtual site belongs to its residue.

    ``more_links`` int32[m, 2] are further pairs of atoms of one molecule (constraints of a model without bonds).
    """
    return Molecules(*connected(topology.n_atoms, molecule_links(topology, more_links)))


def molecule_links(topology: Topology, more_links: np.ndarray | None = None) -> np.ndarray:
    """int64[:, 2] pairs that hold molecules together: bonds, and virtual sites to their residue's first atom.

    Of ``more_links`` only those that join what these do not: the atoms of such a pair may be far apart.
    """
    residue = np.asarray(topology.residue_index)
    sites = np.flatnonzero([e == "" for e in topology.elements])
    first_of_residue = np.full(len(topology.residue_names), topology.n_atoms)
    np.minimum.at(first_of_residue, residue, np.arange(topology.n_atoms))
    sites_to_residues = np.stack([first_of_residue[residue[sites]], sites], axis=1)
    links = np.concatenate([np.reshape(topology.bonds, (-1, 2)), sites_to_residues]).astype(np.int64)
    if more_links is None:
        return links
    label, _ = connected(topology.n_atoms, links)
    more = np.reshape(more_links, (-1, 2))
    return np.concatenate([links, more[label[more[:, 0]] != label[more[:, 1]]]])


def solvent_molecules(topology: Topology, molecules: Molecules) -> np.ndarray:
    """bool[count]: waters, single-atom ions and bulk components; what is left is the solute."""
    real = np.array([e != "" for e in topology.elements])
    hydrogen = np.array([e == "H" for e in topology.elements])
    oxygen = np.array([e == "O" for e in topology.elements])
    n_real, n_hydrogen, n_oxygen = (
        np.bincount(molecules.label, weights=which, minlength=molecules.count).astype(int)
        for which in (real, hydrogen, oxygen)
    )
    water = (n_real == 3) & (n_hydrogen == 2) & (n_oxygen == 1)
    single = n_real <= 1
    bulk = _bulk(topology, molecules) & ~_polymers(topology, molecules)
    solvent: np.ndarray = water | single | bulk
    return solvent


def _polymers(topology: Topology, molecules: Molecules) -> np.ndarray:
    """bool[count]: molecules with an amino-acid or nucleotide residue."""
    known = AMINO_ACIDS | TERMINAL_AMINO_ACIDS | NUCLEOTIDES
    residue = np.array([name in known for name in topology.residue_names], dtype=bool)
    return np.bincount(molecules.label, weights=residue[topology.residue_index], minlength=molecules.count) > 0


def _bulk(topology: Topology, molecules: Molecules) -> np.ndarray:
    """bool[count]: molecules of which the system holds more than ``BULK_COPIES``, by the name of the first residue and size."""
    first = np.full(molecules.count, topology.n_atoms)
    np.minimum.at(first, molecules.label, np.arange(topology.n_atoms))
    names = np.array(topology.residue_names)[np.asarray(topology.residue_index)[first]]
    _, kind_of_name = np.unique(names, return_inverse=True)
    kinds = np.stack([kind_of_name, molecules.sizes], axis=1)
    _, kind, copies = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
    return (copies > BULK_COPIES)[np.reshape(kind, -1)]


def select_atoms(topology: Topology, molecules: Molecules, selection: str | Sequence[int] | np.ndarray) -> np.ndarray:
    """int64[:] atoms, ascending: ``all``, ``solute``, ``protein``, or a list of atom indices counted from 0."""
    if not isinstance(selection, str):
        return _checked_indices(np.asarray(selection), topology.n_atoms)
    if selection == "all":
        return np.arange(topology.n_atoms)
    if selection == "solute":
        atoms = molecules.atoms_in(np.flatnonzero(~solvent_molecules(topology, molecules)))
    elif selection == "protein":
        names = AMINO_ACIDS | TERMINAL_AMINO_ACIDS
        residues = np.array([name in names for name in topology.residue_names], dtype=bool)
        atoms = np.flatnonzero(residues[topology.residue_index])
    else:
        raise InputError(
            f"trajectory selection '{selection}' is not known; use {', '.join(SELECTIONS)} or a list of atom indices"
        )
    if len(atoms) == 0:
        raise InputError(
            f"the trajectory selection '{selection}' holds no atom of this system; use 'all' or a list of indices"
        )
    return atoms


def _checked_indices(indices: np.ndarray, n_atoms: int) -> np.ndarray:
    if indices.ndim != 1 or indices.size == 0 or not np.issubdtype(indices.dtype, np.integer):
        raise InputError("a trajectory selection by index must be a list of at least one whole number")
    if indices.min() < 0 or indices.max() >= n_atoms:
        raise InputError(
            f"the trajectory selection names atom {int(indices.min() if indices.min() < 0 else indices.max())}; "
            f"this system's atoms are 0 to {n_atoms - 1}"
        )
    return np.unique(indices).astype(np.int64)


def subset_topology(topology: Topology, atoms: np.ndarray) -> Topology:
    """The topology of ``atoms`` (ascending): residues and chains without an atom are dropped, bonds within are kept."""
    residues, residue_index = np.unique(np.asarray(topology.residue_index)[atoms], return_inverse=True)
    chains, chain_index = np.unique(np.asarray(topology.chain_index)[residues], return_inverse=True)
    new = np.full(topology.n_atoms, -1, dtype=np.int32)
    new[atoms] = np.arange(len(atoms), dtype=np.int32)
    bonds = new[np.reshape(topology.bonds, (-1, 2))]
    return Topology(
        atom_names=tuple(topology.atom_names[i] for i in atoms),
        elements=tuple(topology.elements[i] for i in atoms),
        residue_index=residue_index.astype(np.int32),
        residue_names=tuple(topology.residue_names[r] for r in residues),
        residue_ids=tuple(topology.residue_ids[r] for r in residues),
        chain_index=chain_index.astype(np.int32),
        chain_ids=tuple(topology.chain_ids[c] for c in chains),
        bonds=bonds[(bonds >= 0).all(axis=1)],
    )
