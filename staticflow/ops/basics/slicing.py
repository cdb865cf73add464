"""Slices: the elements at regular positions, and how they are put back."""

from __future__ import annotations

import operator
from math import inf
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.errors import IndexRangeError, ShapeError
from staticflow.graph.dims import Dim, Size, ceil_div, dim_max, dim_min, is_provably_ge
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.basics.arithmetic import cast, where
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.view import unsqueeze, unsqueeze_op, with_ones
from staticflow.ops.declaring.declare import normalize_dim, per_arg, strict
from staticflow.ops.declaring.late import size_of
from staticflow.ops.declaring.lowering import Index, LoopNest, View
from staticflow.ops.declaring.required import require_shape
from staticflow.ops.declaring.sizes import is_symbolic

__all__ = [
    "Bounds",
    "as_position",
    "bounds",
    "clamp_bound",
    "embed_op",
    "from_front",
    "select_op",
    "select_scatter",
    "slice_op",
    "slice_scatter",
    "slice_scatter_op",
]  # fmt: skip

# -- slice and its transpose --------------------------------------------------------------------


def _slice_infer(
    facts: Facts, x: TensorType, *, start: Index, size: Shape, step: tuple[int, ...]
) -> TensorType:
    _inside(facts, x, start, size, step)
    return TensorType(x.dtype, size)


def _inside(facts: Facts, x: TensorType, start: Index, size: Shape, step: tuple[int, ...]) -> None:
    """Whether ``size`` elements from ``start`` on lie in ``x``."""
    for axis, (n, a, s, by) in enumerate(zip(x.shape, start, size, step, strict=True)):
        facts.at_least(by, 1, f"the step along dim {axis} of {x}")
        facts.at_least(s, 0, f"the number of elements taken from dim {axis} of {x}")
        facts.at_least(a, 0, f"the first position in dim {axis} of {x}")
        end = a + (s - 1) * by + 1 if s != 0 else a
        facts.at_least(n, end, f"dim {axis} of {x}, read up to {end}")


def _place(index: Index, start: Index, step: tuple[int, ...]) -> Index:
    """Where the element at ``index`` of a slice lies in the whole."""
    return tuple(a + i * by for a, i, by in zip(start, index, step, strict=True))


def _slices(start: Any, size: Any, step: Any) -> tuple[slice, ...]:
    return tuple(slice(a, a + s * by, by) for a, s, by in zip(start, size, step, strict=True))


def _slice_span(shape: Any, *, start: Any, size: Any, step: Any) -> tuple[int, int, int] | None:
    """The dim of which a slice takes neighbours, and which, if it takes all of the others."""
    (dim, *others) = [d for d, n in enumerate(shape) if size[d] != n] or [0]
    if others or not shape or step[dim] != 1:
        return None
    return dim, start[dim], start[dim] + size[dim]


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
    lowering=View(lambda i, src, dst, *, start, size, step: _place(i, start, step), _slice_span),
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
    nest.zero()
    with nest.loops(nest.in_shape(0), "parallel") as index:
        nest.store(0, _place(index, start, step), nest.load(0, index))


embed_op: Op = Op(
    name="embed",
    doc="Zeros of ``shape`` with ``x`` from ``start`` on at every ``step``-th position; the "
    "transpose of slice.",
    infer=_embed_infer,
    reference=strict(_embed_infer, _embed_reference),
    vjp=per_arg(
        lambda ct, out, x, *, shape, start, step: slice_op(ct, start=start, size=x.shape, step=step)
    ),
    lowering=LoopNest(_embed_emit, inlines=True),
    numpy="small",
    exact=True,
    grad_name="SliceBackward0",
)


