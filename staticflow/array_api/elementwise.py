"""Functions of single elements, by the names of the array API.

Arrays of two dtypes meet in the dtype of the promotion table whatever their shapes, where the
framework's own functions let arrays of no dims count for less, as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.graph.dtypes import DType, promote
from staticflow.ops.basics import arithmetic as ar
from staticflow.ops.basics.arithmetic import cast, logical_not, where
from staticflow.ops.elementwise import bits, floats, maths, pairs, synonyms, trig, variants
from staticflow.ops.elementwise.bits import bitwise_not as bitwise_invert
from staticflow.ops.elementwise.compare import signbit
from staticflow.ops.elementwise.maths import (
    abs,
    ceil,
    exp,
    expm1,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    reciprocal,
    sqrt,
    trunc,
)
from staticflow.ops.elementwise.synonyms import negative
from staticflow.ops.elementwise.trig import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cos,
    cosh,
    sin,
    sinh,
    tan,
    tanh,
)
from staticflow.ops.elementwise.variants import round
from staticflow.ops.tensors.shortcuts import positive

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "ceil", "clip", "conj", "copysign", "cos", "cosh", "divide", "equal", "exp", "expm1", "floor",
    "floor_divide", "greater", "greater_equal", "hypot", "isfinite", "isinf", "isnan", "less",
    "less_equal", "log", "log1p", "log2", "log10", "logaddexp", "logical_and", "logical_not",
    "logical_or", "logical_xor", "maximum", "meet", "minimum", "multiply", "negative", "nextafter",
    "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit",
    "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
]  # fmt: skip


def meet(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Both arrays in the dtype that the promotion table has for theirs; numbers stay as they are.

    >>> import staticflow as sf
    >>> meet(sf.zeros(2, dtype="int8"), sf.tensor(1))[0].dtype
    staticflow.int64
    """
    own, other = getattr(x1, "dtype", None), getattr(x2, "dtype", None)
    if own is other or not (isinstance(own, DType) and isinstance(other, DType)):
        return x1, x2
    wanted = promote((own, other))
    return (
        x1 if own is wanted else cast(x1, dtype=wanted),
        x2 if other is wanted else cast(x2, dtype=wanted),
    )


def _of_two(fn: Callable[..., Any], name: str, doc: str) -> Callable[[Any, Any], Any]:
    """``fn`` of two arrays, or of an array and a number, which `meet` first."""

    def call(x1: Any, x2: Any, /) -> Any:
        return fn(*meet(x1, x2))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


add = _of_two(variants.add, "add", "The sums of elements; of bools, whether one of both is true.")
atan2 = _of_two(trig.atan2, "atan2", "The angles of the points ``(x2, x1)``, in radians.")
bitwise_and = _of_two(bits.bitwise_and, "bitwise_and", "The bits that both have.")
bitwise_left_shift = _of_two(
    bits.bitwise_left_shift, "bitwise_left_shift", "The bits of ``x1``, ``x2`` places higher."
)
bitwise_or = _of_two(bits.bitwise_or, "bitwise_or", "The bits that one of both has.")
bitwise_right_shift = _of_two(
    bits.bitwise_right_shift,
    "bitwise_right_shift",
    "The bits of ``x1``, ``x2`` places lower; the sign stays.",
)
bitwise_xor = _of_two(bits.bitwise_xor, "bitwise_xor", "The bits that one of both alone has.")
copysign = _of_two(pairs.copysign, "copysign", "``abs(x1)`` with the signs of ``x2``.")
divide = _of_two(
    synonyms.divide, "divide", "The quotients; of integers in the default floating dtype."
)
equal = _of_two(ar.eq, "equal", "Whether elements are equal.")
floor_divide = _of_two(
    ar.floor_divide, "floor_divide", "The quotients, rounded down; an integer by 0 is 0."
)
greater = _of_two(ar.gt, "greater", "Whether elements of ``x1`` are greater.")
greater_equal = _of_two(
    ar.ge, "greater_equal", "Whether elements of ``x1`` are greater, or both are equal."
)
hypot = _of_two(pairs.hypot, "hypot", "``sqrt(x1**2 + x2**2)``, also where squares overflow.")
less = _of_two(ar.lt, "less", "Whether elements of ``x1`` are less.")
less_equal = _of_two(ar.le, "less_equal", "Whether elements of ``x1`` are less, or both are equal.")
logaddexp = _of_two(pairs.logaddexp, "logaddexp", "``log(exp(x1) + exp(x2))``.")
logical_and = _of_two(ar.logical_and, "logical_and", "Whether both are true.")
logical_or = _of_two(ar.logical_or, "logical_or", "Whether one of both is true.")
logical_xor = _of_two(ar.logical_xor, "logical_xor", "Whether one of both alone is true.")
maximum = _of_two(ar.maximum, "maximum", "The larger elements; NaN where one is NaN.")
minimum = _of_two(ar.minimum, "minimum", "The smaller elements; NaN where one is NaN.")
multiply = _of_two(synonyms.multiply, "multiply", "The products; of bools, whether both are true.")
nextafter = _of_two(
    floats.nextafter, "nextafter", "The numbers next to those of ``x1`` on the way to ``x2``."
)
not_equal = _of_two(ar.ne, "not_equal", "Whether elements differ.")
pow = _of_two(maths.pow, "pow", "``x1`` to the power of ``x2``.")
remainder = _of_two(
    ar.remainder, "remainder", "What `floor_divide` leaves, with the signs of ``x2``."
)
subtract = _of_two(synonyms.subtract, "subtract", "The differences of elements.")


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """The elements of ``x`` held in ``[min, max]``, in its dtype; a bound that is None holds
    nothing."""
    low, high = (
        b if b is None or not hasattr(b, "dtype") or b.dtype is x.dtype else cast(b, dtype=x.dtype)
        for b in (min, max)
    )
    return ar.clamp(x, low, high) if low is not None or high is not None else positive(x)


def square(x: Any, /) -> Any:
    """``x * x``."""
    return maths.square(x)


def sign(x: Any, /) -> Any:
    """-1, 0 or 1 by the sign of each element, and NaN of NaN, of which the framework's own function
    is 0, as PyTorch's."""
    return where(isnan(x), x, maths.sign(x)) if x.dtype.is_floating else maths.sign(x)


def conj(x: Any, /) -> Any:
    """``x``: no dtype is complex."""
    return positive(x)


def real(x: Any, /) -> Any:
    """``x``: no dtype is complex."""
    return positive(x)
