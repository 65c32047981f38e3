"""Fourier transforms of the meshes on the CPU: N_LANES lines at a time, one in each SIMD lane.

Every lane computes the same operations in the same order, so a line's result does not depend on the lines beside it,
on the threads or on the SIMD width of the machine, and no library decides bits. Mixed-radix Stockham passes as in
FFTPACK (Swarztrauber 1982; Temperton, J. Comput. Phys. 52, 1 (1983)): any length, fast for products of 2, 3, 5 and
small primes.

Lines are worked on in ``work``, float32[4 * n * N_LANES]: two buffers (source and target of a pass), each n vectors of
real parts and n of imaginary parts. Places in it are counted in vectors. Waves (the transformed grid) are
float32[nx, ny, 2, padded_waves(nz)]: real and imaginary rows along z, only 0 <= m_z <= nz / 2, padded with zeros to
whole vectors.
"""

import numpy as np
from numba import njit, prange

from mdsim.kernels.cpu.mathlib import cos, sin
from mdsim.kernels.cpu.simd import fma, load, store
from mdsim.kernels.fft_plan import WAVE_PADDING

N_LANES = WAVE_PADDING

PI = 3.141592653589793
SIN_THIRD = np.float32(0.8660254037844386)  # sin(2 pi / 3)
COS_FIFTH = np.float32(0.30901699437494745)  # cos(2 pi / 5)
SIN_FIFTH = np.float32(0.9510565162951535)
COS_TWO_FIFTHS = np.float32(-0.8090169943749475)  # cos(4 pi / 5)
SIN_TWO_FIFTHS = np.float32(0.5877852522924731)
HALF = np.float32(0.5)

inline = njit(cache=True, error_model="numpy", forceinline=True)


@njit(cache=True, error_model="numpy")
def fill_roots(cosine, sine):
    """Roots of unity exp(-2 pi i k / n) = cosine - i sine, float32[n] each, OUTPUT."""
    n = cosine.shape[0]
    for k in range(n):
        angle = 2.0 * PI * k / n
        cosine[k] = np.float32(cos(angle))
        sine[k] = np.float32(sin(angle))


# ---- passes --------------------------------------------------------------------------------------------------------------
#
# A pass of radix p after passes of product l: transforms of length p over elements m = n / (l p) apart,
# target[i + m (k + l j)] = root(i j l) sum_q source[i + m (q + p k)] exp(-2 pi i j q / p).


@inline
def get(work, place):
    """The vector at a place."""
    return load(work, place * N_LANES, N_LANES)


@inline
def put(work, place, vector):
    """Store a vector at a place."""
    store(work, place * N_LANES, vector)


@inline
def put_twisted(work, real, imaginary, place, x, y, c, s):
    """Store (x + i y) (c - i s)."""
    put(work, real + place, fma(y, s, x * c))
    put(work, imaginary + place, fma(x, -s, y * c))


@inline
def pass_2(work, real, imaginary, to_real, to_imaginary, l, m, cosine, sine):
    for k in range(l):
        for i in range(m):
            a = i + m * 2 * k
            x0, y0 = get(work, real + a), get(work, imaginary + a)
            x1, y1 = get(work, real + a + m), get(work, imaginary + a + m)
            b = i + m * k
            put(work, to_real + b, x0 + x1)
            put(work, to_imaginary + b, y0 + y1)
            put_twisted(work, to_real, to_imaginary, b + m * l, x0 - x1, y0 - y1, cosine[l * i], sine[l * i])


@inline
def pass_3(work, real, imaginary, to_real, to_imaginary, l, m, cosine, sine):
    for k in range(l):
        for i in range(m):
            a = i + m * 3 * k
            x0, y0 = get(work, real + a), get(work, imaginary + a)
            x1, y1 = get(work, real + a + m), get(work, imaginary + a + m)
            x2, y2 = get(work, real + a + 2 * m), get(work, imaginary + a + 2 * m)
            sum_x, sum_y = x1 + x2, y1 + y2
            difference_x, difference_y = SIN_THIRD * (x1 - x2), SIN_THIRD * (y1 - y2)
            mean_x, mean_y = fma(sum_x, -HALF, x0), fma(sum_y, -HALF, y0)
            b = i + m * k
            put(work, to_real + b, x0 + sum_x)
            put(work, to_imaginary + b, y0 + sum_y)
            j = l * i
            put_twisted(
                work, to_real, to_imaginary, b + m * l,
                mean_x + difference_y, mean_y - difference_x, cosine[j], sine[j],
            )  # fmt: skip
            put_twisted(
                work, to_real, to_imaginary, b + 2 * m * l,
                mean_x - difference_y, mean_y + difference_x, cosine[2 * j], sine[2 * j],
            )  # fmt: skip


