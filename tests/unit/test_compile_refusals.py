"""What mdsim does not compute is refused by name, before anything runs."""

import numpy as np
import openmm
import pytest
from forcefield_samples import bare_system, charged_system
from openmm import app

from mdsim.errors import InputError, UnsupportedError
from mdsim.forcefield import compile_system


def refused(system, *words, kind=UnsupportedError):
    with pytest.raises(kind) as caught:
        compile_system(system)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def with_force(force, n=4):
    system, _ = charged_system(n)
    system.addForce(force)
    return system


@pytest.mark.parametrize(
    ("force", "words"),
    [
        (openmm.DrudeForce(), ["DrudeForce"]),
        (openmm.AmoebaMultipoleForce(), ["AmoebaMultipoleForce"]),
        (openmm.CustomAngleForce("k*(theta-t0)^4"), ["CustomAngleForce", "k*(theta-t0)^4"]),
        (openmm.CustomBondForce("k*exp(-r)"), ["CustomBondForce", "k*exp(-r)"]),
        (openmm.CustomTorsionForce("k*theta^4"), ["CustomTorsionForce", "k*theta^4"]),
        (openmm.CustomExternalForce("q*z"), ["CustomExternalForce", "q*z"]),
        (openmm.CustomCompoundBondForce(3, "distance(p1,p2)"), ["CustomCompoundBondForce", "distance(p1,p2)"]),
        (openmm.RMSDForce([[0, 0, 0]] * 4, [0]), ["RMSDForce"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_unknown_forces_and_expressions(force, words):
    refused(with_force(force), *words)


def custom_lennard_jones(n, energy="acoef(type1,type2)/r^12-bcoef(type1,type2)/r^6", types=1):
    force = openmm.CustomNonbondedForce(energy)
    force.addPerParticleParameter("type")
    for name in ("acoef", "bcoef"):
        force.addTabulatedFunction(name, openmm.Discrete2DFunction(types, types, [1e-6] * types**2))
    for _ in range(n):
        force.addParticle([0])
    force.setNonbondedMethod(force.CutoffPeriodic)
    force.setCutoffDistance(0.9)
    return force


def charges_only(n=4):
    system, force = charged_system(n)
    for i in range(n):
        force.setParticleParameters(i, 0.1, 1.0, 0.0)
    return system, force


def test_lennard_jones_in_two_forces():
    refused(with_force(custom_lennard_jones(4)), "both")


def test_lennard_jones_of_unknown_form():
    system, _ = charges_only()
    system.addForce(custom_lennard_jones(4, "acoef(type1,type2)/r^9-bcoef(type1,type2)/r^6"))
    refused(system, "r^9")


def test_lennard_jones_with_other_exclusions():
    system, force = charges_only()
    force.addException(0, 1, 0.0, 1.0, 0.0)
    system.addForce(custom_lennard_jones(4))
    refused(system, "0 pairs", "1 exceptions")


def test_lennard_jones_with_another_cutoff():
    system, _ = charges_only()
    custom = custom_lennard_jones(4)
    custom.setCutoffDistance(0.8)
    system.addForce(custom)
    refused(system, "0.8 nm", "0.9 nm")


def test_interaction_groups():
    system, _ = charges_only()
    custom = custom_lennard_jones(4)
    custom.addInteractionGroup([0], [1])
    system.addForce(custom)
    refused(system, "interaction groups")


def test_custom_nonbonded_alone():
    system = bare_system(4)
    system.addForce(custom_lennard_jones(4))
    refused(system, "without a NonbondedForce")


def test_two_nonbonded_forces():
    system, force = charged_system(4)
    system.addForce(openmm.XmlSerializer.clone(force))
    refused(system, "2 of NonbondedForce")


def test_parameter_offsets():
    system, force = charged_system(4)
    force.addGlobalParameter("lambda", 1.0)
    force.addParticleParameterOffset("lambda", 0, 0.1, 0.0, 0.0)
    refused(system, "offsets")


def test_direct_space_left_out():
    system, force = charged_system(4)
    force.setIncludeDirectSpace(False)
    refused(system, "direct space")


def test_constraints_that_chain_heavy_atoms():
    system = bare_system(4)
    for i in range(3):
        system.addConstraint(i, i + 1, 0.15)
    refused(system, "chain 4 atoms", "h-bonds")


def test_symmetry_sites():
    system = bare_system(3)
    system.setParticleMass(2, 0.0)
    axes = [openmm.Vec3(*row) for row in np.eye(3).tolist()]
    system.setVirtualSite(2, openmm.SymmetrySite(0, *axes, openmm.Vec3(0, 0, 0), True))
    refused(system, "VirtualSite of 1", "atom 2")


def test_local_coordinates_of_four_parents():
    system = bare_system(5)
    system.setParticleMass(4, 0.0)
    weights = [0.25] * 4, [1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]
    system.setVirtualSite(4, openmm.LocalCoordinatesSite([0, 1, 2, 3], *weights, openmm.Vec3(0.1, 0, 0)))
    refused(system, "LocalCoordinatesSite of 4")


def test_hct_implicit_solvent():
    from openmm.app.internal.customgbforces import GBSAHCTForce

    system, _ = charged_system(4, openmm.NonbondedForce.NoCutoff)
    force = GBSAHCTForce()
    for _ in range(4):
        force.addParticle([0.1, 0.14, 0.1])
    force.finalize()
    system.addForce(force)
    refused(system, "CustomGBForce", "1/(1/or-I)", "OBC2")


def test_implicit_solvent_in_a_box():
    force = openmm.GBSAOBCForce()
    for _ in range(4):
        force.addParticle(0.1, 0.15, 0.8)
    force.setNonbondedMethod(force.CutoffPeriodic)
    refused(with_force(force), "periodic")


def test_zero_mass():
    system = bare_system(3)
    system.setParticleMass(1, 0.0)
    refused(system, "atom 1", "no mass", "restraint", kind=InputError)


def test_number_of_particles():
    system, _ = charged_system(4)
    system.addParticle(1.0)
    refused(system, "5 particles", "NonbondedForce", kind=InputError)


def test_topology_of_another_size():
    topology = app.Topology()
    topology.addAtom("C", app.element.carbon, topology.addResidue("LIG", topology.addChain()))
    with pytest.raises(InputError, match="2 particles, the topology 1"):
        compile_system(bare_system(2), topology)


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ((np.nan, 0.3, 0.1), "charge"),
        ((0.1, np.inf, 0.1), "sigma"),
        ((0.1, 0.3, -0.1), "epsilon"),
        ((0.1, -0.3, 0.1), "sigma"),
    ],
)
def test_parameters_that_are_no_numbers_or_negative(parameters, word):
    system, force = charged_system(4)
    force.setParticleParameters(2, *parameters)
    refused(system, word, "atom 2", kind=InputError)


def test_an_atom_twice_in_a_term():
    system, force = bare_system(3), openmm.HarmonicAngleForce()
    force.addAngle(0, 1, 0, 1.0, 1.0)
    system.addForce(force)
    refused(system, "HarmonicAngleForce", "twice", kind=InputError)


def test_switch_distance_beyond_the_cutoff():
    system, force = charged_system(4)
    force.setUseSwitchingFunction(True)
    force.setSwitchingDistance(1.0)
    refused(system, "switch distance", kind=InputError)
