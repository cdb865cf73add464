"""Functions of real numbers, element by element. Integers become float32 first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from staticflow.graph.dtypes import bool_
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.creation import ones_like, zeros_like
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import elementwise, real_function

__all__ = [
    "abs",
    "ceil",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "pow",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sqrt",
    "square",
    "trunc",
]  # fmt: skip

LN2, LN10 = math.log(2), math.log(10)

exp = real_function(
    "exp", "``e ** x``.",
    "exp", lambda ct, out, x: ct * out,
)  # fmt: skip
expm1 = real_function(
    "expm1", "``e ** x - 1``, exact near 0.",
    "expm1", lambda ct, out, x: ct * (out + 1),
)  # fmt: skip
exp2 = real_function(
    "exp2", "``2 ** x``.",
    "exp2", lambda ct, out, x: ct * (out * LN2),
)  # fmt: skip
log = real_function(
    "log", "The natural logarithm; -inf at 0, NaN below.",
    "log", lambda ct, out, x: ct / x,
)  # fmt: skip
log1p = real_function(
    "log1p", "``log(1 + x)``, exact near 0.",
    "log1p", lambda ct, out, x: ct / (x + 1),
)  # fmt: skip
log2 = real_function(
    "log2", "The logarithm to base 2.",
    "log2", lambda ct, out, x: ct / (x * LN2),
)  # fmt: skip
log10 = real_function(
    "log10", "The logarithm to base 10.",
    "log10", lambda ct, out, x: ct / (x * LN10),
)  # fmt: skip
sqrt = real_function(
    "sqrt", "The square root; NaN below 0.",
    "sqrt", lambda ct, out, x: ct * 0.5 / out, numpy="small", exact=True,
)  # fmt: skip
rsqrt = real_function(
    "rsqrt", "``1 / sqrt(x)``.",
    lambda xp, x: xp.reciprocal(xp.sqrt(x)),
    lambda ct, out, x: ct * -0.5 * (out * out * out),
)  # fmt: skip
reciprocal = real_function(
    "reciprocal", "``1 / x``.",
    "reciprocal", lambda ct, out, x: -ct * (out * out), numpy="small", exact=True,
)  # fmt: skip


def _sigmoid_reference(xp: Any, x: Any) -> Any:
    # exp of a non-positive number on either side, so that nothing overflows
    e = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1 / (1 + e), e / (1 + e))


sigmoid = real_function(
    "sigmoid", "``1 / (1 + exp(-x))``.",
    # 1 - out, but as what no stable form is known of, which would compute a second sigmoid
    _sigmoid_reference, lambda ct, out, x: ct * (out * abs(out - 1)),
    numpy="slower",
)  # fmt: skip


def _relu_reference(xp: Any, x: Any) -> Any:
    if x.dtype.itemsize == 2:  # where NumPy's maximum makes 0.0 of -0.0
        return xp.where(x < 0, x.dtype.type(0), x)
    return xp.maximum(x.dtype.type(0), x)


relu = elementwise(
    "relu", "``x`` where it is above 0, else 0; NaN stays.",
    _relu_reference,
    lambda k, x: k.relu(x),
    (lambda ct, out, x: where(out <= 0, 0.0, ct),),
    kinds="iuf", numpy="small", exact=True, piecewise_linear=True,
)  # fmt: skip

abs: Op = elementwise(
    "abs", "``|x|``.",
    "absolute",
    lambda k, x: x if x.dtype.kind == "u" else k.apply("abs", x),
    (lambda ct, out, x: ct * sign(x),),
    kinds="iuf",
)  # fmt: skip


def _flat(name: str, doc: str, reference: Callable[..., Any]) -> Op:
    """A step function: its derivative is 0 wherever it has one. Integers stay what they are."""
    return elementwise(
        name, doc,
        lambda xp, x: x.copy() if x.dtype.kind in "iu" else reference(xp, x),
        lambda k, x: getattr(k, name)(x) if x.dtype.is_floating else x,
        (lambda ct, out, x: zeros_like(ct),),
        kinds="iuf", numpy="small", exact=True,
    )  # fmt: skip


sign: Op = elementwise(
    "sign", "-1, 0 or 1 with the sign of ``x``; 0 of NaN.",
    lambda xp, x: x.copy() if x.dtype.kind == "b" else (x > 0) * x.dtype.type(1) - (x < 0),
    lambda k, x: x if x.dtype is bool_ else k.sign(x),
    (lambda ct, out, x: zeros_like(ct),),
    numpy="small", exact=True,
)  # fmt: skip
floor = _flat("floor", "The largest integer not above ``x``.", lambda xp, x: xp.floor(x))
ceil = _flat("ceil", "The smallest integer not below ``x``.", lambda xp, x: xp.ceil(x))
trunc = _flat("trunc", "``x`` without its fraction.", lambda xp, x: xp.trunc(x))
frac = elementwise(
    "frac", "``x - trunc(x)``, with the sign of ``x``.",
    lambda xp, x: x - xp.trunc(x),
    lambda k, x: k.sub(x, k.trunc(x)),
    (lambda ct, out, x: ct,),
    kinds="f", numpy="small", exact=True,
)  # fmt: skip
round = _flat("round", "The nearest integer; halves go to the even one.", lambda xp, x: xp.rint(x))


def _test(name: str, doc: str, of_integers: Literal["eq", "ne"]) -> Op:
    """A test of floats. That integers pass or fail it is what comparing them with themselves
    gives."""
    return elementwise(
        name, doc,
        name,
        lambda k, x: getattr(k, name)(x) if x.dtype.is_floating else k.compare(of_integers, x, x),
        result=bool_,
    )  # fmt: skip


isnan = _test("isnan", "Whether ``x`` is NaN, a bool; integers never are.", "ne")
isinf = _test("isinf", "Whether ``x`` is infinite, a bool; integers never are.", "ne")
isfinite = _test("isfinite", "Whether ``x`` is neither infinite nor NaN, a bool.", "eq")


def _integer_pow_reference(xp: Any, x: Any, y: Any) -> Any:
    """The power of integers, also with negative exponents, which give 0, but 1 or -1 for such an
    x."""
    unit = xp.where(xp.equal(x, -1) & (y % 2 != 0), -1, xp.equal(xp.abs(x), 1))
    power = xp.power(x, xp.maximum(y, 0))
    return xp.where(xp.less(y, 0), unit.astype(power.dtype), power)


def _pow_reference(xp: Any, x: Any, y: Any) -> Any:
    if isinstance(y, int | float) and y == 2:
        return xp.square(x)  # as the power with this exponent gives, and much faster
    if isinstance(y, int) and y < 0 and x.dtype.kind in "iu":
        raise ValueError("a negative exponent")  # also of no elements; see `integer_beside`
    if hasattr(y, "dtype") and y.dtype.kind == "i" and xp.any(y < 0):
        return _integer_pow_reference(xp, x, y)
    out = xp.power(x, y)
    if out.dtype.kind in "iu":
        return out
    half = y == 0.5
    if half is False or (half is not True and not xp.any(half)):
        return out
    # NumPy may take the square root here, which is not the power at -0.0 and -inf
    end = out.dtype.type(xp.inf)
    if half is True:
        return xp.where(x == -end, end, xp.abs(out))
    return xp.where(half & (x == -end), end, xp.where(half, xp.abs(out), out))


def _pow_base(ct: Any, out: Any, x: Any, y: Any) -> Any:
    # d x**y / dx = y x**(y-1), and 0 where y is 0 even if x is 0
    if isinstance(y, int | float):
        return zeros_like(ct) if y == 0 else ct * (y * pow(x, y - 1) if y != 2 else x * 2)
    return where(y == 0, 0.0, ct * (y * pow(x, y - 1)))


def _pow_exponent(ct: Any, out: Any, x: Any, y: Any) -> Any:
    # d x**y / dy = x**y log x, and 0 at x = 0 for y >= 0
    if isinstance(x, int | float):
        x = ones_like(y) * x
    return where((x == 0) & (y >= 0), 0.0, ct * (out * log(x)))


pow: Op = elementwise(
    "pow", "``x ** y``.",
    _pow_reference,
    lambda k, x, y: k.pow(x, y),
    (_pow_base, _pow_exponent),
    kinds="iuf", names=("input", "exponent"), numbers="power",
    numpy="alone", exact=True,
)  # fmt: skip


@by_shape
def square(input: Any) -> Any:
    """``x * x``."""
    return pow(input, 2)
