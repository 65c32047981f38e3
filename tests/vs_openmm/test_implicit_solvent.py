"""Generalised Born against OpenMM's Reference platform, finite differences, and itself in other orders and thread counts."""

import numpy as np
import openmm
import pytest
from openmm.app.internal import customgbforces

from mdsim.backends import get_backend
from mdsim.box import Box
from mdsim.errors import UnsupportedError
from mdsim.forcefield.implicit import custom_gb_table, gbsa_obc_table
from mdsim.forces.base import ForceBuffers, LocalView
from mdsim.forces.implicit import implicit_term
from mdsim.kernels.fixed_point import ENERGY_SCALE, FLAG_FORCE_CLIPPED, FORCE_SCALE

N = 83  # not a multiple of any vector width
CUTOFF = 0.9


def cloud():
    """A ball of atoms at least 0.1 nm apart, with charges, radii and scale factors as in a protein."""
    rng = np.random.default_rng(8)
    positions = [np.zeros(3)]
    while len(positions) < N:
        x = rng.uniform(-0.7, 0.7, 3)
        if np.linalg.norm(x) < 0.7 and min(np.linalg.norm(x - y) for y in positions) > 0.1:
            positions.append(x)
    return (
        np.array(positions),
        rng.uniform(-0.8, 0.8, N),
        rng.choice([0.12, 0.13, 0.15, 0.17, 0.18], N),
        rng.uniform(0.6, 1.4, N),
    )


POSITIONS_NM, CHARGE, RADIUS, SCALE = cloud()
BOX = Box.for_isolated(POSITIONS_NM)
POSITIONS, _ = BOX.fractions(POSITIONS_NM)


def obc_force(cutoff):
    force = openmm.GBSAOBCForce()
    for parameters in zip(CHARGE, RADIUS, SCALE, strict=True):
        force.addParticle(*parameters)
    if cutoff is not None:
        force.setNonbondedMethod(force.CutoffNonPeriodic)
        force.setCutoffDistance(cutoff)
    return force


def gbn2_force(cutoff, kappa, surface):
    force = customgbforces.GBSAGBn2Force(SA=surface, cutoff=cutoff, kappa=kappa)
    rng = np.random.default_rng(2)
    scale = SCALE.copy()
    scale[5] = -0.703469
    for q, r, s in zip(CHARGE, RADIUS, scale, strict=True):
        force.addParticle([q, r, s, *rng.uniform(0.3, 0.9, 3)])
    force.finalize()
    force.setNonbondedMethod(force.NoCutoff if cutoff is None else force.CutoffNonPeriodic)
    if cutoff is not None:
        force.setCutoffDistance(cutoff)
    return force


FORCES = {
    "obc2": lambda: obc_force(None),
    "obc2_cutoff": lambda: obc_force(CUTOFF),
    "gbn2": lambda: gbn2_force(None, 0.0, None),
    "gbn2_salt_surface": lambda: gbn2_force(None, 1.3, "ACE"),
    "gbn2_salt_cutoff": lambda: gbn2_force(CUTOFF, 1.3, "ACE"),
}


@pytest.fixture(params=FORCES, scope="module")
def force(request):
    return FORCES[request.param]()


def table_of(force):
    return (gbsa_obc_table if isinstance(force, openmm.GBSAOBCForce) else custom_gb_table)(force, "gb")


def compute(table, positions=POSITIONS, ids=None, n_threads=1):
    """Fixed-point forces int64[n, 3], energy int64 and flag; atoms held in the order ``ids``."""
    n = len(table.charge)
    ids = np.arange(n, dtype=np.int32) if ids is None else ids
    to_local = np.empty(n, np.int32)
    to_local[ids] = np.arange(n)
    term = implicit_term(table, get_backend("cpu", n_threads))
    term.bind(LocalView(ids, to_local, n))
    buffers = ForceBuffers(
        np.zeros((n_threads, n, 3), np.int64), np.zeros((1, n_threads), np.int64), np.zeros((1, n_threads), np.int32)
    )
    term.compute(positions, BOX, buffers, True)
    return buffers.forces.sum(axis=0), buffers.energies.sum(), np.bitwise_or.reduce(buffers.flags, axis=None)


