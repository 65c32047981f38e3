"""force = -dU/dx of whole systems and of each of their terms, by finite differences of the energies that users see.

All atoms move at once along a path. The five-point rule with moves of h <= 1e-3 nm has a truncation error of (12 h / r)^4 / 30,
1e-7 of a Lennard-Jones force at contact and less of all others. What is left is the rounding of energies: 2^-24 kJ/mol for each
entry of a float64 term; about 1e-7 of each pair of a float32 term, 1e-3 kJ/mol in a box of water, where the paths do some tens of
kJ/mol of work. Interactions end smoothly at the cutoff here (a switch, and an Ewald sum with alpha r_cut = 3.6), for a pair that
crosses a jump on the path would be worth more than all of this.
"""

from dataclasses import replace

import numpy as np
import openmm
import pytest
from forcefield_samples import villin
from openmm import app
from physics_samples import implicit_dipeptide, simulate, term_evaluators, water_lattice

from mdsim.kernels.fixed_point import ENERGY_SCALE, FORCE_SCALE

STEP = 1e-3  # nm, h for the atom that moves most
#: energy's name -> of the sum of |f dx| over the coordinates, kJ/mol; all others: the last
TOLERANCES = {
    "lj": (1e-4, 2e-4),
    "coulomb_reciprocal": (1e-4, 2e-4),
    "lj_reciprocal": (1e-4, 2e-4),
    "implicit": (1e-4, 1e-5),
    "cmap": (1e-3, 2e-6),  # second derivatives of the map jump at its grid lines
    "": (2e-5, 2e-6),  # (n h / rho)^4 / 30 of an n-fold torsion whose outer atoms move rho = 0.05 nm from its axis
}
ALPHA_CUTOFF = 3.6  # erfc is 4e-7 there
SWITCH_WIDTH = 0.15  # nm
CUTOFF = 0.75  # nm, in a box of 5^3 waters, 1.56 nm


def smooth(loaded):
    """The same system with interactions that vanish at the cutoff. The mesh may be coarse: its forces are its own gradient."""
    system = openmm.XmlSerializer.clone(loaded.system)
    for force in system.getForces():
        if isinstance(force, openmm.NonbondedForce | openmm.CustomNonbondedForce):
            cutoff = force.getCutoffDistance().value_in_unit(openmm.unit.nanometer)
            force.setUseSwitchingFunction(True)
            force.setSwitchingDistance(cutoff - SWITCH_WIDTH)
        if isinstance(force, openmm.NonbondedForce):
            force.setPMEParameters(
                ALPHA_CUTOFF / cutoff, *(48 if edge > 2.0 else 24 for edge in loaded.vectors.diagonal())
            )
    return replace(loaded, system=system)


def water(model, method):
    return smooth(water_lattice(5, model, method, nonbondedCutoff=CUTOFF))


SYSTEMS = {
    "TIP3P, PME": lambda: water("tip3p", app.PME),
    "TIP4P-Ew, PME": lambda: water("tip4pew", app.PME),
    "OPC, PME": lambda: water("opc", app.PME),
    "TIP3P, LJPME": lambda: water_lattice(5, method=app.LJPME, nonbondedCutoff=CUTOFF, ewaldErrorTolerance=1e-6),
    "TIP3P, reaction field": lambda: water("tip3p", app.CutoffPeriodic),
    "villin, amber19 + OPC": lambda: smooth(villin("amber19 + OPC")),
    "villin, charmm36 + TIP3P": lambda: smooth(villin("charmm36_2024 + TIP3P")),
    "alanine dipeptide, OBC2, restraints": lambda: implicit_dipeptide("OBC2"),
    "alanine dipeptide, GBn2, restraints": lambda: implicit_dipeptide("GBn2"),
}


@pytest.fixture(params=SYSTEMS, scope="module")
def sim(request):
    """Off its minimum and its restraints: every term pushes."""
    sim = simulate(SYSTEMS[request.param]())
    sim.minimize(max_steps=15)
    massive = sim.system.masses > 0
    rng = np.random.default_rng(5)
    kick = np.rint(rng.normal(0.0, 0.003, sim.state.positions.shape) / sim.state.box.lattice.diagonal()).astype(
        np.int32
    )
    sim.state.positions[massive] += kick[massive]
    sim.evaluator.invalidate()
    return sim


def evaluate(evaluator, state):
    """(energy kJ/mol, forces int64[n, 3])."""
    evaluator.invalidate()
    evaluator.compute(state, with_energy=True)
    assert not evaluator.flags.any()
    return evaluator.potential / ENERGY_SCALE, evaluator.forces.copy()


def work_along(evaluator, state, moves):
    """-dU/ds of x + s dx by the five-point rule; ``moves``: dx as int32[n, 3] box fractions."""
    start = state.positions.copy()
    energies = []
    for factor in (-2, -1, 1, 2):
        state.positions[:] = start + factor * moves
        energies.append(evaluate(evaluator, state)[0])
    state.positions[:] = start
    low2, low, high, high2 = energies
    return (8.0 * (low - high) - (low2 - high2)) / 12.0


def paths(forces, masses, rng):
    """Moves (nm) that do work on every atom: along the forces by random amounts, and at random. Sites follow by themselves."""
    massive = (masses > 0)[:, None]
    along = forces * rng.uniform(-1.0, 1.0, (len(forces), 1))
    for direction in (forces, along, rng.normal(size=forces.shape)):
        moved = np.where(massive, direction, 0.0)
        moved -= massive * (moved.sum(axis=0) / massive.sum())  # the net force of a mesh is taken off
        largest = np.abs(moved).max()
        if largest > 0.0:  # else the term has no entry that pushes
            yield moved * (STEP / largest)


def assert_force_is_minus_the_gradient(name, evaluator, sim):
    relative, absolute = TOLERANCES.get(name, TOLERANCES[""])
    lattice = sim.state.box.lattice.diagonal()  # orthorhombic
    forces = evaluate(evaluator, sim.state)[1] / FORCE_SCALE
    for dx in paths(forces, sim.system.masses, np.random.default_rng(7)):
        moves = np.rint(dx / lattice).astype(np.int32)
        expected = forces * (moves * lattice)
        error = work_along(evaluator, sim.state, moves) - expected.sum()
        assert abs(error) < relative * np.abs(expected).sum() + absolute, (name, error, expected.sum())


def test_each_term(sim):
    for name, evaluator in term_evaluators(sim).items():
        assert_force_is_minus_the_gradient(name, evaluator, sim)


def test_all_terms(sim):
    assert_force_is_minus_the_gradient("lj", sim.evaluator, sim)
