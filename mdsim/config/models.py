"""The other sections of the input, and the whole."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from mdsim.config.fields import Interval, IntervalField, Problems, Section
from mdsim.config.quantities import (
    Buffer,
    CouplingTime,
    Duration,
    ForceTolerance,
    Pressure,
    Rate,
    Resolution,
    SurfaceTension,
    Temperature,
    Time,
    WallTime,
)
from mdsim.config.system import SystemConfig

Every = Annotated[Interval, IntervalField()]


class LangevinMiddle(Section):
    """Langevin dynamics, the LFMiddle discretisation (Zhang et al. 2019), as OpenMM's LangevinMiddleIntegrator."""

    kind: Literal["langevin-middle"]
    timestep: Time
    """length of a step"""
    temperature: Temperature
    """of the heat bath"""
    friction: Rate = 1.0
    """coupling to the heat bath"""


class VelocityVerlet(Section):
    """Newton's equations at constant energy."""

    kind: Literal["velocity-verlet"]
    timestep: Time
    """length of a step"""


class Bussi(Section):
    """Velocity Verlet with stochastic velocity rescaling (Bussi, Donadio and Parrinello 2007)."""

    kind: Literal["bussi"]
    timestep: Time
    """length of a step"""
    temperature: Temperature
    """of the heat bath"""
    coupling_time: CouplingTime = 1.0
    """relaxation time of the kinetic energy"""


class NoseHoover(Section):
    """Velocity Verlet with a Nose-Hoover chain (Martyna, Klein and Tuckerman 1992)."""

    kind: Literal["nose-hoover"]
    timestep: Time
    """length of a step"""
    temperature: Temperature
    """of the heat bath"""
    coupling_time: CouplingTime = 1.0
    """period of the thermostat"""
    chain_length: int = Field(default=3, ge=1, le=10)
    """thermostats in the chain"""


Integrator = Annotated[LangevinMiddle | VelocityVerlet | Bussi | NoseHoover, Field(discriminator="kind")]


class IsotropicBarostat(Section):
    """Monte Carlo barostat that scales the whole box (Aqvist et al. 2004)."""

    kind: Literal["isotropic"]
    pressure: Pressure
    """target pressure"""
    frequency: Every = Interval(steps=25)
    """between attempted volume changes"""


class AnisotropicBarostat(Section):
    """Monte Carlo barostat that scales one axis at a time."""

    kind: Literal["anisotropic"]
    pressure: Pressure | tuple[Pressure, Pressure, Pressure]
    """target pressure, or one along each axis"""
    scale: tuple[bool, bool, bool] = (True, True, True)
    """which axes may change"""
    frequency: Every = Interval(steps=25)
    """between attempted volume changes"""


class MembraneBarostat(Section):
    """Monte Carlo barostat for a membrane in the xy plane."""

    kind: Literal["membrane"]
    pressure: Pressure
    """target pressure along z"""
    surface_tension: SurfaceTension = 0.0
    """of the membrane"""
    xy: Literal["isotropic", "anisotropic"] = "isotropic"
    """whether x and y change together"""
    z: Literal["free", "fixed", "constant-volume"] = "free"
    """how z changes"""
    frequency: Every = Interval(steps=25)
    """between attempted volume changes"""


def _none_is_nothing(value: Any) -> Any:
    """``barostat: none`` and ``barostat: {kind: none}`` mean that there is none."""
    return None if value == "none" or value == {"kind": "none"} else value


Barostat = Annotated[IsotropicBarostat | AnisotropicBarostat | MembraneBarostat, Field(discriminator="kind")]


class Minimize(Section):
    """Energy minimisation before the first step."""

    tolerance: ForceTolerance = 10.0
    """stop when the root-mean-square force component is below this"""
    max_steps: int = Field(default=1000, ge=1)
    """stop after this many steps in any case"""


