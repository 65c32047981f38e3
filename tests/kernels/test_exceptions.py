"""Exclusion corrections and exceptions against plain loops, at every distance down to none."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdsim.backends import get_backend
from mdsim.box import Box
from mdsim.forces.base import ForceBuffers, LocalView
from mdsim.forces.exceptions import make_exception_term, make_exclusion_terms
from mdsim.forces.pme import dispersion_coefficients
from mdsim.kernels.cpu.exceptions import N_LANES, coulomb_shapes, dispersion_shape
from mdsim.kernels.fixed_point import ENERGY_SCALE, FLAG_FORCE_CLIPPED, FORCE_SCALE
from mdsim.kernels.reference import ewald
from mdsim.tables import NonbondedTable, PairExceptionTable

BOX = Box(np.array([[2.2, 0.0, 0.0], [0.6, 2.1, 0.0], [-0.7, 0.5, 2.3]]))
N = 40


def evaluate(term, positions, n_threads=1):
    """(energies in kJ/mol, fixed-point forces int64[n, 3], flags) of one term."""
    n, m = len(positions), len(term.energy_names)
    out = ForceBuffers(
        np.zeros((n_threads, n, 3), np.int64), np.zeros((m, n_threads), np.int64), np.zeros((m, n_threads), np.int32)
    )
    ids = np.arange(n, dtype=np.int32)
    term.bind(LocalView(ids, ids, n))
    term.compute(positions, BOX, out, True)
    return (
        out.energies.sum(axis=1) / ENERGY_SCALE,
        out.forces.sum(axis=0),
        int(np.bitwise_or.reduce(out.flags, axis=None)),
    )


@pytest.fixture
def positions():
    return np.random.default_rng(5).integers(-(2**31), 2**31, (N, 3)).astype(np.int32)


@pytest.fixture
def nonbonded():
    rng = np.random.default_rng(6)
    pairs = np.array([(i, i + k) for k in (1, 2, 3) for i in range(N - k)], dtype=np.int32)
    return NonbondedTable(
        label="NonbondedForce", lj_label="NonbondedForce", method="LJPME", cutoff=0.9,
        charge=rng.uniform(-1, 1, N), sigma=rng.uniform(0.2, 0.4, N), epsilon=rng.uniform(0.1, 1.0, N), exclusions=pairs,
        ewald_alpha=2.9, grid=(24, 24, 24), ljpme_alpha=2.5, ljpme_grid=(24, 24, 24),
    )  # fmt: skip


@pytest.fixture
def exceptions():
    rng = np.random.default_rng(8)
    pairs = np.array([(i, i + 3) for i in range(N - 3)], dtype=np.int32)
    m = len(pairs)
    return PairExceptionTable(
        "NonbondedForce", pairs, rng.uniform(-1, 1, m), rng.uniform(0.1, 0.3, m), rng.uniform(0, 1, m)
    )


def test_coulomb_exclusions(positions, nonbonded):
    term, _ = make_exclusion_terms(nonbonded, get_backend("cpu", 1))
    (energy,), forces, flags = evaluate(term, positions)
    u, f = ewald.coulomb_exclusions(
        BOX.cartesian(positions), nonbonded.charge, BOX.vectors, nonbonded.exclusions, nonbonded.ewald_alpha
    )
    assert energy == pytest.approx(u, abs=1e-5)
    assert forces / FORCE_SCALE == pytest.approx(f, abs=1e-7)
    assert flags == 0
    assert (forces.sum(axis=0) == 0).all()


def test_dispersion_exclusions(positions, nonbonded):
    _, term = make_exclusion_terms(nonbonded, get_backend("cpu", 1))
    (energy,), forces, _ = evaluate(term, positions)
    u, f = ewald.dispersion_exclusions(
        BOX.cartesian(positions),
        dispersion_coefficients(nonbonded),
        BOX.vectors,
        nonbonded.exclusions,
        nonbonded.ljpme_alpha,
    )
    assert energy == pytest.approx(u, abs=1e-5)
    assert forces / FORCE_SCALE == pytest.approx(f, abs=1e-7)


def test_exceptions(positions, exceptions):
    energies, forces, flags = evaluate(make_exception_term(exceptions, get_backend("cpu", 1)), positions)
    u_coulomb, u_lj, f = ewald.exceptions(
        BOX.cartesian(positions),
        BOX.vectors,
        exceptions.atoms,
        exceptions.charge_product,
        exceptions.sigma,
        exceptions.epsilon,
    )
    assert energies == pytest.approx([u_coulomb, u_lj], abs=1e-5)
    assert forces / FORCE_SCALE == pytest.approx(f, abs=1e-6)
    assert flags == 0
    assert (forces.sum(axis=0) == 0).all()


def test_bits_do_not_depend_on_threads(positions, nonbonded, exceptions):
    def everything(n_threads):
        backend = get_backend("cpu", n_threads)
        terms = [*make_exclusion_terms(nonbonded, backend), make_exception_term(exceptions, backend)]
        return [evaluate(term, positions, n_threads) for term in terms]

    expected = everything(1)
    for n_threads in (2, 3, 4):
        for (u, f, _), (u_1, f_1, _) in zip(everything(n_threads), expected, strict=True):
            assert (u == u_1).all()
            assert (f == f_1).all()
    get_backend("cpu", 1)


def test_excluded_atoms_at_the_same_place(positions, nonbonded):
    """The limit r -> 0 is finite: -2 alpha / sqrt(pi) q_i q_j, and no force."""
    nonbonded.exclusions.resize((1, 2), refcheck=False)
    positions[1] = positions[0]
    coulomb, dispersion = (evaluate(t, positions) for t in make_exclusion_terms(nonbonded, get_backend("cpu", 1)))
    q, c6 = nonbonded.charge, dispersion_coefficients(nonbonded)
    expected = -ewald.COULOMB * q[0] * q[1] * 2 * nonbonded.ewald_alpha / math.sqrt(math.pi)
    assert coulomb[0][0] == pytest.approx(expected, abs=1e-6)
    assert dispersion[0][0] == pytest.approx(c6[0] * c6[1] * nonbonded.ljpme_alpha**6 / 6, abs=1e-6)
    assert not coulomb[1].any()
    assert not dispersion[1].any()
    assert coulomb[2] == 0


def test_exceptions_at_the_same_place_are_flagged_not_nan(positions, exceptions):
    positions[3] = positions[0]
    _, forces, flags = evaluate(make_exception_term(exceptions, get_backend("cpu", 1)), positions)
    assert flags == FLAG_FORCE_CLIPPED
    assert (forces.sum(axis=0) == 0).all()


def test_pairs_without_interaction_are_left_out(nonbonded):
    nonbonded.charge[:] = 0.0
    term, _ = make_exclusion_terms(nonbonded, get_backend("cpu", 1))
    (energy,), forces, flags = evaluate(term, np.zeros((N, 3), np.int32))
    assert energy == 0.0
    assert not forces.any()
    assert flags == 0


def test_no_correction_without_a_mesh(nonbonded):
    from dataclasses import replace

    for method in ("NoCutoff", "CutoffPeriodic"):
        assert make_exclusion_terms(replace(nonbonded, method=method), get_backend("cpu", 1)) == []


# ---- radial shapes -------------------------------------------------------------------------------------------------------


@given(st.floats(1e-3, 60.0))
def test_coulomb_shapes(y):
    values, slopes = np.empty(N_LANES), np.empty(N_LANES)
    coulomb_shapes(np.array([y] + [0.0] * (N_LANES - 1)), values, slopes)
    value, slope = values[0], slopes[0]
    x = math.sqrt(y)
    assert value == pytest.approx(math.erf(x) / x, rel=3e-15)
    # by the integral, sum_k 2 / sqrt(pi) exp(-y) 2^k y^k / (3 5 7 ... (2 k + 3)), all terms positive
    term, series, k = 2 / math.sqrt(math.pi) * math.exp(-y) / 3, 0.0, 0
    while term > 1e-18 * series:
        series, k = series + term, k + 1
        term *= 2 * y / (2 * k + 3)
    assert slope == pytest.approx(series, rel=1e-13)


@given(st.floats(0.0, 60.0))
def test_dispersion_shape(y):
    value, slope = dispersion_shape(y)
    # P(3, y) / y^3 = exp(-y) sum_k y^k / (k + 3)!, and the same with 4 and three times as much for the slope
    expected = [math.exp(-y) * math.fsum(y**k / math.factorial(k + n) for k in range(150)) for n in (3, 4)]
    assert value == pytest.approx(expected[0], rel=3e-14)
    assert slope == pytest.approx(3 * expected[1], rel=3e-13)
