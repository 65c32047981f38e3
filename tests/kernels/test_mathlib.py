"""Our elementary functions: stated errors, special values, and no call into a math library."""

import hashlib
import math
import re

import numpy as np
import pytest
from numba import njit
from scipy import special

from mdsim.kernels.cpu import mathlib as m

RNG = np.random.default_rng(20240501)
N = 4000


def apply(function, *arguments):
    return np.array([function(*(float(a) for a in row)) for row in zip(*arguments, strict=True)])


def relative_error(function, exact, *arguments):
    """Largest relative error against ``exact`` in long double."""
    reference = exact(*(a.astype(np.longdouble) for a in arguments))
    return float(np.max(np.abs((apply(function, *arguments) - reference) / reference)))


def log_uniform(low, high):
    return np.exp(RNG.uniform(math.log(low), math.log(high), N))


def test_exp():
    x = np.concatenate([RNG.uniform(-700, 709, N), RNG.uniform(-1, 1, N)])
    assert relative_error(m.exp, np.exp, x) < 4e-16


def test_log():
    for x in (RNG.uniform(0, 1, N), RNG.uniform(0.9, 1.1, N), log_uniform(1e-300, 1e300)):
        assert relative_error(m.log, np.log, x) < 4e-16


@pytest.mark.parametrize("limit", [0.7, 7.0, 1e6])
def test_sin_cos(limit):
    x = RNG.uniform(-limit, limit, N)
    assert relative_error(m.sin, np.sin, x) < 4e-16
    assert relative_error(m.cos, np.cos, x) < 4e-16


def test_sin_near_multiples_of_pi():
    x = np.arange(1, 200) * math.pi
    assert relative_error(m.sin, np.sin, x) < 4e-16
    assert relative_error(m.cos, np.cos, np.arange(1, 200, 2) * (math.pi / 2)) < 4e-16


def test_acos_atan2():
    x = np.concatenate([RNG.uniform(-1, 1, N), 1 - log_uniform(1e-15, 1e-2), log_uniform(1e-15, 1e-2) - 1])
    assert relative_error(m.acos, np.arccos, x) < 6e-16
    assert relative_error(m.atan2, np.arctan2, RNG.normal(size=N), RNG.normal(size=N)) < 6e-16
    tiny = log_uniform(1e-200, 1e-3) * RNG.choice([-1, 1], N)
    assert relative_error(m.atan2, np.arctan2, tiny, RNG.normal(size=N)) < 6e-16
    assert relative_error(m.atan2, np.arctan2, RNG.normal(size=N), tiny) < 6e-16


def test_tanh():
    assert relative_error(m.tanh, np.tanh, RNG.uniform(-3, 3, N)) < 6e-16
    assert relative_error(m.tanh, np.tanh, log_uniform(1e-200, 40.0)) < 6e-16


def test_erf_erfc_against_scipy():
    """scipy's own error, some 5e-16 (erf) and, with its rounded x^2, far more for erfc at large x, is allowed for."""
    x = np.concatenate([RNG.uniform(-6, 6, N), log_uniform(1e-200, 1.0)])
    np.testing.assert_allclose(apply(m.erf, x), special.erf(x), rtol=1e-15)
    x = RNG.uniform(-6, 5, N)
    np.testing.assert_allclose(apply(m.erfc, x), special.erfc(x), rtol=5e-15)
    x = RNG.uniform(5, 26, N)
    np.testing.assert_allclose(apply(m.erfc, x), special.erfc(x), rtol=2e-13)


@pytest.mark.parametrize(
    ("x", "exact"),
    [  # 40-digit arithmetic
        (0.3, 0.67137324054087258381),
        (0.75, 0.28884436634648486840),
        (1.0, 0.15729920705028513066),
        (2.5, 4.0695201744495893956e-4),
        (7.25, 1.1466900814815011617e-24),
        (19.3, 4.9537624029559946048e-164),
        (25.9, 1.0202833184732667196e-293),
    ],
)
def test_erfc_points(x, exact):
    assert m.erfc(x) == pytest.approx(exact, rel=1e-15, abs=0)


