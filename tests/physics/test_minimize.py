"""The minimiser: known minima, overlapping atoms, constraints, frozen atoms, threads."""

import numpy as np
import pytest
from dynamics_samples import (
    cartesian,
    constraint_table,
    fixed,
    make_state,
    make_system,
    rotation,
    site_table,
    threads,
    view_of,
    water,
)

from mdsim.constraints import VirtualSites
from mdsim.engine.minimize import Minimizer
from mdsim.errors import InputError, SimulationError
from mdsim.kernels.fixed_point import FLAG_FORCE_CLIPPED, FLAG_NOT_FINITE, FORCE_LIMIT


def lennard_jones(x, sigma, epsilon):
    """Energy and forces of all pairs, forces clipped as the kernels clip them: (float64[n, 3], kJ/mol, flags)."""
    d = x[:, None] - x[None]
    r2 = (d**2).sum(axis=-1) + np.eye(len(x))
    s6 = (sigma**2 / r2) ** 3 * (1 - np.eye(len(x)))
    pair = 24 * epsilon * (2 * s6**2 - s6) / r2
    clipped = np.clip(pair[..., None] * d, -FORCE_LIMIT, FORCE_LIMIT)
    flags = FLAG_FORCE_CLIPPED if (np.abs(clipped) == FORCE_LIMIT).any() else 0
    return clipped.sum(axis=1), 2 * epsilon * (s6**2 - s6).sum(), flags


def minimizer(system, state, force, n_threads=1, **options):
    def force_fn():
        forces, energy, flags = force(cartesian(state))
        return fixed(forces), energy, flags

    made = Minimizer(threads(n_threads), system, force_fn, **options)
    made.bind(view_of(state))
    return made


def test_badly_scaled_harmonic_wells():
    k = np.array([100.0, 1e4, 4e5])  # soft, and as stiff as a bond
    centre = np.array([1.0, 1.1, 1.2])
    system = make_system([1.0, 12.0, 0.0])
    state = make_state(np.full((3, 3), 1.35), np.ones((3, 3)))
    force = lambda x: (-k * (x - centre), (0.5 * k * (x - centre) ** 2).sum(), 0)  # noqa: E731
    result = minimizer(system, state, force, tolerance=1e-3, max_steps=2000).run(state)
    assert result.converged
    assert result.rms_force < 1e-3
    x = cartesian(state)
    assert np.abs(x[:2] - centre).max() < 1e-4
    assert x[2] == pytest.approx([1.35] * 3)  # frozen
    assert result.energy == pytest.approx((0.5 * k * (x - centre) ** 2).sum())
    assert (state.velocities == 1.0).all()


def test_overlapping_atoms():
    """A cluster whose first atoms all lie within 1e-3 nm of each other."""
    rng = np.random.default_rng(3)
    n = 13
    system = make_system(np.full(n, 40.0))
    x = 1.5 + rng.normal(size=(n, 3)) * 1e-3
    x[6:] += rng.normal(size=(n - 6, 3)) * 0.3
    state = make_state(x)
    history = []
    run = minimizer(system, state, lambda x: lennard_jones(x, 0.34, 1.0), tolerance=0.01, max_steps=3000)
    result = run.run(state, progress=lambda *line: history.append(line))
    assert result.converged
    assert history[0][1] > 1e20
    assert history[-1] == (result.steps, result.energy, result.rms_force)
    assert -44.33 < result.energy < -20.0  # bound; the global minimum of 13 atoms is -44.327 epsilon
    forces, _, flags = lennard_jones(cartesian(state), 0.34, 1.0)
    assert np.sqrt((forces**2).mean()) < 0.011
    assert flags == 0


def rigid_waters(n_threads=1, **options):
    """Eight rigid waters with a site on the bisector; oxygens attract, sites repel, two molecules on top of each other."""
    rng = np.random.default_rng(7)
    corners = 1.0 + 0.28 * np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T
    corners[1] = corners[0] + [0.0, 0.002, 0.0]
    x = np.concatenate([np.concatenate([water() @ rotation(rng), np.zeros((1, 3))]) + c for c in corners])
    masses = [15.99943, 1.007947, 1.007947, 0.0] * 8
    table = constraint_table(
        settle=[(4 * w, 4 * w + 1, 4 * w + 2) for w in range(8)],
        settle_distances=[(0.09572, 0.15139006545247014)] * 8,
    )
    rows = [(4 * w + 3, 0, [4 * w, 4 * w + 1, 4 * w + 2], {"weights": [0.6, 0.2, 0.2]}) for w in range(8)]
    system, state = make_system(masses, table, site_table(rows)), make_state(x)
    sites = VirtualSites(threads(n_threads), system.virtual_sites)
    sites.bind(view_of(state))

    def force_fn():
        sites.place(state)
        x = cartesian(state)
        forces = np.zeros_like(x)
        forces[::4], energy, flags = lennard_jones(x[::4], 0.315, 0.65)
        pulls = -50.0 * (x[3::4] - 1.1)
        forces[3::4] += pulls
        fixed_forces = fixed(forces)
        sites.spread(state, fixed_forces)
        return fixed_forces, energy + 25.0 * ((x[3::4] - 1.1) ** 2).sum(), flags

    run = Minimizer(threads(n_threads), system, force_fn, **options)
    run.bind(view_of(state))
    return run, state


def test_rigid_molecules_stay_rigid():
    run, state = rigid_waters(tolerance=0.05, max_steps=3000)
    energies = []
    result = run.run(state, progress=lambda step, energy, rms: energies.append(energy))
    assert result.converged
    assert result.energy < 5 < 1e6 < energies[0]
    _, errors = run.motion.constraints.relative_errors(state.positions, state.box, np.zeros_like(state.velocities))
    assert errors.max() < 2e-8  # a box of 3 nm has a lattice of 7e-10 nm


def test_same_bits_for_any_number_of_threads():
    results = set()
    for n in (1, 2, 3, 4):
        run, state = rigid_waters(n, tolerance=0.05, max_steps=40)
        result = run.run(state)
        results.add((state.positions.tobytes(), result))
    assert len(results) == 1


def test_the_order_of_atoms_changes_nothing():
    """Sums over atoms are exact, so atoms stored in another order end at the same bits."""
    rng = np.random.default_rng(5)
    n = 10
    x, k = rng.uniform(1, 2, (n, 3)), rng.uniform(10, 1e5, (n, 1))
    results = []
    for order in (np.arange(n), rng.permutation(n)):
        state = make_state(x[order])
        force = lambda x, order=order: (-k[order] * (x - 1.5), 0.0, 0)  # noqa: E731
        minimizer(make_system(np.ones(n)), state, force, tolerance=1e-2, max_steps=60).run(state)
        results.append(state.positions[np.argsort(order)].tobytes())
    assert results[0] == results[1]


def test_what_it_refuses():
    system, state = make_system([1.0]), make_state([[1.0, 1.0, 1.0]])
    with pytest.raises(InputError, match="tolerance must be a finite number greater than 0"):
        minimizer(system, state, None, tolerance=0.0)
    with pytest.raises(InputError, match="max_steps"):
        minimizer(system, state, None, max_steps=0)
    broken = minimizer(system, state, lambda x: (np.zeros_like(x), 0.0, FLAG_NOT_FINITE))
    with pytest.raises(SimulationError, match="not a number"):
        broken.run(state)
