"""Constraints, virtual sites and one step of LangevinMiddle against OpenMM's Reference platform."""

import numpy as np
import openmm
import pytest
from dynamics_samples import (
    cartesian,
    fixed,
    make_state,
    make_system,
    rigid_mixture,
    rotation,
    site_table,
    threads,
    view_of,
    water,
)
from openmm import unit

from mdsim.box import Box
from mdsim.constraints import VirtualSites
from mdsim.errors import InputError, SimulationError, UnsupportedError
from mdsim.integrators import make_integrator

NM, PS = unit.nanometer, unit.picosecond


def openmm_twin(system, field=None):
    """Masses and constraints as an ``openmm.System``; ``field``: a harmonic well, so that there are forces."""
    twin = openmm.System()
    for mass in system.masses:
        twin.addParticle(mass)
    table = system.constraints
    for (a, b, c), (leg, base) in zip(table.settle.tolist(), table.settle_distances.tolist(), strict=True):
        twin.addConstraint(a, b, leg)
        twin.addConstraint(a, c, leg)
        twin.addConstraint(b, c, base)
    for (i, j), d in zip(table.atoms.tolist(), table.distance.tolist(), strict=True):
        twin.addConstraint(i, j, d)
    if field is not None:
        force = openmm.CustomExternalForce("k*((x-1)^2+2*(y-1)^2+3*(z-1)^2)")
        force.addGlobalParameter("k", field)
        for i in range(system.n_atoms):
            force.addParticle(i)
        twin.addForce(force)
    return twin


