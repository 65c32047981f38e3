"""Elementary functions of our own in float64: the same bits on every machine (DESIGN.md section 5).

C libraries and vector math libraries differ in the last bit. These functions use IEEE ``+ - * /``, ``sqrt``, comparisons and
integer operations on the bits of a number, nothing else, and no fused multiply-add: their results do not depend on the CPU, the
operating system or the SIMD width. Written without branches that hinder vectorisation, for loops over arrays as well as scalars.

Errors are relative and were measured against 80-bit arithmetic (``tests/kernels/test_mathlib.py`` asserts them):

========== ===================== ==========================================================================
function   relative error below  domain and special values
========== ===================== ==========================================================================
exp        4e-16                 all; exp(-inf) = 0, subnormal results to their absolute spacing
log        4e-16                 all; log(0) = -inf, log(x < 0) = nan
sin, cos   4e-16                 abs(x) <= SINCOS_LIMIT (1.6e6); beyond it and for inf: nan
acos       6e-16                 [-1, 1]; nan outside
atan2      6e-16                 all, signed zeros and infinities as in C
erf        6e-16                 all
erfc       1e-15                 all (down to 1e-300)
tanh       6e-16                 all
========== ===================== ==========================================================================

nan in gives nan out. Argument reductions are those of Cody and Waite, Software Manual for the Elementary Functions (1980);
series are Taylor's where they converge fast enough, otherwise Chebyshev interpolants computed in 60-digit arithmetic.
"""

import math

import numpy as np
from numba import njit

inline = njit(cache=True, error_model="numpy", forceinline=True)

#: adding and subtracting 1.5 * 2**52 rounds to the nearest integer (ties to even) for abs(x) < 2**51
ROUNDER = 1.5 * 2.0**52
ROUNDER_BITS = int(np.float64(ROUNDER).view(np.int64))

LOG2_E = 1.4426950408889634
#: log(2) in two parts, the first with 21 trailing zero bits, so that a small integer times it is exact
LN2_HIGH = 0.6931471803691238
LN2_LOW = 1.9082149292705877e-10

TWO_OVER_PI = 0.6366197723675814
#: pi/2 in three parts, the first two of 33 bits
HALF_PI_1 = 1.5707963267341256
HALF_PI_2 = 6.077100506303966e-11
HALF_PI_3 = 2.0222662487959506e-21
#: 2**20 quarter turns: the argument reduction is exact up to here
SINCOS_LIMIT = 1.6e6

HALF_PI = 1.5707963267948966
HALF_PI_LOW = 6.123233995736766e-17
QUARTER_PI = 0.7853981633974483
QUARTER_PI_LOW = 3.061616997868383e-17
PI = 3.141592653589793
PI_LOW = 1.2246467991473532e-16
TAN_EIGHTH_PI = 0.41421356237309503

SQRT_HALF_BITS = int(np.float64(math.sqrt(0.5)).view(np.int64))

