"""Views that repeat dims of size 1, and the shape in which several tensors meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.errors import ShapeError
from staticflow.graph.dims import Size, same, same_shape
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.basics.view import same_view, stretchable, stretching_ones
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import per_arg, sum_to
from staticflow.ops.declaring.lowering import Index, View
from staticflow.ops.declaring.sizes import needed_sizes_of, several_of

__all__ = [
    "broadcast_tensors", "broadcast_to", "common_shape", "expand", "expand_as", "expand_op", "meet",
]  # fmt: skip


def _expand_infer(facts: Facts, x: TensorType, *, shape: Shape) -> TensorType:
    if len(shape) < x.ndim:
        raise ShapeError(f"{x} has more dims than {list(shape)}")
    for have, want in zip(reversed(x.shape), reversed(shape), strict=False):
        if have != 1:
            facts.equal(
                have, want, f"the sizes of {x} and of {list(shape)}, to which it should stretch"
            )
    return TensorType(x.dtype, shape)


def _expand_source(i: Index, src: Shape, dst: Shape, *, shape: Shape) -> Index:
    extra = len(dst) - len(src)
    return tuple(0 if d == 1 else i[extra + axis] for axis, d in enumerate(src))


def _expand_array(xp: Any, x: Any, *, shape: Any) -> Any:
    if shape == x.shape:
        return x[...]
    out = xp.broadcast_to(x, shape)
    if xp is np and x.flags.writeable:  # as parts of it may be, that hold no element twice
        out.flags.writeable = True
    return out


expand_op = Op(
    name="expand",
    doc="Dims of size 1 repeated to ``shape``, new dims in front.",
    infer=_expand_infer,
    reference=_expand_array,
    vjp=per_arg(lambda ct, out, x, *, shape: sum_to(ct, x.__sf_shape__)),
    lowering=View(_expand_source),
    grad_name="ExpandBackward0",
)


@by_shape
def expand(x: Any, *sizes: Any, size: Sequence[Size] | None = None) -> Any:
    """``x`` with its dims of size 1 repeated; -1 keeps a size."""
    sizes = needed_sizes_of(sizes, size)
    extra = len(sizes) - x.ndim
    if any(isinstance(s, int) and s == -1 for s in sizes[: max(extra, 0)]):
        raise ShapeError(
            f"expand: {list(sizes)} has a -1 where the tensor, of shape {list(x.shape)}, has no "
            f"dim to keep the size of, at {format_locs(here())}"
        )
    sizes = tuple(
        x.shape[i - extra] if isinstance(s, int) and s == -1 and i >= extra else s
        for i, s in enumerate(sizes)
    )
    if same_shape(sizes, x.shape):
        return same_view(x, expand_op, shape=sizes)
    return expand_op(stretchable(x, sizes) if extra >= 0 else x, shape=sizes)


@by_shape
def expand_as(x: Any, other: Any) -> Any:
    """``x`` with its dims of size 1 repeated to the shape of ``other``."""
    return expand(x, other.shape)


@by_shape
def broadcast_to(input: Any, shape: Sequence[Size]) -> Any:
    """``input`` with its dims of size 1 repeated to ``shape``."""
    return expand(input, shape)


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """The tensors, each repeated to the shape in which they meet.

    >>> import staticflow as sf
    >>> [x.shape for x in sf.broadcast_tensors(sf.zeros(3, 1), sf.zeros(4))]
    [(3, 4), (3, 4)]
    """
    several = several_of(tensors)
    shape = common_shape([x.shape for x in several], "broadcast_tensors")
    return tuple(expand(x, shape) for x in several)


def common_shape(shapes: Sequence[Shape], what: str) -> Shape:
    """The shape in which several meet. What is not known yet, the ops that expand to it assume."""
    try:
        return Facts().broadcast(stretching_ones(shapes))
    except ShapeError as error:
        raise ShapeError(f"{what}: {error}, at {format_locs(here())}") from None


def stretches_to(x: Any, shape: Shape, what: str) -> Any:
    """``x``, a number or a tensor that broadcasts to ``shape``, which does not grow by it.

    Raises `ShapeError` that calls it ``what`` where it does not fit.
    """
    own = tuple(getattr(x, "shape", ()))
    met = common_shape([own, shape], what)
    if len(met) != len(shape) or any(
        same(b, 1) and not same(a, 1) for a, b in zip(met, shape, strict=True)
    ):
        raise ShapeError(
            f"{what} has shape {list(own)}, which does not broadcast to {list(shape)}, "
            f"at {format_locs(here())}"
        )
    return x


def meet(what: str, *tensors: Any, kept: int = 0) -> tuple[Any, ...]:
    """The tensors, with a size of 1 for those that are 1 at most and are to stretch, but for the
    last ``kept`` dims: for ops that broadcast in their own loops, where only a known 1 stretches.
    """
    if not any(x.__sf_mode__.rank for x in tensors):
        return tensors
    ends = [x.ndim - min(kept, x.ndim) for x in tensors]
    lead = common_shape([x.shape[:end] for x, end in zip(tensors, ends, strict=True)], what)
    return tuple(
        stretchable(x, (*lead, *x.shape[end:])) for x, end in zip(tensors, ends, strict=True)
    )