def test_agrees_with_openmm(force):
    system = openmm.System()
    for _ in range(N):
        system.addParticle(1.0)
    system.addForce(openmm.XmlSerializer.clone(force))
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(BOX.cartesian(POSITIONS))
    state = context.getState(getEnergy=True, getForces=True)
    expected = state.getForces(asNumpy=True)._value
    forces, energy, flag = compute(table_of(force))
    assert flag == 0
    assert energy / ENERGY_SCALE == pytest.approx(state.getPotentialEnergy()._value, rel=2e-6)
    assert np.linalg.norm(forces / FORCE_SCALE - expected) < 3e-6 * np.linalg.norm(expected)


@pytest.mark.parametrize("name", ["obc2", "gbn2", "gbn2_salt_surface"])  # at a cutoff the energy jumps, in OpenMM too
def test_force_is_minus_the_gradient(name):
    table = table_of(FORCES[name]())
    forces = compute(table)[0] / FORCE_SCALE
    rng = np.random.default_rng(4)
    for _ in range(
        4
    ):  # all atoms at once, mainly along their forces: float32 energies are too rough for one atom alone
        direction = forces * rng.uniform(0.0, 2.0, (N, 1)) + rng.normal(0.0, 100.0, (N, 3))
        moves = np.rint(direction * (3e-4 / np.abs(direction).max() / BOX.lattice[0, 0])).astype(np.int32)
        rise = (compute(table, POSITIONS + moves)[1] - compute(table, POSITIONS - moves)[1]) / ENERGY_SCALE
        assert rise == pytest.approx(-2.0 * (forces * (moves * BOX.lattice[0, 0])).sum(), rel=1e-3)


def test_same_bits_for_threads_and_atom_orders(force):
    """And forces sum to exactly zero."""
    table = table_of(force)
    forces, energy, _ = compute(table)
    assert (forces.sum(axis=0) == 0).all()
    for n_threads in (2, 3, 4):
        again, energy_again, _ = compute(table, n_threads=n_threads)
        assert np.array_equal(forces, again)
        assert energy == energy_again
    order = np.random.default_rng(1).permutation(N).astype(np.int32)
    permuted, energy_permuted, _ = compute(table, POSITIONS[order], order)
    assert np.array_equal(forces[order], permuted)
    assert energy == energy_permuted


def test_lone_ion_is_born():
    """One atom: u = -k q^2 / 2 rho (1 - 1/eps), and no force."""
    force = openmm.GBSAOBCForce()
    force.addParticle(1.0, 0.2, 0.8)
    force.setSurfaceAreaEnergy(0.0)
    forces, energy, _ = compute(table_of(force), POSITIONS[:1])
    assert energy / ENERGY_SCALE == pytest.approx(-138.93545764 / 2 / (0.2 - 0.009) * (1 - 1 / 78.3), rel=1e-9)
    assert not forces.any()


def test_atoms_at_one_point_are_finite():
    table = table_of(FORCES["gbn2_salt_surface"]())
    positions = POSITIONS.copy()
    positions[7] = positions[3]
    forces, energy, flag = compute(table, positions)
    assert flag in (0, FLAG_FORCE_CLIPPED)
    assert abs(energy / ENERGY_SCALE) < 1e6
    assert np.abs(forces / FORCE_SCALE).max() < 1e7
    assert (forces.sum(axis=0) == 0).all()


def test_needs_all_atoms_on_one_rank():
    term = implicit_term(table_of(obc_force(None)), get_backend("cpu", 1))
    ids = np.arange(N, dtype=np.int32)
    with pytest.raises(UnsupportedError, match="on one rank"):
        term.bind(LocalView(ids, ids, N - 10))


def test_buried_atom_has_a_larger_born_radius():
    """Atom 0 sits in the middle of the ball; no Born radius is below the atom's own, less the offset."""
    table = table_of(obc_force(None))
    term = implicit_term(table, get_backend("cpu", 1))
    ids = np.arange(N, dtype=np.int32)
    term.bind(LocalView(ids, ids, N))
    term.compute(
        POSITIONS,
        BOX,
        ForceBuffers(*(np.zeros(s, t) for s, t in (((1, N, 3), "i8"), ((1, 1), "i8"), ((1, 1), "i4")))),
        True,
    )
    outermost = int(np.argmax(np.linalg.norm(POSITIONS_NM, axis=1)))
    assert term.born_radii[0] > 1.5 * term.born_radii[outermost]
    assert (term.born_radii >= np.float32(1 - 1e-6) * (RADIUS - table.offset)).all()
