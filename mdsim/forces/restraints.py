"""Restraints of atoms to places and of distances to an interval."""

from __future__ import annotations

import numpy as np

from mdsim.backends import Backend
from mdsim.forces.bonded import TableTerm, TermArguments
from mdsim.tables import DistanceRestraintTable, PositionRestraintTable

#: how far beyond its upper bound a restrained distance may be pulled before ranks no longer see both atoms, nm
STRETCH = 0.5


def restraint_term(table: PositionRestraintTable | DistanceRestraintTable, backend: Backend) -> TableTerm:
    """The force term of a restraint table."""
    if isinstance(table, PositionRestraintTable):
        arguments = TermArguments(
            "restraints.position_restraints", "position_restraints", table.atoms, (table.reference, table.k)
        )
    else:
        arguments = TermArguments(
            "restraints.distance_restraints",
            "distance_restraints",
            table.atoms,
            (np.column_stack([table.lower, table.upper]), table.k),
            halo_width=float(table.upper.max(initial=0.0)) + STRETCH,
        )
    return TableTerm(table.label, arguments, backend)
