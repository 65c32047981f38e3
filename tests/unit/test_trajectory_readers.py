"""The trajectory file, value by value, through the programs that people open it with."""

import json
import warnings

import h5py
import numpy as np
import pytest
from io_samples import CUBIC, ISOLATED, TRICLINIC, moved, small_system, snapshot, source

from mdsim.io.h5md import TrajectorySettings, TrajectorySource, TrajectoryWriter, lengths_and_angles
from mdsim.io.selection import find_molecules, subset_topology
from mdsim.kernels.fixed_point import FORCE_SCALE
from mdsim.tables import CompiledSystem, ConstraintTable, NonbondedTable, VirtualSiteTable

TOPOLOGY, POSITIONS = small_system()
BOXES = {"cubic": CUBIC, "triclinic": TRICLINIC, "isolated": ISOLATED}
STEPS = [0, 500, 1000, 1500, 2500]  # not evenly spaced, on purpose
SOLUTE = np.arange(64)


def snapshots(box):
    return [snapshot(moved(POSITIONS, k), box, step, 0.002 * step) for k, step in enumerate(STEPS)]


@pytest.fixture(scope="module", params=BOXES)
def written(request, tmp_path_factory):
    """(path, box, snapshots): a whole-system file with everything in it."""
    box = BOXES[request.param]
    path = tmp_path_factory.mktemp("h5md") / f"{request.param}.h5md"
    settings = TrajectorySettings(velocities=True, forces=True, precision=1e-3, significant_bits=16)
    writer = TrajectoryWriter.create(path, source(TOPOLOGY, box.periodic, provenance={"input": "title: x"}), settings)
    frames = snapshots(box)
    for s in frames:
        writer.append(s)
    writer.close()
    return path, box, frames


def assert_images_of(box, x, reference, tolerance):
    """Positions x agree with the reference up to whole boxes, the same for all solute atoms."""
    d = x - reference
    boxes = np.rint(d @ box.inverse) if box.periodic else np.zeros_like(d)
    assert np.abs(d - boxes @ box.vectors).max() <= tolerance
    assert (boxes[SOLUTE] == boxes[0]).all()


def test_mdanalysis_reads_every_value(written):
    mda = pytest.importorskip("MDAnalysis")
    path, box, frames = written
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has no names to guess masses from
        universe = mda.Universe(path)
    assert len(universe.trajectory) == len(frames)
    for k, (ts, s) in enumerate(zip(universe.trajectory, frames, strict=True)):
        assert (ts.data["step"], ts.time) == (s.step, s.time)
        assert_images_of(box, ts.positions / 10.0, moved(POSITIONS, k), 0.5e-3 + 1e-5)
        assert np.allclose(ts.velocities / 10.0, s.velocities, rtol=2**-15, atol=1e-6)
        assert np.allclose(ts.forces * 10.0, s.forces / FORCE_SCALE, rtol=2**-15, atol=1e-3)
        if box.periodic:
            lengths, angles = lengths_and_angles(box)
            assert np.allclose(ts.dimensions, [*(10.0 * lengths), *angles], rtol=1e-6)
        else:
            assert ts.dimensions is None


def test_mdtraj_reads_every_value(written):
    mdtraj = pytest.importorskip("mdtraj")
    pytest.importorskip("tables")  # through which MDTraj reads HDF5
    path, box, frames = written
    t = mdtraj.load_hdf5(str(path))
    assert np.array_equal(t.time, [s.time for s in frames])
    for k in range(len(frames)):
        assert_images_of(box, t.xyz[k], moved(POSITIONS, k), 0.5e-3 + 1e-5)
        if box.periodic:
            assert np.allclose(t.unitcell_vectors[k], box.vectors, atol=2e-6)
    if not box.periodic:
        assert t.unitcell_lengths is None
    top = t.topology
    assert [a.name for a in top.atoms] == list(TOPOLOGY.atom_names)
    assert [a.element.symbol for a in top.atoms] == [e or "VS" for e in TOPOLOGY.elements]
    assert [r.name for r in top.residues] == list(TOPOLOGY.residue_names)
    assert [r.resSeq for r in top.residues] == [int(i.rstrip("A")) for i in TOPOLOGY.residue_ids]
    assert [c.chain_id for c in top.chains] == list(TOPOLOGY.chain_ids)
    assert [(a.index, b.index) for a, b in top.bonds] == [tuple(b) for b in TOPOLOGY.bonds]
    with mdtraj.formats.HDF5TrajectoryFile(str(path)) as file:
        assert np.allclose(file.read().velocities, [s.velocities for s in frames], rtol=2**-15)


