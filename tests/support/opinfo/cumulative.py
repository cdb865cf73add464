"""Running sums, products and extremes, and the recurrences that their derivatives are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import (
    ALL,
    FLOATS,
    Array,
    Failure,
    OpInfo,
    Sample,
    Samples,
    layouts,
    special,
    values,
)
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType, dtype_of, float32, float64
from staticflow.ops import OPS

__all__ = ["ROWS", "rows_of"]


def rows_of(x: Array, dim: int) -> Array:
    """``x`` with ``dim`` in front; of a 0-d array its one element."""
    return np.moveaxis(x, dim, 0) if x.ndim else x.reshape(1)


def _walked(fn: Callable[..., Array], widen: bool = True) -> Callable[..., Array]:
    """The expectation of an op along a dim, by a function of arrays that walks their first dim."""

    def expect(x: Array, *args: Any, reverse: bool = False, **kwargs: Any) -> Array:
        *more, dim = args
        floating = dtype_of(x.dtype).is_floating
        own = x.dtype if floating or not widen else np.int64
        rows = [rows_of(np.asarray(a), dim) for a in (x, *more)]
        rows = [r[::-1] if reverse else r for r in rows]
        with np.errstate(all="ignore"):
            out = fn(*(r.astype(np.longdouble if floating else own) for r in rows), **kwargs)
        out = out[::-1] if reverse else out
        return np.moveaxis(out, 0, dim).astype(own) if x.ndim else out.reshape(()).astype(own)

    return expect


def _steps(step: Callable[[Any, Any], Any]) -> Callable[[Array], Array]:
    def walk(rows: Array) -> Array:
        out = rows.copy()
        for j in range(1, len(rows)):
            out[j] = step(out[j - 1], rows[j])
        return out

    return walk


def _shift(rows: Array, fill: float) -> Array:
    out = np.full_like(rows, fill)
    out[1:] = rows[:-1]
    return out


def _recurrence(b: Array, a: Array) -> Array:
    out = b.copy()
    for j in range(1, len(b)):
        out[j] = a[j] * out[j - 1] + b[j]
    return out


def _others(rows: Array) -> Array:
    out = rows.copy()
    for j in range(len(rows)):
        out[j] = np.prod(np.delete(rows, j, 0), 0, dtype=rows.dtype)
    return out


def _extremes(better: Callable[[Any, Any], bool]) -> Callable[..., tuple[Array, Array]]:
    def expect(x: Array, dim: int) -> tuple[Array, Array]:
        rows = rows_of(x, dim)
        found, places = rows.copy(), np.zeros(rows.shape, np.int64)
        for at in np.ndindex(rows.shape[1:]):
            best = 0
            for j in range(len(rows)):
                new, old = rows[(j, *at)], rows[(best, *at)]
                if new != new or better(new, old):
                    best = j
                found[(j, *at)], places[(j, *at)] = rows[(best, *at)], best
        if not x.ndim:
            return found.reshape(()), places.reshape(())
        return np.moveaxis(found, 0, dim), np.moveaxis(places, 0, dim)

    return expect


def _along(
    low: float, high: float, specials: bool = True, operands: int = 1, **kwargs: Any
) -> Samples:
    def samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
        for x in layouts(lambda shape: values(shape, dtype, low, high)):
            if smooth and 0 in x.strides:
                continue
            more = [values(x.shape, dtype, low, high, seed=i) for i in range(1, operands)]
            for dim in range(-x.ndim, x.ndim) if x.ndim else (0, -1):
                yield Sample((x, *more, dim), kwargs)
        if specials and not smooth:
            grid = np.stack([special(dtype), special(dtype)[::-1]])
            yield Sample((grid, 0), kwargs)

    return samples


def _with_zeros(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield from _along(0.5, 2)(dtype, smooth)
    for zeros in (1, 2, 3):
        x = values((2, 4), dtype, 0.5, 2)
        x[0, 1 : 1 + zeros] = 0
        yield Sample((x, 1))


def _of_others(dtype: DType, smooth: bool) -> Iterator[Sample]:
    """Rows that are divided as a whole, and such that are not: with zeros, or whose products leave
    the range of the dtype."""
    yield from _with_zeros(dtype, smooth)
    yield Sample((values((3, 40), dtype, 0.5, 2), 1))
    yield Sample((values((40, 3), dtype, 0.5, 2), 0))
    if not smooth:
        for size in (1e-3, 1e3):
            yield Sample((values((2, 200), dtype, 0.5, 2) * dtype.numpy.type(size), 1))


def _internal(name: str) -> Callable[..., Any]:
    """An op that has no function of its own."""

    def call(*args: Any, **attrs: Any) -> Any:
        *tensors, dim = args
        return OPS[name](*tensors, dim=dim % tensors[0].ndim, **attrs)

    return call


def _with_dims(samples: Samples) -> Samples:
    return lambda dtype, smooth: (s for s in samples(dtype, smooth) if s.args[0].ndim)


def _sized(dtype: DType, n: int) -> Sample:
    return Sample((values((3, n), dtype, 0.5, 2), 1))


_OUTSIDE = Failure(Sample((np.zeros((2, 3), "f4"), 2)), ShapeError, "out of range")

ROWS = (
    OpInfo(
        OPS["cumsum"], sf.cumsum, _walked(lambda r: np.cumsum(r, 0, dtype=r.dtype)), _along(0.5, 3), ALL,
        grad=True, sized=_sized, zeros=False, failures=(_OUTSIDE,),
    ),
    OpInfo(
        OPS["cumprod"], sf.cumprod, _walked(lambda r: np.cumprod(r, 0, dtype=r.dtype)), _with_zeros,
        ALL, grad=True, sized=_sized, zeros=False, failures=(_OUTSIDE,),
    ),
    OpInfo(
        OPS["logcumsumexp"], sf.logcumsumexp, _walked(_steps(np.logaddexp)), _along(-2, 3), FLOATS,
        grad=True, sized=_sized, absolute=8, zeros=False, failures=(
            _OUTSIDE,
            Failure(Sample((np.zeros(3, "i8"), 0)), DTypeError, "floating"),
        ),
    ),
    *(
        OpInfo(
            OPS[name], getattr(sf, name), _extremes(better), _along(-3, 3), ALL, grad=True,
            sized=_sized, exact=True, failures=(_OUTSIDE,),
        )
        for name, better in (("cummax", lambda a, b: a >= b), ("cummin", lambda a, b: a <= b))
    ),
    OpInfo(
        OPS["shift"], _internal("shift"), _walked(_shift, widen=False),
        lambda dtype, smooth: (
            Sample(s.args, {"fill": 1.5, "reverse": reverse})
            for reverse in (False, True)
            for s in _with_dims(_along(-3, 3))(dtype, smooth)
        ),
        FLOATS, grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((3, n), dtype), 1), {"fill": 0.0, "reverse": True}),
    ),
    OpInfo(
        OPS["product_of_others"], _internal("product_of_others"), _walked(_others, widen=False),
        _with_dims(_of_others), (float32, float64, *FLOATS[2:]), grad=True, ulps=16, sized=_sized, zeros=False,
        failures=(Failure(Sample((np.zeros((2, 3), "i8"), 1)), DTypeError, "floating"),),
    ),
    OpInfo(
        OPS["recurrence"], _internal("recurrence"), _walked(_recurrence),
        lambda dtype, smooth: (
            Sample(s.args, {"reverse": reverse})
            for reverse in (False, True)
            for s in _with_dims(_along(0.5, 2, specials=False, operands=2))(dtype, smooth)
        ),
        (float32, float64, *FLOATS[2:]), grad=True, ulps=16, zeros=False,
        sized=lambda dtype, n: Sample(
            (values((3, n), dtype, 0.5, 2), values((3, n), dtype, 0, 1, seed=1), 1), {"reverse": False}
        ),
    ),
)  # fmt: skip
