"""The mathematical functions, as vectorised native code, against NumPy's in long double."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.special
from math_cases import (
    EXACT,
    FLOATS,
    FUNCTIONS,
    Array,
    assert_within,
    bit_patterns,
    buffers_of,
    computed,
    inf,
    kernel_of,
    method,
    nan,
    sample,
)
from native_kernels import assert_same

from staticflow.codegen.builder import Builder
from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.kernel import Buffer
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.parts import walk
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)

# NumPy warns of what is asked for here: overflow, division by zero, signalling NaN.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

INTEGERS = (uint8, int8, int16, int32, int64)
by_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
by_half = pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
by_integer = pytest.mark.parametrize("dtype", INTEGERS, ids=str)
by_function = pytest.mark.parametrize("name", FUNCTIONS)


@by_float
@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("exp", -105),
        ("exp2", -151),
        ("sigmoid", -105),
        ("erfc", 10.3),
        ("ndtr", -14.5),
        ("gelu", -14.5),
    ],
)
def test_nothing_underflows_where_a_result_is_0(
    name: str, least: float, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPUs take a hundred cycles for what does, and hidden scores of attention are -inf. From
    ``least`` on results of float32 are 0."""
    more = {"exp": 7.2, "exp2": 7.2, "sigmoid": 7.2}.get(name, 2.7) if dtype is float64 else 1
    far = math.copysign(inf, least)
    x = np.array([least * more, least * 8, least * 20, far / 1e300 if name == "gelu" else far])
    x = x.astype(dtype.numpy)
    kernel = kernel_of(method(name), [dtype], 1)
    buffers = buffers_of(kernel, (x,))
    warning = np.errstate
    monkeypatch.setattr(np, "errstate", lambda **_: warning(under="raise"))
    assert interpret_kernel(kernel, buffers, {Sym("n"): len(x)}) == 0
    assert buffers["y"].tolist() == [0] * len(x)


@by_float
@by_function
def test_error_is_within_the_bound(name: str, dtype: DType) -> None:
    function = FUNCTIONS[name]
    x = sample(dtype, function.intervals)
    exact = function.exact(x.astype(np.longdouble))
    assert_within(function.ulp[FLOATS.index(dtype)], computed(method(name), x), exact, x)


@by_half
@by_function
def test_half_precision_is_rounded_once(name: str, dtype: DType) -> None:
    """Every 16-bit float there is: half an ulp, and what float32 adds to it."""
    every = np.arange(2**16, dtype=np.uint16).view(dtype.numpy)
    exact = FUNCTIONS[name].exact(every.astype(np.longdouble))
    assert_within(0.502, computed(method(name), every), exact, every)


@by_float
@pytest.mark.parametrize("name", EXACT)
def test_special_values(name: str, dtype: DType) -> None:
    pairs = [*EXACT[name], (nan, 0.0 if name == "sign" else nan)]
    x, expected = (np.array(column).astype(dtype.numpy) for column in zip(*pairs, strict=True))
    assert_same(computed(method(name), x), expected)


@by_float
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_and_cosine_never_leave_their_range(name: str, dtype: DType) -> None:
    """Next to the extremes, where a rounding error could, and far from zero."""
    turns = np.arange(-20_001, 20_001) * (np.longdouble(math.pi) / 2)
    near = [(turns * (1 + n * float(np.finfo(dtype.numpy).eps))) for n in range(-3, 4)]
    x = np.concatenate([*near, np.geomspace(1e3, 1e38, 5000)]).astype(dtype.numpy)
    assert np.abs(computed(method(name), x)).max() <= 1.0


@by_float
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_every_size_next_to_multiples_of_a_right_angle(name: str, dtype: DType) -> None:
    """Where all of the reduction counts: the floats nearest to such multiples, of each power of two
    the nearest of all that a continued fraction finds; in vectors, and one by one."""
    x = np.concatenate([near_right_angles(dtype), powers_of_two(dtype)])
    x = np.concatenate([x, -x])
    exact = getattr(np, name)(x.astype(np.longdouble))
    for lanes in (None, 1):
        assert_within(
            2.1 if name == "tan" else 1.6, computed(method(name), x, lanes=lanes), exact, x
        )


