"""``openmm.app.Topology`` to :class:`mdsim.topology.Topology`."""

from __future__ import annotations

import numpy as np
import openmm.app

from mdsim.topology import Topology


def topology_from_openmm(topology: openmm.app.Topology) -> Topology:
    """Names, residues, chains and bonds, atoms in the same order."""
    atoms, residues, chains = list(topology.atoms()), list(topology.residues()), list(topology.chains())
    bonds = [(bond[0].index, bond[1].index) for bond in topology.bonds()]
    return Topology(
        atom_names=tuple(a.name for a in atoms),
        elements=tuple("" if a.element is None else a.element.symbol for a in atoms),
        residue_index=np.array([a.residue.index for a in atoms], dtype=np.int32),
        residue_names=tuple(r.name for r in residues),
        residue_ids=tuple(str(r.id) for r in residues),
        chain_index=np.array([r.chain.index for r in residues], dtype=np.int32),
        chain_ids=tuple(str(c.id) for c in chains),
        bonds=np.array(bonds, dtype=np.int32).reshape(-1, 2),
    )