def same(a, b):
    """Equal, the sign of zero too; nan equals nan."""
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "acos", "erf", "erfc", "tanh"])
@pytest.mark.parametrize("x", [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324, -800.0, 800.0])
def test_special_values(name, x):
    with np.errstate(all="ignore"):
        exact = float(
            {"acos": np.arccos, "erf": special.erf, "erfc": special.erfc}.get(name, getattr(np, name, None))(x)
        )
    result = getattr(m, name)(x)
    if math.isfinite(exact) and exact not in (0.0, 1.0, -1.0, 2.0):
        assert result == pytest.approx(exact, rel=1e-15, abs=0)
    elif exact == 0.0:
        assert result == 0.0  # of either sign
    else:
        assert same(result, exact)


@pytest.mark.parametrize("y", [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("x", [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan])
def test_atan2_special_values(y, x):
    assert same(m.atan2(y, x), math.atan2(y, x))


def test_subnormal_numbers():
    assert m.exp(-745.0) == 5e-324
    assert m.exp(-720.0) == pytest.approx(math.exp(-720.0), rel=1e-6, abs=0)
    assert m.log(5e-324) == pytest.approx(math.log(5e-324), rel=1e-15, abs=0)


def test_box_muller_range():
    """log is finite on the smallest uniform number that the generator gives, and 0 at 1."""
    assert m.log(1.0) == 0.0
    assert m.log(2.0**-53) == pytest.approx(-53 * math.log(2), rel=1e-15, abs=0)


LIBM = re.compile(
    r"(?<![.\w])(?:__svml_\w+|_ZGV\w+|(?:exp|exp2|expm1|log|log2|log10|log1p|sin|cos|tan|sincos|asin|acos|atan|atan2|sinh|cosh|tanh"
    r"|erf|erfc|pow|hypot|cbrt|fma|fmod|floor|ceil|rint|nearbyint|round|trunc|copysign|ldexp|frexp|sqrt)f?)\b(?=@|,|$|\))",
    re.MULTILINE,
)


def library_calls(function, *arguments):
    """Names of math library functions that the machine code of ``function`` refers to."""
    function(*arguments)
    found = set()
    for assembly in function.inspect_asm().values():
        operands = re.findall(r"(?:call\w*|movabs\w*|lea\w*|bl|mov\w*|jmp)\s+(.*)", assembly)
        found |= {hit for text in operands for hit in LIBM.findall(text.lstrip("$*"))}
    return found


def test_library_call_is_detected():
    @njit
    def calls_libm(x):
        return math.erf(x) + math.sin(x)

    assert {"sin"} <= library_calls(calls_libm, 0.5)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "acos", "erf", "erfc", "tanh", "atan2"])
def test_no_library_call(name):
    function = getattr(m, name)
    arguments = (0.25, 0.5) if name == "atan2" else (0.25,)
    wrapper = njit(function.py_func)  # compiled here, so that the code can be inspected even where it was cached
    assert library_calls(wrapper, *arguments) == set()


def test_same_bits_in_vector_code():
    """A loop that the compiler may vectorise gives the bits of single calls."""

    @njit(error_model="numpy")
    def all_of(x, out):
        for i in range(len(x)):
            out[i] = m.exp(-x[i]) + m.log(x[i]) * m.sin(x[i]) + m.tanh(x[i])

    @njit(error_model="numpy")
    def one(x):
        return m.exp(-x) + m.log(x) * m.sin(x) + m.tanh(x)

    x = RNG.uniform(0.01, 10, 1003)
    out = np.empty_like(x)
    all_of(x, out)
    assert np.array_equal(out, apply(one, x))


DIGESTS = {
    "exp": "86497b6195b3",
    "log": "340e022653e4",
    "sin": "47b6f747e01f",
    "cos": "8bd55c120393",
    "erf": "5693ceaa3422",
    "erfc": "dcee8c460b5a",
    "tanh": "337f643fb23b",
    "atan2": "58456ca1bbbb",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_these_bits_on_every_machine(name):
    """Digests made on an AVX-512 machine; code for AVX2 and SSE4.2 CPUs gave the same."""
    x = (np.arange(1, 2001) / 1024).tolist()  # exact numbers
    values = [m.atan2(a, 1.0 - a) if name == "atan2" else getattr(m, name)(a) for a in x]
    assert hashlib.sha256(np.array(values).astype("<f8").tobytes()).hexdigest()[:12] == DIGESTS[name]
