"""What goes wrong in real life ends in one line that names the cause, with the exit code of its kind, and loses nothing."""

from pathlib import Path

import openmm
import pytest
from argon_samples import INPUT, lattice, write_all, write_atoms, write_system
from typer.testing import CliRunner

from mdsim import cli


@pytest.fixture
def argon(tmp_path) -> Path:
    return write_all(tmp_path).parent


def run(directory: Path, *options: str, command: str = "run"):
    output = ["--output", str(directory / "out")] if command == "run" else []
    return CliRunner().invoke(cli.app, [command, str(directory / "input.yaml"), *output, *options])


def the_error(result, code: int) -> str:
    """The one line of explanation of a command that must have failed with ``code``."""
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert result.stderr.rstrip().endswith(line)
    return line


def test_good_input_runs_and_is_kept(argon):
    assert run(argon).exit_code == 0
    before = (argon / "out" / "trajectory.h5md").read_bytes()
    assert "does not hold" not in run(argon).output
    message = the_error(run(argon, "--set", "dynamics.seed=2"), 5)
    assert "dynamics.seed" in message
    assert (argon / "out" / "trajectory.h5md").read_bytes() == before


def test_two_atoms_at_the_same_place(argon):
    positions = lattice()
    positions[7] = positions[6]
    write_atoms(argon, positions)
    message = the_error(run(argon), 4)
    assert "atom 6" in message
    assert "atom 7" in message
    assert "minimise" in message


def test_two_atoms_at_the_same_place_are_minimised_apart(argon):
    positions = lattice()
    positions[7] = positions[6] + [0.001, 0.0, 0.0]
    write_atoms(argon, positions)
    (argon / "input.yaml").write_text(INPUT.format(minimize="{max_steps: 200}"))
    assert run(argon).exit_code == 0


def test_a_contact_of_a_million_kj(argon):
    positions = lattice()
    positions[7] = positions[6] + [0.1, 0.0, 0.0]
    write_atoms(argon, positions)
    message = the_error(run(argon), 4)
    assert "atom 6" in message
    assert "atom 7" in message


def test_a_coordinate_that_is_no_number(argon):
    text = (argon / "atoms.pdb").read_text()
    (argon / "atoms.pdb").write_text(text.replace("   2.500   2.500   2.500", "     nan   2.500   2.500", 1))
    message = the_error(run(argon), 2)
    assert "atoms.pdb" in message
    assert "atom 0" in message


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize("edge", [0.5, 1.79])
def test_a_box_smaller_than_twice_the_cutoff(argon, edge, command):
    write_system(argon, edge=edge)
    result = run(argon, command=command)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert "the cutoff of 0.9 nm exceeds half the smallest width of the box" in " ".join(result.output.split())


def test_a_mass_of_zero(argon):
    write_system(argon, mass=0.0)
    assert "has no mass" in the_error(run(argon), 2)


def test_a_wrong_number_of_atoms(argon):
    write_atoms(argon, lattice()[:-1])
    message = the_error(run(argon), 2)
    assert "63" in message
    assert "64" in message


@pytest.mark.parametrize("name", ["system.xml", "atoms.pdb"])
def test_a_missing_file(argon, name):
    (argon / name).unlink()
    assert f"there is no file {argon / name}" in the_error(run(argon), 2)


@pytest.mark.parametrize("name", ["system.xml", "atoms.pdb"])
def test_a_file_cut_off_in_the_middle(argon, name):
    text = (argon / name).read_text()
    (argon / name).write_text(text[: len(text) // 2])
    assert name in the_error(run(argon), 2)


def test_a_force_that_is_not_supported(argon):
    system = openmm.XmlSerializer.deserialize((argon / "system.xml").read_text())
    force = openmm.CustomBondForce("k*(r-1)^4")
    force.addGlobalParameter("k", 1.0)
    force.addBond(0, 1, [])
    system.addForce(force)
    (argon / "system.xml").write_text(openmm.XmlSerializer.serialize(system))
    message = the_error(run(argon), 3)
    assert "CustomBondForce" in message
    assert "k*(r-1)^4" in message


def test_an_output_directory_that_cannot_be_made(argon):
    (argon / "out").write_text("a file")
    assert str(argon / "out") in the_error(run(argon), 5)


def test_a_truncated_prmtop(tmp_path):
    from mdsim.config.fields import package_file

    data = package_file("package:openmmtools/data/alanine-dipeptide-explicit")
    text = (data / "alanine-dipeptide.prmtop").read_text()
    (tmp_path / "half.prmtop").write_text(text[: len(text) // 2])
    (tmp_path / "x.crd").write_bytes((data / "alanine-dipeptide.crd").read_bytes())
    (tmp_path / "input.yaml").write_text(
        INPUT.format(minimize="false").replace("system_xml: system.xml, pdb: atoms.pdb", "prmtop: half.prmtop, inpcrd: x.crd")
    )
    assert "half.prmtop" in the_error(run(tmp_path), 2)
