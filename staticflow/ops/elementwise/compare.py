"""Tests of numbers beyond the six comparisons, and what replaces numbers that fail them."""

from __future__ import annotations

from math import inf
from typing import Any

import ml_dtypes

from staticflow.errors import ArgumentError
from staticflow.graph.dims import same
from staticflow.graph.dtypes import DType, bool_
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import eq, logical_and, logical_or, ne
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import elementwise
from staticflow.ops.declaring.promote import one_number, result_type
from staticflow.ops.elementwise.maths import abs, isfinite, isnan

__all__ = ["allclose", "equal", "isclose", "isneginf", "isposinf", "nan_to_num", "signbit"]


def _signbit_emit(k: Any, x: Any) -> Any:
    if not x.dtype.is_floating:
        return k.compare("lt", x, k.const(0, x.dtype))
    return k.compare("lt", k.apply("copysign", k.const(1.0, x.dtype), x), 0.0)


signbit = elementwise(
    "signbit", "Whether the sign bit is set, a bool: true of -0.0.",
    lambda xp, x: xp.signbit(x) if x.dtype.kind not in "iub" else x < 0,
    _signbit_emit,
    result=bool_,
    numpy="small", exact=True,
)  # fmt: skip


@by_shape
def isposinf(input: Any) -> Any:
    """Whether ``input`` is positive infinity, a bool."""
    return eq(input, inf) if input.dtype.is_floating else ne(input, input)


@by_shape
def isneginf(input: Any) -> Any:
    """Whether ``input`` is negative infinity, a bool."""
    return eq(input, -inf) if input.dtype.is_floating else ne(input, input)


@by_shape
def isclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """Whether ``|input - other| <= atol + rtol * |other|``, a bool; true of equal infinities, and
    of two NaN with ``equal_nan``. Raises `ArgumentError` for a negative tolerance."""
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if isinstance(tolerance, int | float) and not tolerance >= 0:
            raise ArgumentError(
                f"isclose: {name} is {tolerance}; it must be at least 0, at {format_locs(here())}"
            )
    if result_type([input, other]) is bool_:
        return eq(input, other)
    near = logical_and(abs(input - other) <= abs(other) * rtol + atol, isfinite(other))
    same = logical_or(eq(input, other), near)
    return logical_or(same, logical_and(isnan(input), isnan(other))) if equal_nan else same


def allclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether `isclose` holds everywhere, a Python bool; so both are tensors of values."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have one shape and the same elements, a Python bool; so both are tensors
    of values."""
    if input.ndim != other.ndim or any(
        isinstance(a, int) and isinstance(b, int) and a != b
        for a, b in zip(input.shape, other.shape, strict=True)
    ):
        return False
    if input.ndim > 1 and not any(same(n, 0) for n in input.shape):
        row = (0,) * (input.ndim - 1)  # which differs where most do
        if not eq(input[row], other[row]).all():
            return False
    return bool(eq(input, other).all())


def _limits(dtype: DType, posinf: Any, neginf: Any) -> tuple[float, float]:
    of: Any = ml_dtypes.finfo
    limits = of(dtype.numpy)
    high = float(limits.max) if posinf is None else posinf
    return high, float(limits.min) if neginf is None else neginf


def _replace(xp: Any, x: Any, *, nan: float, posinf: float, neginf: float) -> Any:
    number = x.dtype.type
    x = xp.where(xp.isnan(x), number(nan), x)
    x = xp.where(x == inf, number(posinf), x)
    return xp.where(x == -inf, number(neginf), x)


def _replace_emit(k: Any, x: Any, *, nan: float, posinf: float, neginf: float) -> Any:
    y = k.select(k.compare("eq", x, inf), posinf, x)
    y = k.select(k.compare("eq", x, -inf), neginf, y)
    return k.select(k.compare("ne", x, x), nan, y)


def _replace_vjp(ct: Any, out: Any, x: Any, **_: Any) -> Any:
    return ct * isfinite(x)


nan_to_num_op = elementwise(
    "nan_to_num", "``x`` with numbers in place of NaN and of the infinities.",
    _replace, _replace_emit, (_replace_vjp,), kinds="f",
    numpy="small", exact=True,
)  # fmt: skip


@by_shape
def nan_to_num(
    input: Any, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """``input`` with ``nan`` in place of NaN and the largest and least numbers of its dtype, or
    those given, in place of the infinities. Integers are left as they are."""
    if not input.dtype.is_floating:
        return input.clone()
    high, low = _limits(input.dtype, posinf, neginf)
    nan = 0.0 if nan is None else one_number(nan, "nan")
    return nan_to_num_op(input, nan=nan, posinf=high, neginf=low)