class Dynamics(Section):
    """How the system moves."""

    steps: int | None = Field(default=None, ge=0, le=10**15)
    """how many steps the whole run has"""
    duration: Duration | None = None
    """the same as a time"""
    integrator: Integrator
    """equations of motion and thermostat"""
    barostat: Annotated[Barostat | None, BeforeValidator(_none_is_nothing)] = None
    """keeps the pressure"""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """of all random numbers: the same seed gives the same trajectory"""
    minimize: Minimize | Literal[False] = Minimize()
    """before the first step; false: not"""
    velocities: Temperature | Literal["file"] | None = None
    """initial velocities: drawn at a temperature (unset: the integrator's), or "file": as the coordinate file has them"""
    remove_cm_motion: bool = True
    """stop the drift of the centre of mass"""

    @model_validator(mode="after")
    def _consistent(self) -> Dynamics:
        problems = Problems()
        if (self.steps is None) == (self.duration is None):
            key = "duration" if self.steps is not None else ""
            problems.add(
                key, "give either steps, for instance 'steps: 50000', or duration, for instance 'duration: 100 ps'"
            )
        if self.duration is not None:
            _check_multiple(Interval(time=self.duration), self.timestep, "duration", problems)
        if self.temperature is None:
            if self.barostat is not None:
                problems.add(
                    "barostat", "needs a temperature: choose an integrator with one, for instance langevin-middle"
                )
            if self.velocities is None:
                problems.add(
                    "integrator", "has no temperature for velocities: add 'velocities: 300 K' or 'velocities: file'"
                )
        elif self.temperature == 0 and self.barostat is not None:
            problems.add("barostat", "needs a temperature above 0 K")
        if self.barostat is not None:
            _check_multiple(self.barostat.frequency, self.timestep, "barostat.frequency", problems)
        problems.raise_any()
        return self

    @property
    def timestep(self) -> float:
        """ps"""
        return self.integrator.timestep

    @property
    def temperature(self) -> float | None:
        """Of the heat bath, K; None at constant energy."""
        return getattr(self.integrator, "temperature", None)

    @property
    def initial_temperature(self) -> float | None:
        """At which velocities are drawn, K; None: they come with the coordinates."""
        if self.velocities == "file":
            return None
        return self.temperature if self.velocities is None else self.velocities

    @property
    def n_steps(self) -> int:
        """Steps of the whole run."""
        if self.steps is not None:
            return self.steps
        return Interval(time=self.duration).in_steps(self.timestep)


def _check_multiple(interval: Interval, timestep: float, key: str, problems: Problems) -> None:
    try:
        interval.in_steps(timestep)
    except ValueError as error:
        problems.add(key, str(error))


class Trajectory(Section):
    """Frames in an H5MD file."""

    interval: Every = Interval(time=10.0)
    """between frames"""
    selection: Literal["all", "solute", "protein"] | tuple[int, ...] = "all"
    """which atoms: everything, what is not water or ions, amino acids, or indices counted from 0"""
    velocities: bool = False
    """write velocities too"""
    forces: bool = False
    """write forces too"""
    precision: Resolution | None = 0.001
    """positions are rounded to about this before compression; null: as computed"""


class Energies(Section):
    """The energy log, CSV and HDF5."""

    interval: Every = Interval(time=1.0)
    """between lines"""


class Checkpoint(Section):
    """When the state is saved so that the same command resumes."""

    interval: Every | None = None
    """between checkpoints in steps or simulated time"""
    wall_interval: WallTime | None = 600.0
    """between checkpoints in real time"""

    @model_validator(mode="after")
    def _some(self) -> Checkpoint:
        problems = Problems()
        if self.interval is None and self.wall_interval is None:
            problems.add("wall_interval", "give interval or wall_interval, for instance 'wall_interval: 10 min'")
        problems.raise_any()
        return self


class Output(Section):
    """What is written, and where."""

    directory: Path = Path("results")
    """relative to where mdsim is started; unset: results/NAME for NAME.yaml"""
    trajectory: Trajectory | Literal[False] = Trajectory()
    """frames; false: none"""
    energies: Energies | Literal[False] = Energies()
    """energy log; false: none"""
    checkpoint: Checkpoint = Checkpoint()
    """checkpoints"""


