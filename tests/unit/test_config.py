"""Input files: what is read, and for each kind of mistake a message with the line, the key and the remedy."""

from pathlib import Path

import pytest

from mdsim.config import Interval, config_from_dict, load_input
from mdsim.errors import InputError

GOOD = """\
system:
  pdb: package:openmm/app/data/test.pdb
  forcefield: [amber14-all.xml, amber14/tip3pfb.xml]
  nonbonded:
    cutoff: 9 Å
dynamics:
  steps: 100
  integrator:
    kind: langevin-middle
    timestep: 2 fs
    temperature: 300 K
output:
  trajectory:
    interval: 1 ps
compute:
  threads: 2
"""


def write(directory: Path, text: str) -> Path:
    path = directory / "input.yaml"
    path.write_text(text)
    return path


def error_of(directory: Path, text: str, overrides=()) -> str:
    with pytest.raises(InputError) as caught:
        load_input(write(directory, text), overrides)
    return str(caught.value)


def test_good_input(tmp_path):
    config = load_input(write(tmp_path, GOOD))
    assert config.system.nonbonded.cutoff == 0.9
    assert config.system.pdb.name == "test.pdb"
    assert config.dynamics.timestep == 0.002
    assert config.dynamics.n_steps == 100
    assert config.dynamics.initial_temperature == 300.0
    assert config.every(config.output.trajectory.interval) == 500
    assert config.compute.n_threads == 2
    assert config.output.directory == Path("results/input")


def test_files_are_relative_to_the_input(tmp_path):
    (tmp_path / "mine.pdb").write_text("END\n")
    config = load_input(write(tmp_path, GOOD.replace("package:openmm/app/data/test.pdb", "mine.pdb")))
    assert config.system.pdb == tmp_path / "mine.pdb"


def test_what_is_written_is_read_back(tmp_path):
    config = load_input(write(tmp_path, GOOD))
    assert config_from_dict(config.model_dump(mode="json", exclude_unset=True)) == config