def powers_of_two(dtype: DType) -> Array:
    """And the floats on either side."""
    info = np.finfo(dtype.numpy)
    x = np.ldexp(dtype.numpy.type(1), np.arange(-30, info.maxexp, dtype=np.int32))
    return np.concatenate([x, np.nextafter(x, 0), np.nextafter(x, dtype.numpy.type(inf))])


def half_pi(bits: int) -> Fraction:
    """By Machin's formula, ``pi / 4 = 4 atan(1 / 5) - atan(1 / 239)``."""

    def arc_tangent(n: int) -> int:
        total, power, k = 0, (1 << bits + 20) // n, 1
        while power:
            total += (power // k) * (-1) ** (k // 2)
            power, k = power // (n * n), k + 2
        return total

    return Fraction(2 * (4 * arc_tangent(5) - arc_tangent(239)), 1 << bits + 20)


def near_right_angles(dtype: DType) -> Array:
    """The multiples of pi / 2 by small integers; and for each e those q * 2**e that are nearest to
    any multiple, of all q as small: with the convergents p / q of ``2**e / (pi / 2)``."""
    info = np.finfo(dtype.numpy)
    exact = half_pi(2 * int(info.maxexp))
    found = [float(n * exact) for n in range(1, 3000)]
    for e in range(-8, int(info.maxexp) - int(info.nmant) - 1, 1 if dtype is float32 else 7):
        rest, before, q = Fraction(2) ** e / exact, 0, 1
        while q < 2 ** (int(info.nmant) + 1):
            found.append(math.ldexp(q, e))
            rest = 1 / (rest - math.floor(rest))
            before, q = q, before + math.floor(rest) * q
    return np.array(found, dtype.numpy)


# -- functions of two numbers ------------------------------------------------------------------


def pairs(values: Array) -> tuple[Array, Array]:
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


def specials(dtype: DType) -> Array:
    """Few enough to pair each with each; 2**24 + 1 is odd or even by the dtype."""
    info = np.finfo(dtype.numpy)
    values = [0.0, 1.0, inf, 2.0, 3.0, 0.5, 0.1, 1.5, info.max, info.tiny, info.smallest_subnormal]
    values += [1 + info.eps, 1 - info.eps / 2, 2.0**24 + 1, 2.0**24 - 1, 2.0**53, 7.0, 100.0, 101.0]
    return np.array([nan, *values, *(-float(v) for v in values)], dtype.numpy)


@by_float
def test_power(dtype: DType) -> None:
    generator = np.random.default_rng(2)
    info = np.finfo(dtype.numpy)
    # bases of every size, with exponents that bring the result anywhere in the range
    base = np.exp2(generator.uniform(info.minexp - 20, info.maxexp, 60_000)).astype(dtype.numpy)
    base[:30_000] = generator.uniform(0.7, 1.5, 30_000)
    target = generator.uniform(info.minexp - info.nmant - 3, info.maxexp + 1, 60_000)
    exponent = (target / np.log2(base.astype(np.longdouble))).astype(dtype.numpy)
    cases = [
        (base, exponent),
        (bit_patterns(dtype, 30_000, 1), bit_patterns(dtype, 30_000, 2)),
        (generator.uniform(-9, 9, 3000), generator.integers(-20, 20, 3000).astype(float)),
        pairs(specials(dtype)),
    ]
    x, y = (np.concatenate(part).astype(dtype.numpy) for part in zip(*cases, strict=True))
    exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    assert_within(1.1, computed(method("pow"), x, y), exact, x, y)


@by_float
def test_power_is_exact_where_the_result_is_a_float(dtype: DType) -> None:
    digits = np.finfo(dtype.numpy).nmant + 1
    exact = [(b, e) for b in range(2, 40) for e in range(1, 60) if b**e < 2**digits]
    b, e = (np.array(part, dtype.numpy) for part in zip(*exact, strict=True))
    expected = np.array([base**power for base, power in exact], dtype.numpy)
    np.testing.assert_array_equal(computed(method("pow"), b, e), expected)


@by_float
@pytest.mark.parametrize("n", range(-2, 5))
def test_small_constant_powers_are_multiplied_out(n: int, dtype: DType) -> None:
    x = sample(dtype, ((-5, 5),))
    got = computed(lambda k, x: k.pow(x, float(n)), x)
    assert_same(got, computed(lambda k, x: k.pow_int(x, n), x))
    assert_within(2.0, got, x.astype(np.longdouble) ** n, x)
    assert len(list(walk(kernel_of(lambda k, x: k.pow(x, n), [dtype], 1).body))) <= 6


@by_float
@pytest.mark.parametrize("n", range(1, 5))
def test_derivatives_of_digamma(n: int, dtype: DType) -> None:
    x = np.geomspace(0.01, 300, 2000).astype(dtype.numpy)
    exact = scipy.special.polygamma(n, x.astype(np.float64))
    assert_within(12, computed(lambda k, x: k.polygamma(x, n), x), exact, x)


@by_float
def test_angle_of_a_point(dtype: DType) -> None:
    generator = np.random.default_rng(3)
    cases = [
        pairs(specials(dtype)),
        (bit_patterns(dtype, 30_000, 1), bit_patterns(dtype, 30_000, 2)),
        (generator.uniform(-3, 3, 60_000), generator.uniform(-3, 3, 60_000)),
    ]
    y, x = (np.concatenate(part).astype(dtype.numpy) for part in zip(*cases, strict=True))
    exact = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    assert_within(2.0, computed(method("atan2"), y, x), exact, y, x)


@by_float
def test_distance_from_the_origin(dtype: DType) -> None:
    generator = np.random.default_rng(7)
    info = np.finfo(dtype.numpy)
    scale = np.exp2(generator.uniform(info.minexp - 10, info.maxexp - 1, 30_000))
    cases = [
        pairs(specials(dtype)),
        (generator.uniform(-3, 3, 60_000), generator.uniform(-3, 3, 60_000)),
        (generator.uniform(-1, 1, 30_000) * scale, generator.uniform(-1, 1, 30_000) * scale),
    ]
    x, y = (np.concatenate(part).astype(dtype.numpy) for part in zip(*cases, strict=True))
    exact = np.hypot(x.astype(np.longdouble), y.astype(np.longdouble))
    assert_within(1.3, computed(method("hypot"), x, y), exact, x, y)


def divisions(dtype: DType) -> tuple[Array, Array]:
    generator = np.random.default_rng(4)
    size, scale = 20_000, np.exp2(generator.integers(-9, 10, 20_000))
    huge = 2.0 ** (np.finfo(dtype.numpy).nmant + 18)
    cases = [
        pairs(specials(dtype)),
        (generator.integers(-900, 900, size) * 0.1, generator.integers(-30, 30, size) * 1.0),
        (generator.uniform(-9, 9, size) * scale, generator.uniform(-9, 9, size)),
        (generator.uniform(-9, 9, size) * scale**2, generator.uniform(-9, 9, size) / scale),
        (generator.uniform(-9, 9, size) * huge, generator.uniform(-9, 9, size)),
        (bit_patterns(dtype, size, 1), bit_patterns(dtype, size, 2)),  # quotients of every size
    ]
    x, y = (np.concatenate(part).astype(dtype.numpy) for part in zip(*cases, strict=True))
    return x, y


@by_float
def test_float_remainder_is_that_of_numpy(dtype: DType) -> None:
    x, y = divisions(dtype)
    assert_same(computed(method("remainder"), x, y), np.remainder(x, y))


@by_float
def test_float_fmod_is_that_of_c(dtype: DType) -> None:
    x, y = divisions(dtype)
    assert_same(computed(method("fmod"), x, y), np.fmod(x, y))


@by_float
def test_float_floor_divide(dtype: DType) -> None:
    x, y = divisions(dtype)
    got = computed(method("floor_divide"), x, y)
    expected = np.floor_divide(x, y)
    ratio = np.abs(x.astype(np.longdouble) / y)
    # NumPy rounds before it divides, which is felt in large quotients
    small = ~(ratio > 2.0 ** (np.finfo(dtype.numpy).nmant - 3)) | ~np.isfinite(ratio)
    assert_same(got[small], expected[small])
    large = np.flatnonzero((ratio < 2.0 ** (np.finfo(dtype.numpy).nmant + 1)) & np.isfinite(x))
    large = large[ratio[large].argsort()[-300:]]
    exact = [math.floor(Fraction(float(x[i])) / Fraction(float(y[i]))) for i in large]
    np.testing.assert_array_equal(got[large], exact)


@by_half
def test_functions_of_two_numbers_in_half_precision(dtype: DType) -> None:
    x, y = pairs(bit_patterns(dtype, 200))
    wide = x.astype(np.float32), y.astype(np.float32)
    for name in BINARY:
        expected = computed(method(name), *wide)
        assert_same(computed(method(name), x, y), expected.astype(dtype.numpy))


@by_float
def test_maximum_and_minimum_keep_nan(dtype: DType) -> None:
    x, y = pairs(specials(dtype))
    assert_same(computed(method("maximum"), x, y), np.maximum(x, y), signed_zero=False)
    assert_same(computed(method("minimum"), x, y), np.minimum(x, y), signed_zero=False)


@by_float
def test_classification(dtype: DType) -> None:
    x = specials(dtype)
    for name in ("isnan", "isinf", "isfinite"):
        np.testing.assert_array_equal(computed(method(name), x), getattr(np, name)(x))


@by_float
def test_parts_of_floats_and_the_floats_next_to_them(dtype: DType) -> None:
    x = np.concatenate([specials(dtype), bit_patterns(dtype, 3000)])
    m, e = np.frexp(x)
    assert_same(computed(method("mantissa"), x), m)
    assert_same(computed(method("exponent"), x), e.astype(dtype.numpy))
    x, y = pairs(specials(dtype))
    assert_same(computed(method("nextafter"), x, y), np.nextafter(x, y))


# -- integers ----------------------------------------------------------------------------------


def integers(dtype: DType) -> Array:
    info = np.iinfo(dtype.numpy)
    values = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 10, 63, 64, 100]
    values += [-1, -2, -3, -7] if info.min < 0 else []
    random = np.random.default_rng(5).integers(info.min, info.max, 40, dtype.numpy)
    return np.concatenate([np.array(values, dtype.numpy), random])


