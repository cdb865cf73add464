"""Tensors made larger by what they hold: mirrored, repeated or wrapped at their ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.dims import Size, dim_max, dim_min, floor_div, prod
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.declaring.array_modules import combine_at
from staticflow.ops.declaring.declare import per_arg, strict
from staticflow.ops.declaring.lowering import Index, LoopNest

__all__ = ["border_op", "unborder_op"]

# Where the element at position ``i`` (from ``-n`` to ``2 n``) comes from, in a dim of ``n``.


def _mirror(i: Size, n: Size) -> Size:
    back = dim_max(i, -i)
    return dim_min(back, 2 * (n - 1) - back)


def _repeat(i: Size, n: Size) -> Size:
    return dim_min(dim_max(i, 0), n - 1)


def _wrap(i: Size, n: Size) -> Size:
    return i + n - n * floor_div(i + n, n)


_SOURCES: dict[str, tuple[Callable[[Size, Size], Size], str]] = {
    "reflect": (_mirror, "reflect"),
    "replicate": (_repeat, "edge"),
    "circular": (_wrap, "wrap"),
}
"""The modes, and what NumPy calls them."""


def _reach(n: Size, mode: str) -> Size:
    """How many elements may stand at an end of a dim of ``n``, if any may."""
    return n - 1 if mode == "reflect" else n


def _infer(facts: Facts, x: TensorType, *, before: Shape, after: Shape, mode: str) -> TensorType:
    lead = x.ndim - len(before)
    sizes: list[Size] = []
    for d, (n, a, b) in enumerate(zip(x.shape[lead:], before, after, strict=True)):
        for count in (a, b):
            facts.at_least(count, 0, f"the number of elements beside dim {lead + d} of {x}")
            least = dim_min(count, 1) if mode == "replicate" else count
            what = f"what dim {lead + d} of {x} has for {count} elements beside it ({mode})"
            facts.at_least(_reach(n, mode), least, what)
        sizes.append(n + a + b)
    return TensorType(x.dtype, (*x.shape[:lead], *sizes))


def _pairs(ndim: int, before: Any, after: Any) -> list[tuple[int, int]]:
    return [(0, 0)] * (ndim - len(before)) + list(zip(before, after, strict=True))


def _reference(xp: Any, x: Any, *, before: Any, after: Any, mode: str) -> Any:
    return xp.pad(x, _pairs(x.ndim, before, after), mode=_SOURCES[mode][1])


def _rows(nest: Any, at: Index, sizes: Shape) -> Index:
    """Where the row ``at`` of the larger tensor, all dims but the last, comes from."""
    source, before = _SOURCES[nest.attrs["mode"]][0], nest.attrs["before"][:-1]
    lead = len(at) - len(before)
    each = zip(at[lead:], before, sizes[lead:-1], strict=True)
    return (*at[:lead], *(nest.name_size(source(i - a, n)) for i, a, n in each))


def _ends(nest: Any, n: Size) -> list[tuple[Size, Size]]:
    """Where the elements before and behind the last dim begin, and how many they are."""
    before, after = nest.attrs["before"][-1], nest.attrs["after"][-1]
    return [(start, count) for start, count in ((0, before), (before + n, after)) if count != 0]


def _emit(nest: Any) -> None:
    sizes, before = nest.in_shape(0), nest.attrs["before"][-1]
    n, source = sizes[-1], _SOURCES[nest.attrs["mode"]][0]
    with nest.loops(nest.out_shape(0)[:-1], "parallel") as at:
        row = _rows(nest, at, sizes)
        with nest.loops((n,), "parallel") as (j,):
            nest.store(0, (*at, before + j), nest.load(0, (*row, j)))
        for start, count in _ends(nest, n):
            with nest.loops((count,), "serial") as (j,):
                position = source(start + j - before, n)
                nest.store(0, (*at, start + j), nest.load(0, (*row, position)))


border_op: Op = Op(
    name="border",
    doc="The last dims with ``before`` and ``after`` more elements at their ends, of those that "
    "they have: backwards without the edge (reflect), the edge (replicate), or those of the other "
    "end (circular).",
    infer=_infer,
    reference=strict(_infer, _reference),
    vjp=per_arg(lambda ct, out, x, **attrs: unborder_op(ct, **attrs)),
    lowering=LoopNest(_emit),
    numpy="slower",
    grad_name="ReflectionPad2DBackward0",
)


# -- the way back -------------------------------------------------------------------------------


def _smaller(y: Any, before: Sequence[Any], after: Sequence[Any]) -> tuple[Any, ...]:
    lead = y.ndim - len(before)
    rest = zip(y.shape[lead:], before, after, strict=True)
    return (*y.shape[:lead], *(n - a - b for n, a, b in rest))


def _back_infer(
    facts: Facts, y: TensorType, *, before: Shape, after: Shape, mode: str
) -> TensorType:
    if y.dtype.kind == "b":
        raise DTypeError("not defined for bool")
    x = TensorType(y.dtype, _smaller(y, before, after))
    _infer(facts, x, before=before, after=after, mode=mode)
    return x


def _back_reference(xp: Any, y: Any, *, before: Any, after: Any, mode: str) -> Any:
    shape = _smaller(y, before, after)
    lead = y.ndim - len(before)
    own = shape[lead:]
    positions = xp.arange(prod(own)).reshape(own)
    positions = xp.pad(positions, _pairs(len(own), before, after), mode=_SOURCES[mode][1])
    out = xp.zeros((prod(shape[:lead]), prod(own)), y.dtype)
    key = slice(None), positions.reshape(-1)
    combine_at(xp, "add", out, key, y.reshape(out.shape[0], positions.size))
    return out.reshape(shape)


def _back_emit(nest: Any) -> None:
    k, out, sizes = nest.k, nest.out_shape(0), nest.in_shape(0)
    before = nest.attrs["before"]
    lead = len(sizes) - len(before)
    n, source = out[-1], _SOURCES[nest.attrs["mode"]][0]
    zero = k.const(0, nest.out_type(0).dtype)

    def add(position: Index, value: Any) -> None:
        nest.store(0, position, k.add(nest.load_out(0, position), value))

    with nest.loops(sizes[:lead], "parallel") as outer:
        with nest.loops(out[lead:], "parallel") as at:
            nest.store(0, (*outer, *at), zero)
        with nest.loops(sizes[lead:-1], "serial") as inner:  # in order: positions repeat
            at = (*outer, *inner)
            row = _rows(nest, at, out)
            with nest.loops((n,), "parallel") as (j,):
                add((*row, j), nest.load(0, (*at, before[-1] + j)))
            for start, count in _ends(nest, n):
                with nest.loops((count,), "serial") as (j,):
                    position = source(start + j - before[-1], n)
                    add((*row, position), nest.load(0, (*at, start + j)))


unborder_op: Op = Op(
    name="unborder",
    doc="The transpose of border: each element added to where it came from.",
    infer=_back_infer,
    reference=strict(_back_infer, _back_reference),
    vjp=per_arg(lambda ct, out, y, **attrs: border_op(ct, **attrs)),
    lowering=LoopNest(_back_emit),
    numpy="slower",
    grad_name="ReflectionPad2DBackwardBackward0",
)
