"""``mdsim run``: a run that can be trusted. It resumes where it stopped, stops when asked, and never overwrites a result."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import FrameType

import numpy as np

from mdsim.config import RunConfig
from mdsim.engine.outputs import OUTPUT_FILES, make_reporters
from mdsim.engine.simulation import Simulation
from mdsim.errors import InputError, OutputError
from mdsim.forcefield import LoadedSystem, load_system
from mdsim.forces import ForceOptions
from mdsim.io.checkpoint import Checkpoint, CheckpointWarning, load_checkpoint, put_damaged_aside, save_checkpoint
from mdsim.io.fingerprint import system_fingerprint
from mdsim.io.results import FAILED, FINISHED, INTERRUPTED, PREPARING, RUNNING, ResultDirectory
from mdsim.reporters import ProgressReporter

#: exit code of a run that a signal stopped after a checkpoint: batch scripts requeue on it (EX_TEMPFAIL)
REQUEUE = 75
#: finish the step, write a checkpoint, stop
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


def run_input(config: RunConfig) -> int:
    """Run, or go on with, what ``config`` describes.

    Returns
    -------
    int
        0 when the run has all its steps, ``REQUEUE`` when a signal stopped it. Raises MdsimError otherwise; the checkpoint
        and all that was written up to it are kept.
    """
    directory = config.output.directory
    details = {"input": config.model_dump(mode="json")}
    with stop_on_signal() as stopping, ResultDirectory(directory, config.settings(), details=details) as results:
        try:
            return _run_in(results, config, stopping)
        except KeyboardInterrupt:  # what ``stopping`` makes of a signal before the first step
            say("stopped by a signal before the first step of this command; the same command starts again")
            return REQUEUE


def _run_in(results: ResultDirectory, config: RunConfig, stopping: _Stop) -> int:
    """Find out what is left to do in the result directory, and do it."""
    checkpoint, steps = _load(results.path), config.dynamics.n_steps
    if checkpoint is None and results.resumed:
        clear_unfinished_start(results)
    if checkpoint is not None and (checkpoint.step > steps or (checkpoint.step == steps and results.finished)):
        say(
            f"{results.path} is at step {checkpoint.step}; nothing is left of {steps} steps. Give more steps to go on from there"
        )
        return 0
    if results.status == FAILED:
        say(f"the last attempt failed: {results.manifest.get('message', '')}")
    say("reading the system")
    loaded = load_system(config.system)
    sim = make_simulation(config, loaded)
    for note in (*loaded.notes, *sim.system.notes):
        say(f"note: {note}")
    if checkpoint is not None:
        checkpoint.check_same_run(system_fingerprint(sim.system), config.settings(), results.path)
    try:
        return _run(config, sim, results, checkpoint, stopping)
    except Exception as error:
        with suppress(OutputError):  # on a full disk this fails too; the first error is the one to tell
            results.set_status(FAILED, sim.state.step, str(error))
        raise


def make_simulation(config: RunConfig, loaded: LoadedSystem) -> Simulation:
    """The simulation that an input describes, at its first step, not yet minimised."""
    return Simulation(
        loaded.compile(),
        loaded.names,
        loaded.positions,
        box_vectors=loaded.vectors,
        velocities=_velocities(config, loaded),
        integrator=config.integrator_parameters(),
        barostat=config.barostat_parameters(),
        seed=config.dynamics.seed,
        backend=config.compute.backend,
        threads=config.compute.n_threads,
        force_options=ForceOptions(**config.force_parameters()),
        remove_cm_motion=config.dynamics.remove_cm_motion,
    )


def _velocities(config: RunConfig, loaded: LoadedSystem) -> np.ndarray | None:
    if config.dynamics.velocities != "file":
        return None
    if loaded.velocities is None:
        raise InputError(
            "dynamics.velocities is 'file', but the coordinate file holds no velocities; write a temperature"
        )
    return loaded.velocities


def prepare(config: RunConfig, sim: Simulation) -> None:
    """Before the first step: minimise, obey the constraints, draw velocities."""
    dynamics = config.dynamics
    if dynamics.minimize:
        say("minimising the energy")
        result = sim.minimize(tolerance=dynamics.minimize.tolerance, max_steps=dynamics.minimize.max_steps)
        ended = (
            "" if result.converged else f"; max_steps reached before the tolerance of {dynamics.minimize.tolerance:g}"
        )
        say(
            f"minimised in {result.steps} steps to {result.energy:.1f} kJ/mol, rms force {result.rms_force:.1f} "
            f"kJ/mol/nm{ended}"
        )
    sim.constrain()
    if dynamics.initial_temperature is not None:
        sim.draw_velocities(dynamics.initial_temperature)


def _run(
    config: RunConfig, sim: Simulation, results: ResultDirectory, checkpoint: Checkpoint | None, stopping: _Stop
) -> int:
    steps, directory = config.dynamics.n_steps, config.output.directory
    with ExitStack() as stack:
        if checkpoint is not None:
            sim.restore(checkpoint)
            say(f"going on from step {checkpoint.step} of {steps}")
        say("loading the compute kernels (the first run on a machine compiles them, which takes a minute or two)")
        if checkpoint is None:
            prepare(config, sim)
        sim.compute_forces()
        stopping.at_once = False
        reporters = make_reporters(config, sim, checkpoint)
        for reporter in reporters:
            stack.callback(reporter.close)
        progress = ProgressReporter(max(1, min(100, steps // 20)), steps)
        stack.callback(progress.close)
        sim.reporters = [*reporters, progress]
        settings = config.settings()

        def save() -> None:
            for reporter in reporters:
                reporter.sync()
            counts = {r.name: n for r in reporters if (n := r.count()) is not None}
            save_checkpoint(directory, sim.checkpoint(settings, counts))

        if checkpoint is None:
            sim.report()
            save()
        results.set_status(RUNNING, sim.state.step)
        progress.start(sim.state.step, sim.time)
        due = CheckpointClock(config)
        while sim.state.step < steps and not stopping():
            sim.run(steps - sim.state.step, stop=lambda: stopping() or due(sim.state.step))
            save()
            due.saved(sim.state.step)
    finished = sim.state.step >= steps
    results.set_status(FINISHED if finished else INTERRUPTED, sim.state.step)
    if finished:
        say(f"done: {steps} steps in {directory}")
        return 0
    say(
        f"stopped by a signal at step {sim.state.step} of {steps} after a checkpoint; the same command goes on from there"
    )
    return REQUEUE


class CheckpointClock:
    """Says after which steps a checkpoint is due: every so many steps, or once so much time has passed."""

    def __init__(self, config: RunConfig) -> None:
        wanted = config.output.checkpoint
        self.interval = config.every(wanted.interval) if wanted.interval is not None else None
        self.wall_interval = wanted.wall_interval
        self.last = monotonic()

    def __call__(self, step: int) -> bool:
        by_step = self.interval is not None and step % self.interval == 0
        return by_step or (self.wall_interval is not None and monotonic() - self.last >= self.wall_interval)

    def saved(self, step: int) -> None:
        self.last = monotonic()


@contextmanager
def stop_on_signal() -> Iterator[_Stop]:
    """Within this context the stop signals are told to the value of the context."""
    stop = _Stop()
    before = {number: signal.signal(number, stop.request) for number in STOP_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Stop:
    """Remembers whether a signal came; while ``at_once``, raises KeyboardInterrupt, for there is nothing yet to be kept."""

    def __init__(self) -> None:
        self.requested, self.at_once = False, True

    def __call__(self) -> bool:
        return self.requested

    def request(self, number: int, frame: FrameType | None) -> None:
        again, self.requested = self.requested, True
        if self.at_once:
            raise KeyboardInterrupt
        if not again:
            say(f"{signal.Signals(number).name} received: finishing the step, then a checkpoint")


def clear_unfinished_start(results: ResultDirectory) -> None:
    """Remove the files of a run that was stopped before its first checkpoint: they hold nothing beyond the first frame."""
    if results.status not in (PREPARING, FAILED) or results.manifest["step"] > 0:
        raise OutputError(
            f"{results.describe()}, but its checkpoints are gone, and without one it cannot go on. Put them back, or choose "
            "another output directory"
        )
    for name in OUTPUT_FILES:
        (results.path / name).unlink(missing_ok=True)


def _load(directory: Path) -> Checkpoint | None:
    """The checkpoint to go on from; a damaged one that has a predecessor is worth a line, not a traceback."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CheckpointWarning)
        checkpoint = load_checkpoint(directory)
    for warning in caught:
        say(f"warning: {warning.message}")
    if caught:
        put_damaged_aside(directory)
    return checkpoint


def say(message: str) -> None:
    """A line for the person at the terminal (stderr, so that it never mixes with results).

    A terminal that went away, a full disk under a log, or a signal amid another line must not end a run.
    """
    with suppress(OSError, RuntimeError):
        print(message, file=sys.stderr, flush=True)


__all__ = ["REQUEUE", "OutputError", "make_simulation", "prepare", "run_input"]
