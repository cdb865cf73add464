"""Reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import (
    ALL,
    FLOATS,
    NUMBERS,
    Array,
    Failure,
    OpInfo,
    Sample,
    Samples,
    layouts,
    special,
    values,
    wrap,
)
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DTYPES, DType, bool_, int64
from staticflow.ops import OPS
from staticflow.ops.declaring.declare import normalize_dims

__all__ = ["ROWS", "of_something", "reduced", "ways"]


def reduced(fn: Callable[[list[Any]], Any], result: DType | None = None) -> Callable[..., Array]:
    """The expectation of a reduction by a function of a list of Python numbers. ``result`` is the
    dtype if it is not that of the array."""

    def expect(x: Array, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
        dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
        gone = {d % max(x.ndim, 1) for d in dims} if x.ndim else set()
        own = next(d for d in DTYPES if d.numpy == x.dtype)
        out_dtype = (result or own).numpy
        groups: dict[tuple[int, ...], list[Any]] = {}
        shape = tuple(1 if i in gone else n for i, n in enumerate(x.shape))
        for at in np.ndindex(shape):
            groups[at] = []
        wide = x.astype(np.float64) if own.is_floating else x
        for at in np.ndindex(x.shape):
            place = tuple(0 if i in gone else j for i, j in enumerate(at))
            groups[place].append(wide[at].item())
        out = np.empty(shape, out_dtype)
        with np.errstate(all="ignore"):
            for at, group in groups.items():
                out[at] = fn(group)
        kept = shape if keepdim else tuple(n for i, n in enumerate(x.shape) if i not in gone)
        return out.reshape(kept)

    return expect


def _truth(fn: Callable[..., bool]) -> Callable[..., Array]:
    """Bools, and uint8 of uint8, as in PyTorch."""

    def expect(x: Array, *args: Any, **kwargs: Any) -> Array:
        out = reduced(fn, bool_)(x, *args, **kwargs)
        return out.astype(np.uint8) if x.dtype == np.uint8 else out

    return expect


def ways(x: Array) -> Iterator[dict[str, Any]]:
    """The dims to reduce, written in every way; of arrays with gaps, few."""
    ndim = x.ndim
    yield {}
    if not x.flags.c_contiguous:
        yield {"dim": 0}
        yield {"dim": -1, "keepdim": True}
        return
    yield {"keepdim": True}
    for dim in range(-ndim, ndim):
        yield {"dim": dim}
    if ndim:
        yield {"dim": -1, "keepdim": True}
    if ndim > 1:
        yield {"dim": (0, -1)}
        yield {"dim": tuple(range(ndim))[::-1], "keepdim": True}
    if ndim == 0:
        yield {"dim": -1}


def _over_dims(
    low: float = -3, high: float = 3, nonempty: bool = False, several: bool = True
) -> Samples:
    def samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
        for x in layouts(lambda shape: values(shape, dtype, low, high)):
            if smooth and 0 in x.strides:
                continue  # equal elements: a kink of the extremes
            for way in ways(x):
                if not several and (
                    way == {} or isinstance(way.get("dim"), tuple) or len(way) != 1
                ):
                    continue
                sample = Sample((x,), way)
                if not nonempty or _reduces_something(x, way.get("dim")):
                    yield sample
        if not smooth:
            grid = np.stack([special(dtype), special(dtype)[::-1]])
            for dim in (0, 1):
                yield Sample((grid,), {"dim": dim})

    return samples


def _along_dims(dtype: DType, smooth: bool) -> Iterator[Sample]:
    """Samples along one dim of what has dims."""
    for sample in _over_dims(nonempty=True, several=False)(dtype, smooth):
        if sample.args[0].ndim and isinstance(sample.kwargs.get("dim"), int):
            yield sample


def _reduces_something(x: Array, dim: Any) -> bool:
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return all(x.shape[d] for d in dims) if x.ndim else True


def _sum(group: list[Any]) -> Any:
    if any(isinstance(v, float) for v in group):
        try:
            return math.fsum(group)
        except (OverflowError, ValueError):  # intermediate overflow, or inf - inf
            return float(np.sum(np.array(group)))
    return wrap(sum(group), int64)


def _mean(group: list[float]) -> float:
    if not group:
        return math.nan
    return float(np.array(group, np.longdouble).mean())


def _best(pick: Callable[[list[Any]], Any], empty: float = math.nan) -> Callable[[list[Any]], Any]:
    def best(group: list[Any]) -> Any:
        if not group:
            return empty
        return math.nan if any(v != v for v in group) else pick(group)

    return best


def _place(pick: Callable[..., Any]) -> Callable[[list[Any]], int]:
    def place(group: list[Any]) -> int:
        nans = [i for i, v in enumerate(group) if v != v]
        return nans[0] if nans else group.index(pick(group))

    return place


def _row(
    name: str, fn: Callable[[list[Any]], Any], dtypes: Any, dim: int = 1, **row: Any
) -> OpInfo:
    return OpInfo(
        OPS[name], getattr(sf, name), reduced(fn), _over_dims(**row.pop("samples", {})), dtypes,
        grad=OPS[name].vjp is not None, sized=lambda dtype, n: Sample((values((3, n), dtype, 1, 3),), {"dim": dim}),
        failures=(
            Failure(Sample((np.zeros((2, 3), "?" if name in ("all", "any") else "f4"), 2)), ShapeError, "out of range"),
            *row.pop("failures", ()),
        ),
        **row,
    )  # fmt: skip


def _nothing(*args: Any) -> Failure:
    return Failure(Sample((np.zeros((3, 0), "f4"), *args)), ShapeError, "of nothing")


def _summed(x: Array, **way: Any) -> Array:
    own = next(d for d in DTYPES if d.numpy == x.dtype)
    return reduced(_sum, None if own.is_floating else int64)(x, **way)


def _summed_but_nan(x: Array, **way: Any) -> Array:
    return _summed(np.where(x == x, x, x.dtype.type(0)), **way)


def _multiplied(x: Array, **way: Any) -> Array:
    own = next(d for d in DTYPES if d.numpy == x.dtype)
    return reduced(_product, None if own.is_floating else int64)(x, **way)


def _product(group: list[Any]) -> Any:
    if any(isinstance(v, float) for v in group):
        return float(np.prod(np.array(group, np.longdouble)))
    return wrap(math.prod(group), int64)


def _some_dims(dtype: DType, smooth: bool) -> Iterator[Sample]:
    """One dim or all, since PyTorch has no more; with zeros, at which the product is smooth, too."""
    for sample in _over_dims(-2, 2)(dtype, smooth):
        if not isinstance(sample.kwargs.get("dim"), tuple):
            yield sample
    for zeros in (1, 2, 3):
        x = values((2, 4), dtype, 0.5, 2)
        x[0, :zeros] = 0
        yield Sample((x,), {"dim": 1})
        yield Sample((x.T,))


def _whole(dtype: DType, smooth: bool) -> Iterator[Sample]:
    return (s for s in _over_dims(nonempty=True)(dtype, smooth) if not s.kwargs)


def along_a_dim(op: Any) -> Callable[..., Any]:
    """The function of an op that itself takes no negative dim."""

    def of(x: Any, dim: int, keepdim: bool = False) -> Any:
        return op(x, dim=dim % x.ndim, keepdim=keepdim)

    return of


def of_something(fn: Callable[[Any], Any]) -> Callable[..., Any]:
    """``fn`` of all elements of one array, or of two joined, of which the first may be empty."""

    def of(x: Any, *more: Any) -> Any:
        join = np.concatenate if isinstance(x, np.ndarray) else sf.cat
        return fn(join((x, *more)) if more else x)

    return of


def _supremum(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return OPS["supremum"](x, dims=normalize_dims(dim, x.ndim, "supremum"), keepdim=keepdim)


_OUTSIDE = Failure(Sample((np.zeros((2, 3), "f4"), 2)), ShapeError, "out of range")
_TWICE = Failure(Sample((np.zeros((2, 3), "f4"), (0, -2))), ShapeError, "twice")

ROWS = (
    OpInfo(
        OPS["sum"], sf.sum, _summed, _over_dims(0.5, 3), ALL, grad=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype),), {"dim": 0}), failures=(_TWICE,),
        zeros=False,
    ),
    OpInfo(
        OPS["nansum"], sf.nansum, _summed_but_nan, _over_dims(0.5, 3), ALL, grad=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype),), {"dim": 0}), failures=(_TWICE,),
        zeros=False,
    ),
    _row("mean", _mean, FLOATS, samples={"low": 0.5}, failures=(
        Failure(Sample((np.zeros(3, "i8"),)), DTypeError, "floating"),
    ), zeros=False),
    _row("amax", _best(max), ALL, dim=0, samples={"nonempty": True}, zeros=False,
         failures=(_nothing(), _nothing(1))),
    _row("amin", _best(min), ALL, dim=0, samples={"nonempty": True}, zeros=False,
         failures=(_nothing(), _nothing(1))),
    *(
        OpInfo(
            OPS[name], of_something(getattr(sf, name)), of_something(reduced(_best(pick))), _whole,
            ALL, grad=True, zeros=False, failures=(_nothing(),),
            sized=lambda dtype, n: Sample((values((n, 3), dtype), values((1, 3), dtype, seed=1))),
        )
        for name, pick in (("max", max), ("min", min))
    ),
    OpInfo(
        OPS["supremum"], _supremum, reduced(_best(max, -math.inf)), _over_dims(), FLOATS, grad=True,
        sized=lambda dtype, n: Sample((values((3, n), dtype),), {"dim": 1}), zeros=False,
    ),
    OpInfo(
        OPS["prod"], sf.prod, _multiplied, _some_dims, (*NUMBERS, bool_), grad=True, zeros=False, ulps=16,
        sized=lambda dtype, n: Sample((values((n, 3), dtype),), {"dim": 0}), failures=(_OUTSIDE,),
    ),
    OpInfo(
        OPS["all"], sf.all, _truth(all), _over_dims(), ALL, grad=False, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype),), {"dim": 0}), failures=(_TWICE,),
    ),
    OpInfo(
        OPS["count"], sf.sum, reduced(sum, int64), _over_dims(), (bool_,), grad=False, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype),), {"dim": 0}), failures=(_TWICE,),
    ),
    OpInfo(
        OPS["any"], sf.any, _truth(any), _over_dims(), ALL, grad=False, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype),), {"dim": 0}), failures=(_TWICE,),
    ),
    *(
        OpInfo(
            OPS[name], getattr(sf, name), reduced(_place(pick), int64),
            _over_dims(nonempty=True, several=False), NUMBERS, grad=False, exact=True,
            sized=lambda dtype, n: Sample((values((n, 3), dtype),), {"dim": 1}),
            failures=(_nothing(), _nothing(1)),
        )
        for name, pick in (("argmax", max), ("argmin", min))
    ),
    *(
        OpInfo(
            OPS[name], along_a_dim(OPS[name]), reduced(_place(pick), int64), _along_dims, NUMBERS,
            grad=False, exact=True, failures=(_nothing(1),),
            sized=lambda dtype, n: Sample((values((n, 3), dtype),), {"dim": 1}),
        )
        for name, pick in (("argmax_across", max), ("argmin_across", min))
    ),
)  # fmt: skip
