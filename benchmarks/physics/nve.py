"""Drift and fluctuation of the energy of rigid TIP3P water under velocity Verlet, by timestep and by settings.

    python benchmarks/physics/nve.py --picoseconds 100

The drift is the slope of a straight line through the total energy, per degree of freedom. Its error comes from the scatter of ten
blocks about that line; it may be far too small where interactions jump at the cutoff: repeat with other seeds
there. The fluctuation is the rms about the line: it falls as dt^2 where the forces are smooth and conservative.
"""

from __future__ import annotations

import numpy as np
from water import Water, equilibrated, parser

from mdsim.engine.simulation import Simulation

#: name -> switch nm, PME tolerance
SETTINGS = {
    "PME 5e-4, LJ cut at 0.9": (None, 5e-4),
    "PME 5e-4, LJ switched 0.75-0.9": (0.75, 5e-4),
    "PME 1e-5, LJ switched 0.75-0.9": (0.75, 1e-5),
}
CUTOFF = 0.9  # nm
SAMPLE = 0.1  # ps


def total_energies(sim: Simulation, picoseconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Times (ps) and total energies (kJ/mol)."""
    every = round(SAMPLE / sim.integrator.timestep)
    times, energies = [], []
    for _ in range(round(picoseconds / SAMPLE)):
        sim.run(every)
        times.append(sim.time)
        energies.append(sim.potential_energy + sim.kinetic_energy)
    return np.array(times), np.array(energies)


def drift_and_noise(times: np.ndarray, energies: np.ndarray) -> tuple[float, float, float]:
    """Slope and its standard error, kJ/mol/ns, and the rms about the line, kJ/mol."""
    slope, offset = np.polyfit(times, energies, 1)
    rest = energies - slope * times - offset
    blocks = rest[: len(rest) // 10 * 10].reshape(10, -1).mean(axis=1)
    spread = np.sqrt(((times - times.mean()) ** 2).mean())
    error = blocks.std(ddof=1) / np.sqrt(10) / spread
    return 1000.0 * slope, 1000.0 * error, float(rest.std())


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--side", type=int, default=6, help="cube root of the number of molecules")
    arguments.add_argument("--picoseconds", type=float, default=100.0)
    arguments.add_argument("--timesteps", type=float, nargs="+", default=[0.002], help="ps")
    arguments.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    options = arguments.parse_args()
    print(f"{options.side**3} waters, {options.picoseconds:g} ps each")
    print(f"{'settings':32} {'dt fs':>6} {'drift kJ/mol/ns/dof':>20} {'error':>8} {'rms kJ/mol':>11}", flush=True)
    for name in options.settings:
        switch, tolerance = SETTINGS[name]
        water = Water(options.side, CUTOFF, switch, tolerance, seed=options.seed)
        start = equilibrated(water, seed=options.seed, threads=options.threads)
        for timestep in options.timesteps:
            sim = water.simulation({"kind": "velocity-verlet", "timestep": timestep}, threads=options.threads)
            sim.restore(start.checkpoint())
            sim.run(round(1.0 / timestep))
            degrees = sim.integrator.degrees_of_freedom
            drift, error, rms = drift_and_noise(*total_energies(sim, options.picoseconds))
            print(
                f"{name:32} {1000 * timestep:6.2f} {drift / degrees:20.5f} {error / degrees:8.5f} {rms:11.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
