"""Each bonded and restraint term against OpenMM's Reference platform, finite differences, and itself on several threads."""

import math

import numpy as np
import openmm
import pytest

from mdsim.backends import get_backend
from mdsim.box import Box
from mdsim.errors import SimulationError
from mdsim.forcefield.cmap_coefficients import cmap_coefficients
from mdsim.forces.base import ForceBuffers, LocalView
from mdsim.forces.bonded import bonded_term
from mdsim.forces.restraints import restraint_term
from mdsim.kernels.fixed_point import ENERGY_SCALE, FORCE_SCALE
from mdsim.tables import (
    AngleTable,
    BondTable,
    CMAPTable,
    DistanceRestraintTable,
    HarmonicImproperTable,
    PeriodicTorsionTable,
    PositionRestraintTable,
    RBTorsionTable,
)

N_ATOMS = 60
N_ENTRIES = 150
MAP_SIZE = 24
#: triclinic; the atoms fill it, so that many entries cross its faces
BOX = Box(np.array([[2.1, 0, 0], [0.5, 2.0, 0], [-0.6, 0.4, 1.9]]))


def bonds(rng):
    atoms, r0, k = entries(rng, 2), rng.uniform(0.1, 1.0, N_ENTRIES), rng.uniform(1e3, 1e5, N_ENTRIES)
    force = openmm.HarmonicBondForce()
    for a, x, y in zip(atoms.tolist(), r0, k, strict=True):
        force.addBond(*a, x, y)
    return BondTable("f", atoms, r0, k), force


def angles(rng):
    atoms, theta0, k = entries(rng, 3), rng.uniform(1.0, math.pi, N_ENTRIES), rng.uniform(100, 800, N_ENTRIES)
    force = openmm.HarmonicAngleForce()
    for a, x, y in zip(atoms.tolist(), theta0, k, strict=True):
        force.addAngle(*a, x, y)
    return AngleTable("f", atoms, theta0, k), force


def periodic_torsions(rng):
    atoms, n = entries(rng, 4), rng.integers(1, 7, N_ENTRIES).astype(np.int32)
    phase, k = rng.choice([0.0, math.pi, 0.7, -2.0], N_ENTRIES), rng.uniform(-20, 20, N_ENTRIES)
    force = openmm.PeriodicTorsionForce()
    for a, x, y, z in zip(atoms.tolist(), n.tolist(), phase, k, strict=True):
        force.addTorsion(*a, x, y, z)
    return PeriodicTorsionTable("f", atoms, n, phase, k), force


def rb_torsions(rng):
    atoms, c = entries(rng, 4), rng.uniform(-10, 10, (N_ENTRIES, 6))
    force = openmm.RBTorsionForce()
    for a, x in zip(atoms.tolist(), c.tolist(), strict=True):
        force.addTorsion(*a, *x)
    return RBTorsionTable("f", atoms, c), force


def impropers(rng, wrapped):
    atoms, phi0, k = entries(rng, 4), rng.uniform(-math.pi, math.pi, N_ENTRIES), rng.uniform(5, 200, N_ENTRIES)
    expression = (
        "k*d^2; d=min(x, 2*pi-x); x=abs(theta-theta0); pi=3.141592653589793" if wrapped else "k*(theta-theta0)^2"
    )
    force = openmm.CustomTorsionForce(expression)
    force.addPerTorsionParameter("theta0")
    force.addPerTorsionParameter("k")
    for a, x, y in zip(atoms.tolist(), phi0, k, strict=True):
        force.addTorsion(*a, [x, y])
    return HarmonicImproperTable("f", atoms, phi0, k, wrapped), force


def cmap(rng):
    atoms, index = entries(rng, 8), rng.integers(0, 2, N_ENTRIES).astype(np.int32)
    grids = rng.uniform(-20, 20, (2, MAP_SIZE**2))
    force = openmm.CMAPTorsionForce()
    for grid in grids:
        force.addMap(MAP_SIZE, grid.tolist())
    for i, a in zip(index.tolist(), atoms.tolist(), strict=True):
        force.addTorsion(i, *a)
    return CMAPTable("f", atoms, index, np.array([cmap_coefficients(MAP_SIZE, g) for g in grids])), force


