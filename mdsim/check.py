"""``mdsim check``: everything that can be known before a run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import pi
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mdsim.backends.cpu import available_cores
from mdsim.box import Box
from mdsim.config import RunConfig, load_input
from mdsim.errors import InputError, MdsimError
from mdsim.forcefield import LoadedSystem, load_system
from mdsim.io.h5md import TrajectorySettings, TrajectorySource
from mdsim.io.size import estimate_size, readable_bytes
from mdsim.state import Snapshot
from mdsim.tables import BondTable, CompiledSystem, NonbondedTable

#: a bond must swing in no fewer steps than this, else the integration is inaccurate or unstable
LEAST_STEPS_PER_PERIOD = 5.0
#: ps; with ordinary hydrogens, angles that bend them set the limit
LONGEST_PLAIN_TIMESTEP, LIGHTEST_SLOW_HYDROGEN = 0.0025, 1.5  # ps, amu
#: bytes that Python, Numba, OpenMM and HDF5 take before there is an atom (measured)
BASE_MEMORY = 320e6
#: bytes of the pair lists for each pair of atoms within their reach (4 x 8 clusters hold some 2.4 slots a pair)
BYTES_PER_PAIR = 1.5


@dataclass(frozen=True)
class Line:
    """One line of the report; ``level`` is "", "warning" or "error"."""

    topic: str
    text: str
    level: str = ""


def check_input(
    path: Path, overrides: Iterable[str] = (), *, steps: int | None = None, threads: int | None = None
) -> int:
    """Print the report on an input file; the exit code is that of the first error."""
    config = load_input(path, overrides, steps=steps, threads=threads)
    loaded = load_system(config.system)
    try:
        system, errors = loaded.compile(), []
    except MdsimError as error:
        system, errors = None, [error]
    lines = [*describe_input(config, loaded)]
    if system is not None:
        for check in (_box_errors, _selection_errors):
            errors.extend(check(config, loaded, system))
        lines += [*describe_system(config, loaded, system), *warnings_of(config, loaded, system)]
        if not errors:
            lines += describe_resources(config, loaded, system)
    lines += [Line("error", str(error), "error") for error in errors]
    _print(lines)
    return errors[0].exit_code if errors else 0


def _print(lines: list[Line]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 132)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    style = {"": "", "warning": "yellow", "error": "red"}
    for line in lines:
        table.add_row(line.topic, escape(line.text), style=style[line.level])
    console.print(table)
    n_warnings, n_errors = (sum(line.level == level for line in lines) for level in ("warning", "error"))
    console.print(f"{n_errors} error{'s' * (n_errors != 1)}, {n_warnings} warning{'s' * (n_warnings != 1)}")


def describe_input(config: RunConfig, loaded: LoadedSystem) -> Iterator[Line]:
    """What the input asks for."""
    dynamics, integrator = config.dynamics, config.integrator_parameters()
    if config.title:
        yield Line("title", config.title)
    length = dynamics.n_steps * dynamics.timestep
    yield Line("run", f"{dynamics.n_steps} steps of {1000 * dynamics.timestep:g} fs, {readable_time(length)}; {integrator['kind']}")
    if dynamics.barostat is not None:
        yield Line("barostat", f"{dynamics.barostat.kind}, every {config.every(dynamics.barostat.frequency)} steps")
    names = loaded.names
    yield Line("atoms", f"{names.n_atoms} in {len(names.residue_names)} residues and {len(names.chain_ids)} chains")


def readable_time(ps: float) -> str:
    """A simulated time in the unit that fits."""
    for unit, size in (("us", 1e6), ("ns", 1e3)):
        if ps >= size:
            return f"{ps / size:g} {unit}"
    return f"{ps:g} ps"


def describe_system(config: RunConfig, loaded: LoadedSystem, system: CompiledSystem) -> Iterator[Line]:
    """What the force field made of it."""
    c, n_sites = system.constraints, len(system.virtual_sites.sites)
    yield Line("degrees of freedom", str(system.degrees_of_freedom))
    yield Line("constraints", f"{len(c.settle)} rigid waters, {len(c.distance)} other distances")
    if n_sites:
        yield Line("virtual sites", str(n_sites))
    yield Line("forces", ", ".join(f"{table.label} ({_entries(table)})" for table in system.forces))
    box = _box(loaded, system)
    if box.periodic:
        shape = "rectangular" if box.orthorhombic else "triclinic"
        widths = " x ".join(f"{w:.4g}" for w in box.widths)
        yield Line("box", f"{shape}, {widths} nm between faces, {box.volume:.4g} nm^3, {_density(system, box):.4g} g/cm^3")
    else:
        yield Line("box", "none: not periodic")
    for table in _nonbonded(system):
        yield Line("non-bonded", _describe_nonbonded(table, config))
    for note in (*loaded.notes, *system.notes):
        yield Line("note", note)


def _entries(table: object) -> int:
    """Bonds, angles, ... or atoms in a table."""
    for name in ("atoms", "charge"):
        if hasattr(table, name):
            return len(getattr(table, name))
    return 0


def _nonbonded(system: CompiledSystem) -> list[NonbondedTable]:
    return [table for table in system.forces if isinstance(table, NonbondedTable)]


def _describe_nonbonded(table: NonbondedTable, config: RunConfig) -> str:
    text = table.method if np.isinf(table.cutoff) else f"{table.method}, cutoff {table.cutoff:g} nm"
    if table.switch_distance is not None:
        text += f", switched from {table.switch_distance:g} nm"
    if table.method in ("PME", "LJPME"):
        grid = " x ".join(map(str, table.grid))
        text += f", grid {grid}, splines of order {config.compute.pme_order}, alpha {table.ewald_alpha:.5g} /nm"
    if table.dispersion_coefficient:
        text += ", dispersion correction"
    return text


def _density(system: CompiledSystem, box: Box) -> float:
    """g/cm^3"""
    return float(system.masses.sum()) * 1.66053906660e-3 / box.volume


def _box(loaded: LoadedSystem, system: CompiledSystem) -> Box:
    if not system.periodic:
        return Box.for_isolated(loaded.positions)
    return Box(system.default_vectors if loaded.vectors is None else loaded.vectors)


def _box_errors(config: RunConfig, loaded: LoadedSystem, system: CompiledSystem) -> Iterator[MdsimError]:
    try:
        box = _box(loaded, system)
    except InputError as error:
        yield error
        return
    smallest = float(box.widths.min())
    for table in _nonbonded(system):
        if box.periodic and table.cutoff > 0.5 * smallest:
            yield InputError(
                f"the cutoff of {table.cutoff:g} nm exceeds half the smallest width of the box, {smallest:.4g} nm: "
                "use a larger box or a shorter cutoff"
            )


def _selection_errors(config: RunConfig, loaded: LoadedSystem, system: CompiledSystem) -> Iterator[MdsimError]:
    from mdsim.io.selection import find_molecules, select_atoms

    if config.output.trajectory:
        try:
            select_atoms(loaded.names, find_molecules(loaded.names), config.output.trajectory.selection)
        except InputError as error:
            yield error


def warnings_of(config: RunConfig, loaded: LoadedSystem, system: CompiledSystem) -> Iterator[Line]:
    """What is allowed and yet likely to be a mistake."""
    fastest = fastest_bond(system)
    timestep = config.dynamics.timestep
    if fastest is not None and fastest[0] < LEAST_STEPS_PER_PERIOD * timestep:
        period, i, j = fastest
        names = loaded.names
        yield Line(
            "warning",
            f"the bond of {names.describe(i)} and {names.describe(j)} swings in {1000 * period:.3g} fs, which is less than "
            f"{LEAST_STEPS_PER_PERIOD:g} steps of {1000 * timestep:g} fs: shorten dynamics.integrator.timestep, or set "
            "system.constraints: h-bonds and system.hydrogen_mass",
            "warning",
        )
    hydrogens = system.masses[system.constraints.atoms.ravel()]
    if timestep > LONGEST_PLAIN_TIMESTEP and len(hydrogens) and hydrogens.min() < LIGHTEST_SLOW_HYDROGEN:
        yield Line(
            "warning",
            f"steps of {1000 * timestep:g} fs are long for hydrogens of {hydrogens.min():.3g} amu: set system.hydrogen_mass, for "
            "instance 3 amu, or shorten dynamics.integrator.timestep",
            "warning",
        )
    for table in _nonbonded(system):
        charge = float(table.charge.sum())
        if table.method in ("PME", "LJPME") and abs(charge) > 0.01:
            text = f"the system has a charge of {charge:+.3g} e; PME neutralises it by a uniform background: add ions instead"
            yield Line("warning", text, "warning")
    box = _box(loaded, system)
    if box.periodic and not 0.3 < _density(system, box) < 2.0:
        yield Line("warning", f"a density of {_density(system, box):.3g} g/cm^3 is unusual: look at the box", "warning")
    closest = closest_pair(loaded.positions, system.masses)
    if closest is not None and closest[0] < 0.05 and not config.dynamics.minimize:
        distance, i, j = closest
        text = f"{loaded.names.describe(i)} and {loaded.names.describe(j)} are {distance:.3g} nm apart: set dynamics.minimize"
        yield Line("warning", text, "warning")
    cores, chosen = available_cores(), config.compute.n_threads
    if chosen is not None and chosen > cores:
        yield Line("warning", f"{chosen} threads on {cores} cores: the run will be slower than with {cores}", "warning")


def fastest_bond(system: CompiledSystem) -> tuple[float, int, int] | None:
    """(period in ps, atom, atom) of the harmonic bond that swings fastest, constrained ones left out.

    The period of two masses on a spring, 2 pi sqrt(mu / k), mu = m1 m2 / (m1 + m2).
    """
    c = system.constraints
    pairs = [c.settle[:, [0, 1]], c.settle[:, [0, 2]], c.settle[:, [1, 2]], c.atoms]
    constrained = {tuple(sorted(pair)) for array in pairs for pair in array.tolist()}
    best: tuple[float, int, int] | None = None
    for table in system.forces:
        if not isinstance(table, BondTable) or not len(table.atoms):
            continue
        m = system.masses[table.atoms]
        free = np.array([tuple(sorted(pair)) not in constrained for pair in table.atoms.tolist()])
        free &= (m > 0).all(axis=1) & (table.k > 0)
        if not free.any():
            continue
        mu = m[free].prod(axis=1) / m[free].sum(axis=1)
        periods = 2.0 * pi * np.sqrt(mu / table.k[free])
        row = int(np.argmin(periods))
        i, j = table.atoms[free][row]
        if best is None or periods[row] < best[0]:
            best = float(periods[row]), int(i), int(j)
    return best


def closest_pair(positions: np.ndarray, masses: np.ndarray) -> tuple[float, int, int] | None:
    """(distance in nm, atom, atom) of the two massive atoms that are closest, periodic images left aside."""
    from scipy.spatial import cKDTree

    atoms = np.flatnonzero(masses > 0)
    if len(atoms) < 2:
        return None
    distances, neighbours = cKDTree(positions[atoms]).query(positions[atoms], k=2)
    i = int(np.argmin(distances[:, 1]))
    return float(distances[i, 1]), int(atoms[i]), int(atoms[neighbours[i, 1]])


def describe_resources(config: RunConfig, loaded: LoadedSystem, system: CompiledSystem) -> Iterator[Line]:
    """Disk and memory."""
    total = 0.0
    trajectory = config.output.trajectory
    if trajectory:
        n_frames = config.dynamics.n_steps // config.every(trajectory.interval) + 1  # the start too
        settings = TrajectorySettings(
            trajectory.selection, trajectory.precision, trajectory.velocities, trajectory.forces
        )
        source = TrajectorySource(loaded.names, system.periodic, masses=system.masses)
        size = estimate_size(source, settings, _snapshot(loaded, system), n_frames, config.dynamics.temperature or 300.0)
        total += size.total
        yield Line("trajectory", str(size))
    if config.output.energies:
        n_rows = config.dynamics.n_steps // config.every(config.output.energies.interval) + 1
        size_of_log = n_rows * 2 * 20 * (8 + len(system.forces))  # CSV and HDF5, some 20 characters a number
        total += size_of_log
        yield Line("energy log", f"{n_rows} rows, some {readable_bytes(size_of_log)}")
    checkpoint = 2 * system.n_atoms * (12 + 12 + 24)
    total += checkpoint
    yield Line("checkpoints", f"two generations, {readable_bytes(checkpoint)}")
    yield Line("memory", f"some {readable_bytes(memory_estimate(config, loaded, system))}")
    free = _free_space(config.output.directory)
    if free is not None and total > free:
        text = f"the output needs {readable_bytes(total)}, the disk of {config.output.directory} has {readable_bytes(free)} left"
        yield Line("warning", text, "warning")


def _snapshot(loaded: LoadedSystem, system: CompiledSystem) -> Snapshot:
    box = _box(loaded, system)
    positions, images = box.fractions(loaded.positions)
    return Snapshot(step=0, time=0.0, box=box, positions=positions, images=images)


def memory_estimate(config: RunConfig, loaded: LoadedSystem, system: CompiledSystem) -> float:
    """Bytes: arrays of each atom, one force array a thread, pair lists, charge grids."""
    threads = config.compute.n_threads or available_cores()
    total = BASE_MEMORY + system.n_atoms * (400 + 24 * (threads + 2))
    volume = _box(loaded, system).volume if system.periodic else None
    for table in _nonbonded(system):
        reach = table.cutoff + 0.1
        neighbours = system.n_atoms if volume is None else system.n_atoms / volume * 4.19 * reach**3
        total += 0.5 * system.n_atoms * min(neighbours, system.n_atoms) * BYTES_PER_PAIR
        for grid in (table.grid, table.ljpme_grid):
            total += 8.0 * float(np.prod(grid)) * (threads + 4)
    return total


def _free_space(directory: Path) -> int | None:
    """Bytes left on the disk that ``directory`` is, or will be, on."""
    absolute = directory.absolute()
    for here in (absolute, *absolute.parents):
        if here.is_dir():
            return shutil.disk_usage(here).free
    return None
