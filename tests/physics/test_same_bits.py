"""Promise 1: one trajectory, whatever the threads, pair list, cluster sort, SIMD width, or interruptions."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
import pytest

from mdsim.config import load_input
from mdsim.engine.run import make_simulation
from mdsim.engine.simulation import Simulation
from mdsim.forcefield import load_system
from mdsim.forces import ForceOptions

#: runs that all must agree with the plain one: threads, and what else is different
VARIANTS = {
    "two threads": (2, {}),
    "three threads": (3, {}),
    "four threads": (4, {}),
    "thin buffer": (1, {"pair_list_buffer": 0.02}),
    "thick buffer": (2, {"pair_list_buffer": 0.25}),
    "shifted sort": (2, {"sort_origin": (2**29 + 12345, -(2**30), 987654321)}),
    "SIMD width 4": (1, {"simd_width": 4}),
    "SIMD width 16": (1, {"simd_width": 16}),
}
STEPS = 40
LANGEVIN = {"kind": "langevin-middle", "timestep": 0.002, "temperature": 300.0, "friction": 5.0}
BAROSTAT = {"kind": "isotropic", "pressure": 1.0, "frequency": 8}


@cache
def alanine_dipeptide():
    """The triclinic alanine dipeptide in water of inputs/compare, with a barostat that acts often."""
    config = load_input("inputs/compare/alanine-dipeptide-triclinic.yaml")
    loaded = load_system(config.system)
    sim = make_simulation(config, loaded)
    sim.minimize(max_steps=50)  # solvation leaves contacts that no dynamics survives
    return sim.system, loaded.names, sim.positions, loaded.vectors


def simulation(threads: int = 1, **options) -> Simulation:
    system, names, positions, vectors = alanine_dipeptide()
    sim = Simulation(
        system,
        names,
        positions,
        box_vectors=vectors,
        integrator=LANGEVIN,
        barostat=BAROSTAT,
        threads=threads,
        seed=11,
        force_options=ForceOptions(**options),
    )
    sim.constrain()
    sim.draw_velocities(300.0)
    return sim


def digest(sim: Simulation) -> str:
    """Hash of everything that a trajectory is made of: positions, images, velocities, box, forces and energies."""
    snapshot = sim.snapshot()
    arrays = [snapshot.positions, snapshot.images, snapshot.velocities, snapshot.forces, snapshot.box.vectors]
    content = b"".join(a.tobytes() for a in arrays) + repr(sorted(snapshot.energies.items())).encode()
    return hashlib.sha256(content).hexdigest()


@cache
def plain_run() -> str:
    sim = simulation()
    sim.run(STEPS)
    accepted, attempted = sim.state.extra["barostat_totals"][::-1]
    assert attempted == STEPS // 8 and accepted > 0  # the barostat took part
    return digest(sim)


@pytest.mark.parametrize("variant", VARIANTS)
def test_same_trajectory(variant):
    threads, options = VARIANTS[variant]
    sim = simulation(threads, **options)
    sim.run(STEPS)
    assert digest(sim) == plain_run()


def test_another_seed_is_another_trajectory():
    """The digest sees what it should see."""
    sim = simulation()
    sim.integrator.seed += 1
    sim.run(STEPS)
    assert digest(sim) != plain_run()


def test_resumed_at_any_step(tmp_path):
    """A checkpoint taken in the middle, read by a simulation with other threads, ends at the same bits."""
    first = simulation()
    first.run(13)
    first.save(tmp_path)
    second = simulation(threads=2)
    second.load(tmp_path)
    second.run(STEPS - 13)
    assert digest(second) == plain_run()


def test_looking_changes_nothing():
    """Reporting energies and pressures in the middle leaves the trajectory as it is."""
    sim = simulation()
    sim.run(7)
    sim.pressure()
    _ = sim.energies, sim.forces, sim.temperature
    sim.run(STEPS - 7)
    assert digest(sim) == plain_run()


def test_molecules_cut_at_the_faces_of_the_box():
    """Files may hold each atom in the box by itself; the barostat moves whole molecules all the same."""
    whole = simulation()
    system, names, positions, vectors = alanine_dipeptide()
    box = whole.state.box
    wrapped = box.cartesian(whole.state.positions)
    assert np.abs(wrapped - positions).max() > 1.0
    again = Simulation(
        system, names, wrapped, box_vectors=vectors, velocities=whole.velocities, seed=11,
        integrator=LANGEVIN, barostat=BAROSTAT,
    )  # fmt: skip
    again.run(16)
    whole.run(16)
    assert again.state.extra["barostat_totals"].tolist() == whole.state.extra["barostat_totals"].tolist()
    assert np.array_equal(again.state.positions, whole.state.positions)
    assert np.array_equal(again.state.box.vectors, whole.state.box.vectors)


@pytest.mark.parametrize("kind", ["velocity-verlet", "bussi", "nose-hoover"])
def test_integrators_across_threads_and_restarts(kind, tmp_path):
    system, names, positions, vectors = alanine_dipeptide()
    bath = {} if kind == "velocity-verlet" else {"temperature": 300.0, "coupling_time": 0.2}
    bath |= {"chain_length": 3} if kind == "nose-hoover" else {}

    def start(threads):
        sim = Simulation(
            system, names, positions, box_vectors=vectors, threads=threads,
            integrator={"kind": kind, "timestep": 0.001, **bath},
        )  # fmt: skip
        sim.constrain()
        sim.draw_velocities(300.0)
        return sim

    whole, part = start(1), start(2)
    whole.run(12)
    part.run(5)
    part.save(tmp_path)
    again = start(3)
    again.load(tmp_path)
    again.run(7)
    assert digest(again) == digest(whole)


def test_input_and_script_agree():
    """The same settings by an input file and by the API are the same simulation."""
    config = load_input("inputs/compare/alanine-dipeptide-triclinic.yaml")
    loaded = load_system(config.system)
    by_input = make_simulation(config, loaded)
    by_script = Simulation(
        loaded.system,
        loaded.topology,
        loaded.positions,
        box_vectors=loaded.vectors,
        integrator=config.integrator_parameters(),
        seed=config.dynamics.seed,
    )
    assert digest(by_input) == digest(by_script)
