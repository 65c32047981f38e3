"""A small made-up system for tests of files: two peptides, a ligand, four-site waters, ions."""

import numpy as np

from mdsim.box import Box
from mdsim.io.h5md import TrajectorySource
from mdsim.kernels.fixed_point import FORCE_SCALE
from mdsim.state import Snapshot
from mdsim.topology import Topology

TRICLINIC = Box(np.array([[3.0, 0.0, 0.0], [1.0, 2.9, 0.0], [-0.9, 1.1, 2.8]]))
CUBIC = Box(np.diag([3.0, 3.0, 3.0]))
ISOLATED = Box(np.diag([64.0, 64.0, 64.0]), periodic=False)

BACKBONE = (("N", "N"), ("CA", "C"), ("C", "C"), ("O", "O"), ("HA", "H"))


class _Builder:
    def __init__(self):
        self.names, self.elements, self.residue_of, self.bonds = [], [], [], []
        self.residues, self.ids, self.chain_of, self.positions = [], [], [], []

    def residue(self, name, chain, number, atoms, positions, bonds):
        first = len(self.names)
        for (atom, element), x in zip(atoms, positions, strict=True):
            self.names.append(atom)
            self.elements.append(element)
            self.residue_of.append(len(self.residues))
            self.positions.append(x)
        self.bonds += [(first + i, first + j) for i, j in bonds]
        self.residues.append(name)
        self.ids.append(str(number))
        self.chain_of.append(chain)
        return first


def small_system(n_waters=30, residues=(8, 4), seed=0):
    """(Topology, positions float64[n, 3] nm with whole molecules, receptor, companions and waters close together)."""
    rng, b = np.random.default_rng(seed), _Builder()
    for chain, length in enumerate(residues):
        previous, x = None, np.array([1.0, 1.0 + 0.5 * chain, 1.0])
        for k in range(length):
            x = x + np.array([0.2, 0.05 * (-1) ** k, 0.03])
            at = x + rng.normal(0, 0.04, (5, 3))
            first = b.residue("ALA" if k % 2 else "NGLY", chain, k + 1, BACKBONE, at, [(0, 1), (1, 2), (2, 3), (1, 4)])
            if previous is not None:
                b.bonds.append((previous + 2, first))
            previous = first
    atoms = [("C1", "C"), ("C2", "C"), ("O1", "O"), ("H1", "H")]
    b.residue("LIG", 2, "52A", atoms, [1.4, 0.8, 1.1] + rng.normal(0, 0.05, (4, 3)), [(0, 1), (1, 2), (0, 3)])
    for k in range(n_waters):
        x = rng.uniform(0.0, 2.8, 3) + np.array([[0, 0, 0], [0.096, 0, 0], [-0.024, 0.093, 0], [0.01, 0.01, 0]])
        b.residue("HOH", 3, k + 1, [("O", "O"), ("H1", "H"), ("H2", "H"), ("M", "")], x, [(0, 1), (0, 2)])
    for k, name in enumerate(("NA", "CL")):
        b.residue(name, 3, 900 + k, [(name, name.capitalize())], rng.uniform(0, 2.8, (1, 3)), [])
    topology = Topology(
        tuple(b.names),
        tuple(b.elements),
        np.array(b.residue_of, np.int32),
        tuple(b.residues),
        tuple(b.ids),
        np.array(b.chain_of, np.int32),
        ("A", "B", "L", "W"),
        np.array(b.bonds, np.int32),
    )
    return topology, np.array(b.positions)


def source(topology, periodic=True, **more):
    mass = {"H": 1.008, "C": 12.011, "N": 14.007, "O": 15.999, "Na": 22.99, "Cl": 35.45, "": 0.0}
    masses = np.array([mass[e] for e in topology.elements])
    charges = np.linspace(-0.5, 0.5, topology.n_atoms)
    return TrajectorySource(topology, periodic, masses, charges, **more)


def snapshot(positions, box, step=0, time=0.0, seed=0, forget_images=False):
    """A snapshot of ``positions`` (nm), with velocities, forces and energies drawn at random."""
    rng = np.random.default_rng(seed + step)
    s, images = box.fractions(positions)
    forces = np.rint(rng.normal(0, 500, s.shape) * FORCE_SCALE).astype(np.int64)
    return Snapshot(
        step=step,
        time=time,
        box=box,
        positions=s,
        images=np.zeros_like(images) if forget_images else images,
        velocities=rng.normal(0, 1, s.shape),
        forces=forces,
        energies={"bonds": 10.0 + step, "lj": -20.5, "coulomb": -100.25},
        kinetic_energy=55.5,
        temperature=300.0 + step,
        conserved=-54.0,
        extra={"chain": np.arange(3.0)},
    )


def moved(positions, step):
    """Positions a little further on."""
    return positions + 0.01 * step + 0.002 * np.sin(step + np.arange(positions.size).reshape(positions.shape))
