"""Diagonals, triangles and windows of tensors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from staticflow.errors import ShapeError
from staticflow.graph.dims import Size, dim_max, dim_min
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.view import contiguous, reshape
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim, per_arg, strict
from staticflow.ops.declaring.lowering import Index, LoopNest, View
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.indexing.index_functions import filling
from staticflow.ops.indexing.mask_ops import masked_fill

__all__ = [
    "diag", "diag_embed", "diag_embed_op", "diagonal", "diagonal_op", "diagonal_scatter",
    "fill_diagonal", "fold_op", "trace", "tril", "tril_op", "triu", "triu_op", "unfold",
    "unfold_op",
]  # fmt: skip


# -- diagonals ----------------------------------------------------------------------------------


def _without(items: tuple[Any, ...], *dims: int) -> tuple[Any, ...]:
    return tuple(d for i, d in enumerate(items) if i not in dims)


def _length(shape: Shape, offset: int, dim1: int, dim2: int) -> Size:
    rows, columns = shape[dim1] + min(offset, 0), shape[dim2] - max(offset, 0)
    return dim_max(dim_min(rows, columns), 0)


def _on_diagonal(i: Index, offset: int, dim1: int, dim2: int) -> Index:
    """The index whose two dims stand at the last of ``i`` on a diagonal."""
    rest = iter(i[:-1])
    at = {dim1: i[-1] + max(-offset, 0), dim2: i[-1] + max(offset, 0)}
    return tuple(at[d] if d in at else next(rest) for d in range(len(i) + 1))


def _diagonal_infer(
    facts: Facts, x: TensorType, *, offset: int, dim1: int, dim2: int
) -> TensorType:
    length = _length(x.shape, offset, dim1, dim2)
    return TensorType(x.dtype, (*_without(x.shape, dim1, dim2), length))


def _diagonal_reference(xp: Any, x: Any, *, offset: int, dim1: int, dim2: int) -> Any:
    offset = max(min(offset, x.shape[dim2]), -x.shape[dim1])  # which NumPy takes in 32 bits
    found = xp.diagonal(x, offset, dim1, dim2)
    if xp is np and x.flags.writeable:
        found.flags.writeable = True  # NumPy gives a view that only reads
    return found


diagonal_op: Op = Op(
    name="diagonal",
    doc="The elements whose index along ``dim2`` is that along ``dim1`` plus ``offset``, as the "
    "last dim.",
    infer=_diagonal_infer,
    reference=_diagonal_reference,
    vjp=per_arg(
        lambda ct, out, x, *, offset, dim1, dim2: diag_embed_op(
            ct, shape=x.shape, offset=offset, dim1=dim1, dim2=dim2
        )
    ),
    lowering=View(lambda i, src, dst, *, offset, dim1, dim2: _on_diagonal(i, offset, dim1, dim2)),
    grad_name="DiagonalBackward0",
)


def _embed_infer(
    facts: Facts, x: TensorType, *, shape: Shape, offset: int, dim1: int, dim2: int
) -> TensorType:
    wanted = (*_without(shape, dim1, dim2), _length(shape, offset, dim1, dim2))
    if x.ndim != len(wanted):
        raise ShapeError(f"{x} is no diagonal of {list(shape)}")
    for axis, (n, m) in enumerate(zip(x.shape, wanted, strict=True)):
        facts.equal(n, m, f"dim {axis} of {x} and of a diagonal of {list(shape)}")
    return TensorType(x.dtype, shape)


def _embed_reference(xp: Any, x: Any, *, shape: Any, offset: int, dim1: int, dim2: int) -> Any:
    out = xp.zeros(shape, x.dtype)
    _diagonal_reference(xp, out, offset=offset, dim1=dim1, dim2=dim2)[...] = x
    return out


def _embed_emit(nest: Any) -> None:
    offset, dim1, dim2 = (nest.attrs[a] for a in ("offset", "dim1", "dim2"))
    nest.zero()
    with nest.loops(nest.in_shape(0), "parallel") as index:
        nest.store(0, _on_diagonal(index, offset, dim1, dim2), nest.load(0, index))


diag_embed_op: Op = Op(
    name="diag_embed",
    doc="Zeros of ``shape`` with ``x`` on a diagonal; the transpose of diagonal.",
    infer=_embed_infer,
    reference=strict(_embed_infer, _embed_reference),
    vjp=per_arg(
        lambda ct, out, x, *, shape, offset, dim1, dim2: diagonal_op(
            ct, offset=offset, dim1=dim1, dim2=dim2
        )
    ),
    lowering=LoopNest(_embed_emit),
    numpy="small",
    exact=True,
    grad_name="DiagEmbedBackward0",
)


def _plane(ndim: int, dim1: int, dim2: int, what: str) -> tuple[int, int]:
    a, b = normalize_dim(dim1, ndim, what), normalize_dim(dim2, ndim, what)
    if a == b:
        raise ShapeError(f"{what}: dim {a} is named twice, at {format_locs(here())}")
    return a, b


@by_shape
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal over two dims, as the last dim; a view. With ``offset`` > 0 one above the main
    diagonal, below it with ``offset`` < 0.

    >>> import staticflow as sf
    >>> sf.diagonal(sf.arange(6).reshape(2, 3), 1)
    tensor([1, 5])
    """
    a, b = _plane(input.ndim, dim1, dim2, "diagonal")
    return diagonal_op(input, offset=as_size(offset), dim1=a, dim2=b)


