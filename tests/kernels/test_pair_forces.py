"""Pair forces: against the float64 oracle in all flavours, and the same bits however they are computed."""

import os
import subprocess
import sys

import numpy as np
import pytest
from pair_samples import ORTHORHOMBIC, TRICLINIC, compute, compute_real, make_table, spread_positions

from mdsim.backends import get_backend
from mdsim.box import Box
from mdsim.errors import InputError, UnsupportedError
from mdsim.forces.nonbonded import PairTerm
from mdsim.kernels.cpu import ewald_fit
from mdsim.kernels.fixed_point import FLAG_FORCE_CLIPPED, FORCE_SCALE, PAIR_FORCE_LIMIT, PAIR_FORCE_SCALE
from mdsim.kernels.reference import pair as reference
from mdsim.tables import NonbondedTable
from mdsim.units import COULOMB

N = 600


def oracle(table, positions, box):
    """Forces, Lennard-Jones and Coulomb energy in float64."""
    cutoff = np.inf if table.method == "NoCutoff" else table.cutoff
    dielectric = table.reaction_field_dielectric
    reacts = "Cutoff" in table.method and np.isfinite(cutoff)
    return reference.pair_forces(
        positions, box.lattice, cutoff, table.exclusions, table.charge * np.sqrt(COULOMB),
        sigma=table.sigma, epsilon=table.epsilon, lj_type=table.lj_type, lj_a=table.lj_a, lj_b=table.lj_b,
        k_rf=(dielectric - 1) / (2 * dielectric + 1) / cutoff**3 if reacts else 0.0,
        c_rf=3 * dielectric / (2 * dielectric + 1) / cutoff if reacts else 0.0,
        alpha=table.ewald_alpha, switch_distance=table.switch_distance, dispersion_alpha=table.ljpme_alpha,
    )  # fmt: skip


FLAVOURS = {
    "ewald": (ORTHORHOMBIC, {}),
    "ewald, triclinic": (TRICLINIC, {}),
    "reaction field": (ORTHORHOMBIC, {"method": "CutoffPeriodic"}),
    "reaction field, switched": (ORTHORHOMBIC, {"method": "CutoffPeriodic", "switch_distance": 0.7}),
    "ewald, by type": (ORTHORHOMBIC, {"by_type": True}),
    "ljpme": (ORTHORHOMBIC, {"method": "LJPME"}),
    "no cutoff": (None, {"method": "NoCutoff"}),
    "cutoff, isolated": (None, {"method": "CutoffNonPeriodic"}),
}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_forces_and_energies_agree_with_the_oracle(flavour):
    box, options = FLAVOURS[flavour]
    positions = spread_positions(N, box or ORTHORHOMBIC)
    if box is None:
        x = ORTHORHOMBIC.cartesian(positions)
        box = Box.for_isolated(x)
        positions = box.fractions(x)[0]
    table = make_table(N, **options)
    forces, (lj, coulomb, _), flags = compute_real(table, get_backend("cpu", 1), positions, box)
    expected, expected_lj, expected_coulomb = oracle(table, positions, box)
    assert np.sqrt(((forces - expected) ** 2).sum() / (expected**2).sum()) < 3e-6
    # float32 terms of magnitude up to some hundred times the sums
    assert lj == pytest.approx(expected_lj, abs=2e-6 * abs(expected_lj) + 1e-3)
    assert coulomb == pytest.approx(expected_coulomb, abs=2e-6 * abs(expected_coulomb) + 2e-3)
    assert flags == 0


@pytest.fixture(scope="module")
def standard():
    """A triclinic system and what it gives on one thread, 8 lanes, with the default list."""
    positions, table = spread_positions(N, TRICLINIC), make_table(N)
    return positions, table, compute(PairTerm(table, get_backend("cpu", 1), TRICLINIC, width=8), positions, TRICLINIC)


@pytest.mark.parametrize(
    ("threads", "options"),
    [
        (1, {"width": 4}),
        (1, {"width": 16}),
        (2, {"width": 8}),
        (4, {"width": 8}),
        (1, {"width": 8, "buffer": 0.0}),
        (1, {"width": 8, "buffer": 0.25}),
        (3, {"width": 8, "buffer": 0.1, "origin": (123456789, -987654321, 55555)}),
    ],
)
def test_same_bits_however_computed(standard, threads, options):
    positions, table, (forces, energies, _) = standard
    term = PairTerm(table, get_backend("cpu", threads), TRICLINIC, **options)
    got_forces, got_energies, flags = compute(term, positions, TRICLINIC)
    assert np.array_equal(got_forces, forces)
    assert np.array_equal(got_energies, energies)
    assert flags == 0


