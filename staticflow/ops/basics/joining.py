"""Tensors put together: joined, stacked and repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.articles import with_article
from staticflow.graph.dims import Size, prod, same_shape
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.slicing import select_op
from staticflow.ops.basics.splitting import part_of
from staticflow.ops.basics.view import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    reshape,
    unsqueeze,
    with_ones,
)
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim, per_arg, strict
from staticflow.ops.declaring.lowering import LoopNest
from staticflow.ops.declaring.numpy_names import numpy_names
from staticflow.ops.declaring.sizes import needed_sizes_of, several_of

__all__ = [
    "cat", "cat_op", "column_stack", "concat", "concatenate", "dstack", "hstack", "meshgrid",
    "repeat", "repeat_op", "stack", "stack_op", "tile", "vstack",
]  # fmt: skip


# -- cat ----------------------------------------------------------------------------------------


def _cat_infer(facts: Facts, *xs: TensorType, dim: int) -> TensorType:
    shape = list(xs[0].shape)
    if not shape:
        raise ShapeError("0-d tensors cannot be joined; use stack")
    for x in xs[1:]:
        if x.ndim != len(shape) or x.dtype is not xs[0].dtype:
            raise ShapeError(f"{xs[0]} and {x} cannot be joined: dims or dtypes differ")
        for axis, size in enumerate(x.shape):
            if axis == dim:
                shape[axis] = shape[axis] + size
            else:
                shape[axis] = facts.equal(
                    shape[axis], size, f"the sizes of the joined tensors along dim {axis}"
                )
    return TensorType(xs[0].dtype, tuple(shape))


def _cat_vjp(needs: Sequence[bool], ct: Any, out: Any, *xs: Any, dim: int) -> list[Any]:
    parts, at = [], 0
    for need, x in zip(needs, xs, strict=True):
        parts.append(part_of(ct, dim, at, x.shape[dim]) if need else None)
        at = at + x.shape[dim]
    return parts


def _cat_emit(nest: Any) -> None:
    dim: int = nest.attrs["dim"]
    offset: Size = 0
    for i in range(nest.n_in):
        shape = nest.in_shape(i)
        with (
            nest.loops(shape[:dim], "parallel") as outer,
            nest.loops(shape[dim:], "parallel", merged=nest.adjoins(i, dim)) as (at, *rest),
        ):
            nest.store(0, (*outer, at + offset, *rest), nest.load(i, (*outer, at, *rest)))
        offset = nest.name_size(offset + shape[dim])


cat_op = Op(
    name="cat",
    doc="Tensors one behind the other along ``dim``.",
    infer=_cat_infer,
    reference=lambda xp, *xs, dim: xp.concatenate(xs, axis=dim),
    vjp=_cat_vjp,
    lowering=LoopNest(_cat_emit, inlines=True),
    promote="common",
    numpy="alone",
    exact=True,
    grad_name="CatBackward0",
)


def _check_tensors(tensors: Sequence[Any], what: str) -> Sequence[Any]:
    if not isinstance(tensors, list | tuple):
        raise DTypeError(
            f"{what}: takes a list or tuple of tensors, not {with_article(type(tensors))}"
            f", at {format_locs(here())}"
        )
    if not tensors:
        raise ShapeError(f"{what}: takes at least one tensor, at {format_locs(here())}")
    for i, x in enumerate(tensors):
        if not hasattr(x, "ndim"):
            raise DTypeError(
                f"{what}: entry {i} is {with_article(type(x))}; wrap data with sf.tensor(...) or "
                f"sf.from_numpy(...), at {format_locs(here())}"
            )
    return tensors


@by_shape
@numpy_names
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """The ``tensors`` joined along ``dim``; their other sizes agree. A vector without elements is
    left out beside tensors of more dims."""
    given = _check_tensors(tensors, "cat")
    ndim = max(x.ndim for x in given)
    kept = [x for x in given if x.ndim == ndim or not same_shape(x.shape, (0,))]
    return cat_op(*kept, dim=normalize_dim(dim, ndim, "cat"))


concat = concatenate = cat


# -- stack --------------------------------------------------------------------------------------


def _stack_infer(facts: Facts, *xs: TensorType, dim: int) -> TensorType:
    shape = list(xs[0].shape)
    for x in xs[1:]:
        if x.ndim != len(shape) or x.dtype is not xs[0].dtype:
            raise ShapeError(f"{xs[0]} and {x} cannot be stacked: dims or dtypes differ")
        for axis, size in enumerate(x.shape):
            shape[axis] = facts.equal(
                shape[axis], size, f"the sizes of the stacked tensors along dim {axis}"
            )
    return TensorType(xs[0].dtype, with_ones(shape, (dim,), len(xs)))


def _stack_vjp(needs: Sequence[bool], ct: Any, out: Any, *xs: Any, dim: int) -> list[Any]:
    return [select_op(ct, dim=dim, index=i) if need else None for i, need in enumerate(needs)]


stack_op = Op(
    name="stack",
    doc="Tensors of one shape side by side along a new ``dim``.",
    infer=_stack_infer,
    reference=lambda xp, *xs, dim: xp.stack(xs, axis=dim),
    vjp=_stack_vjp,
    decompose=lambda *xs, dim: cat_op(*(unsqueeze(x, dim) for x in xs), dim=dim),
    promote="common",
    numpy="alone",
    exact=True,
    grad_name="StackBackward0",
)


@by_shape
@numpy_names
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """The ``tensors``, of equal shapes, side by side along a new ``dim``."""
    given = _check_tensors(tensors, "stack")
    return stack_op(*given, dim=normalize_dim(dim, given[0].ndim + 1, "stack"))


@by_shape
def hstack(tensors: Sequence[Any]) -> Any:
    """The tensors joined along their columns; vectors along their one dim."""
    grown = [atleast_1d(x) for x in _check_tensors(tensors, "hstack")]
    return cat(grown, min(1, grown[0].ndim - 1))


@by_shape
def vstack(tensors: Sequence[Any]) -> Any:
    """The tensors joined along their rows; a vector is a row."""
    return cat([atleast_2d(x) for x in _check_tensors(tensors, "vstack")], 0)


@by_shape
def dstack(tensors: Sequence[Any]) -> Any:
    """The tensors joined along their third dim, as `atleast_3d` gives it."""
    return cat([atleast_3d(x) for x in _check_tensors(tensors, "dstack")], 2)


def column_stack(tensors: Sequence[Any]) -> Any:
    """The tensors joined along their columns; a vector is a column."""
    given = _check_tensors(tensors, "column_stack")
    return cat([reshape(x, (prod(x.shape), 1)) if x.ndim < 2 else x for x in given], 1)


@by_shape
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """The coordinates of a grid whose axes are the vectors ``tensors``: one tensor for each axis.
    With ``indexing="xy"`` the first two dims are exchanged.

    >>> import staticflow as sf
    >>> [g.shape for g in sf.meshgrid(sf.arange(2), sf.arange(3))]
    [(2, 3), (2, 3)]
    """
    axes = [atleast_1d(x) for x in several_of(tensors)]
    if indexing not in ("ij", "xy") or any(x.ndim > 1 for x in axes):
        raise ShapeError(
            f'meshgrid: takes vectors and indexing="ij" or "xy", not tensors of '
            f"{[x.ndim for x in axes]} dims and {indexing!r}, at {format_locs(here())}"
        )
    order = list(range(len(axes)))
    if indexing == "xy":
        order[:2] = order[1::-1]
    shape = tuple(axes[i].shape[0] for i in order)
    grids = []
    for i, x in enumerate(axes):
        at = order.index(i)
        own = tuple(d if k == at else 1 for k, d in enumerate(shape))
        grids.append(expand(reshape(x, own), shape))
    return tuple(grids)


# -- repeat -------------------------------------------------------------------------------------


def _repeat_infer(facts: Facts, x: TensorType, *, sizes: tuple[Size, ...]) -> TensorType:
    if len(sizes) < x.ndim:
        raise ShapeError(f"{list(sizes)} are fewer than the dims of {x}")
    if any(isinstance(s, int) and s < 0 for s in sizes):
        raise ShapeError(f"{list(sizes)} holds a negative number of repeats")
    return TensorType(
        x.dtype, tuple(s * d for s, d in zip(sizes, _pad_shape(x, sizes), strict=True))
    )


def _pad_shape(x: Any, sizes: Sequence[Size]) -> tuple[Any, ...]:
    """The shape of ``x`` with ones in front, as long as ``sizes``."""
    return (*(1,) * (len(sizes) - x.ndim), *x.shape)


def _pairs(x: Any, sizes: Sequence[Size]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Shapes with two dims for each: the repeats of it, 1 or as many as wanted, and itself."""
    own = _pad_shape(x, sizes)
    return (
        tuple(d for n in own for d in (1, n)),
        tuple(d for s, n in zip(sizes, own, strict=True) for d in (s, n)),
    )


