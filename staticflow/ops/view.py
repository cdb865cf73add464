"""Views: the same elements under another index."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from staticflow.errors import IndexRangeError, ShapeError
from staticflow.graph.dims import Dim, Size, ceil_div, dim_max, dim_min, is_provably_ge, prod
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.declare import normalize_dim, per_arg, strict, sum_to
from staticflow.ops.lowering import Index, LoopNest, View, delinear, linear

__all__ = [
    "cat", "embed_op", "expand", "flatten", "index", "narrow", "permute", "reshape", "slice_op",
    "squeeze", "stack", "t", "transpose", "unsqueeze",
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


# -- slice and its transpose --------------------------------------------------------------------


def _slice_infer(
    facts: Facts, x: TensorType, *, start: Index, size: Shape, step: tuple[int, ...]
) -> TensorType:
    _inside(facts, x, start, size, step)
    return TensorType(x.dtype, size)


def _inside(facts: Facts, x: TensorType, start: Index, size: Shape, step: tuple[int, ...]) -> None:
    """Whether ``size`` elements from ``start`` on lie in ``x``."""
    for axis, (n, a, s, by) in enumerate(zip(x.shape, start, size, step, strict=True)):
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
