"""Elements chosen, found, sorted and counted, by the names of the array API."""

from __future__ import annotations

from typing import Any, NamedTuple

from staticflow.array_api.elementwise import meet
from staticflow.array_api.statistics import along
from staticflow.array_api.statistics import sum as sum_over
from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along import extremes, order, sets, sorted_search
from staticflow.ops.basics import view
from staticflow.ops.indexing import data_dependent, gather_ops

__all__ = [
    "UniqueAll", "UniqueCounts", "UniqueInverse", "argmax", "argmin", "argsort", "count_nonzero",
    "isin", "nonzero", "searchsorted", "sort", "take", "take_along_axis", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "where",
]  # fmt: skip


def _arg(find: Any, x: Any, axis: int | None, keepdims: bool) -> Any:
    out = find(x, axis, keepdims and axis is not None)
    return view.reshape(out, (1,) * x.ndim) if keepdims and axis is None else out


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the first largest element along ``axis``, or among all in their order."""
    return _arg(extremes.argmax, x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the first smallest element along ``axis``, or among all in their order."""
    return _arg(extremes.argmin, x, axis, keepdims)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements over ``axis`` are not 0."""
    return sum_over(x != 0, axis=axis, keepdims=keepdims)


def nonzero(x: Any, /) -> tuple[Any, ...]:
    """The indices of the elements that are not 0, an array for each dim. Raises `ShapeError` where
    there is no dim."""
    if x.ndim == 0:
        raise ShapeError(
            "nonzero: of an array of no dims, which has no indices; compare it with 0, "
            f"at {format_locs(here())}"
        )
    return tuple(data_dependent.nonzero(x, as_tuple=True))


def where(condition: Any, x1: Any = None, x2: Any = None, /) -> Any:
    """The elements of ``x1`` where ``condition`` is true, those of ``x2`` elsewhere. Of a
    ``condition`` alone where it is true, as `nonzero` gives it, which callers of NumPy's ask."""
    if x1 is None and x2 is None:
        return data_dependent.where(condition)
    return data_dependent.where(condition, *meet(x1, x2))


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """Where in the sorted vector ``x1`` each element of ``x2`` would be put to keep the order:
    before its equals, or with ``side="right"`` behind them. ``sorter`` says the order of an ``x1``
    that is not sorted."""
    keys, values = meet(x1, x2)
    return sorted_search.searchsorted(keys, values, side=side, sorter=sorter)


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements along ``axis`` in order. NaN is the largest."""
    return order.sort(x, axis, descending, stable).values


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The indices that put the elements along ``axis`` in order; equal ones keep theirs."""
    return order.argsort(x, axis, descending, stable)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """The slices of ``x`` along ``axis`` at ``indices``; ``axis`` may be left out of a vector."""
    at = along(x, axis, "take")
    return x[(*(slice(None),) * at, indices)]


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """The element of each row of ``x`` along ``axis`` at those of the row of ``indices``."""
    return gather_ops.take_along_dim(x, indices, axis)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Whether each of ``x1`` is among the elements of ``x2``, or with ``invert`` is not."""
    return sets.isin(*meet(x1, x2), invert=invert)


class UniqueAll(NamedTuple):
    """The elements, each once; where each comes first; which of them each element is; how often
    each is there."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """The elements, each once, and how often each is there."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """The elements, each once, and which of them each element is."""

    values: Any
    inverse_indices: Any


def unique_all(x: Any, /) -> UniqueAll:
    """The elements of ``x``, each once, in ascending order, and all that can be said of where they
    are. Each NaN is one of its own.

    >>> import staticflow as sf
    >>> unique_all(sf.tensor([3, 1, 3])).indices
    tensor([1, 0])
    """
    values, inverse, counts = sets.unique(x, return_inverse=True, return_counts=True)
    first = order.argsort(view.ravel(inverse), stable=True)[counts.cumsum(0) - counts]
    return UniqueAll(values, first, inverse, counts)


def unique_counts(x: Any, /) -> UniqueCounts:
    """The elements of ``x``, each once, in ascending order, and how often each is there."""
    return UniqueCounts(*sets.unique(x, return_counts=True))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The elements of ``x``, each once, in ascending order, and which of them each element is."""
    return UniqueInverse(*sets.unique(x, return_inverse=True))


def unique_values(x: Any, /) -> Any:
    """The elements of ``x``, each once, in ascending order."""
    return sets.unique(x)
