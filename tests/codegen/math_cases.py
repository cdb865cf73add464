"""The mathematical functions under test: how to run them, what to give them, what is exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from native_kernels import run

from staticflow.codegen.kernel import Buffer, Kernel
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.schedule.vectorize import vectorize
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.dtypes import DType, dtype_of, float32, float64
from staticflow.runtime.machine import vector_bits

inf, nan = math.inf, math.nan
Array = np.ndarray[Any, Any]
Emit = Callable[..., Any]

FLOATS = (float32, float64)
BITS = {16: np.uint16, 32: np.uint32, 64: np.uint64}


# -- running a function over arrays ------------------------------------------------------------


def kernel_of(emit: Emit, dtypes: list[DType], lanes: int) -> Kernel:
    """The kernel that stores ``emit(k, *elements)``, ``lanes`` elements at a time."""
    inputs = [Buffer(f"x{i}", dtype, "in") for i, dtype in enumerate(dtypes)]
    probe = Scalars(inputs, [])
    out = emit(probe, *(probe.load(b.name, 0) for b in inputs)).dtype
    k = Scalars([*inputs, Buffer("y", out, "out")], [Sym("n")])
    with k.loop("i", Dim.of(Sym("n"))) as i:
        k.store("y", i, emit(k, *(k.load(b.name, i) for b in inputs)))
    kernel = k.kernel("function")
    if lanes > 1:
        (var,) = symbols_of(i)
        kernel = vectorize(kernel, var, lanes)
    return verify_kernel(kernel)


def buffers_of(kernel: Kernel, inputs: tuple[Array, ...]) -> dict[str, Array]:
    arrays = {f"x{i}": x for i, x in enumerate(inputs)}
    return arrays | {"y": np.empty(len(inputs[0]), kernel.buffer("y").dtype.numpy)}


def computed(emit: Emit, *inputs: Array, lanes: int | None = None) -> Array:
    """``emit`` of every element, by native code; in vectors of the machine's width."""
    dtypes = [dtype_of(x.dtype) for x in inputs]
    kernel = kernel_of(emit, dtypes, lanes or vector_bits() // max(d.bits for d in dtypes))
    arrays = buffers_of(kernel, inputs)
    assert run(kernel, arrays, n=len(inputs[0])) == 0
    return arrays["y"]


def method(name: str) -> Emit:
    return lambda k, *args: getattr(k, name)(*args)


# -- how far off -------------------------------------------------------------------------------


def error_in_ulp(got: Array, exact: Array) -> Array:
    """The distance from ``exact``, in units in the last place that ``got``'s dtype has there.

    Infinite for a NaN or infinity on one side only, unless the other is next to the infinity.
    """
    info = ml_dtypes.finfo(got.dtype)
    rounded = exact.astype(got.dtype)
    exponent = np.maximum(np.frexp(exact)[1] - 1, int(info.minexp))
    error = np.abs(got.astype(exact.dtype) - exact) / np.ldexp(np.longdouble(1), exponent)
    error = np.ldexp(error, int(info.nmant)).astype(np.float64)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    special = ~(np.isfinite(got) & np.isfinite(rounded))
    # one of both is the largest float and the other has just become infinity
    share = np.abs(exact) / float(info.max)
    edge = (np.abs(share - 1) <= float(info.eps)) & (np.abs(got.astype(np.float64)) >= info.max)
    edge &= np.signbit(got) == np.signbit(exact)
    return np.where(special, np.where(same, 0.0, np.where(edge, 1.0, inf)), error)


def assert_within(ulp: float, got: Array, exact: Array, *inputs: Array) -> None:
    """No error above ``ulp``, and every zero of the right sign."""
    error = error_in_ulp(got, exact)
    worst = int(error.argmax())
    assert error[worst] <= ulp, ([x[worst] for x in inputs], got[worst], exact[worst])
    rounded = exact.astype(got.dtype)
    zeros = (got == 0) & (rounded == 0)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(rounded[zeros]))


