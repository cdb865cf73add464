"""How floats are written: mantissa and exponent, and the floats next to them."""

from __future__ import annotations

from typing import Any, NamedTuple

from staticflow.graph.dtypes import int32
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.declaring.declare import compose, elementwise
from staticflow.ops.elementwise.maths import exp2

__all__ = ["FloatParts", "frexp", "nextafter"]


def _exponent_reference(xp: Any, x: Any) -> Any:
    return xp.frexp(x.astype(xp.float32) if x.dtype.itemsize == 2 else x)[1]


exponent_op = elementwise(
    "frexp_exponent", "The e of ``x = m * 2**e`` with ``0.5 <= |m| < 1``, an int32.",
    _exponent_reference,
    lambda k, x: k.exponent(x),
    result=int32, kinds="f",
)  # fmt: skip


def _mantissa_vjp(ct: Any, out: Any, x: Any) -> Any:
    # by half the power, which every e leaves in range
    return ct * 0.5 / exp2(cast(exponent_op(x), dtype=x.dtype) - 1)


mantissa_op = compose(
    "frexp", "The m of ``x = m * 2**e`` with ``0.5 <= |m| < 1``; the e is `exponent_op`.",
    lambda xp, x: xp.frexp(x)[0],
    lambda k, x: k.mantissa(x),
    (_mantissa_vjp,),
)  # fmt: skip


class FloatParts(NamedTuple):
    """What `frexp` returns."""

    mantissa: Any
    exponent: Any


def frexp(input: Any) -> FloatParts:
    """The ``mantissa`` m, of the dtype of ``input``, and the ``exponent`` e, an int32, of
    ``input = m * 2**e`` with ``0.5 <= |m| < 1``. What is 0, infinite or NaN is its own mantissa and
    has the exponent 0. Floats only.

    >>> import staticflow as sf
    >>> mantissa, exponent = sf.frexp(sf.tensor([3.0, -0.25]))
    >>> mantissa, exponent
    (tensor([ 0.7500, -0.5000]), tensor([ 2, -1], dtype=staticflow.int32))
    """
    return FloatParts(mantissa_op(input), exponent_op(input))


def _nextafter_reference(xp: Any, x: Any, y: Any) -> Any:
    near = xp.nextafter(x, y)
    if near.dtype != xp.float16:
        return near
    return xp.where(x == y, y, near)  # NumPy gives x, which may be the other zero


nextafter = elementwise(
    "nextafter", "The float next to ``x`` on the way to ``y``; ``y`` where both are equal.",
    _nextafter_reference,
    lambda k, x, y: k.nextafter(x, y),
    kinds="f", numpy="small", exact=True,
)  # fmt: skip