def context_of(twin, integrator, x, v=None):
    context = openmm.Context(twin, integrator, openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(x)
    if v is not None:
        context.setVelocities(v)
    return context


def fetch(context):
    state = context.getState(positions=True, velocities=True, forces=True, energy=True)
    return (
        state.getPositions(asNumpy=True).value_in_unit(NM),
        state.getVelocities(asNumpy=True).value_in_unit(NM / PS),
        state.getForces(asNumpy=True).value_in_unit(unit.kilojoule_per_mole / NM),
        state.getKineticEnergy().value_in_unit(unit.kilojoule_per_mole),
    )


def test_steps_without_friction():
    """OpenMM's SETTLE leaves distances off by 5e-9 nm (here: 1e-16), which bounds the agreement on waters."""
    system, state = rigid_mixture(n_water=6, n_methane=2)
    reference = openmm.LangevinMiddleIntegrator(300.0, 0.0, 0.002)
    reference.setConstraintTolerance(1e-12)
    x, v = cartesian(state), state.velocities.copy()
    context = context_of(openmm_twin(system, field=50.0), reference, x, v)
    mine = make_integrator(threads(2), system, "langevin-middle", timestep=0.002, temperature=300.0, friction=0.0, seed=1)
    mine.bind(view_of(state))
    is_water = np.arange(system.n_atoms) < 18
    for step in (1, 2, 3):
        _, _, forces, _ = fetch(context)
        reference.step(1)
        mine.first_half(state, fixed(forces))
        state.step += 1
        mine.second_half(state, fixed(forces))
        x, v, _, kinetic = fetch(context)
        off, v_off = np.abs(cartesian(state) - x), np.abs(state.velocities - v)
        assert off[~is_water].max() < 1e-9 * step
        assert off[is_water].max() < 1e-8 * step
        assert v_off[~is_water].max() < 1e-6 * step
        assert v_off[is_water].max() < 5e-6 * step
        assert mine.kinetic_energy(state) == pytest.approx(kinetic, rel=1e-6)


def test_free_atoms_follow_openmm_to_the_lattice():
    """Three steps at friction 0 without constraints: nothing but the rounding of positions (5e-10 nm) and forces differs."""
    system = make_system([1.0, 12.0, 16.0, 35.0])
    rng = np.random.default_rng(3)
    state = make_state(rng.uniform(0, 2, (4, 3)), rng.normal(size=(4, 3)))
    reference = openmm.LangevinMiddleIntegrator(300.0, 0.0, 0.002)
    context = context_of(openmm_twin(system, field=5000.0), reference, cartesian(state), state.velocities)
    mine = make_integrator(threads(2), system, "langevin-middle", timestep=0.002, temperature=300.0, friction=0.0, seed=1)
    mine.bind(view_of(state))
    for _ in range(3):
        _, _, forces, _ = fetch(context)
        reference.step(1)
        mine.first_half(state, fixed(forces))
        state.step += 1
        x, v, _, _ = fetch(context)
        assert np.abs(cartesian(state) - x).max() < 1e-9
        assert np.abs(state.velocities - v).max() < 1e-11


def test_constrained_positions_and_velocities():
    """A start that is off its constraints by some 5 %."""
    system, state = rigid_mixture(n_water=6, n_methane=2)
    x = cartesian(state) + np.random.default_rng(2).normal(size=(system.n_atoms, 3)) * 0.004
    state = make_state(x, state.velocities, state.box)
    reference = openmm.VerletIntegrator(0.001)
    context = context_of(openmm_twin(system), reference, x, state.velocities)
    context.applyConstraints(1e-12)
    context.applyVelocityConstraints(1e-12)
    mine = make_integrator(threads(1), system, "velocity-verlet", timestep=0.001)
    mine.bind(view_of(state))
    mine.constrain(state)
    expected_x, expected_v, _, _ = fetch(context)
    assert np.abs(expected_x - x).max() > 1e-3
    assert np.abs(cartesian(state) - expected_x).max() < 1e-8
    assert np.abs(state.velocities - expected_v).max() < 1e-6


# TIP4P-like average of three and of two, TIP5P-like out of plane, and local coordinates with odd weights
SITES = [
    (0, {"weights": [0.786646558, 0.106676721, 0.106676721]}, openmm.ThreeParticleAverageSite),
    (0, {"weights": [0.3, 0.7, 0.0]}, openmm.TwoParticleAverageSite),
    (1, {"weights": [-0.344908, -0.344908, -6.4437903]}, openmm.OutOfPlaneSite),
    (
        2,
        {
            "origin_weights": [0.5, 0.2, 0.3],
            "x_weights": [-1.0, 0.4, 0.6],
            "y_weights": [0.2, -1.1, 0.9],
            "local": [-0.03, 0.02, 0.05],
        },
        openmm.LocalCoordinatesSite,
    ),
]


def waters_with_sites():
    """Eight waters that stick out of a triclinic box, each with all four kinds of site; (rows, openmm.System, positions, box)."""
    rng = np.random.default_rng(8)
    rows, positions, twin = [], [], openmm.System()
    for w in range(8):
        first = 7 * w
        parents = [first, first + 1, first + 2]
        positions.append(np.concatenate([water() @ rotation(rng) + rng.uniform(0, 2.5, 3), np.zeros((4, 3))]))
        for mass in (16.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0):
            twin.addParticle(mass)
        for k, (kind, values, cls) in enumerate(SITES):
            if cls is openmm.TwoParticleAverageSite:
                mine, theirs = [parents[0], parents[1], parents[0]], cls(*parents[:2], *values["weights"][:2])
            elif kind == 2:
                mine = parents
                theirs = cls(parents, *(values[name] for name in ("origin_weights", "x_weights", "y_weights", "local")))
            else:
                mine, theirs = parents, cls(*parents, *values["weights"])
            rows.append((first + 3 + k, kind, mine, values))
            twin.setVirtualSite(first + 3 + k, theirs)
    box = Box(np.array([[2.0, 0, 0], [0.6, 2.2, 0], [-0.5, 0.7, 2.4]]))
    return rows, twin, np.concatenate(positions), box


def bound_sites(rows, state, n_threads=2):
    sites = VirtualSites(threads(n_threads), site_table(rows))
    sites.bind(view_of(state))
    return sites


def test_virtual_sites():
    rows, twin, x, box = waters_with_sites()
    state = make_state(x, box=box)
    push = np.random.default_rng(4).normal(size=x.shape) * 1000.0
    force = openmm.CustomExternalForce("-(fx*x+fy*y+fz*z)")
    for name in ("fx", "fy", "fz"):
        force.addPerParticleParameter(name)
    for i, f in enumerate(push):
        force.addParticle(i, f)
    twin.addForce(force)
    context = context_of(twin, openmm.VerletIntegrator(0.001), x)
    context.computeVirtualSites()
    expected_x, _, expected_f, _ = fetch(context)

    sites = bound_sites(rows, state)
    sites.place(state)
    assert np.abs(cartesian(state) - expected_x).max() < 3e-9  # the lattice is 5e-10 nm
    is_site = np.isin(np.arange(len(x)), [row[0] for row in rows])
    assert np.abs(cartesian(state)[is_site] - x[is_site]).max() > 0.1
    forces = fixed(push)
    before = forces.sum(axis=0)
    sites.spread(state, forces)
    assert (forces.sum(axis=0) == before).all()
    assert (forces[is_site] == 0).all()
    assert np.abs(forces[~is_site] / 2.0**32 - expected_f[~is_site]).max() < 1e-4  # of 1000; limited by the lattice


def test_virtual_sites_bits_do_not_depend_on_threads():
    results = []
    for n in (1, 2, 3, 4):
        rows, _, x, box = waters_with_sites()
        state = make_state(x, box=box)
        sites = bound_sites(rows, state, n)
        sites.place(state)
        forces = fixed(np.random.default_rng(4).normal(size=x.shape) * 1000.0)
        sites.spread(state, forces)
        results.append((state.positions.tobytes(), state.images.tobytes(), forces.tobytes()))
    assert len(set(results)) == 1


def test_virtual_sites_that_are_refused():
    with pytest.raises(UnsupportedError, match="virtual site 4 has another virtual site"):
        VirtualSites(
            threads(1),
            site_table([(3, 0, [0, 1, 2], {"weights": [0.5, 0.2, 0.3]}), (4, 0, [0, 3, 0], {"weights": [0.5, 0.5, 0.0]})]),
        )
    with pytest.raises(InputError, match="weights of virtual site 3 do not add up"):
        VirtualSites(threads(1), site_table([(3, 0, [0, 1, 2], {"weights": [0.5, 0.2, 0.2]})]))
    rows = [(3, 2, [0, 1, 2], SITES[3][1])]
    line = make_state([[0, 0, 0], [0.1, 0, 0], [0.2, 0, 0], [0, 0, 0]])
    with pytest.raises(SimulationError, match="one line"):
        bound_sites(rows, line).place(line)


def test_sites_and_frozen_atoms_do_not_move_by_themselves():
    system = make_system([0.0, 1.0])
    state = make_state([[0.1, 0.1, 0.1], [0.5, 0.5, 0.5]], np.ones((2, 3)))
    mine = make_integrator(threads(1), system, "langevin-middle", timestep=0.002, temperature=300.0, friction=1.0, seed=1)
    mine.bind(view_of(state))
    before = state.positions.copy()
    mine.first_half(state, fixed(np.full((2, 3), 100.0)))
    assert (state.positions[0] == before[0]).all()
    assert (state.positions[1] != before[1]).all()