@by_shape
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Zeros with the last dim of ``input`` on the diagonal of two dims, which are square.

    >>> import staticflow as sf
    >>> sf.diag_embed(sf.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if input.ndim == 0:
        raise ShapeError(f"diag_embed: takes one dim at least, at {format_locs(here())}")
    a, b = _plane(input.ndim + 1, dim1, dim2, "diag_embed")
    offset = operator.index(offset)
    side = input.shape[-1] + abs(offset)
    rest = iter(input.shape[:-1])
    shape = tuple(side if d in (a, b) else next(rest) for d in range(input.ndim + 1))
    return diag_embed_op(input, shape=shape, offset=offset, dim1=a, dim2=b)


@by_shape
def diag(input: Any, diagonal: int = 0) -> Any:
    """The matrix with the vector ``input`` on a diagonal, or a copy of the diagonal of a matrix."""
    if input.ndim not in (1, 2):
        raise ShapeError(
            f"diag: takes a vector or a matrix, not {input.ndim} dims, at {format_locs(here())}"
        )
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    return contiguous(diagonal_op(input, offset=as_size(diagonal), dim1=0, dim2=1))


@by_shape
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """``input`` with ``src`` in place of its diagonal; ``input`` is not changed."""
    a, b = _plane(input.ndim, dim1, dim2, "diagonal_scatter")
    offset = as_size(offset)
    filled = diag_embed_op(src, shape=input.shape, offset=offset, dim1=a, dim2=b)
    return where(_count(input, b) - _count(input, a) == offset, filled, input)


@by_shape
@by_autocast
def trace(input: Any) -> Any:
    """The sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise ShapeError(f"trace: takes a matrix, not {input.ndim} dims, at {format_locs(here())}")
    return diagonal(input).sum()


def _count(x: Any, dim: int) -> Any:
    """The index along ``dim``, in a shape that broadcasts with ``x``."""
    shape = tuple(d if axis == dim else 1 for axis, d in enumerate(x.shape))
    return iota.beside(x, shape=shape, dim=dim, dtype=int64)


@by_shape
def fill_diagonal(x: Any, fill_value: Any, wrap: bool = False) -> Any:
    """``x`` with a number where all its indices are the same; with ``wrap`` the diagonal of a tall
    matrix begins anew below each square."""
    if x.ndim < 2:
        raise ShapeError(
            f"fill_diagonal: takes 2 dims at least, not {x.ndim}, at {format_locs(here())}"
        )
    rows = _count(x, 0)
    if wrap and x.ndim == 2:
        rows = rows % (x.shape[1] + 1)
    mask = rows == _count(x, 1)
    for dim in range(2, x.ndim):
        mask = mask & (rows == _count(x, dim))
    return where(mask, filling(fill_value, x, "fill_diagonal"), x)


# -- triangles ----------------------------------------------------------------------------------


def _triangle(name: str, side: str, outside: Any) -> Op:
    def infer(facts: Facts, x: TensorType, *, diagonal: int) -> TensorType:
        if x.ndim < 2:
            raise ShapeError(f"takes 2 dims at least, not {x}")
        return x

    def decompose(x: Any, *, diagonal: int) -> Any:
        above = _count(x, x.ndim - 1) - _count(x, x.ndim - 2)
        return masked_fill(x, outside(above, diagonal), 0)

    op: Op = Op(
        name=name,
        doc=f"``x`` with zeros {side} a diagonal of its last two dims.",
        infer=infer,
        reference=strict(infer, lambda xp, x, *, diagonal: getattr(xp, name)(x, diagonal)),
        vjp=per_arg(lambda ct, out, x, *, diagonal: op(ct, diagonal=diagonal)),
        decompose=decompose,
        numpy="slower",
        grad_name=f"{name.title()}Backward0",
    )
    return op


tril_op = _triangle("tril", "above", lambda above, diagonal: above > diagonal)
triu_op = _triangle("triu", "below", lambda above, diagonal: above < diagonal)


@by_shape
def tril(input: Any, diagonal: int = 0) -> Any:
    """``input`` with zeros above the diagonal of its last two dims, or the one so far above it.

    >>> import staticflow as sf
    >>> sf.tril(sf.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return tril_op(input, diagonal=as_size(diagonal))


@by_shape
def triu(input: Any, diagonal: int = 0) -> Any:
    """``input`` with zeros below the diagonal of its last two dims, or the one so far above it."""
    return triu_op(input, diagonal=as_size(diagonal))


# -- windows ------------------------------------------------------------------------------------


def _windows(shape: Shape, dim: int, size: int, step: int) -> Shape:
    count = (shape[dim] - size) // step + 1
    return (*shape[:dim], count, *shape[dim + 1 :], size)


def _in_window(i: Index, dim: int, step: int) -> Index:
    return (*i[:dim], i[dim] * step + i[-1], *i[dim + 1 : -1])


def _unfold_infer(facts: Facts, x: TensorType, *, dim: int, size: int, step: int) -> TensorType:
    n = x.shape[dim]
    facts.at_least(n, size, f"dim {dim} of {x}, cut into windows of {size}")
    return TensorType(x.dtype, _windows(x.shape, dim, size, step))


def _unfold_reference(xp: Any, x: Any, *, dim: int, size: int, step: int) -> Any:
    shape = _windows(x.shape, dim, size, step)
    step = min(step, x.shape[dim])  # a longer one leads to no second window
    by = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    return xp.lib.stride_tricks.as_strided(x, shape, by)


unfold_op: Op = Op(
    name="unfold",
    doc="Windows of ``size`` along ``dim``, one every ``step``; ``dim`` counts the windows, the "
    "last dim runs inside them.",
    infer=_unfold_infer,
    reference=strict(_unfold_infer, _unfold_reference),
    vjp=per_arg(
        lambda ct, out, x, *, dim, size, step: fold_op(
            ct, shape=x.shape, dim=dim, size=size, step=step
        )
    ),
    lowering=View(lambda i, src, dst, *, dim, size, step: _in_window(i, dim, step)),
    grad_name="UnfoldBackward0",
)


def _fold_infer(
    facts: Facts, x: TensorType, *, shape: Shape, dim: int, size: int, step: int
) -> TensorType:
    wanted = _windows(shape, dim, size, step)
    if x.ndim != len(wanted):
        raise ShapeError(f"{x} are no windows of {list(shape)}")
    for axis, (n, m) in enumerate(zip(x.shape, wanted, strict=True)):
        facts.equal(n, m, f"dim {axis} of {x} and of windows of {list(shape)}")
    return TensorType(x.dtype, shape)


def _fold_reference(xp: Any, x: Any, *, shape: Any, dim: int, size: int, step: int) -> Any:
    out = xp.zeros(shape, x.dtype)
    rows = xp.moveaxis(out, dim, 0)
    parts = xp.moveaxis(x, dim, 0)
    for window in range(parts.shape[0]):
        for inside in range(size):
            rows[window * step + inside] += parts[window, ..., inside]
    return out


def _fold_emit(nest: Any) -> None:
    dim, step, shape = nest.attrs["dim"], nest.attrs["step"], nest.in_shape(0)
    nest.zero()
    with (
        nest.loops(shape[:dim], "parallel") as outer,
        nest.loops(shape[dim : dim + 1], "serial") as window,  # in order: windows may overlap
        nest.loops(shape[dim + 1 :], "parallel") as inside,
    ):
        index = (*outer, *window, *inside)
        position = _in_window(index, dim, step)
        nest.store(0, position, nest.k.add(nest.load_out(0, position), nest.load(0, index)))


fold_op: Op = Op(
    name="fold",
    doc="Zeros of ``shape`` with windows added where unfold took them; its transpose.",
    infer=_fold_infer,
    reference=strict(_fold_infer, _fold_reference),
    vjp=per_arg(
        lambda ct, out, x, *, shape, dim, size, step: unfold_op(ct, dim=dim, size=size, step=step)
    ),
    lowering=LoopNest(_fold_emit),
    numpy="slower",
    grad_name="UnfoldBackward0",
)


@by_shape
def unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    """Windows of ``size`` along a dim, one every ``step``: a view with a further dim, the last. A
    0-d tensor is one element, and has one window.

    >>> import staticflow as sf
    >>> sf.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    at = normalize_dim(dimension, x.ndim, "unfold")
    size, step = operator.index(size), operator.index(step)
    if size < 0 or step < 1:
        raise ShapeError(
            f"unfold: takes a size from 0 and a step from 1, not {size} and {step}, "
            f"at {format_locs(here())}"
        )
    if x.ndim == 0:
        return unfold_op(reshape(x, (1,)), dim=0, size=size, step=step)[0]
    return unfold_op(x, dim=at, size=size, step=step)
