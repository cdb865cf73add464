"""Which elements there are: unique ones, and membership."""

from __future__ import annotations

from typing import Any

from staticflow.errors import SymbolicError
from staticflow.graph.dims import prod
from staticflow.graph.dtypes import bool_, int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.cumulative import cumsum
from staticflow.ops.along.order import argsort, sort
from staticflow.ops.along.sorted_search import searchsorted
from staticflow.ops.basics.arithmetic import cast, clamp, eq, logical_not, ne
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.reduce import all, any
from staticflow.ops.basics.view import atleast_1d, ravel, reshape, unsqueeze
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.promote import result_type
from staticflow.ops.declaring.thread import thread
from staticflow.ops.indexing.data_dependent import (
    is_found_eagerly,
    masked_select,
    nonzero,
    unique_op,
)
from staticflow.ops.indexing.index_functions import index_select
from staticflow.ops.indexing.scatter_ops import scatter

__all__ = ["isin", "unique", "unique_consecutive"]


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """Whether each of ``elements`` is among ``test_elements``, or with ``invert`` is not; one of
    both may be a number. ``assume_unique`` changes nothing.

    >>> import staticflow as sf
    >>> sf.isin(sf.tensor([1, 2, 3]), sf.tensor([3, 1]))
    tensor([ True, False,  True])
    """
    if not hasattr(test_elements, "ndim"):
        found = eq(elements, test_elements)
    elif not hasattr(elements, "ndim"):
        found = any(eq(elements, test_elements))
    else:
        found = _among(elements, ravel(test_elements))
    return logical_not(found) if invert else found


_FEW = 16
"""So many elements are compared with each; among more of them it is searched."""


def _among(elements: Any, tests: Any) -> Any:
    """Whether each of ``elements`` is one of ``tests``, a vector."""
    count = tests.shape[0]
    if not isinstance(count, int) or count <= _FEW:
        return any(eq(unsqueeze(elements, -1), tests), -1)
    dtype = result_type([elements, tests])
    values, ordered = (v if v.dtype is dtype else cast(v, dtype=dtype) for v in (elements, tests))
    ordered = sort(ordered)[0]
    positions = clamp(searchsorted(ordered, values), max=count - 1)
    return eq(reshape(index_select(ordered, 0, ravel(positions)), values.shape), values)


def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The elements of ``input``, each once, in ascending order (whatever ``sorted`` says); with
    ``dim`` the slices along it. A tuple if more is asked for: with ``return_inverse`` where among
    them each element is, with ``return_counts`` how often it is there.

    >>> import staticflow as sf
    >>> sf.unique(sf.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    is_wide = input.dtype.kind in "iu" or (input.dtype.is_floating and input.dtype.itemsize > 2)
    if dim is None and is_wide and is_found_eagerly(input):
        thread.state.sizes += 1
        attrs = {"inverse": bool(return_inverse), "counts": bool(return_counts)}
        values, *more = input.__sf_mode__.apply(unique_op, (input,), attrs)
        if return_inverse:
            more[0] = reshape(more[0], input.shape)
        return (values, *more) if more else values
    if dim is None and input.dtype is bool_ and not return_inverse and not return_counts:
        return masked_select(*_both_bools(ravel(input)))
    if dim is None:
        ordered, order = sort(ravel(input))
        return _distinct(ordered, order, input, (), None, return_inverse, return_counts)
    rows, shape, at = _rows(input, dim, "unique")
    if not isinstance(rows.shape[1], int):
        raise SymbolicError(
            f"unique: the size of the slices along dim {dim}, {rows.shape[1]}, is known only when "
            f"the program runs; have it known, as by sf.jit(fn, dynamic=False), "
            f"at {format_locs(here())}"
        )
    order = None
    for column in reversed(range(rows.shape[1])):  # the first column decides last
        keys = rows[:, column] if order is None else rows[:, column][order]
        by = argsort(keys, stable=True)
        order = by if order is None else order[by]
    ordered = rows if order is None else index_select(rows, 0, order)
    return _distinct(ordered, order, input, shape, at, return_inverse, return_counts)


@fused("")
def _both_bools(x: Any) -> tuple[Any, Any]:
    """False and True, and whether each is among bools (n,)."""
    values = iota.beside(x, shape=(2,), dim=0, dtype=int64) == 1
    return values, cat([reshape(logical_not(all(x)), (1,)), reshape(any(x), (1,))])


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements of ``input`` without those that equal the one before them; with ``dim`` the
    slices along it. What else is asked for is as in `unique`.

    >>> import staticflow as sf
    >>> sf.unique_consecutive(sf.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    if dim is None:
        rows = ravel(input)
        return _distinct(rows, None, input, (), None, return_inverse, return_counts)
    rows, shape, at = _rows(input, dim, "unique_consecutive")
    return _distinct(rows, None, input, shape, at, return_inverse, return_counts)


def _rows(x: Any, dim: int, name: str) -> tuple[Any, tuple[Any, ...], int]:
    """The slices along ``dim`` as the rows of a matrix; the shape of a slice, and the dim."""
    at = normalize_dim(dim, x.ndim, name)
    front = movedim(atleast_1d(x), at, 0)
    return reshape(front, (front.shape[0], prod(front.shape[1:]))), front.shape[1:], at


@fused("")
def _begin_runs(rows: Any) -> Any:
    """Whether each of ``rows`` (n, ...) differs from the one before it, as the first does."""
    differs = ne(rows[1:], rows[:-1])
    return cat([_first_row(rows) == 0, differs if rows.ndim == 1 else any(differs, 1)])


def _first_row(rows: Any) -> Any:
    """The number of the first of ``rows`` (n, ...), 0, in a vector: empty where there is none."""
    return iota.beside(rows, shape=rows[:1].shape[:1], dim=0, dtype=int64)


def _distinct(
    rows: Any, order: Any, x: Any, shape: Any, at: int | None, inverse: bool, counts: bool
) -> Any:
    """The first of each run of equal ``rows`` (n, ...), which are elements where ``at`` is None and
    slices of ``shape`` along the dim ``at`` else; with ``inverse`` also the run of each row of
    ``x``, which ``order`` has put in order, and with ``counts`` how many rows each run has."""
    new = _begin_runs(rows)
    if at is None and not counts and not inverse:
        return masked_select(rows, new)
    positions = reshape(nonzero(new), (-1,))
    values = index_select(rows, 0, positions)
    values = values if at is None else movedim(reshape(values, (values.shape[0], *shape)), 0, at)
    found = [values]
    if inverse:
        group = cumsum(cast(new, dtype=int64), 0) - 1
        group = group if order is None else scatter(group, 0, order, group)
        found.append(reshape(group, x.shape) if at is None else group)
    if counts:
        found.append(cat([positions[1:], _first_row(rows) + rows.shape[0]]) - positions)
    return found[0] if len(found) == 1 else tuple(found)