def position_restraints(rng):
    atoms = rng.permutation(N_ATOMS)[: N_ATOMS // 2].astype(np.int32)
    # within half a width of the atom as OpenMM's image search needs it, but in other images
    near = POSITIONS_NM[atoms] + rng.uniform(-0.4, 0.4, (len(atoms), 3))
    reference, k = near + rng.integers(-2, 3, (len(atoms), 3)) @ BOX.vectors, rng.uniform(100, 5000, len(atoms))
    force = openmm.CustomExternalForce("k/2*periodicdistance(x, y, z, x0, y0, z0)^2")
    for name in ("k", "x0", "y0", "z0"):
        force.addPerParticleParameter(name)
    for i, x, y in zip(atoms.tolist(), reference, k, strict=True):
        force.addParticle(i, [y, *x])
    return PositionRestraintTable("f", atoms, reference, k), force


def distance_restraints(rng):
    atoms, lower = entries(rng, 2), rng.uniform(0.3, 0.8, N_ENTRIES)
    upper, k = lower + rng.uniform(0, 0.3, N_ENTRIES), rng.uniform(100, 5000, N_ENTRIES)
    force = openmm.CustomBondForce("k/2*max(0, max(r-upper, lower-r))^2")
    for name in ("lower", "upper", "k"):
        force.addPerBondParameter(name)
    for a, x, y, z in zip(atoms.tolist(), lower, upper, k, strict=True):
        force.addBond(*a, [x, y, z])
    return DistanceRestraintTable("f", atoms, lower, upper, k), force


def entries(rng, width):
    """Chains of neighbours: each atom one of the ten nearest to the one before, so that all agree on the nearest image."""
    return np.array([chain(rng, width) for _ in range(N_ENTRIES)], dtype=np.int32)


def chain(rng, width):
    atoms = [int(rng.integers(N_ATOMS))]
    while len(atoms) < width:
        distance = np.linalg.norm((POSITIONS - POSITIONS[atoms[-1]]) @ BOX.lattice, axis=1)
        atoms.append(int(rng.choice([i for i in np.argsort(distance)[:10] if i not in atoms])))
    return atoms


CASES = {
    "bonds": bonds,
    "angles": angles,
    "periodic_torsions": periodic_torsions,
    "rb_torsions": rb_torsions,
    "impropers_wrapped": lambda rng: impropers(rng, True),
    "impropers_unwrapped": lambda rng: impropers(rng, False),
    "cmap": cmap,
    "position_restraints": position_restraints,
    "distance_restraints": distance_restraints,
}
POSITIONS = np.random.default_rng(5).integers(-(2**31), 2**31, (N_ATOMS, 3)).astype(np.int32)
POSITIONS_NM = BOX.cartesian(POSITIONS)


def compute(table, positions=POSITIONS, box=BOX, n_threads=1):
    """Fixed-point forces int64[n, 3], energy int64 and flag of one table's term."""
    backend = get_backend("cpu", n_threads)
    restraint = isinstance(table, PositionRestraintTable | DistanceRestraintTable)
    term = (restraint_term if restraint else bonded_term)(table, backend)
    n = len(positions)
    everything = np.arange(n, dtype=np.int32)
    term.bind(LocalView(everything, everything, n))
    buffers = ForceBuffers(
        np.zeros((n_threads, n, 3), np.int64), np.zeros((1, n_threads), np.int64), np.zeros((1, n_threads), np.int32)
    )
    term.compute(positions, box, buffers, True)
    return buffers.forces.sum(axis=0), buffers.energies.sum(), np.bitwise_or.reduce(buffers.flags, axis=None)


def openmm_reference(force, positions_nm, box):
    """Forces float64[n, 3] and energy by OpenMM's Reference platform."""
    system = openmm.System()
    for _ in positions_nm:
        system.addParticle(1.0)
    system.setDefaultPeriodicBoxVectors(*box.vectors.tolist())
    if hasattr(force, "setUsesPeriodicBoundaryConditions"):
        force.setUsesPeriodicBoundaryConditions(True)
    system.addForce(force)
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions_nm)
    state = context.getState(getEnergy=True, getForces=True)
    return state.getForces(asNumpy=True)._value, state.getPotentialEnergy()._value