@pytest.mark.parametrize("axes", [(1, 2, 0), (2, 1, 0)])
def test_other_cluster_sorts_give_the_same_bits(axes):
    """In a cube, with the axes exchanged, clusters are sorted along another one; r^2 is summed in another order, so the
    comparison is of a system whose y and z are 0: the sum is then exact in any order."""
    box = Box(np.diag([2.5, 2.5, 2.5]))
    positions = np.zeros((64, 3), np.int32)
    positions[:, 0] = np.arange(64, dtype=np.int64) * 2**26 - 2**31 + np.random.default_rng(0).integers(0, 2**22, 64)
    table = make_table(64)
    term = PairTerm(table, get_backend("cpu", 1), box)
    forces, energies, _ = compute(term, positions, box)
    turned, turned_energies, _ = compute(
        PairTerm(table, term.backend, box), np.ascontiguousarray(positions[:, axes]), box
    )
    assert np.array_equal(turned, forces[:, axes])
    assert np.array_equal(turned_energies, energies)
    assert abs(forces[:, 0]).max() > 0


def test_renumbered_atoms_give_the_same_bits(standard):
    """The order of atoms decides which of two is in the i-cluster; forces must be opposite to the last bit."""
    positions, table, (forces, energies, _) = standard
    order = np.random.default_rng(7).permutation(N)
    place = np.argsort(order)
    fields = {name: getattr(table, name)[order] for name in ("charge", "sigma", "epsilon")}
    exclusions = np.sort(place[table.exclusions], axis=1).astype(np.int32)
    shuffled = NonbondedTable(**{**table.__dict__, **fields, "exclusions": exclusions})
    got_forces, got_energies, _ = compute(
        PairTerm(shuffled, get_backend("cpu", 1), TRICLINIC), positions[order], TRICLINIC
    )
    assert np.array_equal(got_forces, forces[order])
    assert np.array_equal(got_energies, energies)


def test_forces_do_not_depend_on_whether_energies_are_asked_for(standard):
    """And not on loops that leave out Lennard-Jones where a cluster has none."""
    positions, table, (forces, _, _) = standard
    term = PairTerm(table, get_backend("cpu", 1), TRICLINIC)
    got, energies, _ = compute(term, positions, TRICLINIC, with_energy=False)
    assert np.array_equal(got, forces)
    assert not energies.any()
    everywhere = PairTerm(table, get_backend("cpu", 1), TRICLINIC)
    everywhere.pair_list.has_lj[:] = True
    assert np.array_equal(compute(everywhere, positions, TRICLINIC, with_energy=False)[0], forces)


def test_forces_sum_to_zero_exactly(standard):
    _, _, (forces, _, _) = standard
    assert not forces.sum(axis=0).any()


def test_same_bits_along_a_walk_with_and_without_rebuilding():
    positions, table = spread_positions(N, TRICLINIC), make_table(N)
    lasting = PairTerm(table, get_backend("cpu", 1), TRICLINIC, buffer=0.25)
    fresh = PairTerm(table, get_backend("cpu", 1), TRICLINIC, buffer=0.0)
    rng, box = np.random.default_rng(11), TRICLINIC
    for step in range(8):
        got, expected = compute(lasting, positions, box, False), compute(fresh, positions, box, False)
        assert np.array_equal(got[0], expected[0])
        move = rng.normal(scale=0.008, size=(N, 3)) @ box.inverse * 2.0**32
        positions = (positions + np.rint(move).astype(np.int64)).astype(np.int32)
        if step == 3:
            box = Box(box.vectors * 0.998)
    assert lasting.pair_list.n_rebuilds < fresh.pair_list.n_rebuilds == 8


def test_exclusions_contribute_nothing():
    """Excluded pairs may even coincide (a virtual site on its parent)."""
    positions, table = spread_positions(N, ORTHORHOMBIC), make_table(N)
    moved = positions.copy()
    first, second = table.exclusions[0]
    moved[second] = moved[first]
    forces, energies, flags = compute_real(table, get_backend("cpu", 1), moved, ORTHORHOMBIC)
    expected, lj, coulomb = oracle(table, moved, ORTHORHOMBIC)
    assert flags == 0
    assert np.abs(forces - expected).max() < 1e-4 * np.abs(expected).max()
    assert energies[:2] == pytest.approx([lj, coulomb], rel=1e-5, abs=5e-3)


@pytest.mark.parametrize("gap", [0, 1, 2**20])
def test_overlaps_are_clipped_and_flagged(gap):
    """0, 1 and 2**20 units of 6e-10 nm apart: finite, opposite, flagged."""
    table = make_table(3, "CutoffPeriodic")
    table = NonbondedTable(**{**table.__dict__, "exclusions": np.zeros((0, 2), np.int32), "epsilon": np.ones(3)})
    positions = np.array([[0, 0, 0], [gap, 0, 0], [2**30, 2**30, 2**30]], np.int32)
    forces, energies, flags = compute(PairTerm(table, get_backend("cpu", 1), ORTHORHOMBIC), positions, ORTHORHOMBIC)
    assert flags == FLAG_FORCE_CLIPPED
    assert not forces.sum(axis=0).any()
    assert np.abs(forces).max() <= 1.001 * PAIR_FORCE_LIMIT * FORCE_SCALE
    assert energies[0] > 0
    if gap == 2**20:  # beyond the distance below which forces fade out for want of a direction
        assert forces[0, 0] < -0.05 * PAIR_FORCE_LIMIT * FORCE_SCALE


