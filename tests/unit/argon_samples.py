"""A small system in files: argon on a lattice, serialized by OpenMM, with an input file."""

from pathlib import Path

import numpy as np
import openmm

N = 64
SPACING = 0.5  # nm
INPUT = """\
system: {{system_xml: system.xml, pdb: atoms.pdb}}
dynamics:
  steps: 20
  integrator: {{kind: langevin-middle, timestep: 2 fs, temperature: 300 K}}
  minimize: {minimize}
output: {{trajectory: {{interval: 10}}, energies: {{interval: 10}}}}
compute: {{threads: 1}}
"""


def lattice() -> np.ndarray:
    """float64[N, 3] nm: a simple cubic lattice."""
    return SPACING * (np.indices((4, 4, 4)).reshape(3, -1).T + 0.5)


def write_system(directory: Path, edge: float = 4 * SPACING, cutoff: float = 0.9, mass: float = 39.9, n: int = N) -> None:
    """Argon with a reaction field, as a serialized System."""
    system, force = openmm.System(), openmm.NonbondedForce()
    for _ in range(n):
        system.addParticle(mass)
        force.addParticle(0.0, 0.34, 0.996)
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(cutoff)
    system.addForce(force)
    system.setDefaultPeriodicBoxVectors([edge, 0, 0], [0, edge, 0], [0, 0, edge])
    (directory / "system.xml").write_text(openmm.XmlSerializer.serialize(system))


def write_atoms(directory: Path, positions: np.ndarray) -> None:
    lines = [
        f"HETATM{i + 1:5d} AR   AR  A{i + 1:4d}    {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00          AR\n"
        for i, (x, y, z) in enumerate(10 * positions)
    ]
    (directory / "atoms.pdb").write_text("".join(lines) + "END\n")


def write_all(directory: Path) -> Path:
    """System, structure and input; the path of the input."""
    write_system(directory)
    write_atoms(directory, lattice())
    (directory / "input.yaml").write_text(INPUT.format(minimize="false"))
    return directory / "input.yaml"
