"""Covariances, quantiles and the most frequent element."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError, DTypeError, ShapeError
from staticflow.graph.dims import dim_max, prod, same
from staticflow.graph.dtypes import bool_, int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.cumulative import cummax
from staticflow.ops.along.extremes import Chosen, argmax
from staticflow.ops.along.order import sort
from staticflow.ops.basics.arithmetic import cast, clamp, where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.creation import iota, zeros_like
from staticflow.ops.basics.reduce import narrow_as, wide, widen
from staticflow.ops.basics.view import atleast_1d, ravel, reshape, squeeze, unsqueeze
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.declaring.foreign import refuses_foreign
from staticflow.ops.declaring.numpy_names import numpy_names
from staticflow.ops.declaring.required import (
    require_at_least,
    require_equal,
    require_other,
    require_true,
)
from staticflow.ops.elementwise.maths import ceil, floor, round, sqrt
from staticflow.ops.elementwise.pairs import lerp
from staticflow.ops.indexing.gather_ops import gather
from staticflow.ops.indexing.roll_repeat import roll
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.triangle import diagonal

__all__ = ["corrcoef", "cov", "mode", "nanquantile", "quantile"]


@by_shape
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariances of variables, the rows of ``input`` (variables, observations); of a vector or
    of one row its variance, a 0-d tensor. ``fweights`` (observations,) are how often each
    observation counts, integers, ``aweights`` how much, floats.

    Raises `ShapeError` for weights that are not as many as observations, `DTypeError` for weights
    of another kind, `ArgumentError` for negative ones.

    >>> import staticflow as sf
    >>> sf.cov(sf.tensor([[0.0, 2.0], [1.0, 5.0]]))
    tensor([[2., 4.],
            [4., 8.]])
    """
    if input.ndim > 2:
        raise ShapeError(
            f"cov: takes a matrix or a vector, not shape {list(input.shape)}, "
            f"at {format_locs(here())}"
        )
    x = reshape(input, (prod(input.shape[:-1]), input.shape[-1] if input.ndim else 1))
    x = x if x.dtype.is_floating else x * 1.0
    count = x.shape[1]
    for name, given, floats in (("fweights", fweights, False), ("aweights", aweights, True)):
        if given is not None:
            _check_observations(name, given, floats, count)
            number = f"cov: the {name} {list(given.shape)} and the {count} observations"
            x = require_equal(x, given.shape[0], count, number)
            x = require_true(x, (given >= 0).all(), f"cov: {name} are negative")
    weights = (
        fweights if aweights is None else aweights if fweights is None else fweights * aweights
    )
    if weights is None:
        centred = x - x.mean(1, keepdim=True)
        free: Any = dim_max(count - correction, 0)
        product = matmul(centred, centred.t())
    else:
        total = weights.sum()
        centred = x - (x * weights).sum(1, keepdim=True) / total
        lost = correction if aweights is None else (weights * aweights).sum() / total * correction
        free = clamp(total - lost, min=0)
        product = matmul(centred, (centred * weights).t())
    out = product / free
    if input.ndim < 2 or same(input.shape[0], 1):
        return reshape(out, ())
    if isinstance(input.shape[0], int):
        return out
    rows = f"cov: gives a number of one variable, and the unknown rows of shape {list(input.shape)}"
    return require_other(out, input.shape[0], 1, f"{rows}, which give a matrix,")


def _check_observations(name: str, weights: Any, floats: bool, count: Any) -> None:
    """Refuse weights of observations that are of the wrong kind, or not of shape (count,)."""
    if weights.dtype.is_floating != floats or weights.dtype is bool_:
        raise DTypeError(
            f"cov: {name} are of {weights.dtype.name}; they must be "
            f"{'floats' if floats else 'integers'}, at {format_locs(here())}"
        )
    have = weights.shape[0] if weights.ndim == 1 else None
    if have is None or (isinstance(have, int) and isinstance(count, int) and have != count):
        raise ShapeError(
            f"cov: {name} have the shape {list(weights.shape)}; there must be one for each of "
            f"{count} observations, at {format_locs(here())}"
        )


