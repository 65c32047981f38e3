"""Explicit SIMD vectors for Numba kernels: ``<W x float>``, ``<W x i32>``, ``<W x double>``, ``<W x i64>`` and masks.

A kernel that uses them reads like scalar code; each operation is one LLVM vector instruction, for any width W of 4, 8 or 16.
Nothing here has fast-math flags: add, multiply, divide and ``sqrt`` are the IEEE operations, ``fma`` is one rounding and is
written by hand where it is wanted. The same lane values come out for every W, and on every CPU with FMA.

    x = load(xs, 8 * k, 8)          # <8 x float> from a contiguous array
    r2 = fma(x, x, y * y)
    inside = r2 < 0.81              # a mask; scalars are broadcast
    f = select(inside, 1.0 / sqrt(r2), zero)

A width has to be known when the kernel is compiled: a literal or a global constant (see ``specialise``).
"""

import operator
import os
from types import FunctionType

import numba
from llvmlite import binding, ir
from numba import njit
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin, lower_cast
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model

WIDTHS = (4, 8, 16)


def default_width():
    """Lanes of float32 for this CPU; ``MDSIM_SIMD_WIDTH`` overrides. The results do not depend on it.

    16 on AVX-512 (on Zen 4, which runs 512 bits in two halves, the pair kernel still took 10 % less than with 8, for fewer
    instructions outweigh the pairs beyond the cutoff that 4 x 16 clusters hold), 8 on AVX2, else 4.
    """
    forced = os.environ.get("MDSIM_SIMD_WIDTH")
    if forced is not None:
        if forced not in [str(width) for width in WIDTHS]:
            raise ValueError(f"MDSIM_SIMD_WIDTH is '{forced}'; it can be {', '.join(map(str, WIDTHS))}")
        return int(forced)
    if numba.config.CPU_FEATURES is not None:  # code is generated for another CPU than the host's
        features = dict.fromkeys(numba.config.CPU_FEATURES.replace("+", "").split(","), True)
    else:
        features = binding.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx2") else 4


# ---- types -------------------------------------------------------------------------------------------------------------


class Vector(types.Type):
    """``width`` lanes of a Numba scalar type; a mask is a vector of booleans."""

    def __init__(self, element, width):
        self.element, self.width = element, width
        super().__init__(name=f"vector({element} x {width})")

    @property
    def is_float(self):
        return isinstance(self.element, types.Float)

    @property
    def is_mask(self):
        return self.element == types.boolean

    @property
    def llvm(self):
        return ir.VectorType(_LLVM_ELEMENT[self.element], self.width)


_LLVM_ELEMENT = {
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.int32: ir.IntType(32),
    types.int64: ir.IntType(64),
    types.boolean: ir.IntType(1),
}


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, fe_type.llvm)


def _mask_type(vector):
    return Vector(types.boolean, vector.width)


def _splat(builder, scalar, vector):
    """The scalar in every lane."""
    lane0 = builder.insert_element(ir.Constant(vector.llvm, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.width), [0] * vector.width)
    return builder.shuffle_vector(lane0, ir.Constant(vector.llvm, ir.Undefined), zeros)


def _call_intrinsic(builder, name, result, arguments):
    """Call the LLVM intrinsic ``name``, mangled for the vector type of the first argument."""
    kind = arguments[0].type
    element = {"float": "f32", "double": "f64"}.get(str(kind.element), str(kind.element))
    function_type = ir.FunctionType(result, [a.type for a in arguments])
    full_name = f"{name}.v{kind.count}{element}"
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, full_name), arguments)


# ---- operators ---------------------------------------------------------------------------------------------------------

_ARITHMETIC = {
    operator.add: ("fadd", "add"),
    operator.sub: ("fsub", "sub"),
    operator.mul: ("fmul", "mul"),
    operator.truediv: ("fdiv", None),
    operator.and_: (None, "and_"),
    operator.or_: (None, "or_"),
    operator.xor: (None, "xor"),
}
_COMPARISON = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}


def _common_vector(args):
    """The vector type of a binary operation: both the same, or one vector and a number that is broadcast."""
    if len(args) != 2:
        return None
    a, b = args
    if isinstance(a, Vector) and (a == b or isinstance(b, types.Number | types.Boolean)):
        return a
    if isinstance(b, Vector) and isinstance(a, types.Number | types.Boolean):
        return b
    return None