#: text in GOOD, its replacement, the key that the message must name, and part of the remedy
MISTAKES = [
    ("cutoff: 9 Å", "cutof: 9 Å", "line 5: system.nonbonded.cutof", "did you mean cutoff?"),
    ("output:", "outptu:", "line 12: outptu", "did you mean output?"),
    ("steps: 100", "stesp: 100", "line 7: dynamics.stesp", "did you mean steps?"),
    ("cutoff: 9 Å", "cutoff: 0.9", "line 5: system.nonbonded.cutoff", "write for instance '0.9 nm'"),
    ("cutoff: 9 Å", "cutoff: 9 A", "line 5: system.nonbonded.cutoff", "for A write Å"),
    ("cutoff: 9 Å", "cutoff: -1 nm", "line 5: system.nonbonded.cutoff", "greater than 0 nm"),
    ("cutoff: 9 Å", "switch_distance: 1 nm", "system.nonbonded.switch_distance", "smaller distance"),
    ("cutoff: 9 Å", "method: pme", "line 5: system.nonbonded.method", "one of PME, LJPME"),
    ("cutoff: 9 Å", "pme_grid: [4, 4, 4]", "system.nonbonded.pme_grid", "[64, 64, 64]"),
    ("cutoff: 9 Å", "pme_grid: [40, 40]", "system.nonbonded.pme_grid", "is missing"),
    ("cutoff: 9 Å", "ewald_tolerance: 2", "system.nonbonded.ewald_tolerance", "less than 1"),
    ("amber14-all.xml", "amber41-all.xml", "line 3: system.forcefield[0]", "amber14-all.xml"),
    ("test.pdb", "tets.pdb", "line 2: system.pdb", "did you mean test.pdb?"),
    ("package:openmm/", "package:openmn/", "line 2: system.pdb", "pip install 'openmn'"),
    ("  pdb: package:openmm/app/data/test.pdb\n", "", "system.forcefield", "needs 'pdb' beside it"),
    ("pdb: package", "prmtop: package", "line 2: system.prmtop", "give one of: pdb + forcefield"),
    ("  forcefield:", "  constraints: all-bonds\n  forcefield:", "line 3: system.constraints", "write h-bonds"),
    ("  forcefield:", "  hydrogen_mass: 3\n  forcefield:", "line 3: system.hydrogen_mass", "'1.5 amu'"),
    ("  forcefield:", "  implicit_solvent: {model: OBC2}\n  forcefield:", "system.implicit_solvent", "method: NoCutoff"),
    ("  forcefield:", "  modeller: {solvate: {}}\n  forcefield:", "system.modeller.solvate.padding", "padding, box, n_waters"),
    (
        "  forcefield:",
        "  restraints: [{kind: distance, atoms: [1, 2], lower: 3 nm, upper: 2 nm}]\n  forcefield:",
        "line 3: system.restraints[0].lower",
        "swap them",
    ),
    ("steps: 100", "steps: ten", "line 7: dynamics.steps", "a whole number, got 'ten'"),
    ("steps: 100", "steps: -1", "line 7: dynamics.steps", "greater than or equal to 0"),
    ("steps: 100", "steps: 100\n  duration: 1 ns", "line 8: dynamics.duration", "either steps"),
    ("steps: 100", "duration: 3.001 fs", "line 7: dynamics.duration", "multiple of the timestep"),
    ("  steps: 100\n", "", "dynamics", "'steps: 50000'"),
    ("kind: langevin-middle", "kind: langevin", "line 9: dynamics.integrator.kind", "did you mean langevin-middle?"),
    ("    kind: langevin-middle\n", "", "dynamics.integrator", "needs a 'kind'"),
    ("timestep: 2 fs", "timestep: 2", "line 10: dynamics.integrator.timestep", "'2 fs'"),
    ("    timestep: 2 fs\n", "", "dynamics.integrator.timestep", "is missing"),
    ("temperature: 300 K", "temperature: 300 k", "line 11: dynamics.integrator.temperature", "for k write K"),
    ("steps: 100", "steps: 100\n  seed: -5", "line 8: dynamics.seed", "greater than or equal to 0"),
    ("steps: 100", "steps: 100\n  barostat: {kind: isotropic}", "dynamics.barostat.pressure", "'pressure: 1 bar'"),
    ("steps: 100", "steps: 100\n  minimize: {max_step: 3}", "line 8: dynamics.minimize.max_step", "did you mean max_steps?"),
    ("interval: 1 ps", "interval: 1.5", "line 14: output.trajectory.interval", "whole number of steps or a time"),
    ("interval: 1 ps", "interval: 3 fs", "line 14: output.trajectory.interval", "multiple of the timestep"),
    ("interval: 1 ps", "interval: 0", "line 14: output.trajectory.interval", "write for instance 500"),
    ("interval: 1 ps", "selection: lignad", "line 14: output.trajectory.selection", "all, solute"),
    ("threads: 2", "threads: two", "line 16: compute.threads", "whole number or auto"),
    ("threads: 2", "threads: 0", "line 16: compute.threads", "at least 1"),
    ("threads: 2", "backend: cuda", "line 16: compute.backend", "must be cpu"),
    ("threads: 2", "pme_order: 6", "line 16: compute.pme_order", "4 or 5"),
]


@pytest.mark.parametrize(("old", "new", "key", "remedy"), MISTAKES, ids=[m[1].strip()[:40] for m in MISTAKES])
def test_each_mistake_names_key_and_remedy(tmp_path, old, new, key, remedy):
    assert old in GOOD
    message = error_of(tmp_path, GOOD.replace(old, new, 1))
    assert key in message
    assert remedy in message
    assert "input.yaml" in message


def test_all_mistakes_are_told_at_once(tmp_path):
    text = GOOD.replace("cutoff", "cutof").replace("steps: 100", "steps: ten").replace("threads: 2", "threads: two")
    message = error_of(tmp_path, text)
    assert "3 problems" in message
    assert all(f"line {n}:" in message for n in (5, 7, 16))


