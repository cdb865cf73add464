"""Elements put, or combined with what is there, where an index tensor says."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticflow.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from staticflow.graph.dims import same, same_shape
from staticflow.graph.dtypes import DType, bool_, int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.arithmetic import floor_divide, where
from staticflow.ops.basics.creation import iota, new_full, ones_like, zeros_like
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.slicing import embed_op, slice_op
from staticflow.ops.basics.view import ravel, reshape, unsqueeze
from staticflow.ops.declaring.array_modules import combine_at, put_at
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim, per_arg, same_size, strict
from staticflow.ops.declaring.lowering import LoopNest
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.indexing.gather_ops import (
    checks_of_dim,
    gather_op,
    in_order,
    pad_cotangent,
    position_at,
    positions_of,
    put_as_vectors,
    read_part,
    scatter_add,
    scatter_add_op,
    scatter_infer,
)
from staticflow.ops.indexing.index_functions import filling, index_put

__all__ = [
    "index_reduce", "one_hot", "put", "scatter", "scatter_op", "scatter_reduce",
    "scatter_reduce_op",
]  # fmt: skip


# -- put ----------------------------------------------------------------------------------------


def _put_reference(xp: Any, x: Any, index: Any, src: Any, *, dim: int) -> Any:
    out = x.copy()
    put_at(xp, out, positions_of(xp, x, index, dim, "scatter"), read_part(src, index))
    return out


def _put_emit(nest: Any) -> None:
    nest.copy(0)
    size = nest.in_shape(0)[nest.attrs["dim"]]
    for at in in_order(nest, lambda at: position_at(nest, at, size)):
        nest.store(0, position_at(nest, at, size), nest.load(2, at))


def _put_source_vjp(ct: Any, out: Any, x: Any, index: Any, src: Any, *, dim: int) -> Any:
    """The gradient of a source: of positions that repeat, all along ``dim``, only the last element
    stays and gets a gradient."""
    number = iota.beside(x, shape=index.shape, dim=dim, dtype=int64)
    positions = new_full(number, x.shape, 0)
    last = gather_op(scatter_op(positions, index, number, dim=dim), index, dim=dim)
    used = where(last == number, gather_op(ct, index, dim=dim), 0)
    return pad_cotangent(used, src)


scatter_op: Op = Op(
    name="scatter",
    doc="``x`` with elements of ``src`` put where ``index`` says; of positions that repeat the "
    "last one stays.",
    infer=scatter_infer,
    reference=strict(scatter_infer, _put_reference),
    vjp=per_arg(
        lambda ct, out, x, index, src, *, dim: scatter_op(ct, index, zeros_like(src), dim=dim),
        None,
        _put_source_vjp,
    ),
    lowering=LoopNest(_put_emit, updates=True, checks=checks_of_dim),
    numpy="slower",
    grad_name="ScatterBackward0",
)


@by_shape
def scatter(
    input: Any,
    dim: int,
    index: Any,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Any:
    """``input`` with ``src[i, j]`` (or ``value``, a number or a tensor of no dims) put at
    ``[i, index[i, j]]`` for ``dim=1``; with ``reduce="add"`` or ``"multiply"`` combined with what
    is there. ``input`` is not changed.

    Raises `IndexRangeError` for an index outside ``[0, input.shape[dim])``.

    >>> import staticflow as sf
    >>> sf.scatter(sf.zeros(3), 0, sf.tensor([0, 2]), sf.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    at = normalize_dim(dim, input.ndim, "scatter")
    src = value if src is None else src
    if not hasattr(src, "shape") or (src.ndim == 0 and index.ndim > 0):
        src = expand(filling(src, input, "scatter"), index.shape)
    if reduce is None:
        return put_as_vectors(scatter_op, input, index, src, dim=at)
    named = {"add": "sum", "multiply": "prod"}
    if reduce not in named:
        raise ShapeError(
            f'scatter: reduce is "add" or "multiply", not {reduce!r}, at {format_locs(here())}'
        )
    return scatter_reduce(input, dim, index, src, named[reduce])


@by_shape
def one_hot(input: Any, num_classes: int = -1) -> Any:
    """``input``, class numbers in int64, with a further dim of ``num_classes`` that holds a 1 at
    the class and zeros elsewhere. Without ``num_classes`` one more than the largest number there
    is.

    Raises `IndexRangeError` for a number outside ``[0, num_classes)``, `DTypeError` for numbers
    that are no integers.

    >>> import staticflow as sf
    >>> sf.one_hot(sf.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if input.dtype.kind not in "iu":
        raise DTypeError(
            f"one_hot: the classes are integers, not {input.dtype.name}; use input.long(), "
            f"at {format_locs(here())}"
        )
    num_classes = as_size(num_classes)
    if isinstance(num_classes, int) and num_classes < -1:
        raise ArgumentError(
            f"one_hot: num_classes is {num_classes}; it must be 0 or more, or -1 for one more than "
            f"the largest class, at {format_locs(here())}"
        )
    if isinstance(num_classes, int) and num_classes < 0:
        if same(input.numel(), 0):
            raise ShapeError(f"one_hot: of nothing wants num_classes, at {format_locs(here())}")
        num_classes = as_size(input.max() + 1)
    column = unsqueeze(input, -1)
    empty = new_full(input, (*input.shape, num_classes), 0)
    try:
        return scatter_op(empty, column, ones_like(column), dim=input.ndim)
    except IndexRangeError as error:
        last = num_classes - 1
        raise IndexRangeError(f"one_hot: the classes must be from 0 to {last}; {error}") from None


# -- combined -----------------------------------------------------------------------------------

_COMBINE = {"prod": ("multiply", "mul"), "amax": ("maximum", "max"), "amin": ("minimum", "min")}


def _reduce_infer(facts: Facts, *types: TensorType, dim: int, reduce: str) -> TensorType:
    return scatter_infer(facts, *types, dim=dim)


def _reduce_reference(xp: Any, x: Any, index: Any, src: Any, *, dim: int, reduce: str) -> Any:
    out = x.copy()
    position = positions_of(xp, x, index, dim, "scatter_reduce")
    combine_at(xp, _COMBINE[reduce][0], out, position, read_part(src, index))
    return out


def _reduce_emit(nest: Any) -> None:
    nest.copy(0)
    size = nest.in_shape(0)[nest.attrs["dim"]]
    combine = _COMBINE[nest.attrs["reduce"]][1]
    for at in in_order(nest, lambda at: position_at(nest, at, size)):
        position = position_at(nest, at, size)
        nest.store(0, position, nest.k.apply(combine, nest.load_out(0, position), nest.load(2, at)))


def _reduce_vjp(
    needs: Any, ct: Any, out: Any, x: Any, index: Any, src: Any, *, dim: int, reduce: str
) -> list[Any]:
    back = _prod_vjp if reduce == "prod" else _extreme_vjp
    zero, one = (0,) * len(src.shape), (1,) * len(src.shape)
    whole = same_shape(index.shape, src.shape)
    read = src if whole else slice_op(src, start=zero, size=index.shape, step=one)
    to_x, to_src = back(ct, out, x, index, read, dim)
    if not whole:
        to_src = embed_op(to_src, shape=src.shape, start=zero, step=one)
    return [to_x if needs[0] else None, None, to_src if needs[2] else None]


def _extreme_vjp(ct: Any, out: Any, x: Any, index: Any, src: Any, dim: int) -> tuple[Any, Any]:
    """Shared evenly by all that are the extreme of a position, as in PyTorch."""
    own = (x == out).to(ct.dtype)
    theirs = (src == gather_op(out, index, dim=dim)).to(ct.dtype)
    share = ct / scatter_add_op(own, index, theirs, dim=dim)
    return own * share, theirs * gather_op(share, index, dim=dim)


def _prod_vjp(ct: Any, out: Any, x: Any, index: Any, src: Any, dim: int) -> tuple[Any, Any]:
    """``out / x`` and ``out / src``, where a single zero factor is left out instead."""
    factors = scatter_reduce_op(ones_like(x), index, src, dim=dim, reduce="prod")
    zeros = src == 0
    counts = scatter_add_op(zeros_like(x), index, zeros.to(x.dtype), dim=dim)
    alone = zeros & (gather_op(counts, index, dim=dim) == 1)
    others = scatter_reduce_op(x, index, where(alone, 1, src), dim=dim, reduce="prod")
    left = gather_op(ct * others, index, dim=dim)
    usual = gather_op(ct * out, index, dim=dim) / where(zeros, 1, src)
    return ct * factors, where(alone, left, usual)


scatter_reduce_op: Op = Op(
    name="scatter_reduce",
    doc="``x`` combined with elements of ``src`` where ``index`` says: the ``prod``, ``amax`` or "
    "``amin`` of all that come together.",
    infer=_reduce_infer,
    reference=strict(_reduce_infer, _reduce_reference),
    vjp=_reduce_vjp,
    lowering=LoopNest(_reduce_emit, updates=True),
    numpy="slower",
    grad_name="ScatterReduceBackward0",
)


def _neutral(reduce: str, dtype: DType) -> Any:
    """What changes nothing where it is combined."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.is_floating:
        return -np.inf if reduce == "amax" else np.inf
    if dtype.kind == "b":
        return reduce == "amin"
    limits = np.iinfo(dtype.numpy)
    return int(limits.min if reduce == "amax" else limits.max)


@by_shape
def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """``input`` where each position is combined with the elements of ``src`` that ``index`` sends
    there, as in `scatter_add`; ``reduce`` is ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or
    ``"amin"``. Without ``include_self`` what was in ``input`` does not count where anything comes.
    ``input`` is not changed.

    Raises `IndexRangeError` for an index outside ``[0, input.shape[dim])``.

    >>> import staticflow as sf
    >>> i, src = sf.tensor([0, 0, 2]), sf.tensor([1.0, 3.0, 5.0])
    >>> sf.scatter_reduce(sf.zeros(3), 0, i, src, "mean", include_self=False)
    tensor([2., 0., 5.])
    """
    at = normalize_dim(dim, input.ndim, "scatter_reduce")
    if reduce not in ("sum", "mean", *_COMBINE):
        raise ShapeError(
            'scatter_reduce: reduce is "sum", "prod", "mean", "amax" or "amin", not '
            f"{reduce!r}, at {format_locs(here())}"
        )
    if reduce == "prod" and input.dtype is bool_:
        reduce = "amin"
    start = input if include_self else scatter(input, at, index, _neutral(reduce, input.dtype))
    if reduce in _COMBINE:
        return put_as_vectors(scatter_reduce_op, start, index, src, dim=at, reduce=reduce)
    total = scatter_add(start, at, index, src)
    if reduce == "sum":
        return total
    counts = scatter_add(
        (ones_like if include_self else zeros_like)(input), at, index, ones_like(src)
    )
    counts = where(counts == 0, 1, counts)
    return total / counts if input.dtype.is_floating else floor_divide(total, counts)


@by_shape
def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """``input`` with the slices of ``source`` along ``dim`` combined into those that the vector
    ``index`` names, as `scatter_reduce` combines: ``reduce`` is ``"prod"``, ``"mean"``, ``"amax"``
    or ``"amin"``.

    >>> import staticflow as sf
    >>> i, x = sf.tensor([0, 0, 2]), sf.tensor([1.0, 3.0, 5.0])
    >>> sf.index_reduce(sf.ones(3), 0, i, x, "amax")
    tensor([3., 1., 5.])
    """
    at = normalize_dim(dim, input.ndim, "index_reduce")
    if index.ndim > 1:
        raise ShapeError(
            f"index_reduce: the index is of shape {list(index.shape)}; it must be a vector, "
            f"at {format_locs(here())}"
        )
    others = [tuple(n for d, n in enumerate(x.shape) if d != at) for x in (input, source)]
    if not (input.ndim == source.ndim and all(map(same_size, *others))):
        raise ShapeError(
            f"index_reduce: the input is of shape {list(input.shape)}, the source of "
            f"{list(source.shape)}; they must have the same sizes but along dim {at}, "
            f"at {format_locs(here())}"
        )
    counts = (index.numel(), source.shape[at]) if source.ndim else (1, 1)
    if all(isinstance(n, int) for n in counts) and counts[0] != counts[1]:
        raise ShapeError(
            f"index_reduce: {counts[0]} indices for {counts[1]} slices along dim {at}; "
            f"they must be as many, at {format_locs(here())}"
        )
    column = reshape(index, (-1, *(1,) * (source.ndim - at - 1)))
    rows = expand(column, source.shape) if source.ndim else reshape(index, ())
    return scatter_reduce(input, at, rows, source, reduce, include_self=include_self)


@by_shape
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """``input`` with the elements of ``source`` at the positions ``index`` of its elements in
    row-major order, or with ``accumulate`` added to them; negative ones count from the end.

    >>> import staticflow as sf
    >>> sf.put(sf.zeros(2, 2), sf.tensor([0, 3]), sf.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    flat = index_put(ravel(input), (ravel(index),), ravel(source), accumulate)
    return reshape(flat, input.shape)
