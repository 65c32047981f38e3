"""Scales of the fixed-point state, in one place for every backend.

A quantity ``x`` is held as the integer ``round(x * 2**BITS)``. Integer sums do not depend on their order, so
neither do forces, energies and the PME charge grid: not on threads, ranks or the order of the pair list.
"""

import numpy as np

#: a position is a box fraction, int32: fraction = s / 2**32; overflow is the periodic wrap
FRACTION_BITS = 32
FRACTION_SCALE = 2.0**FRACTION_BITS

#: total force on an atom, int64, kJ/mol/nm
FORCE_BITS = 32
FORCE_SCALE = 2.0**FORCE_BITS

#: force summed inside the pair kernel, int32, kJ/mol/nm (shifted left to FORCE_BITS when reduced)
PAIR_FORCE_BITS = 14
PAIR_FORCE_SCALE = 2.0**PAIR_FORCE_BITS
#: the force of a pair is clipped here (8192 kJ/mol/nm) and flagged: 2**27 units, so that 16 clipped pairs fit in int32
PAIR_FORCE_LIMIT = 2.0 ** (27 - PAIR_FORCE_BITS)

#: one bonded / PME / implicit contribution to a force component is clipped here (kJ/mol/nm) and flagged
FORCE_LIMIT = 2.0**24

#: energies, int64, kJ/mol
ENERGY_BITS = 24
ENERGY_SCALE = 2.0**ENERGY_BITS
#: one contribution to an energy is clipped here (kJ/mol)
ENERGY_LIMIT = 2.0**26

#: charge on a PME grid point, int32, e
GRID_BITS = 25
GRID_SCALE = 2.0**GRID_BITS

#: momentum and twice-kinetic-energy sums, int64 (amu nm/ps and kJ/mol)
MOMENTUM_SCALE = 2.0**32
KINETIC_SCALE = 2.0**24

#: sums of squares in the minimiser, with the range of floating point: high * LIMB + low / LIMB, both int64
LIMB = 2.0**20
#: velocities enter those sums multiplied by this, to be well above the resolution
DESCENT_VELOCITY_SCALE = 2.0**16

#: bits of an int32 flag word, or-ed by kernels
FLAG_FORCE_CLIPPED = 1
FLAG_NOT_FINITE = 2
FLAG_CONSTRAINT = 4  # a constraint was not met
FLAG_DISPLACEMENT = 8  # an atom moved half a box or more in one step

POSITION_DTYPE = np.int32
FORCE_DTYPE = np.int64
ENERGY_DTYPE = np.int64
