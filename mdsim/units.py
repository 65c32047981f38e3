"""Units: nm, ps, kJ/mol, amu, e, K throughout. Constants are OpenMM's, so that energies agree term by term."""

from __future__ import annotations

#: Boltzmann constant, kJ/mol/K (CODATA 2018 exact k_B * N_A, as OpenMM's SimTKOpenMMRealType.h)
BOLTZMANN = 1.380649e-23 * 6.02214076e23 / 1000.0
#: 1 / (4 pi epsilon_0), kJ nm / mol / e^2 (as OpenMM)
COULOMB = 138.93545764438198
#: one bar in kJ/mol/nm^3
BAR = 1e5 * 6.02214076e23 * 1e-27 / 1000.0