@by_integer
def test_integer_division_is_that_of_numpy(dtype: DType) -> None:
    x, y = pairs(integers(dtype))
    assert_same(computed(method("floor_divide"), x, y), np.floor_divide(x, y))
    assert_same(computed(method("remainder"), x, y), np.remainder(x, y))
    assert_same(computed(method("fmod"), x, y), np.fmod(x, y))


@by_integer
def test_shifts_are_those_of_numpy(dtype: DType) -> None:
    x, n = pairs(integers(dtype))
    assert_same(computed(method("left_shift"), x, n), np.left_shift(x, n))
    assert_same(computed(method("right_shift"), x, n), np.right_shift(x, n))
    for by in (0, 1, dtype.bits - 1, dtype.bits):
        for name in ("left_shift", "right_shift"):
            shifted = computed(lambda k, x, f=name, by=by: getattr(k, f)(x, by), x)
            assert_same(shifted, getattr(np, name)(x, np.full_like(x, by)))


@by_integer
def test_integer_division_by_a_constant(dtype: DType) -> None:
    x = integers(dtype)
    for divisor in (0, 1, 3, 10, *((-1, -3) if dtype.kind == "i" else ())):
        y = np.full_like(x, divisor)
        quotient = computed(lambda k, x, d=divisor: k.floor_divide(x, d), x)
        assert_same(quotient, np.floor_divide(x, y))
        assert_same(computed(lambda k, x, d=divisor: k.remainder(x, d), x), np.remainder(x, y))


