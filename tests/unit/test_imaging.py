"""Whole molecules, their centres in the box, ligand and second chain beside the receptor, whatever the images were."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from io_samples import CUBIC, ISOLATED, TRICLINIC, small_system

from mdsim.io.imaging import Imager
from mdsim.io.selection import find_molecules, select_atoms
from mdsim.molecules import spanning_forest
from mdsim.topology import Topology

TOPOLOGY, POSITIONS = small_system()
MOLECULES = find_molecules(TOPOLOGY)
SOLUTES = {"receptor": 0, "chain B": 1, "ligand": 2}
BOXES = {"cubic": CUBIC, "triclinic": TRICLINIC}
ALL = np.arange(TOPOLOGY.n_atoms)


def imaged(box, positions, images, atoms=ALL):
    s, _ = box.fractions(positions)
    chosen = Imager(TOPOLOGY, atoms).images(s, images, box)
    return box.cartesian(s[atoms], chosen)


def shortest(box, d):
    """float64[m]: lengths of the nearest images of vectors float64[m, 3], by trying 125."""
    shifts = np.array(list(itertools.product(range(-2, 3), repeat=3))) @ box.vectors
    return np.sqrt(((d[:, None] + shifts) ** 2).sum(axis=2)).min(axis=1)


@pytest.mark.parametrize("name", BOXES)
@settings(max_examples=15, deadline=None)
@given(shift=st.tuples(*[st.floats(-7.0, 7.0)] * 3), seed=st.integers(0, 2**31))
def test_images_are_chosen_well(name, shift, seed):
    box = BOXES[name]
    positions = POSITIONS + shift
    images = np.random.default_rng(seed).integers(-4, 5, POSITIONS.shape).astype(np.int32)
    x = imaged(box, positions, images)
    # every atom is an image of itself
    boxes = (x - positions) @ box.inverse
    assert np.abs(boxes - np.rint(boxes)).max() < 1e-6
    # bonds, virtual sites: as long as before
    i, j = TOPOLOGY.bonds.T
    assert np.allclose(x[i] - x[j], positions[i] - positions[j], atol=1e-8)
    for molecule in range(MOLECULES.count):
        atoms = np.flatnonzero(MOLECULES.label == molecule)
        assert np.allclose(x[atoms] - x[atoms[0]], positions[atoms] - positions[atoms[0]], atol=1e-8)
        centre = (x[atoms].mean(axis=0)) @ box.inverse
        if molecule not in (SOLUTES["ligand"], SOLUTES["chain B"]):
            assert (centre > -1e-6).all()
            assert (centre < 1 + 1e-6).all()
    # solutes: the closest contact in the file is the closest contact there is
    receptor = x[MOLECULES.label == SOLUTES["receptor"]]
    for name in ("chain B", "ligand"):
        d = (x[MOLECULES.label == SOLUTES[name]][:, None] - receptor).reshape(-1, 3)
        assert np.sqrt((d**2).sum(axis=1)).min() == pytest.approx(shortest(box, d).min(), abs=0.12)


def test_the_answer_does_not_depend_on_the_images_given():
    rng = np.random.default_rng(1)
    first, second = (
        imaged(TRICLINIC, POSITIONS + 1.7, rng.integers(-3, 4, POSITIONS.shape).astype(np.int32)) for _ in range(2)
    )
    assert np.array_equal(first, second)
    assert np.array_equal(first, imaged(TRICLINIC, POSITIONS + 1.7, None))


@pytest.mark.parametrize("selection", ["solute", "protein", [3, 50, 51, 90, 180]])
def test_a_selection_is_placed_as_in_the_whole_file(selection):
    atoms = select_atoms(TOPOLOGY, MOLECULES, selection)
    whole = imaged(TRICLINIC, POSITIONS + 2.2, None)
    assert np.array_equal(imaged(TRICLINIC, POSITIONS + 2.2, None, atoms), whole[atoms])


def test_without_a_box_nothing_moves():
    x = imaged(ISOLATED, POSITIONS - 5.0, None)
    assert np.allclose(x, POSITIONS - 5.0, atol=1e-7)


def test_a_chain_many_boxes_long_is_made_whole():
    n, rng = 3000, np.random.default_rng(3)
    walk = np.cumsum(rng.normal(0.05, 0.1, (n, 3)), axis=0)  # some 150 nm in a box of 3 nm
    bonds = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1).astype(np.int32)
    nothing = np.zeros(n, np.int32)
    chain = Topology(("C",) * n, ("C",) * n, nothing, ("POL",), ("1",), nothing[:1], ("A",), bonds)
    s, _ = TRICLINIC.fractions(walk)
    x = TRICLINIC.cartesian(s, Imager(chain, np.arange(n)).images(s, rng.integers(-3, 4, (n, 3)), TRICLINIC))
    assert np.allclose(np.diff(x, axis=0), np.diff(walk, axis=0), atol=1e-8)


def test_a_far_pair_of_one_molecule_does_not_break_it():
    """Links that a compiled system gives may join the ends of a chain; bonds come first."""
    x = imaged_chain(more_links=np.array([[0, 59]]))
    assert np.allclose(np.diff(x, axis=0), [0.1, 0.0, 0.0], atol=1e-8)


def imaged_chain(more_links):
    """float64[60, 3]: a straight chain of 5.9 nm in a box of 3 nm."""
    n, nothing = 60, np.zeros(60, np.int32)
    bonds = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1).astype(np.int32)
    chain = Topology(("C",) * n, ("C",) * n, nothing, ("POL",), ("1",), nothing[:1], ("A",), bonds)
    s, _ = CUBIC.fractions(np.arange(n)[:, None] * [0.1, 0.0, 0.0])
    return CUBIC.cartesian(s, Imager(chain, np.arange(n), None, more_links).images(s, None, CUBIC))


def test_spanning_forest_of_rings_and_loners():
    parent = spanning_forest(7, np.array([[1, 2], [2, 3], [3, 1], [5, 4]]))
    assert parent.tolist() == [0, 1, 1, 1, 4, 4, 6]