@pytest.fixture(params=CASES, scope="module")
def case(request):
    return CASES[request.param](np.random.default_rng(11))


def test_agrees_with_openmm(case):
    table, force = case
    forces, energy, flag = compute(table)
    expected_forces, expected_energy = openmm_reference(force, POSITIONS_NM, BOX)
    assert flag == 0
    # each entry's energy is rounded to 1 / ENERGY_SCALE
    assert energy / ENERGY_SCALE == pytest.approx(expected_energy, rel=1e-10, abs=math.sqrt(N_ENTRIES) / ENERGY_SCALE)
    error = np.sqrt(((forces / FORCE_SCALE - expected_forces) ** 2).sum() / (expected_forces**2).sum())
    assert error < 1e-9


def test_forces_sum_to_exactly_zero(case):
    table, _ = case
    total = compute(table)[0].sum(axis=0)
    assert (total != 0).any() if isinstance(table, PositionRestraintTable) else (total == 0).all()


@pytest.mark.parametrize("n_threads", [2, 3, 4])
def test_same_bits_on_any_number_of_threads(case, n_threads):
    table, _ = case
    forces, energy, _ = compute(table)
    again, energy_again, _ = compute(table, n_threads=n_threads)
    assert np.array_equal(forces, again)
    assert energy == energy_again


def test_force_is_minus_the_gradient(case):
    table, _ = case
    forces = compute(table)[0] / FORCE_SCALE
    step = 2**16  # some 3e-5 nm
    stiffest = np.abs(forces).max()
    for i, axis in [(0, 0), (7, 1), (20, 2), (int(np.ravel(table.atoms)[0]), 2)]:
        ends = []
        for sign in (1, -1):
            moved = POSITIONS.copy()
            moved[i, axis] += sign * step
            ends.append(compute(table, moved)[1] / ENERGY_SCALE)
        # moving a fraction by one unit moves the atom along a box vector
        slope = (ends[0] - ends[1]) / (2 * step)
        expected = -forces[i] @ BOX.lattice[axis]
        assert slope == pytest.approx(expected, rel=1e-4, abs=2e-5 * stiffest * BOX.lattice[axis, axis])


def test_local_indices_and_ownership():
    """A rank that holds the atoms in another order, two of them ghosts, computes the entries whose first atom it owns."""
    atoms = np.array([[5, 2], [2, 9], [9, 5]], dtype=np.int32)
    table = BondTable("f", atoms, np.full(3, 0.1), np.full(3, 1000.0))
    ids = np.array([9, 2, 5], dtype=np.int32)
    to_local = np.full(N_ATOMS, -1, dtype=np.int32)
    to_local[ids] = np.arange(3)
    term = bonded_term(table, get_backend("cpu", 1))
    term.bind(LocalView(ids, to_local, n_local=1))
    buffers = ForceBuffers(np.zeros((1, 3, 3), np.int64), np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int32))
    term.compute(POSITIONS[ids], BOX, buffers, True)
    only = BondTable("f", atoms[2:], table.length[2:], table.k[2:])
    forces, energy, _ = compute(only)
    assert np.array_equal(buffers.forces[0], forces[ids])
    assert buffers.energies.sum() == energy


def test_entry_with_an_atom_out_of_reach_is_refused():
    table = BondTable("HarmonicBondForce", np.array([[5, 2]], dtype=np.int32), np.full(1, 0.1), np.full(1, 1000.0))
    to_local = np.full(N_ATOMS, -1, dtype=np.int32)
    to_local[5] = 0
    with pytest.raises(SimulationError, match=r"HarmonicBondForce: atoms \[5, 2\] of one bonds entry"):
        bonded_term(table, get_backend("cpu", 1)).bind(LocalView(np.array([5], np.int32), to_local, 1))


