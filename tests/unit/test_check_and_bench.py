"""``mdsim check`` tells what is known before a run; ``mdsim bench`` times both engines."""

import json
from math import pi
from statistics import median

import numpy as np
import pytest
from argon_samples import write_all
from typer.testing import CliRunner

from mdsim import cli
from mdsim.check import closest_pair, fastest_bond, memory_estimate, warnings_of
from mdsim.config import config_from_dict
from mdsim.forcefield import load_system
from mdsim.tables import BondTable


def config_of_villin(**dynamics):
    integrator = {"kind": "langevin-middle", "timestep": dynamics.pop("timestep", "2 fs"), "temperature": "300 K"}
    system = {
        "pdb": "package:openmm/app/data/test.pdb",
        "forcefield": ["amber14-all.xml", "amber14/tip3pfb.xml"],
        **dynamics.pop("system", {}),
    }
    return config_from_dict({"system": system, "dynamics": {"steps": 10, "integrator": integrator, **dynamics}})


@pytest.fixture(scope="module")
def villin():
    loaded = load_system(config_of_villin().system)
    return loaded, loaded.compile()


def invoke(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


def test_check_tells_the_facts(tmp_path):
    result = invoke("check", write_all(tmp_path))
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    for fact in ("atoms 64 in 64 residues", "degrees of freedom 192", "rectangular, 2 x 2 x 2 nm", "CutoffPeriodic, cutoff 0.9 nm",
                 "3 frames of", "0 errors, 0 warnings"):  # fmt: skip
        assert fact in text, fact


def test_no_warning_about_an_ordinary_input(villin):
    assert list(warnings_of(config_of_villin(), *villin)) == []


def test_warning_about_a_long_timestep(villin):
    bond, hydrogen = warnings_of(config_of_villin(timestep="6 fs"), *villin)
    assert "swings in" in bond.text
    assert "6 fs" in bond.text
    assert "hydrogens of 1.01 amu" in hydrogen.text


def test_warning_about_four_femtoseconds_with_light_hydrogens(villin):
    (line,) = warnings_of(config_of_villin(timestep="4 fs"), *villin)
    assert "system.hydrogen_mass" in line.text


def test_fastest_bond_is_the_analytic_period(villin):
    loaded, system = villin
    period, i, j = fastest_bond(system)
    m1, m2 = system.masses[[i, j]]
    (table,) = [t for t in system.forces if isinstance(t, BondTable)]
    (row,) = np.flatnonzero((np.sort(table.atoms, axis=1) == sorted((i, j))).all(axis=1))
    assert period == pytest.approx(2 * pi * np.sqrt(m1 * m2 / (m1 + m2) / table.k[row]))
    assert {loaded.names.elements[i], loaded.names.elements[j]} == {
        "C",
        "O",
    }  # carbonyls, where hydrogens are constrained
    assert 0.015 < period < 0.025  # 1,700 wave numbers are 20 fs


def test_closest_pair_leaves_out_virtual_sites():
    x = np.array([[0.0, 0, 0], [1.0, 0, 0], [1.01, 0, 0], [3.0, 0, 0]])
    assert closest_pair(x, np.array([1.0, 1, 1, 1])) == (pytest.approx(0.01), 1, 2)
    assert closest_pair(x, np.array([1.0, 1, 0, 1]))[0] == pytest.approx(1.0)


def test_memory_grows_with_threads(villin):
    one, four = (memory_estimate(config_of_villin().model_copy(update={"compute": c}), *villin) for c in _threads(1, 4))
    assert 200e6 < one < four < 1e9


def _threads(*counts):
    base = config_of_villin().compute
    return [base.model_copy(update={"threads": n}) for n in counts]


def test_bench_times_both_engines(tmp_path):
    path, record = write_all(tmp_path), tmp_path / "figures.json"
    result = invoke("bench", path, "--steps", 5, "--blocks", 2, "--save", record)
    assert result.exit_code == 0, result.output
    figures = json.loads(record.read_text())
    assert [e["name"] for e in figures["engines"]] == ["mdsim", "OpenMM CPU"]
    for engine in figures["engines"]:
        assert len(engine["seconds"]) == 2
        expected = 0.002e-3 * 5 / median(engine["seconds"]) * 86400
        assert engine["ns_per_day"] == pytest.approx(expected)
    total = 1e3 * sum(figures["engines"][0]["seconds"]) / 10
    assert sum(figures["mdsim_ms_by_part"].values()) == pytest.approx(total)
    assert figures["mdsim_ms_by_part"]["pair"] > 0


def test_bench_refuses_no_steps(tmp_path):
    assert invoke("bench", write_all(tmp_path), "--steps", 0).exit_code == 2
