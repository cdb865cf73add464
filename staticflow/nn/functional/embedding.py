"""Rows of a matrix, chosen by integers."""

from __future__ import annotations

from math import inf
from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops import by_index
from staticflow.ops.arithmetic import clamp, where
from staticflow.ops.creation import iota, ones_like
from staticflow.ops.indexing import scatter_add
from staticflow.ops.scatter import scatter_reduce
from staticflow.ops.search import searchsorted
from staticflow.ops.sets import unique
from staticflow.ops.shortcuts import renorm
from staticflow.ops.symbol import symbolic, tracing_state
from staticflow.ops.view import unsqueeze

__all__ = ["embedding", "embedding_bag"]


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
) -> Any:
    """The rows of ``weight`` (num, dim) that the integers ``input`` (...) name: (..., dim). The row
    ``padding_idx`` gets no gradient. With ``max_norm`` those of a ``norm_type``-norm above it are
    scaled down in ``weight`` itself first, which a graph refuses.

    Raises `IndexRangeError` for an index outside [0, num).

    >>> import staticflow as sf
    >>> embedding(sf.tensor([1, 0]), sf.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if max_norm is not None:
        if symbolic(input, weight) or tracing_state.active:
            raise ArgumentError(
                "embedding: max_norm changes the weight, which a graph does not; scale the weight "
                f"after each step, at {format_locs(here())}"
            )
        rows, table = unique(input), weight.detach()
        table[rows] = renorm(table[rows], norm_type, 0, max_norm)
    return by_index.embedding(weight, input, padding_idx)


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    *,
    mode: str = "mean",
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, mean or maximum (``mode``) of the rows of ``weight`` (num, dim) that each bag of
    integers names: (bags, dim), zeros of an empty one.

    The bags are the rows of ``input`` (bags, n), or parts of a vector that begin at ``offsets``
    (bags,), of which the last is only an end with ``include_last_offset``. ``per_sample_weights``,
    of the shape of ``input``, scale the rows of a sum; ``padding_idx`` does not count.

    >>> import staticflow as sf
    >>> table = sf.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> embedding_bag(sf.tensor([0, 1, 1]), table, sf.tensor([0, 2]))
    tensor([[2., 3.],
            [3., 4.]])
    """
    _check_bags(input, offsets, mode, per_sample_weights)
    flat = input.reshape(-1)
    count = flat.shape[0]
    place = iota.beside(flat, shape=(count,), dim=0, dtype=int64)
    if offsets is None:
        bags, size = input.shape
        bag = place // max(size, 1) if isinstance(size, int) else place // size
    else:
        bags = offsets.shape[0] - int(include_last_offset)
        bag = searchsorted(offsets[:bags].long(), place, right=True) - 1
    rows = embedding(flat, weight, padding_idx)
    counts = flat != flat if padding_idx is None else flat == padding_idx % weight.shape[0]
    ones = where(counts, 0.0, ones_like(rows[:, 0]))
    at = unsqueeze(bag, 1).expand(rows.shape)
    empty = weight.new_zeros((bags, weight.shape[1]))
    if mode == "max":
        if padding_idx is not None:
            rows = where(unsqueeze(counts, 1), -inf, rows)
        most = scatter_reduce(empty, 0, at, rows, "amax", include_self=False)
        return where(most == -inf, 0.0, most)
    scale = ones if per_sample_weights is None else ones * per_sample_weights.reshape(-1)
    total = scatter_add(empty, 0, at, rows * unsqueeze(scale, 1))
    if mode == "sum":
        return total
    number = scatter_add(empty[:, 0], 0, bag, ones)
    return total / unsqueeze(clamp(number, min=1.0), 1)


def _check_bags(input: Any, offsets: Any, mode: str, weights: Any) -> None:
    wrong = (
        f'mode is "sum", "mean" or "max", not {mode!r}'
        if mode not in ("sum", "mean", "max")
        else f"per_sample_weights are for the sum, not for mode {mode!r}"
        if weights is not None and mode != "sum"
        else f"offsets stand beside a vector, not beside an input of shape {list(input.shape)}"
        if (input.ndim == 1) != (offsets is not None) or input.ndim not in (1, 2)
        else None
    )
    if wrong:
        raise ArgumentError(f"embedding_bag: {wrong}, at {format_locs(here())}")