def test_pyh5md_reads_every_value(written):
    pyh5md = pytest.importorskip("pyh5md")
    path, box, frames = written
    with pyh5md.File(path, "r") as file:
        group = file.particles_group("trajectory")
        position, velocity, force = (pyh5md.element(group, name) for name in ("position", "velocity", "force"))
        for element in (position, velocity, force):
            assert element.element_type == "TimeElement"
            assert element.step[:].tolist() == STEPS
            assert element.time[:].tolist() == [s.time for s in frames]
        for k, s in enumerate(frames):
            assert_images_of(box, position.value[k], moved(POSITIONS, k), 0.5e-3 + 1e-5)
            assert np.allclose(velocity.value[k], s.velocities, rtol=2**-15)
            assert np.allclose(force.value[k], s.forces / FORCE_SCALE, rtol=2**-15)
        assert np.allclose(pyh5md.element(group, "mass").value[:], source(TOPOLOGY).masses)
        if box.periodic:
            edges = pyh5md.element(group["box"], "edges")
            assert np.array_equal(edges.value[:], [box.vectors] * len(frames))
            assert edges.step[:].tolist() == STEPS


def test_what_the_h5md_standard_asks_for(written):
    path, box, _ = written
    with h5py.File(path) as file:
        assert file["h5md"].attrs["version"].tolist() == [1, 1]
        assert {"name"} <= set(file["h5md/author"].attrs)
        assert file["h5md/creator"].attrs["name"] == "mdsim"
        assert list(file["particles"]) == ["trajectory"]
        group = file["particles/trajectory"]
        assert group["box"].attrs["dimension"] == 3
        assert group["box"].attrs["boundary"].tolist() == ["periodic" if box.periodic else "none"] * 3
        units = {"position/value": "nm", "velocity/value": "nm ps-1", "force/value": "kJ mol-1 nm-1", "position/time": "ps"}
        for name, unit in units.items():
            assert group[name].attrs["unit"] == unit
            kind = h5py.check_string_dtype(group[name].attrs.get_id("unit").dtype)
            assert kind.length is None  # variable length: MDAnalysis asks for it
        assert "observables" not in file
        assert group["position/value"].attrs["precision"] == 1e-3
        assert group["position/value"].attrs["lattice_spacing"] == 2.0**-10
        assert group["velocity/value"].attrs["significant_bits"] == 16
        assert file["parameters/mdsim"].attrs["input"] == "title: x"
        bonds = file["connectivity/bonds"]
        assert np.array_equal(bonds, TOPOLOGY.bonds)
        assert file[bonds.attrs["particles_group"]] == group
        assert (group["position/value"].compression, group["position/value"].shuffle) == ("gzip", True)


def test_no_byte_is_stored_twice(written):
    path, box, _ = written
    with h5py.File(path) as file:
        group = file["particles/trajectory"]
        same = {
            "coordinates": "position/value", "time": "position/time", "velocities": "velocity/value",
        }  # fmt: skip
        for root, name in same.items():
            assert file[root].id == group[name].id
            assert h5py.h5o.get_info(file[root].id).rc >= 2
        for element in ["velocity", "force"] + (["box/edges"] if box.periodic else []):
            for name in ("step", "time"):
                assert group[element][name].id == group["position"][name].id