#: exp(r), |r| <= log(2)/2: Taylor
EXP = tuple(1.0 / math.factorial(k) for k in range(14))
#: 2 artanh(s) = 2s + s t LOG(t), t = s^2 <= 0.0295: Taylor
LOG = tuple(2.0 / (2 * k + 3) for k in range(10))
#: sin(x) = x + x t SIN(t), cos(x) = 1 - t/2 + t^2 COS(t), t = x^2 <= (pi/4)^2: Taylor
SIN = tuple((-1.0) ** (k + 1) / math.factorial(2 * k + 3) for k in range(8))
COS = tuple((-1.0) ** k / math.factorial(2 * k + 4) for k in range(7))
#: arctan(z) = z + z t ATAN(t), t = z^2 <= tan(pi/8)^2: Chebyshev
ATAN = (
    -0.3333333333333333, 0.19999999999999804, -0.14285714285659828, 0.11111111105155447, -0.09090908753500877,
    0.07692296375032143, -0.06666424885738255, 0.05878928997834775, -0.05230454270650244, 0.04551593220626549,
    -0.034570561981427744, 0.016285756855221028,
)  # fmt: skip
#: tanh(x) = x + x t TANH(t), t = x^2 <= 0.3025: Chebyshev
TANH = (
    -0.3333333333333333, 0.13333333333332714, -0.053968253967434016, 0.021869488493666944, -0.008863234397814355,
    0.003592110378689024, -0.001455661830100716, 0.0005889360520074057, -0.0002346347410887237, 8.511313685577672e-05,
    -2.060276537636634e-05,
)  # fmt: skip
#: erf(x) = x ERF(x^2), |x| <= 1: Chebyshev
ERF = (
    1.1283791670955126, -0.37612638903183543, 0.11283791670945006, -0.02686617064323777, 0.0052239776071164225,
    -0.0008548325975389692, 0.00012055294904839707, -1.492473690741966e-05, 1.6447424703317362e-06,
    -1.6208483801871705e-07, 1.3720064546777686e-08, -7.795898827002142e-10,
)  # fmt: skip
#: (1 + 2x) exp(x^2) erfc(x) = ERFC((x - 3)/(x + 3)), 1 <= x <= 28 (form: Shepherd and Laframboise 1981): Chebyshev
ERFC = (
    1.2530080582697296, -0.13562110612458156, -0.047562294353451516, 0.1296451587028223, -0.11927366341525403,
    0.06830802734101987, -0.023770514919374913, 0.0025293918810437186, 0.0018886903422674797, -0.0007798330417962237,
    -0.0001051592646522116, 0.00012510457495314677, 4.943777043005545e-06, -2.0120630971894566e-05,
    -7.011353093802864e-07, 3.511140012093374e-06, 2.730832878062673e-07, -6.365990664505642e-07,
    -3.488717438931172e-08, 7.23836264088232e-08,
)  # fmt: skip


@inline
def horner(t, coefficients):
    """Polynomial with the coefficients of t^0, t^1, ... in order."""
    p = coefficients[-1]
    for k in range(len(coefficients) - 2, -1, -1):
        p = p * t + coefficients[k]
    return p


@inline
def to_bits(x):
    """The 64 bits of a float64 as an int64."""
    return np.float64(x).view(np.int64)


@inline
def from_bits(bits):
    """The float64 with these bits."""
    return np.int64(bits).view(np.float64)


@inline
def round_to_int(x):
    """Nearest integer, ties to even, as (float64, int64); abs(x) < 2**51."""
    z = x + ROUNDER
    return z - ROUNDER, to_bits(z) - ROUNDER_BITS


@inline
def two_to(k):
    """2**k, float64, for -1023 < k < 1024."""
    return from_bits((k + 1023) << 52)


@inline
def copysign(x, sign):
    """``abs(x)`` with the sign bit of ``sign``."""
    mask = np.int64(0x7FFFFFFFFFFFFFFF)
    return from_bits((to_bits(x) & mask) | (to_bits(sign) & ~mask))


@inline
def exp(x):
    """e**x, float64."""
    # clamped where the result is 0 or inf anyway; nan is put back at the end
    c = max(x, -750.0)
    c = min(c, 711.0)
    k, k_int = round_to_int(c * LOG2_E)
    r = (c - k * LN2_HIGH) - k * LN2_LOW
    # 2**k in two factors: k reaches beyond the exponents of normal numbers
    half = k_int >> 1
    result = (horner(r, EXP) * two_to(half)) * two_to(k_int - half)
    return x if math.isnan(x) else result


@inline
def log(x):
    """Natural logarithm, float64."""
    tiny = x < 2.2250738585072014e-308
    scaled = x * 2.0**54 if tiny else x
    bits = to_bits(scaled)
    # scaled = m * 2**e with sqrt(1/2) <= m < sqrt(2)
    e_int = (bits - SQRT_HALF_BITS) >> 52
    f = from_bits(bits - (e_int << 52)) - 1.0
    e = from_bits(e_int + ROUNDER_BITS) - ROUNDER - (54.0 if tiny else 0.0)
    s = f / (2.0 + f)
    t = s * s
    # 2 artanh(s) with 2s = f - s f, so that f, which is exact, carries the leading digits
    small = f - s * (f - t * horner(t, LOG))
    result = e * LN2_HIGH + (small + e * LN2_LOW)
    result = result if x < math.inf else x
    result = result if x != 0.0 else -math.inf
    return result if x >= 0.0 else math.nan