@by_integer
def test_common_divisors_and_multiples_are_those_of_numpy(dtype: DType) -> None:
    fibonacci = [1, 2]  # what takes the most steps
    while sum(fibonacci[-2:]) <= np.iinfo(dtype.numpy).max:
        fibonacci.append(sum(fibonacci[-2:]))
    x, y = pairs(np.concatenate([integers(dtype), np.array(fibonacci[-3:], dtype.numpy)]))
    for name in ("gcd", "lcm"):
        assert_same(computed(method(name), x, y, lanes=1), getattr(np, name)(x, y))


def integer_power(x: int, y: int, dtype: DType) -> int:
    if y < 0:
        return x ** (y & 1) if abs(x) == 1 else 0
    power = pow(x, y, 2**dtype.bits)
    return power - 2**dtype.bits if dtype.kind == "i" and power >> (dtype.bits - 1) else power


@by_integer
def test_integer_power_wraps(dtype: DType) -> None:
    x, y = pairs(integers(dtype))
    expected = [integer_power(int(a), int(b), dtype) for a, b in zip(x, y, strict=True)]
    assert_same(computed(method("pow"), x, y), np.array(expected, dtype.numpy))


@by_integer
def test_signs_of_integers(dtype: DType) -> None:
    x = integers(dtype)
    expected = {"sign": np.sign(x), "abs": np.abs(x), "neg": np.negative(x)}
    for name, value in (expected | {"relu": np.maximum(x, dtype.numpy.type(0))}).items():
        assert_same(computed(method(name), x), value)


