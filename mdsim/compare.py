"""Term-by-term comparison with OpenMM's Reference platform: energies and forces of each force of a System.

Both sides get the same fixed-point positions, the same Ewald splitting parameter and the same mesh. Each OpenMM force is
evaluated in a force group of its own. What mdsim computes in one kernel for two OpenMM forces (charges from NonbondedForce,
Lennard-Jones from CustomNonbondedForce) is compared energy by energy, but by the sum of their forces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import openmm

from mdsim.backends import Backend, get_backend
from mdsim.box import Box
from mdsim.config import RunConfig
from mdsim.constraints import VirtualSites
from mdsim.domain.comm import world
from mdsim.domain.local import Domain
from mdsim.engine.evaluate import ForceEvaluator
from mdsim.engine.timers import Timers
from mdsim.forcefield import LoadedSystem, load_system
from mdsim.forcefield.quantities import force_labels, in_md_units
from mdsim.forces import ForceOptions, ForceTerm, build_terms
from mdsim.kernels.fixed_point import ENERGY_SCALE, FLAG_FORCE_CLIPPED, FORCE_SCALE
from mdsim.state import State
from mdsim.tables import CompiledSystem, NonbondedTable

ENERGY_TOLERANCE = 1e-5  # relative
FORCE_TOLERANCE = 2e-5  # relative rms
#: an energy nearer to zero than this (kJ/mol) is compared with this in its place
SMALLEST_ENERGY = 1.0
#: the same for pair interactions, kJ/mol for each atom: their large positive and negative parts may cancel by chance
SMALLEST_PAIR_ENERGY = 0.1
#: Ewald tolerance of the sum by which OpenMM's own PME error is measured
TIGHT_TOLERANCE = 1e-5
#: iterations of OpenMM's minimiser for structures with overlaps
RELAX_ITERATIONS = 100

REFERENCE = "Reference"

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One force of the System, or all of them."""

    label: str
    energy: float  # kJ/mol, mdsim
    reference_energy: float  # kJ/mol, OpenMM Reference
    energy_scale: float  # kJ/mol: the reference energy's magnitude, or the smallest one that is taken for it
    energy_tolerance: float  # relative to energy_scale
    force_error: float  # relative rms
    force_tolerance: float  # relative rms

    @property
    def energy_error(self) -> float:
        """Relative to ``energy_scale``."""
        return abs(self.energy - self.reference_energy) / self.energy_scale

    @property
    def passed(self) -> bool:
        return self.energy_error <= self.energy_tolerance and self.force_error <= self.force_tolerance


