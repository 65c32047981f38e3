"""Kernels: raw arrays and scalars. Imported as ``mdsim.kernels``; they fill arrays that the caller owns."""