def _operands(context, builder, sig, args):
    """Both operands as LLVM vectors."""
    vector = _common_vector(sig.args)
    return vector, [
        value
        if isinstance(kind, Vector)
        else _splat(builder, context.cast(builder, value, kind, vector.element), vector)
        for kind, value in zip(sig.args, args, strict=True)
    ]


def _define_operator(op, result_type, emit):
    """Let Numba type ``op`` on vectors and lower it by ``emit(builder, vector, a, b)``."""

    @infer_global(op)
    class VectorOperator(AbstractTemplate):
        def generic(self, args, kws):
            vector = _common_vector(args)
            return None if vector is None else signature(result_type(vector), *args)

    def lower(context, builder, sig, args):
        vector, (a, b) = _operands(context, builder, sig, args)
        return emit(builder, vector, a, b)

    for kinds in ((Vector, Vector), (Vector, types.Any), (types.Any, Vector)):
        lower_builtin(op, *kinds)(lower)


def _define_operators():
    for op, (for_floats, for_integers) in _ARITHMETIC.items():

        def emit(builder, vector, a, b, names=(for_floats, for_integers)):
            return getattr(builder, names[0] if vector.is_float else names[1])(a, b)

        _define_operator(op, lambda vector: vector, emit)
    for op, predicate in _COMPARISON.items():

        def compare(builder, vector, a, b, predicate=predicate):
            method = builder.fcmp_ordered if vector.is_float else builder.icmp_signed
            return method(predicate, a, b)

        _define_operator(op, _mask_type, compare)


_define_operators()


@infer_global(operator.neg)
class VectorNegate(AbstractTemplate):
    def generic(self, args, kws):
        return signature(args[0], args[0]) if isinstance(args[0], Vector) else None


@lower_builtin(operator.neg, Vector)
def _lower_negate(context, builder, sig, args):
    return builder.fneg(args[0]) if sig.args[0].is_float else builder.neg(args[0])


@infer_global(operator.invert)
class VectorInvert(AbstractTemplate):
    def generic(self, args, kws):
        return signature(args[0], args[0]) if isinstance(args[0], Vector) else None


@lower_builtin(operator.invert, Vector)
def _lower_invert(context, builder, sig, args):
    return builder.not_(args[0])


@lower_cast(Vector, Vector)
def _lower_same(context, builder, fromty, toty, value):
    return value


# ---- functions of lanes ------------------------------------------------------------------------------------------------


@intrinsic
def fma(typingctx, a, b, c):
    """a * b + c with one rounding. Any of the three may be a scalar."""
    vectors = [kind for kind in (a, b, c) if isinstance(kind, Vector)]
    if not vectors or not vectors[0].is_float:
        return None
    vector = vectors[0]

    def codegen(context, builder, sig, args):
        lanes = [
            value
            if isinstance(kind, Vector)
            else _splat(builder, context.cast(builder, value, kind, vector.element), vector)
            for kind, value in zip(sig.args, args, strict=True)
        ]
        return _call_intrinsic(builder, "llvm.fma", vector.llvm, lanes)

    return signature(vector, a, b, c), codegen


@intrinsic
def sqrt(typingctx, a):
    """IEEE square root."""

    def codegen(context, builder, sig, args):
        return _call_intrinsic(builder, "llvm.sqrt", sig.return_type.llvm, args)

    return signature(a, a), codegen


@intrinsic
def absolute(typingctx, a):
    """|a| of float lanes."""

    def codegen(context, builder, sig, args):
        return _call_intrinsic(builder, "llvm.fabs", sig.return_type.llvm, args)

    return signature(a, a), codegen


@intrinsic
def rint_to_int(typingctx, a):
    """Nearest int32, ties to even, of float32 lanes; they must be within the range of int32."""

    def codegen(context, builder, sig, args):
        nearest = _call_intrinsic(builder, "llvm.rint", sig.args[0].llvm, args)
        return builder.fptosi(nearest, sig.return_type.llvm)

    return signature(Vector(types.int32, a.width), a), codegen


