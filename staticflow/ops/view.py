"""Views of whole tensors: the same elements under another index."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dims import prod
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.declare import normalize_dim, per_arg, sum_to
from staticflow.ops.lowering import Index, View, delinear, linear

__all__ = [
    "expand", "expand_op", "flatten", "permute", "permute_op", "reshape", "reshape_op", "squeeze",
    "t", "transpose", "unsqueeze",
]  # fmt: skip


def _sizes(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """``f(2, 3)`` and ``f((2, 3))`` alike."""
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple) else args


# -- reshape ------------------------------------------------------------------------------------


def _reshape_infer(facts: Facts, x: TensorType, *, shape: Shape) -> TensorType:
    facts.equal(x.size, prod(shape), f"{x} as {list(shape)} has as many elements")
    return TensorType(x.dtype, shape)


reshape_op = Op(
    name="reshape",
    doc="The same elements, in row-major order, in another ``shape``.",
    infer=_reshape_infer,
    reference=lambda xp, x, *, shape: x.reshape(shape),
    vjp=per_arg(lambda ct, out, x, *, shape: reshape(ct, x.shape)),
    lowering=View(lambda i, src, dst, *, shape: delinear(linear(i, dst), src)),
    grad_name="ViewBackward0",
)


def reshape(x: Any, *shape: Any) -> Any:
    """The elements of ``x`` in another shape; one size may be -1 and is worked out.

    >>> import staticflow as sf
    >>> sf.reshape(sf.arange(6), 2, -1).shape
    (2, 3)
    """
    sizes = _sizes(shape)
    missing = [i for i, s in enumerate(sizes) if isinstance(s, int) and s < 0]
    if missing:
        known = prod(s for i, s in enumerate(sizes) if i not in missing)
        wrong = (
            "leaves more than one size open" if len(missing) > 1
            else f"has the negative size {sizes[missing[0]]}" if sizes[missing[0]] != -1
            else "leaves a size open that could be any size" if known == 0
            else None
        )  # fmt: skip
        if wrong:
            raise ShapeError(
                f"reshape: {list(sizes)} {wrong}; the tensor is of shape {list(x.shape)}, "
                f"at {format_locs(here())}"
            )
        rest = prod(x.shape) // known
        sizes = tuple(rest if i in missing else s for i, s in enumerate(sizes))
    return x if sizes == x.shape else reshape_op(x, shape=sizes)


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dims ``start_dim`` to ``end_dim`` (inclusive) as one."""
    a = normalize_dim(start_dim, x.ndim, "flatten")
    b = normalize_dim(end_dim, x.ndim, "flatten")
    if a > b:
        raise ShapeError(
            f"flatten: start_dim {start_dim} lies behind end_dim {end_dim}, "
            f"at {format_locs(here())}"
        )
    return reshape(x, (*x.shape[:a], prod(x.shape[a : b + 1]), *x.shape[b + 1 :]))


def squeeze(x: Any, dim: int | None = None) -> Any:
    """Without ``dim`` if its size is 1, or without every dim whose size is 1."""
    if dim is None:
        return reshape(x, tuple(d for d in x.shape if d != 1))
    at = normalize_dim(dim, x.ndim, "squeeze")
    keep = x.ndim == 0 or x.shape[at] != 1
    return x if keep else reshape(x, (*x.shape[:at], *x.shape[at + 1 :]))


def unsqueeze(x: Any, dim: int) -> Any:
    """With a new dim of size 1 at ``dim``."""
    at = normalize_dim(dim, x.ndim + 1, "unsqueeze")
    return reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


# -- permute ------------------------------------------------------------------------------------


def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dims.index(i) for i in range(len(dims)))


permute_op: Op = Op(
    name="permute",
    doc="Dim ``i`` of the result is dim ``dims[i]`` of ``x``.",
    infer=lambda facts, x, *, dims: TensorType(x.dtype, tuple(x.shape[d] for d in dims)),
    reference=lambda xp, x, *, dims: x.transpose(dims),
    vjp=per_arg(lambda ct, out, x, *, dims: permute_op(ct, dims=_inverse(dims))),
    lowering=View(lambda i, src, dst, *, dims: tuple(i[p] for p in _inverse(dims))),
    grad_name="PermuteBackward0",
)


def permute(x: Any, *dims: Any) -> Any:
    """The dims of ``x`` in another order."""
    order = tuple(normalize_dim(d, x.ndim, "permute") for d in _sizes(dims))
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError(
            f"permute: {list(_sizes(dims))} does not name each of {x.ndim} dims once, "
            f"at {format_locs(here())}"
        )
    return x if order == tuple(range(x.ndim)) else permute_op(x, dims=order)


def transpose(x: Any, dim0: int, dim1: int) -> Any:
    """``x`` with two dims exchanged."""
    a, b = (normalize_dim(d, x.ndim, "transpose") for d in (dim0, dim1))
    order = list(range(x.ndim))
    if order:
        order[a], order[b] = b, a
    return permute(x, order)


def t(x: Any) -> Any:
    """The transpose of a matrix; vectors and scalars as they are."""
    if x.ndim > 2:
        raise ShapeError(
            f"t: takes at most 2 dims, not {x.ndim}; name them: x.transpose(0, 1), "
            f"at {format_locs(here())}"
        )
    return transpose(x, 0, 1) if x.ndim == 2 else x


# -- expand -------------------------------------------------------------------------------------


def _expand_infer(facts: Facts, x: TensorType, *, shape: Shape) -> TensorType:
    if len(shape) < x.ndim:
        raise ShapeError(f"{x} has more dims than {list(shape)}")
    for have, want in zip(reversed(x.shape), reversed(shape), strict=False):
        if have != 1:
            facts.equal(have, want, f"{x} stretches to {list(shape)}")
    return TensorType(x.dtype, shape)


def _expand_source(i: Index, src: Shape, dst: Shape, *, shape: Shape) -> Index:
    extra = len(dst) - len(src)
    return tuple(0 if d == 1 else i[extra + axis] for axis, d in enumerate(src))


expand_op = Op(
    name="expand",
    doc="Dims of size 1 repeated to ``shape``, new dims in front.",
    infer=_expand_infer,
    reference=lambda xp, x, *, shape: xp.broadcast_to(x, shape),
    vjp=per_arg(lambda ct, out, x, *, shape: sum_to(ct, x.shape)),
    lowering=View(_expand_source),
    grad_name="ExpandBackward0",
)


def expand(x: Any, *shape: Any) -> Any:
    """``x`` with its dims of size 1 repeated; -1 keeps a size."""
    sizes = _sizes(shape)
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
    return x if sizes == x.shape else expand_op(x, shape=sizes)
