"""Every way to describe a system loads; every broken file gives one line that says what is wrong with it."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import openmm
import pytest
from forcefield_samples import charged_system
from openmm import app

from mdsim.config import SystemConfig
from mdsim.errors import InputError
from mdsim.forcefield import load_system
from mdsim.tables import BondTable, DistanceRestraintTable, NonbondedTable, PositionRestraintTable

EXAMPLES = Path(find_spec("openmmtools").submodule_search_locations[0]) / "data"
PRMTOP = EXAMPLES / "alanine-dipeptide-gbsa" / "alanine-dipeptide.prmtop"
INPCRD = EXAMPLES / "alanine-dipeptide-gbsa" / "alanine-dipeptide.crd"
PDB = EXAMPLES / "alanine-dipeptide-gbsa" / "alanine-dipeptide.pdb"
FORCEFIELD = ("amber14-all.xml", "amber14/tip3p.xml")
VACUUM = {"method": "NoCutoff"}


def load(**section):
    return load_system(SystemConfig.model_validate(section))


def fails(*words, **section):
    with pytest.raises(InputError) as caught:
        load(**section)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


def of_kind(loaded, kind):
    return [t for t in loaded.compile().forces if isinstance(t, kind)]


# AMBER


def test_prmtop():
    loaded = load(prmtop=PRMTOP, inpcrd=INPCRD, nonbonded=VACUUM)
    assert loaded.positions.shape == (22, 3)
    assert loaded.vectors is None
    assert loaded.compile().masses.sum() == pytest.approx(144.17, abs=0.1)


def test_implicit_solvent_of_a_prmtop():
    model = {"model": "GBn2", "salt_concentration": "0.1 mol/L", "solvent_dielectric": 80.0}
    loaded = load(prmtop=PRMTOP, inpcrd=INPCRD, nonbonded=VACUUM, implicit_solvent=model)
    table = loaded.compile().forces[-1]
    assert (table.model, table.solvent_dielectric) == ("GBn2", 80.0)
    assert table.kappa > 0


@pytest.mark.parametrize("fraction", [0.05, 0.3, 0.6, 0.8])
def test_prmtop_cut_off(tmp_path, fraction):
    text = PRMTOP.read_text()
    cut = tmp_path / "cut.prmtop"
    cut.write_text(text[: int(fraction * len(text))])
    fails("cut.prmtop", prmtop=cut, inpcrd=INPCRD, nonbonded=VACUUM)


def test_prmtop_with_a_piece_twice(tmp_path):
    lines = PRMTOP.read_text().splitlines(keepends=True)
    (start,) = [i for i, line in enumerate(lines) if line.startswith("%FLAG CHARGE")]
    twice = tmp_path / "twice.prmtop"
    twice.write_text("".join([*lines[: start + 4], *lines[start + 2 :]]))
    fails("twice.prmtop", "CHARGE", prmtop=twice, inpcrd=INPCRD, nonbonded=VACUUM)


def test_inpcrd_cut_off(tmp_path):
    cut = tmp_path / "cut.crd"
    cut.write_text("\n".join(INPCRD.read_text().splitlines()[:8]) + "\n")
    fails("cut.crd", prmtop=PRMTOP, inpcrd=cut, nonbonded=VACUUM)


def test_velocities_of_an_amber_restart(tmp_path):
    """AMBER's unit of time is 1/20.455 ps, of length 0.1 nm."""
    restart = tmp_path / "restart.rst7"
    title, count, *coordinates = INPCRD.read_text().splitlines()
    restart.write_text("\n".join([title, f"{count.split()[0]:>5} 0.0", *coordinates, *coordinates]) + "\n")
    loaded = load(prmtop=PRMTOP, inpcrd=restart, nonbonded=VACUUM)
    assert loaded.velocities == pytest.approx(20.455 * loaded.positions, rel=1e-4)
    assert load(prmtop=PRMTOP, inpcrd=INPCRD, nonbonded=VACUUM).velocities is None


def test_inpcrd_of_another_system():
    other = EXAMPLES / "T4-lysozyme-L99A-implicit" / "ligand.crd"
    fails("18 atoms", "22", prmtop=PRMTOP, inpcrd=other, nonbonded=VACUUM)


def test_no_amber_file(tmp_path):
    fails("POINTERS", prmtop=PDB, inpcrd=INPCRD, nonbonded=VACUUM)


def test_periodic_method_without_a_box():
    fails("no periodic box", "NoCutoff", prmtop=PRMTOP, inpcrd=INPCRD)


def test_coordinate_that_is_no_number(tmp_path):
    bad = tmp_path / "bad.crd"
    lines = INPCRD.read_text().splitlines()
    lines[2] = f"{'nan':>12}" + lines[2][12:]
    bad.write_text("\n".join(lines) + "\n")
    fails("bad.crd", "atom 0", prmtop=PRMTOP, inpcrd=bad, nonbonded=VACUUM)


# PDB, mmCIF and force-field files


