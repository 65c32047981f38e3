"""The ``system`` section: where the molecules and their force field come from."""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import core_schema

from mdsim.config.fields import PACKAGE_PREFIX, InputDirectory, InputFile, Problems, Section, problem, resolve_file
from mdsim.config.quantities import Concentration, Distance, ForceConstant, Length, Mass

File = Annotated[Path, InputFile()]

#: each way to describe a system: the keys that belong together
SOURCES = {
    "pdb + forcefield": ("pdb", "forcefield"),
    "mmcif + forcefield": ("mmcif", "forcefield"),
    "prmtop + inpcrd": ("prmtop", "inpcrd"),
    "top + gro": ("top", "gro"),
    "system_xml + pdb": ("system_xml", "pdb"),
}


class ForceFieldFile:
    """Annotation for a force-field XML: a file beside the input, ``package:NAME/path``, or a name that OpenMM bundles."""

    @staticmethod
    def validate(value: object, info: core_schema.ValidationInfo) -> str:
        if not isinstance(value, str) or not value:
            raise problem("must name a force-field file, for instance amber14-all.xml")
        name = value if value.endswith(".xml") else value + ".xml"
        directory = Path((info.context or {}).get("directory", "."))
        if name.startswith(PACKAGE_PREFIX) or (directory / name).is_file():
            try:
                return str(resolve_file(name, directory))
            except ValueError as error:
                raise problem(str(error)) from None
        if _bundled(name) or entry_points(group="openmm.forcefielddir"):
            return name  # where other packages add directories, OpenMM itself says whether one has it
        raise problem(
            f"there is no force-field file '{name}' beside the input or in OpenMM; OpenMM has for instance "
            "amber14-all.xml, amber14/tip3pfb.xml, amber19-all.xml, charmm36_2024.xml"
        )

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self.validate)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string", "examples": ["amber14-all.xml", "amber14/tip3pfb.xml", "my_ligand.xml"]}


def _bundled(name: str) -> bool:
    """Whether OpenMM ships the force-field file ``name`` (looked up without importing OpenMM)."""
    spec = find_spec("openmm")
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    return any((Path(folder) / "app" / "data" / name).is_file() for folder in folders)


class Nonbonded(Section):
    """Pair interactions and the mesh."""

    method: Literal["PME", "LJPME", "CutoffPeriodic", "CutoffNonPeriodic", "NoCutoff"] = "PME"
    """how electrostatics are computed; NoCutoff for isolated and implicitly solvated molecules"""
    cutoff: Length = 0.9
    """real-space cutoff"""
    switch_distance: Length | None = None
    """where the Lennard-Jones interaction starts to be switched off; unset: no switching"""
    ewald_tolerance: float = Field(default=5e-4, gt=0, lt=1)
    """sets the Ewald width and, unless pme_grid is given, the grid, as OpenMM does"""
    pme_grid: tuple[int, int, int] | None = None
    """points of the charge grid along a, b, c; unset: from ewald_tolerance"""
    dispersion_correction: bool = True
    """add the mean Lennard-Jones energy beyond the cutoff"""
    reaction_field_dielectric: float = Field(default=78.3, ge=1)
    """for the two Cutoff methods"""

    @model_validator(mode="after")
    def _consistent(self) -> Nonbonded:
        problems = Problems()
        if self.switch_distance is not None and self.switch_distance >= self.cutoff:
            problems.add("switch_distance", f"must be below the cutoff of {self.cutoff:g} nm; write a smaller distance")
        if self.pme_grid is not None and min(self.pme_grid) < 6:
            problems.add("pme_grid", "needs at least 6 points a side; write for instance [64, 64, 64]")
        problems.raise_any()
        return self


class ImplicitSolvent(Section):
    """Generalised Born solvent, for non-periodic systems read from an AMBER prmtop."""

    model: Literal["OBC2", "GBn2"]
    """which generalised Born model"""
    solute_dielectric: float = Field(default=1.0, ge=1)
    """relative permittivity inside the molecules"""
    solvent_dielectric: float = Field(default=78.5, ge=1)
    """relative permittivity of the solvent"""
    salt_concentration: Concentration = 0.0
    """monovalent salt, as Debye screening"""


class Hydrogens(Section):
    """Add the hydrogens that the force field expects."""

    pH: float = Field(default=7.0, ge=0, le=14)
    """decides the protonation of titratable residues"""


class Solvate(Section):
    """Fill a box with water and ions."""

    water: Literal["tip3p", "spce", "tip4pew", "tip5p", "swm4ndp"] = "tip3p"
    """geometry of the water that is added; the force field decides the parameters (tip4pew also for OPC)"""
    padding: Length | None = None
    """at least this much water between the molecules and the box faces"""
    box: tuple[Length, Length, Length] | None = None
    """edges of a rectangular box"""
    n_waters: int | None = Field(default=None, ge=1)
    """as large a box as holds this many added waters and ions"""
    shape: Literal["cube", "dodecahedron", "octahedron"] = "cube"
    """of the box, with padding or n_waters"""
    ionic_strength: Concentration = 0.0
    """of added salt, beyond the ions that neutralise"""
    neutralize: bool = True
    """add counterions"""
    positive_ion: Literal["Na+", "K+", "Li+", "Cs+", "Rb+"] = "Na+"
    """cation to add"""
    negative_ion: Literal["Cl-", "Br-", "F-", "I-"] = "Cl-"
    """anion to add"""

    @model_validator(mode="after")
    def _one_size(self) -> Solvate:
        problems = Problems()
        given = [key for key in ("padding", "box", "n_waters") if getattr(self, key) is not None]
        if len(given) != 1:
            what = "none is given" if not given else f"{' and '.join(given)} are given"
            problems.add(given[-1] if given else "padding", f"give one of padding, box, n_waters ({what})")
        problems.raise_any()
        return self