def test_a_single_mistake_is_one_line(tmp_path):
    assert "\n" not in error_of(tmp_path, GOOD.replace("cutoff", "cutof"))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("system: [", "line 1: not valid YAML"),
        ("system:\n\tpdb: a", "line 2: not valid YAML"),
        ("", "must hold the sections"),
        ("- 1\n- 2\n", "must hold the sections"),
        ("a: 1\na: 2\n", "line 2: 'a' is given twice (first on line 1)"),
        ("system:\ndynamics:\n", "system: must be a section"),
    ],
)
def test_malformed_files(tmp_path, text, part):
    assert part in error_of(tmp_path, text).replace("input.yaml, line", "line")


def test_missing_file_suggests_its_neighbour(tmp_path):
    write(tmp_path, GOOD)
    with pytest.raises(InputError, match=r"did you mean .*input\.yaml\?"):
        load_input(tmp_path / "inputs.yaml")


def test_overrides_are_laid_over_and_checked_alike(tmp_path):
    path = write(tmp_path, GOOD)
    config = load_input(path, ["dynamics.integrator.timestep=1 fs", "output.energies=false", "dynamics.barostat.kind=none"])
    assert config.dynamics.timestep == 0.001
    assert config.output.energies is False
    assert config.dynamics.barostat is None
    for override, part in [
        ("dynamics.integrator.timstep=1 fs", "did you mean timestep?"),
        ("dynamics.integrator.timestep=1", "--set dynamics.integrator.timestep=1: dynamics.integrator.timestep: 1 has no unit"),
        ("dynamics.seed", "write section.key=value"),
        ("system.forcefield.5=x.xml", "count from 0"),
    ]:
        with pytest.raises(InputError) as caught:
            load_input(path, [override])
        assert part in str(caught.value)


def test_command_options_win(tmp_path):
    path = write(tmp_path, GOOD.replace("steps: 100", "duration: 1 ns"))
    config = load_input(path, steps=7, output="elsewhere", threads=3)
    assert config.dynamics.n_steps == 7
    assert config.output.directory == Path("elsewhere")
    assert config.compute.n_threads == 3


def test_configuration_is_frozen(tmp_path):
    config = load_input(write(tmp_path, GOOD))
    with pytest.raises(ValueError, match="frozen"):
        config.dynamics.seed = 2


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[2].glob("inputs/**/*.yaml")), ids=lambda p: p.stem)
def test_inputs_of_the_repository_are_valid(path):
    assert load_input(path).dynamics.n_steps > 0


def test_interval_in_steps():
    assert Interval(steps=7).in_steps(0.002) == 7
    assert Interval(time=1.0).in_steps(0.002) == 500
    assert Interval(time=10.0).in_steps(0.004) == 2500
    with pytest.raises(ValueError, match=r"'0\.003 ps'"):
        Interval(time=0.004).in_steps(0.003)


def test_parameters_for_the_engine(tmp_path):
    barostat = "barostat={kind: membrane, pressure: 1 bar, frequency: 50 fs, z: fixed}"
    config = load_input(write(tmp_path, GOOD), [f"dynamics.{barostat}", "compute.pair_list_buffer=0.08 nm"])
    assert config.integrator_parameters() == {
        "kind": "langevin-middle",
        "timestep": 0.002,
        "temperature": 300.0,
        "friction": 1.0,
    }
    assert config.barostat_parameters() == {
        "kind": "membrane",
        "pressure": 1.0,
        "surface_tension": 0.0,
        "xy": "isotropic",
        "z": "fixed",
        "frequency": 25,
    }
    assert config.force_parameters() == {"pme_order": 5, "pair_list_buffer": 0.08}


def test_settings_tell_what_makes_another_run(tmp_path):
    path = write(tmp_path, GOOD)
    settings = load_input(path).settings()
    assert settings["system.nonbonded.cutoff"] == "0.9 nm"
    assert settings["system.pdb"] == "test.pdb"
    same = load_input(path, ["title=x", "compute.threads=1", "output.checkpoint.interval=5"], steps=999, output="elsewhere")
    assert same.settings() == settings
    other = load_input(path, ["dynamics.seed=2", "compute.pme_order=4"]).settings()
    assert {key for key in settings if settings[key] != other[key]} == {"dynamics.seed", "compute.pme_order"}
