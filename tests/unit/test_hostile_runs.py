"""Damage to the files of a run, full disks, signals at bad moments: a line that says what to do, and nothing computed is lost."""

import contextlib
import errno
import json
import os
import signal
from pathlib import Path

import h5py
import numpy as np
import openmm
import pytest
from argon_samples import INPUT, lattice, write_all, write_atoms, write_system
from scipy.spatial.distance import pdist
from typer.testing import CliRunner

from mdsim import cli
from mdsim.box import Box
from mdsim.engine import run as engine_run
from mdsim.engine.run import REQUEUE, say
from mdsim.errors import InputError, OutputError, SimulationError
from mdsim.io import checkpoint as checkpoints
from mdsim.io.checkpoint import load_checkpoint, load_checkpoint_file

OFTEN = [
    "--set", "output.checkpoint={interval: 5}", "--set", "output.trajectory={interval: 2, precision: null}",
    "--set", "output.energies.interval=1",
]  # fmt: skip


@pytest.fixture
def argon(tmp_path) -> Path:
    return write_all(tmp_path).parent


@pytest.fixture
def stopped(argon) -> Path:
    """The directory of an input whose run has 20 steps."""
    assert run(argon, steps=20).exit_code == 0
    return argon


def run(directory: Path, *options: str, steps: int = 30):
    arguments = [str(directory / "input.yaml"), "--output", str(directory / "out"), "--steps", str(steps)]
    return CliRunner().invoke(cli.app, ["run", *arguments, *OFTEN, *options])


def the_error(result, code: int) -> str:
    """The one line of explanation of a command that must have failed with ``code``."""
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    return line


def status(directory: Path) -> tuple[str, int]:
    manifest = json.loads((directory / "out" / "manifest.json").read_text())
    return manifest["status"], manifest["step"]


def cut(path: Path, share: float) -> None:
    os.truncate(path, int(share * path.stat().st_size))


# --- files damaged between two commands --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["trajectory.h5md", "energies.csv", "energies.h5"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
def test_an_output_cut_short_is_noticed(stopped, name, share):
    cut(stopped / "out" / name, share)
    assert name in the_error(run(stopped), 5)


@pytest.mark.parametrize("name", ["trajectory.h5md", "energies.csv", "energies.h5"])
def test_a_directory_in_the_place_of_an_output(stopped, name):
    (stopped / "out" / name).unlink()
    (stopped / "out" / name).mkdir()
    assert name in the_error(run(stopped), 5)


def test_a_damaged_checkpoint_never_takes_the_place_of_the_sound_one(stopped, monkeypatch):
    out = stopped / "out"
    cut(out / "checkpoint.h5", 0.5)
    damaged = (out / "checkpoint.h5").read_bytes()

    def no_more(*arguments):
        raise SimulationError("enough")

    monkeypatch.setattr(engine_run, "_run", no_more)  # killed before its first checkpoint
    the_error(run(stopped), 4)
    assert (out / "checkpoint.damaged.h5").read_bytes() == damaged
    assert load_checkpoint_file(out / "checkpoint.h5").step == 15
    monkeypatch.undo()
    assert run(stopped).exit_code == 0
    assert load_checkpoint_file(out / "checkpoint.prev.h5").step == 25
    with h5py.File(out / "trajectory.h5md") as file:
        assert file["particles/trajectory/position/step"][()].tolist() == list(range(0, 31, 2))


def test_killed_between_the_last_checkpoint_and_the_manifest(stopped):
    path = stopped / "out" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "running", "step": 0}))
    assert run(stopped, steps=20).exit_code == 0
    assert status(stopped) == ("finished", 20)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"settings": 3, "status": 5, "step": 0}', '{"settings": {}, "status": "failed"}'])
def test_a_manifest_that_is_none(stopped, text):
    (stopped / "out" / "manifest.json").write_text(text)
    assert "manifest.json cannot be read" in the_error(run(stopped), 5)


def test_fewer_steps_than_there_are_change_nothing(stopped):
    before = {p.name: p.read_bytes() for p in (stopped / "out").iterdir() if p.name != ".lock"}
    result = run(stopped, steps=10)
    assert result.exit_code == 0
    assert "is at step 20; nothing is left of 10 steps" in result.stderr
    assert {p.name: p.read_bytes() for p in (stopped / "out").iterdir() if p.name != ".lock"} == before


