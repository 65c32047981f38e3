"""What a trajectory of an assembled system must keep: momentum, constraints, energy."""

import itertools

import numpy as np
import pytest
from openmm import app
from physics_samples import TEMPERATURE, liquid, simulate, term_evaluators, water_lattice

from mdsim.config import load_input
from mdsim.engine.run import make_simulation
from mdsim.forcefield import load_system
from mdsim.units import BOLTZMANN

PEPTIDE = "inputs/compare/alanine-dipeptide-triclinic.yaml"
#: relative; the task that constraints have
CONSTRAINTS = 1e-6


@pytest.fixture(scope="module")
def peptide():
    """Alanine dipeptide (SHAKE, CMAP-free bonded terms) in a truncated octahedron of water (SETTLE)."""
    config = load_input(PEPTIDE)
    sim = make_simulation(config, load_system(config.system))
    sim.minimize(max_steps=50)
    sim.constrain()
    sim.draw_velocities(TEMPERATURE)
    return sim


def test_forces_of_each_term_sum_to_exactly_zero(peptide):
    """In integers: every pair and every bonded term by Newton's third law, the mesh by taking off its net force."""
    for name, evaluator in term_evaluators(peptide).items():
        evaluator.compute(peptide.state, with_energy=True)
        assert np.abs(evaluator.forces).max() > 0, name
        assert (evaluator.forces.sum(axis=0) == 0).all(), name


@pytest.mark.parametrize(("model", "method"), [("tip4pew", app.PME), ("tip3p", app.LJPME)])
def test_forces_of_sites_and_of_both_meshes_sum_to_exactly_zero(model, method):
    sim = simulate(water_lattice(5, model, method, nonbondedCutoff=0.75))
    sim.evaluator.compute(sim.state, with_energy=True)
    forces = sim.evaluator.forces
    assert np.abs(forces).max() > 0
    assert (forces.sum(axis=0) == 0).all()


def test_constraints_along_a_trajectory(peptide):
    """SETTLE and SHAKE, positions and velocities, through 100 steps of Langevin dynamics."""
    constraints, state = peptide.integrator.motion.constraints, peptide.state
    assert len(constraints.table.settle) > 400
    assert len(constraints.table.atoms) > 5
    nothing = np.zeros((state.n_local, 3))
    for _ in range(10):
        peptide.run(10)
        assert constraints.relative_errors(state.positions, state.box, nothing)[1].max() < CONSTRAINTS
    peptide.integrator.motion.constrain_velocities(state)
    assert constraints.velocity_errors(state.positions, state.box, state.velocities)[1].max() < CONSTRAINTS


def energies(timestep, picoseconds):
    """Total energy at each 4 fs of a run from the liquid, kJ/mol, and the simulation."""
    loaded, start = liquid()
    sim = simulate(loaded, timestep=timestep, remove_cm_motion=False)
    sim.restore(start)
    sim.constrain()  # Langevin's velocities are chords of the step, with a part along the constraints
    totals = [sim.potential_energy + sim.kinetic_energy]
    for _ in range(round(picoseconds / 0.004)):
        sim.run(round(0.004 / timestep))
        totals.append(sim.potential_energy + sim.kinetic_energy)
    return np.array(totals), sim


def test_energy_error_falls_as_dt_squared():
    """Rigid water, PME: over 0.12 ps, while runs from one start stay together, twice the step is four times the fluctuation."""
    by_step = [energies(timestep, 0.12)[0] for timestep in (0.004, 0.002, 0.001)]
    assert by_step[-1].std() > 0.01  # kJ/mol, ten times the rounding of float32 energies
    for coarse, fine in itertools.pairwise(by_step):
        assert coarse.std() / fine.std() == pytest.approx(4.0, rel=0.1)
        assert np.corrcoef(coarse, fine)[0, 1] > 0.97


def test_energy_and_momentum_are_kept():
    """1 ps at 2 fs. The energy's fluctuation is that of the timestep; a drift takes 100 ps to see (docs/validation.md)."""
    totals, sim = energies(0.002, 1.0)
    assert np.ptp(totals) < 0.01 * sim.integrator.degrees_of_freedom * BOLTZMANN * TEMPERATURE
    masses = sim.system.masses[:, None]
    change = (masses * (sim.velocities - liquid()[1].velocities)).sum(axis=0)
    assert np.abs(change).max() < 1e-9 * np.abs(masses * sim.velocities).sum()