# -- bounds as Python reads them ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a slice of a dim selects: ``size`` positions from ``start`` on, every ``step``-th; where
    it goes ``back``, the last of them comes first."""

    start: Size
    size: Size
    step: int
    back: bool = False


def as_position(k: Any) -> Size | None:
    """An index as an int or a size, None if it is something else."""
    if isinstance(k, Dim):
        return k
    if isinstance(k, bool) or not hasattr(k, "__index__") or getattr(k, "shape", ()) != ():
        return None
    try:
        return operator.index(k)
    except TypeError:  # of a class, which has the method of its instances
        return None


_KNOWN = (int, type(None))


def _clip(i: Any, n: Size, default: Size, behind: int = 0) -> Size:
    """A slice's bound as Python reads it, and ``behind`` more, held in [0, n]."""
    if i is None:
        return default
    at = clamp_bound(i, n, behind) if is_symbolic(i) else as_position(i)
    if at is None or (isinstance(at, Dim) and is_provably_ge(0, at)):
        raise ShapeError(
            f"indexing: a slice's bound is {i!r}; it must be an int or a size that is not "
            f"negative, at {format_locs(here())}"
        )
    if is_symbolic(i):
        return at
    if isinstance(at, int) and at < 0:
        return dim_max(n + at + behind, 0)
    return dim_min(at + behind, n)


def clamp_bound(i: Any, n: Size, behind: int = 0) -> Dim:
    """A symbolic bound or start, from the front, and ``behind`` more, held in [0, n]."""
    return size_of((where(i < 0, i + n, i) + behind).clamp(0, n), most=n)


def bounds(key: slice, n: Size) -> Bounds:
    """What ``key`` selects of a dim of size ``n``."""
    by = 1 if key.step is None else operator.index(key.step)
    if by == 0:
        raise ShapeError(
            "indexing: a step of 0; it must be positive, or negative for the opposite order, "
            f"at {format_locs(here())}"
        )
    if isinstance(n, int) and type(key.start) in _KNOWN and type(key.stop) in _KNOWN:
        positions = range(*key.indices(n))
        if by > 0:
            return Bounds(positions.start, len(positions), by)
        return Bounds(positions[-1] if positions else 0, len(positions), -by, back=True)
    if by < 0:
        return _back(key, n, -by)
    lo = _clip(key.start, n, 0)
    hi = dim_max(_clip(key.stop, n, n), lo)
    return Bounds(lo, _count(hi - lo, by, _apart(key.start, key.stop)), by)


def _apart(low: Any, high: Any) -> float:
    """How far apart two bounds of a slice are at most, if they count from one end."""
    if isinstance(low, int) and isinstance(high, int) and (low < 0) == (high < 0):
        return high - low
    return inf


def _count(span: Size, by: int, most: float) -> Size:
    """How many elements there are in steps of ``by``: one at most where a step is as long as the
    ``span``, which is no longer than ``most``."""
    if isinstance(span, Dim) and (most <= by or (by > 1 and is_provably_ge(by, span))):
        return span if is_provably_ge(1, span) else dim_min(span, 1)
    return ceil_div(span, by)


def _back(key: slice, n: Size, by: int) -> Bounds:
    """What a slice with the step ``-by`` selects: down from what lies before ``above`` to
    ``below``."""
    below = _clip(key.stop, n, 0, behind=1)
    above = dim_max(_clip(key.start, n, n, behind=1), below)
    size = _count(above - below, by, _apart(key.stop, key.start))
    # where there are none the last would lie above the dim
    last = below if by == 1 else dim_min(above - 1 - (size - 1) * by, above)
    return Bounds(last, size, by, back=True)


def from_front(at: Size, n: Size, axis: int) -> Size:
    """An index into a dim of size ``n``, counted from its front."""
    if isinstance(at, int):
        if isinstance(n, int) and not -n <= at < n:
            raise IndexRangeError(
                f"indexing: the index {at} is outside dim {axis} of size {n}, "
                f"at {format_locs(here())}"
            )
        return n + at if at < 0 else at
    return at


# -- one position of a dim
# ---------------------------------------------------------------------------


def _select_infer(facts: Facts, x: TensorType, *, dim: int, index: Size) -> TensorType:
    facts.at_least(index, 0, f"the index in dim {dim} of {x}")
    facts.at_least(x.shape[dim], index + 1, f"dim {dim} of {x}, read at the index {index}")
    return TensorType(x.dtype, (*x.shape[:dim], *x.shape[dim + 1 :]))


