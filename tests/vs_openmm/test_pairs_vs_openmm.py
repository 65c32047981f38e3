"""Short-range forces against OpenMM's Reference platform, direct space only, in a system without exclusions."""

import numpy as np
import openmm
import pytest
from pair_samples import TRICLINIC, compute_real, make_table, spread_positions

from mdsim.backends import get_backend
from mdsim.tables import NonbondedTable

N = 300


def openmm_pairs(table, x, switch=None):
    """Forces kJ/mol/nm and energy kJ/mol of the direct-space part of a NonbondedForce."""
    system, force = openmm.System(), openmm.NonbondedForce()
    system.setDefaultPeriodicBoxVectors(*TRICLINIC.vectors)
    for q, sigma, epsilon in zip(table.charge, table.sigma, table.epsilon, strict=True):
        system.addParticle(1.0)
        force.addParticle(q, sigma, epsilon)
    force.setNonbondedMethod(getattr(openmm.NonbondedForce, table.method))
    force.setCutoffDistance(table.cutoff)
    force.setPMEParameters(table.ewald_alpha, 32, 32, 32)
    force.setLJPMEParameters(table.ljpme_alpha, 32, 32, 32)
    force.setReactionFieldDielectric(table.reaction_field_dielectric)
    force.setUseDispersionCorrection(False)
    if table.switch_distance is not None:
        force.setUseSwitchingFunction(True)
        force.setSwitchingDistance(table.switch_distance)
    force.setReciprocalSpaceForceGroup(1)
    system.addForce(force)
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions(x)
    state = context.getState(getForces=True, getEnergy=True, groups={0})
    return state.getForces(asNumpy=True)._value, state.getPotentialEnergy()._value


@pytest.mark.parametrize(
    "options",
    [
        {"method": "PME"},
        {"method": "CutoffPeriodic"},
        {"method": "PME", "switch_distance": 0.75},
        {"method": "CutoffPeriodic", "switch_distance": 0.7},
        {"method": "LJPME"},
    ],
)
def test_direct_space_agrees_with_reference(options):
    positions = spread_positions(N, TRICLINIC)
    table = make_table(N, **options)
    table = NonbondedTable(**{**table.__dict__, "exclusions": np.zeros((0, 2), np.int32)})
    expected, energy = openmm_pairs(table, TRICLINIC.cartesian(positions))
    forces, energies, _ = compute_real(table, get_backend("cpu", 1), positions, TRICLINIC)
    assert np.sqrt(((forces - expected) ** 2).sum() / (expected**2).sum()) < 3e-6
    assert energies.sum() == pytest.approx(energy, rel=1e-6, abs=2e-3)