def bit_patterns(dtype: DType, count: int, seed: int = 0) -> Array:
    """Floats of every size, NaN and infinities among them."""
    bits = np.random.default_rng(seed).integers(0, 2**dtype.bits, count, np.uint64)
    return bits.astype(BITS[dtype.bits]).view(dtype.numpy)


def edges(dtype: DType) -> Array:
    """Zeros, infinities, NaN, extremes, integers and halves, and powers of two."""
    info = ml_dtypes.finfo(dtype.numpy)
    extremes = [info.max, info.tiny, info.smallest_subnormal, info.eps, 1 + info.eps, 1 - info.eps]
    values = [0.0, inf, nan, *map(float, extremes), 0.1, math.pi, math.pi / 2, math.pi / 4]
    values += [n / 2 for n in range(1, 60)] + [2.0**n for n in range(-30, 31)]
    values += [88.72283, 88.72284, 103.97, 709.782712893384, 745.1332191019411]
    return np.array([*values, *(-v for v in values)]).astype(dtype.numpy)


def sample(dtype: DType, intervals: tuple[tuple[float, float], ...]) -> Array:
    generator = np.random.default_rng(1)
    parts = [generator.uniform(lo, hi, 20_000).astype(dtype.numpy) for lo, hi in intervals]
    return np.concatenate([edges(dtype), bit_patterns(dtype, 20_000), *parts])


# -- accuracy ----------------------------------------------------------------------------------


def exact_sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def exact_erf(x: Array) -> Array:
    """By its series with positive terms, 2/sqrt(pi) e**(-x x) sum (2 x x)**n x / (2n + 1)!!."""
    a = np.minimum(np.abs(x), 6.5)
    total = term = a
    for n in range(1, int(3 * np.nanmax(a) ** 2) + 40):
        term = term * (2 * a * a / (2 * n + 1))
        total = total + term
    root = np.sqrt(4 * np.arctan(np.longdouble(1)))
    return np.copysign(np.where(a < 6.5, 2 / root * np.exp(-a * a) * total, a / 6.5), x)


def exact_erfc(x: Array) -> Array:
    """1 - erf(x); for a large x by its continued fraction, with the square of x in two parts."""
    a = np.clip(np.abs(x), 2, 28)
    fraction = a
    for n in range(80, 0, -1):
        fraction = a + np.longdouble(n) / 2 / fraction
    high = a.astype(np.float32).astype(np.longdouble)
    power = np.exp(-high * high) * np.exp(-(a - high) * (a + high))
    tail = power / fraction / np.sqrt(4 * np.arctan(np.longdouble(1)))
    tail = np.where(np.abs(x) > 28, 0, tail)
    tail = np.where(x < 0, 2 - tail, tail)
    return np.where(np.abs(x) > 2, tail, 1 - exact_erf(np.clip(x, -2, 2)))


def exact_erfcx(x: Array) -> Array:
    a = np.abs(x)
    fraction = a = np.maximum(a, 2)
    for n in range(80, 0, -1):
        fraction = a + np.longdouble(n) / 2 / fraction
    far = 1 / fraction / np.sqrt(4 * np.arctan(np.longdouble(1)))
    near = np.clip(np.abs(x), 0, 2)
    y = np.where(np.abs(x) > 2, far, np.exp(near * near) * (1 - exact_erf(near)))
    return np.where(x < 0, 2 * np.exp(np.minimum(x, 0) ** 2) - y, y)


def exact_log_ndtr(x: Array) -> Array:
    half = x / np.sqrt(np.longdouble(2))
    low = np.log(exact_erfcx(-np.minimum(half, 0)) / 2) - half * half
    return np.where(x < -1, low, np.log1p(-exact_erfc(np.maximum(half, -1)) / 2))


def exact_ndtr(x: Array) -> Array:
    return exact_erfc(-x / np.sqrt(np.longdouble(2))) / 2


def exact_gelu(x: Array) -> Array:
    return np.maximum(x, -1e30) * exact_ndtr(x)


