"""Pressure and volume moves of water with the whole engine; densities and mean pressures take longer: docs/validation.md."""

import numpy as np
import openmm
import pytest
from openmm import unit
from physics_samples import LIQUID, TEMPERATURE, liquid, simulate


def openmm_pressure(loaded, positions, box):
    """Molecular pressure of resting molecules, bar, by OpenMM's Reference platform."""
    system = openmm.XmlSerializer.clone(loaded.system)
    barostat = openmm.MonteCarloBarostat(1.0, TEMPERATURE, 0)
    system.addForce(barostat)
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPeriodicBoxVectors(*(openmm.Vec3(*row) for row in box.tolist()))
    context.setPositions(positions)
    return barostat.computeCurrentPressure(context).value_in_unit(unit.bar)


def test_pressure_of_a_configuration_is_openmms():
    """Without velocities: -dU/dV alone. Both engines take it by finite differences of the volume; rounding of our float32 energies
    (1e-3 kJ/mol over 0.4 % of 1.9 nm^3) is worth 3 bar, of the 1000 bar by which the pressure fluctuates."""
    loaded, start = liquid()
    sim = simulate(loaded)
    sim.restore(start)
    sim.state.velocities[:] = 0.0
    resting = sim.pressure()
    expected = openmm_pressure(loaded, sim.positions, sim.state.box.vectors)
    assert resting == pytest.approx(expected, abs=10.0)


def test_moving_molecules_add_the_pressure_of_a_gas():
    loaded, start = liquid()
    sim = simulate(loaded)
    sim.restore(start)
    moving = sim.pressure()
    temperature, volume = sim.temperature, sim.state.box.volume
    sim.state.velocities[:] = 0.0
    bar = 1e5 * 1e-27 * 6.02214076e23 * 1e-3  # kJ/mol/nm^3
    assert moving - sim.pressure() == pytest.approx(LIQUID * 8.31446261815324e-3 * temperature / volume / bar, rel=1e-6)


def test_volume_moves_of_water():
    """Some moves are accepted and some not; the volume settles within what the liquid's compressibility allows."""
    loaded, start = liquid()
    sim = simulate(
        loaded, "langevin-middle", temperature=TEMPERATURE, friction=5.0,
        barostat={"kind": "isotropic", "pressure": 1.0, "frequency": 5},
    )  # fmt: skip
    sim.restore(start)
    volumes = []
    for _ in range(60):
        sim.run(5)
        volumes.append(sim.state.box.volume)
    attempts, accepted = sim.state.extra["barostat_totals"]
    assert attempts == 60
    assert 0.15 < accepted / attempts < 0.9
    assert len(set(volumes)) > 10
    assert 0.9 < np.mean(volumes) / start.box.volume < 1.1
    constraints, state = sim.integrator.motion.constraints, sim.state
    errors = constraints.relative_errors(state.positions, state.box, np.zeros((state.n_local, 3)))[1]
    assert errors.max() < 1e-6  # a move carries molecules along whole
