"""Simulations driven from Python, as people do: overlaps, interrupts, quantities with units."""

import os
import signal
import threading
import warnings

import numpy as np
import openmm
import pytest
from openmm import unit
from physics_samples import simulate, water_lattice

from mdsim import CallbackReporter, Simulation, TrajectoryReporter
from mdsim.errors import InputError

LANGEVIN = {"kind": "langevin-middle", "timestep": 0.002, "temperature": 300.0, "friction": 5.0}


def water(integrator=LANGEVIN, **options) -> Simulation:
    loaded = water_lattice(4, nonbondedCutoff=0.6)
    sim = Simulation(
        loaded.system,
        loaded.topology,
        loaded.positions,
        box_vectors=loaded.vectors,
        integrator=integrator,
        threads=1,
        **options,
    )
    sim.draw_velocities(300.0)
    return sim


def test_waters_pushed_into_each_other_come_apart():
    """Clipped repulsion alone would leave a hydrogen in another molecule's oxygen, held there by the charges."""
    plain = simulate(water_lattice(4, nonbondedCutoff=0.6))
    expected = plain.minimize(max_steps=300).energy
    loaded = water_lattice(4, nonbondedCutoff=0.6)
    positions = loaded.positions.copy()
    for first, second in ((0, 1), (20, 21), (40, 41)):
        hydrogen = positions[3 * first + 1] + np.array([0.003, 0.0, 0.0])
        positions[3 * second : 3 * second + 3] += hydrogen - positions[3 * second]
    sim = Simulation(
        loaded.system, loaded.topology, positions, box_vectors=loaded.vectors, integrator=LANGEVIN, threads=1
    )
    result = sim.minimize(max_steps=500)
    assert result.energy == pytest.approx(expected, rel=0.1)
    x, edge = sim.positions, loaded.vectors[0, 0]
    between = x[:, None] - x[None]
    between -= edge * np.rint(between / edge)
    molecule = np.arange(len(x)) // 3
    distance = np.sqrt((between**2).sum(axis=2))[molecule[:, None] != molecule[None]]
    assert distance.min() > 0.14
    sim.draw_velocities(300.0)
    sim.run(50)


def test_an_interrupted_run_goes_on_with_the_same_bits():
    """Ctrl-C, wherever it lands, ends the run after a whole step."""
    whole, interrupted = water(), water()
    whole.run(60)
    for _ in range(3):
        if interrupted.state.step >= 60:
            break
        timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            interrupted.run(60 - interrupted.state.step)
            timer.join()
        except KeyboardInterrupt:
            pass
        timer.join()
    interrupted.run(60 - interrupted.state.step)
    assert np.array_equal(interrupted.state.positions, whole.state.positions)
    assert np.array_equal(interrupted.state.velocities, whole.state.velocities)


def test_interrupt_is_raised_once_the_step_is_done():
    sim, seen = water(), []

    def interrupt(snapshot):
        seen.append(snapshot.step)
        os.kill(os.getpid(), signal.SIGINT)

    sim.reporters.append(CallbackReporter(interrupt, 5))
    with pytest.raises(KeyboardInterrupt):
        sim.run(20)
    assert seen == [5] and sim.state.step == 5
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_parameters_may_be_quantities():
    by_number = water(barostat={"kind": "isotropic", "pressure": 1.01325, "frequency": 10})
    by_unit = water(
        {
            "kind": "langevin-middle",
            "timestep": 2 * unit.femtoseconds,
            "temperature": 300 * unit.kelvin,
            "friction": 5 / unit.picosecond,
        },
        barostat={"kind": "isotropic", "pressure": 1 * unit.atmosphere, "frequency": 10},
    )
    assert by_unit.barostat.pressure == pytest.approx(1.01325, rel=1e-12)
    for sim in (by_number, by_unit):
        sim.run(3)
    assert np.array_equal(by_number.state.positions, by_unit.state.positions)
    with pytest.raises(InputError, match="timestep of the integrator must be a number"):
        water({**LANGEVIN, "timestep": "2 fs"})


def test_a_barostat_in_the_system_is_told():
    loaded = water_lattice(4, nonbondedCutoff=0.6)
    system = openmm.XmlSerializer.clone(loaded.system)
    system.addForce(openmm.MonteCarloBarostat(1.0, 300.0))
    with pytest.warns(UserWarning, match="MonteCarloBarostat"):
        Simulation(
            system, loaded.topology, loaded.positions, box_vectors=loaded.vectors, integrator=LANGEVIN, threads=1
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        water()


def test_a_simulation_is_source_enough_for_a_trajectory(tmp_path):
    sim = water()
    sim.reporters.append(TrajectoryReporter(tmp_path / "t.h5md", 2, sim))
    sim.run(4)
    assert sim.reporters[0].count() == 2
    sim.reporters[0].close()