@inline
def pass_4(work, real, imaginary, to_real, to_imaginary, l, m, cosine, sine):
    for k in range(l):
        for i in range(m):
            a = i + m * 4 * k
            x0, y0 = get(work, real + a), get(work, imaginary + a)
            x1, y1 = get(work, real + a + m), get(work, imaginary + a + m)
            x2, y2 = get(work, real + a + 2 * m), get(work, imaginary + a + 2 * m)
            x3, y3 = get(work, real + a + 3 * m), get(work, imaginary + a + 3 * m)
            even_x, even_y, even_dx, even_dy = x0 + x2, y0 + y2, x0 - x2, y0 - y2
            odd_x, odd_y, odd_dx, odd_dy = x1 + x3, y1 + y3, x1 - x3, y1 - y3
            b = i + m * k
            put(work, to_real + b, even_x + odd_x)
            put(work, to_imaginary + b, even_y + odd_y)
            j = l * i
            put_twisted(
                work, to_real, to_imaginary, b + m * l,
                even_dx + odd_dy, even_dy - odd_dx, cosine[j], sine[j],
            )  # fmt: skip
            put_twisted(
                work, to_real, to_imaginary, b + 2 * m * l,
                even_x - odd_x, even_y - odd_y, cosine[2 * j], sine[2 * j],
            )  # fmt: skip
            put_twisted(
                work, to_real, to_imaginary, b + 3 * m * l,
                even_dx - odd_dy, even_dy + odd_dx, cosine[3 * j], sine[3 * j],
            )  # fmt: skip


@inline
def pass_5(work, real, imaginary, to_real, to_imaginary, l, m, cosine, sine):
    for k in range(l):
        for i in range(m):
            a = i + m * 5 * k
            x0, y0 = get(work, real + a), get(work, imaginary + a)
            x1, y1 = get(work, real + a + m), get(work, imaginary + a + m)
            x2, y2 = get(work, real + a + 2 * m), get(work, imaginary + a + 2 * m)
            x3, y3 = get(work, real + a + 3 * m), get(work, imaginary + a + 3 * m)
            x4, y4 = get(work, real + a + 4 * m), get(work, imaginary + a + 4 * m)
            near_x, near_y, near_dx, near_dy = x1 + x4, y1 + y4, x1 - x4, y1 - y4
            far_x, far_y, far_dx, far_dy = x2 + x3, y2 + y3, x2 - x3, y2 - y3
            b = i + m * k
            put(work, to_real + b, x0 + (near_x + far_x))
            put(work, to_imaginary + b, y0 + (near_y + far_y))
            j = l * i
            c_x = fma(near_x, COS_FIFTH, fma(far_x, COS_TWO_FIFTHS, x0))
            c_y = fma(near_y, COS_FIFTH, fma(far_y, COS_TWO_FIFTHS, y0))
            s_x = fma(near_dx, SIN_FIFTH, far_dx * SIN_TWO_FIFTHS)
            s_y = fma(near_dy, SIN_FIFTH, far_dy * SIN_TWO_FIFTHS)
            put_twisted(work, to_real, to_imaginary, b + m * l, c_x + s_y, c_y - s_x, cosine[j], sine[j])
            put_twisted(work, to_real, to_imaginary, b + 4 * m * l, c_x - s_y, c_y + s_x, cosine[4 * j], sine[4 * j])
            c_x = fma(near_x, COS_TWO_FIFTHS, fma(far_x, COS_FIFTH, x0))
            c_y = fma(near_y, COS_TWO_FIFTHS, fma(far_y, COS_FIFTH, y0))
            s_x = fma(near_dx, SIN_TWO_FIFTHS, far_dx * (-SIN_FIFTH))
            s_y = fma(near_dy, SIN_TWO_FIFTHS, far_dy * (-SIN_FIFTH))
            put_twisted(work, to_real, to_imaginary, b + 2 * m * l, c_x + s_y, c_y - s_x, cosine[2 * j], sine[2 * j])
            put_twisted(work, to_real, to_imaginary, b + 3 * m * l, c_x - s_y, c_y + s_x, cosine[3 * j], sine[3 * j])