def test_totals_near_overflow_are_flagged():
    """Seventeen atoms in one place push another, each within the limit of a pair."""
    n = 18
    i, j = np.triu_indices(n, 1)
    among_them = np.stack([i, j], axis=1)[i > 0].astype(np.int32)
    fields = {"exclusions": among_them, "epsilon": np.zeros(n), "charge": np.r_[20.0, np.full(n - 1, 0.1)]}
    table = NonbondedTable(**{**make_table(n, "CutoffPeriodic").__dict__, **fields})
    positions = np.zeros((n, 3), np.int32)
    positions[1:, 0] = round(0.2 / 2.5 * 2**32)
    forces, _, flags = compute(PairTerm(table, get_backend("cpu", 1), ORTHORHOMBIC), positions, ORTHORHOMBIC)
    assert np.abs(forces[1:]).max() < PAIR_FORCE_LIMIT * FORCE_SCALE
    assert np.abs(forces[0]).max() > 2.0**30 / PAIR_FORCE_SCALE * FORCE_SCALE
    assert flags == FLAG_FORCE_CLIPPED


def test_dispersion_correction_is_coefficient_over_volume():
    table = make_table(N, dispersion_coefficient=-31.0)
    positions = spread_positions(N, ORTHORHOMBIC)
    _, energies, _ = compute_real(table, get_backend("cpu", 1), positions, ORTHORHOMBIC)
    assert energies[2] == pytest.approx(-31.0 / ORTHORHOMBIC.volume, abs=1e-7)


def test_parameters_that_cannot_be_computed_are_refused():
    backend, table = get_backend("cpu", 1), make_table(9)
    steep = NonbondedTable(**{**table.__dict__, "ewald_alpha": 5.0})
    with pytest.raises(InputError, match="raise the error tolerance"):
        PairTerm(steep, backend, ORTHORHOMBIC)
    both = make_table(9, "LJPME", switch_distance=0.7)
    with pytest.raises(UnsupportedError, match="turn the switching function off"):
        PairTerm(both, backend, ORTHORHOMBIC)
    table.charge[4] = np.nan
    with pytest.raises(InputError, match="not a finite"):
        PairTerm(table, backend, ORTHORHOMBIC)


# ---- the rational approximations ---------------------------------------------------------------------------------------


def test_ewald_fits_hold_their_stated_errors():
    r = np.linspace(1e-3, np.sqrt(ewald_fit.MAX_X), 7001)  # alpha = 1

    def fit(name, r):
        numerator, denominator = (getattr(ewald_fit, f"{name}_{part}") for part in ("NUMERATOR", "DENOMINATOR"))
        return ewald_fit.evaluate(numerator, r**2) / ewald_fit.evaluate(denominator, r**2)

    w, u = reference.ewald_direct(1.0, r, 1.0)
    assert np.abs(1.0 - r**3 * fit("FORCE", r) - r * w).max() < 2e-7
    assert np.abs(1.0 - r * fit("POTENTIAL", r) - r * u).max() < 3e-8
    r = r[500:]  # the closed forms of the oracle cancel at small r
    w, u = reference.dispersion_direct(1.0, r, 1.0)
    assert np.abs(r**8 * fit("DISPERSION_FORCE", r) - r**6 * w / 6.0).max() < 3e-7
    assert np.abs(r**6 * fit("DISPERSION", r) - r**6 * u).max() < 2e-7


def test_denominators_have_no_zero_beyond_the_fit():
    x = np.linspace(0.0, 1e4, 100001)
    for name in ("FORCE", "POTENTIAL", "DISPERSION_FORCE", "DISPERSION"):
        assert (ewald_fit.evaluate(getattr(ewald_fit, f"{name}_DENOMINATOR"), x) >= 1.0).all()


# ---- other CPUs --------------------------------------------------------------------------------------------------------

SCRIPT = """
import numpy as np
from pair_samples import TRICLINIC, compute, make_table, spread_positions
from mdsim.backends import get_backend
backend = get_backend("cpu", 1)
from mdsim.forces.nonbonded import PairTerm
term = PairTerm(make_table(600), backend, TRICLINIC)
forces, energies, _ = compute(term, spread_positions(600, TRICLINIC), TRICLINIC)
np.savez({path!r}, forces=forces, energies=energies, width=term.pair_list.width)
"""


@pytest.mark.parametrize(
    ("cpu", "features", "width"),
    [("haswell", "", 4), ("generic", "+sse4.2,+avx,+avx2,+fma", 8)],
)
def test_same_bits_on_other_cpus(standard, tmp_path, cpu, features, width):
    path = str(tmp_path / "result.npz")
    tests = os.path.dirname(os.path.dirname(__file__))
    environment = {
        **os.environ, "NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features, "PYTHONPATH": tests, "MDSIM_SIMD_WIDTH": str(width)
    }  # fmt: skip
    subprocess.run([sys.executable, "-c", SCRIPT.format(path=path)], check=True, env=environment)
    result = np.load(path)
    assert result["width"] == width
    assert np.array_equal(result["forces"], standard[2][0])
    assert np.array_equal(result["energies"], standard[2][1])
