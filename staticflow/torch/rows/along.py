"""Sums, extremes and order along dims, and softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.eager.creation import full
from staticflow.ops.along.counts import bincount, histc, histogram
from staticflow.ops.along.cumulative import cummax, cummin, cumprod, cumsum, logcumsumexp
from staticflow.ops.along.extremes import amax, amin, argmax, argmin, max, min
from staticflow.ops.along.multiplication import prod
from staticflow.ops.along.order import sort, topk
from staticflow.ops.along.ranks import kthvalue, median, nanmedian
from staticflow.ops.along.sets import unique, unique_consecutive
from staticflow.ops.along.softmax import log_softmax, logsumexp, softmax
from staticflow.ops.along.sorted_search import bucketize, searchsorted
from staticflow.ops.basics.reduce import all, any, mean, sum
from staticflow.ops.statistics.moments import std, var, var_mean, vector_norm
from staticflow.ops.statistics.samples import mode
from staticflow.torch.rows.row import Rows, cast_to, each, later

__all__ = ["ALONG"]


def _dims(dim: Any) -> Any:
    """Dims as functions here take them: None, which ATen may say by an empty list, is all."""
    return (tuple(dim) or None) if isinstance(dim, list | tuple) else dim


def _sum(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return sum(x, _dims(dim), keepdim, dtype=dtype)


def _mean(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return mean(x, _dims(dim), keepdim, dtype=dtype)


def _amax(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return amax(x, tuple(dim), keepdim)


def _amin(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return amin(x, tuple(dim), keepdim)


def _any(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return any(x, _dims(dim), keepdim)


def _all(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return all(x, _dims(dim), keepdim)


def _prod(x: Any, dim: int | None = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return prod(x, dim, keepdim, dtype=dtype)


def _var(x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    return var(x, _dims(dim), correction=1 if correction is None else correction, keepdim=keepdim)


def _std(x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    return std(x, _dims(dim), correction=1 if correction is None else correction, keepdim=keepdim)


def _var_mean(x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    freedom = 1 if correction is None else correction
    return var_mean(x, _dims(dim), correction=freedom, keepdim=keepdim)


def _var_dim(x: Any, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
    return var(x, _dims(dim), correction=int(unbiased), keepdim=keepdim)


def _softmax(x: Any, dim: int, half_to_float: bool) -> Any:
    return softmax(cast_to(x, "float32") if half_to_float else x, dim)


def _log_softmax(x: Any, dim: int, half_to_float: bool) -> Any:
    return log_softmax(cast_to(x, "float32") if half_to_float else x, dim)


def _cumsum(x: Any, dim: int, dtype: Any = None) -> Any:
    return cumsum(x, dim, dtype=dtype) if x.ndim else _sum(x, dtype=dtype)


def _sort(x: Any, dim: int = -1, descending: bool = False) -> tuple[Any, ...]:
    return tuple(sort(x, dim, descending))


def _topk(
    x: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Any, ...]:
    return tuple(topk(x, k, dim, largest, sorted))


def _sort_stable(
    x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Any, ...]:
    return tuple(sort(x, dim, descending, bool(stable)))


def _vector_norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    return vector_norm(x, ord, _dims(dim), keepdim, dtype=dtype)


def _as_tuple(fn: Callable[..., Any]) -> Any:
    """The values and positions of ``fn`` as a tuple, which ATen gives."""

    def row(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return tuple(fn(*args, **kwargs))

    return row


def _histogram(
    x: Any, bins: int, *, range: Any = None, weight: Any = None, density: bool = False
) -> tuple[Any, ...]:
    return tuple(histogram(x, bins, range=range, weight=weight, density=density))


_NOTHING = later(full, (0,), 0, dtype="int64")


def _distinct(found: Any, inverse: bool, counts: bool) -> tuple[Any, ...]:
    """What `unique` gives, with nothing in place of what is not asked for."""
    values, *rest = found if isinstance(found, tuple) else (found,)
    more = iter(rest)
    return values, next(more) if inverse else _NOTHING, next(more) if counts else _NOTHING


def _unique(
    x: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Any, ...]:
    found = unique(x, sorted, return_inverse, return_counts)
    return _distinct(found, return_inverse, return_counts)


def _unique_consecutive(
    x: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Any, ...]:
    found = unique_consecutive(x, return_inverse, return_counts, dim)
    return _distinct(found, return_inverse, return_counts)


def _logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    return logsumexp(x, tuple(dim), keepdim)


ALONG: Rows = {
    **each(("sum.default", "sum.dim_IntList"), _sum),
    **each(("mean.default", "mean.dim"), _mean),
    "aten.amax.default": _amax,
    "aten.amin.default": _amin,
    "aten.argmax.default": argmax,
    "aten.argmin.default": argmin,
    "aten.max.dim": lambda x, dim, keepdim=False: tuple(max(x, dim, keepdim)),
    "aten.min.dim": lambda x, dim, keepdim=False: tuple(min(x, dim, keepdim)),
    "aten.max.default": lambda x: amax(x),
    "aten.min.default": lambda x: amin(x),
    **each(("any.default", "any.dim", "any.dims"), _any),
    **each(("all.default", "all.dim", "all.dims"), _all),
    **each(("prod.default", "prod.dim_int"), _prod),
    "aten.var.correction": _var,
    "aten.std.correction": _std,
    "aten.var.dim": _var_dim,
    "aten.var_mean.correction": _var_mean,
    "aten._softmax.default": _softmax,
    "aten._log_softmax.default": _log_softmax,
    "aten.logsumexp.default": _logsumexp,
    "aten.cumsum.default": _cumsum,
    "aten.cumprod.default": cumprod,
    "aten.logcumsumexp.default": logcumsumexp,
    "aten.sort.default": _sort,
    "aten.sort.stable": _sort_stable,
    "aten.cummax.default": _as_tuple(cummax),
    "aten.cummin.default": _as_tuple(cummin),
    "aten.kthvalue.default": _as_tuple(kthvalue),
    "aten.median.default": median,
    "aten.median.dim": _as_tuple(median),
    "aten.mode.default": _as_tuple(mode),
    "aten.nanmedian.default": nanmedian,
    "aten.nanmedian.dim": _as_tuple(nanmedian),
    "aten.histc.default": histc,
    "aten.bincount.default": bincount,
    "aten.histogram.bin_ct": _histogram,
    "aten._unique2.default": _unique,
    "aten.unique_consecutive.default": _unique_consecutive,
    "aten.linalg_vector_norm.default": _vector_norm,
    "aten.searchsorted.Tensor": searchsorted,
    "aten.searchsorted.Scalar": searchsorted,
    "aten.bucketize.Tensor": bucketize,
    "aten.bucketize.Scalar": bucketize,
    "aten.topk.default": _topk,
}
"""Rows of what goes along dims."""