def exact_erfinv(x: Array) -> Array:
    """Halley's method on erf or, above 1/2, on its complement, from Winitzki's approximation."""
    a = np.where(np.abs(x) < 1, np.abs(x), np.longdouble(0.5))
    half_root_pi = np.sqrt(4 * np.arctan(np.longdouble(1))) / 2
    log, c = np.log1p(-a * a), 0.147
    b = 2 / (math.pi * c) + log / 2
    y = np.sqrt(np.sqrt(b * b - log / c) - b)
    for _ in range(3):
        error = np.where(a < 0.5, exact_erf(np.minimum(y, 0.5)) - a, (1 - a) - exact_erfc(y))
        step = error * half_root_pi * np.exp(y * y)
        y = y - step / (1 + y * step)
    y = np.where(a < 1e-9, a * half_root_pi, y)
    y = np.where(np.abs(x) == 1, inf, np.where(np.abs(x) < 1, y, nan))
    return np.copysign(y, x)


def exact_bessel(order: int, scaled: bool) -> Callable[[Array], Array]:
    """By the power series and, from 40 on, Hankel's expansion (Abramowitz and Stegun, 9.6.10 and
    9.7.1)."""

    def exact(x: Array) -> Array:
        a = np.abs(x)
        half = np.minimum(a, 40) / 2
        total = term = half**order
        for n in range(1, 100):
            term = term * half * half / (n * (n + order))
            total = total + term
        far = np.maximum(a, 40)
        tail = part = np.ones_like(a)
        for n in range(1, 40):
            part = part * ((2 * n - 1) ** 2 - 4 * order) / (8 * n * far)
            tail = tail + part
        root = np.sqrt(8 * np.arctan(np.longdouble(1)) * far)
        if scaled:
            y = np.where(a < 40, total * np.exp(-a), tail / root)
        else:
            y = np.where(a < 40, total, np.where(a < inf, tail / root * np.exp(a), a))
        return np.copysign(y, x) if order else y

    return exact


@dataclass(frozen=True)
class Function:
    """A function of one number, the error that it may have in float32 and in float64, and where to
    look closely."""

    exact: Callable[[Array], Array]
    ulp: tuple[float, float]
    intervals: tuple[tuple[float, float], ...] = ((-4, 4), (-100, 100))