@intrinsic
def to_float(typingctx, a):
    """int32 lanes rounded to float32."""

    def codegen(context, builder, sig, args):
        return builder.sitofp(args[0], sig.return_type.llvm)

    return signature(Vector(types.float32, a.width), a), codegen


@intrinsic
def to_double(typingctx, a):
    """float32 lanes as float64."""

    def codegen(context, builder, sig, args):
        return builder.fpext(args[0], sig.return_type.llvm)

    return signature(Vector(types.float64, a.width), a), codegen


@intrinsic
def double_bits(typingctx, a):
    """The bits of float64 lanes as int64."""

    def codegen(context, builder, sig, args):
        return builder.bitcast(args[0], sig.return_type.llvm)

    return signature(Vector(types.int64, a.width), a), codegen


@intrinsic
def select(typingctx, mask, a, b):
    """a where the mask is set, b elsewhere. One of the two may be a scalar."""
    vector = _common_vector((a, b))
    if vector is None:
        return None

    def codegen(context, builder, sig, args):
        _, (x, y) = _operands(context, builder, signature(sig.return_type, *sig.args[1:]), args[1:])
        return builder.select(args[0], x, y)

    return signature(vector, mask, a, b), codegen


@njit(forceinline=True)
def minimum(a, b):
    return select(a < b, a, b)


@njit(forceinline=True)
def maximum(a, b):
    return select(a > b, a, b)


# ---- memory and scalars ------------------------------------------------------------------------------------------------


def _require_contiguous(array):
    """Refuse at compile time what has strides: lanes are read as they lie in memory."""
    if not (isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"):
        raise TypingError(f"SIMD loads and stores need a contiguous one-dimensional array, got {array}")


def _lane_pointer(context, builder, array_type, array, index_type, index, vector):
    """Pointer to ``vector`` at ``array[index]`` of a contiguous one-dimensional array."""
    data = cgutils.create_struct_proxy(array_type)(context, builder, array).data
    offset = context.cast(builder, index, index_type, types.intp)
    return builder.bitcast(builder.gep(data, [offset]), vector.llvm.as_pointer())


@intrinsic
def load(typingctx, array, index, width):
    """``array[index : index + width]`` of a contiguous 1-D array; any alignment, no bounds check."""
    if not isinstance(width, types.IntegerLiteral):
        return None
    _require_contiguous(array)
    vector = Vector(array.dtype, width.literal_value)

    def codegen(context, builder, sig, args):
        pointer = _lane_pointer(context, builder, sig.args[0], args[0], sig.args[1], args[1], vector)
        return builder.load(pointer, align=vector.element.bitwidth // 8, typ=vector.llvm)

    return signature(vector, array, index, width), codegen


@intrinsic
def store(typingctx, array, index, value):
    """``array[index : index + W] = value``."""
    _require_contiguous(array)

    def codegen(context, builder, sig, args):
        vector = sig.args[2]
        pointer = _lane_pointer(context, builder, sig.args[0], args[0], sig.args[1], args[1], vector)
        builder.store(args[2], pointer, align=vector.element.bitwidth // 8)
        return context.get_dummy_value()

    return signature(types.void, array, index, value), codegen


@intrinsic
def gather(typingctx, array, indices):
    """``array[indices]`` lane by lane; ``indices`` int32 lanes, no bounds check."""
    _require_contiguous(array)
    vector = Vector(array.dtype, indices.width)

    def codegen(context, builder, sig, args):
        data = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0]).data
        result = ir.Constant(vector.llvm, ir.Undefined)
        for lane in range(vector.width):
            position = ir.Constant(ir.IntType(32), lane)
            offset = builder.sext(builder.extract_element(args[1], position), ir.IntType(64))
            result = builder.insert_element(result, builder.load(builder.gep(data, [offset])), position)
        return result

    return signature(vector, array, indices), codegen


@intrinsic
def broadcast(typingctx, scalar, width):
    """The scalar in ``width`` lanes, of the scalar's own type (float32, int32, float64, int64 or bool)."""
    if not isinstance(width, types.IntegerLiteral):
        return None
    vector = Vector(types.unliteral(scalar), width.literal_value)

    def codegen(context, builder, sig, args):
        value = context.cast(builder, args[0], sig.args[0], vector.element)
        return _splat(builder, value, vector)

    return signature(vector, scalar, width), codegen


@intrinsic
def constant(typingctx, array, index, width):
    """``array[index]`` in all lanes, of an array that nobody writes while the kernel runs: the compiler may load it once.

    (Of an ordinary load it has to assume that stores of the kernel may change it.)
    """
    if not isinstance(width, types.IntegerLiteral):
        return None
    _require_contiguous(array)
    vector = Vector(array.dtype, width.literal_value)

    def codegen(context, builder, sig, args):
        data = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0]).data
        value = builder.load(builder.gep(data, [context.cast(builder, args[1], sig.args[1], types.intp)]))
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return _splat(builder, value, vector)

    return signature(vector, array, index, width), codegen


