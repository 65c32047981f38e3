"""exp and log of float32 vectors, by the rules of ``mathlib``: IEEE operations and written FMAs alone, no math library.

Their lane values are the same for every vector width and every CPU with FMA. Polynomials are Chebyshev interpolants.
"""

from llvmlite import ir
from numba import njit
from numba.core import types
from numba.core.typing import signature
from numba.extending import intrinsic

from mdsim.kernels.cpu.simd import Vector, fma, maximum, rint_to_int, to_float

inline = njit(cache=True, error_model="numpy", forceinline=True)

LOG2_E = 1.44269504
#: log(2) in two parts, the first short enough that an exponent times it is exact
LN2_HIGH = 0.693359375
LN2_LOW = -2.12194440e-4
LN2 = 0.693147181
SQRT_HALF_BITS = 0x3F3504F3
EXPONENT_MASK = -(2**23)

#: exp(r) = 1 + r + r^2 EXP(r), abs(r) <= log(2)/2; relative error 1e-8
EXP = (0.5, 0.166665734, 0.0416665501, 0.00836377387, 0.00139269266)
#: log(1 + f) = f + f^2 LOG(f), sqrt(1/2) - 1 <= f <= sqrt(2) - 1; relative error 8e-9
LOG = (
    -0.499999976, 0.3333333, -0.250007812, 0.200012345, -0.166266456, 0.14204856, -0.131275557, 0.127226728, -0.076736415,
)  # fmt: skip


@intrinsic
def bits_of(typingctx, a):
    """The bits of float32 lanes as int32."""

    def codegen(context, builder, sig, args):
        return builder.bitcast(args[0], sig.return_type.llvm)

    return signature(Vector(types.int32, a.width), a), codegen


@intrinsic
def from_bits(typingctx, a):
    """The float32 lanes with these bits, int32."""

    def codegen(context, builder, sig, args):
        return builder.bitcast(args[0], ir.VectorType(ir.FloatType(), sig.args[0].width))

    return signature(Vector(types.float32, a.width), a), codegen


@inline
def horner(x, coefficients):
    """Polynomial with the coefficients of x^0, x^1, ... in order, one FMA each."""
    p = fma(x, coefficients[-1], coefficients[-2])
    for k in range(len(coefficients) - 3, -1, -1):
        p = fma(p, x, coefficients[k])
    return p


@inline
def exp(x):
    """e**x for x <= 88, relative error below 2e-7; below -87: 1.6e-38, to be taken for 0."""
    x = maximum(x, -87.0)
    k = rint_to_int(x * LOG2_E)
    k_float = to_float(k)
    r = fma(k_float, -LN2_LOW, fma(k_float, -LN2_HIGH, x))
    return fma(r * r, horner(r, EXP), r + 1.0) * from_bits((k + 127) * 2**23)


@inline
def log(x):
    """Natural logarithm of positive normal numbers, relative error below 3e-7."""
    bits = bits_of(x)
    exponent = (bits - SQRT_HALF_BITS) & EXPONENT_MASK
    f = from_bits(bits - exponent) - 1.0
    return fma(to_float(exponent), LN2 * 2.0**-23, fma(f * f, horner(f, LOG), f))
