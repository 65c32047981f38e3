"""Reciprocal space, exclusions and exceptions against OpenMM's Reference platform at equal alpha and grid."""

import numpy as np
import openmm
import pytest

from mdsim.backends import get_backend
from mdsim.box import Box
from mdsim.forcefield.ewald_parameters import default_ewald_parameters
from mdsim.forces.base import ForceBuffers, LocalView
from mdsim.forces.exceptions import make_exception_term, make_exclusion_terms
from mdsim.forces.pme import make_mesh_terms
from mdsim.kernels.fixed_point import ENERGY_SCALE, FORCE_SCALE
from mdsim.tables import NonbondedTable, PairExceptionTable

BOXES = {
    "orthorhombic": Box(np.diag([3.0, 3.2, 3.4])),
    "triclinic": Box(np.array([[3.1, 0.0, 0.0], [0.9, 3.0, 0.0], [-1.0, 1.1, 3.2]])),
}
DIRECT, RECIPROCAL = 1, 2


def make_force(table, positions, exceptions=None):
    """The same interactions as an openmm.NonbondedForce, split into force groups."""
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(getattr(openmm.NonbondedForce, table.method))
    force.setCutoffDistance(table.cutoff)
    force.setUseDispersionCorrection(False)
    force.setForceGroup(DIRECT)
    force.setReciprocalSpaceForceGroup(RECIPROCAL)
    if table.ewald_alpha:
        force.setPMEParameters(table.ewald_alpha, *table.grid)
        force.setLJPMEParameters(table.ljpme_alpha, *table.ljpme_grid)
    for parameters in zip(table.charge, table.sigma, table.epsilon, strict=True):
        force.addParticle(*parameters)
    for i, j in table.exclusions:
        force.addException(int(i), int(j), 0.0, 1.0, 0.0)
    if exceptions is not None:
        columns = (exceptions.charge_product, exceptions.sigma, exceptions.epsilon)
        for (i, j), *parameters in zip(exceptions.atoms, *columns, strict=True):
            force.addException(int(i), int(j), *parameters, replace=True)
    return force


def make_context(force, box):
    system = openmm.System()
    for _ in range(force.getNumParticles()):
        system.addParticle(1.0)
    system.setDefaultPeriodicBoxVectors(*box.vectors)
    system.addForce(force)
    return openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatform("Reference"))


def openmm_result(force, box, positions, group):
    context = make_context(force, box)
    context.setPositions(positions)
    state = context.getState(getEnergy=True, getForces=True, groups={group})
    unit = openmm.unit
    forces = state.getForces(asNumpy=True).value_in_unit(unit.kilojoule_per_mole / unit.nanometer)
    return state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole), np.array(forces)


def our_result(terms, box, positions):
    """(sum of all energies, kJ/mol; forces, kJ/mol/nm)."""
    n = len(positions)
    total, forces, ids = 0.0, np.zeros((n, 3)), np.arange(n, dtype=np.int32)
    for term in terms:
        m = len(term.energy_names)
        out = ForceBuffers(np.zeros((1, n, 3), np.int64), np.zeros((m, 1), np.int64), np.zeros((m, 1), np.int32))
        term.bind(LocalView(ids, ids, n))
        term.compute(positions, box, out, True)
        assert not out.flags.any()
        total += out.energies.sum() / ENERGY_SCALE
        forces += out.forces[0] / FORCE_SCALE
    return total, forces


def make_table(n, method, net_charge=0.0, exclusions=()):
    rng = np.random.default_rng(11)
    charge = rng.uniform(-1, 1, n)
    charge += net_charge / n - charge.mean()
    return NonbondedTable(
        label="NonbondedForce", lj_label="NonbondedForce", method=method, cutoff=1.0, charge=charge,
        sigma=rng.uniform(0.2, 0.35, n), epsilon=rng.uniform(0.1, 1.0, n),
        exclusions=np.array(exclusions, dtype=np.int32).reshape(-1, 2),
        ewald_alpha=2.7, grid=(28, 30, 33), ljpme_alpha=2.4, ljpme_grid=(22, 20, 25),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "method", "net_charge"),
    [
        ("orthorhombic", "PME", 0.0),
        ("triclinic", "PME", 0.0),
        ("triclinic", "PME", 6.0),
        ("orthorhombic", "LJPME", 0.0),
        ("triclinic", "LJPME", -3.0),
    ],
)
def test_reciprocal_space(shape, method, net_charge):
    box, table = BOXES[shape], make_table(300, method, net_charge)
    s = np.random.default_rng(2).integers(-(2**31), 2**31, (300, 3)).astype(np.int32)
    x = box.cartesian(s)
    energy, forces = our_result(make_mesh_terms(table, get_backend("cpu", 1)), box, s)
    u, f = openmm_result(make_force(table, x), box, x, RECIPROCAL)
    f -= f.mean(axis=0)  # the net force of the mesh, which OpenMM leaves in
    assert energy == pytest.approx(u, rel=1e-6)
    assert np.sqrt(((forces - f) ** 2).sum() / (f**2).sum()) < 2e-6


@pytest.mark.parametrize("method", ["PME", "LJPME", "CutoffPeriodic"])
def test_exclusions_and_exceptions(method):
    """A molecule all of whose pairs are excluded, some of them replaced: all that OpenMM's direct space has then."""
    rng = np.random.default_rng(4)
    n = 24
    box, pairs = BOXES["triclinic"], np.array([(i, j) for i in range(n) for j in range(i + 1, n)], dtype=np.int32)
    table = make_table(n, method, 1.0, exclusions=pairs)
    chosen = pairs[rng.choice(len(pairs), 40, replace=False)]
    table_14 = PairExceptionTable(
        "NonbondedForce", chosen, rng.uniform(-1, 1, 40), rng.uniform(0.1, 0.3, 40), rng.uniform(0.1, 1.0, 40)
    )
    # a molecule about as wide as a third of the box, across its faces
    lattice = np.array([(i, j, k) for i in range(3) for j in range(3) for k in range(3)][:n])
    s, _ = box.fractions(0.3 * lattice + rng.uniform(-0.08, 0.08, (n, 3)) - 0.2)
    x = box.cartesian(s)
    backend = get_backend("cpu", 1)
    energy, forces = our_result([*make_exclusion_terms(table, backend), make_exception_term(table_14, backend)], box, s)
    u, f = openmm_result(make_force(table, x, table_14), box, x, DIRECT)
    assert energy == pytest.approx(u, rel=1e-7, abs=1e-5)
    assert np.sqrt(((forces - f) ** 2).sum() / (f**2).sum()) < 1e-7


@pytest.mark.parametrize("tolerance", [5e-4, 1e-5, 0.2])
@pytest.mark.parametrize("shape", BOXES)
def test_default_parameters(shape, tolerance):
    from dataclasses import replace

    box, table = BOXES[shape], replace(make_table(4, "LJPME"), ewald_alpha=0.0)
    force = make_force(table, np.zeros((4, 3)))
    force.setEwaldErrorTolerance(tolerance)
    context = make_context(force, box)
    for dispersion, parameters in (
        (False, force.getPMEParametersInContext(context)),
        (True, force.getLJPMEParametersInContext(context)),
    ):
        alpha, grid = default_ewald_parameters(box.vectors, table.cutoff, tolerance, dispersion)
        assert alpha == pytest.approx(parameters[0], rel=1e-14)
        assert list(grid) == list(parameters[1:])
