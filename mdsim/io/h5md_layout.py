"""The fixed part of a trajectory file: groups, names, bonds and empty datasets that grow by frames.

H5MD 1.1 (P. de Buyl, P. H. Colberg and F. Hoefling, Comput. Phys. Commun. 185, 1546 (2014); nongnu.org/h5md), laid out so that
MDAnalysis, MDTraj, pyh5md and VMD's h5md plugin open it unmodified. MDTraj reads its own names at the root: hard links to the
H5MD datasets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from mdsim.topology import Topology
from mdsim.version import __version__

GROUP = "particles/trajectory"
#: atoms in a chunk: below the 1 MiB chunk cache that readers have by default
MAX_CHUNK_ATOMS = 65536
#: frames in a chunk of the small datasets (step, time, box)
SMALL_CHUNK_FRAMES = 256

#: H5MD's and MDTraj's words for the same units
UNITS = {
    "position": ("nm", "nanometers"),
    "velocity": ("nm ps-1", "nanometers/picosecond"),
    "force": ("kJ mol-1 nm-1", "kilojoules_per_mole/nanometer"),
    "time": ("ps", "picoseconds"),
}

#: atomic numbers, and van der Waals radii in nm for VMD's display (A. Bondi, J. Phys. Chem. 68, 441 (1964); 0.2 otherwise)
ELEMENTS = (
    "X H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb Mo Tc "
    "Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi"
).split()
BONDI_RADIUS = {
    "H": 0.120, "C": 0.170, "N": 0.155, "O": 0.152, "F": 0.147, "Si": 0.210, "P": 0.180, "S": 0.180, "Cl": 0.175,
    "Br": 0.185, "I": 0.198, "Na": 0.227, "Mg": 0.173, "K": 0.275,
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """What a trajectory file is made for; stored in it and compared when a run is resumed."""

    topology: Topology  # of the atoms in the file
    atoms: np.ndarray  # int64[m] their global ids
    periodic: bool
    velocities: bool
    forces: bool
    precision: float | None  # nm, as the user gave it
    lattice_spacing: float | None  # nm, the power of two that positions are multiples of
    significant_bits: int  # of velocities and forces
    compression: int  # gzip level
    masses: np.ndarray | None = None  # float64[m] amu
    charges: np.ndarray | None = None  # float64[m] e
    provenance: Mapping[str, str] | None = None  # written as attributes of /parameters/mdsim

    @property
    def n_atoms(self) -> int:
        return len(self.atoms)

    @property
    def elements(self) -> tuple[str, ...]:
        """Names of the time-dependent H5MD elements, ``position`` last: whoever sees a position sees the rest of its frame."""
        return (*(("velocity",) if self.velocities else ()), *(("force",) if self.forces else ()), "position")


def write_layout(file: h5py.File, layout: Layout) -> None:
    """Fill an empty file."""
    _write_metadata(file)
    _write_frames(file, layout)
    _write_parameters(file, layout)
    _write_mdtraj_root(file, layout)


def _write_metadata(file: h5py.File) -> None:
    h5md = file.create_group("h5md")
    h5md.attrs["version"] = np.array([1, 1], dtype=np.int32)
    h5md.create_group("author").attrs["name"] = "N/A"
    creator = h5md.create_group("creator")
    creator.attrs["name"] = "mdsim"
    creator.attrs["version"] = __version__
    h5md.create_group("modules/units").attrs["version"] = np.array([1, 0], dtype=np.int32)


def _write_frames(file: h5py.File, layout: Layout) -> None:
    trajectory = file.create_group(GROUP)
    n, chunk = layout.n_atoms, _chunk_atoms(layout.n_atoms)
    for name in reversed(layout.elements):
        element = trajectory.create_group(name)
        value = element.create_dataset(
            "value",
            shape=(0, n, 3),
            maxshape=(None, n, 3),
            chunks=(1, chunk, 3),
            dtype=np.float32,
            shuffle=True,
            compression="gzip",
            compression_opts=layout.compression,
        )
        _set_units(value, name)
        if name == "position":
            _small(element, "step", (), np.int64)
            _set_units(_small(element, "time", (), np.float64), "time")
        else:
            _link_time(element, trajectory["position"])
    position, others = trajectory["position/value"], [trajectory[f"{k}/value"] for k in layout.elements[:-1]]
    position.attrs["precision"] = layout.precision or 0.0
    position.attrs["lattice_spacing"] = layout.lattice_spacing or 0.0
    for value in others:
        value.attrs["significant_bits"] = layout.significant_bits
    _write_box(trajectory, layout.periodic)


def _write_box(trajectory: h5py.Group, periodic: bool) -> None:
    box = trajectory.create_group("box")
    box.attrs["dimension"] = 3
    kind = "periodic" if periodic else "none"
    box.attrs.create("boundary", np.array([kind] * 3, dtype=object), dtype=h5py.string_dtype())
    if periodic:
        edges = box.create_group("edges")
        _small(edges, "value", (3, 3), np.float64).attrs["unit"] = "nm"
        _link_time(edges, trajectory["position"])


def _chunk_atoms(n: int) -> int:
    """Atoms in a chunk: equal parts below ``MAX_CHUNK_ATOMS``."""
    parts = -(-n // MAX_CHUNK_ATOMS)
    return -(-n // parts)


def _small(group: h5py.Group, name: str, shape: tuple[int, ...], dtype: type) -> h5py.Dataset:
    """A dataset that grows by frames, uncompressed: a chunk is filled in place."""
    return group.create_dataset(
        name, shape=(0, *shape), maxshape=(None, *shape), chunks=(SMALL_CHUNK_FRAMES, *shape), dtype=dtype
    )


def _link_time(element: h5py.Group, source: h5py.Group) -> None:
    for name in ("step", "time"):
        element[name] = source[name]  # a hard link


def _set_units(dataset: h5py.Dataset, quantity: str) -> None:
    dataset.attrs["unit"], dataset.attrs["units"] = UNITS[quantity]


# --- names, bonds, parameters ------------------------------------------------------------------------------------------------


def _strings(names: list[str] | tuple[str, ...]) -> np.ndarray:
    """Fixed-length strings, as VMD's plugin reads them."""
    encoded = [name.encode("ascii", "replace") for name in names]
    return np.array(encoded, dtype=f"S{max(1, *(len(e) for e in encoded))}" if encoded else "S1")


