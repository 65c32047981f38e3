"""Barostats against the ideal gas, and what a volume move must keep."""

import itertools

import numpy as np
import pytest
from dynamics_samples import KT, cartesian, make_state, make_system, rigid_mixture, threads, view_of

from mdsim.barostats import Molecules, make_barostat, molecular_pressure
from mdsim.box import Box
from mdsim.errors import InputError
from mdsim.kernels.fixed_point import ENERGY_SCALE
from mdsim.units import BAR, BOLTZMANN

TEMPERATURE = KT / BOLTZMANN
PRESSURE = 100.0  # bar


def barostat(kind, system, state, n_threads=1, **parameters):
    defaults = {"pressure": PRESSURE, "temperature": TEMPERATURE, "frequency": 1, "seed": 5}
    made = make_barostat(threads(n_threads), system, kind, **{**defaults, **parameters})
    made.bind(view_of(state))
    return made


def ideal_gas(n):
    """``n`` atoms in the volume that they should have."""
    edge = ((n + 1) * KT / (PRESSURE * BAR)) ** (1 / 3)
    x = np.random.default_rng(2).uniform(0, edge, (n, 3))
    return make_system(np.ones(n)), make_state(x, box=Box(np.eye(3) * edge))


@pytest.mark.parametrize("kind", ["isotropic", "anisotropic", "membrane"])
def test_ideal_gas(kind):
    """p(V) is proportional to V^N exp(-PV/kT): mean (N+1) kT/P, variance (N+1) (kT/P)^2."""
    n = 60
    system, state = ideal_gas(n)
    move = barostat(kind, system, state)
    volumes = []
    for _ in range(8000):
        move.attempt(state, lambda: 0)
        state.step += 1
        volumes.append(state.box.volume)
    volumes = np.array(volumes[500:]) * PRESSURE * BAR / KT
    # a correlation time of some 5 attempts, a standard error of 0.5 %
    assert volumes.mean() == pytest.approx(n + 1, rel=0.02)
    assert volumes.var() == pytest.approx(n + 1, rel=0.2)
    attempts, accepts = state.extra[move.TOTALS]
    assert attempts == 8000
    assert 0.25 < accepts / attempts < 0.8


def test_energy_shifts_the_volume():
    """U = c V adds c to the pressure."""
    n = 60
    system, state = ideal_gas(n)
    move = barostat("isotropic", system, state)
    volumes = []
    for _ in range(6000):
        move.attempt(state, lambda: round(PRESSURE * BAR * state.box.volume * ENERGY_SCALE))
        state.step += 1
        volumes.append(state.box.volume)
    assert np.mean(volumes[500:]) * 2 * PRESSURE * BAR / KT == pytest.approx(n + 1, rel=0.025)


def shapes(system, state):
    """Atoms from their molecule's centre (unweighted), nm, and the centres in unwrapped box fractions."""
    x = cartesian(state)
    sizes = np.diff(system.molecule_start)
    centres = np.add.reduceat(x, system.molecule_start[:-1]) / sizes[:, None]
    return x - np.repeat(centres, sizes, axis=0), centres @ np.linalg.inv(state.box.vectors)


@pytest.mark.parametrize("factors", [(1.05, 1.05, 1.05), (1.0, 0.9, 1.0), (1.02, 1.02, 0.97)])
def test_molecules_keep_their_shape(factors):
    system, state = rigid_mixture()
    state.images += np.repeat(np.random.default_rng(1).integers(-3, 4, (50, 3)), np.diff(system.molecule_start), axis=0)
    shape, centre = shapes(system, state)
    molecules = Molecules(threads(2), system)
    molecules.bind(view_of(state))
    old = state.box.vectors
    molecules.scale(state, np.array(factors))
    assert state.box.vectors == pytest.approx(old * np.array(factors))
    new_shape, new_centre = shapes(system, state)
    assert np.abs(new_shape - shape).max() < 3e-9  # the lattice of a box of 2 nm
    assert np.abs(new_centre - centre).max() < 1e-9


@pytest.mark.parametrize("kind", ["isotropic", "anisotropic", "membrane"])
def test_rejection_restores_every_bit(kind):
    system, state = rigid_mixture()
    move = barostat(kind, system, state)
    before = state.positions.tobytes(), state.images.tobytes(), state.box.vectors.tobytes()
    energies = iter([0, 10**15])
    seen = []

    def energy():
        seen.append(state.positions.tobytes())
        return next(energies)

    assert not move.attempt(state, energy)
    assert seen[0] != seen[1]
    assert (state.positions.tobytes(), state.images.tobytes(), state.box.vectors.tobytes()) == before


def test_same_bits_for_any_number_of_threads():
    results = set()
    for n in (1, 2, 3, 4):
        system, state = rigid_mixture()
        move = barostat("anisotropic", system, state, n)
        for _ in range(6):
            move.attempt(state, lambda: 0)
            state.step += 1
        extra = b"".join(state.extra[name].tobytes() for name in sorted(state.extra))
        results.add(state.positions.tobytes() + state.images.tobytes() + state.box.vectors.tobytes() + extra)
    assert len(results) == 1