class Compute(Section):
    """How the work is done. Nothing here changes a bit of the trajectory, except pme_order."""

    backend: Literal["cpu"] = "cpu"
    """what computes"""
    threads: int | Literal["auto"] = "auto"
    """CPU threads; auto: all cores that this process may use"""
    pair_list_buffer: Buffer | Literal["auto"] = "auto"
    """how far beyond the cutoff the pair list reaches"""
    pme_order: Literal[4, 5] = 5
    """of the B-splines"""

    @model_validator(mode="after")
    def _positive(self) -> Compute:
        problems = Problems()
        if self.threads != "auto" and self.threads < 1:
            problems.add("threads", f"must be at least 1, got {self.threads}; write auto for all cores")
        problems.raise_any()
        return self

    @property
    def n_threads(self) -> int | None:
        """None: all cores that this process may use."""
        return None if self.threads == "auto" else self.threads


class RunConfig(Section):
    """An input file of ``mdsim run``."""

    title: str = ""
    """for people"""
    system: SystemConfig
    """molecules, box and force field"""
    dynamics: Dynamics
    """how the system moves"""
    output: Output = Output()
    """what is written, and where"""
    compute: Compute = Compute()
    """how the work is done"""

    @model_validator(mode="after")
    def _intervals(self) -> RunConfig:
        problems = Problems()
        for name in ("trajectory", "energies", "checkpoint"):
            section = getattr(self.output, name)
            if section and section.interval is not None and "interval" in section.model_fields_set:
                _check_multiple(section.interval, self.dynamics.timestep, f"output.{name}.interval", problems)
        if self.dynamics.barostat is not None and self.system.nonbonded.method in ("NoCutoff", "CutoffNonPeriodic"):
            problems.add("dynamics.barostat", "needs a periodic system; remove it or choose nonbonded method PME")
        problems.raise_any()
        return self

    def integrator_parameters(self) -> dict[str, Any]:
        """``kind`` and parameters as ``mdsim.integrators.make_integrator`` takes them: ps, K, 1/ps."""
        return self.dynamics.integrator.model_dump()

    def barostat_parameters(self) -> dict[str, Any] | None:
        """``kind`` and parameters as ``mdsim.barostats.make_barostat`` takes them: bar, steps; None: no barostat."""
        barostat = self.dynamics.barostat
        return None if barostat is None else {**barostat.model_dump(), "frequency": self.every(barostat.frequency)}

    def force_parameters(self) -> dict[str, Any]:
        """What ``mdsim.forces.ForceOptions`` takes, without what is left to its defaults."""
        buffer = self.compute.pair_list_buffer
        chosen: dict[str, Any] = {"pme_order": self.compute.pme_order}
        return chosen if buffer == "auto" else {**chosen, "pair_list_buffer": buffer}

    def settings(self) -> dict[str, Any]:
        """All that must stay equal for a resumed run to be the same run, as flat ``section.key: value``.

        Left out: the length of the run, where files are (not what they hold), when checkpoints are made, and how the
        work is done.
        """
        flat = dict(_flatten(self.model_dump(mode="json"), ""))
        free = ("title", "output.directory", "output.checkpoint.", "dynamics.steps", "dynamics.duration", "compute.")
        kept = {key: value for key, value in flat.items() if not key.startswith(free) or key == "compute.pme_order"}
        files = {key: Path(value) for key, value in kept.items() if key in _FILE_KEYS and value}
        contents = {f"{key} (sha256)": _digest(path) for key, path in files.items() if path.is_file()}
        return {**kept, **{key: path.name for key, path in files.items()}, **contents}

    def every(self, interval: Interval) -> int:
        """``interval`` in steps; a default that is no multiple of the timestep is rounded."""
        try:
            return interval.in_steps(self.dynamics.timestep)
        except ValueError:
            assert interval.time is not None
            return max(1, round(interval.time / self.dynamics.timestep))


_FILE_KEYS = {
    f"system.{key}" for key in ("pdb", "mmcif", "prmtop", "inpcrd", "top", "gro", "include_directory", "system_xml")
}


def _digest(path: Path) -> str:
    """What a file holds, in 16 letters."""
    return sha256(path.read_bytes()).hexdigest()[:16]


def _flatten(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flatten(inner, f"{key}.{name}".lstrip("."))
    else:
        yield key, value
