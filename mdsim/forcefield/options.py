"""The ``system`` section's options in OpenMM's words, and what is set on a System after it was built."""

from __future__ import annotations

from typing import Any

import numpy as np
import openmm
from openmm import app, unit

from mdsim.config.system import Nonbonded, SystemConfig
from mdsim.errors import InputError
from mdsim.forcefield.ewald_parameters import default_ewald_parameters

METHODS = {
    "PME": app.PME,
    "LJPME": app.LJPME,
    "CutoffPeriodic": app.CutoffPeriodic,
    "CutoffNonPeriodic": app.CutoffNonPeriodic,
    "NoCutoff": app.NoCutoff,
}
CONSTRAINTS = {"none": None, "h-bonds": app.HBonds}
PERIODIC = ("PME", "LJPME", "CutoffPeriodic")


def system_options(config: SystemConfig, has_box: bool, source: str) -> dict[str, Any]:
    """Keyword arguments that all of OpenMM's ``createSystem`` functions take.

    ``has_box`` says whether the file ``source`` gives a periodic box.
    """
    nonbonded = config.nonbonded
    if nonbonded.method in PERIODIC and not has_box:
        raise InputError(
            f"{source} gives no periodic box, which {nonbonded.method} needs; add one to the file, solvate the structure "
            "(modeller: solvate), or write nonbonded: {method: NoCutoff}"
        )
    options: dict[str, Any] = {
        "nonbondedMethod": METHODS[nonbonded.method],
        "nonbondedCutoff": nonbonded.cutoff * unit.nanometer,
        "constraints": CONSTRAINTS[config.constraints],
        "rigidWater": config.rigid_water,
        "ewaldErrorTolerance": nonbonded.ewald_tolerance,
    }
    if nonbonded.switch_distance is not None:
        options["switchDistance"] = nonbonded.switch_distance * unit.nanometer
    if config.hydrogen_mass is not None:
        options["hydrogenMass"] = config.hydrogen_mass * unit.amu
    return options


def set_nonbonded(system: openmm.System, nonbonded: Nonbonded, vectors: np.ndarray | None) -> None:
    """Set what ``createSystem`` has no argument for, where the input gives it; else the force field's choice stays."""
    given = nonbonded.model_fields_set
    for force in system.getForces():
        if isinstance(force, openmm.NonbondedForce):
            if "dispersion_correction" in given:
                force.setUseDispersionCorrection(nonbonded.dispersion_correction)
            if "reaction_field_dielectric" in given:
                force.setReactionFieldDielectric(nonbonded.reaction_field_dielectric)
            if nonbonded.pme_grid is not None and vectors is not None:
                alpha, _ = default_ewald_parameters(vectors, nonbonded.cutoff, nonbonded.ewald_tolerance)
                force.setPMEParameters(alpha, *nonbonded.pme_grid)
        elif isinstance(force, openmm.CustomNonbondedForce) and "dispersion_correction" in given:
            force.setUseLongRangeCorrection(nonbonded.dispersion_correction)
