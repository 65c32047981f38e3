"""Kinetic and potential energies of a small box of rigid water under each thermostat, judged by physical_validation.

    python benchmarks/physics/ensembles.py --picoseconds 100

* kinetic energy: mean and width of its distribution, as temperatures, in standard errors from the gamma distribution at 300 K, and
  the p value of a Kolmogorov-Smirnov test;
* potential energy: two runs at 298 and 310 K; the slope of log p2(U)/p1(U) in standard errors from the difference of 1/kT;
* configurational temperature <|F|^2> / <div F> is not defined under constraints: tests/physics has it for flexible water.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import physical_validation as pv
from water import TEMPERATURE, Water, equilibrated, parser

from mdsim.engine.simulation import Simulation
from mdsim.units import BOLTZMANN

#: friction and coupling times short enough for many independent samples
THERMOSTATS: dict[str, Mapping[str, Any]] = {
    "langevin-middle": {"friction": 2.0},
    "bussi": {"coupling_time": 0.1},
    "nose-hoover": {"coupling_time": 0.2, "chain_length": 4},
}
HOTTER = 310.0  # K
EVERY = 50  # steps between samples
NAMES_OF_UNITS = {
    "energy_str": "kJ/mol", "length_str": "nm", "volume_str": "nm^3",
    "temperature_str": "K", "pressure_str": "bar", "time_str": "ps",
}  # fmt: skip


def run(water: Water, start: Simulation, kind: str, temperature: float, options: Any) -> pv.data.SimulationData:
    """Energies of one run, in the package's form."""
    integrator = {"kind": kind, "timestep": options.timestep, "temperature": temperature, **THERMOSTATS[kind]}
    sim = water.simulation(integrator, threads=options.threads, seed=options.seed)
    sim.restore(start.checkpoint())
    samples = round(options.picoseconds / (options.timestep * EVERY))
    sim.run(EVERY * (samples // 10))
    kinetic, potential = np.empty(samples), np.empty(samples)
    for k in range(samples):
        sim.run(EVERY)
        kinetic[k], potential[k] = sim.kinetic_energy, sim.potential_energy
    return pv.data.SimulationData(
        units=pv.data.UnitData(
            kb=BOLTZMANN, energy_conversion=1.0, length_conversion=1.0, volume_conversion=1.0, temperature_conversion=1.0,
            pressure_conversion=1.0, time_conversion=1.0, **NAMES_OF_UNITS,
        ),
        dt=EVERY * options.timestep,
        system=pv.data.SystemData(
            natoms=3 * water.n, nconstraints=3 * water.n, ndof_reduction_tra=3, ndof_reduction_rot=0, mass=sim.system.masses,
        ),
        ensemble=pv.data.EnsembleData("NVT", natoms=3 * water.n, volume=sim.state.box.volume, temperature=temperature),
        observables=pv.data.ObservableData(kinetic_energy=kinetic, potential_energy=potential, total_energy=kinetic + potential),
    )  # fmt: skip


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--side", type=int, default=5, help="cube root of the number of molecules")
    arguments.add_argument("--picoseconds", type=float, default=100.0)
    arguments.add_argument("--timestep", type=float, default=0.002, help="ps")
    arguments.add_argument("--cutoff", type=float, default=0.75, help="nm")
    options = arguments.parse_args()
    water = Water(options.side, options.cutoff, seed=options.seed)
    start = equilibrated(water, seed=options.seed, threads=options.threads)
    print(f"{water.n} TIP3P waters, {options.picoseconds:g} ps a run, {1000 * options.timestep:g} fs")
    heads = f"{'<T> K':>7} {'T(mean) off':>12} {'T(width) off':>13} {'KS p':>7} {'dU slope off':>13}"
    print(f"{'thermostat':16} {heads}", flush=True)
    for kind in THERMOSTATS:
        low, high = (run(water, start, kind, temperature, options) for temperature in (TEMPERATURE - 2.0, HOTTER))
        mean, width = pv.kinetic_energy.distribution(low, verbosity=0, bootstrap_seed=options.seed)
        p_value = pv.kinetic_energy.distribution(low, strict=True, verbosity=0)
        (slope,) = pv.ensemble.check(low, high, verbosity=0, bootstrap_seed=options.seed)
        degrees = 6 * water.n - 3
        temperature = 2.0 * low.observables.kinetic_energy.mean() / (degrees * BOLTZMANN)
        print(f"{kind:16} {temperature:7.2f} {mean:12.2f} {width:13.2f} {p_value:7.3f} {slope:13.2f}", flush=True)


if __name__ == "__main__":
    main()