def _select_vjp(ct: Any, out: Any, x: Any, *, dim: int, index: Size) -> Any:
    start = tuple(index if axis == dim else 0 for axis in range(x.ndim))
    row = unsqueeze_op(ct, dims=(dim,))
    return embed_op(row, shape=x.shape, start=start, step=(1,) * x.ndim)


select_op: Op = Op(
    name="select",
    doc="What stands at ``index`` of ``dim``.",
    infer=_select_infer,
    reference=lambda xp, x, *, dim, index: x[(slice(None),) * dim + (index, ...)],
    vjp=per_arg(_select_vjp),
    lowering=View(
        lambda i, src, dst, *, dim, index: with_ones(i, (dim,), index),
        lambda shape, *, dim, index: (dim, index, index + 1),
    ),
    grad_name="SelectBackward0",
)


# -- a slice put into its place -------------------------------------------------------------------


def _slice_scatter_infer(
    facts: Facts, x: TensorType, src: TensorType, *, start: Index, step: tuple[int, ...]
) -> TensorType:
    if src.dtype is not x.dtype or src.ndim != x.ndim:
        raise ShapeError(f"{src} cannot be a slice of {x}: dims or dtypes differ")
    _inside(facts, x, start, src.shape, step)
    return x


def _slice_scatter_reference(xp: Any, x: Any, src: Any, *, start: Any, step: Any) -> Any:
    out = x.copy()
    out[_slices(start, src.shape, step)] = src
    return out


def _slice_scatter_emit(nest: Any) -> None:
    start, step = nest.attrs["start"], nest.attrs["step"]
    nest.copy(0)
    with nest.loops(nest.in_shape(1), "parallel") as index:
        nest.store(0, _place(index, start, step), nest.load(1, index))


slice_scatter_op: Op = Op(
    name="slice_scatter",
    doc="``x`` with ``src`` in place of its elements from ``start`` on, at every ``step``-th.",
    infer=_slice_scatter_infer,
    reference=strict(_slice_scatter_infer, _slice_scatter_reference),
    vjp=per_arg(
        lambda ct, out, x, src, *, start, step: slice_scatter_op(
            ct, zeros_like(src), start=start, step=step
        ),
        lambda ct, out, x, src, *, start, step: slice_op(
            ct, start=start, size=src.shape, step=step
        ),
    ),
    lowering=LoopNest(_slice_scatter_emit),
    grad_name="SliceScatterBackward0",
)


def slice_scatter(
    input: Any,
    src: Any,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Any:
    """``input`` with ``src``, cast to its dtype, in place of ``input[start:end:step]`` along
    ``dim``; ``input`` is not changed.

    >>> import staticflow as sf
    >>> sf.slice_scatter(sf.zeros(4), sf.ones(2), start=1, end=3)
    tensor([0., 1., 1., 0.])
    """
    at = normalize_dim(dim, input.ndim, "slice_scatter")
    part = bounds(slice(start, end, step), input.shape[at])
    if part.back:
        raise ShapeError(
            f"slice_scatter: a step of {step}; it must be positive, flip(src, [dim]) turns the "
            f"source round, at {format_locs(here())}"
        )
    wanted = (*input.shape[:at], part.size, *input.shape[at + 1 :])
    src = require_shape(src, wanted, "slice_scatter: the source")
    begin = tuple(part.start if axis == at else 0 for axis in range(input.ndim))
    by = tuple(part.step if axis == at else 1 for axis in range(input.ndim))
    source = src if src.dtype is input.dtype else cast(src, dtype=input.dtype)
    return slice_scatter_op(input, source, start=begin, step=by)


def select_scatter(input: Any, src: Any, dim: int, index: Size) -> Any:
    """``input`` with ``src`` in place of ``input.select(dim, index)``; ``input`` is not changed."""
    at = normalize_dim(dim, input.ndim, "select_scatter")
    position = from_front(index, input.shape[at], at)
    return slice_scatter(input, unsqueeze(src, at), at, position, position + 1)