class Modeller(Section):
    """Changes to a PDB or mmCIF structure before the force field is applied, made in the order of the keys."""

    delete_water: bool = False
    """remove all water; ions stay"""
    hydrogens: Hydrogens | None = None
    """add hydrogens"""
    extra_particles: bool = False
    """add the virtual sites and lone pairs that the force field asks for"""
    solvate: Solvate | None = None
    """add water and ions"""


class PositionRestraint(Section):
    """Holds atoms near where they start: u = k/2 (x - x0)^2."""

    kind: Literal["position"]
    atoms: Literal["solute", "heavy", "backbone", "ca"] | tuple[int, ...]
    """all, all but hydrogen, N CA C O, or CA of what is not solvent; or atom indices counted from 0"""
    k: ForceConstant = 1000.0
    """force constant"""


class DistanceRestraint(Section):
    """Keeps two atoms' distance between two bounds: u = k/2 (distance beyond the bound)^2."""

    kind: Literal["distance"]
    atoms: tuple[int, int]
    """two atom indices counted from 0"""
    lower: Distance = 0.0
    """no force above this distance"""
    upper: Distance
    """no force below this distance"""
    k: ForceConstant = 1000.0
    """force constant"""

    @model_validator(mode="after")
    def _ordered(self) -> DistanceRestraint:
        problems = Problems()
        if self.lower > self.upper:
            problems.add("lower", f"must not exceed upper, {self.upper:g} nm; swap them")
        if self.atoms[0] == self.atoms[1]:
            problems.add("atoms", "must be two different atoms")
        problems.raise_any()
        return self


Restraint = Annotated[PositionRestraint | DistanceRestraint, Field(discriminator="kind")]


def _explain_all_bonds(value: Any) -> Any:
    if value in ("all-bonds", "h-angles"):
        raise problem(f"'{value}' would chain heavy atoms, which mdsim does not do; write h-bonds")
    return "none" if value is None or value is False else value


class SystemConfig(Section):
    """Molecules, box and force field. Give one of: pdb + forcefield, mmcif + forcefield, prmtop + inpcrd, top + gro,
    system_xml + pdb."""

    pdb: File | None = None
    """structure, PDB"""
    mmcif: File | None = None
    """structure, PDBx/mmCIF"""
    forcefield: tuple[Annotated[str, ForceFieldFile()], ...] | None = None
    """OpenMM force-field files, bundled ones by name"""
    modeller: Modeller | None = None
    """changes to the structure"""
    prmtop: File | None = None
    """AMBER topology"""
    inpcrd: File | None = None
    """AMBER coordinates"""
    top: File | None = None
    """GROMACS topology"""
    gro: File | None = None
    """GROMACS coordinates"""
    include_directory: Annotated[Path, InputDirectory()] | None = None
    """where GROMACS topologies find their #include files, relative to the input file"""
    system_xml: File | None = None
    """an openmm.System written by openmm.XmlSerializer"""
    nonbonded: Nonbonded = Nonbonded()
    """cutoff and electrostatics"""
    constraints: Annotated[Literal["none", "h-bonds"], BeforeValidator(_explain_all_bonds)] = "h-bonds"
    """which bonds keep their length"""
    rigid_water: bool = True
    """keep water rigid whatever constraints says"""
    hydrogen_mass: Mass | None = None
    """mass of each hydrogen, taken from its heavy atom (allows 4 fs steps); unset: as the force field says"""
    implicit_solvent: ImplicitSolvent | None = None
    """generalised Born solvent in place of water"""
    restraints: tuple[Restraint, ...] = ()
    """position and distance restraints"""

    @model_validator(mode="after")
    def _one_source(self) -> SystemConfig:
        problems = Problems()
        given = {key for keys in SOURCES.values() for key in keys if getattr(self, key) is not None}
        complete = [name for name, keys in SOURCES.items() if set(keys) == given]
        if not complete:
            self._explain_sources(given, problems)
        if self.system_xml is not None:
            for key in ("nonbonded", "constraints", "rigid_water", "hydrogen_mass", "implicit_solvent"):
                if key in self.model_fields_set:
                    problems.add(key, "is already fixed by system_xml; remove the key")
        if self.modeller is not None and self.forcefield is None:
            problems.add("modeller", "needs a structure with a forcefield; remove it")
        if self.include_directory is not None and self.top is None:
            problems.add("include_directory", "is for GROMACS topologies alone; remove it")
        if self.implicit_solvent is not None:
            self._check_implicit(problems)
        problems.raise_any()
        return self

    def _explain_sources(self, given: set[str], problems: Problems) -> None:
        choices = ", ".join(SOURCES)
        if not given:
            problems.add("", f"names no molecules; give one of: {choices}")
            return
        near = max(SOURCES.values(), key=lambda keys: (len(given & set(keys)) - len(given - set(keys)), -len(keys)))
        missing, extra = [k for k in near if k not in given], sorted(given - set(near))
        for key in missing:
            problems.add(next(k for k in near if k in given), f"needs '{key}' beside it; give one of: {choices}")
        for key in extra:
            problems.add(key, f"does not go with {' + '.join(near)}; give one of: {choices}")

    def _check_implicit(self, problems: Problems) -> None:
        if self.prmtop is None:
            problems.add(
                "implicit_solvent",
                "is for prmtop + inpcrd; with a forcefield, add implicit/gbn2.xml or implicit/obc2.xml to it",
            )
        if self.nonbonded.method not in ("NoCutoff", "CutoffNonPeriodic"):
            problems.add("implicit_solvent", "needs a non-periodic system; write nonbonded: {method: NoCutoff}")