@dataclass(frozen=True)
class Comparison:
    """One row for each force, one for the total, and notes on how they were got."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return all(row.passed for row in self.rows)


@dataclass(frozen=True)
class Contribution:
    """What some forces add: energies (kJ/mol) by label, and the sum of their forces."""

    energies: dict[str, float]
    forces: np.ndarray  # float64[n, 3] kJ/mol/nm

    @property
    def labels(self) -> Labels:
        return tuple(self.energies)

    @property
    def energy(self) -> float:
        return sum(self.energies.values())


def compare(
    loaded: LoadedSystem, backend: Backend | None = None, options: ForceOptions | None = None, relax: bool = False
) -> Comparison:
    """Compare every force of ``loaded`` with OpenMM's Reference platform.

    Parameters
    ----------
    loaded : LoadedSystem
    backend : Backend, optional
        The CPU with all cores where not given.
    options : ForceOptions, optional
        OpenMM's PME has splines of order 5.
    relax : bool
        Minimise with OpenMM first. Done in any case where a force is beyond what fixed point holds (atoms that overlap).
    """
    system = loaded.compile()
    device = backend if backend is not None else get_backend("cpu")
    state, domain = _state(system, device, _relaxed(loaded) if relax else loaded.positions, loaded.vectors)
    evaluators = _evaluators(system, device, domain, state, build_terms(system, device, state.box, options))
    ours = [_computed(evaluator, state) for evaluator in evaluators]
    if not relax and any((evaluator.flags & FLAG_FORCE_CLIPPED).any() for evaluator in evaluators):
        return compare(loaded, device, options, relax=True)

    positions = state.box.cartesian(state.positions, state.images)
    notes = [*loaded.notes, *system.notes]
    if relax:
        notes.append(f"the structure was relaxed by {RELAX_ITERATIONS} iterations of OpenMM's minimiser")
    comparable, box = _comparable(loaded.system, system), state.box
    theirs = reference_contributions(comparable, positions, box)
    platform = _platform_with_all_pairs(system, positions, box, notes)
    if platform != REFERENCE:
        theirs |= reference_contributions(comparable, positions, box, _nonbonded_labels(system), platform)
    mesh_error = _mesh_error(loaded.system, system, positions, box, theirs, platform)
    rows = _rows(ours, theirs, mesh_error, system.masses > 0, _nonbonded_labels(system))
    return Comparison(tuple(rows), tuple(notes))


def relative_rms(values: np.ndarray, reference: np.ndarray) -> float:
    """Root mean square of the difference over that of the reference (of 1 kJ/mol/nm where that is zero)."""
    return _rms(values - reference) / (_rms(reference) or 1.0)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))


# mdsim's side


def _state(
    system: CompiledSystem, backend: Backend, positions: np.ndarray, vectors: np.ndarray | None
) -> tuple[State, Domain]:
    """All atoms on this rank, virtual sites in their places."""
    if system.periodic:
        box = Box(system.default_vectors if vectors is None else vectors)
    else:
        box = Box.for_isolated(positions)
    domain = Domain(world(), backend, system.n_atoms)
    state = domain.distribute(*box.fractions(positions), np.zeros_like(positions), box)
    sites = VirtualSites(backend, system.virtual_sites)
    sites.bind(domain.view(state))
    sites.place(state)
    return state, domain


def _evaluators(
    system: CompiledSystem, backend: Backend, domain: Domain, state: State, terms: Sequence[ForceTerm]
) -> list[ForceEvaluator]:
    """One evaluator for each set of terms whose labels have to be compared together."""
    evaluators = []
    for members in _linked(terms):
        sites = VirtualSites(backend, system.virtual_sites)
        evaluator = ForceEvaluator(backend, world(), members, sites, Timers())
        evaluator.bind(domain.view(state))
        evaluators.append(evaluator)
    return evaluators


def _linked(terms: Sequence[ForceTerm]) -> list[list[ForceTerm]]:
    """Terms that share a label, directly or through others, together."""
    groups: list[tuple[set[str], list[ForceTerm]]] = []
    for term in terms:
        labels, members = set(term.energy_labels), [term]
        for group in [g for g in groups if g[0] & labels]:
            groups.remove(group)
            labels |= group[0]
            members = group[1] + members
        groups.append((labels, members))
    return [members for _, members in groups]


def _computed(evaluator: ForceEvaluator, state: State) -> Contribution:
    evaluator.compute(state, with_energy=True)
    energies: dict[str, float] = dict.fromkeys(evaluator.labels, 0.0)
    for label, energy in zip(evaluator.labels, evaluator.energies, strict=True):
        energies[label] += int(energy) / ENERGY_SCALE
    return Contribution(energies, evaluator.backend.to_host(evaluator.forces).astype(np.float64) / FORCE_SCALE)


# OpenMM's side


def _comparable(system: openmm.System, compiled: CompiledSystem) -> openmm.System:
    """A copy with the mesh of ``compiled``."""
    copy = _copy(system)
    table = _mesh_table(compiled)
    if table is not None:
        for force in copy.getForces():
            if isinstance(force, openmm.NonbondedForce):
                force.setNonbondedMethod(force.LJPME if table.method == "LJPME" else force.PME)
                force.setPMEParameters(table.ewald_alpha, *table.grid)
                if table.method == "LJPME":
                    force.setLJPMEParameters(table.ljpme_alpha, *table.ljpme_grid)
    return copy


def _copy(system: openmm.System) -> openmm.System:
    copy: openmm.System = openmm.XmlSerializer.clone(system)
    return copy


def _mesh_table(system: CompiledSystem) -> NonbondedTable | None:
    tables = [t for t in system.forces if isinstance(t, NonbondedTable) and t.method in ("PME", "LJPME")]
    return tables[0] if tables else None


def reference_contributions(
    system: openmm.System, positions: np.ndarray, box: Box, labels: Labels | None = None, platform: str = REFERENCE
) -> dict[str, Contribution]:
    """Energy and forces of each force of ``system`` (or of those in ``labels``) on a platform of OpenMM.

    Forces on virtual sites are on their parents. ``system`` is changed: the forces get groups of their own.
    """
    names = force_labels(system)
    wanted = [name for name in names if labels is None or name in labels]
    result = {}
    for start in range(0, len(wanted), 31):  # a group is a bit of 32; group 31 takes the rest
        group_of = {name: group for group, name in enumerate(wanted[start : start + 31])}
        for force, name in zip(system.getForces(), names, strict=True):
            force.setForceGroup(group_of.get(name, 31))
        context = _context(system, positions, box.vectors if box.periodic else None, platform)
        for name, group in group_of.items():
            state = context.getState(energy=True, forces=True, groups={group})
            energy = float(in_md_units(state.getPotentialEnergy()))
            result[name] = Contribution({name: energy}, in_md_units(state.getForces(asNumpy=True)))
    return result


def _context(
    system: openmm.System, positions: np.ndarray, vectors: np.ndarray | None, platform: str | None = None
) -> openmm.Context:
    """``positions`` in nm as given, and the box ``vectors`` in nm, if any; OpenMM's own choice where ``platform`` is None."""
    chosen = () if platform is None else (openmm.Platform.getPlatformByName(platform),)
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), *chosen)
    if vectors is not None:
        context.setPeriodicBoxVectors(*(openmm.Vec3(*row) for row in vectors.tolist()))
    context.setPositions(positions)
    return context