FUNCTIONS: Mapping[str, Function] = {
    "exp": Function(np.exp, (1.0, 1.0), ((-110, 90), (-750, 711), (-1, 1))),
    "exp2": Function(np.exp2, (1.0, 1.0), ((-152, 129), (-1080, 1025), (-1, 1))),
    "expm1": Function(np.expm1, (1.4, 1.7), ((-20, 90), (-40, 711), (-1, 1))),
    "sigmoid": Function(exact_sigmoid, (2.0, 2.0), ((-110, 40), (-750, 50), (-3, 3))),
    "tanh": Function(np.tanh, (2.0, 2.0), ((-10, 10), (-20, 20), (-1, 1))),
    "sinh": Function(np.sinh, (1.7, 2.0), ((-90, 90), (-711, 711), (-2, 2))),
    "cosh": Function(np.cosh, (1.4, 1.4), ((-90, 90), (-711, 711), (-2, 2))),
    "log": Function(np.log, (1.0, 1.0), ((0, 3), (0.6, 1.5), (0.99, 1.01))),
    "log2": Function(np.log2, (1.6, 1.4), ((0, 3), (0.6, 1.5), (0.99, 1.01))),
    "log10": Function(np.log10, (1.6, 1.5), ((0, 3), (0.6, 1.5), (0.99, 1.01))),
    "log1p": Function(np.log1p, (1.8, 1.2), ((-1, 3), (-0.5, 0.5), (-0.01, 0.01))),
    "sin": Function(np.sin, (1.6, 1.6), ((-4, 4), (-1e3, 1e3), (-5e5, 5e5), (-5e14, 5e14))),
    "cos": Function(np.cos, (1.6, 1.6), ((-4, 4), (-1e3, 1e3), (-5e5, 5e5), (-5e14, 5e14))),
    "tan": Function(np.tan, (2.1, 2.1), ((-4, 4), (-1e3, 1e3), (-5e5, 5e5), (-5e14, 5e14))),
    "asin": Function(np.arcsin, (1.5, 1.8), ((-1, 1), (0.99, 1))),
    "acos": Function(np.arccos, (1.2, 1.2), ((-1, 1), (0.99, 1))),
    "atan": Function(np.arctan, (1.7, 1.9)),
    "erf": Function(exact_erf, (1.3, 1.2), ((-4, 4), (-6.1, 6.1), (-1, 1))),
    "erfc": Function(exact_erfc, (1.9, 2.1), ((-4, 11), (-1, 1), (0, 27))),
    "erfcx": Function(exact_erfcx, (3.5, 3.5), ((-4, 11), (-1, 1), (-9, 30), (-26, 30), (20, 1e5))),
    "log_ndtr": Function(exact_log_ndtr, (5.0, 5.0), ((-4, 5), (-1.5, 1), (-38, 8), (-1e4, 0))),
    "ndtr": Function(exact_ndtr, (4.9, 4.2), ((-15, 4), (-1, 1), (-38, 0))),
    "gelu": Function(exact_gelu, (5.2, 4.7), ((-15, 4), (-1, 1), (-37, 0))),
    "erfinv": Function(exact_erfinv, (2.0, 2.2), ((-1, 1), (0.99, 1), (-0.1, 0.1))),
    "i0": Function(exact_bessel(0, False), (5.0, 6.0), ((-10, 10), (-90, 92), (-714, 714))),
    "i1": Function(exact_bessel(1, False), (5.0, 6.0), ((-10, 10), (-90, 92), (-714, 714))),
    "i0e": Function(exact_bessel(0, True), (4.0, 5.0), ((-12, 12), (-700, 700))),
    "i1e": Function(exact_bessel(1, True), (4.0, 6.5), ((-12, 12), (-700, 700))),
    "asinh": Function(np.arcsinh, (1.8, 1.6)),
    "acosh": Function(np.arccosh, (2.0, 1.7), ((1, 4), (1, 1.01), (1, 1e5))),
    "atanh": Function(np.arctanh, (2.0, 1.7), ((-1, 1), (0.99, 1))),
    "sqrt": Function(np.sqrt, (0.5, 0.5), ((0, 4),)),
    "rsqrt": Function(lambda x: 1 / np.sqrt(x), (1.5, 1.5), ((0, 4),)),
    "reciprocal": Function(lambda x: 1 / x, (0.5, 0.5)),
}