@inline
def pass_odd(work, real, imaginary, to_real, to_imaginary, p, l, m, cosine, sine):
    """Any odd radix p: sums over pairs q, p - q, which have the same cosines and opposite sines. Overwrites the source."""
    n = p * l * m
    for k in range(l):
        for i in range(m):
            a = i + m * p * k
            b = i + m * k
            x0, y0 = get(work, real + a), get(work, imaginary + a)
            sum_x, sum_y = x0, y0
            for q in range(1, (p + 1) // 2):
                low, high = a + m * q, a + m * (p - q)
                x1, y1 = get(work, real + low), get(work, imaginary + low)
                x2, y2 = get(work, real + high), get(work, imaginary + high)
                sum_x, sum_y = sum_x + (x1 + x2), sum_y + (y1 + y2)
                put(work, real + low, x1 + x2)
                put(work, imaginary + low, y1 + y2)
                put(work, real + high, x1 - x2)
                put(work, imaginary + high, y1 - y2)
            put(work, to_real + b, sum_x)
            put(work, to_imaginary + b, sum_y)
            for j in range(1, (p + 1) // 2):
                c_x, c_y, s_x, s_y = x0, y0, x0 - x0, y0 - y0
                for q in range(1, (p + 1) // 2):
                    root = (j * q) % p * (n // p)
                    low, high = a + m * q, a + m * (p - q)
                    c_x = fma(get(work, real + low), cosine[root], c_x)
                    c_y = fma(get(work, imaginary + low), cosine[root], c_y)
                    s_x = fma(get(work, real + high), sine[root], s_x)
                    s_y = fma(get(work, imaginary + high), sine[root], s_y)
                low, high = j * l * i, (p - j) * l * i
                put_twisted(work, to_real, to_imaginary, b + m * l * j, c_x + s_y, c_y - s_x, cosine[low], sine[low])
                put_twisted(
                    work, to_real, to_imaginary, b + m * l * (p - j), c_x - s_y, c_y + s_x, cosine[high], sine[high]
                )


@njit(cache=True, error_model="numpy")
def transform_lines(work, inverse, factors, cosine, sine):
    """Transform the N_LANES lines of the first buffer; returns the place of the buffer with the result (unnormalised).

    The inverse transform is the forward one with real and imaginary parts swapped.
    """
    n = cosine.shape[0]
    imaginary = np.int64(0 if inverse else n)
    real = n - imaginary
    source, target, l = np.int64(0), 2 * n, np.int64(1)  # of one type, or each pass is compiled twice
    for stage in range(factors.shape[0]):
        radix = factors[stage]
        m = n // (l * radix)
        x, y, to_x, to_y = source + real, source + imaginary, target + real, target + imaginary
        if radix == 4:
            pass_4(work, x, y, to_x, to_y, l, m, cosine, sine)
        elif radix == 2:
            pass_2(work, x, y, to_x, to_y, l, m, cosine, sine)
        elif radix == 3:
            pass_3(work, x, y, to_x, to_y, l, m, cosine, sine)
        elif radix == 5:
            pass_5(work, x, y, to_x, to_y, l, m, cosine, sine)
        else:
            pass_odd(work, x, y, to_x, to_y, radix, l, m, cosine, sine)
        l *= radix
        source, target = target, source
    return source


# ---- grids ---------------------------------------------------------------------------------------------------------------


#
# Real lines 2 k and 2 k + 1 of a plane are transformed as the complex line a + i b. Of its wave m and wave n - m, for
# 0 < m < n / 2, one becomes wave m of a and the other wave m of b; at m = 0 and m = n / 2, where the waves of real
# lines are real, the real part is that of a and the imaginary part that of b.


@inline
def separate_pairs(work, place, n):
    """Waves of a + i b to those of a (at m) and b (at n - m), in place."""
    for m in range(1, (n + 1) // 2):
        x1, y1 = get(work, place + m), get(work, place + n + m)
        x2, y2 = get(work, place + n - m), get(work, place + 2 * n - m)
        put(work, place + m, HALF * (x1 + x2))
        put(work, place + n + m, HALF * (y1 - y2))
        put(work, place + n - m, HALF * (y1 + y2))
        put(work, place + 2 * n - m, HALF * (x2 - x1))


@inline
def combine_pairs(work, n):
    """Waves of a (at m) and b (at n - m) to those of a + i b, in place."""
    for m in range(1, (n + 1) // 2):
        x1, y1 = get(work, m), get(work, n + m)
        x2, y2 = get(work, n - m), get(work, 2 * n - m)
        put(work, m, x1 - y2)
        put(work, n + m, y1 + x2)
        put(work, n - m, x1 + y2)
        put(work, 2 * n - m, x2 - y1)


@inline
def load_real_lines(grid, ix, iy, work, n):
    """Lines along z of a plane from ``iy`` on, two to a lane; lanes without lines are zero."""
    lines = min(2 * N_LANES, grid.shape[1] - iy)
    if lines < 2 * N_LANES:
        for place in range(2 * n * N_LANES):
            work[place] = np.float32(0.0)
    for line in range(lines):
        first = line % 2 * n * N_LANES + line // 2
        for z in range(n):
            work[first + z * N_LANES] = grid[ix, iy + line, z]


@inline
def store_real_lines(work, place, n, ix, iy, grid):
    for line in range(min(2 * N_LANES, grid.shape[1] - iy)):
        first = (place + line % 2 * n) * N_LANES + line // 2
        for z in range(n):
            grid[ix, iy + line, z] = work[first + z * N_LANES]


@inline
def load_waves_of_real_lines(waves, ix, iy, work, n):
    lines = min(2 * N_LANES, waves.shape[1] - iy)
    if lines < 2 * N_LANES:
        for place in range(2 * n * N_LANES):
            work[place] = np.float32(0.0)
    for line in range(lines):
        lane, second = line // 2, line % 2
        for m in range(1, (n + 1) // 2):
            at = n - m if second else m
            work[lane + at * N_LANES] = waves[ix, iy + line, 0, m]
            work[lane + (n + at) * N_LANES] = waves[ix, iy + line, 1, m]
        work[lane + second * n * N_LANES] = waves[ix, iy + line, 0, 0]
        if n % 2 == 0:
            work[lane + (second * n + n // 2) * N_LANES] = waves[ix, iy + line, 0, n // 2]
    combine_pairs(work, n)


@inline
def store_waves_of_real_lines(work, place, n, ix, iy, waves):
    separate_pairs(work, place, n)
    for line in range(min(2 * N_LANES, waves.shape[1] - iy)):
        lane, second = place * N_LANES + line // 2, line % 2
        for m in range(1, (n + 1) // 2):
            at = n - m if second else m
            waves[ix, iy + line, 0, m] = work[lane + at * N_LANES]
            waves[ix, iy + line, 1, m] = work[lane + (n + at) * N_LANES]
        waves[ix, iy + line, 0, 0] = work[lane + second * n * N_LANES]
        waves[ix, iy + line, 1, 0] = 0.0
        if n % 2 == 0:
            waves[ix, iy + line, 0, n // 2] = work[lane + (second * n + n // 2) * N_LANES]
            waves[ix, iy + line, 1, n // 2] = 0.0


@inline
def load_wave_lines(waves, first, stride, imaginary, work, n):
    """Lines along x or y: elements ``stride`` apart in flat ``waves``, imaginary parts ``imaginary`` behind the real ones."""
    for k in range(n):
        put(work, k, load(waves, first + k * stride, N_LANES))
        put(work, n + k, load(waves, first + k * stride + imaginary, N_LANES))


@inline
def store_wave_lines(work, place, n, first, stride, imaginary, waves):
    for k in range(n):
        store(waves, first + k * stride, get(work, place + k))
        store(waves, first + k * stride + imaginary, get(work, place + n + k))


@njit(cache=True, error_model="numpy")
def transform_blocks(axis, inverse, factors, cosine, sine, part, n_parts, grid, waves):
    """One thread's part of ``transform_axis``."""
    nx, ny, _, row = waves.shape
    n = cosine.shape[0]
    flat = waves.reshape(-1)
    work = np.empty(4 * n * N_LANES, dtype=np.float32)
    # a block is what the lanes hold at once; blocks by planes of equal x, or of equal y for lines along x
    planes = ny if axis == 0 else nx
    blocks = (ny + 2 * N_LANES - 1) // (2 * N_LANES) if axis == 2 else row // N_LANES
    stride = 2 * row if axis == 1 else ny * 2 * row
    for b in range(planes * blocks * part // n_parts, planes * blocks * (part + 1) // n_parts):
        plane, block = b // blocks, b % blocks
        first = plane * (ny * 2 * row if axis == 1 else 2 * row) + block * N_LANES
        line = block * 2 * N_LANES
        if axis != 2:
            load_wave_lines(flat, first, stride, row, work, n)
        elif inverse:
            load_waves_of_real_lines(waves, plane, line, work, n)
        else:
            load_real_lines(grid, plane, line, work, n)
        place = transform_lines(work, inverse, factors, cosine, sine)
        if axis != 2:
            store_wave_lines(work, place, n, first, stride, row, flat)
        elif inverse:
            store_real_lines(work, place, n, plane, line, grid)
        else:
            store_waves_of_real_lines(work, place, n, plane, line, waves)


@njit(parallel=True, cache=True, error_model="numpy")
def transform_axis(axis, inverse, factors, cosine, sine, n_threads, grid, waves):
    """Transform all lines along one axis: along z between real grid and waves, along x and y waves in place.

    Parameters
    ----------
    axis : int
        0, 1, 2 for x, y, z.
    inverse : bool
    factors : int64[k]
        Radices of the axis' number of points (``fft_plan.factorise``).
    cosine, sine : float32[number of points]
        Roots of unity (``fill_roots``).
    n_threads : int
    grid : float32[nx, ny, nz or more]
        Input of the forward, OUTPUT of the inverse transform along z; not looked at along x and y.
    waves : float32[nx, ny, 2, padded_waves(nz)], INPUT and OUTPUT
    """
    for t in prange(n_threads):
        transform_blocks(axis, inverse, factors, cosine, sine, np.int64(t), n_threads, grid, waves)
