"""CPU kernels, compiled by Numba."""
