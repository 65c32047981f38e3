"""Plain O(N^2) float64 kernels: slow, obvious, and the oracle that tests compare with."""
