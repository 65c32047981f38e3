"""Monte Carlo barostats with OpenMM's moves: isotropic, anisotropic and for membranes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mdsim.barostats.molecules import EnergyFunction, Molecules, molecular_pressure
from mdsim.checks import require_number
from mdsim.errors import InputError
from mdsim.kernels.fixed_point import ENERGY_SCALE
from mdsim.state import LocalView, State
from mdsim.units import BAR, BOLTZMANN

#: after this many attempts along an axis the largest move is adapted
ADAPT_AFTER = 10
#: first largest move, and the largest ever, relative to the volume
FIRST_MOVE, LARGEST_MOVE = 0.01, 0.3


@dataclass(frozen=True)
class VolumeMove:
    """A proposed change of the box."""

    axis: int  # whose largest move it was drawn from
    factors: np.ndarray  # float64[3]: on the x, y and z components of the box vectors
    volume_ratio: float  # new / old
    work: float  # kJ/mol, done against pressure and surface tension


class MonteCarloBarostat(ABC):
    """Proposes a change of the volume, keeps it or takes it back, and adapts how large the changes are.

    Parameters
    ----------
    molecules
    temperature : K
    frequency : steps between attempts
    seed
    """

    kind = "base"
    #: ``State.extra``: largest volume change by axis, nm^3, float64[3]; attempts and acceptances since it was last adapted,
    #: int64[3, 2]; the same over the whole run, int64[2]
    SCALE, COUNTS, TOTALS = "barostat_volume_scale", "barostat_counts", "barostat_totals"

    def __init__(self, molecules: Molecules, temperature: float, frequency: int, seed: int) -> None:
        if frequency < 1:
            raise InputError(f"the barostat's frequency must be at least 1 step, got {frequency}")
        self.molecules, self.frequency, self.seed = molecules, int(frequency), int(seed)
        self.temperature = require_number("temperature", temperature, "K", 0.0, above=True)
        self.kT = BOLTZMANN * self.temperature
        self._uniform = molecules.backend.kernel("volume_moves.barostat_uniform")
        self._power = molecules.backend.kernel("volume_moves.power")
        self._acceptance = molecules.backend.kernel("volume_moves.acceptance")

    def bind(self, view: LocalView) -> None:
        """Take the atoms that this rank now holds."""
        self.molecules.bind(view)

    def attempt(self, state: State, energy_fn: EnergyFunction) -> bool:
        """Try one change of the box; True if ``state`` has changed. A rejected move restores every bit.

        ``energy_fn()`` is the potential energy (ENERGY_SCALE units) of ``state`` as it then is.
        """
        self._prepare(state)
        before = energy_fn()
        saved = Molecules.save(state)
        move = self._propose(state)
        accepted = False
        if (move.factors > 0).all():  # else the box would vanish, which has probability 0
            self.molecules.scale(state, move.factors)
            change = (energy_fn() - before) / ENERGY_SCALE
            probability = self._acceptance(change, move.work, len(self.molecules), self.kT, move.volume_ratio)
            accepted = bool(self._uniform(self.seed, state.step, 1) < probability)
        if not accepted:
            Molecules.restore(state, saved)
        self._adapt(state, move.axis, accepted)
        return accepted

    def molecular_pressure(self, state: State, energy_fn: EnergyFunction) -> float:
        """Instantaneous pressure, bar; see ``molecules.molecular_pressure``."""
        return molecular_pressure(self.molecules, state, energy_fn, self.temperature)

    @abstractmethod
    def _propose(self, state: State) -> VolumeMove:
        """The change of the box to be tried at this step."""

    def _prepare(self, state: State) -> None:
        state.extra.setdefault(self.SCALE, np.full(3, FIRST_MOVE * state.box.volume))
        state.extra.setdefault(self.COUNTS, np.zeros((3, 2), np.int64))
        state.extra.setdefault(self.TOTALS, np.zeros(2, np.int64))

    def _volume_change(self, state: State, axis: int) -> float:
        """Uniform in ± the largest move of ``axis``, nm^3."""
        return float(state.extra[self.SCALE][axis] * 2.0 * (self._uniform(self.seed, state.step, 0) - 0.5))

    def _random_axis(self, state: State, allowed: list[int]) -> int:
        return allowed[min(int(self._uniform(self.seed, state.step, 2) * len(allowed)), len(allowed) - 1)]

    def _adapt(self, state: State, axis: int, accepted: bool) -> None:
        """Keep acceptance between a quarter and three quarters."""
        outcome = np.array([1, accepted], np.int64)
        state.extra[self.TOTALS] = state.extra[self.TOTALS] + outcome
        scale, counts = state.extra[self.SCALE].copy(), state.extra[self.COUNTS].copy()
        counts[axis] += outcome
        attempts, accepts = counts[axis]
        if attempts >= ADAPT_AFTER:
            if accepts < 0.25 * attempts:
                scale[axis] /= 1.1
                counts[axis] = 0
            elif accepts > 0.75 * attempts:
                scale[axis] = min(scale[axis] * 1.1, LARGEST_MOVE * state.box.volume)
                counts[axis] = 0
        state.extra[self.SCALE], state.extra[self.COUNTS] = scale, counts


class IsotropicBarostat(MonteCarloBarostat):
    """Scales the whole box. ``pressure`` in bar."""

    kind = "isotropic"

    def __init__(self, molecules: Molecules, pressure: float, temperature: float, frequency: int, seed: int) -> None:
        super().__init__(molecules, temperature, frequency, seed)
        self.pressure = require_number("pressure", pressure, "bar")

    def _propose(self, state: State) -> VolumeMove:
        volume, change = state.box.volume, self._volume_change(state, 0)
        ratio = (volume + change) / volume
        factors = np.full(3, self._power(ratio, 1.0 / 3.0))
        return VolumeMove(0, factors, ratio, self.pressure * BAR * change)


class AnisotropicBarostat(MonteCarloBarostat):
    """Scales one axis at a time.

    Parameters
    ----------
    pressure : bar, or three along x, y and z
    scale
        Which axes may change.
    """

    kind = "anisotropic"

    def __init__(
        self,
        molecules: Molecules,
        pressure: float | tuple[float, float, float],
        temperature: float,
        frequency: int,
        seed: int,
        scale: tuple[bool, bool, bool] = (True, True, True),
    ) -> None:
        super().__init__(molecules, temperature, frequency, seed)
        pressures = np.broadcast_to(np.asarray(pressure, np.float64), (3,)).tolist()
        self.pressures = [require_number("pressure", value, "bar") for value in pressures]
        self.axes = [axis for axis in range(3) if scale[axis]]
        if not self.axes:
            raise InputError("the anisotropic barostat may scale no axis; allow one at least, or leave out the barostat")

    def _propose(self, state: State) -> VolumeMove:
        axis = self._random_axis(state, self.axes)
        volume, change = state.box.volume, self._volume_change(state, axis)
        ratio = (volume + change) / volume
        factors = np.ones(3)
        factors[axis] = ratio
        return VolumeMove(axis, factors, ratio, self.pressures[axis] * BAR * change)


class MembraneBarostat(MonteCarloBarostat):
    """For a membrane in the xy plane: scales x and y together or apart, and z.

    Parameters
    ----------
    pressure : bar
    surface_tension : bar nm
    xy
        ``isotropic``: x and y change by the same factor; ``anisotropic``: each by itself.
    z
        ``free``: changes by itself; ``fixed``; ``constant-volume``: makes up for x and y.
    """

    kind = "membrane"

    def __init__(
        self,
        molecules: Molecules,
        pressure: float,
        temperature: float,
        frequency: int,
        seed: int,
        surface_tension: float = 0.0,
        xy: Literal["isotropic", "anisotropic"] = "isotropic",
        z: Literal["free", "fixed", "constant-volume"] = "free",
    ) -> None:
        super().__init__(molecules, temperature, frequency, seed)
        if xy not in ("isotropic", "anisotropic"):
            raise InputError(f"xy of the membrane barostat is 'isotropic' or 'anisotropic', got '{xy}'")
        if z not in ("free", "fixed", "constant-volume"):
            raise InputError(f"z of the membrane barostat is 'free', 'fixed' or 'constant-volume', got '{z}'")
        self.pressure = require_number("pressure", pressure, "bar")
        self.surface_tension = require_number("surface_tension", surface_tension, "bar nm")
        self.xy, self.z = xy, z
        # each axis has one chance in three; one that may not change is drawn again, as in OpenMM
        self.axes = [0] + ([1] if xy == "anisotropic" else []) + ([2] if z == "free" else [])

    def _propose(self, state: State) -> VolumeMove:
        axis = self._random_axis(state, self.axes)
        volume, change = state.box.volume, self._volume_change(state, axis)
        ratio = (volume + change) / volume
        factors = np.ones(3)
        if axis == 0 and self.xy == "isotropic":
            factors[:2] = np.sqrt(max(ratio, 0.0))
        else:
            factors[axis] = ratio
        if self.z == "constant-volume" and ratio > 0:
            factors[2] = 1.0 / (factors[0] * factors[1])
            ratio, change = 1.0, 0.0
        area = state.box.vectors[0, 0] * state.box.vectors[1, 1]
        area_change = area * (factors[0] * factors[1]) - area
        work = self.pressure * BAR * change - self.surface_tension * BAR * area_change
        return VolumeMove(axis, factors, ratio, float(work))
