"""Slices and elements by the numbers that index tensors hold: selected, replaced, added to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import DimRangeError, ShapeError
from staticflow.graph.dims import Size, same, same_shape
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.ops.basics.creation import new_full
from staticflow.ops.basics.expand import common_shape, expand, meet
from staticflow.ops.basics.reduce import add_wide
from staticflow.ops.basics.slicing import from_front
from staticflow.ops.basics.view import atleast_1d, ravel, reshape
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.indexing.index_ops import (
    Frame,
    embedding_op,
    index_add_op,
    index_copy_op,
    index_put_op,
    index_select_op,
    take_op,
)

__all__ = [
    "embedding", "fill", "filling", "fit", "index_add", "index_copy", "index_fill", "index_put",
    "index_select", "meet_indices", "put_at", "take", "trim",
]  # fmt: skip


def _vector(index: Any, what: str) -> Any:
    if index.ndim > 1:
        raise ShapeError(
            f"{what}: the index must be a vector, not of shape {list(index.shape)}, "
            f"at {format_locs(here())}"
        )
    return reshape(index, (1,)) if index.ndim == 0 else index


@by_shape
def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices of ``input`` along ``dim`` that the vector ``index`` (int32 or int64) names.

    Raises `IndexRangeError` for an index outside ``[0, input.shape[dim])``.

    >>> import staticflow as sf
    >>> sf.index_select(sf.tensor([[1, 2], [3, 4]]), 0, sf.tensor([1, 1]))
    tensor([[3, 4],
            [3, 4]])
    """
    at = normalize_dim(dim, input.ndim, "index_select")
    rows = index_select_op(atleast_1d(input), _vector(index, "index_select"), dims=(at,))
    return rows if input.ndim else reshape(rows, ())


@by_shape
def take(input: Any, index: Any) -> Any:
    """The elements that ``index`` names, counted through all of ``input`` in row-major order;
    negative ones count from the end. In the shape of ``index``."""
    return take_op(ravel(input), index, dims=(0,))


@by_shape
def embedding(weight: Any, indices: Any, padding_idx: int | None = None) -> Any:
    """The rows of the matrix ``weight`` that ``indices``, of any shape, name: shape
    ``(*indices.shape, weight.shape[1])``. The row ``padding_idx`` gets no gradient.

    Raises `IndexRangeError` for an index outside ``[0, weight.shape[0])``.
    """
    if weight.ndim != 2:
        raise ShapeError(
            f"embedding: the weight must be a matrix, not of shape {list(weight.shape)}, "
            f"at {format_locs(here())}"
        )
    row = None if padding_idx is None else from_front(padding_idx, weight.shape[0], 0)
    return embedding_op(weight, indices, dims=(0,), padding_idx=row)


@by_shape
def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """`staticflow.ops.indexing.mask_put.index_put` without masks."""
    dims = tuple(range(len(indices)))
    if not 0 < len(dims) <= input.ndim:
        raise DimRangeError(
            f"index_put: {len(dims)} indices for a tensor of {input.ndim} dims, "
            f"at {format_locs(here())}"
        )
    return put_at(input, indices, dims, values, accumulate)


def put_at(
    x: Any, indices: Sequence[Any], dims: tuple[int, ...], values: Any, accumulate: bool = False
) -> Any:
    """`index_put_op` with ``values`` broadcast to what the indices name."""
    indices = meet_indices("index_put", indices)
    batch = common_shape([i.shape for i in indices], "index_put")
    shape = Frame(x.shape, dims, batch).shape

    def put(x: Any, values: Any) -> Any:
        return index_put_op(x, values, *indices, dims=dims, accumulate=accumulate)

    given = fit(values, shape)
    return add_wide(put, x, given) if accumulate else put(x, given)


def meet_indices(what: str, indices: Sequence[Any]) -> Sequence[Any]:
    """Indices that name elements together, as `meet` gives tensors."""
    if len(indices) < 2 or not all(hasattr(i, "__sf_mode__") for i in indices):
        return indices
    return meet(what, *indices)


def fit(value: Any, shape: Sequence[Size]) -> Any:
    """``value``, `trim`, broadcast to ``shape``."""
    value = trim(value, len(shape))
    return value if same_shape(value.shape, shape) else expand(value, shape)


def trim(value: Any, ndim: int) -> Any:
    """``value`` without the leading dims of size 1 that are more than ``ndim``, as PyTorch does
    where values are stored."""
    while value.ndim > ndim and same(value.shape[0], 1):
        value = reshape(value, value.shape[1:])
    return value


@by_shape
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    """``input`` with ``alpha * source`` added to the slices along ``dim`` that the vector ``index``
    names; ``input`` is not changed.

    Raises `IndexRangeError` for an index outside ``[0, input.shape[dim])``.
    """
    is_one = isinstance(alpha, int | float) and alpha == 1
    scaled = source if is_one else source * alpha
    return add_wide(
        lambda x, source: _into(index_add_op, x, dim, index, source, accumulate=True), input, scaled
    )


@by_shape
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """``input`` with ``source`` in place of the slices along ``dim`` that the vector ``index``
    names; ``input`` is not changed. Of positions that repeat the last one counts.

    Raises `IndexRangeError` for an index outside ``[0, input.shape[dim])``.
    """
    return _into(index_copy_op, input, dim, index, source, accumulate=False)


def _into(op: Op, x: Any, dim: int, index: Any, source: Any, accumulate: bool) -> Any:
    at = normalize_dim(dim, x.ndim, op.name)
    rows = _vector(index, op.name)
    out = op(atleast_1d(x), atleast_1d(source), rows, dims=(at,), accumulate=accumulate)
    return out if x.ndim else reshape(out, ())


@by_shape
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """``input`` with ``value`` (a number or 0-d tensor) in the slices along ``dim`` that the vector
    ``index`` names; negative ones count from the end. ``input`` is not changed."""
    at = normalize_dim(dim, input.ndim, "index_fill")
    x, rows = atleast_1d(input), _vector(index, "index_fill")
    if hasattr(value, "__sf_mode__"):
        values = filling(value, input, "index_fill")
    else:  # in order, as kernels take them
        values = new_full(input, Frame(x.shape, (at,), rows.shape).shape, value)
    out = put_at(x, (rows,), (at,), values)
    return out if input.ndim else reshape(out, ())


def fill(x: Any, value: Any) -> Any:
    """``value`` (a number or 0-d tensor) everywhere, in the shape and dtype of ``x``."""
    return expand(filling(value, x, "fill"), x.shape)


def filling(value: Any, x: Any, what: str) -> Any:
    """A number or 0-d tensor to fill positions of ``x`` with, in its dtype."""
    if not hasattr(value, "__sf_mode__"):
        return new_full(x, (), value)
    if value.ndim:
        raise ShapeError(
            f"{what}: the value must be a number or 0-d, not of shape {list(value.shape)}, "
            f"at {format_locs(here())}"
        )
    return value.to(x.dtype)