def test_pdb_solvated_is_the_same_each_time():
    solvate = {"solvate": {"padding": "0.4 nm", "ionic_strength": "2 mol/L"}}
    section = {"pdb": PDB, "forcefield": FORCEFIELD, "modeller": solvate, "nonbonded": {"cutoff": "0.6 nm"}}
    one, other = load(**section), load(**section)
    assert np.array_equal(one.positions, other.positions)
    assert one.vectors is not None
    assert len(one.positions) > 150
    assert {"Na", "Cl", "NA", "CL"} & set(one.names.residue_names)


def test_hydrogens_are_added(tmp_path):
    lines = [
        line
        for line in PDB.read_text().splitlines()
        if line.startswith(("ATOM", "HETATM")) and line[12:16].strip()[0] not in "H123"
    ]
    heavy = tmp_path / "heavy.pdb"
    heavy.write_text("\n".join(lines) + "\nEND\n")
    fails("no template", "hydrogens", pdb=heavy, forcefield=FORCEFIELD, nonbonded=VACUUM)
    loaded = load(pdb=heavy, forcefield=FORCEFIELD, modeller={"hydrogens": {"pH": 7.0}}, nonbonded=VACUUM)
    assert len(loaded.positions) == 22


def test_residue_without_template_is_named_as_the_file_does(tmp_path):
    strange = tmp_path / "strange.pdb"
    strange.write_text("HETATM    1  C1  XYZ B  17       0.000   0.000   0.000  1.00  0.00           C\nEND\n")
    fails(
        "no template for residue XYZ 17 of chain B",
        "amber14-all.xml",
        pdb=strange,
        forcefield=FORCEFIELD,
        nonbonded=VACUUM,
    )


def test_mmcif_is_the_same_system(tmp_path):
    pdb = app.PDBFile(str(PDB))
    path = tmp_path / "atoms.cif"
    with path.open("w") as out:
        app.PDBxFile.writeFile(pdb.topology, pdb.positions, out)
    from_pdb = load(pdb=PDB, forcefield=FORCEFIELD, nonbonded=VACUUM)
    from_cif = load(mmcif=path, forcefield=FORCEFIELD, nonbonded=VACUUM)
    assert from_cif.names.atom_names == from_pdb.names.atom_names
    np.testing.assert_allclose(from_cif.positions, from_pdb.positions, atol=1e-4)


def test_pdb_that_is_none(tmp_path):
    path = tmp_path / "words.pdb"
    path.write_text("ATOM  words and no columns\n")
    fails("words.pdb", pdb=path, forcefield=FORCEFIELD, nonbonded=VACUUM)


def test_force_field_that_is_no_xml(tmp_path):
    path = tmp_path / "mine.xml"
    path.write_text("<ForceField><unfinished")
    fails("mine.xml", pdb=PDB, forcefield=[str(path)], nonbonded=VACUUM)


def test_options_reach_the_system():
    nonbonded = {
        "method": "LJPME",
        "cutoff": "0.8 nm",
        "switch_distance": "0.7 nm",
        "ewald_tolerance": 1e-4,
        "pme_grid": [24, 25, 27],
    }
    solvate = {"solvate": {"box": ["2 nm", "2.1 nm", "2.2 nm"]}}
    section = {"constraints": "none", "rigid_water": False, "hydrogen_mass": "3 amu", "modeller": solvate}
    loaded = load(pdb=PDB, forcefield=FORCEFIELD, nonbonded=nonbonded, **section)
    compiled = loaded.compile()
    table = of_kind(loaded, NonbondedTable)[0]
    assert (table.method, table.cutoff, table.switch_distance, table.grid) == ("LJPME", 0.8, 0.7, (24, 25, 27))
    assert np.diag(loaded.vectors).tolist() == [2.0, 2.1, 2.2]
    assert len(compiled.constraints.settle) == len(compiled.constraints.distance) == 0
    assert np.isclose(compiled.masses, 3.0).sum() >= 12


# GROMACS

GROMACS_TOP = """[ defaults ]
1 {rule} yes 0.5 0.8333
[ atomtypes ]
AA AA 18 12.0 0.0 A {a}
BB BB 18 14.0 0.0 A {b}
[ moleculetype ]
M 3
[ atoms ]
1 AA 1 M A1 1  0.3 12.0
2 BB 1 M B1 2 -0.3 14.0
[ bonds ]
1 2 1 0.15 1000.0
[ system ]
pairs
[ molecules ]
M 2
"""
GROMACS_GRO = """pairs
    4
    1M     A1    1   0.100   0.200   0.300
    1M     B1    2   0.250   0.200   0.300
    2M     A1    3   1.000   1.000   1.000
    2M     B1    4   1.150   1.000   1.000
   2.00000   2.00000   2.00000
"""


def write_gromacs(directory, rule, a, b):
    (directory / "m.top").write_text(GROMACS_TOP.format(rule=rule, a=a, b=b))
    (directory / "m.gro").write_text(GROMACS_GRO)
    return {
        "top": directory / "m.top",
        "gro": directory / "m.gro",
        "nonbonded": {"cutoff": "0.9 nm"},
        "constraints": "none",
    }


