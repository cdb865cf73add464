"""Parts of tensors: slices, their transpose, indexing, and tensors joined."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from staticflow.errors import IndexRangeError, ShapeError
from staticflow.graph.dims import Dim, Size, ceil_div, dim_max, dim_min, is_provably_ge
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.declare import normalize_dim, per_arg, strict
from staticflow.ops.lowering import Index, LoopNest, View
from staticflow.ops.view import reshape, unsqueeze

__all__ = ["cat", "cat_op", "embed_op", "index", "narrow", "slice_op", "stack"]

# -- slice and its transpose --------------------------------------------------------------------


def _slice_infer(
    facts: Facts, x: TensorType, *, start: Index, size: Shape, step: tuple[int, ...]
) -> TensorType:
    _inside(facts, x, start, size, step)
    return TensorType(x.dtype, size)


def _inside(facts: Facts, x: TensorType, start: Index, size: Shape, step: tuple[int, ...]) -> None:
    """Whether ``size`` elements from ``start`` on lie in ``x``."""
    for axis, (n, a, s, by) in enumerate(zip(x.shape, start, size, step, strict=True)):
        if not is_provably_ge(s, 0):
            facts.equal(dim_max(s, 0), s, f"dim {axis} of {x} cannot give {s} elements")
        if not is_provably_ge(a, 0):
            facts.equal(dim_max(a, 0), a, f"dim {axis} of {x} starts at {a}")
        end = a + (s - 1) * by + 1 if s != 0 else a
        if not is_provably_ge(n, end):
            facts.equal(dim_max(n, end), n, f"dim {axis} of {x} reaches to {end}")


def _slices(start: Any, size: Any, step: Any) -> tuple[slice, ...]:
    return tuple(slice(a, a + s * by, by) for a, s, by in zip(start, size, step, strict=True))


def _slice_reference(xp: Any, x: Any, *, start: Any, size: Any, step: Any) -> Any:
    out = x[_slices(start, size, step)]
    if out.shape != size or not all(0 <= a <= n for a, n in zip(start, x.shape, strict=True)):
        raise ShapeError("a slice reaches outside")
    return out


slice_op: Op = Op(
    name="slice",
    doc="``size`` elements along each dim, from ``start`` on, every ``step``-th.",
    infer=_slice_infer,
    reference=_slice_reference,
    vjp=per_arg(
        lambda ct, out, x, *, start, size, step: embed_op(ct, shape=x.shape, start=start, step=step)
    ),
    lowering=View(
        lambda i, src, dst, *, start, size, step: tuple(
            a + p * by for a, p, by in zip(start, i, step, strict=True)
        )
    ),
    grad_name="SliceBackward0",
)


def _embed_infer(
    facts: Facts, x: TensorType, *, shape: Shape, start: Index, step: tuple[int, ...]
) -> TensorType:
    out = TensorType(x.dtype, shape)
    _inside(facts, out, start, x.shape, step)
    return out


def _embed_reference(xp: Any, x: Any, *, shape: Any, start: Any, step: Any) -> Any:
    out = xp.zeros(shape, dtype=x.dtype)
    out[_slices(start, x.shape, step)] = x
    return out


def _embed_emit(nest: Any) -> None:
    start, step = nest.attrs["start"], nest.attrs["step"]
    zero = nest.k.const(False if nest.out_type(0).dtype.kind == "b" else 0, nest.out_type(0).dtype)
    with nest.loops(nest.out_shape(0), "parallel") as index:
        nest.store(0, index, zero)
    with nest.loops(nest.in_shape(0), "parallel") as index:
        place = tuple(a + i * by for a, i, by in zip(start, index, step, strict=True))
        nest.store(0, place, nest.load(0, index))


embed_op: Op = Op(
    name="embed",
    doc="Zeros of ``shape`` with ``x`` from ``start`` on at every ``step``-th place; the transpose "
    "of slice.",
    infer=_embed_infer,
    reference=strict(_embed_infer, _embed_reference),
    vjp=per_arg(
        lambda ct, out, x, *, shape, start, step: slice_op(ct, start=start, size=x.shape, step=step)
    ),
    lowering=LoopNest(_embed_emit),
    grad_name="SliceBackward0",
)


def narrow(x: Any, dim: int, start: Size, length: Size) -> Any:
    """``length`` elements along ``dim`` from ``start`` on; a negative start counts from the end."""
    at = normalize_dim(dim, x.ndim, "narrow")
    if isinstance(start, int) and start < 0:
        start = x.shape[at] + start
    whole = list(x.shape)
    whole[at] = length
    begin: list[Size] = [0] * x.ndim
    begin[at] = start
    return slice_op(x, start=tuple(begin), size=tuple(whole), step=(1,) * x.ndim)


def _position(k: Any) -> Size | None:
    """An index as an int or a size, None if it is something else."""
    if isinstance(k, Dim):
        return k
    if isinstance(k, bool) or not hasattr(k, "__index__") or getattr(k, "shape", ()) != ():
        return None
    return operator.index(k)


def _clip(i: Any, n: Size, default: Size) -> Size:
    """A slice's bound as Python reads it, held in [0, n]."""
    if i is None:
        return default
    at = _position(i)
    if at is None or (isinstance(at, Dim) and is_provably_ge(0, at)):
        raise ShapeError(
            f"indexing: a slice's bound is {i!r}; it must be an int or a size that is not "
            f"negative, at {format_locs(here())}"
        )
    if isinstance(at, int) and at < 0:
        return dim_max(n + at, 0)
    return dim_min(at, n)