@inline
def sincos(x):
    """(sin(x), cos(x)), float64."""
    inside = abs(x) <= SINCOS_LIMIT
    c = x if inside else 0.0
    k, quadrant = round_to_int(c * TWO_OVER_PI)
    r = ((c - k * HALF_PI_1) - k * HALF_PI_2) - k * HALF_PI_3
    t = r * r
    s = r + r * (t * horner(t, SIN))
    h = 0.5 * t
    w = 1.0 - h
    c = w + (((1.0 - w) - h) + t * (t * horner(t, COS)))
    swap = (quadrant & 1) != 0
    sine = c if swap else s
    cosine = s if swap else c
    sine = -sine if (quadrant & 2) != 0 else sine
    cosine = -cosine if ((quadrant + 1) & 2) != 0 else cosine
    return (sine if inside else math.nan), (cosine if inside else math.nan)


@inline
def sin(x):
    """sin(x), float64."""
    return sincos(x)[0]


@inline
def cos(x):
    """cos(x), float64."""
    return sincos(x)[1]


@inline
def atan2(y, x):
    """Angle of the point (x, y), float64 in [-pi, pi]."""
    ax = abs(x)
    ay = abs(y)
    small = min(ay, ax)
    large = max(ay, ax)
    # arctan(small / large) = base + arctan(z), abs(z) <= tan(pi/8)
    reduce = small > TAN_EIGHTH_PI * large
    numerator = small - large if reduce else small
    denominator = small + large if reduce else large
    numerator = 0.0 if large == 0.0 or small == math.inf else numerator
    denominator = 1.0 if large == 0.0 or small == math.inf else denominator
    z = numerator / denominator
    t = z * z
    angle = z + z * (t * horner(t, ATAN))
    angle = QUARTER_PI + (angle + QUARTER_PI_LOW) if reduce or small == math.inf else angle
    negative = to_bits(x) < 0
    steep = HALF_PI + (angle + HALF_PI_LOW) if negative else HALF_PI - (angle - HALF_PI_LOW)
    flat = PI - (angle - PI_LOW) if negative else angle
    angle = steep if ay > ax else flat
    return math.nan if math.isnan(x) or math.isnan(y) else copysign(angle, y)


@inline
def acos(x):
    """Arc cosine, float64 in [0, pi]; nan outside [-1, 1]."""
    inside = abs(x) <= 1.0
    c = x if inside else 0.0
    angle = atan2(math.sqrt((1.0 - c) * (1.0 + c)), c)
    return angle if inside else math.nan


@inline
def erfc_large(x):
    """erfc(x) for x >= 1."""
    c = min(x, 28.0)
    # x^2 = head^2 + tail with head^2 exact: a rounding error of x^2 would be multiplied by x^2
    head = from_bits(to_bits(c) & ~np.int64(0x7FFFFFF))
    tail = (c - head) * (c + head)
    gaussian = exp(-head * head) * (1.0 - tail * (1.0 - tail * (0.5 - tail / 6.0)))
    return gaussian * horner((c - 3.0) / (c + 3.0), ERFC) / (1.0 + 2.0 * c)


@inline
def erf(x):
    """Error function, float64."""
    a = abs(x)
    inner = x * horner(x * x, ERF)
    outer = copysign(1.0 - erfc_large(max(a, 1.0)), x)
    result = inner if a <= 1.0 else outer
    return x if math.isnan(x) else result


@inline
def erfc(x):
    """Complementary error function, float64."""
    a = abs(x)
    tail = erfc_large(max(a, 1.0))
    # below 1/2: 1 - erf(x); from there to 1, where that would cancel: 1/2 + (1/2 - erf(x))
    inner = x * horner(x * x, ERF)
    inner = 1.0 - inner if x < 0.5 else 0.5 + (0.5 - inner)
    outer = tail if x > 0.0 else 2.0 - tail
    result = inner if a <= 1.0 else outer
    return x if math.isnan(x) else result


@inline
def tanh(x):
    """Hyperbolic tangent, float64."""
    a = abs(x)
    t = x * x
    inner = x + x * (t * horner(t, TANH))
    outer = copysign(1.0 - 2.0 / (exp(2.0 * min(a, 30.0)) + 1.0), x)
    result = inner if a < 0.55 else outer
    return x if math.isnan(x) else result