# --- a full disk -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["mdsim.io.results", "mdsim.io.checkpoint"])
def test_a_full_disk_is_told_once_and_the_run_goes_on_later(argon, monkeypatch, module):
    def full(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert run(argon, steps=10).exit_code == 0
    monkeypatch.setattr(f"{module}.write_durably", full)
    assert "No space left" in the_error(run(argon), 5)
    monkeypatch.undo()
    assert run(argon).exit_code == 0
    assert status(argon) == ("finished", 30)
    assert load_checkpoint(argon / "out").step == 30


def test_a_disk_full_from_the_start(argon, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("mdsim.io.durable.write_durably", full)
    assert "trajectory.h5md cannot be written" in the_error(run(argon), 5)
    monkeypatch.undo()
    assert run(argon).exit_code == 0


def test_a_terminal_that_went_away_ends_no_run(argon, monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", closefd=False) as gone:
        monkeypatch.setattr("sys.stderr", gone)
        say("nobody hears this")
        monkeypatch.undo()
        with contextlib.suppress(BrokenPipeError):  # what is left in the buffer
            gone.close()
    os.close(write)


# --- signals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["load_system", "make_simulation", "prepare"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_before_the_first_step(argon, monkeypatch, phase, number):
    def interrupted(*arguments):
        signal.raise_signal(number)
        raise AssertionError("the signal is to end this")

    monkeypatch.setattr(engine_run, phase, interrupted)
    result = run(argon)
    assert result.exit_code == REQUEUE
    assert "before the first step" in result.stderr
    monkeypatch.undo()
    assert run(argon).exit_code == 0
    assert status(argon) == ("finished", 30)


def test_signals_amid_the_run_and_again(argon, monkeypatch):
    save = checkpoints.save_checkpoint

    def save_and_signal(directory, checkpoint):
        if checkpoint.step == 10:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
        return save(directory, checkpoint)

    monkeypatch.setattr(engine_run, "save_checkpoint", save_and_signal)
    assert run(argon).exit_code == REQUEUE
    assert status(argon) == ("interrupted", 10)
    assert load_checkpoint(argon / "out").step == 10


# --- dynamics that breaks ----------------------------------------------------------------------------------------------


def test_a_run_that_breaks_names_atoms_and_term_and_keeps_its_checkpoint(argon):
    hot = ["--set", "dynamics.integrator={kind: velocity-verlet, timestep: 100 fs}", "--set", "dynamics.velocities=3000 K"]
    message = the_error(run(argon, *hot, steps=1000), 4)
    assert "step " in message
    assert "the force of lj" in message
    assert "atom" in message
    assert "AR" in message
    kept = load_checkpoint(argon / "out").step
    state, step = status(argon)
    assert state == "failed"
    assert kept <= step
    again = run(argon, *hot, steps=1000)
    assert the_error(again, 4) == message
    assert f"the last attempt failed: {message.removeprefix('error: ')}" in again.stderr
    shorter = [text.replace("100 fs", "1 fs") for text in hot]
    assert "timestep was '0.1 ps', now '0.001 ps'" in the_error(run(argon, *shorter), 5)
    assert load_checkpoint(argon / "out").step == kept


def test_a_displacement_beyond_the_box_names_the_residue(argon):
    message = the_error(run(argon, "--set", "dynamics.velocities=1e9 K"), 4)
    assert "would move" in message
    assert "AR" in message
    assert "largest force on atom" in message


# --- inputs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "[" * 3000], ids=["alias of itself", "depth"])
def test_sections_without_end(argon, text):
    (argon / "input.yaml").write_text(text)
    assert "input.yaml" in the_error(run(argon), 2)


def test_a_number_of_steps_beyond_all_counting(argon):
    assert "dynamics.steps" in the_error(run(argon, steps=10**18), 2)


def test_a_serialized_system_cut_between_two_forces(argon):
    system = openmm.XmlSerializer.deserialize((argon / "system.xml").read_text())
    bonds = openmm.HarmonicBondForce()
    bonds.addBond(0, 1, 0.5, 1000.0)
    system.addForce(bonds)
    text = openmm.XmlSerializer.serialize(system)
    (argon / "system.xml").write_text(text[: text.index("</Force>") + len("</Force>")])
    message = the_error(run(argon), 2)
    assert "system.xml" in message
    assert "cut off" in message


def test_atoms_too_far_apart_for_fixed_point():
    positions = np.zeros((2, 3))
    for far in (2e3, 1e6, 1e300):
        positions[1, 0] = far
        with pytest.raises(InputError, match="spread over"):
            Box.for_isolated(positions)
        positions[0, 0] = -far
        with pytest.raises(InputError, match="spread over"):
            Box.for_isolated(positions)
        positions[0, 0] = 0.0


def test_a_coordinate_millions_of_boxes_away():
    box = Box(np.diag([2.0, 2.0, 2.0]))
    positions = np.array([[0.5, 0.5, 0.5], [0.5, 1e12, 0.5]])
    with pytest.raises(InputError, match="atom 1 is at"):
        box.fractions(positions)
    positions[1] = 1e5 + 0.5
    fractions, images = box.fractions(positions)
    assert np.allclose(box.cartesian(fractions, images), positions, rtol=0.0, atol=1e-9 * 1e2)


def test_an_output_directory_whose_name_no_disk_takes(argon):
    for name in ("x" * 300, str(argon / "input.yaml" / "out")):
        result = CliRunner().invoke(cli.app, ["run", str(argon / "input.yaml"), "--output", name])
        assert "the output directory" in the_error(result, 5)


def test_saving_where_no_directory_can_be_made(argon):
    from mdsim import Simulation

    system = openmm.XmlSerializer.deserialize((argon / "system.xml").read_text())
    simulation = Simulation(system, positions=lattice(), integrator={"kind": "velocity-verlet", "timestep": 0.002}, threads=1)
    with pytest.raises(OutputError, match="cannot be made"):
        simulation.save(argon / "input.yaml" / "out")
    assert run(argon, steps=5).exit_code == 0
    with pytest.raises(OutputError, match="result of a run"):
        simulation.save(argon / "out")


def test_a_file_changed_under_its_name_is_another_input(stopped):
    pdb = next(stopped.glob("*.pdb"))
    pdb.write_text(pdb.read_text() + "REMARK moved\n")
    assert "system.pdb (sha256) was" in the_error(run(stopped), 5)


def test_a_reporter_that_raises_leaves_a_simulation_that_goes_on(argon):
    from mdsim import Simulation
    from mdsim.reporters import CallbackReporter

    def make() -> Simulation:
        system = openmm.XmlSerializer.deserialize((argon / "system.xml").read_text())
        sim = Simulation(system, positions=lattice(), integrator={"kind": "velocity-verlet", "timestep": 0.002}, threads=1)
        sim.draw_velocities(100.0)
        return sim

    def fail(snapshot):
        raise RuntimeError("of the user's own")

    left_alone, disturbed = make(), make()
    left_alone.run(10)
    disturbed.reporters.append(CallbackReporter(fail, 3, {"energies"}))
    with pytest.raises(RuntimeError, match="of the user's own"):
        disturbed.run(10)
    assert disturbed.state.step == 3
    disturbed.reporters.clear()
    disturbed.run(7)
    assert np.array_equal(disturbed.state.positions, left_alone.state.positions)
    assert np.array_equal(disturbed.state.velocities, left_alone.state.velocities)


def test_one_atom_alone(argon):
    write_system(argon, n=1)
    write_atoms(argon, lattice()[:1])
    assert run(argon).exit_code == 0


@pytest.mark.parametrize("n", [2, 40])
def test_atoms_in_exactly_one_place_are_minimised_apart(argon, n):
    positions = lattice()
    positions[:n] = positions[0]
    write_atoms(argon, positions)
    (argon / "input.yaml").write_text(INPUT.format(minimize="{max_steps: 1000}"))
    assert run(argon).exit_code == 0
    frame = positions_of_first_frame(argon)
    assert pdist(frame).min() > 0.25  # nm; sigma is 0.34


def positions_of_first_frame(directory: Path) -> np.ndarray:
    with h5py.File(directory / "out" / "trajectory.h5md") as file:
        return file["particles/trajectory/position/value"][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"positions": "abc"}, "array of numbers"),
        ({"positions": [[0, 0], [1, 1, 1]]}, "array of numbers"),
        ({"positions": lattice() * 1j}, "array of numbers"),
        ({"system": "x"}, "the system must be"),
        ({"topology": "x"}, "the topology must be"),
        ({"integrator": {}}, "the integrator must be"),
        ({"integrator": None}, "the integrator must be"),
        ({"integrator": {"kind": "bussi", "timestep": 1, "temperature": 1, "seed": 2**70}}, "seed must be"),
        ({"seed": "x"}, "seed must be a whole number"),
        ({"seed": 2**64}, "seed must be a whole number"),
        ({"barostat": {}}, "the barostat must be"),
        ({"threads": 1.5}, "threads must be a whole number"),
        ({"threads": 10**8}, "threads must be a whole number"),
    ],
)
def test_careless_arguments(argon, arguments, message):
    from mdsim import Simulation

    system = openmm.XmlSerializer.deserialize((argon / "system.xml").read_text())
    good = {"integrator": {"kind": "velocity-verlet", "timestep": 0.002}, "threads": 1}
    with pytest.raises(InputError, match=message):
        Simulation(**{"system": system, "positions": lattice(), **good, **arguments})


def test_a_number_of_steps_that_is_none(argon):
    from mdsim import Simulation

    system = openmm.XmlSerializer.deserialize((argon / "system.xml").read_text())
    simulation = Simulation(system, positions=lattice(), integrator={"kind": "velocity-verlet", "timestep": 0.002}, threads=1)
    for steps in (-1, 2.5, "5", None):
        with pytest.raises(InputError, match="the number of steps must be"):
            simulation.run(steps)


def test_closed_standard_error(argon, monkeypatch):
    from mdsim.config import load_input
    from mdsim.engine.run import run_input

    monkeypatch.setattr("sys.stderr", None)
    assert run_input(load_input(argon / "input.yaml", steps=5, output=argon / "out")) == 0
