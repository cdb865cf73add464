"""Arithmetic with PyTorch's further arguments: what a second operand is scaled by, how a quotient
is rounded, to how many decimals."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.dtypes import bool_
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics import arithmetic
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.promote import result_type
from staticflow.ops.elementwise import maths
from staticflow.ops.elementwise.pairs import fmod

__all__ = ["add", "div", "round", "rsub", "sub"]


def _scale(name: str, input: Any, other: Any, alpha: Any) -> Any:
    if isinstance(alpha, int | float) and alpha == 1:
        return other
    whole = all(not x.dtype.is_floating for x in (input, other) if hasattr(x, "dtype"))
    if isinstance(alpha, float) and whole:
        raise DTypeError(
            f"{name}: integers cannot be scaled by alpha = {alpha}; give an integer, or cast, "
            f"at {format_locs(here())}"
        )
    if hasattr(other, "dtype"):
        dtype = result_type([input, other])
        if dtype is bool_:
            return other & bool(alpha)
        other = cast(other, dtype=dtype)  # the product is one of the result
    return other * alpha


def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``input + alpha * other``.

    >>> import staticflow as sf
    >>> sf.add(sf.tensor([1.0]), sf.tensor([2.0]), alpha=3)
    tensor([7.])
    """
    return arithmetic.add(input, _scale("add", input, other, alpha))


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``input - alpha * other``."""
    return arithmetic.sub(input, _scale("sub", input, other, alpha))


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``other - alpha * input``."""
    return arithmetic.sub(other, _scale("rsub", other, input, alpha))


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """``input / other`` of real numbers; with ``rounding_mode="trunc"`` rounded towards zero, with
    ``"floor"`` down, where integers stay integers.

    Raises `ArgumentError` for another word.

    >>> import staticflow as sf
    >>> sf.div(sf.tensor([-7, 7]), 2, rounding_mode="trunc")
    tensor([-3,  3])
    """
    if rounding_mode is None:
        return arithmetic.div(input, other)
    if rounding_mode == "floor":
        return arithmetic.floor_divide(input, other)
    if rounding_mode == "trunc":
        if result_type([input, other]).is_floating:
            return maths.trunc(arithmetic.div(input, other))
        return arithmetic.floor_divide(arithmetic.sub(input, fmod(input, other)), other)
    raise ArgumentError(
        f'div: rounding_mode is None, "trunc" or "floor", not {rounding_mode!r}, '
        f"at {format_locs(here())}"
    )


def round(input: Any, *, decimals: int = 0) -> Any:
    """The nearest number of so many ``decimals``; halves go to the even one."""
    if decimals == 0 or not input.dtype.is_floating:
        return maths.round(input)
    return _round_to(input, decimals)


@fused("RoundBackward1", only_large=True)
def _round_to(input: Any, decimals: int) -> Any:
    if decimals > 0:
        return maths.round(input * 10.0**decimals) / 10.0**decimals
    return maths.round(input / 10.0**-decimals) * 10.0**-decimals
