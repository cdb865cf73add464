"""Rows of a matrix, chosen by integers."""

from __future__ import annotations

from math import inf
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.cumulative import cummax
from staticflow.ops.along.sets import unique
from staticflow.ops.along.sorted_search import searchsorted
from staticflow.ops.basics.arithmetic import clamp, keep_history, where
from staticflow.ops.basics.creation import iota, new_zeros, ones_like
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import ravel, unsqueeze
from staticflow.ops.declaring.declare import same_size
from staticflow.ops.declaring.required import require_true
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.indexing import index_functions
from staticflow.ops.indexing.index_functions import index_add
from staticflow.ops.indexing.scatter_ops import scatter_reduce
from staticflow.ops.symbols.real_sizes import number_of_size
from staticflow.ops.symbols.symbol import symbolic, tracing_state
from staticflow.ops.tensors.shortcuts import renorm

__all__ = ["embedding", "embedding_bag"]


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of ``weight`` (num, dim) that the integers ``input`` (...) name: (..., dim). The row
    ``padding_idx`` gets no gradient. With ``max_norm`` those of a ``norm_type``-norm above it are
    scaled down in ``weight`` itself first, which a graph refuses. With ``scale_grad_by_freq`` the
    gradient of a row is divided by how often ``input`` names it.

    Raises `IndexRangeError` for an index outside [0, num), and `ArgumentError` for a ``sparse``
    gradient, since every gradient is dense.

    >>> import staticflow as sf
    >>> embedding(sf.tensor([1, 0]), sf.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    refuse_sparse("embedding", sparse)
    if max_norm is not None:
        if symbolic(input, weight) or tracing_state.active:
            raise ArgumentError(
                "embedding: max_norm changes the weight, which a graph does not; scale the weight "
                f"after each step, at {format_locs(here())}"
            )
        rows, table = unique(input), weight.detach()
        table[rows] = renorm(table[rows], norm_type, 0, max_norm)
    found = index_functions.embedding(weight, input, padding_idx)
    if not as_bool("embedding: 'scale_grad_by_freq'", scale_grad_by_freq):
        return found
    return keep_history(divide_by_frequency(found, input, weight.shape[0]), found.detach())


def divide_by_frequency(rows: Any, input: Any, count: Any) -> Any:
    """The ``rows`` (..., dim) that the integers ``input`` (...), below ``count``, stand for, each
    divided by how often its integer is in ``input``."""
    flat = ravel(input)
    often = index_add(new_zeros(rows, count), 0, flat, ones_like(flat, dtype=rows.dtype))
    return rows / index_functions.embedding(unsqueeze(often, 1), input)


def refuse_sparse(what: str, sparse: bool) -> None:
    """Raise `ArgumentError`, of the function ``what``, where a ``sparse`` gradient is wanted."""
    if as_bool(f"{what}: 'sparse'", sparse):
        raise ArgumentError(
            f"{what}: sparse=True asks for a sparse gradient, and every gradient is dense here; "
            f"leave it out: the gradient has the same values, at {format_locs(here())}"
        )


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, mean or maximum (``mode``) of the rows of ``weight`` (num, dim) that each bag of
    integers names: (bags, dim), zeros of an empty one.

    The bags are the rows of ``input`` (bags, n), or parts of a vector that begin at ``offsets``
    (bags,), of which the last is only an end with ``include_last_offset``. ``per_sample_weights``,
    of the shape of ``input``, scale the rows of a sum; ``padding_idx`` does not count. The other
    arguments are those of `embedding`; the gradient of a maximum is not scaled by frequency.

    >>> import staticflow as sf
    >>> table = sf.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> embedding_bag(sf.tensor([0, 1, 1]), table, sf.tensor([0, 2]))
    tensor([[2., 3.],
            [3., 4.]])
    """
    refuse_sparse("embedding_bag", sparse)
    _check_bags(input, offsets, mode, per_sample_weights, scale_grad_by_freq)
    rows = embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    left_out = None if padding_idx is None else input == padding_idx % weight.shape[0]
    if offsets is None:
        bags: Any = _Rows()
    else:
        count, position = offsets.shape[0] - int(include_last_offset), _positions(input)
        offsets = _need_offsets(offsets.long(), input)
        bag = searchsorted(offsets[:count], position, right=True) - 1
        bags = _Parts(count, bag)
    if mode == "max":
        if left_out is not None:
            rows = where(unsqueeze(left_out, -1), -inf, rows)
        most = bags.most(rows)
        return where(most == -inf, 0.0, most)
    scale = per_sample_weights
    if left_out is not None:
        scale = where(left_out, 0.0, ones_like(input, dtype=rows.dtype) if scale is None else scale)
    total = bags.total(rows if scale is None else rows * unsqueeze(scale, -1))
    if mode == "sum":
        return total
    ones = ones_like(input, dtype=rows.dtype) if scale is None else scale
    return total / unsqueeze(clamp(bags.total(ones), min=1.0), 1)


def _need_offsets(offsets: Any, x: Any) -> Any:
    """The ``offsets`` of bags in the vector ``x``, which are 0 first, grow, and end within it."""
    size = x.shape[0]
    end = size if isinstance(size, int) else number_of_size(size)
    fits = (where(_positions(offsets) == 0, offsets, 0) == 0) & (offsets <= end)
    fits = (fits & (offsets == cummax(offsets, 0)[0])).all()
    what = f"begin at 0, grow, and stay within the input, of which there are {size}, and do not"
    return require_true(offsets, fits, f"embedding_bag: offsets must {what}")


def _positions(x: Any) -> Any:
    return iota.beside(x, shape=x.shape, dim=0, dtype=int64)


class _Rows:
    """Bags that are the rows of a matrix of indices."""

    def total(self, x: Any) -> Any:
        """The sums of what each bag has."""
        return x.sum(1)

    def most(self, rows: Any) -> Any:
        """The largest numbers, -inf of an empty bag."""
        edge = rows.new_full((rows.shape[0], 1, rows.shape[2]), -inf)
        return cat([rows, edge], 1).max(1)[0]


@dataclass(frozen=True, slots=True)
class _Parts:
    """Bags that are parts of a vector of indices: how many, and which each index is in."""

    count: Any
    bag: Any

    def total(self, x: Any) -> Any:
        """The sums of what each bag has."""
        return index_add(self._none(x, 0), 0, self.bag, x)

    def most(self, rows: Any) -> Any:
        """The largest numbers, -inf of an empty bag."""
        at = unsqueeze(self.bag, 1).expand(rows.shape)
        return scatter_reduce(self._none(rows, -inf), 0, at, rows, "amax")

    def _none(self, x: Any, value: float) -> Any:
        return x.new_full((self.count, *x.shape[1:]), value)


def check_mode(what: str, mode: str, by_frequency: bool) -> None:
    """Raise `ArgumentError`, of ``what``, for a ``mode`` that there is not, and for a gradient of a
    maximum that is to be scaled."""
    if mode not in ("sum", "mean", "max"):
        wrong = f'mode is "sum", "mean" or "max", not {mode!r}'
    elif by_frequency and mode == "max":
        wrong = "scale_grad_by_freq scales the gradients of a sum or mean, not of a maximum; leave "
        wrong = f"{wrong}it out"
    else:
        return
    raise ArgumentError(f"{what}: {wrong}, at {format_locs(here())}")


def _differ_in_shape(x: Any, y: Any) -> bool:
    return x.ndim != y.ndim or not all(map(same_size, x.shape, y.shape))


def _check_bags(input: Any, offsets: Any, mode: str, weights: Any, by_frequency: bool) -> None:
    check_mode("embedding_bag", mode, by_frequency)
    wrong = (
        f"per_sample_weights are for the sum, not for mode {mode!r}"
        if weights is not None and mode != "sum"
        else f"per_sample_weights are of shape {list(weights.shape)}, and must be of that of the "
        f"input, {list(input.shape)}"
        if weights is not None and _differ_in_shape(weights, input)
        else f"offsets stand beside a vector, not beside an input of shape {list(input.shape)}"
        if (input.ndim == 1) != (offsets is not None) or input.ndim not in (1, 2)
        else None
    )
    if wrong:
        raise ArgumentError(f"embedding_bag: {wrong}, at {format_locs(here())}")
