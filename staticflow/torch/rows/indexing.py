"""Elements chosen by tensors of indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from staticflow.errors import SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional.embedding import embedding_bag
from staticflow.ops.indexing.data_dependent import nonzero
from staticflow.ops.indexing.gather_ops import gather, scatter_add
from staticflow.ops.indexing.index_functions import embedding, index_add, index_select
from staticflow.ops.indexing.mask_ops import masked_scatter
from staticflow.ops.indexing.mask_put import index_put
from staticflow.ops.indexing.scatter_ops import scatter, scatter_reduce
from staticflow.torch.rows.row import Rows, each, later

__all__ = ["INDEXING"]

_BAGS = ("sum", "mean", "max")


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
    return embedding(weight, indices, padding_idx if padding_idx >= 0 else None)


def _embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0,
    per_sample_weights: Any = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Any, ...]:  # fmt: skip
    out = embedding_bag(
        indices, weight, offsets, mode=_BAGS[mode], per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx if padding_idx >= 0 else None,
    )  # fmt: skip
    return out, *(later(_refuse_rest),) * 3


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


def _index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    return index_add(x, dim, index, source, alpha=alpha)


INDEXING: Rows = {
    **each(("index.Tensor", "_unsafe_index.Tensor"), _index),
    **each(("index_put.default", "_unsafe_index_put.default"), _index_put),
    "aten.index_select.default": index_select,
    "aten.index_add.default": _index_add,
    "aten.gather.default": gather,
    "aten.scatter.src": scatter,
    "aten.scatter.value": _scatter_value,
    "aten.scatter_add.default": scatter_add,
    "aten.scatter_reduce.two": _scatter_reduce,
    "aten.masked_scatter.default": masked_scatter,
    "aten.nonzero.default": nonzero,
    "aten.embedding.default": _embedding,
    "aten._embedding_bag.default": _embedding_bag,
    "aten._embedding_bag_forward_only.default": _embedding_bag,
}
"""Rows of indexing."""
