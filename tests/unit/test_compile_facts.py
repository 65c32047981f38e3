"""What the bundled force fields become: counts, partitions, constraints, and numbers that OpenMM computes too."""

import numpy as np
import openmm
import pytest
from forcefield_samples import CHARMM, N_WATERS, NAMES, bare_system, charged_system, villin
from openmm import app

from mdsim.forcefield import compile_system
from mdsim.forcefield.quantities import in_md_units
from mdsim.tables import (
    CMAPTable,
    DistanceRestraintTable,
    HarmonicImproperTable,
    NonbondedTable,
    PairExceptionTable,
    PositionRestraintTable,
)

SITES_OF_A_WATER = {"TIP4P-Ew": 1, "OPC": 1, "TIP5P": 2}


def of_kind(compiled, kind):
    return [t for t in compiled.forces if isinstance(t, kind)]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def compiled(name):
    return villin(name).compile()


def assert_partition(atoms, starts, n):
    assert np.array_equal(np.sort(atoms), np.arange(n))
    assert starts[0] == 0
    assert starts[-1] == n
    assert (np.diff(starts) > 0).all()


def test_waters_constraints_and_sites(name, compiled):
    n_waters = 600 if name in CHARMM else N_WATERS
    assert len(compiled.constraints.settle) == n_waters
    assert len(compiled.virtual_sites.sites) == SITES_OF_A_WATER.get(name.split(" + ")[1], 0) * n_waters
    system = villin(name).system
    assert 3 * n_waters + len(compiled.constraints.distance) == system.getNumConstraints()
    massive = sum(not system.isVirtualSite(i) for i in range(system.getNumParticles()))
    assert compiled.degrees_of_freedom == 3 * massive - system.getNumConstraints() - 3


def test_every_atom_is_in_one_update_group_with_its_constraints_and_sites(compiled):
    n, c, sites = compiled.n_atoms, compiled.constraints, compiled.virtual_sites
    assert_partition(compiled.group_atoms, compiled.group_start, n)
    group = np.empty(n, dtype=int)
    group[compiled.group_atoms] = np.repeat(np.arange(len(compiled.group_start) - 1), np.diff(compiled.group_start))
    assert (group[c.settle] == group[c.settle[:, :1]]).all()
    assert (group[c.atoms[:, 0]] == group[c.atoms[:, 1]]).all()
    assert (group[sites.sites][:, None] == group[sites.parents]).all()
    assert np.diff(compiled.group_start).max() <= 5


def test_shake_groups_have_the_heavy_atom_first_and_share_nothing(compiled):
    c = compiled.constraints
    assert (compiled.masses[c.atoms[:, 0]] > compiled.masses[c.atoms[:, 1]]).all()
    groups = np.split(c.atoms, c.group_start[1:-1])
    assert all(len(set(g[:, 0].tolist())) == 1 for g in groups)
    assert sum(len(np.unique(g)) for g in groups) == len(np.unique(c.atoms))


def test_molecules_are_openmms(name, compiled):
    context = openmm.Context(
        villin(name).system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference")
    )
    theirs = sorted(sorted(m) for m in context.getMolecules())
    assert_partition(compiled.molecule_atoms, compiled.molecule_start, compiled.n_atoms)
    ours = sorted(sorted(m.tolist()) for m in np.split(compiled.molecule_atoms, compiled.molecule_start[1:-1]))
    assert ours == theirs


def test_mesh_is_openmms(name, compiled):
    system = villin(name).system
    force = next(f for f in system.getForces() if isinstance(f, openmm.NonbondedForce))
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    alpha, *grid = force.getPMEParametersInContext(context)
    table = of_kind(compiled, NonbondedTable)[0]
    assert table.ewald_alpha == pytest.approx(alpha, rel=1e-14)
    assert list(table.grid) == grid


def test_charmm_has_its_lennard_jones_by_types_and_its_maps():
    compiled = villin("charmm36_2024 + TIP5P").compile()
    table = of_kind(compiled, NonbondedTable)[0]
    assert (table.label, table.lj_label) == ("NonbondedForce", "LennardJones")
    assert table.lj_type is not None
    assert table.lj_a.shape == table.lj_b.shape == (88, 88)
    assert {t.label for t in of_kind(compiled, PairExceptionTable)} == {"NonbondedForce", "LennardJones14"}
    assert len(of_kind(compiled, CMAPTable)[0].atoms) == 33
    assert of_kind(compiled, HarmonicImproperTable)[0].wrapped


@pytest.mark.parametrize("switch", [None, 0.6])
def test_dispersion_coefficient_is_openmms(switch):
    system, force = charged_system(60)
    for i in range(60):
        force.setParticleParameters(i, 0.0, (0.25, 0.3, 0.4)[i % 3], (0.2, 0.5, 0.0)[i % 3])
    force.setUseSwitchingFunction(switch is not None)
    force.setSwitchingDistance(switch or 0.0)
    positions = np.random.default_rng(3).random((60, 3)) * 3.0
    energies = []
    for correct in (True, False):
        force.setUseDispersionCorrection(correct)
        context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
        context.setPositions(positions)
        energies.append(float(in_md_units(context.getState(energy=True).getPotentialEnergy())))
    assert of_kind(compile_system(system), NonbondedTable)[0].dispersion_coefficient == 0.0
    force.setUseDispersionCorrection(True)
    ours = of_kind(compile_system(system), NonbondedTable)[0].dispersion_coefficient / 27.0
    assert ours == pytest.approx(energies[0] - energies[1], rel=1e-6)


