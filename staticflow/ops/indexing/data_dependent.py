"""Selections whose size is known only when they have been made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from staticflow.errors import DTypeError, SymbolicError
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

__all__ = ["argwhere", "masked_select", "nonzero", "where"]


# -- eagerly, where the size is that of the result ------------------------------------------------


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise SymbolicError(
        "this op has no type before it has run; use sf.nonzero, sf.masked_select or x[mask], which "
        f"bind their size in a graph, at {format_locs(here())}"
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


# -- in both modes --------------------------------------------------------------------------------


def _in_graph(*values: Any) -> bool:
    return tracing_state.active or any(v.__sf_mode__.rank for v in values)


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
    if _in_graph(x, where_true):
        return _compact([x], where_true)[0]
    thread.state.sizes += 1
    return masked_select_op(x, where_true)
