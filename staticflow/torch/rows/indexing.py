"""Elements chosen by tensors of indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any, NoReturn

from staticflow.eager.creation import full
from staticflow.eager.ranges import arange
from staticflow.errors import ArgumentError, SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional.embedding import embedding, embedding_bag
from staticflow.ops.along.extremes import argmax
from staticflow.ops.along.places import nonzero_static
from staticflow.ops.along.sorted_search import searchsorted
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.indexing.data_dependent import masked_select, nonzero
from staticflow.ops.indexing.gather_ops import gather, scatter_add
from staticflow.ops.indexing.index_functions import index_add, index_select
from staticflow.ops.indexing.mask_ops import masked_scatter
from staticflow.ops.indexing.mask_put import index_put
from staticflow.ops.indexing.roll_repeat import repeat_interleave
from staticflow.ops.indexing.scatter_ops import index_reduce, put, scatter, scatter_reduce
from staticflow.torch.rows.row import Rows, each, later

__all__ = ["INDEXING", "bag_of_each"]

_BAGS = ("sum", "mean", "max")
_MAX = _BAGS.index("max")
_NO_BAGS = later(full, (0,), 0, dtype="int64")


def _key(x: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


def _index(x: Any, indices: Sequence[Any]) -> Any:
    return x[_key(x, indices)]


def _index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    if not accumulate or all(i is not None for i in indices):
        if all(i is not None for i in indices):
            return index_put(x, tuple(indices), values, accumulate)
        out = x.clone()
        out[_key(x, indices)] = values
        return out
    given = [d for d, i in enumerate(indices) if i is not None]
    if len(given) == 1 and given[0] == 0:
        return index_put(x, (indices[0],), values, accumulate)
    order = (*given, *(d for d in range(x.ndim) if d not in given))
    back = tuple(order.index(d) for d in range(x.ndim))
    chosen = tuple(indices[d] for d in given)
    index_dims = max(i.ndim for i in chosen)
    spread = x[_key(x, indices)].shape
    wide = values.expand(spread)
    adjacent = given == list(range(given[0], given[-1] + 1))
    if adjacent:  # the dims of the indices stand where the first of them is
        lead = given[0]
        first = tuple(range(lead, lead + index_dims))
        wide = wide.permute((*first, *(d for d in range(wide.ndim) if d not in first)))
    return index_put(x.permute(order), chosen, wide, True).permute(back)


def _embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False
) -> Any:
    return embedding(
        indices, weight, padding_idx if padding_idx >= 0 else None,
        scale_grad_by_freq=scale_grad_by_freq,
    )  # fmt: skip


def _embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0,
    per_sample_weights: Any = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Any, ...]:  # fmt: skip
    out = embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq, mode=_BAGS[mode],
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx if padding_idx >= 0 else None,
    )  # fmt: skip
    bags = offsets[:-1] if include_last_offset else offsets
    is_short = weight.dtype.name in ("float32", "float16")
    fast = mode == 0 and padding_idx < 0 and is_short  # where ATen keeps no bags of the rows
    sizes = later(_bag_sizes, indices, bags, padding_idx)
    of_each = _NO_BAGS if fast else later(bag_of_each, indices, bags)
    maxima = later(_maxima, weight, indices, bags, padding_idx) if mode == _MAX else sizes
    return out, of_each, sizes, maxima


def _embedding_bag_forward_only(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return _embedding_bag(*args, **kwargs)[0], *(later(_refuse_rest),) * 3


def bag_of_each(indices: Any, bags: Any) -> Any:
    """The bag of each index: the last that begins at or before it."""
    places = arange(indices.shape[0], dtype=bags.dtype)
    return (searchsorted(bags, places, right=True) - 1).to(bags.dtype)


def _bag_sizes(indices: Any, bags: Any, padding_idx: int) -> Any:
    start = full(tuple(bags.shape), 0, dtype=bags.dtype)
    counted = (indices != padding_idx).to(bags.dtype)
    return index_add(start, 0, bag_of_each(indices, bags), counted)


def _maxima(weight: Any, indices: Any, bags: Any, padding_idx: int) -> Any:
    """For each bag and column the first index whose row has the largest element; -1 if empty."""
    in_bag = unsqueeze(bag_of_each(indices, bags), 0) == unsqueeze(
        arange(bags.shape[0], dtype=bags.dtype), 1
    )
    if padding_idx >= 0:
        in_bag = in_bag & unsqueeze(indices != padding_idx, 0)
    rows = where(unsqueeze(in_bag, 2), unsqueeze(index_select(weight, 0, indices), 0), -inf)
    if indices.shape[0] == 0:
        return full((bags.shape[0], weight.shape[1]), -1, dtype=bags.dtype)
    at = argmax(rows, 1)
    found = index_select(indices, 0, reshape(at, (-1,)))
    return where(unsqueeze(in_bag.any(1), 1), reshape(found, at.shape), -1).to(bags.dtype)


def _refuse_rest() -> NoReturn:
    raise SymbolicError(
        "embedding_bag: what its derivative in PyTorch reads beside its result has no meaning "
        f"here; take the module over with sf.torch.from_module, at {format_locs(here())}"
    )


def _scatter_value(x: Any, dim: int, index: Any, value: Any) -> Any:
    return scatter(x, dim, index, value=value)


def _scatter_reduce(
    x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True
) -> Any:
    return scatter_reduce(x, dim, index, src, reduce, include_self=include_self)


def _index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True
) -> Any:
    return index_reduce(x, dim, index, source, reduce, include_self=include_self)


_OF_NOTHING = {"sum": 0.0, "mean": nan, "max": -inf, "min": inf, "prod": 1.0}
_COMBINED = {"max": "amax", "min": "amin"}


def _segment_reduce(
    x: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None,
    axis: int = 0, unsafe: bool = False, initial: float | None = None,
) -> Any:  # fmt: skip
    """Each run of rows combined, of ``lengths``, or between ``offsets``; one of no rows is
    ``initial``."""
    given = offsets if lengths is None else lengths
    if given is None or given.ndim != 1 or axis:
        raise ArgumentError(
            "segment_reduce: takes lengths or offsets that are a vector, and axis 0, "
            f"at {format_locs(here())}"
        )
    counts = offsets[1:] - offsets[:-1] if lengths is None else lengths
    runs = counts.shape[0]
    place = repeat_interleave(arange(runs), counts.long(), output_size=x.shape[0])
    place = reshape(place, (-1, *(1,) * (x.ndim - 1))).expand(x.shape)
    shape = (runs, *x.shape[1:])
    start = _OF_NOTHING[reduce] if initial is None else initial
    if reduce != "mean":
        out = x.new_full(shape, start)
        return scatter_reduce(out, 0, place, x, _COMBINED.get(reduce, reduce), include_self=True)
    total = scatter_reduce(x.new_full(shape, initial or 0.0), 0, place, x, "sum", include_self=True)
    counts = reshape(counts, (-1, *(1,) * (x.ndim - 1))).expand(shape)
    return where(counts == 0, start, total / counts)


def _repeat_interleave(repeats: Any, output_size: Any = None) -> Any:
    """The positions of what is repeated."""
    positions = arange(repeats.shape[0], dtype=repeats.dtype)
    return repeat_interleave(positions, repeats, output_size=output_size)


def _index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    return index_add(x, dim, index, source, alpha=alpha)


INDEXING: Rows = {
    **each(("index.Tensor", "_unsafe_index.Tensor"), _index),
    **each(("index_put.default", "_unsafe_index_put.default"), _index_put),
    "aten.index_select.default": index_select,
    "aten.index_add.default": _index_add,
    "aten.index_reduce.default": _index_reduce,
    "aten.put.default": put,
    "aten.segment_reduce.default": _segment_reduce,
    "aten.repeat_interleave.Tensor": _repeat_interleave,
    "aten.gather.default": gather,
    "aten.scatter.src": scatter,
    "aten.scatter.value": _scatter_value,
    "aten.scatter_add.default": scatter_add,
    "aten.scatter_reduce.two": _scatter_reduce,
    "aten.masked_scatter.default": masked_scatter,
    "aten.masked_select.default": masked_select,
    "aten.nonzero.default": nonzero,
    "aten.nonzero_static.default": nonzero_static,
    "aten.embedding.default": _embedding,
    "aten._embedding_bag.default": _embedding_bag,
    "aten._embedding_bag_forward_only.default": _embedding_bag_forward_only,
}
"""Rows of indexing."""
