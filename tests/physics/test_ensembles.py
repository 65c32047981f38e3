"""Assembled systems under thermostats: kinetic and configurational temperature, and the distribution of the kinetic energy."""

import numpy as np
import pytest
from physics_samples import LIQUID, TEMPERATURE, implicit_dipeptide, liquid, simulate
from scipy import stats

from mdsim.units import BOLTZMANN

KT = BOLTZMANN * TEMPERATURE
THERMOSTATS = {
    "langevin-middle": {"friction": 20.0},
    "bussi": {"coupling_time": 0.02},
    "nose-hoover": {"coupling_time": 0.05, "chain_length": 4},
}


def divergence_of_forces(sim, rng, step=1e-5):
    """sum of d2U/dx2, kJ/mol/nm^2, by one random probe (Hutchinson): its mean is the trace of the Hessian."""
    lattice = sim.state.box.lattice.diagonal()
    probe = rng.choice([-1.0, 1.0], size=sim.state.positions.shape)
    moves = np.rint(probe * step / lattice).astype(np.int32)
    start = sim.state.positions.copy()
    ends = []
    for sign in (1, -1):
        sim.state.positions[:] = start + sign * moves
        sim.evaluator.invalidate()
        ends.append(sim.forces)
    sim.state.positions[:] = start
    sim.evaluator.invalidate()
    return (probe * (ends[1] - ends[0])).sum() / (2.0 * step)


def block_error(values, n_blocks=10):
    blocks = np.asarray(values)[: len(values) // n_blocks * n_blocks].reshape(n_blocks, -1).mean(axis=1)
    return blocks.std(ddof=1) / np.sqrt(n_blocks)


def test_langevin_kinetic_and_configurational_temperature():
    """A flexible molecule in implicit solvent at 1 fs, where a bond to hydrogen takes ten steps a period.

    kT = <|grad U|^2> / <div grad U> (Rugh) sees positions alone. The velocities lie half a step back, where the middle scheme's
    are right: both temperatures must be the bath's.
    """
    sim = simulate(
        implicit_dipeptide("OBC2"),
        "langevin-middle",
        0.001,
        temperature=TEMPERATURE,
        friction=100.0,
        remove_cm_motion=False,
    )
    sim.minimize(max_steps=100)
    sim.draw_velocities(TEMPERATURE)
    sim.run(500)
    rng = np.random.default_rng(1)
    kinetic, squares, divergences = [], [], []
    for _ in range(1200):
        sim.run(8)
        kinetic.append(sim.kinetic_energy)
        squares.append((sim.forces**2).sum())
        divergences.append(divergence_of_forces(sim, rng))
    mean = np.mean(kinetic)
    assert block_error(kinetic) < 0.01 * mean
    assert mean == pytest.approx(0.5 * 66 * KT, abs=4.0 * block_error(kinetic))
    ratio = np.mean(squares) / np.mean(divergences)
    error = ratio * np.hypot(block_error(squares) / np.mean(squares), block_error(divergences) / np.mean(divergences))
    assert error < 0.015 * ratio
    assert ratio == pytest.approx(KT, abs=4.0 * error)


@pytest.mark.parametrize("kind", THERMOSTATS)
def test_kinetic_energy_of_rigid_water_is_gamma_distributed(kind):
    """Shape half the number of degrees of freedom, scale kT; samples further apart than the thermostat's memory."""
    loaded, start = liquid()
    sim = simulate(loaded, kind, temperature=TEMPERATURE, **THERMOSTATS[kind])
    sim.restore(start)
    sim.run(100)
    kinetic = []
    for _ in range(60):
        sim.run(20)
        kinetic.append(sim.kinetic_energy)
    degrees = 6 * LIQUID - 3
    assert sim.integrator.degrees_of_freedom == degrees
    expected = stats.gamma(0.5 * degrees, scale=KT)
    # rms 7.2 % a sample; a fourth of the samples is taken to be independent
    assert np.mean(kinetic) == pytest.approx(expected.mean(), abs=4.5 * expected.std() / np.sqrt(len(kinetic) / 4))
    assert 0.6 < np.std(kinetic) / expected.std() < 1.5
    assert stats.kstest(kinetic[::2], expected.cdf).pvalue > 1e-3