def corrcoef(input: Any) -> Any:
    """The correlation coefficients of variables, the rows of ``input`` (variables, observations).

    >>> import staticflow as sf
    >>> sf.corrcoef(sf.tensor([[0.0, 2.0, 1.0], [5.0, 1.0, 3.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    c = cov(input)
    if c.ndim == 0:
        return c / c
    spread = sqrt(diagonal(c))
    return clamp(c / unsqueeze(spread, 1) / spread, -1, 1)


# -- quantiles ----------------------------------------------------------------------------------

_BETWEEN = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantile(
    name: str, x: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip: bool
) -> Any:
    if interpolation not in _BETWEEN:
        raise ArgumentError(
            f"{name}: interpolation is one of {', '.join(_BETWEEN)}, not {interpolation!r}, "
            f"at {format_locs(here())}"
        )
    if not x.dtype.is_floating:
        raise DTypeError(
            f"{name}: takes a floating tensor, not {x.dtype.name}, at {format_locs(here())}"
        )
    if getattr(q, "ndim", 0) > 1:
        raise ShapeError(
            f"{name}: q has shape {list(q.shape)}; it must be a number or a vector, "
            f"at {format_locs(here())}"
        )
    if isinstance(q, int | float) and not 0 <= q <= 1:
        raise ArgumentError(f"{name}: q is {q}; it must be from 0 to 1, at {format_locs(here())}")
    if dim is not None:
        normalize_dim(dim, x.ndim, name)
    x = require_at_least(x, prod(x.shape), 1, f"{name}: the number of elements")
    rows = ravel(x) if dim is None else movedim(atleast_1d(x), dim, -1)
    ordered = sort(rows, -1).values  # NaN are last
    count = (ordered == ordered).sum(-1, keepdim=True)
    last = clamp(count - 1, min=0) if skip else rows.shape[-1] - 1
    rank = (zeros_like(count, dtype=wide(x.dtype)) + q) * last  # 16 bits count to 2048 or 256
    if not skip:
        rank = where(count < rows.shape[-1], last, rank)  # to a NaN, which is what it gives
    rank = {"lower": floor, "higher": ceil, "nearest": round}.get(interpolation, _same)(rank)
    below, above = (gather(ordered, -1, cast(f(rank), dtype=int64)) for f in (floor, ceil))
    weight = rank - floor(rank)
    if interpolation == "midpoint":
        weight = where(weight > 0, 0.5, weight)
    out = movedim(narrow_as(lerp(widen(below), widen(above), weight), x), -1, 0)
    if keepdim and dim is None:
        out = reshape(out, (-1, *(1,) * x.ndim))
    elif keepdim and x.ndim and dim is not None:
        out = unsqueeze(out, 1 + normalize_dim(dim, x.ndim, name))
    return out if getattr(q, "ndim", 0) else squeeze(out, 0)


def _same(x: Any) -> Any:
    return x


@by_shape
@numpy_names
@by_autocast
def quantile(
    input: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """The value that a part ``q`` (from 0 to 1) of the elements along ``dim``, or of all, is below:
    between two elements by ``interpolation``, ``"linear"``, ``"lower"``, ``"higher"``,
    ``"nearest"`` or ``"midpoint"``. Of a vector ``q`` each, along a new first dim. NaN if there is
    one.

    >>> import staticflow as sf
    >>> sf.quantile(sf.tensor([1.0, 2.0, 4.0]), sf.tensor([0.5, 0.75]))
    tensor([2., 3.])
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@numpy_names
@refuses_foreign
@by_autocast
def nanquantile(
    input: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """The `quantile` of what is not NaN; NaN where all is."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


@numpy_names
@refuses_foreign
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Chosen:
    """The named tuple (values, indices) of the most frequent element along ``dim``, of several the
    smallest, and of its last index.

    >>> import staticflow as sf
    >>> sf.mode(sf.tensor([3, 1, 3, 1, 2])).values
    tensor(1)
    """
    at = normalize_dim(dim, input.ndim, "mode")
    ordered, positions = sort(atleast_1d(input), at)
    begins = ordered != roll(ordered, 1, at)
    position = iota.beside(ordered, shape=ordered.shape, dim=at, dtype=int64)
    start = cummax(where(begins, position, 0), at).values
    longest = argmax(position - start, at, keepdim=True)
    chosen = [gather(x, at, longest) for x in (ordered, positions)]
    return Chosen(*(x if keepdim and input.ndim else squeeze(x, at) for x in chosen))