def _put(group: h5py.Group, name: str, array: np.ndarray, unit: str | None = None) -> h5py.Dataset:
    """A dataset that does not change, compressed if that pays."""
    options = {"compression": "gzip", "shuffle": True, "chunks": array.shape} if array.nbytes > 4096 else {}
    dataset = group.create_dataset(name, data=array, **options)
    if unit:
        dataset.attrs["unit"] = unit
    return dataset


def _write_parameters(file: h5py.File, layout: Layout) -> None:
    topology, trajectory = layout.topology, file[GROUP]
    _put(trajectory, "id", layout.atoms)
    if layout.masses is not None:
        _put(trajectory, "mass", np.asarray(layout.masses, dtype=np.float64), "u")
    vmd = file.create_group("parameters/vmd_structure")
    _write_species(vmd, trajectory, layout)
    residue = np.asarray(topology.residue_index)
    _put(vmd, "resid", residue.astype(np.int32))  # to VMD's plugin an index into resname and chain
    _put(vmd, "resname", _strings(topology.residue_names))
    chain_ids = [c or " " for c in topology.chain_ids]
    _put(vmd, "chain", _strings([chain_ids[c] for c in topology.chain_index]))
    _put(vmd, "segid", _strings(chain_ids))
    _put(vmd, "indexOfSegid", np.asarray(topology.chain_index, dtype=np.int32)[residue])
    if layout.charges is not None:
        trajectory["charge"] = _put(vmd, "charge", np.asarray(layout.charges, dtype=np.float64), "e")
    bonds = np.reshape(topology.bonds, (-1, 2)).astype(np.int32)
    _put(vmd, "bond_from", bonds[:, 0] + 1)  # VMD counts from 1
    _put(vmd, "bond_to", bonds[:, 1] + 1)
    _put(file, "connectivity/bonds", bonds).attrs["particles_group"] = trajectory.ref
    parameters = file.create_group("parameters/mdsim")
    _put(parameters, "residue_id", _strings(topology.residue_ids))  # as the input file numbers them
    for key, text in (layout.provenance or {}).items():
        parameters.attrs[key] = text


