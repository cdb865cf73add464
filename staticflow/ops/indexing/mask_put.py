"""Values put where tensors of indices, or masks, say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import IndexRangeError
from staticflow.graph.dtypes import bool_
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.declare import same_size
from staticflow.ops.indexing import index_functions
from staticflow.ops.indexing.data_dependent import nonzero

__all__ = ["index_put"]


def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """``input`` with ``values`` (broadcast) where the tensors ``indices`` name elements or slices
    along the first dims; with ``accumulate`` added to what is there. A mask among ``indices`` names
    its true elements along as many dims as it has. ``input`` is not changed; of values in one
    position the last stays.

    Raises `IndexRangeError` for an index outside its dim and for a mask of other sizes than the
    dims that it speaks of.

    >>> import staticflow as sf
    >>> i = sf.tensor([0, 0, 2])
    >>> sf.index_put(sf.zeros(3), (i,), sf.ones(3), accumulate=True)
    tensor([2., 0., 1.])
    >>> sf.index_put(sf.zeros(3), (sf.tensor([True, False, True]),), sf.tensor(5.0))
    tensor([5., 0., 5.])
    """
    if any(getattr(i, "dtype", None) is bool_ for i in indices):
        indices = _without_masks(input, indices)
    return index_functions.index_put(input, indices, values, accumulate)


def _without_masks(x: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
    """Each mask as the indices of its true elements."""
    found: list[Any] = []
    for index in indices:
        if index.dtype is not bool_:
            found.append(index)
            continue
        own = x.shape[len(found) : len(found) + index.ndim]
        if index.ndim != len(own) or not all(map(same_size, index.shape, own)):
            raise IndexRangeError(
                f"index_put: a mask of shape {list(index.shape)} where the tensor, of shape "
                f"{list(x.shape)}, has {list(own)}; the sizes must be equal, "
                f"at {format_locs(here())}"
            )
        found.extend(nonzero(index, as_tuple=True))
    return tuple(found)
