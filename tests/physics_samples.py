"""Assembled systems for the physics tests: small boxes of water in several models, and what a term alone gives."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from dynamics_samples import rotation
from openmm import app

from mdsim.config import SystemConfig
from mdsim.engine.evaluate import ForceEvaluator
from mdsim.engine.simulation import Simulation
from mdsim.forcefield import LoadedSystem, load_system
from mdsim.forces import build_terms

DIPEPTIDE = Path(find_spec("openmmtools").submodule_search_locations[0]) / "data" / "alanine-dipeptide-gbsa"
TEMPERATURE = 300.0  # K
LIQUID = 4**3
#: interactions that end smoothly, so that the energy's error is that of the timestep
SMOOTH = {"nonbondedCutoff": 0.6, "switchDistance": 0.45, "ewaldErrorTolerance": 1e-5}
#: water models whose molecules have a site besides O, H, H
FOUR_SITE = ("tip4pew", "opc")
SPACING = 0.3115  # nm, of the lattice of molecules: the density of TIP3P
HALF_ANGLE, OH = np.radians(104.52 / 2.0), 0.09572


@cache
def water_lattice(side: int, model: str = "tip3p", method: Any = app.PME, **options: Any) -> LoadedSystem:
    """``side``^3 rigid waters, turned at random, on a cubic lattice; ``options`` as ``createSystem`` takes them."""
    rng = np.random.default_rng(3)
    legs = OH * np.array([[np.cos(HALF_ANGLE), sign * np.sin(HALF_ANGLE), 0.0] for sign in (1, -1)])
    molecule = np.concatenate([np.zeros((1, 3)), legs])
    sites = SPACING * np.array(list(np.ndindex(side, side, side)))
    positions = np.concatenate([site + molecule @ rotation(rng) for site in sites])
    vectors = np.eye(3) * side * SPACING
    names = _water_names(len(sites), vectors)
    forcefield = app.ForceField(f"amber14/{model}.xml" if model != "opc" else "amber19/opc.xml")
    built = app.Modeller(names, positions)
    if model in FOUR_SITE:
        built.addExtraParticles(forcefield)
    system = forcefield.createSystem(built.topology, nonbondedMethod=method, **options)
    x = np.array([list(p.value_in_unit(p.unit)) if hasattr(p, "unit") else list(p) for p in built.positions])
    return LoadedSystem(system, built.topology, x, vectors)


def _water_names(n: int, vectors: np.ndarray) -> app.Topology:
    topology = app.Topology()
    topology.setPeriodicBoxVectors(vectors)
    chain = topology.addChain()
    for _ in range(n):
        residue = topology.addResidue("HOH", chain)
        o, h1, h2 = (topology.addAtom(name, app.Element.getBySymbol(name[0]), residue) for name in ("O", "H1", "H2"))
        topology.addBond(o, h1)
        topology.addBond(o, h2)
    return topology


def implicit_dipeptide(model: str) -> LoadedSystem:
    """Alanine dipeptide without constraints in implicit solvent, restrained."""
    section = {
        "prmtop": DIPEPTIDE / "alanine-dipeptide.prmtop",
        "inpcrd": DIPEPTIDE / "alanine-dipeptide.crd",
        "nonbonded": {"method": "NoCutoff"},
        "constraints": "none",
        "implicit_solvent": {"model": model},
        "restraints": [
            {"kind": "position", "atoms": "heavy", "k": "1000 kJ/mol/nm^2"},
            {"kind": "distance", "atoms": [0, 20], "upper": "0.3 nm", "k": "500 kJ/mol/nm^2"},
        ],
    }
    return load_system(SystemConfig.model_validate(section))


def simulate(
    loaded: LoadedSystem, kind: str = "velocity-verlet", timestep: float = 0.002, **options: Any
) -> Simulation:
    """A simulation of ``loaded``; ``options`` that are not the integrator's go to ``Simulation``."""
    bath = {
        name: options.pop(name)
        for name in ("temperature", "friction", "coupling_time", "chain_length")
        if name in options
    }
    return Simulation(
        loaded.system, loaded.topology, loaded.positions, box_vectors=loaded.vectors, threads=options.pop("threads", 1),
        integrator={"kind": kind, "timestep": timestep, **bath}, **options,
    )  # fmt: skip


@cache
def liquid() -> tuple[LoadedSystem, Any]:
    """LIQUID molecules of TIP3P, and a checkpoint of them melted, at 300 K."""
    loaded = water_lattice(4, **SMOOTH)
    sim = simulate(loaded, "langevin-middle", temperature=TEMPERATURE, friction=10.0)
    sim.minimize(max_steps=60)
    sim.draw_velocities(TEMPERATURE)
    sim.run(600)
    return loaded, sim.checkpoint()


def term_evaluators(sim: Simulation) -> dict[str, ForceEvaluator]:
    """Each force term of ``sim`` by itself, with virtual sites placed and their forces handed on; by its first energy's name."""
    evaluators = {}
    for term in _terms_anew(sim):
        alone = ForceEvaluator(sim.backend, sim.comm, [term], sim.evaluator.sites, sim.timers)
        alone.bind(sim.domain.view(sim.state))
        evaluators[_free_name(alone.names[0], evaluators)] = alone
    return evaluators


def _terms_anew(sim: Simulation) -> list[Any]:
    """Terms like those of ``sim``, made anew, since an evaluator numbers the energies of the terms it takes."""
    return build_terms(sim.system, sim.backend, sim.state.box)


def _free_name(name: str, taken: dict[str, Any]) -> str:
    return name if name not in taken else _free_name(f"{name}'", taken)
