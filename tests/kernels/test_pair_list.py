"""The cluster pair list: every pair within the cutoff exactly once, and still so when atoms and box have moved."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_samples import ORTHORHOMBIC, TRICLINIC, listed_pairs, spread_positions

from mdsim.backends import get_backend
from mdsim.box import Box
from mdsim.errors import InputError
from mdsim.kernels.reference.pair import all_pairs
from mdsim.neighbors.pair_list import PairList, box_stretch

NO_EXCLUSIONS = np.zeros((0, 2), np.int32)


def make_list(n, cutoff, exclusions=NO_EXCLUSIONS, threads=1, **options):
    return PairList(get_backend("cpu", threads), cutoff, n, exclusions, np.arange(n) % 3 == 0, **options)


def check_complete(pairs, positions, box, cutoff, exclusions=NO_EXCLUSIONS):
    """Each pair within the cutoff is in the list once; no pair is twice in it, excluded ones are not at all."""
    listed = listed_pairs(pairs)
    assert len(set(listed)) == len(listed)
    i, j, _ = all_pairs(positions, box.lattice, cutoff, exclusions)
    assert set(zip(i.tolist(), j.tolist(), strict=True)) <= set(listed)
    assert not set(map(tuple, exclusions.tolist())) & set(listed)


@st.composite
def clouds(draw):
    """A box (reduced form), atoms strewn or gathered in it, a cutoff that it admits, and exclusions."""
    edges = [draw(st.floats(1.0, 4.0)) for _ in range(3)]
    tilts = [draw(st.sampled_from([0.0, 0.0, -0.5, 0.3, 0.49])) for _ in range(3)]
    a, b, c = edges
    box = Box(np.array([[a, 0.0, 0.0], [tilts[0] * a, b, 0.0], [tilts[1] * a, tilts[2] * b, c]]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.sampled_from([1, 2, 3, 5, 17, 60, 150]))
    spread = draw(st.sampled_from([1.0, 1.0, 0.2, 1e-3]))  # of the box; small ones leave columns empty
    centre = rng.uniform(size=3)
    positions = np.rint((centre + spread * rng.uniform(-0.5, 0.5, (n, 3))) * 2.0**32).astype(np.int64).astype(np.int32)
    cutoff = draw(st.floats(0.3, 1.0)) * 0.5 * float(box.widths.min())
    first = np.arange(0, n - 1, 2)
    exclusions = np.stack([first, first + 1], axis=1).astype(np.int32)
    return box, positions, cutoff, exclusions


@pytest.mark.parametrize("width", [4, 8, 16])
@settings(max_examples=40, deadline=None)
@given(cloud=clouds(), buffer=st.sampled_from([0.0, 0.1, 0.4]))
def test_every_pair_is_listed_once(width, cloud, buffer):
    box, positions, cutoff, exclusions = cloud
    pairs = make_list(len(positions), cutoff, exclusions, buffer=buffer, width=width)
    assert pairs.update(positions, box)
    check_complete(pairs, positions, box, cutoff, exclusions)


@settings(max_examples=30, deadline=None)
@given(cloud=clouds(), seed=st.integers(0, 1000), step=st.floats(0.0, 0.1), scale=st.sampled_from([1.0, 0.98, 1.02]))
def test_list_stays_complete_as_atoms_and_box_move(cloud, seed, step, scale):
    box, positions, cutoff, _ = cloud
    cutoff *= 0.95  # the box may shrink
    pairs = make_list(len(positions), cutoff, buffer=0.3, width=8)
    rng = np.random.default_rng(seed)
    for k in range(4):
        pairs.update(positions, box)
        check_complete(pairs, positions, box, cutoff)
        move = rng.normal(scale=step / 4.0, size=positions.shape) @ box.inverse * 2.0**32
        positions = (positions + np.rint(move).astype(np.int64)).astype(np.int32)
        if k == 1:
            box = Box(box.vectors * scale)


def test_list_is_kept_while_atoms_move_little_and_made_anew_when_they_do_not():
    positions = spread_positions(600, ORTHORHOMBIC)
    pairs = make_list(600, 0.8, buffer=0.1)
    shift = np.zeros_like(positions)
    shift[7, 0] = round(0.04 / 2.5 * 2**32)
    assert pairs.update(positions, ORTHORHOMBIC)
    few = pairs.rows.n_cluster_pairs
    assert not pairs.update(positions + shift, ORTHORHOMBIC)  # 2 x 0.04 nm is within the buffer
    assert pairs.rows.n_cluster_pairs > few  # shells that were beyond reach are computed now
    assert not pairs.update(positions, ORTHORHOMBIC)
    assert pairs.rows.n_cluster_pairs == few
    assert pairs.update(positions + 2 * shift, ORTHORHOMBIC)
    assert pairs.update(positions + 2 * shift, Box(ORTHORHOMBIC.vectors * 0.88))


def test_lists_of_isolated_systems_hold_all_pairs_for_ever():
    x = np.random.default_rng(3).uniform(0.0, 2.0, (70, 3))
    box = Box.for_isolated(x)
    pairs = make_list(70, np.inf)
    assert pairs.update(box.fractions(x)[0], box)
    assert len(listed_pairs(pairs)) == 70 * 69 // 2
    assert not pairs.update(box.fractions(2.0 * x)[0], box)
    assert len(listed_pairs(pairs)) == 70 * 69 // 2


def test_too_small_buffers_grow():
    """All atoms in one place: many more pairs than the first guess has space for."""
    positions = np.random.default_rng(5).integers(0, 2**22, (900, 3)).astype(np.int32)
    pairs = make_list(900, 0.9, width=8)
    pairs.update(positions, ORTHORHOMBIC)
    assert pairs.rows.n_cluster_pairs > 225 * 226 // 4
    i, _, _ = all_pairs(positions, ORTHORHOMBIC.lattice, 0.9, NO_EXCLUSIONS)
    assert len(i) == 900 * 899 // 2 == len(set(listed_pairs(pairs)))


def test_threads_share_the_rows():
    positions = spread_positions(800, TRICLINIC)
    listed = []
    for threads in (1, 3):
        pairs = make_list(800, 0.8, threads=threads)
        pairs.update(positions, TRICLINIC)
        assert pairs.row_bounds[0] == 0 and pairs.row_bounds[-1] == len(pairs.rows.plain_start)
        assert (np.diff(pairs.row_bounds) > 0).all()
        listed.append(sorted(listed_pairs(pairs)))
    assert listed[0] == listed[1]


def test_cutoff_beyond_half_the_box_is_refused():
    pairs = make_list(10, 1.21)
    with pytest.raises(InputError, match="half the smallest width"):
        pairs.update(np.zeros((10, 3), np.int32), ORTHORHOMBIC)


SHEAR = np.array([[1.0, 0.0, 0.0], [0.05, 1.0, 0.0], [0.02, -0.1, 0.98]])


@pytest.mark.parametrize("change", [np.eye(3) * 0.97, np.diag([1.0, 0.9, 1.05]), SHEAR])
def test_stretch_bounds_the_largest_singular_value(change):
    new = Box(TRICLINIC.vectors @ change)
    exact = np.linalg.svd(np.linalg.inv(new.vectors) @ TRICLINIC.vectors, compute_uv=False).max()
    assert exact <= box_stretch(TRICLINIC, new) <= 1.15 * exact
    assert box_stretch(TRICLINIC, Box(TRICLINIC.vectors * 0.97)) == pytest.approx(1 / 0.97, rel=1e-9)
    assert box_stretch(TRICLINIC, TRICLINIC) == 1.0
