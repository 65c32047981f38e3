"""Boxes of rigid TIP3P water, and what the scripts beside this one share."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from openmm import app
from scipy.spatial.transform import Rotation

from mdsim.engine.simulation import Simulation

TEMPERATURE = 300.0  # K
MOLAR_MASS = 18.0154  # g/mol
MOLECULES = 602.214076  # per nm^3, in a mole per mL: density = n M / (V MOLECULES) in g/mL
DENSITY = 0.985  # g/mL, at the start


class Water:
    """``side``^3 molecules of TIP3P, turned at random, on a cubic lattice at 0.985 g/mL; it melts within picoseconds.

    Attributes
    ----------
    system : openmm.System
        PME; rigid molecules; long-range dispersion correction.
    topology : openmm.app.Topology
    positions, vectors : float64[3 n, 3], float64[3, 3], nm
    """

    def __init__(
        self, side: int, cutoff: float = 0.9, switch: float | None = None, tolerance: float = 5e-4, seed: int = 1
    ) -> None:
        self.n = side**3
        edge = (self.n * MOLAR_MASS / (MOLECULES * DENSITY)) ** (1 / 3)
        self.vectors = np.eye(3) * edge
        self.positions = self._lattice(side, edge, np.random.default_rng(seed))
        self.topology = self._names()
        options: dict[str, Any] = {} if switch is None else {"switchDistance": switch}
        self.system = app.ForceField("amber14/tip3p.xml").createSystem(
            self.topology, nonbondedMethod=app.PME, nonbondedCutoff=cutoff, ewaldErrorTolerance=tolerance, **options
        )

    @staticmethod
    def _lattice(side: int, edge: float, rng: np.random.Generator) -> np.ndarray:
        """O, H, H of each molecule, nm."""
        half_angle, length = np.radians(104.52 / 2.0), 0.09572
        legs = length * np.array(
            [[np.cos(half_angle), np.sin(half_angle), 0], [np.cos(half_angle), -np.sin(half_angle), 0]]
        )
        molecule = np.concatenate([np.zeros((1, 3)), legs])
        sites = np.array(list(np.ndindex(side, side, side))) * (edge / side)
        turns = Rotation.random(side**3, random_state=rng).as_matrix()
        return (sites[:, None, :] + np.einsum("nij,aj->nai", turns, molecule)).reshape(-1, 3)

    def _names(self) -> app.Topology:
        topology = app.Topology()
        chain = topology.addChain()
        oxygen, hydrogen = app.element.oxygen, app.element.hydrogen
        for _ in range(self.n):
            residue = topology.addResidue("HOH", chain)
            o, h1, h2 = (
                topology.addAtom(*atom, residue) for atom in (("O", oxygen), ("H1", hydrogen), ("H2", hydrogen))
            )
            topology.addBond(o, h1)
            topology.addBond(o, h2)
        topology.setPeriodicBoxVectors(self.vectors)
        return topology

    def simulation(self, integrator: dict[str, Any], threads: int | None = None, **options: Any) -> Simulation:
        return Simulation(
            self.system, self.topology, self.positions, box_vectors=self.vectors, integrator=integrator,
            threads=threads, **options,
        )  # fmt: skip


def langevin(timestep: float = 0.002, friction: float = 1.0) -> dict[str, Any]:
    return {"kind": "langevin-middle", "timestep": timestep, "temperature": TEMPERATURE, "friction": friction}


def equilibrated(water: Water, picoseconds: float = 20.0, seed: int = 1, threads: int | None = None) -> Simulation:
    """Minimised, then ``picoseconds`` of Langevin dynamics at constant volume."""
    sim = water.simulation(langevin(friction=5.0), seed=seed, threads=threads)
    sim.minimize(max_steps=200)
    sim.draw_velocities(TEMPERATURE)
    sim.run(round(picoseconds / 0.002))
    return sim


def parser(description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--seed", type=int, default=1)
    return made


def block_average(values: np.ndarray, n_blocks: int = 10) -> tuple[float, float]:
    """Mean and its standard error from ``n_blocks`` blocks."""
    values = np.asarray(values)
    blocks = values[: len(values) // n_blocks * n_blocks].reshape(n_blocks, -1).mean(axis=1)
    return float(values.mean()), float(blocks.std(ddof=1) / np.sqrt(n_blocks))
