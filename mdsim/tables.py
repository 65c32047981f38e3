"""The compiled system: what an ``openmm.System`` becomes. Plain arrays over global atom ids, made once, never changed.

Each table carries ``label``, the name of the OpenMM force it came from (``HarmonicBondForce``, ``CustomBondForce:1`` where a class
occurs twice), by which energies are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class BondTable:
    """Harmonic bonds, u = k/2 (r - r0)^2."""

    label: str
    atoms: np.ndarray  # int32[m, 2]
    length: np.ndarray  # float64[m] nm
    k: np.ndarray  # float64[m] kJ/mol/nm^2


@dataclass(frozen=True)
class AngleTable:
    """Harmonic angles, u = k/2 (theta - theta0)^2."""

    label: str
    atoms: np.ndarray  # int32[m, 3]
    angle: np.ndarray  # float64[m] rad
    k: np.ndarray  # float64[m] kJ/mol/rad^2


@dataclass(frozen=True)
class PeriodicTorsionTable:
    """u = k (1 + cos(n phi - phase))."""

    label: str
    atoms: np.ndarray  # int32[m, 4]
    periodicity: np.ndarray  # int32[m]
    phase: np.ndarray  # float64[m] rad
    k: np.ndarray  # float64[m] kJ/mol


@dataclass(frozen=True)
class RBTorsionTable:
    """Ryckaert-Bellemans, u = sum_n c_n cos(phi - pi)^n."""

    label: str
    atoms: np.ndarray  # int32[m, 4]
    c: np.ndarray  # float64[m, 6] kJ/mol


@dataclass(frozen=True)
class HarmonicImproperTable:
    """u = k d^2 with d = phi - phi0 wrapped into [-pi, pi] (CHARMM impropers; note: no 1/2)."""

    label: str
    atoms: np.ndarray  # int32[m, 4]
    angle: np.ndarray  # float64[m] rad
    k: np.ndarray  # float64[m] kJ/mol/rad^2
    wrapped: bool = True  # False: k (theta - theta0)^2 as written, theta in (-pi, pi]


@dataclass(frozen=True)
class CMAPTable:
    """Torsion-torsion maps with periodic bicubic interpolation."""

    label: str
    atoms: np.ndarray  # int32[m, 8]: the two dihedrals, four atoms each
    map_index: np.ndarray  # int32[m]
    #: float64[n_maps, size, size, 16] coefficients c_ij of the bicubic patch from (phi_i, psi_j), in OpenMM's map order;
    #: maps of unequal size are tables of their own
    coefficients: np.ndarray


@dataclass(frozen=True)
class PairExceptionTable:
    """Pairs computed apart from the cutoff list (1-4): u = chargeprod/(4 pi eps0 r) + 4 eps ((s/r)^12 - (s/r)^6), no cutoff."""

    label: str
    atoms: np.ndarray  # int32[m, 2]
    charge_product: np.ndarray  # float64[m] e^2
    sigma: np.ndarray  # float64[m] nm
    epsilon: np.ndarray  # float64[m] kJ/mol


@dataclass(frozen=True)
class NonbondedTable:
    """Everything about the cutoff pair interactions and the mesh."""

    label: str  # of the OpenMM force with the charges
    lj_label: str  # of the force with the Lennard-Jones (another one for the CHARMM files, else equal to label)
    method: Literal["NoCutoff", "CutoffNonPeriodic", "CutoffPeriodic", "PME", "LJPME"]
    cutoff: float  # nm; inf for NoCutoff
    charge: np.ndarray  # float64[n] e
    #: Lorentz-Berthelot parameters; used where lj_type is None
    sigma: np.ndarray  # float64[n] nm
    epsilon: np.ndarray  # float64[n] kJ/mol
    exclusions: np.ndarray  # int32[m, 2] i < j, sorted, unique: every pair left out of the list (the exceptions too)
    reaction_field_dielectric: float = 78.3
    switch_distance: float | None = None  # nm
    #: Lennard-Jones coefficients by type pair, u = a/r^12 - b/r^6 (CHARMM files, NBFIX)
    lj_type: np.ndarray | None = None  # int32[n]
    lj_a: np.ndarray | None = None  # float64[t, t] kJ nm^12 / mol
    lj_b: np.ndarray | None = None  # float64[t, t] kJ nm^6 / mol
    ewald_alpha: float = 0.0  # 1/nm
    grid: tuple[int, int, int] = (0, 0, 0)
    ewald_tolerance: float = 5e-4
    ljpme_alpha: float = 0.0  # 1/nm
    ljpme_grid: tuple[int, int, int] = (0, 0, 0)
    #: long-range dispersion correction: energy = coefficient / volume, kJ nm^3 / mol (0: off)
    dispersion_coefficient: float = 0.0


@dataclass(frozen=True)
class ImplicitTable:
    """Generalised Born: GBSAOBCForce (OBC2) or the GBn2 form of CustomGBForce."""

    label: str
    model: Literal["OBC2", "GBn2"]
    charge: np.ndarray  # float64[n] e
    radius: np.ndarray  # float64[n] nm; without the offset taken off
    scale: np.ndarray  # float64[n]
    offset: float  # nm dielectric offset taken off the radius
    alpha: np.ndarray  # float64[n] tanh coefficients (1.0, 0.8, 4.85 for OBC2)
    beta: np.ndarray
    gamma: np.ndarray
    solute_dielectric: float
    solvent_dielectric: float
    surface_energy: float  # kJ/mol/nm^2, ACE term; 0: off
    kappa: float = 0.0  # 1/nm Debye screening
    cutoff: float = float("inf")  # nm
    neck_scale: float = 0.0
    neck_d0: np.ndarray | None = None  # float64[r, r] nm, by radius index
    neck_m0: np.ndarray | None = None
    radius_index: np.ndarray | None = None  # int32[n]


@dataclass(frozen=True)
class PositionRestraintTable:
    """u = k/2 |x - x0|^2, nearest image for periodic systems."""

    label: str
    atoms: np.ndarray  # int32[m]
    reference: np.ndarray  # float64[m, 3] nm
    k: np.ndarray  # float64[m] kJ/mol/nm^2


@dataclass(frozen=True)
class DistanceRestraintTable:
    """Flat-bottomed harmonic distance restraint: u = k/2 max(0, r - upper, lower - r)^2."""

    label: str
    atoms: np.ndarray  # int32[m, 2]
    lower: np.ndarray  # float64[m] nm
    upper: np.ndarray  # float64[m] nm
    k: np.ndarray  # float64[m] kJ/mol/nm^2


@dataclass(frozen=True)
class ConstraintTable:
    """Distance constraints, each inside one update group."""

    settle: np.ndarray  # int32[w, 3]: apex, base, base
    settle_distances: np.ndarray  # float64[w, 2] nm: apex-base, base-base
    #: the rest, sorted by group: heavy atom first
    atoms: np.ndarray  # int32[m, 2]
    distance: np.ndarray  # float64[m] nm
    #: constraints atoms[group_start[g]:group_start[g+1]] form group g and share no atom with another
    group_start: np.ndarray  # int32[g + 1]


@dataclass(frozen=True)
class VirtualSiteTable:
    """Massless sites as linear or out-of-plane functions of up to three parents, as OpenMM defines them.

    kind 0, average of 2 or 3 parents: x = w0 x0 + w1 x1 + w2 x2 (parents[2] = parents[0], w2 = 0 for two);
    kind 1, out of plane: x = x0 + w0 (x1-x0) + w1 (x2-x0) + w2 (x1-x0) x (x2-x0);
    kind 2, local coordinates: origin o = sum wo_i x_i, X = sum wx_i x_i, Y = sum wy_i x_i, z = X x Y, y = z x X (unit vectors),
    x = o + local . (x, y, z).
    """

    sites: np.ndarray  # int32[m]
    kind: np.ndarray  # int32[m]
    parents: np.ndarray  # int32[m, 3]
    weights: np.ndarray  # float64[m, 3] (kinds 0 and 1)
    origin_weights: np.ndarray  # float64[m, 3] (kind 2)
    x_weights: np.ndarray  # float64[m, 3]
    y_weights: np.ndarray  # float64[m, 3]
    local: np.ndarray  # float64[m, 3] nm


ForceTable = (
    BondTable
    | AngleTable
    | PeriodicTorsionTable
    | RBTorsionTable
    | HarmonicImproperTable
    | CMAPTable
    | PairExceptionTable
    | NonbondedTable
    | ImplicitTable
    | PositionRestraintTable
    | DistanceRestraintTable
)


@dataclass(frozen=True)
class CompiledSystem:
    """An ``openmm.System`` as tables."""

    masses: np.ndarray  # float64[n] amu; 0 for virtual sites and frozen atoms
    forces: tuple[ForceTable, ...]
    constraints: ConstraintTable
    virtual_sites: VirtualSiteTable
    #: update groups: group_atoms[group_start[g]:group_start[g+1]], every atom in exactly one
    group_atoms: np.ndarray  # int32[n]
    group_start: np.ndarray  # int32[g + 1]
    #: molecules (connected by bonds, constraints and sites), the same layout: what a barostat moves whole
    molecule_atoms: np.ndarray  # int32[n]
    molecule_start: np.ndarray  # int32[k + 1]
    periodic: bool
    default_vectors: np.ndarray  # float64[3, 3] nm
    remove_cm_frequency: int = 0  # steps; 0: never
    #: int32[k, 2] pairs of neighbouring atoms (bonds, constraints, sites and parents) that tie the molecules together
    molecule_links: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int32))
    notes: tuple[str, ...] = field(default=())  # what was left out and why, for people

    @property
    def n_atoms(self) -> int:
        return len(self.masses)

    @property
    def degrees_of_freedom(self) -> int:
        """3 per massive atom, less constraints, less 3 where the centre-of-mass motion is removed."""
        c = self.constraints
        massive = int((self.masses > 0).sum())
        return 3 * massive - 3 * len(c.settle) - len(c.distance) - (3 if self.remove_cm_frequency else 0)
