"""``mdsim bench``: mdsim and OpenMM's CPU platform in turn, in one process, on the same system, settings and threads."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter

from rich.console import Console
from rich.table import Table

from mdsim.backends.cpu import available_cores
from mdsim.config import RunConfig
from mdsim.engine.run import make_simulation, prepare, say
from mdsim.engine.simulation import Simulation
from mdsim.errors import InputError
from mdsim.forcefield import LoadedSystem, load_system
from mdsim.forcefield.platforms import openmm_version
from mdsim.forcefield.runner import openmm_runner
from mdsim.version import __version__

SECONDS_PER_DAY = 86400.0
#: steps of each engine before the clock starts
WARM_UP = 30


@dataclass
class Timing:
    """Seconds of each timed block of one engine."""

    name: str
    steps: int
    timestep: float  # ps
    seconds: list[float] = field(default_factory=list)

    @property
    def median_ms(self) -> float:
        """Milliseconds a step in the middle one of the blocks."""
        return 1e3 * median(self.seconds) / self.steps

    @property
    def ns_per_day(self) -> float:
        return self.timestep * 1e-3 / (self.median_ms * 1e-3) * SECONDS_PER_DAY


def bench_input(
    config: RunConfig, *, steps: int = 200, blocks: int = 3, with_openmm: bool = True, save: Path | None = None
) -> int:
    """Time both engines in turn and print ns/day and where mdsim's time goes; ``save`` writes the figures as JSON."""
    if steps < 1 or blocks < 1:
        raise InputError(f"a benchmark needs at least one step and one block, got --steps {steps} --blocks {blocks}")
    loaded = load_system(config.system)
    sim = make_simulation(config, loaded)
    say("preparing (the first run on a machine compiles the kernels, which takes a minute or two)")
    prepare(config, sim)
    threads = sim.backend.n_threads
    engines: list[tuple[Timing, Callable[[int], None]]] = [(Timing("mdsim", steps, config.dynamics.timestep), sim.run)]
    if with_openmm:
        state = sim.state
        vectors = state.box.vectors if state.box.periodic else None
        advance = openmm_runner(config, loaded.system, sim.positions, sim.velocities, vectors, threads)
        engines.append((Timing("OpenMM CPU", steps, config.dynamics.timestep), advance))
    for _, run in engines:
        run(WARM_UP)
    sim.timers.reset()
    for _ in range(blocks):
        for timing, run in engines:
            timing.seconds.append(_seconds(run, steps))
    parts = _milliseconds_by_part(sim, steps * blocks, sum(engines[0][0].seconds))
    timings = [timing for timing, _ in engines]
    _print(config, loaded, threads, timings, parts)
    if save is not None:
        _save(save, config, loaded, threads, timings, parts)
    return 0


def _seconds(run: Callable[[int], None], steps: int) -> float:
    start = perf_counter()
    run(steps)
    return perf_counter() - start


def _milliseconds_by_part(sim: Simulation, steps: int, seconds: float) -> dict[str, float]:
    """Milliseconds a step by part, largest first; what no part counts is ``rest``."""
    parts = {name: 1e3 * value / steps for name, value in sim.timers.report().items()}
    parts["rest"] = max(0.0, 1e3 * seconds / steps - sum(parts.values()))
    return dict(sorted(parts.items(), key=lambda item: -item[1]))


def _print(
    config: RunConfig, loaded: LoadedSystem, threads: int, timings: list[Timing], parts: dict[str, float]
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 100)
    plural = "s" * (threads != 1)
    console.print(f"{config.title or 'benchmark'}: {loaded.system.getNumParticles()} particles, {threads} thread{plural}")
    table = Table("engine", "ms/step", "ns/day", "blocks, ms/step", box=None, pad_edge=False)
    for timing in timings:
        blocks = " ".join(f"{1e3 * s / timing.steps:.3g}" for s in timing.seconds)
        table.add_row(timing.name, f"{timing.median_ms:.3f}", f"{timing.ns_per_day:.2f}", blocks)
    console.print(table)
    if len(timings) == 2:
        console.print(f"mdsim makes {timings[0].ns_per_day / timings[1].ns_per_day:.2f} times the ns/day of OpenMM's CPU platform")
    table = Table("part of mdsim's step", "ms/step", box=None, pad_edge=False)
    for name, milliseconds in parts.items():
        table.add_row(name, f"{milliseconds:.3f}")
    console.print(table)


def _save(
    path: Path,
    config: RunConfig,
    loaded: LoadedSystem,
    threads: int,
    timings: list[Timing],
    parts: dict[str, float],
) -> None:
    """The figures and what they were measured on, as JSON."""
    from mdsim.doctor import cpu_model

    record = {
        "title": config.title,
        "particles": loaded.system.getNumParticles(),
        "settings": config.settings(),
        "threads": threads,
        "cores": available_cores(),
        "cpu": cpu_model(),
        "python": platform.python_version(),
        "mdsim": __version__,
        "openmm": openmm_version(),
        "engines": [{**asdict(t), "median_ms": t.median_ms, "ns_per_day": t.ns_per_day} for t in timings],
        "mdsim_ms_by_part": parts,
    }
    path.write_text(json.dumps(record, indent=2) + "\n")