def test_integers_have_no_reciprocal() -> None:
    k = Scalars([Buffer("x", int32, "in")], [])
    with pytest.raises(ValueError, match="i32 cannot be raised to the power of -1"):
        k.pow_int(k.load("x", 0), -1)


@pytest.mark.parametrize("dtype", [float32, int32], ids=str)
def test_constant_powers_of_either_kind(dtype: DType) -> None:
    x = np.arange(-3, 4).astype(dtype.numpy)
    for n in (0, 1, 2, 3, 7):
        assert_same(computed(lambda k, x, n=n: k.pow(x, n), x), x**n)
    assert_same(
        computed(lambda k, x: k.pow(2, x), np.arange(5).astype(dtype.numpy)),
        (2 ** np.arange(5)).astype(dtype.numpy),
    )


# -- all of them -------------------------------------------------------------------------------

BINARY = ("pow", "atan2", "hypot", "fmod", "remainder", "floor_divide", "maximum", "minimum")
TESTS = ("isnan", "isinf", "isfinite")
BITS = ("left_shift", "right_shift", "threefry")
DIVISORS = ("gcd", "lcm")
PARTS = ("mantissa", "exponent", "nextafter")


def test_every_function_is_tested() -> None:
    methods = {name for name in vars(Scalars) if not name.startswith("_")}
    several = {*BINARY, *TESTS, *BITS, *DIVISORS, *PARTS}
    assert methods == {*FUNCTIONS, *EXACT, *several, "pow_int", "polygamma", "real"}
    assert not methods & (set(vars(Builder)) - {"neg"})


@by_float
@pytest.mark.parametrize("name", [*EXACT, *BINARY])
def test_scalars_vectors_and_the_interpreter_agree(name: str, dtype: DType) -> None:
    few = np.array([0.0, -0.0, 0.3, -1.7, 5.5, -30.25, 1e5, 1e-40, inf, nan], dtype.numpy)
    inputs = pairs(few) if name in BINARY else (few,)
    kernel = kernel_of(method(name), [dtype] * len(inputs), 1)
    expected = buffers_of(kernel, inputs)
    assert interpret_kernel(kernel, expected, {Sym("n"): len(inputs[0])}) == 0
    for lanes in (1, 4, 16):
        assert_same(computed(method(name), *inputs, lanes=lanes), expected["y"])
