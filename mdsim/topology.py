"""Names, residues and bonds: what files and error messages need to speak of atoms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Topology:
    """Atoms in global order."""

    atom_names: tuple[str, ...]
    elements: tuple[str, ...]  # symbol; "" for a virtual site
    residue_index: np.ndarray  # int32[n_atoms]
    residue_names: tuple[str, ...]
    residue_ids: tuple[str, ...]  # as the input file numbers them
    chain_index: np.ndarray  # int32[n_residues]
    chain_ids: tuple[str, ...]
    bonds: np.ndarray  # int32[n_bonds, 2]

    @property
    def n_atoms(self) -> int:
        return len(self.atom_names)

    def describe(self, atom: int) -> str:
        """``atom 17 (CA of ALA 3, chain A)``; counts from 0 as the API does."""
        r = int(self.residue_index[atom])
        chain = self.chain_ids[int(self.chain_index[r])]
        where = f"{self.atom_names[atom]} of {self.residue_names[r]} {self.residue_ids[r]}"
        return f"atom {atom} ({where}, chain {chain})" if chain.strip() else f"atom {atom} ({where})"
