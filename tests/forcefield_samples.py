"""Small systems built once with each of OpenMM's bundled force fields."""

from __future__ import annotations

import lzma
from functools import lru_cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import openmm
from openmm import app, unit

from mdsim.config import SystemConfig
from mdsim.forcefield import LoadedSystem, load_system
from mdsim.forcefield.quantities import in_md_units

DATA = Path(__file__).parent / "data"
N_WATERS = 20

#: name -> force-field files, whether the water has virtual sites
AMBER = {
    "amber14 + TIP3P-FB": (("amber14-all.xml", "amber14/tip3pfb.xml"), False),
    "amber14 + TIP4P-Ew": (("amber14-all.xml", "amber14/tip4pew.xml"), True),
    "amber19 + OPC3": (("amber19-all.xml", "amber19/opc3.xml"), False),
    "amber19 + OPC": (("amber19-all.xml", "amber19/opc.xml"), True),
}
#: built beforehand, since OpenMM takes minutes to match villin's termini to charmm36_2024's patches
#: (villin, 600 waters: Modeller.addSolvent(numAdded=600), PME, 0.9 nm, HBonds)
CHARMM = {"charmm36_2024 + TIP3P": "charmm36_2024_tip3p", "charmm36_2024 + TIP5P": "charmm36_2024_tip5p"}
NAMES = (*AMBER, *CHARMM)


@lru_cache
def villin(name: str) -> LoadedSystem:
    """Villin with water by one of NAMES: 20 waters in vacuum for the AMBER force fields, 600 for CHARMM."""
    return _stored(CHARMM[name]) if name in CHARMM else _built(*AMBER[name])


def _built(files: tuple[str, ...], sites: bool) -> LoadedSystem:
    pdb = app.PDBFile(str(Path(app.__file__).parent / "data" / "test.pdb"))
    model = app.Modeller(pdb.topology, pdb.positions)
    model.delete([r for r in model.topology.residues() if r.name == "HOH"][N_WATERS:])
    with TemporaryDirectory() as directory:
        path = Path(directory) / "villin.pdb"
        with path.open("w") as out:
            app.PDBFile.writeFile(model.topology, model.positions, out)
        modeller = {"extra_particles": True} if sites else None
        return load_system(SystemConfig.model_validate({"pdb": path, "forcefield": files, "modeller": modeller}))


def _stored(stem: str) -> LoadedSystem:
    system = openmm.XmlSerializer.deserialize(_text(f"{stem}.xml.xz"))
    cif = app.PDBxFile(StringIO(_text(f"{stem}.cif.xz")))
    vectors = in_md_units(system.getDefaultPeriodicBoxVectors())
    return LoadedSystem(system, cif.topology, in_md_units(cif.positions), vectors)


def _text(name: str) -> str:
    return lzma.decompress((DATA / name).read_bytes()).decode()


def bare_system(n: int, mass: float = 12.0, edge: float = 3.0) -> openmm.System:
    """``n`` atoms without any force in a cubic box."""
    system = openmm.System()
    for _ in range(n):
        system.addParticle(mass)
    system.setDefaultPeriodicBoxVectors(*(openmm.Vec3(*row) for row in (np.eye(3) * edge).tolist()))
    return system


def charged_system(n: int, method: int = openmm.NonbondedForce.PME) -> tuple[openmm.System, openmm.NonbondedForce]:
    """``n`` atoms with charges +-0.2 e and Lennard-Jones, no exceptions."""
    system, force = bare_system(n), openmm.NonbondedForce()
    for i in range(n):
        force.addParticle(0.2 if i % 2 else -0.2, 0.3, 0.5)
    force.setNonbondedMethod(method)
    force.setCutoffDistance(0.9 * unit.nanometer)
    system.addForce(force)
    return system, force
