"""Density at 1 bar, and pressure at a fixed density, of rigid TIP3P water: mdsim against OpenMM's CPU platform.

    python benchmarks/physics/bulk_water.py --side 7 --picoseconds 100

Both engines run the same System from the same start with LangevinMiddle (300 K, 1/ps, 2 fs), PME, and for the density the Monte
Carlo barostat every 25 steps. Errors are those of ten blocks.
"""

from __future__ import annotations

import time

import numpy as np
import openmm
from openmm import unit
from water import MOLAR_MASS, MOLECULES, TEMPERATURE, Water, block_average, equilibrated, langevin, parser

from mdsim.engine.simulation import Simulation

PRESSURE, FREQUENCY = 1.0, 25  # bar, steps
EVERY = 50  # steps between samples
TIMESTEP = 0.002  # ps


class Mdsim:
    """What the script asks of an engine."""

    name = "mdsim"

    def __init__(self, water: Water, start: Simulation, constant_pressure: bool, threads: int, seed: int) -> None:
        barostat = {"kind": "isotropic", "pressure": PRESSURE, "frequency": FREQUENCY} if constant_pressure else None
        self.sim = water.simulation(langevin(TIMESTEP), threads=threads, seed=seed, barostat=barostat)
        self.sim.restore(start.checkpoint())

    def step(self, n: int) -> None:
        self.sim.run(n)

    def volume(self) -> float:
        return float(self.sim.state.box.volume)

    def pressure(self) -> float:
        return self.sim.pressure()


class OpenMM:
    """The same by OpenMM. At constant volume the barostat that measures the pressure makes no moves."""

    name = "OpenMM"

    def __init__(self, water: Water, start: Simulation, constant_pressure: bool, threads: int, seed: int) -> None:
        system = openmm.XmlSerializer.clone(water.system)
        self.barostat = openmm.MonteCarloBarostat(PRESSURE, TEMPERATURE, FREQUENCY if constant_pressure else 0)
        self.barostat.setRandomNumberSeed(seed)
        system.addForce(self.barostat)
        integrator = openmm.LangevinMiddleIntegrator(TEMPERATURE, 1.0, TIMESTEP)
        integrator.setRandomNumberSeed(seed)
        platform = openmm.Platform.getPlatformByName("CPU")
        self.context = openmm.Context(system, integrator, platform, {"Threads": str(threads)})
        self.context.setPeriodicBoxVectors(*(openmm.Vec3(*row) for row in start.state.box.vectors.tolist()))
        self.context.setPositions(start.positions)
        self.context.setVelocities(start.velocities)
        self.step = integrator.step

    def volume(self) -> float:
        return float(self.context.getState().getPeriodicBoxVolume().value_in_unit(unit.nanometer**3))

    def pressure(self) -> float:
        return float(self.barostat.computeCurrentPressure(self.context).value_in_unit(unit.bar))


def sample(engine: Mdsim | OpenMM, quantity: str, picoseconds: float) -> np.ndarray:
    values = []
    for _ in range(round(picoseconds / (TIMESTEP * EVERY))):
        engine.step(EVERY)
        values.append(getattr(engine, quantity)())
    return np.array(values)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--side", type=int, default=7, help="cube root of the number of molecules")
    arguments.add_argument("--picoseconds", type=float, default=100.0)
    arguments.add_argument("--cutoff", type=float, default=0.9, help="nm")
    options = arguments.parse_args()
    water = Water(options.side, options.cutoff, seed=options.seed)
    start = equilibrated(water, seed=options.seed, threads=options.threads)
    print(f"{water.n} TIP3P waters, {options.picoseconds:g} ps, cutoff {options.cutoff:g} nm, seed {options.seed}")
    for quantity, label in (("volume", "density, g/mL"), ("pressure", "pressure, bar")):
        results = []
        for kind in (Mdsim, OpenMM):
            began = time.perf_counter()
            engine = kind(water, start, quantity == "volume", options.threads, options.seed)
            engine.step(round(0.1 * options.picoseconds / TIMESTEP))
            values = sample(engine, quantity, options.picoseconds)
            if quantity == "volume":
                values = water.n * MOLAR_MASS / MOLECULES / values
            mean, error = block_average(values)
            results.append((mean, error))
            print(
                f"{label:16} {engine.name:8} {mean:10.4f} +- {error:.4f}   ({time.perf_counter() - began:.0f} s)",
                flush=True,
            )
        (mine, error), (theirs, their_error) = results
        print(f"{label:16} apart by {(mine - theirs) / np.hypot(error, their_error):.2f} standard errors", flush=True)


if __name__ == "__main__":
    main()
