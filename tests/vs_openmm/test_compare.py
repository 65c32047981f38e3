"""``mdsim compare`` agrees with OpenMM Reference on all bundled force fields, and says so when something does not agree."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import openmm
import pytest
from forcefield_samples import NAMES, bare_system, villin
from openmm import app

from mdsim.backends import get_backend
from mdsim.compare import ENERGY_TOLERANCE, FORCE_TOLERANCE, compare, relative_rms, table
from mdsim.config import SystemConfig
from mdsim.forcefield import LoadedSystem, load_system
from mdsim.forces import build_terms
from mdsim.tables import BondTable, PairExceptionTable

EXAMPLES = Path(find_spec("openmmtools").submodule_search_locations[0]) / "data"
DIPEPTIDE = EXAMPLES / "alanine-dipeptide-gbsa"
THREADS = 2


@pytest.fixture(scope="module")
def backend():
    return get_backend("cpu", THREADS)


def assert_agrees(loaded, backend, *labels):
    result = compare(loaded, backend)
    assert result.passed, "\n" + table(result)
    assert {"all forces", *labels} <= {row.label for row in result.rows}
    return result


@pytest.mark.parametrize("name", NAMES)
def test_bundled_force_fields(name, backend):
    result = assert_agrees(villin(name), backend, "HarmonicBondForce", "NonbondedForce")
    for row in result.rows:  # mesh and all: far below the error that PME itself has
        assert row.energy_error < ENERGY_TOLERANCE
        assert row.force_error < FORCE_TOLERANCE


@pytest.mark.parametrize("model", ["OBC2", "GBn2"])
def test_implicit_solvent(model, backend):
    section = {
        "prmtop": DIPEPTIDE / "alanine-dipeptide.prmtop",
        "inpcrd": DIPEPTIDE / "alanine-dipeptide.crd",
        "nonbonded": {"method": "NoCutoff"},
        "implicit_solvent": {"model": model},
        "restraints": [
            {"kind": "position", "atoms": "heavy", "k": "1000 kJ/mol/nm^2"},
            {"kind": "distance", "atoms": [0, 20], "upper": "0.3 nm", "k": "500 kJ/mol/nm^2"},
        ],
    }
    loaded = load_system(SystemConfig.model_validate(section))
    moved = loaded.positions + np.random.default_rng(5).normal(scale=0.005, size=loaded.positions.shape)
    label = "GBSAOBCForce" if model == "OBC2" else "CustomGBForce"
    assert_agrees(replace(loaded, positions=moved), backend, label, "PositionRestraint", "DistanceRestraint")


def water_box(method, edge=2.2, shape="cube", switch=None):
    """TIP3P water as a LoadedSystem."""
    model = app.Modeller(app.Topology(), [])
    forcefield = app.ForceField("amber14/tip3p.xml")
    vectors = None
    if shape == "octahedron":
        unit_vectors = np.array([[1, 0, 0], [1 / 3, 8**0.5 / 3, 0], [-1 / 3, 2**0.5 / 3, 6**0.5 / 3]])
        vectors = tuple(openmm.Vec3(*row) for row in (edge * unit_vectors).tolist())
        model.addSolvent(forcefield, boxVectors=vectors)
    else:
        model.addSolvent(forcefield, boxSize=openmm.Vec3(edge, edge, edge))
    options = {"nonbondedMethod": method, "nonbondedCutoff": 0.9}
    if switch:
        options["switchDistance"] = switch
    system = forcefield.createSystem(model.topology, **options)
    positions = np.array(model.positions.value_in_unit(openmm.unit.nanometer))
    box = np.array(model.topology.getPeriodicBoxVectors().value_in_unit(openmm.unit.nanometer))
    return LoadedSystem(system, model.topology, positions, box)


@pytest.mark.parametrize("method", [app.CutoffPeriodic, app.LJPME])
def test_other_methods_with_switching(method, backend):
    switch = None if method is app.LJPME else 0.8
    assert_agrees(water_box(method, switch=switch), backend)


def test_truncated_octahedron(backend):
    """OpenMM's Reference platform misses pairs in such boxes; the comparison must notice and use another platform."""
    result = assert_agrees(water_box(app.PME, edge=3.0, shape="octahedron"), backend)
    assert any("triclinic" in note for note in result.notes)


# a comparison that cannot fail is worth nothing


def _with_one_table_changed(loaded, kind, **changes):
    """A loaded system whose compiled form differs from its System."""
    compiled = loaded.compile()
    changed = tuple(
        replace(t, **{name: change(getattr(t, name)) for name, change in changes.items()}) if isinstance(t, kind) else t
        for t in compiled.forces
    )

    class Changed(LoadedSystem):
        def compile(self):
            return replace(compiled, forces=changed)

    return Changed(loaded.system, loaded.topology, loaded.positions, loaded.vectors)


@pytest.mark.parametrize(
    ("kind", "column", "label"),
    [(BondTable, "k", "HarmonicBondForce"), (PairExceptionTable, "charge_product", "NonbondedForce")],
)
def test_a_wrong_parameter_is_found(kind, column, label, backend):
    loaded = _with_one_table_changed(villin("amber14 + TIP3P-FB"), kind, **{column: lambda values: values * 1.02})
    result = compare(loaded, backend)
    assert not result.passed
    assert [row.label for row in result.rows if not row.passed] in ([label], [label, "all forces"])
    assert "FAILED" in table(result)


def test_a_missing_force_is_found(backend):
    loaded = villin("amber14 + TIP3P-FB")
    compiled = loaded.compile()
    without = replace(compiled, forces=tuple(t for t in compiled.forces if not isinstance(t, BondTable)))

    class Changed(LoadedSystem):
        def compile(self):
            return without

    result = compare(Changed(loaded.system, loaded.topology, loaded.positions, loaded.vectors), backend)
    assert [row.label for row in result.rows if not row.passed] == ["HarmonicBondForce", "all forces"]


def test_overlaps_are_relaxed_first(backend):
    system, force = bare_system(8, mass=39.9), openmm.NonbondedForce()
    for _ in range(8):
        force.addParticle(0.0, 0.34, 0.996)
    force.setNonbondedMethod(force.CutoffPeriodic)
    force.setCutoffDistance(0.9)
    system.addForce(force)
    positions = 0.4 * np.indices((2, 2, 2)).reshape(3, -1).T + 0.1
    positions[1] = positions[0] + [0.0, 0.0, 0.05]
    topology = app.Topology()
    residue = topology.addResidue("AR", topology.addChain())
    for _ in range(8):
        topology.addAtom("AR", app.element.argon, residue)
    result = compare(LoadedSystem(system, topology, positions, np.eye(3) * 3.0), backend)
    assert result.passed
    assert any("relaxed" in note for note in result.notes)


def test_relative_rms():
    reference = np.array([[3.0, 0.0, 4.0]])
    assert relative_rms(reference * 1.01, reference) == pytest.approx(0.01)
    assert relative_rms(np.full((1, 3), 0.5), np.zeros((1, 3))) == pytest.approx(0.5)


def test_terms_cover_every_label(backend):
    """No table is left without a term: what is not computed could not be compared."""
    from mdsim.box import Box

    compiled = villin("charmm36_2024 + TIP5P").compile()
    terms = build_terms(compiled, backend, Box(compiled.default_vectors))
    assert {t.label for t in compiled.forces} <= {label for term in terms for label in term.energy_labels}