def _write_species(vmd: h5py.Group, trajectory: h5py.Group, layout: Layout) -> None:
    """Kinds of atoms, by name, element and mass; each atom's kind is ``species``."""
    topology = layout.topology
    masses = np.zeros(layout.n_atoms) if layout.masses is None else np.asarray(layout.masses)
    kinds: dict[tuple[str, str, float], int] = {}
    species = [
        kinds.setdefault((name, element, float(mass)), len(kinds))
        for name, element, mass in zip(topology.atom_names, topology.elements, masses, strict=True)
    ]
    number = {symbol: k for k, symbol in enumerate(ELEMENTS)}
    _put(trajectory, "species", np.array(species, dtype=np.int32))
    _put(vmd, "indexOfSpecies", np.arange(len(kinds), dtype=np.int32))
    _put(vmd, "name", _strings([name for name, _, _ in kinds]))
    _put(vmd, "type", _strings([element or "X" for _, element, _ in kinds]))
    _put(vmd, "mass", np.array([mass for _, _, mass in kinds]))
    radii = [10.0 * BONDI_RADIUS.get(element, 0.2) for _, element, _ in kinds]  # VMD wants angstrom
    _put(vmd, "radius", np.array(radii))
    _put(vmd, "atomicnumber", np.array([number.get(element, 0) for _, element, _ in kinds], dtype=np.int32))


# --- MDTraj ------------------------------------------------------------------------------------------------------------------


def _write_mdtraj_root(file: h5py.File, layout: Layout) -> None:
    """MDTraj's HDF5 conventions 1.1: hard links, the topology as JSON, and the box as lengths and angles."""
    for key, value in {
        "conventions": "Pande",
        "conventionVersion": "1.1",
        "program": "mdsim",
        "programVersion": __version__,
        "application": "mdsim",
    }.items():
        file.attrs[key] = value
    trajectory = file[GROUP]
    file["coordinates"] = trajectory["position/value"]
    file["time"] = trajectory["position/time"]
    if layout.velocities:
        file["velocities"] = trajectory["velocity/value"]
    if layout.periodic:
        _small(file, "cell_lengths", (3,), np.float32).attrs["units"] = "nanometers"
        _small(file, "cell_angles", (3,), np.float32).attrs["units"] = "degrees"
    text = json.dumps(mdtraj_topology(layout.topology), separators=(",", ":")).encode()
    file.create_dataset("topology", data=np.array([text]), chunks=(1,), compression="gzip", shuffle=False)


def mdtraj_topology(topology: Topology) -> dict[str, list[Any]]:
    """The topology as MDTraj's JSON."""
    chains: list[dict[str, Any]] = [
        {"index": c, "chain_id": name or None, "residues": []} for c, name in enumerate(topology.chain_ids)
    ]
    residues: list[dict[str, Any]] = []
    for r, (name, chain) in enumerate(zip(topology.residue_names, topology.chain_index, strict=True)):
        residue = {
            "index": r,
            "name": name,
            "resSeq": _residue_number(topology.residue_ids[r], r),
            "segmentID": topology.chain_ids[chain],
            "atoms": [],
        }
        residues.append(residue)
        chains[chain]["residues"].append(residue)
    for a, (name, element) in enumerate(zip(topology.atom_names, topology.elements, strict=True)):
        residues[topology.residue_index[a]]["atoms"].append({"index": a, "name": name, "element": element or "VS"})
    return {"chains": chains, "bonds": np.reshape(topology.bonds, (-1, 2)).tolist()}


def _residue_number(residue_id: str, default: int) -> int:
    """The number in a residue id (``52A``: 52), for MDTraj knows whole numbers only."""
    found = re.match(r"\s*(-?\d+)", residue_id)
    return int(found.group(1)) if found else default
