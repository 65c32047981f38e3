"""Numbers out of openmm quantities."""

from __future__ import annotations

from typing import Any

import numpy as np
import openmm


def in_md_units(quantity: Any) -> np.ndarray:
    """float64 values of an openmm Quantity in nm, ps, amu and what follows from them."""
    return np.asarray(quantity.value_in_unit_system(openmm.unit.md_unit_system), dtype=np.float64)
