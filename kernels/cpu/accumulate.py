"""Sum of the threads' force buffers. Integers: the order of the sum does not matter."""

from numba import njit, prange


@njit(parallel=True, cache=True)
def sum_and_clear(buffers, n_threads, total):
    """Add up the threads' buffers and leave them zero.

    Parameters
    ----------
    buffers : int64[T, n, 3], INPUT and OUTPUT (zeroed)
    n_threads : int
    total : int64[n, 3], OUTPUT
        Forces, FORCE_SCALE.
    """
    n = total.shape[0]
    for t in prange(n_threads):
        for i in range(n * t // n_threads, n * (t + 1) // n_threads):
            for k in range(3):
                force = buffers[0, i, k]
                buffers[0, i, k] = 0
                for b in range(1, buffers.shape[0]):
                    force += buffers[b, i, k]
                    buffers[b, i, k] = 0
                total[i, k] = force
