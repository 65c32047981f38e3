"""The meshes against plain Ewald sums, their own energies, and themselves on other numbers of threads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdsim.backends import get_backend
from mdsim.box import Box
from mdsim.errors import InputError
from mdsim.forcefield.ewald_parameters import default_ewald_parameters
from mdsim.forces.base import ForceBuffers, LocalView
from mdsim.forces.fft import LocalTransform
from mdsim.forces.pme import DispersionPmeTerm, PmeTerm, dispersion_coefficients
from mdsim.kernels.bspline import MAX_ORDER, bspline_at_knots, bspline_polynomials
from mdsim.kernels.fixed_point import ENERGY_SCALE, FORCE_SCALE, FRACTION_SCALE
from mdsim.kernels.reference import ewald
from mdsim.tables import NonbondedTable

BOXES = {
    "orthorhombic": Box(np.diag([2.1, 2.3, 2.5])),
    "triclinic": Box(np.array([[2.2, 0.0, 0.0], [0.6, 2.1, 0.0], [-0.7, 0.5, 2.3]])),
}


def make_table(n, charged=False, **changes):
    rng = np.random.default_rng(7)
    charge = rng.uniform(-1, 1, n)
    charge -= charge.mean() - (0.2 if charged else 0.0)
    pairs = np.array([(i, i + 1) for i in range(0, n - 1, 2)], dtype=np.int32)
    values = {
        "label": "NonbondedForce", "lj_label": "NonbondedForce", "method": "LJPME", "cutoff": 0.9, "charge": charge,
        "sigma": rng.uniform(0.2, 0.4, n), "epsilon": rng.uniform(0.1, 1.0, n), "exclusions": pairs,
        "ewald_alpha": 2.5, "grid": (45, 48, 50), "ljpme_alpha": 2.5, "ljpme_grid": (45, 48, 50),
    }  # fmt: skip
    return NonbondedTable(**(values | changes))


def make_positions(n, seed=1):
    rng = np.random.default_rng(seed)
    return rng.integers(-(2**31), 2**31, (n, 3)).astype(np.int32)


def evaluate(term, positions, box, n_threads=1, ids=None):
    """(energies in kJ/mol by name, fixed-point forces int64[n, 3], flags) of one term, atoms held in the order of ``ids``."""
    n = len(positions)
    ids = np.arange(n, dtype=np.int32) if ids is None else ids
    global_to_local = np.empty(n, dtype=np.int32)
    global_to_local[ids] = np.arange(n)
    m = len(term.energy_names)
    out = ForceBuffers(
        np.zeros((n_threads, n, 3), np.int64), np.zeros((m, n_threads), np.int64), np.zeros((m, n_threads), np.int32)
    )
    term.bind(LocalView(ids, global_to_local, n))
    term.compute(positions, box, out, True)
    energies = dict(zip(term.energy_names, out.energies.sum(axis=1) / ENERGY_SCALE, strict=True))
    return energies, out.forces.sum(axis=0), int(np.bitwise_or.reduce(out.flags, axis=None))


def rms(x):
    return np.sqrt((x**2).sum(axis=1).mean())


# ---- against the plain sums ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "error"), [(4, 2e-4), (5, 2e-5)])
@pytest.mark.parametrize("shape", BOXES)
def test_coulomb_mesh_is_the_ewald_sum(shape, order, error):
    box, table, s = BOXES[shape], make_table(50, charged=True), make_positions(50)
    energies, forces, flags = evaluate(PmeTerm(table, get_backend("cpu", 1), order=order), s, box)
    u, f = ewald.coulomb_reciprocal(box.cartesian(s), table.charge, box.vectors, table.ewald_alpha, m_max=12)
    assert energies["coulomb_reciprocal"] == pytest.approx(u, rel=error)
    assert energies["coulomb_self"] == pytest.approx(
        ewald.coulomb_self(table.charge, box.vectors, table.ewald_alpha), abs=1e-5
    )
    assert rms(forces / FORCE_SCALE - f) < error * rms(f)
    assert flags == 0


@pytest.mark.parametrize("shape", BOXES)
def test_dispersion_mesh_is_the_ewald_sum(shape):
    box, table, s = BOXES[shape], make_table(50), make_positions(50)
    c6 = dispersion_coefficients(table)
    energies, forces, _ = evaluate(DispersionPmeTerm(table, get_backend("cpu", 1)), s, box)
    u, f = ewald.dispersion_reciprocal(box.cartesian(s), c6, box.vectors, table.ljpme_alpha, m_max=12)
    assert energies["lj_reciprocal"] == pytest.approx(u, rel=2e-6)
    assert energies["lj_self"] == pytest.approx(ewald.dispersion_self(c6, table.ljpme_alpha), abs=1e-5)
    assert rms(forces / FORCE_SCALE - f) < 3e-5 * rms(f)


def test_energy_does_not_depend_on_alpha():
    """Reciprocal, self and direct parts together are the energy of the crystal, whatever the splitting."""
    box, s = BOXES["triclinic"], make_positions(16)
    totals = []
    for alpha in (2.0, 3.0):
        table = make_table(16, charged=True, ewald_alpha=alpha, grid=(60, 60, 60))
        mesh, _, _ = evaluate(PmeTerm(table, get_backend("cpu", 1)), s, box)
        direct, _ = ewald.coulomb_direct(box.cartesian(s), table.charge, box.vectors, alpha, images=2)
        totals.append(sum(mesh.values()) + direct)
    assert totals[0] == pytest.approx(totals[1], abs=1e-3)
    assert abs(totals[0]) > 100


def test_madelung_constant_of_rock_salt():
    lattice = np.array([(i, j, k) for i in range(4) for j in range(4) for k in range(4)])
    table = make_table(64, charge=(-1.0) ** lattice.sum(axis=1), ewald_alpha=6.0, grid=(48, 48, 48))
    box = Box(np.diag([2.0] * 3))
    s, _ = box.fractions(lattice * 0.5)
    mesh, forces, _ = evaluate(PmeTerm(table, get_backend("cpu", 1)), s, box)
    direct, _ = ewald.coulomb_direct(box.cartesian(s), table.charge, box.vectors, 6.0)
    assert -(sum(mesh.values()) + direct) / 32 * 0.5 / ewald.COULOMB == pytest.approx(1.747564594633, rel=1e-6)
    assert abs(forces / FORCE_SCALE).max() < 1e-3


# ---- against themselves --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [4, 5])
@pytest.mark.parametrize("kind", [PmeTerm, DispersionPmeTerm])
def test_forces_are_minus_the_slope_of_the_energy(kind, order):
    """Along a direction without net displacement, for the net force is removed; a coarse grid is as exact as a fine one."""
    box, table = BOXES["triclinic"], make_table(40, grid=(15, 16, 18), ljpme_grid=(15, 16, 18))
    s = make_positions(40)
    direction = np.random.default_rng(3).normal(size=(40, 3))
    direction -= direction.mean(axis=0)
    term = kind(table, get_backend("cpu", 1), order=order)
    step = 1e-3  # nm
    shifts, _ = box.fractions(step * direction)
    energies = [evaluate(term, s + sign * shifts, box)[0][term.energy_names[0]] for sign in (1, -1)]
    _, forces, _ = evaluate(term, s, box)
    slope = (energies[0] - energies[1]) / 2
    work = (forces / FORCE_SCALE * box.cartesian(shifts)).sum()
    assert -work == pytest.approx(slope, rel=2e-3)


@pytest.mark.parametrize("kind", [PmeTerm, DispersionPmeTerm])
def test_bits_do_not_depend_on_threads_or_the_order_of_atoms(kind):
    box, table, s = BOXES["triclinic"], make_table(301, charged=True), make_positions(301)
    expected = evaluate(kind(table, get_backend("cpu", 1)), s, box)
    assert expected[2] == 0
    assert (expected[1] != 0).all()
    for n_threads in (2, 3, 4):
        ids = np.random.default_rng(n_threads).permutation(301).astype(np.int32)
        term = kind(table, get_backend("cpu", n_threads))
        energies, forces, _ = evaluate(term, s[ids], box, n_threads, ids)
        assert energies == expected[0]
        assert (forces == expected[1][ids]).all()
    get_backend("cpu", 1)


def test_forces_sum_to_zero_and_the_share_is_even():
    box, table, s = BOXES["orthorhombic"], make_table(37), make_positions(37)
    term = PmeTerm(table, get_backend("cpu", 1))
    _, forces, _ = evaluate(term, s, box)
    assert (forces.sum(axis=0) == 0).all()
    assert term._totals.any(), "the mesh had no net force to remove, so this test shows nothing"


def test_influence_follows_the_box():
    table, s = make_table(30, charged=True), make_positions(30)
    term = PmeTerm(table, get_backend("cpu", 1))
    first = evaluate(term, s, BOXES["orthorhombic"])
    second = evaluate(term, s, BOXES["triclinic"])
    again = evaluate(term, s, BOXES["orthorhombic"])
    assert first[0] == again[0]
    assert (first[1] == again[1]).all()
    assert second[0] != first[0]
    fresh = evaluate(PmeTerm(table, get_backend("cpu", 1)), s, BOXES["triclinic"])
    assert second[0] == fresh[0]


def test_thread_grids_are_left_clean():
    table, s = make_table(30), make_positions(30)
    term = PmeTerm(table, get_backend("cpu", 1))
    evaluate(term, s, BOXES["orthorhombic"])
    assert not term._thread_grids.any()
    assert term._charge_grid.any()


def test_atoms_at_the_same_place_are_no_trouble():
    table, s = make_table(4), make_positions(4)
    s[1] = s[0]
    _, forces, flags = evaluate(PmeTerm(table, get_backend("cpu", 1)), s, BOXES["orthorhombic"])
    assert flags == 0
    assert abs(forces / FORCE_SCALE).max() < 1e5


# ---- parts ---------------------------------------------------------------------------------------------------------------


@given(st.integers(-(2**31), 2**31 - 1), st.integers(6, 1000))
def test_grid_point_is_exact(fraction, n_points):
    from mdsim.kernels.cpu.pme import grid_point

    point, offset = grid_point(np.int32(fraction), n_points)
    whole, rest = divmod((fraction % 2**32) * n_points, 2**32)
    assert point == whole
    assert 0.0 <= offset < 1.0
    assert offset == (rest >> 8) / 2**24


@pytest.mark.parametrize("order", [4, 5])
def test_bspline_weights(order):
    """Against the recursion of Essmann eq. 4.1; they sum to one, their slopes to zero."""

    def spline(n, u):
        if n == 2:
            return np.maximum(1 - abs(u - 1), 0)
        return (u * spline(n - 1, u) + (n - u) * spline(n - 1, u - 1)) / (n - 1)

    values, slopes = bspline_polynomials(order)
    w = np.linspace(0, 1, 33)
    powers = w[:, None] ** np.arange(MAX_ORDER)
    expected = np.stack([spline(order, w + order - 1 - j) for j in range(order)], axis=1)
    assert powers @ values.astype(float)[:, :order] == pytest.approx(expected, abs=1e-7)
    assert not values[:, order:].any()
    assert not slopes[:, order:].any()
    assert (powers @ slopes.astype(float)).sum(axis=1) == pytest.approx(0, abs=1e-6)
    assert bspline_at_knots(order) == pytest.approx([spline(order, float(k)) for k in range(1, order)])


def transform(grid, n_threads=1):
    """(waves, inverse of the waves) by LocalTransform, complex64[nx, ny, nz // 2 + 1] and float32[nx, ny, nz]."""
    mesh = LocalTransform(grid.shape, get_backend("cpu", n_threads))
    mesh.forward(grid)
    waves = mesh.waves[..., : grid.shape[2] // 2 + 1]
    waves = waves[:, :, 0] + 1j * waves[:, :, 1]
    inverse = np.empty_like(grid)
    mesh.inverse(inverse)
    get_backend("cpu", 1)
    return waves, inverse


@pytest.mark.parametrize("shape", [(6, 7, 8), (12, 15, 11), (25, 18, 27), (16, 49, 26), (9, 20, 53), (45, 28, 56)])
def test_transform(shape):
    grid = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    waves, inverse = transform(grid)
    expected = np.fft.rfftn(grid.astype(np.float64))
    assert abs(waves - expected).max() < 1e-6 * np.sqrt((abs(expected) ** 2).mean())
    assert abs(inverse / grid.size - grid).max() < 2e-6


def test_a_line_has_the_same_bits_whatever_is_beside_it():
    """Decomposition over ranks rests on this. Along z two neighbouring lines are one complex line and stay together."""
    rng = np.random.default_rng(1)
    grid = rng.normal(size=(1, 40, 30)).astype(np.float32)
    waves, _ = transform(grid)
    for n_threads in (2, 3, 4):
        assert (transform(grid, n_threads)[0] == waves).all()
    # one column of lines along x or y alone; two halves of the lines along z apart
    backend = get_backend("cpu", 1)
    transform_axis = backend.kernel("fft.transform_axis")
    lines = rng.normal(size=(24, 30, 2, 16)).astype(np.float32)
    for axis in (0, 1):
        plan = LocalTransform._plan(lines.shape[axis], backend)
        together, alone = lines.copy(), np.zeros_like(lines)
        alone[..., 3] = lines[..., 3]
        for waves in (together, alone):
            transform_axis(axis, False, *plan, 1, grid, waves)
        assert (alone[..., 3] == together[..., 3]).all()
        assert not alone[..., 4:].any()
    plan = LocalTransform._plan(30, backend)
    parts = [grid, np.ascontiguousarray(grid[:, :22]), np.ascontiguousarray(grid[:, 22:])]
    waves = [np.zeros((1, part.shape[1], 2, 16), np.float32) for part in parts]
    for part, out in zip(parts, waves, strict=True):
        transform_axis(2, False, *plan, 1, part, out)
    assert (np.concatenate(waves[1:], axis=1) == waves[0]).all()


# ---- parameters ----------------------------------------------------------------------------------------------------------


def test_default_parameters_are_sane_and_bad_ones_refused():
    alpha, grid = default_ewald_parameters(np.diag([6.223] * 3), 0.9, 5e-4)
    assert alpha == pytest.approx(2.92028987, rel=1e-8)
    assert grid == (56, 56, 56)
    with pytest.raises(InputError, match="tolerance"):
        default_ewald_parameters(np.eye(3), 0.9, 0.7)
    with pytest.raises(InputError, match="order"):
        PmeTerm(make_table(4), get_backend("cpu", 1), order=6)
    with pytest.raises(InputError, match="grid"):
        PmeTerm(make_table(4, grid=(4, 8, 8)), get_backend("cpu", 1))


def test_fraction_scale_is_the_grid_arithmetic():
    """grid_point relies on positions being fractions of 2**32."""
    assert FRACTION_SCALE == 2.0**32