def _from_front(at: Size, n: Size, axis: int) -> Size:
    """An index into a dim of size ``n``, counted from its front."""
    if isinstance(at, int):
        if isinstance(n, int) and not -n <= at < n:
            raise IndexRangeError(
                f"indexing: the index {at} is outside dim {axis} of size {n}, "
                f"at {format_locs(here())}"
            )
        return n + at if at < 0 else at
    return at


def index(x: Any, key: Any) -> Any:
    """Basic indexing: ints, slices with a positive step, ``None`` and ``...``."""
    keys = key if isinstance(key, tuple) else (key,)
    used = sum(1 for k in keys if k is not None and k is not Ellipsis)
    if used > x.ndim:
        raise ShapeError(
            f"indexing: {used} indices for a tensor of {x.ndim} dims, at {format_locs(here())}"
        )
    fill = (slice(None),) * (x.ndim - used)
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys = (*keys[:at], *fill, *keys[at + 1 :])
    if any(k is Ellipsis for k in keys):
        raise ShapeError(f"indexing: ... may stand once, at {format_locs(here())}")
    start: list[Size] = []
    size: list[Size] = []
    step: list[int] = []
    shape: list[Size] = []
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        axis = len(start)
        n = x.shape[axis]
        position = None if isinstance(k, slice) else _position(k)
        if isinstance(k, slice):
            by = 1 if k.step is None else operator.index(k.step)
            if by < 1:
                raise ShapeError(
                    f"indexing: a step of {by}; it must be positive, at {format_locs(here())}"
                )
            lo = _clip(k.start, n, 0)
            hi = dim_max(_clip(k.stop, n, n), lo)
            start.append(lo)
            size.append(ceil_div(hi - lo, by))
            step.append(by)
            shape.append(size[-1])
        elif position is not None:
            start.append(_from_front(position, n, axis))
            size.append(1)
            step.append(1)
        else:
            raise ShapeError(
                f"indexing by {type(k).__name__}: use ints, slices, None and ...; to select by "
                f"values use sf.gather or sf.where, at {format_locs(here())}"
            )
    if tuple(size) != x.shape or any(s != 0 for s in start):
        x = slice_op(x, start=tuple(start), size=tuple(size), step=tuple(step))
    return reshape(x, tuple(shape))


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
                shape[axis] = facts.equal(shape[axis], size, f"the joined tensors' dim {axis}")
    return TensorType(xs[0].dtype, tuple(shape))


def _cat_vjp(needs: Sequence[bool], ct: Any, out: Any, *xs: Any, dim: int) -> list[Any]:
    parts, at = [], 0
    for need, x in zip(needs, xs, strict=True):
        parts.append(narrow(ct, dim, at, x.shape[dim]) if need else None)
        at = at + x.shape[dim]
    return parts


def _cat_emit(nest: Any) -> None:
    dim: int = nest.attrs["dim"]
    offset: Size = 0
    for i in range(nest.n_in):
        with nest.loops(nest.in_shape(i), "parallel") as at:
            place = (*at[:dim], at[dim] + offset, *at[dim + 1 :])
            nest.store(0, place, nest.load(i, at))
        offset = offset + nest.in_shape(i)[dim]


cat_op = Op(
    name="cat",
    doc="Tensors one behind the other along ``dim``.",
    infer=_cat_infer,
    reference=lambda xp, *xs, dim: xp.concatenate(xs, axis=dim),
    vjp=_cat_vjp,
    lowering=LoopNest(_cat_emit),
    promote="common",
    grad_name="CatBackward0",
)


def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """The ``tensors`` joined along ``dim``; their other sizes agree."""
    if not tensors:
        raise ShapeError(f"cat: takes at least one tensor, at {format_locs(here())}")
    return cat_op(*tensors, dim=normalize_dim(dim, tensors[0].ndim, "cat"))


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """The ``tensors``, of equal shapes, side by side along a new ``dim``."""
    return cat([unsqueeze(x, dim) for x in tensors], dim)
