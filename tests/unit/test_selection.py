"""Which atoms a file holds, and that rounding keeps its promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from io_samples import small_system

from mdsim.errors import InputError
from mdsim.io.rounding import lattice_spacing, round_significand, round_to_lattice
from mdsim.io.selection import find_molecules, select_atoms, solvent_molecules, subset_topology

TOPOLOGY, _ = small_system()
MOLECULES = find_molecules(TOPOLOGY)
N_SOLUTE = 5 * (8 + 4) + 4


def test_molecules_hold_their_virtual_sites():
    assert MOLECULES.count == 3 + 30 + 2
    assert MOLECULES.sizes.tolist() == [40, 20, 4] + [4] * 30 + [1, 1]


def test_links_that_no_bond_gives_join_molecules():
    joined = find_molecules(TOPOLOGY, np.array([[0, 60]]))
    assert joined.count == MOLECULES.count - 1
    assert joined.label[0] == joined.label[60]


def test_solute_protein_and_all():
    assert np.array_equal(select_atoms(TOPOLOGY, MOLECULES, "solute"), np.arange(N_SOLUTE))
    assert np.array_equal(select_atoms(TOPOLOGY, MOLECULES, "protein"), np.arange(N_SOLUTE - 4))
    assert np.array_equal(select_atoms(TOPOLOGY, MOLECULES, "all"), np.arange(TOPOLOGY.n_atoms))


def test_many_copies_are_bulk_unless_they_are_protein():
    topology, _ = small_system(n_waters=0, residues=(2,) * 25)
    molecules = find_molecules(topology)
    assert solvent_molecules(topology, molecules).sum() == 2  # the ions alone


@pytest.mark.parametrize(
    ("selection", "message"),
    [("solutes", "not known"), ([], "at least one"), ([0, 186], "atom 186"), ([-1], "atom -1"), ([0.5], "whole number")],
)
def test_bad_selections_are_named(selection, message):
    with pytest.raises(InputError, match=message):
        select_atoms(TOPOLOGY, MOLECULES, selection)


def test_nothing_selected_is_an_error():
    waters, _ = small_system(residues=())
    only_water = subset_topology(waters, np.arange(4, 40))
    with pytest.raises(InputError, match="holds no atom"):
        select_atoms(only_water, find_molecules(only_water), "solute")


def test_subset_keeps_names_and_inner_bonds():
    atoms = np.array([5, 6, 7, 60, 61, 100])
    part = subset_topology(TOPOLOGY, atoms)
    assert part.atom_names == tuple(TOPOLOGY.atom_names[i] for i in atoms)
    assert [part.residue_names[r] for r in part.residue_index] == ["ALA"] * 3 + ["LIG"] * 2 + ["HOH"]
    assert [part.chain_ids[part.chain_index[r]] for r in part.residue_index] == ["A"] * 3 + ["L"] * 2 + ["W"]
    assert part.residue_ids == ("2", "52A", "10")
    assert part.bonds.tolist() == [[0, 1], [1, 2], [3, 4]]


@given(precision=st.floats(1e-6, 0.9), x=arrays(np.float64, 20, elements=st.floats(-50, 50)))
def test_lattice_rounding_is_within_half_the_precision(precision, x):
    spacing = lattice_spacing(precision)
    assert precision / 2 < spacing <= precision
    rounded = round_to_lattice(x, spacing)
    assert np.abs(rounded - x).max() <= spacing / 2 + np.spacing(np.float32(50))
    assert np.array_equal(np.rint(rounded / spacing) * spacing, rounded)


@given(bits=st.integers(2, 24), x=arrays(np.float64, 20, elements=st.floats(-1e6, 1e6)))
def test_significand_rounding_keeps_the_relative_error(bits, x):
    single = x.astype(np.float32)
    single = np.where(np.abs(single) < 1e-30, np.float32(0), single)
    rounded = round_significand(single, bits)
    assert (np.abs(rounded.astype(float) - single) <= np.abs(single.astype(float)) * 2.0**-bits).all()
    assert np.array_equal(round_significand(rounded, bits), rounded)
    significand, _ = np.frexp(rounded.astype(np.float64))
    assert np.array_equal(significand * 2**bits, np.rint(significand * 2**bits))
