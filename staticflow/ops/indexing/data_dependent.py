"""Ops whose results have a size that follows from values: indices of what is not 0, elements that
a mask selects, distinct numbers, counts of integers.

Eagerly NumPy finds them. In a graph selections bind their size as the program runs, and distinct
numbers and counts are composed of other ops, in `staticflow.ops.along.sets` and
`staticflow.ops.along.counts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from staticflow.errors import DTypeError, ShapeError, SymbolicError
from staticflow.graph.dims import fresh_sym, prod, same_shape
from staticflow.graph.dtypes import bool_, int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.mask_indices import index_rows, select
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import where as where_op
from staticflow.ops.basics.creation import iota, zeros_like
from staticflow.ops.basics.expand import common_shape, expand
from staticflow.ops.basics.joining import stack
from staticflow.ops.basics.splitting import unbind
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.declare import per_arg
from staticflow.ops.declaring.late import measure_op, prefix_op
from staticflow.ops.declaring.thread import thread
from staticflow.ops.declaring.tracing import tracing_state
from staticflow.ops.indexing.mask_ops import masked_scatter_op, masked_take_op

__all__ = [
    "argwhere", "bincount_op", "is_found_eagerly", "masked_select", "masked_select_op", "nonzero",
    "nonzero_op", "unique_op", "where",
]  # fmt: skip


# -- eagerly, where the size is that of the result ------------------------------------------------


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise SymbolicError(
        "this op has no type before it has run; use sf.nonzero, sf.masked_select, x[mask], "
        f"sf.unique or sf.bincount, which bind their size in a graph, at {format_locs(here())}"
    )


nonzero_op = Op(
    name="nonzero",
    doc="The index of every element that is not zero: a row for each.",
    infer=_refuse,
    reference=index_rows,
    vjp=None,
)

masked_select_op = Op(
    name="masked_select",
    doc="The elements where ``mask`` is true, in a vector.",
    infer=_refuse,
    reference=lambda xp, x, mask: select(x, mask),
    vjp=per_arg(
        lambda ct, out, x, mask: masked_scatter_op(zeros_like(x), mask, ct),
        None,
    ),
    saves=(1,),  # no call on symbols can tell, since it has no type there
    grad_name="MaskedSelectBackward0",
)


# -- distinct numbers, and how often each is there, eagerly ---------------------------------------

_SPREAD = 4
"""Integers are counted, and not sorted, where their range is at most so many times their number:
the distinct ones of 1000 below 50 are found in 6 microseconds, and by sorting in 14; of a million
in 2 milliseconds, not 23."""

_MANY = 1 << 9
"""So many integers, or more, are counted: 16 are sorted in less time."""


def is_found_eagerly(x: Any) -> bool:
    """Whether a tensor is on the host, outside of graphs, and nobody wants a gradient by it."""
    return not (
        tracing_state.active
        or x.__sf_mode__.rank
        or x.__sf_gpu__ is not None
        or (x.requires_grad and thread.state.recording)
    )


def _count(xp: Any, x: Any, *, minlength: int) -> Any:
    try:
        return xp.bincount(x, minlength=minlength)
    except ValueError as error:
        if "negative" in str(error):
            raise ShapeError("a number below 0") from None
        raise


bincount_op = Op(
    name="bincount", doc="How often each integer from 0 on is in a vector of int64.",
    infer=_refuse, reference=_count, vjp=None,
)  # fmt: skip


def _distinct(xp: Any, x: Any, *, inverse: bool, counts: bool) -> tuple[Any, ...]:
    flat = x.reshape(-1)
    if x.dtype.kind in "iu" and flat.size >= _MANY:
        low, high = int(flat.min()), int(flat.max())
        if high - low < _SPREAD * flat.size:
            return _count_each(flat, low, high - low + 1, inverse, counts)
    if inverse:
        order = flat.argsort()
        ordered = flat[order]
        if flat.size and ordered[-1] != ordered[-1]:  # each NaN is one by itself, in their order
            order = flat.argsort(kind="stable")
    else:
        ordered = np.sort(flat)
    begins = np.empty(flat.size, np.bool_)
    begins[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    values = ordered[begins]
    if x.dtype.kind == "f":
        _give_first_zero(flat, values)
    found = [values]
    if inverse:
        runs = np.empty(flat.size, np.int64)
        runs[order] = begins.cumsum() - 1
        found.append(runs)
    if counts:
        starts = begins.nonzero()[0]
        found.append(np.diff(starts, append=flat.size))
    return tuple(found)


def _count_each(flat: Any, low: int, span: int, inverse: bool, counts: bool) -> tuple[Any, ...]:
    """`_distinct`, of integers of a small range."""
    places = flat.astype(np.int64) - low if low or flat.dtype != np.int64 else flat
    every = np.bincount(places, minlength=span)
    there = every.nonzero()[0]
    found = [(there + low).astype(flat.dtype)]
    if inverse:
        numbers = np.empty(span, np.int64)
        numbers[there] = np.arange(there.size)
        found.append(numbers[places])
    if counts:
        found.append(every[there])
    return tuple(found)


def _give_first_zero(flat: Any, values: Any) -> None:
    """Let a zero among ``values`` have the sign of the first one in ``flat``: 0 and -0 are equal,
    and sorted in any order."""
    at = values.searchsorted(0.0)
    if at < values.size and values[at] == 0:
        values[at] = flat[(flat == 0).argmax()]


unique_op = Op(
    name="unique", doc="The distinct elements in ascending order; which of them each is; how often "
    "each is there.",
    infer=_refuse, reference=_distinct, vjp=None,
)  # fmt: skip


# -- in both modes --------------------------------------------------------------------------------


def _in_graph(x: Any) -> bool:
    return x.__sf_mode__.rank > 0 or tracing_state.active


def _compact(values: Sequence[Any], mask: Any) -> tuple[Any, ...]:
    """In a graph: the elements of each of ``values`` where ``mask`` is true, in vectors of a size
    that is bound as the program runs."""
    most = prod(mask.shape)
    count = fresh_sym("selected", most + 1, late=True)
    rows = measure_op(mask.sum(), most=most, what="a size", binds=(count,))
    return tuple(prefix_op(masked_take_op(v, mask, size=most), rows) for v in values)


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The indices of all elements that are not zero: int64 of shape (count, input.ndim), or with
    ``as_tuple`` a vector for each dim, which together index ``input``.

    >>> import staticflow as sf
    >>> sf.nonzero(sf.tensor([0, 3, 0, 4]))
    tensor([[1],
            [3]])
    """
    if as_tuple and input.ndim == 0:
        input = reshape(input, (1,))
    if not _in_graph(input):
        thread.state.sizes += 1
        return unbind(nonzero_op(input), 1) if as_tuple else nonzero_op(input)
    mask = input if input.dtype is bool_ else input != 0
    if not mask.ndim:
        return nonzero(reshape(mask, (1,)))[:, :0]
    axes = [iota.beside(mask, shape=mask.shape, dim=d, dtype=int64) for d in range(mask.ndim)]
    positions = _compact(axes, mask)
    return positions if as_tuple else stack(positions, 1)


argwhere = nonzero


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """``input`` where ``condition`` (a bool) is true, ``other`` elsewhere, all broadcast. Of
    ``condition`` alone where it is true, as ``nonzero(condition, as_tuple=True)``."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return where_op(condition, input, other)


def masked_select(input: Any, mask: Any) -> Any:
    """The elements of ``input`` where ``mask`` is true, both broadcast, in a vector.

    >>> import staticflow as sf
    >>> x = sf.tensor([1, -2, 3])
    >>> sf.masked_select(x, x > 0)
    tensor([1, 3])
    """
    if mask.dtype is not bool_:
        raise DTypeError(
            f"masked_select: the mask is {mask.dtype.name}; it must be bool: compare, as in x > 0, "
            f"at {format_locs(here())}"
        )
    x, where_true = input, mask
    if not same_shape(x.shape, mask.shape):
        shape = common_shape([x.shape, mask.shape], "masked_select")
        x, where_true = expand(x, shape), expand(mask, shape)
    if _in_graph(x) or _in_graph(where_true):
        return _compact([x], where_true)[0]
    thread.state.sizes += 1
    return masked_select_op(x, where_true)
