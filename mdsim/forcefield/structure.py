"""Systems from a PDB or mmCIF structure and OpenMM force-field files, with modelling steps before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openmm
from openmm import app, unit

from mdsim.config.system import Modeller, Solvate, SystemConfig
from mdsim.forcefield.loaded import LoadedSystem
from mdsim.forcefield.messages import explained, templates_explained
from mdsim.forcefield.options import system_options
from mdsim.forcefield.quantities import in_md_units

BOX_SHAPES = {"cube": "cube", "dodecahedron": "dodecahedron", "octahedron": "octahedron"}


def read_structure(path: Path) -> app.PDBFile | app.PDBxFile:
    """A PDB or mmCIF file, told apart by the name."""
    with explained(f"reading {path}"):
        return (app.PDBxFile if path.suffix.lower() in (".cif", ".mmcif", ".pdbx") else app.PDBFile)(str(path))


def load_structure(config: SystemConfig, path: Path, forcefield_files: tuple[str, ...]) -> LoadedSystem:
    structure = read_structure(path)
    with explained(f"reading the force field {', '.join(forcefield_files)}"):
        forcefield = app.ForceField(*forcefield_files)
    model = app.Modeller(structure.topology, structure.positions)
    if config.modeller is not None:
        _apply(model, forcefield, config.modeller, path, forcefield_files)
    vectors = model.topology.getPeriodicBoxVectors()
    options = system_options(config, has_box=vectors is not None, source=str(path))
    with explained(f"building a system from {path}"), templates_explained(model.topology, forcefield_files):
        system = forcefield.createSystem(model.topology, **options)
    return LoadedSystem(
        system, model.topology, in_md_units(model.positions), None if vectors is None else in_md_units(vectors)
    )


@contextmanager
def _reproducible() -> Iterator[None]:
    """Modeller places ions and first guesses of hydrogens by Python's random numbers: the same ones each time."""
    state = random.getstate()
    random.seed(0)
    try:
        yield
    finally:
        random.setstate(state)


def _apply(
    model: app.Modeller, forcefield: app.ForceField, steps: Modeller, path: Path, forcefield_files: tuple[str, ...]
) -> None:
    """The modelling steps in their order."""
    with _reproducible(), explained(f"preparing {path}"), templates_explained(model.topology, forcefield_files):
        if steps.delete_water:
            model.deleteWater()
        if steps.hydrogens is not None:
            # the Reference platform: the same positions whatever hardware OpenMM finds
            platform = openmm.Platform.getPlatformByName("Reference")
            model.addHydrogens(forcefield, pH=steps.hydrogens.pH, platform=platform)
        if steps.extra_particles:
            model.addExtraParticles(forcefield)
        if steps.solvate is not None:
            _solvate(model, forcefield, steps.solvate)


def _solvate(model: app.Modeller, forcefield: app.ForceField, solvate: Solvate) -> None:
    size = {}
    if solvate.box is not None:
        size["boxSize"] = openmm.Vec3(*solvate.box) * unit.nanometer
    elif solvate.padding is not None:
        size["padding"] = solvate.padding * unit.nanometer
    else:
        size["numAdded"] = solvate.n_waters
    model.addSolvent(
        forcefield,
        model=solvate.water,
        boxShape=BOX_SHAPES[solvate.shape],
        positiveIon=solvate.positive_ion,
        negativeIon=solvate.negative_ion,
        ionicStrength=solvate.ionic_strength * unit.molar,
        neutralize=solvate.neutralize,
        **size,
    )