STRAIGHT = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0], [3, 0, 0]]) * 0.1
PERIODIC = PeriodicTorsionTable(
    "f", np.array([[0, 1, 2, 3]], np.int32), np.array([2], np.int32), np.zeros(1), np.ones(1)
)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (BondTable("f", np.array([[3, 4]], np.int32), np.array([0.1]), np.array([200.0])), 1.0),
        (
            DistanceRestraintTable(
                "f", np.array([[3, 4]], np.int32), np.array([0.1]), np.array([0.2]), np.array([200.0])
            ),
            1.0,
        ),
        (AngleTable("f", np.array([[0, 1, 2]], np.int32), np.array([math.pi - 0.1]), np.array([200.0])), 1.0),
        (AngleTable("f", np.array([[0, 3, 4]], np.int32), np.array([0.1]), np.array([200.0])), 1.0),
        (PERIODIC, 2.0),
        (RBTorsionTable("f", np.array([[0, 1, 2, 4]], np.int32), np.eye(6)[:1] * 3), 3.0),
        (HarmonicImproperTable("f", np.array([[0, 1, 3, 4]], np.int32), np.array([1.0]), np.array([2.0])), 2.0),
    ],
)
def test_degenerate_geometry_gives_a_defined_energy_and_no_force(table, expected):
    """Atoms at one point and atoms on a line: finite, no direction, no force."""
    box = Box(np.diag([4.0, 4.0, 4.0]))
    positions, _ = box.fractions(STRAIGHT)
    forces, energy, flag = compute(table, positions, box)
    assert energy / ENERGY_SCALE == pytest.approx(expected, rel=1e-6)
    assert not forces.any()
    assert flag == 0


def planar(phi):
    """Four atoms with the dihedral angle ``phi``."""
    return np.array([[0.1, 0, 0], [0, 0, 0], [0, 0, 0.15], [0.1 * math.cos(phi), 0.1 * math.sin(phi), 0.15]])


@pytest.mark.parametrize("phi", [0.0, math.pi, -math.pi + 1e-9, 1e-9])
def test_torsion_force_at_planar_geometry(phi):
    """At 0 and 180 degrees, where arc cosines fail, du/dphi = k sin(phase) at periodicity 1."""
    box = Box(np.diag([4.0, 4.0, 4.0]))
    phase, k = 0.4, 10.0
    atoms = np.array([[0, 1, 2, 3]], np.int32)
    positions, _ = box.fractions(planar(phi))
    table = PeriodicTorsionTable("f", atoms, np.array([1], np.int32), np.array([phase]), np.array([k]))
    forces, energy, _ = compute(table, positions, box)
    assert energy / ENERGY_SCALE == pytest.approx(k * (1 + math.cos(phi - phase)), rel=1e-7)
    # atom 3 turns about z at 0.1 nm: its force is -du/dphi / 0.1
    tangent = np.array([-math.sin(phi), math.cos(phi), 0.0])
    assert forces[3] / FORCE_SCALE @ tangent == pytest.approx(k * math.sin(phi - phase) / 0.1, rel=1e-6)


def test_improper_wraps():
    """phi0 = 179 degrees and phi = -179 degrees are 2 degrees apart; unwrapped, 358."""
    box = Box(np.diag([4.0, 4.0, 4.0]))
    positions, _ = box.fractions(planar(math.radians(-179)))
    atoms, angle, k = np.array([[0, 1, 2, 3]], np.int32), np.array([math.radians(179)]), np.array([10.0])
    for wrapped, degrees in ((True, 2), (False, 358)):
        energy = compute(HarmonicImproperTable("f", atoms, angle, k, wrapped), positions, box)[1]
        assert energy / ENERGY_SCALE == pytest.approx(10 * math.radians(degrees) ** 2, rel=1e-5)


def test_overstretched_bond_is_clipped_and_flagged():
    table = BondTable("f", np.array([[0, 1]], np.int32), np.array([0.1]), np.array([1e12]))
    forces, _, flag = compute(table)
    assert flag == 1
    assert (forces.sum(axis=0) == 0).all()
