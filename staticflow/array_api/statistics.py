"""Sums, extremes and moments over dims, by the names of the array API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along import cumulative, extremes, multiplication
from staticflow.ops.basics import joining, reduce, view
from staticflow.ops.declaring.declare import normalize_dim, normalize_dims
from staticflow.ops.statistics import moments

__all__ = [
    "all", "along", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min",
    "over", "prod", "std", "sum", "var",
]  # fmt: skip

Axes = int | Sequence[int] | None


def over(x: Any, axis: Axes) -> tuple[Any, Axes]:
    """``x`` and the dims to reduce it over: of none at all the elements are sums of one, along a
    new dim.

    >>> import staticflow as sf
    >>> over(sf.ones(2), ())[0].shape
    (2, 1)
    """
    if isinstance(axis, Sequence) and not len(axis):
        return view.unsqueeze(x, -1), -1
    return x, axis


def _reduce(fn: Callable[..., Any], x: Any, axis: Axes, keepdims: bool, **options: Any) -> Any:
    values, dims = over(x, axis)
    return fn(values, dims, keepdim=keepdims and values is x, **options)


def sum(x: Any, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sums over ``axis``, or of all elements; of bools and integers in int64 unless ``dtype``
    says another."""
    return _reduce(reduce.sum, x, axis, keepdims, dtype=dtype)


def prod(x: Any, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The products over ``axis``, or of all elements; of bools and integers in int64 unless
    ``dtype`` says another."""
    return _reduce(multiplication.prod, x, axis, keepdims, dtype=dtype)


def mean(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """The means over ``axis``, or of all elements."""
    return _reduce(reduce.mean, x, axis, keepdims)


def var(x: Any, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variances over ``axis``, or of all elements: squares are divided by their number less
    ``correction``."""
    return _reduce(moments.var, x, axis, keepdims, correction=correction)


def std(x: Any, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The square roots of `var`."""
    return _reduce(moments.std, x, axis, keepdims, correction=correction)


def max(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """The largest elements over ``axis``, or of all; NaN where one is NaN."""
    return _reduce(extremes.amax, x, normalize_dims(axis, x.ndim, "max"), keepdims)


def min(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """The smallest elements over ``axis``, or of all; NaN where one is NaN."""
    return _reduce(extremes.amin, x, normalize_dims(axis, x.ndim, "min"), keepdims)


def all(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """Whether all elements over ``axis`` are true."""
    return _reduce(reduce.all, reduce.as_truth(x), axis, keepdims)


def any(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """Whether one element over ``axis`` is true."""
    return _reduce(reduce.any, reduce.as_truth(x), axis, keepdims)


def along(x: Any, axis: int | None, name: str) -> int:
    """The dim that a function goes along: the only one, if none is named. Raises `ShapeError` where
    there is not one alone."""
    if axis is not None:
        return normalize_dim(axis, x.ndim, name)
    if x.ndim != 1:
        raise ShapeError(
            f"{name}: an array of {x.ndim} dims needs an axis, at {format_locs(here())}"
        )
    return 0


def _behind(x: Any, out: Any, axis: int, first: int, wanted: bool) -> Any:
    """``out`` with the number ``first`` in front along ``axis``, if that is ``wanted``."""
    if not wanted:
        return out
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return joining.cat([out.new_full(shape, first), out], axis)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The sums of all elements so far along ``axis``; with ``include_initial`` from 0 on."""
    at = along(x, axis, "cumulative_sum")
    out = cumulative.cumsum(x, at, dtype=None if dtype is None else dtype_of(dtype))
    return _behind(x, out, at, 0, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The products of all elements so far along ``axis``; with ``include_initial`` from 1 on."""
    at = along(x, axis, "cumulative_prod")
    out = cumulative.cumprod(x, at, dtype=None if dtype is None else dtype_of(dtype))
    return _behind(x, out, at, 1, include_initial)


def diff(x: Any, /, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours along ``axis``, taken ``n`` times; ``prepend`` and ``append``
    are joined to ``x`` before."""
    return cumulative.diff(x, n, axis, prepend, append)