def _repeat_vjp(ct: Any, out: Any, x: Any, *, sizes: tuple[Size, ...]) -> Any:
    _, many = _pairs(x, sizes)
    return reshape(reshape(ct, many).sum(tuple(range(0, len(many), 2))), x.shape) if many else ct


def _decompose_repeat(x: Any, *, sizes: tuple[Size, ...]) -> Any:
    once, many = _pairs(x, sizes)
    shape = tuple(s * d for s, d in zip(sizes, _pad_shape(x, sizes), strict=True))
    return reshape(expand(reshape(x, once), many), shape)


repeat_op = Op(
    name="repeat",
    doc="``x`` side by side ``sizes`` times along each dim, new dims in front.",
    infer=_repeat_infer,
    reference=strict(_repeat_infer, lambda xp, x, *, sizes: xp.tile(x, sizes)),
    vjp=per_arg(_repeat_vjp),
    decompose=_decompose_repeat,
    numpy="alone",
    exact=True,
    grad_name="RepeatBackward0",
)


@by_shape
def repeat(x: Any, *sizes: Any, repeats: Sequence[Size] | None = None) -> Any:
    """``x`` side by side as often as ``sizes`` say for each dim, new dims in front; a copy.

    >>> import staticflow as sf
    >>> sf.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    return repeat_op(x, sizes=needed_sizes_of(sizes, repeats))


@by_shape
def tile(input: Any, *sizes: Any, dims: Sequence[Size] | None = None) -> Any:
    """``input`` repeated along its dims, as by `repeat`; fewer numbers than dims count from the
    last dim."""
    wanted = needed_sizes_of(sizes, dims)
    return repeat_op(input, sizes=(1,) * (input.ndim - len(wanted)) + wanted)