def _nonbonded_labels(system: CompiledSystem) -> Labels:
    return tuple({label for t in system.forces if isinstance(t, NonbondedTable) for label in (t.label, t.lj_label)})


def _platform_with_all_pairs(system: CompiledSystem, positions: np.ndarray, box: Box, notes: list[str]) -> str:
    """Platform for the pair interactions: Reference, but for triclinic boxes in which its pair list misses pairs.

    (OpenMM 8.6: its energies there change when all atoms are shifted. Its CPU platform, in single precision, finds them.)
    """
    tables = [t for t in system.forces if isinstance(t, NonbondedTable)]
    if not tables or not box.periodic or box.orthorhombic:
        return REFERENCE
    found = {name: _count_pairs(tables[0].cutoff, positions, box, name) for name in (REFERENCE, "CPU")}
    if found[REFERENCE] >= found["CPU"]:
        return REFERENCE
    notes.append(
        f"OpenMM's Reference platform finds {found[REFERENCE]} of {found['CPU']} pairs in this triclinic box; pair interactions "
        "are compared with its CPU platform (single precision)"
    )
    return "CPU"


def _count_pairs(cutoff: float, positions: np.ndarray, box: Box, platform: str) -> int:
    """Pairs within the cutoff that a platform of OpenMM finds: the energy of a force of 1 kJ/mol a pair."""
    system, force = openmm.System(), openmm.CustomNonbondedForce("1")
    system.setDefaultPeriodicBoxVectors(*(openmm.Vec3(*row) for row in box.vectors.tolist()))
    force.setNonbondedMethod(force.CutoffPeriodic)
    force.setCutoffDistance(cutoff)
    for _ in positions:
        system.addParticle(1.0)
        force.addParticle([])
    system.addForce(force)
    state = _context(system, positions, box.vectors, platform).getState(energy=True)
    return round(float(in_md_units(state.getPotentialEnergy())))


def _mesh_error(
    system: openmm.System,
    compiled: CompiledSystem,
    positions: np.ndarray,
    box: Box,
    theirs: dict[str, Contribution],
    platform: str,
) -> Contribution | None:
    """How far OpenMM's own particle-mesh sum is from one of a tight tolerance: no difference below that means anything."""
    table = _mesh_table(compiled)
    if table is None:
        return None
    tight = _copy(system)
    for force in tight.getForces():
        if isinstance(force, openmm.NonbondedForce):
            force.setPMEParameters(0, 0, 0, 0)
            force.setLJPMEParameters(0, 0, 0, 0)
            force.setEwaldErrorTolerance(TIGHT_TOLERANCE)
    exact = reference_contributions(tight, positions, box, (table.label,), platform)[table.label]
    mine = theirs[table.label]
    return Contribution({table.label: abs(mine.energy - exact.energy)}, mine.forces - exact.forces)


