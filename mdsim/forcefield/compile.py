"""``openmm.System`` to :class:`mdsim.tables.CompiledSystem`: every force becomes a table, or an error says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openmm

from mdsim.errors import UnsupportedError
from mdsim.forcefield import bonded, implicit, nonbonded, restraints
from mdsim.forcefield.groups import partition, sort_constraints
from mdsim.forcefield.quantities import class_name, columns, force_labels, in_md_units
from mdsim.forcefield.topology import topology_from_openmm
from mdsim.forcefield.validate import check_system, check_tables
from mdsim.forcefield.virtual_sites import virtual_site_table
from mdsim.tables import BondTable, CompiledSystem, ForceTable, NonbondedTable, VirtualSiteTable

#: forces that become one table each
SIMPLE_TABLES: dict[type, Callable[[Any, str], ForceTable]] = {
    openmm.HarmonicBondForce: bonded.bond_table,
    openmm.HarmonicAngleForce: bonded.angle_table,
    openmm.PeriodicTorsionForce: bonded.periodic_torsion_table,
    openmm.RBTorsionForce: bonded.rb_torsion_table,
    openmm.CustomTorsionForce: bonded.custom_torsion_table,
    openmm.CustomBondForce: restraints.custom_bond_table,
    openmm.CustomExternalForce: restraints.custom_external_table,
    openmm.GBSAOBCForce: implicit.gbsa_obc_table,
    openmm.CustomGBForce: implicit.custom_gb_table,
}

#: forces that are no interaction: mdsim has its own, and what to write instead
OWN_CONTROLS = {
    openmm.MonteCarloBarostat: "ask for mdsim's own with 'barostat: {kind: isotropic, ...}'",
    openmm.MonteCarloAnisotropicBarostat: "ask for mdsim's own with 'barostat: {kind: anisotropic, ...}'",
    openmm.MonteCarloMembraneBarostat: "ask for mdsim's own with 'barostat: {kind: membrane, ...}'",
    openmm.AndersenThermostat: "choose a thermostatted integrator, such as 'integrator: {kind: langevin-middle, ...}'",
}

#: handled together with others
JOINT_TABLES = (openmm.NonbondedForce, openmm.CustomNonbondedForce, openmm.CMAPTorsionForce, openmm.CMMotionRemover)


def compile_system(system: openmm.System, topology: openmm.app.Topology | None = None) -> CompiledSystem:
    """Compile a System into tables.

    Parameters
    ----------
    system : openmm.System
    topology : openmm.app.Topology, optional
        For atom names in messages, and for molecules that no bond force holds together.

    Raises
    ------
    UnsupportedError
        The system holds a force, an expression, a virtual site or constraints that mdsim does not compute.
    InputError
        The system is inconsistent: masses, numbers of particles, parameters that are no numbers.
    """
    describe = _describer(topology)
    _refuse_unknown(system)
    masses = columns(([system.getParticleMass(i)] for i in range(system.getNumParticles())), 0, 1)[1][:, 0]
    check_system(system, masses, topology, describe)
    vectors = in_md_units(system.getDefaultPeriodicBoxVectors())
    sites = virtual_site_table(system, describe)
    forces, notes = _force_tables(system, vectors)
    check_tables(forces, describe)
    pairs, distance = columns((system.getConstraintParameters(i) for i in range(system.getNumConstraints())), 2, 1)
    constraints = sort_constraints(pairs, distance[:, 0], masses, describe)
    group_links = np.concatenate([pairs, _site_links(sites)])
    group_atoms, group_start = partition(len(masses), group_links)
    molecule_links = np.concatenate([group_links, _bond_links(forces, topology)])
    molecule_atoms, molecule_start = partition(len(masses), molecule_links)
    nonbonded_table = next((t for t in forces if isinstance(t, NonbondedTable)), None)
    return CompiledSystem(
        masses=masses,
        forces=forces,
        constraints=constraints,
        virtual_sites=sites,
        group_atoms=group_atoms,
        group_start=group_start,
        molecule_atoms=molecule_atoms,
        molecule_start=molecule_start,
        molecule_links=molecule_links.astype(np.int32),
        periodic=_is_periodic(system, nonbonded_table),
        default_vectors=vectors,
        remove_cm_frequency=_cm_frequency(system),
        notes=tuple(notes),
    )


def _describer(topology: openmm.app.Topology | None) -> Callable[[int], str]:
    if topology is None:
        return lambda i: f"atom {i}"
    names = topology_from_openmm(topology)
    return lambda i: names.describe(i) if i < names.n_atoms else f"atom {i}"


def _force_tables(system: openmm.System, vectors: np.ndarray) -> tuple[tuple[ForceTable, ...], list[str]]:
    tables: list[ForceTable] = []
    notes: list[str] = []
    forces = list(zip(system.getForces(), force_labels(system), strict=True))
    for force, label in forces:
        if isinstance(force, openmm.NonbondedForce):
            custom, custom_label = _lennard_jones_force(forces)
            new, more = nonbonded.nonbonded_tables(force, label, custom, custom_label, vectors)
            tables += new
            notes += more
        elif isinstance(force, openmm.CMAPTorsionForce):
            tables += bonded.cmap_tables(force, label)
        elif type(force) in SIMPLE_TABLES:
            tables.append(SIMPLE_TABLES[type(force)](force, label))
        elif type(force) in OWN_CONTROLS:
            notes.append(f"{class_name(force)} in the System is left out: {OWN_CONTROLS[type(force)]}")
    return tuple(t for t in tables if not _is_empty(t)), notes


def _is_empty(table: ForceTable) -> bool:
    atoms = getattr(table, "atoms", None)
    return atoms is not None and len(atoms) == 0


def _lennard_jones_force(
    forces: list[tuple[openmm.Force, str]],
) -> tuple[openmm.CustomNonbondedForce | None, str]:
    """The CustomNonbondedForce that goes with the NonbondedForce."""
    found = [(f, label) for f, label in forces if isinstance(f, openmm.CustomNonbondedForce)]
    return found[0] if found else (None, "")


def _check_combination(forces: list[tuple[openmm.Force, str]]) -> None:
    """At most one pair interaction and one implicit solvent; a CustomNonbondedForce goes with a NonbondedForce."""
    for classes, what in (
        ((openmm.NonbondedForce,), "NonbondedForce"),
        ((openmm.CustomNonbondedForce,), "CustomNonbondedForce"),
        ((openmm.GBSAOBCForce, openmm.CustomGBForce), "implicit solvent"),
    ):
        labels = [label for force, label in forces if isinstance(force, classes)]
        if len(labels) > 1:
            raise UnsupportedError(
                f"the System holds {len(labels)} of {what} ({', '.join(labels)}); mdsim computes one"
            )
    present = {type(force) for force, _ in forces}
    if openmm.CustomNonbondedForce in present and openmm.NonbondedForce not in present:
        force, label = next((f, label) for f, label in forces if isinstance(f, openmm.CustomNonbondedForce))
        raise UnsupportedError(
            f"CustomNonbondedForce '{label}' with the energy '{force.getEnergyFunction()}' stands without a NonbondedForce"
        )


def _refuse_unknown(system: openmm.System) -> None:
    """Every class of force is one that mdsim knows, and they go together."""
    forces = list(zip(system.getForces(), force_labels(system), strict=True))
    for force, label in forces:
        if type(force) in SIMPLE_TABLES or type(force) in OWN_CONTROLS or isinstance(force, JOINT_TABLES):
            continue
        kind = class_name(force)
        energy = f" with the energy '{force.getEnergyFunction()}'" if hasattr(force, "getEnergyFunction") else ""
        named = "" if label == kind else f" '{label}'"
        raise UnsupportedError(f"mdsim does not compute {kind}{named}{energy}; docs/support.md lists what it computes")
    _check_combination(forces)


def _site_links(sites: VirtualSiteTable) -> np.ndarray:
    """int32[3 m, 2]: each site with its parents."""
    return np.column_stack([np.repeat(sites.sites, 3), sites.parents.ravel()]).astype(np.int32)


def _bond_links(forces: tuple[ForceTable, ...], topology: openmm.app.Topology | None) -> np.ndarray:
    """int32[m, 2]: pairs of atoms that are bonded by a force or in the topology."""
    links = [t.atoms for t in forces if isinstance(t, BondTable)]
    if topology is not None:
        links.append(np.array([(b[0].index, b[1].index) for b in topology.bonds()], dtype=np.int32).reshape(-1, 2))
    return np.concatenate(links) if links else np.zeros((0, 2), dtype=np.int32)


def _is_periodic(system: openmm.System, table: NonbondedTable | None) -> bool:
    if table is None:
        return bool(system.usesPeriodicBoundaryConditions())
    return table.method in ("CutoffPeriodic", "PME", "LJPME")


def _cm_frequency(system: openmm.System) -> int:
    removers = [f for f in system.getForces() if isinstance(f, openmm.CMMotionRemover)]
    return min((int(f.getFrequency()) for f in removers), default=0)
