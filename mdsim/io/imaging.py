"""Whole molecules in one box, the ligand in its receptor's image: made at the source, where positions are exact integers.

With positions as 32-bit fractions, the nearest image of a neighbour is an integer difference; whole images are counted, never
measured. All that is decided here is a number of boxes, int64[n, 3], to be added to each atom.
"""

from __future__ import annotations

import numpy as np

from mdsim.box import Box
from mdsim.io.selection import Molecules, find_molecules, molecule_links, solvent_molecules
from mdsim.kernels.fixed_point import FRACTION_SCALE
from mdsim.molecules import boxes_to_whole, nearest_boxes, spanning_forest
from mdsim.topology import Topology

#: atoms by which the nearest image of a molecule is found: of the molecule, and of what is placed already
PROBE_ATOMS, REFERENCE_ATOMS = 64, 4096


class Imager:
    """Chooses the image of each atom of ``atoms``: molecules whole, their centres in the box, solutes together.

    Parameters
    ----------
    topology : Topology
        Of the whole system.
    atoms : int64[m]
        The atoms that are wanted, ascending.
    molecules : Molecules, optional
        The system's molecules; found from the topology if not given.
    more_links : int32[:, 2], optional
        Pairs of atoms of one molecule that no bond of the topology joins.
    """

    def __init__(
        self,
        topology: Topology,
        atoms: np.ndarray,
        molecules: Molecules | None = None,
        more_links: np.ndarray | None = None,
    ) -> None:
        molecules = molecules or find_molecules(topology, more_links)
        solutes = np.flatnonzero(~solvent_molecules(topology, molecules))
        touched = np.union1d(molecules.label[atoms], solutes)  # a ligand's image is known by its receptor's
        self.needed = molecules.atoms_in(touched)  # int64[p] atoms that must be looked at
        self.wanted = np.searchsorted(self.needed, atoms)  # int64[m] where the wanted ones are among them
        labels, self.label = np.unique(molecules.label[self.needed], return_inverse=True)
        self.sizes = np.bincount(self.label)
        links = _within(molecule_links(topology, more_links), self.needed, topology.n_atoms)
        self.parent = spanning_forest(len(self.needed), links)
        self.placing = self._placing_order(np.searchsorted(labels, solutes), topology)

    def _placing_order(self, solutes: np.ndarray, topology: Topology) -> list[np.ndarray]:
        """Heavy atoms (indices into ``needed``) of each solute molecule: the receptor, which is the largest, first."""
        heavy = np.array([e not in ("", "H") for e in topology.elements])[self.needed]
        by_size = solutes[np.argsort(-self.sizes[solutes], kind="stable")]
        return [
            chosen if (chosen := np.flatnonzero(of & heavy)).size else np.flatnonzero(of)
            for of in (self.label == molecule for molecule in by_size)
        ]

    def images(self, positions: np.ndarray, images: np.ndarray | None, box: Box) -> np.ndarray:
        """int64[m, 3] boxes to add to ``positions`` (int32[n, 3], all atoms) of the wanted atoms."""
        fractions = positions[self.needed]
        counts = np.zeros(fractions.shape, np.int64) if images is None else images[self.needed].astype(np.int64)
        if box.periodic:
            counts += boxes_to_whole(fractions, counts, self.parent)
            counts -= self._boxes_away(fractions, counts)[self.label]
            self._place_solutes(fractions, counts, box.lattice)
        chosen: np.ndarray = counts[self.wanted]
        return chosen

    def _boxes_away(self, fractions: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """int64[molecules, 3]: how many boxes each molecule's centre (plain mean) is from the one at the origin."""
        unwrapped = fractions / FRACTION_SCALE + counts
        sums = np.stack([np.bincount(self.label, weights=unwrapped[:, k]) for k in range(3)], axis=1)
        return np.floor(sums / self.sizes[:, None]).astype(np.int64)

    def _place_solutes(self, fractions: np.ndarray, counts: np.ndarray, lattice: np.ndarray) -> None:
        """Move each further solute molecule to the image in which its closest contact with those placed is a real one."""
        if not self.placing:
            return
        placed = self.placing[0]
        for molecule in self.placing[1:]:
            i, j = _closest(fractions, _thinned(molecule, PROBE_ATOMS), _thinned(placed, REFERENCE_ATOMS), lattice)
            shift = nearest_boxes(fractions[i], counts[i], fractions[j], counts[j])
            counts[self.label == self.label[i]] += shift
            placed = np.concatenate([placed, molecule])


def _closest(fractions: np.ndarray, probe: np.ndarray, reference: np.ndarray, lattice: np.ndarray) -> tuple[int, int]:
    """The closest pair (nearest images) of an atom of ``probe`` and one of ``reference``."""
    with np.errstate(over="ignore"):  # int32 subtraction wraps: the nearest image
        d = fractions[probe][:, None] - fractions[reference][None]
    x = d[..., 0] * lattice[0, 0] + d[..., 1] * lattice[1, 0] + d[..., 2] * lattice[2, 0]
    y = d[..., 1] * lattice[1, 1] + d[..., 2] * lattice[2, 1]
    z = d[..., 2] * lattice[2, 2]
    i, j = np.unravel_index(np.argmin(x * x + y * y + z * z), x.shape)
    return int(probe[i]), int(reference[j])


def _thinned(atoms: np.ndarray, most: int) -> np.ndarray:
    """At most ``most`` of the atoms, evenly spread."""
    return atoms if len(atoms) <= most else atoms[np.linspace(0, len(atoms) - 1, most).astype(int)]


def _within(links: np.ndarray, atoms: np.ndarray, n: int) -> np.ndarray:
    """The links between ``atoms``, as indices into it."""
    new = np.full(n, -1, dtype=np.int64)
    new[atoms] = np.arange(len(atoms))
    renamed = new[links]
    within: np.ndarray = renamed[(renamed >= 0).all(axis=1)]
    return within