def _relaxed(loaded: LoadedSystem) -> np.ndarray:
    """Positions, float64[n, 3] nm, after some iterations of OpenMM's minimiser on its default platform."""
    context = _context(_copy(loaded.system), loaded.positions, loaded.vectors)
    openmm.LocalEnergyMinimizer.minimize(context, maxIterations=RELAX_ITERATIONS)
    return in_md_units(context.getState(positions=True).getPositions(asNumpy=True))


# the table


def _rows(
    ours: list[Contribution],
    theirs: dict[str, Contribution],
    mesh_error: Contribution | None,
    massive: np.ndarray,
    pair_labels: Labels,
) -> list[Row]:
    """Rows in the order of the System's forces, and the total."""
    computed = {label for mine in ours for label in mine.labels}
    left_out = [c for label, c in theirs.items() if label not in computed and (c.energy or c.forces.any())]
    ours = ours + [Contribution(dict.fromkeys(c.labels, 0.0), np.zeros_like(c.forces)) for c in left_out]
    pair_scale = SMALLEST_PAIR_ENERGY * len(massive)
    rows = {}
    for mine in ours:
        reference = _sum([theirs[label] for label in mine.labels])
        error = mesh_error if mesh_error is not None and set(mesh_error.labels) & set(mine.labels) else None
        for label in mine.labels:
            single = Contribution({label: mine.energies[label]}, mine.forces)
            single_reference = Contribution(theirs[label].energies, reference.forces)
            of_label = error if error is not None and label in error.labels else None
            scale = pair_scale if label in pair_labels else SMALLEST_ENERGY
            rows[label] = _row(label, single, single_reference, of_label, error, massive, scale)
    all_of_theirs = _sum([theirs[label] for label in rows])
    total = _row("all forces", _sum(ours), all_of_theirs, mesh_error, mesh_error, massive, pair_scale)
    return [rows[label] for label in theirs if label in rows] + [total]


def _row(
    label: str,
    mine: Contribution,
    reference: Contribution,
    energy_error: Contribution | None,
    force_error: Contribution | None,
    massive: np.ndarray,
    smallest_energy: float,
) -> Row:
    """``energy_error`` and ``force_error``: OpenMM's own mesh error, where it sets the tolerance."""
    scale = max(abs(reference.energy), smallest_energy)
    forces = reference.forces[massive]
    force_floor = 0.0 if force_error is None else relative_rms(forces + force_error.forces[massive], forces)
    return Row(
        label=label,
        energy=mine.energy,
        reference_energy=reference.energy,
        energy_scale=scale,
        energy_tolerance=max(ENERGY_TOLERANCE, 0.0 if energy_error is None else energy_error.energy / scale),
        force_error=relative_rms(mine.forces[massive], forces),
        force_tolerance=max(FORCE_TOLERANCE, force_floor),
    )


def _sum(contributions: Sequence[Contribution]) -> Contribution:
    energies: dict[str, float] = {}
    for contribution in contributions:
        energies |= contribution.energies
    return Contribution(energies, np.sum([c.forces for c in contributions], axis=0))


# the command


def compare_input(config: RunConfig) -> int:
    """``mdsim compare``: print the table; 0 if all is within tolerance, else 1."""
    backend = get_backend(config.compute.backend, config.compute.n_threads)
    loaded = load_system(config.system)
    result = compare(loaded, backend, ForceOptions(**config.force_parameters()))
    print(f"{config.title or 'comparison'}: {loaded.system.getNumParticles()} particles, against OpenMM Reference\n")
    print(table(result))
    for note in result.notes:
        print(f"note: {note}")
    return 0 if result.passed else 1


def table(result: Comparison) -> str:
    """Plain text, one line a force."""
    width = max(len(row.label) for row in result.rows)
    head = ("energy, kJ/mol", "OpenMM", "rel. error", "tolerance", "force error", "tolerance")
    lines = [f"{'force':{width}}" + "".join(f"{h:>18}" for h in head[:2]) + "".join(f"{h:>13}" for h in head[2:])]
    for row in result.rows:
        energies = f"{row.energy:18.6f}{row.reference_energy:18.6f}"
        errors = (
            f"{row.energy_error:13.2e}{row.energy_tolerance:13.1e}{row.force_error:13.2e}{row.force_tolerance:13.1e}"
        )
        lines.append(f"{row.label:{width}}{energies}{errors}  {'ok' if row.passed else 'FAILED'}")
    return "\n".join(lines)
