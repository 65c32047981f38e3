"""A simulation for scripts and notebooks: a system, its state, and what moves it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mdsim.backends import get_backend
from mdsim.barostats import Molecules, make_barostat, molecular_pressure
from mdsim.box import Box
from mdsim.checks import require_whole
from mdsim.constraints import VirtualSites
from mdsim.domain.comm import Communicator, world
from mdsim.domain.local import Domain
from mdsim.engine.diagnose import atoms_named, force_error
from mdsim.engine.evaluate import ForceEvaluator
from mdsim.engine.interrupts import interrupts_after_a_step
from mdsim.engine.minimize import MinimizationResult, minimize
from mdsim.engine.step import advance, compute_forces
from mdsim.engine.timers import Timers
from mdsim.errors import InputError, OutputError
from mdsim.forces import ForceOptions, build_terms
from mdsim.integrators import make_integrator
from mdsim.io.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from mdsim.io.fingerprint import system_fingerprint
from mdsim.io.results import MANIFEST
from mdsim.kernels.fixed_point import FORCE_SCALE
from mdsim.molecules import boxes_to_whole, spanning_forest
from mdsim.reporters import Reporter
from mdsim.state import Snapshot, State
from mdsim.tables import CompiledSystem
from mdsim.topology import Topology
from mdsim.units import BOLTZMANN

#: what a snapshot may hold
FIELDS = frozenset({"positions", "velocities", "forces", "energies"})


class Simulation:
    """Molecular dynamics of one system.

    Parameters
    ----------
    system : openmm.System or CompiledSystem
    topology : openmm.app.Topology or Topology, optional
        Names for error messages and files.
    positions : float[n, 3], nm, or an openmm Quantity
    integrator : mapping
        ``{"kind": "langevin-middle", "timestep": 0.002, "temperature": 300.0, "friction": 1.0}``; ps, K, 1/ps. See
        ``mdsim.integrators.make_integrator`` for the kinds and their parameters.
    box_vectors : float[3, 3], nm, optional
        Rows in reduced form; the system's default ones where not given. Ignored by non-periodic systems.
    velocities : float[n, 3], nm/ps, optional
    barostat : mapping, optional
        ``{"kind": "isotropic", "pressure": 1.0, "frequency": 25}``; bar, steps. See ``mdsim.barostats.make_barostat``.
    seed : int
        Of all random numbers.
    threads : int, optional
        All cores that the process may use where not given; changes no bit.
    force_options : ForceOptions, optional
    remove_cm_motion : bool
        Obey the system's CMMotionRemover, if it has one.

    Attributes
    ----------
    state : State
        Positions (fixed point), velocities, box, step of this rank.
    reporters : list of Reporter
        Served at the steps that they ask for.
    timers : Timers
        Where the time goes, by part.
    """

    def __init__(
        self,
        system: Any,
        topology: Any = None,
        positions: Any = None,
        *,
        integrator: Mapping[str, Any],
        box_vectors: Any = None,
        velocities: np.ndarray | None = None,
        barostat: Mapping[str, Any] | None = None,
        seed: int = 1,
        backend: str = "cpu",
        threads: int | None = None,
        force_options: ForceOptions | None = None,
        remove_cm_motion: bool = True,
        comm: Communicator | None = None,
    ) -> None:
        self.comm = comm if comm is not None else world()
        self.backend = get_backend(backend, threads)
        self.system, self.topology = _compiled(system, topology)
        for note in self.system.notes:
            warnings.warn(note, stacklevel=2)
        if not remove_cm_motion:
            self.system = replace(self.system, remove_cm_frequency=0)
        self.seed = require_whole("seed", seed)
        self.timers = Timers()
        self.reporters: list[Reporter] = []
        x, vectors = _in_nm(positions, self.system.n_atoms), _in_nm(box_vectors, 3)
        if x is None:
            raise InputError("a simulation needs positions: float[n_atoms, 3] in nm, or an openmm Quantity")
        box = _box(self.system, x, vectors)
        fractions, images = _whole_molecules(box, x, self.system)
        v = np.zeros_like(x) if velocities is None else _in_nm(velocities, self.system.n_atoms)
        assert v is not None
        self.domain = Domain(self.comm, self.backend, self.system.n_atoms)
        self.state: State = self.domain.distribute(fractions, images, v, box)
        self.force_options = force_options
        terms = build_terms(self.system, self.backend, box, force_options)
        sites = VirtualSites(self.backend, self.system.virtual_sites)
        self.evaluator = ForceEvaluator(self.backend, self.comm, terms, sites, self.timers)
        self.integrator = make_integrator(
            self.backend, self.system, sum_over_ranks=self.comm.sum, **_with_seed(integrator, seed)
        )
        self.barostat = None
        if barostat is not None:
            temperature = self.integrator.temperature
            self.barostat = make_barostat(
                self.backend, self.system, sum_over_ranks=self.comm.sum,
                **{"temperature": temperature, "seed": seed, "frequency": 25, **_parameters("barostat", barostat)},
            )  # fmt: skip
        self.remove_cm_frequency = self.system.remove_cm_frequency
        self._bind()

    def _bind(self) -> None:
        view = self.domain.view(self.state)
        self.evaluator.bind(view)
        self.integrator.bind(view)
        if self.barostat is not None:
            self.barostat.bind(view)

    # ---- running

    def run(self, steps: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Advance by ``steps`` steps, serving the reporters; ``stop`` is asked after each step and ends the run early."""
        end = self.state.step + require_whole("the number of steps", steps, least=0)
        with interrupts_after_a_step() as interrupted:
            while self.state.step < end:
                due = self._next_report()
                with self._atoms_named():
                    advance(self, energy_at_end=self._energy_wanted(self.state.step + 1, due))
                if self.state.step == due:
                    self.report()
                if interrupted():
                    raise KeyboardInterrupt
                if stop():
                    return

    def report(self) -> None:
        """Serve every reporter that is due at the present step."""
        step = self.state.step
        due = [r for r in self.reporters if r.next_step(step - 1) == step]
        if not due:
            return
        with self.timers.part("output"):
            snapshot = self.snapshot(frozenset().union(*(r.needs for r in due)))
            for reporter in due:
                reporter.report(snapshot)

    def _next_report(self) -> int:
        return min((r.next_step(self.state.step) for r in self.reporters), default=-1)

    def _energy_wanted(self, step: int, due: int) -> bool:
        """Whether the energy at ``step`` will be asked for: by a reporter, or by the barostat at the start of the next step."""
        if self.barostat is not None and step % self.barostat.frequency == 0:
            return True
        return step == due and any("energies" in r.needs for r in self.reporters if r.next_step(step - 1) == step)

    def attempt_volume_move(self) -> bool:
        """One Monte Carlo move of the barostat; True if it was accepted."""
        assert self.barostat is not None
        forces = self.evaluator
        forces.compute(self.state, with_energy=True)
        before = forces.save()
        accepted = self.barostat.attempt(self.state, self._energy_before_change)
        if accepted:
            forces.confirm()
        else:
            forces.restore(before)
        return accepted

    def _energy_before_change(self) -> int:
        """Potential energy, fixed point, of the state as it is; the caller is about to change the state."""
        self.evaluator.compute(self.state, with_energy=True)
        self.evaluator.invalidate()
        return self.evaluator.potential

    def compute_forces(self) -> None:
        """Bring the forces up to date with the positions; SimulationError where one overflows."""
        compute_forces(self, with_energy=False)

    def raise_for_flags(self) -> None:
        """Turn the flags of the last force computation into an error that names term and atoms."""
        raise force_error(self.evaluator, self.state, self.topology)

    def _atoms_named(self) -> AbstractContextManager[None]:
        """Around all that may break: errors then say what atoms are called and which term acts on them."""
        return atoms_named(self.evaluator, lambda: self.state, self.topology)

    # ---- setting up

    def minimize(self, tolerance: float = 10.0, max_steps: int = 1000) -> MinimizationResult:
        """Relax the positions until the rms force is below ``tolerance`` (kJ/mol/nm) or ``max_steps`` are done."""
        with self._atoms_named():
            return minimize(self, tolerance=tolerance, max_steps=max_steps)

    def draw_velocities(self, temperature: float, seed: int | None = None) -> None:
        """Velocities from the Maxwell-Boltzmann distribution at ``temperature`` (K), obeying the constraints."""
        self.integrator.draw_velocities(
            self.state,
            _plain("velocities", "temperature", temperature),
            self.seed if seed is None else require_whole("seed", seed),
        )

    def constrain(self) -> None:
        """Make positions and velocities obey the constraints."""
        with self._atoms_named():
            self.integrator.constrain(self.state)
        self.evaluator.invalidate()

    # ---- stopping and going on

    def checkpoint(
        self, settings: Mapping[str, Any] | None = None, counts: Mapping[str, int] | None = None
    ) -> Checkpoint:
        """The present moment, complete: what a run needs to go on with the same bits."""
        return Checkpoint(
            step=self.state.step,
            time=self.time,
            box=self.state.box,
            positions=self._gather(self.state.positions),
            images=self._gather(self.state.images),
            velocities=self.velocities,
            extra=dict(self.state.extra),
            counts=dict(counts or {}),
            system=system_fingerprint(self.system),
            settings=dict(settings or {}),
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back (or on) to the moment of ``checkpoint``."""
        if len(checkpoint.positions) != self.system.n_atoms:
            raise OutputError(
                f"the checkpoint holds {len(checkpoint.positions)} atoms, the system {self.system.n_atoms}: it is of another run"
            )
        self.state = self.domain.distribute(
            checkpoint.positions, checkpoint.images, checkpoint.velocities, checkpoint.box, checkpoint.step
        )
        self.state.extra.update(checkpoint.extra)
        self._bind()

    def save(self, directory: str | Path) -> Path:
        """Write a checkpoint into ``directory``; the one before is kept beside it. Not for the results of ``mdsim run``."""
        if (Path(directory) / MANIFEST).exists():
            raise OutputError(
                f"{directory} holds the result of a run, whose checkpoint would be lost; choose another directory"
            )
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"the directory {directory} cannot be made: {error}") from error
        return save_checkpoint(directory, self.checkpoint())

    def load(self, directory: str | Path) -> None:
        """Go on from the newest sound checkpoint in ``directory``."""
        checkpoint = load_checkpoint(directory)
        if checkpoint is None:
            raise OutputError(f"there is no checkpoint in {directory}")
        checkpoint.check_same_run(system_fingerprint(self.system), checkpoint.settings, directory)
        self.restore(checkpoint)

    # ---- looking

    @property
    def time(self) -> float:
        """ps"""
        return self.state.step * self.integrator.timestep

    @property
    def positions(self) -> np.ndarray:
        """float64[n, 3] nm, unwrapped, in global order."""
        return self.state.box.cartesian(self._gather(self.state.positions), self._gather(self.state.images))

    @property
    def velocities(self) -> np.ndarray:
        """float64[n, 3] nm/ps in global order."""
        return self._gather(self.state.velocities)

    @property
    def forces(self) -> np.ndarray:
        """float64[n, 3] kJ/mol/nm in global order; zero on virtual sites, whose forces their parents carry."""
        self.evaluator.compute(self.state, with_energy=False)
        forces: np.ndarray = self._gather(self.evaluator.forces) / FORCE_SCALE
        return forces

    @property
    def energies(self) -> dict[str, float]:
        """Potential energy by term, kJ/mol."""
        self.evaluator.compute(self.state, with_energy=True)
        return self.evaluator.energy_by_name()

    @property
    def potential_energy(self) -> float:
        """kJ/mol"""
        return sum(self.energies.values())

    @property
    def kinetic_energy(self) -> float:
        """kJ/mol, of the velocities as they are (half a step back for LangevinMiddle)."""
        return self.integrator.kinetic_energy(self.state)

    @property
    def temperature(self) -> float:
        """K, of the velocities as they are."""
        return self._temperature(self.kinetic_energy)

    def _temperature(self, kinetic_energy: float) -> float:
        return 2.0 * kinetic_energy / (max(self.integrator.degrees_of_freedom, 1) * BOLTZMANN)

    def pressure(self) -> float:
        """Instantaneous molecular pressure, bar, by a small change of the volume."""
        molecules = Molecules(self.backend, self.system, self.comm.sum)
        molecules.bind(self.domain.view(self.state))
        self.evaluator.invalidate()  # what it knows is for the volume before the change
        pressure = molecular_pressure(molecules, self.state, self._energy_before_change, self.temperature)
        self.evaluator.invalidate()
        return pressure

    def snapshot(self, fields: frozenset[str] = FIELDS) -> Snapshot:
        """The state gathered for output, with the fields asked for."""
        unknown = fields - FIELDS
        if unknown:
            raise InputError(f"a snapshot has no {', '.join(sorted(unknown))}; known: {', '.join(sorted(FIELDS))}")
        state = self.state
        content: dict[str, Any] = {}
        if "energies" in fields:
            kinetic, energies = self.kinetic_energy, self.energies
            conserved = sum(energies.values()) + kinetic + self.integrator.bath_energy(state)
            content.update(
                energies=energies,
                kinetic_energy=kinetic,
                temperature=self._temperature(kinetic),
                conserved=conserved,
            )
        if "positions" in fields:
            content.update(positions=self._gather(state.positions), images=self._gather(state.images))
        if "velocities" in fields:
            content["velocities"] = self.velocities
        if "forces" in fields:
            self.evaluator.compute(state, with_energy=False)
            content["forces"] = self._gather(self.evaluator.forces)
        return Snapshot(step=state.step, time=self.time, box=state.box, extra=dict(state.extra), **content)

    def _gather(self, values: np.ndarray) -> np.ndarray:
        return self.domain.gather(self.state, values).copy()


def _compiled(system: Any, topology: Any) -> tuple[CompiledSystem, Topology | None]:
    """What the user gave as system and topology, as tables and names."""
    if isinstance(system, CompiledSystem):
        return system, topology
    from mdsim.forcefield import compile_system, topology_from_openmm

    for given, what, method in ((system, "system", "getForces"), (topology, "topology", "atoms")):
        if not (hasattr(given, method) or isinstance(given, Topology) or (given is None and what == "topology")):
            raise InputError(f"the {what} must be OpenMM's or mdsim's own, got {type(given).__name__}")
    names = topology if topology is None or isinstance(topology, Topology) else topology_from_openmm(topology)
    return compile_system(system, topology), names


def _in_nm(values: Any, rows: int) -> np.ndarray | None:
    """float64[rows, 3] out of an array or an openmm Quantity."""
    if values is None:
        return None
    if hasattr(values, "value_in_unit_system"):  # an openmm Quantity
        from mdsim.forcefield.quantities import in_md_units

        values = in_md_units(values)
    try:
        array = np.asarray(values).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError) as error:
        raise InputError(f"expected an array of numbers of shape ({rows}, 3): {error}") from None
    if array.shape != (rows, 3):
        raise InputError(f"expected an array of shape ({rows}, 3), got {array.shape}")
    wrong = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(wrong):
        raise InputError(
            f"row {wrong[0]} of positions, velocities or box vectors is not finite: {array[wrong[0]].tolist()}"
        )
    return array


def _box(system: CompiledSystem, positions: np.ndarray, vectors: np.ndarray | None) -> Box:
    if not system.periodic:
        return Box.for_isolated(positions)
    return Box(system.default_vectors if vectors is None else vectors)


def _whole_molecules(box: Box, positions: np.ndarray, system: CompiledSystem) -> tuple[np.ndarray, np.ndarray]:
    """Fixed-point positions int32[n, 3], and images int32[n, 3] by which each molecule is in one piece.

    Files may hold molecules cut at the faces of the box; a barostat moves them by their centre, which must be one.
    """
    fractions, images = box.fractions(positions)
    if box.periodic and len(system.molecule_links):
        forest = spanning_forest(system.n_atoms, system.molecule_links)
        images += boxes_to_whole(fractions, images.astype(np.int64), forest).astype(np.int32)
    return fractions, images


def _parameters(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping that describes an integrator or a barostat, which says its kind."""
    if not isinstance(given, Mapping) or "kind" not in given:
        raise InputError(f"the {name} must be a mapping with its 'kind' and parameters, got {given!r}")
    values: dict[str, Any] = {key: _plain(name, key, value) for key, value in given.items()}
    for key in ("seed", "frequency", "chain_length"):
        if key in values:
            values[key] = require_whole(key, values[key])
    return values


def _plain(name: str, key: str, value: Any) -> Any:
    """A parameter as a number in mdsim's units (bar for pressures), out of an openmm Quantity where it is one."""
    if hasattr(value, "value_in_unit_system"):
        from mdsim.forcefield.quantities import parameter_value

        return parameter_value(value)
    if isinstance(value, str) and key not in ("kind", "xy", "z"):
        raise InputError(
            f"{key} of the {name} must be a number (in ps, K, 1/ps, bar) or an openmm Quantity, got '{value}'; texts with units "
            "are for input files"
        )
    return value


def _with_seed(integrator: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The integrator's parameters, with the seed where it uses random numbers."""
    parameters = _parameters("integrator", integrator)
    if parameters.get("kind") in ("langevin-middle", "bussi"):
        parameters.setdefault("seed", seed)
    return parameters
