"""Dims in another order, and elements in the opposite order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.view import same_view
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim, normalize_dims, per_arg
from staticflow.ops.declaring.lowering import View
from staticflow.ops.declaring.sizes import as_sizes, needed_sizes_of

__all__ = [
    "H",
    "adjoint",
    "flip",
    "flip_op",
    "fliplr",
    "flipud",
    "mT",
    "moveaxis",
    "movedim",
    "permute",
    "permute_op",
    "reverse_dims",
    "rot90",
    "swap",
    "swapaxes",
    "swapdims",
    "t",
    "t_op",
    "transpose",
    "transpose_op",
]  # fmt: skip


# -- permute ------------------------------------------------------------------------------------


def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dims.index(i) for i in range(len(dims)))


def _permute_infer(facts: Facts, x: TensorType, *, dims: tuple[int, ...]) -> TensorType:
    if sorted(dims) != [*range(x.ndim)]:
        raise ShapeError(f"the dims {list(dims)} are not all those of {x}, each once")
    return TensorType(x.dtype, tuple(x.shape[d] for d in dims))


permute_op: Op = Op(
    name="permute",
    doc="Dim ``i`` of the result is dim ``dims[i]`` of ``x``.",
    infer=_permute_infer,
    reference=lambda xp, x, *, dims: x.transpose(dims),
    vjp=per_arg(lambda ct, out, x, *, dims: permute_op(ct, dims=_inverse(dims))),
    lowering=View(lambda i, src, dst, *, dims: tuple(i[p] for p in _inverse(dims))),
    grad_name="PermuteBackward0",
)


@by_shape
def permute(input: Any, *order: Any, dims: Sequence[int] | None = None) -> Any:
    """The dims of ``input`` in another order."""
    given = needed_sizes_of(order, dims)
    order = tuple(normalize_dim(d, input.ndim, "permute") for d in given)
    if sorted(order) != list(range(input.ndim)):
        raise ShapeError(
            f"permute: {list(given)} does not name each of {input.ndim} dims once, "
            f"at {format_locs(here())}"
        )
    if order == tuple(range(input.ndim)):
        return same_view(input, permute_op, dims=order)
    return permute_op(input, dims=order)


@by_shape
def movedim(input: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """The dims ``source`` moved to ``destination``; the others keep their order.

    >>> import staticflow as sf
    >>> sf.movedim(sf.zeros(2, 3, 4), 0, -1).shape
    (3, 4, 2)
    """
    froms, tos = (as_sizes(d) for d in (source, destination))
    froms = tuple(normalize_dim(d, input.ndim, "movedim") for d in froms)
    tos = tuple(normalize_dim(d, input.ndim, "movedim") for d in tos)
    if len(froms) != len(tos) or len(set(froms)) != len(froms) or len(set(tos)) != len(tos):
        raise ShapeError(
            f"movedim: {source} to {destination} does not move each of some dims to a place of "
            f"its own, at {format_locs(here())}"
        )
    rest = iter(d for d in range(input.ndim) if d not in froms)
    moved = dict(zip(tos, froms, strict=True))
    return permute(input, [moved[d] if d in moved else next(rest) for d in range(input.ndim)])


moveaxis = movedim


# -- transpose ----------------------------------------------------------------------------------


def swap(items: Sequence[Any], dim0: int, dim1: int) -> tuple[Any, ...]:
    """``items`` with two exchanged."""
    order = list(items)
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return tuple(order)


transpose_op: Op = Op(
    name="transpose",
    doc="``x`` with ``dim0`` and ``dim1`` exchanged.",
    infer=lambda facts, x, *, dim0, dim1: TensorType(x.dtype, swap(x.shape, dim0, dim1)),
    reference=lambda xp, x, *, dim0, dim1: x.swapaxes(dim0, dim1),
    vjp=per_arg(lambda ct, out, x, *, dim0, dim1: transpose_op(ct, dim0=dim0, dim1=dim1)),
    lowering=View(lambda i, src, dst, *, dim0, dim1: swap(i, dim0, dim1)),
    grad_name="TransposeBackward0",
)

t_op: Op = Op(
    name="t",
    doc="The transpose of a matrix.",
    infer=lambda facts, x: TensorType(x.dtype, x.shape[::-1]),
    reference=lambda xp, x: x.T,
    vjp=per_arg(lambda ct, out, x: t_op(ct)),
    lowering=View(lambda i, src, dst: i[::-1]),
    grad_name="TBackward0",
)


@by_shape
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """``input`` with two dims exchanged."""
    a, b = (normalize_dim(d, input.ndim, "transpose") for d in (dim0, dim1))
    if a == b and input.ndim:
        return same_view(input, transpose_op, dim0=a, dim1=b)
    return transpose_op(input, dim0=a, dim1=b) if input.ndim else input.view(())


swapaxes = swapdims = transpose


@by_shape
def t(input: Any) -> Any:
    """The transpose of a matrix; vectors and scalars as they are."""
    if input.ndim > 2:
        raise ShapeError(
            f"t: takes at most 2 dims, not {input.ndim}; name them: input.transpose(0, 1), "
            f"at {format_locs(here())}"
        )
    return t_op(input) if input.ndim == 2 else permute(input, tuple(range(input.ndim)))


@by_shape
def reverse_dims(x: Any) -> Any:
    """The dims in opposite order: what ``x.T`` is."""
    return permute(x, tuple(range(x.ndim))[::-1])


@by_shape
def mT(x: Any) -> Any:
    """The last two dims exchanged."""
    if x.ndim < 2:
        raise ShapeError(f"mT: takes 2 dims at least, not {x.ndim}, at {format_locs(here())}")
    return transpose(x, -2, -1)


adjoint = mT


@by_shape
def H(x: Any) -> Any:
    """The transpose of a matrix: no dtype here is complex, so nothing is conjugated."""
    if x.ndim not in (0, 2):
        raise ShapeError(f"H: takes a matrix, not {x.ndim} dims, at {format_locs(here())}")
    return transpose(x, 0, 1) if x.ndim else x


# -- flip ---------------------------------------------------------------------------------------

flip_op: Op = Op(
    name="flip",
    doc="The elements in opposite order along ``dims``.",
    infer=lambda facts, x, *, dims: x,
    reference=lambda xp, x, *, dims: xp.flip(x, dims).copy(),
    vjp=per_arg(lambda ct, out, x, *, dims: flip_op(ct, dims=dims)),
    lowering=View(
        lambda i, src, dst, *, dims: tuple(
            d - 1 - p if axis in dims else p for axis, (p, d) in enumerate(zip(i, src, strict=True))
        )
    ),
    numpy="small",
    exact=True,
    grad_name="FlipBackward0",
)


@by_shape
def flip(input: Any, *along: Any, dims: Sequence[int] | None = None) -> Any:
    """The elements in opposite order along ``dims``; a copy.

    >>> import staticflow as sf
    >>> sf.flip(sf.tensor([[1, 2], [3, 4]]), [1])
    tensor([[2, 1],
            [4, 3]])
    """
    return flip_op(input, dims=normalize_dims(needed_sizes_of(along, dims), input.ndim, "flip"))


@by_shape
def fliplr(input: Any) -> Any:
    """The columns in opposite order."""
    if input.ndim < 2:
        raise ShapeError(
            f"fliplr: takes 2 dims at least, not {input.ndim}, at {format_locs(here())}"
        )
    return flip(input, 1)


@by_shape
def flipud(input: Any) -> Any:
    """The rows in opposite order."""
    if input.ndim < 1:
        raise ShapeError(
            f"flipud: takes 1 dim at least, not {input.ndim}, at {format_locs(here())}"
        )
    return flip(input, 0)


@by_shape
def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """``input`` turned ``k`` times by 90 degrees in the plane of two ``dims``, from the first to
    the second.

    >>> import staticflow as sf
    >>> sf.rot90(sf.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    a, b = (normalize_dim(d, input.ndim, "rot90") for d in dims)
    if a == b:
        raise ShapeError(f"rot90: dim {a} is named twice, at {format_locs(here())}")
    quarters = k % 4
    if quarters == 2:
        return flip(input, a, b)
    if quarters == 0:
        return flip(input, ())
    return transpose(flip(input, b), a, b) if quarters == 1 else flip(transpose(input, a, b), b)