def test_exclusions_are_all_exceptions_and_only_the_others_are_computed():
    system, force = charged_system(4)
    force.addException(3, 1, 0.0, 1.0, 0.0)
    force.addException(0, 2, 0.1, 0.3, 0.0)
    force.addException(2, 1, 0.0, 0.3, 0.7)
    compiled = compile_system(system)
    assert of_kind(compiled, NonbondedTable)[0].exclusions.tolist() == [[0, 2], [1, 2], [1, 3]]
    pairs = of_kind(compiled, PairExceptionTable)[0]
    assert pairs.atoms.tolist() == [[0, 2], [2, 1]]
    assert pairs.charge_product.tolist() == [0.1, 0.0]
    assert pairs.epsilon.tolist() == [0.0, 0.7]


def test_mesh_that_the_force_sets_is_kept():
    system, force = charged_system(4)
    force.setPMEParameters(3.1, 20, 21, 22)
    table = of_kind(compile_system(system), NonbondedTable)[0]
    assert (table.ewald_alpha, table.grid) == (3.1, (20, 21, 22))


def test_names_that_occur_twice_are_numbered():
    system = bare_system(2)
    for k in (1.0, 2.0):
        force = openmm.HarmonicBondForce()
        force.addBond(0, 1, 0.1, k)
        system.addForce(force)
    assert [t.label for t in compile_system(system).forces] == ["HarmonicBondForce", "HarmonicBondForce:1"]


@pytest.mark.parametrize(
    ("energy", "k"), [("k*periodicdistance(x,y,z,x0,y0,z0)^2", 6.0), ("0.5*k*((x-x0)^2+(y-y0)^2+(z-z0)^2)", 3.0)]
)
def test_position_restraints(energy, k):
    system, force = bare_system(2), openmm.CustomExternalForce(energy)
    for parameter in ("k", "z0", "y0", "x0"):
        force.addPerParticleParameter(parameter)
    force.addParticle(1, [3.0, 0.3, 0.2, 0.1])
    system.addForce(force)
    (table,) = of_kind(compile_system(system), PositionRestraintTable)
    assert table.atoms.tolist() == [1]
    assert table.reference.tolist() == [[0.1, 0.2, 0.3]]
    assert table.k.tolist() == [k]


@pytest.mark.parametrize(
    ("energy", "expected"),
    [
        ("0.5*k*(r-r1)^2", (0.4, 0.4, 3.0)),
        ("k*max(0, r-r1)^2", (0.0, 0.4, 6.0)),
        ("step(r1-r)*k*(r-r1)^2", (0.4, np.inf, 6.0)),
        ("scale*k*(max(0, r-r1)^2 + max(0, 0.2*r1-r)^2)", None),
        ("scale*k*r^2", (0.0, 0.0, 3.0)),
    ],
)
def test_distance_restraints(energy, expected):
    system, force = bare_system(2), openmm.CustomBondForce(energy)
    force.addPerBondParameter("k")
    force.addPerBondParameter("r1")
    force.addGlobalParameter("scale", 0.5)
    force.addBond(0, 1, [3.0, 0.4])
    system.addForce(force)
    if expected is None:
        with pytest.raises(Exception, match="does not compute"):
            compile_system(system)
        return
    (table,) = of_kind(compile_system(system), DistanceRestraintTable)
    assert (table.lower[0], table.upper[0], table.k[0]) == expected


def test_hydrogen_angle_constraints_of_a_methyl_stay_one_group():
    system = bare_system(4)
    for i in (1, 2, 3):
        system.setParticleMass(i, 1.0)
        system.addConstraint(i, 0, 0.109)
    system.addConstraint(1, 2, 0.178)
    c = compile_system(system).constraints
    assert c.atoms.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2]]
    assert c.group_start.tolist() == [0, 4]
    assert len(c.settle) == 0


def test_barostats_and_thermostats_are_noted():
    system, _ = charged_system(2)
    for force in (openmm.MonteCarloBarostat(1.0, 300.0), openmm.AndersenThermostat(300.0, 1.0)):
        system.addForce(force)
    notes = compile_system(system).notes
    assert len(notes) == 2
    assert "MonteCarloBarostat" in notes[0]
    assert "barostat:" in notes[0]


def test_centre_of_mass_removal_is_kept():
    system = bare_system(2)
    system.addForce(openmm.CMMotionRemover(7))
    assert compile_system(system).remove_cm_frequency == 7


def test_topology_bonds_join_molecules():
    topology = app.Topology()
    residue = topology.addResidue("LIG", topology.addChain())
    atoms = [topology.addAtom(f"C{i}", app.element.carbon, residue) for i in range(3)]
    topology.addBond(atoms[0], atoms[2])
    assert compile_system(bare_system(3), topology).molecule_start.tolist() == [0, 2, 3]
