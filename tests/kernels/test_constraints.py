"""SETTLE, SHAKE and RATTLE: distances, momentum, threads, and words where they fail."""

import numpy as np
import pytest
from dynamics_samples import (
    CH,
    KT,
    WATER_MASSES,
    cartesian,
    constraint_table,
    make_state,
    make_system,
    rigid_mixture,
    threads,
    view_of,
    water,
)

from mdsim.constraints import Constraints
from mdsim.errors import InputError, SimulationError


def constraints_of(system, state, n_threads=2):
    constraints = Constraints(threads(n_threads), system.constraints, system.masses)
    constraints.bind(view_of(state))
    return constraints


def noise(state, size, seed=5):
    return np.random.default_rng(seed).normal(size=state.velocities.shape) * size


@pytest.mark.parametrize("angles", [False, True])
def test_displacements_keep_distances_and_momentum(angles):
    system, state = rigid_mixture(angles=angles)
    constraints = constraints_of(system, state)
    dx = noise(state, 0.01)
    free = dx.copy()
    constraints.apply_to_displacements(state.positions, state.box, dx)
    _, errors = constraints.relative_errors(state.positions, state.box, dx)
    assert errors.max() < 3e-10
    assert len(errors) == constraints.n_constraints == 40 * 3 + 10 * (10 if angles else 4)
    push = system.masses[:, None] * (dx - free)
    ends = system.molecule_start
    by_molecule = np.add.reduceat(push, ends[:-1])
    assert np.abs(push).max() > 0.01
    assert np.abs(by_molecule).max() < 1e-13
    # impulses along the old bonds turn nothing about the old positions
    torque = np.add.reduceat(np.cross(cartesian(state), push), ends[:-1])
    assert np.abs(torque).max() < 1e-9


@pytest.mark.parametrize("angles", [False, True])
def test_velocities_have_nothing_along_bonds(angles):
    system, state = rigid_mixture(angles=angles)
    constraints = constraints_of(system, state)
    free = state.velocities.copy()
    constraints.apply_to_velocities(state.positions, state.box, state.velocities)
    pairs, _ = constraints.relative_errors(state.positions, state.box, np.zeros_like(free))
    x, v = cartesian(state), state.velocities
    along = ((x[pairs[:, 0]] - x[pairs[:, 1]]) * (v[pairs[:, 0]] - v[pairs[:, 1]])).sum(axis=1)
    assert np.abs(along).max() < 1e-11
    push = np.add.reduceat(system.masses[:, None] * (v - free), system.molecule_start[:-1])
    assert np.abs(push).max() < 1e-12
    # a projection: applying it again changes nothing, and it can only take kinetic energy away
    again = v.copy()
    constraints.apply_to_velocities(state.positions, state.box, again)
    assert np.abs(again - v).max() < 1e-10
    assert (system.masses[:, None] * v**2).sum() < (system.masses[:, None] * free**2).sum()


def test_settle_and_shake_agree():
    rng = np.random.default_rng(1)
    state = make_state(water() + 0.3)
    dx = rng.normal(size=(3, 3)) * 0.01
    velocities = rng.normal(size=(3, 3))
    by_settle, by_shake = dx.copy(), dx.copy()
    v_settle, v_shake = velocities.copy(), velocities.copy()
    one = make_system(WATER_MASSES, constraint_table([(0, 1, 2)], [(0.09572, 0.15139006545247014)]))
    pairs = [(0, 1, 0.09572), (0, 2, 0.09572), (1, 2, 0.15139006545247014)]
    other = make_system(WATER_MASSES, constraint_table(groups=[pairs]))
    for system, d, v in ((one, by_settle, v_settle), (other, by_shake, v_shake)):
        constraints = constraints_of(system, state)
        constraints.apply_to_displacements(state.positions, state.box, d)
        constraints.apply_to_velocities(state.positions, state.box, v)
    assert np.abs(by_settle - by_shake).max() < 1e-10
    assert np.abs(v_settle - v_shake).max() < 1e-9


def test_triangle_with_unequal_base_masses():
    masses = (15.99943, 1.007947, 2.014)  # HDO
    system = make_system(masses, constraint_table([(0, 1, 2)], [(0.09572, 0.15139006545247014)]))
    state = make_state(water() + 0.3)
    constraints = constraints_of(system, state)
    dx = noise(state, 0.01)
    free = dx.copy()
    constraints.apply_to_displacements(state.positions, state.box, dx)
    _, errors = constraints.relative_errors(state.positions, state.box, dx)
    assert errors.max() < 3e-10
    assert np.abs((np.array(masses)[:, None] * (dx - free)).sum(axis=0)).max() < 1e-14


def test_same_bits_for_any_number_of_threads():
    results = []
    for n in (1, 2, 3, 4):
        system, state = rigid_mixture()
        constraints = constraints_of(system, state, n)
        dx = noise(state, 0.01)
        constraints.apply_to_displacements(state.positions, state.box, dx)
        constraints.apply_to_velocities(state.positions, state.box, state.velocities)
        results.append((dx.tobytes(), state.velocities.tobytes()))
    assert len(set(results)) == 1


def test_failure_names_the_atoms():
    system, state = rigid_mixture()
    constraints = constraints_of(system, state)
    dx = np.zeros_like(state.velocities)
    carbon = 3 * 40 + 5 * 4
    x = cartesian(state)
    dx[carbon + 2] = -1.9 * (x[carbon + 2] - x[carbon])  # the hydrogen jumps to the other side
    with pytest.raises(SimulationError, match=f"step 12: .*atoms {carbon} and {carbon + 2} "):
        constraints.apply_to_displacements(state.positions, state.box, dx, step=12)
    dx.fill(0.0)
    dx[3 * 7] = [0.0, 0.0, 0.3]  # an oxygen far above its molecule
    dx[3 * 7 + 1] = [0.2, 0.0, -0.3]
    with pytest.raises(SimulationError, match=r"atoms 21 and 2[23]|atoms 22 and 23"):
        constraints.apply_to_displacements(state.positions, state.box, dx)
    state.velocities[carbon + 1] = np.nan
    with pytest.raises(SimulationError, match=r"off by nan %"):
        constraints.apply_to_velocities(state.positions, state.box, state.velocities)
    dx.fill(0.0)
    constraints.apply_to_displacements(state.positions, state.box, dx)  # and the flag is gone


def test_massless_atoms_cannot_be_constrained():
    table = constraint_table(groups=[[(0, 1, CH)]])
    with pytest.raises(InputError, match="atom 1 has no mass"):
        Constraints(threads(1), table, np.array([12.0, 0.0]))
    with pytest.raises(InputError, match="no triangle"):
        Constraints(threads(1), constraint_table([(0, 1, 2)], [(0.1, 0.25)]), np.array(WATER_MASSES))


def test_temperature_scale_of_the_sample():
    """The random velocities above are thermal, so that the tests mean something."""
    system, state = rigid_mixture()
    assert (system.masses[:, None] * state.velocities**2).mean() == pytest.approx(KT, rel=0.15)