def test_move_size_adapts_and_is_kept_in_the_state():
    system, state = ideal_gas(10)
    move = barostat("isotropic", system, state)
    first = 0.01 * state.box.volume
    uphill = itertools.count(0, 10**12)
    for _ in range(9):
        move.attempt(state, lambda: next(uphill))
        state.step += 1
    assert state.extra[move.SCALE][0] == first
    assert state.extra[move.COUNTS][0].tolist() == [9, 0]
    move.attempt(state, lambda: next(uphill))
    assert state.extra[move.SCALE][0] == pytest.approx(first / 1.1)
    assert state.extra[move.COUNTS][0].tolist() == [0, 0]
    downhill = itertools.count(0, -(10**12))
    for _ in range(10):
        state.step += 1
        move.attempt(state, lambda: next(downhill))
    assert state.extra[move.SCALE][0] == pytest.approx(first)
    state.extra[move.SCALE] = np.full(3, 100.0 * state.box.volume)  # most moves would make the volume negative
    for _ in range(100):
        state.step += 1
        move.attempt(state, lambda: next(downhill))
        assert state.box.volume > 0


def test_a_resumed_barostat_continues():
    system, state = ideal_gas(30)
    move = barostat("membrane", system, state)
    for _ in range(15):
        move.attempt(state, lambda: 0)
        state.step += 1
    copy = make_state(np.zeros((30, 3)), box=state.box)
    copy.step, copy.positions, copy.images = state.step, state.positions.copy(), state.images.copy()
    copy.extra = {name: value.copy() for name, value in state.extra.items()}
    again = barostat("membrane", system, copy)
    for _ in range(15):
        move.attempt(state, lambda: 0)
        again.attempt(copy, lambda: 0)
        state.step += 1
        copy.step += 1
    assert (copy.box.vectors == state.box.vectors).all()
    assert (copy.positions == state.positions).all()


def test_membrane_options():
    system, state = ideal_gas(20)
    flat = barostat("membrane", system, state, z="fixed", xy="anisotropic")
    first = state.box.vectors.copy()
    for _ in range(20):
        flat.attempt(state, lambda: 0)
        state.step += 1
    assert state.box.vectors[2, 2] == first[2, 2]
    assert state.box.vectors[0, 0] != state.box.vectors[1, 1]
    volume = state.box.volume
    same = barostat("membrane", system, state, z="constant-volume", surface_tension=200.0)
    area = []
    for _ in range(200):
        same.attempt(state, lambda: 0)
        state.step += 1
        area.append(state.box.vectors[0, 0] * state.box.vectors[1, 1])
    assert state.box.volume == pytest.approx(volume, rel=1e-12)
    assert area[-1] > 1.2 * area[0]  # tension favours a large area


def test_scaled_axes_only():
    system, state = ideal_gas(20)
    first = state.box.vectors.copy()
    move = barostat("anisotropic", system, state, pressure=(1.0, 1.0, 1.0), scale=(False, True, False))
    for _ in range(20):
        move.attempt(state, lambda: 0)
        state.step += 1
    assert (state.box.vectors[[0, 2]] == first[[0, 2]]).all()
    assert state.box.vectors[1, 1] != first[1, 1]


def test_molecular_pressure():
    system, state = rigid_mixture()
    molecules = Molecules(threads(1), system)
    molecules.bind(view_of(state))
    before = state.positions.tobytes(), state.box.vectors.tobytes()
    volume, slope = state.box.volume, 40.0  # kJ/mol/nm^3
    pressure = molecular_pressure(
        molecules, state, lambda: round(slope * state.box.volume * ENERGY_SCALE), TEMPERATURE
    )
    assert pressure == pytest.approx((50 * KT / volume - slope) / BAR, rel=1e-6)
    assert (state.positions.tobytes(), state.box.vectors.tobytes()) == before


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("isotropic", {"temperature": -1.0}, "temperature must be a finite number greater than 0"),
        ("isotropic", {"pressure": float("inf")}, "pressure must be a finite number in bar"),
        ("isotropic", {"frequency": 0}, "frequency must be at least 1"),
        ("anisotropic", {"scale": (False, False, False)}, "no axis"),
        ("membrane", {"xy": "round"}, "xy of the membrane barostat"),
        ("membrane", {"z": "up"}, "z of the membrane barostat"),
        ("isotropic", {"xy": "isotropic"}, "xy"),
        ("berendsen", {}, "there is no barostat 'berendsen'; known: anisotropic"),
    ],
)
def test_arguments_that_make_no_sense(kind, change, message):
    system, state = ideal_gas(3)
    with pytest.raises(InputError, match=message):
        barostat(kind, system, state, **change)


def test_no_box_no_pressure():
    with pytest.raises(InputError, match="no pressure"):
        Molecules(threads(1), make_system([1.0], periodic=False))