def test_gromacs_lorentz_berthelot(tmp_path):
    loaded = load(**write_gromacs(tmp_path, 2, "0.30 0.5", "0.34 0.9"))
    table = of_kind(loaded, NonbondedTable)[0]
    assert table.lj_type is None
    assert table.epsilon.tolist() == [0.5, 0.9, 0.5, 0.9]
    assert of_kind(loaded, BondTable)[0].k.tolist() == [1000.0, 1000.0]
    assert table.exclusions.tolist() == [[0, 1], [2, 3]]


def test_gromacs_geometric_mean(tmp_path):
    loaded = load(**write_gromacs(tmp_path, 3, "0.30 0.5", "0.34 0.9"))
    table = of_kind(loaded, NonbondedTable)[0]
    assert table.lj_type is not None
    a, b = table.lj_a[table.lj_type[0], table.lj_type[1]], table.lj_b[table.lj_type[0], table.lj_type[1]]
    sigma, epsilon = np.sqrt(0.30 * 0.34), np.sqrt(0.5 * 0.9)
    assert (a, b) == (pytest.approx(4 * epsilon * sigma**12), pytest.approx(4 * epsilon * sigma**6))


def test_gromacs_errors(tmp_path):
    section = write_gromacs(tmp_path, 2, "0.30 0.5", "0.34 0.9")
    section["gro"].write_text(GROMACS_GRO.replace("    4\n", "    9\n"))
    fails("m.gro", **section)
    section["gro"].write_text(GROMACS_GRO)
    section["top"].write_text(section["top"].read_text() + '#include "nowhere.itp"\n')
    fails("m.top", "nowhere.itp", **section)
    section["top"].write_text(GROMACS_TOP.format(rule=2, a="0.3 0.5", b="0.3 0.5").replace("M 2\n", "M 3\n"))
    fails("4 atoms", "6", **section)


# serialized systems


def write_serialized(directory, n_in_pdb=2, edge=30.0):
    system, _ = charged_system(2)
    (directory / "s.xml").write_text(openmm.XmlSerializer.serialize(system))
    atoms = "".join(
        f"HETATM{i + 1:5d} AR   AR  A{i + 1:4d}    {3.0 * i:8.3f}   0.000   0.000  1.00  0.00          AR\n"
        for i in range(n_in_pdb)
    )
    box = f"CRYST1{edge:9.3f}{edge:9.3f}{edge:9.3f}  90.00  90.00  90.00 P 1           1\n"
    (directory / "s.pdb").write_text(box + atoms + "END\n")
    return {"system_xml": directory / "s.xml", "pdb": directory / "s.pdb"}


def test_serialized_system(tmp_path):
    loaded = load(**write_serialized(tmp_path))
    assert np.diag(loaded.vectors).tolist() == [3.0, 3.0, 3.0]
    assert loaded.positions[1].tolist() == pytest.approx([0.3, 0.0, 0.0])
    assert loaded.notes == ()


def test_box_of_the_structure_wins_and_is_told(tmp_path):
    loaded = load(**write_serialized(tmp_path, edge=33.0))
    assert np.diag(loaded.vectors) == pytest.approx([3.3, 3.3, 3.3])
    assert np.diag(loaded.compile().default_vectors) == pytest.approx([3.3, 3.3, 3.3])
    assert "s.pdb" in loaded.notes[0]


def test_serialized_system_of_another_size(tmp_path):
    fails("3 atoms", "2 particles", **write_serialized(tmp_path, n_in_pdb=3))


@pytest.mark.parametrize("content", ["", "<System", "<Integrator type='VerletIntegrator' version='1'/>", "no xml"])
def test_serialized_system_that_is_none(tmp_path, content):
    section = write_serialized(tmp_path)
    section["system_xml"].write_text(content)
    fails("s.xml", **section)


# restraints


def test_restraints_become_tables():
    restraints = [
        {"kind": "position", "atoms": "ca", "k": "500 kJ/mol/nm^2"},
        {"kind": "distance", "atoms": [0, 20], "upper": "0.6 nm", "k": "70 kJ/mol/nm^2"},
    ]
    loaded = load(prmtop=PRMTOP, inpcrd=INPCRD, nonbonded=VACUUM, restraints=restraints)
    (held,) = of_kind(loaded, PositionRestraintTable)
    assert [loaded.names.atom_names[i] for i in held.atoms] == ["CA"]
    assert held.k.tolist() == [500.0]
    assert held.reference[0].tolist() == loaded.positions[held.atoms[0]].tolist()
    (distance,) = of_kind(loaded, DistanceRestraintTable)
    assert (distance.lower[0], distance.upper[0], distance.k[0]) == (0.0, 0.6, 70.0)


def test_restraint_on_an_atom_that_is_not_there():
    restraints = [{"kind": "position", "atoms": [99], "k": "500 kJ/mol/nm^2"}]
    fails("atom 99", prmtop=PRMTOP, inpcrd=INPCRD, nonbonded=VACUUM, restraints=restraints)