EXACT: dict[str, list[tuple[float, float]]] = {
    "exp": [(0, 1), (-0.0, 1), (inf, inf), (-inf, 0), (1e4, inf), (-1e4, 0)],
    "exp2": [(0, 1), (inf, inf), (-inf, 0), (10, 1024), (-126, 2.0**-126), (-149, 2.0**-149)],
    "expm1": [(0, 0), (-0.0, -0.0), (inf, inf), (-inf, -1), (-100, -1), (1e-40, 1e-40)],
    "sigmoid": [(0, 0.5), (-0.0, 0.5), (inf, 1), (-inf, 0), (40, 1), (-1e4, 0)],
    "tanh": [(0, 0), (-0.0, -0.0), (inf, 1), (-inf, -1), (20, 1), (-20, -1), (1e-40, 1e-40)],
    "sinh": [(0, 0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (1e4, inf), (1e-40, 1e-40)],
    "cosh": [(0, 1), (-0.0, 1), (inf, inf), (-inf, inf), (1e4, inf)],
    "log": [(0, -inf), (-0.0, -inf), (1, 0), (inf, inf), (-1, nan), (-inf, nan)],
    "log2": [(0, -inf), (1, 0), (1024, 10), (2.0**-149, -149), (inf, inf), (-1, nan)],
    "log10": [(0, -inf), (1, 0), (10, 1), (1000, 3), (1e10, 10), (inf, inf), (-1, nan)],
    "log1p": [(0, 0), (-0.0, -0.0), (-1, -inf), (inf, inf), (-2, nan), (-inf, nan), (1e-40, 1e-40)],
    "sin": [(0, 0), (-0.0, -0.0), (inf, nan), (-inf, nan), (1e-40, 1e-40), (math.pi / 2, 1)],
    "cos": [(0, 1), (-0.0, 1), (1e-9, 1), (inf, nan), (-inf, nan)],
    "tan": [(0, 0), (-0.0, -0.0), (inf, nan), (-inf, nan), (1e-40, 1e-40)],
    "asin": [(0, 0), (-0.0, -0.0), (1, math.pi / 2), (-1, -math.pi / 2), (1.5, nan), (inf, nan)],
    "acos": [(1, 0), (-1, math.pi), (0, math.pi / 2), (-1.5, nan), (inf, nan)],
    "atan": [(0, 0), (-0.0, -0.0), (inf, math.pi / 2), (-inf, -math.pi / 2), (1, math.pi / 4)],
    "erf": [(0, 0), (-0.0, -0.0), (inf, 1), (-inf, -1), (6, 1), (-6, -1), (1e30, 1)],
    "erfc": [(0, 1), (-0.0, 1), (inf, 0), (-inf, 2), (30, 0), (-30, 2)],
    "erfcx": [(0, 1), (-0.0, 1), (inf, 0), (-inf, inf), (-30, inf)],
    "log_ndtr": [(inf, -0.0), (-inf, -inf), (40, -0.0)],
    "ndtr": [(0, 0.5), (-0.0, 0.5), (inf, 1), (-inf, 0), (40, 1), (-40, 0)],
    "gelu": [(0, 0), (-0.0, -0.0), (inf, inf), (-inf, -0.0), (1e30, 1e30), (-1e30, -0.0)],
    "erfinv": [(0, 0), (-0.0, -0.0), (1, inf), (-1, -inf), (1.5, nan), (inf, nan)],
    "i0": [(0, 1), (-0.0, 1), (inf, inf), (-inf, inf), (1e4, inf), (1e-40, 1)],
    "i1": [(0, 0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (1e4, inf), (-1e4, -inf)],
    "i0e": [(0, 1), (-0.0, 1), (inf, 0), (-inf, 0), (1e-40, 1)],
    "i1e": [(0, 0), (-0.0, -0.0), (inf, 0), (-inf, -0.0), (2e-40, 1e-40)],
    "asinh": [(0, 0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (1e-40, 1e-40)],
    "acosh": [(1, 0), (inf, inf), (0.5, nan), (-3, nan), (-inf, nan)],
    "atanh": [(0, 0), (-0.0, -0.0), (1, inf), (-1, -inf), (1.5, nan), (inf, nan), (1e-40, 1e-40)],
    "lgamma": [(0, inf), (-0.0, inf), (1, 0), (2, 0), (-1, inf), (inf, inf), (-inf, inf)],
    "digamma": [(0, -inf), (-0.0, inf), (-1, nan), (inf, inf), (-inf, nan), (1e-20, -1e20)],
    "sqrt": [(0, 0), (-0.0, -0.0), (inf, inf), (-1, nan), (4, 2)],
    "rsqrt": [(0, inf), (-0.0, -inf), (inf, 0), (-1, nan), (4, 0.5)],
    "reciprocal": [(0, inf), (-0.0, -inf), (inf, 0), (-inf, -0.0), (4, 0.25)],
    "floor": [(-0.5, -1), (-0.0, -0.0), (1.5, 1), (inf, inf)],
    "ceil": [(-0.5, -0.0), (0.5, 1), (1.5, 2), (-inf, -inf)],
    "trunc": [(-1.5, -1), (1.5, 1), (-0.5, -0.0)],
    "round": [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, -0.0), (-1.5, -2), (1e30, 1e30)],
    "sign": [(3, 1), (-inf, -1), (0, 0), (-0.0, 0), (1e-40, 1)],
    "abs": [(-3, 3), (-0.0, 0), (-inf, inf)],
    "neg": [(0, -0.0), (-0.0, 0), (3, -3), (inf, -inf)],
    "relu": [(-3, 0), (3, 3), (-inf, 0), (inf, inf), (0, 0), (-0.0, -0.0)],
}