def test_what_vmd_reads(written):
    path, _, _ = written
    with h5py.File(path) as file:
        vmd, group = file["parameters/vmd_structure"], file["particles/trajectory"]
        species = group["species"][()]
        assert sorted(set(species)) == vmd["indexOfSpecies"][()].tolist()
        names, types = vmd["name"].asstr()[()], vmd["type"].asstr()[()]
        assert [names[s] for s in species] == list(TOPOLOGY.atom_names)
        assert [types[s] for s in species] == [e or "X" for e in TOPOLOGY.elements]
        assert np.allclose(vmd["mass"][()][species], source(TOPOLOGY).masses)
        number = {"H": 1, "C": 6, "N": 7, "O": 8, "Na": 11, "Cl": 17, "": 0}
        assert vmd["atomicnumber"][()][species].tolist() == [number[e] for e in TOPOLOGY.elements]
        residue = vmd["resid"][()]
        assert [vmd["resname"].asstr()[r] for r in residue] == [TOPOLOGY.residue_names[r] for r in TOPOLOGY.residue_index]
        chains = [TOPOLOGY.chain_ids[TOPOLOGY.chain_index[r]] for r in TOPOLOGY.residue_index]
        assert [vmd["chain"].asstr()[r] for r in residue] == chains
        assert [vmd["segid"].asstr()[c] for c in vmd["indexOfSegid"][()]] == chains
        assert np.array_equal(np.stack([vmd["bond_from"], vmd["bond_to"]], axis=1) - 1, TOPOLOGY.bonds)
        assert np.allclose(vmd["charge"], source(TOPOLOGY).charges)
        assert h5py.check_string_dtype(vmd["name"].dtype).length  # fixed length: the plugin reads no other


def test_selection_writes_the_names_of_its_atoms(tmp_path):
    writer = TrajectoryWriter.create(tmp_path / "s.h5md", source(TOPOLOGY), TrajectorySettings(selection="solute"))
    writer.append(snapshot(POSITIONS, TRICLINIC))
    writer.close()
    with h5py.File(tmp_path / "s.h5md") as file:
        group = file["particles/trajectory"]
        assert group["position/value"].shape == (1, 64, 3)
        assert np.array_equal(group["id"], SOLUTE)
        assert_images_of(TRICLINIC, group["position/value"][0], POSITIONS[SOLUTE], 0.6e-3)
        top = json.loads(file["topology"][0])
        assert top["bonds"] == subset_topology(TOPOLOGY, SOLUTE).bonds.tolist()
        names = [atom["name"] for chain in top["chains"] for r in chain["residues"] for atom in r["atoms"]]
        assert names == list(TOPOLOGY.atom_names[:64])


def test_full_precision_is_float32(tmp_path):
    settings = TrajectorySettings(precision=None, velocities=True, significant_bits=24)
    writer = TrajectoryWriter.create(tmp_path / "f.h5md", source(TOPOLOGY, periodic=False), settings)
    s = snapshot(POSITIONS, ISOLATED)
    writer.append(s)
    writer.close()
    with h5py.File(tmp_path / "f.h5md") as file:
        assert np.array_equal(file["coordinates"][0], ISOLATED.cartesian(s.positions, s.images).astype(np.float32))
        assert np.array_equal(file["velocities"][0], s.velocities.astype(np.float32))


def test_source_of_a_compiled_system(tmp_path):
    none, empty = np.zeros((0, 3), np.int32), np.zeros((0, 3))
    charges = np.array([0.4, -0.8, 0.4])
    system = CompiledSystem(
        masses=np.array([1.0, 16.0, 1.0]),
        forces=(NonbondedTable("N", "N", "PME", 0.9, charges, charges, charges, none[:, :2]),),
        constraints=ConstraintTable(none, empty[:, :2], none[:, :2], empty[:, 0], np.zeros(1, np.int32)),
        virtual_sites=VirtualSiteTable(none[:, 0], none[:, 0], none, empty, empty, empty, empty, empty),
        group_atoms=np.arange(3), group_start=np.array([0, 3]), molecule_atoms=np.arange(3), molecule_start=np.array([0, 3]),
        periodic=True, default_vectors=np.eye(3), molecule_links=np.array([[0, 1], [1, 2]], np.int32),
    )  # fmt: skip
    rigid = subset_topology(TOPOLOGY, np.array([1, 3, 4]))  # CA, O, HA: no bond joins CA and O
    made = TrajectorySource.from_system(system, rigid, {"input": "y"})
    assert made.periodic
    assert np.array_equal(made.masses, system.masses)
    assert np.array_equal(made.charges, charges)
    assert find_molecules(rigid).count == 2
    assert find_molecules(rigid, made.more_links).count == 1