@intrinsic
def lane_numbers(typingctx, width):
    """0, 1, ..., W - 1 as int32."""
    if not isinstance(width, types.IntegerLiteral):
        return None
    vector = Vector(types.int32, width.literal_value)

    def codegen(context, builder, sig, args):
        return ir.Constant(vector.llvm, list(range(vector.width)))

    return signature(vector, width), codegen


@intrinsic
def total(typingctx, a):
    """Sum over the lanes of integers (wrapping)."""
    if a.is_float:
        return None

    def codegen(context, builder, sig, args):
        return _call_intrinsic(builder, "llvm.vector.reduce.add", sig.args[0].llvm.element, args)

    return signature(a.element, a), codegen


@intrinsic
def lowest(typingctx, a):
    """Smallest lane of float32 or float64 lanes, none of which is NaN."""

    def codegen(context, builder, sig, args):
        return _call_intrinsic(builder, "llvm.vector.reduce.fmin", sig.args[0].llvm.element, args)

    return signature(a.element, a), codegen


@intrinsic
def mask_from_bits(typingctx, bits, width):
    """Mask whose lane k is bit k of the integer."""
    if not isinstance(width, types.IntegerLiteral):
        return None
    vector = Vector(types.boolean, width.literal_value)

    def codegen(context, builder, sig, args):
        wide = context.cast(builder, args[0], sig.args[0], types.uint64)
        return builder.bitcast(builder.trunc(wide, ir.IntType(vector.width)), vector.llvm)

    return signature(vector, bits, width), codegen


@intrinsic
def mask_to_bits(typingctx, mask):
    """Integer (int64) whose bit k is lane k of the mask; non-zero if any lane is set."""

    def codegen(context, builder, sig, args):
        packed = builder.bitcast(args[0], ir.IntType(sig.args[0].width))
        return builder.zext(packed, ir.IntType(64))

    return signature(types.int64, mask), codegen


@intrinsic
def trailing_zeros(typingctx, bits):
    """Position of the lowest set bit of a non-zero int64."""

    def codegen(context, builder, sig, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return signature(types.int64, bits), codegen


# ---- compile-time flavours ---------------------------------------------------------------------------------------------

#: Numba options of functions that only kernels call
INTERNAL = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
INLINE = {**INTERNAL, "forceinline": True}


def specialise(templates, namespace, suffix, constants, **options):
    """Compile plain functions with some of their globals replaced by constants: C++ templates for kernels.

    Parameters
    ----------
    templates : list of (function, dict)
        Plain functions in the order of their calls, callees first, each with Numba options of its own. Within the
        specialised functions their names mean the specialised versions. Give ``INLINE`` or ``INTERNAL`` for those that
        Python does not call: they compile faster.
    namespace : dict
        The globals of the module that defines them.
    suffix : str
        Added to the functions' names, so that the compiled code of each flavour is cached on disk separately.
    constants : dict
        Values of the compile-time constants by name.
    options
        Numba options of all functions.

    Returns
    -------
    dict
        Compiled functions by name.
    """
    scope = {**namespace, **constants}
    compiled = {}
    for template, own_options in templates:
        function = FunctionType(template.__code__, scope, f"{template.__name__}_{suffix}", template.__defaults__)
        function.__qualname__ = function.__name__
        function.__module__ = template.__module__
        function.__doc__ = template.__doc__
        compiled[template.__name__] = scope[template.__name__] = njit(function, **{**options, **own_options})
    return compiled
