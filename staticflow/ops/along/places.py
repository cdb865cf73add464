"""Places of elements as numbers and as indices of each dim, in shapes that no value decides."""

from __future__ import annotations

from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.dims import prod
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.cumulative import cumsum
from staticflow.ops.basics.arithmetic import cast, logical_and, where
from staticflow.ops.basics.creation import full, iota
from staticflow.ops.basics.joining import stack
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.sizes import as_shape, as_size
from staticflow.ops.indexing.scatter_ops import scatter

__all__ = ["nonzero_static", "unravel_index"]


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """The index of each dim, in tensors as ``indices``, of places that are counted row by row in a
    tensor of ``shape``. Places beyond it begin anew, and negative ones count from the end.

    >>> import staticflow as sf
    >>> sf.unravel_index(sf.tensor([3, 5]), (2, 4))
    (tensor([0, 1]), tensor([3, 1]))
    """
    if indices.dtype.kind not in "iu":
        raise DTypeError(
            f"unravel_index: the indices are of {indices.dtype.name}; they must be integers, as "
            f"indices.long() are, at {format_locs(here())}"
        )
    sizes = as_shape(shape) if isinstance(shape, tuple | list) else (as_size(shape),)
    places = cast(indices, dtype=int64)
    return tuple(_index_of(places, sizes, dim) for dim in range(len(sizes)))


def _index_of(places: Any, sizes: tuple[Any, ...], dim: int) -> Any:
    return places // prod(sizes[dim + 1 :]) % sizes[dim]


def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """The indices of the first ``size`` elements that are not zero, int64 of shape (size,
    input.ndim): `nonzero` in a shape that values do not decide, as graphs and `vmap` want it. If
    there are fewer, the last rows are ``fill_value``.

    >>> import staticflow as sf
    >>> sf.nonzero_static(sf.tensor([0, 3, 4]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    size, fill_value = as_size(size), as_size(fill_value)
    count = prod(input.shape)
    if not input.ndim:
        return full.beside(input, shape=(size, 0), value=0, dtype=int64)
    found = reshape(input, (count,)) != 0
    rank = cumsum(cast(found, dtype=int64), 0) - 1
    slot = where(logical_and(found, rank < size), rank, size)  # the last one is thrown away
    empty = full.beside(input, shape=(size + 1,), value=-1, dtype=int64)
    places = scatter(empty, 0, slot, iota.beside(input, shape=(count,), dim=0, dtype=int64))[:size]
    rows = stack(unravel_index(places, input.shape), 1)
    return where((places >= 0)[:, None], rows, fill_value)
