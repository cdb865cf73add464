"""Walks along a dim with a state, and the linear recurrences that derivatives of products are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.graph.dims import Size
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.reduce import longest, wide
from staticflow.ops.declaring.declare import per_arg
from staticflow.ops.declaring.lowering import LoopNest

__all__ = ["recurrence_op", "running", "same_type", "shift_op", "walk"]


def same_type(facts: Facts, x: TensorType, *others: TensorType, **attrs: Any) -> TensorType:
    """The type rule of what gives an element for each."""
    return x


def running(
    start: float, step: Callable[..., Any], before: bool = False, *, exact: bool = False
) -> LoopNest:
    """The loop nest of ``state = step(k, state, *elements)`` along ``dim``, where each state is
    stored, or with ``before`` the one that the step began with. An ``exact`` state is of 64 bits:
    of a million equal numbers the running sum in float32 is wrong by a hundredth."""

    def emit(nest: Any) -> None:
        k, dim = nest.k, nest.attrs["dim"]
        n: Size = nest.out_shape(0)[dim]
        dtype = (longest if exact else wide)(nest.out_type(0).dtype)
        first = nest.attrs.get("fill", start)
        with nest.rows(nest.out_shape(0), dim) as at:
            state = k.var(k.const(first if dtype.is_floating else int(first), dtype))
            with k.loop("j", n) as j:
                position = at(n - 1 - j if nest.attrs.get("reverse") else j)
                elements = [k.cast(nest.load(i, position), dtype) for i in range(nest.n_in)]
                if before:
                    nest.store(0, position, state)
                k.set(state, step(k, state, *elements))
                if not before:
                    nest.store(0, position, state)

    return LoopNest(emit)


def walk(
    xp: Any, fn: Callable[..., Any], dim: int, reverse: bool, *xs: Any, exact: bool = False
) -> Any:
    """``fn`` of arrays in the dtype that accumulates, ``exact`` or not, with ``dim`` in front and
    in the order of the walk; its result as the first of ``xs`` is."""

    def turn(x: Any) -> Any:
        return xp.flip(x, 0) if reverse else x

    dtype = (longest if exact else wide)(dtype_of(xs[0].dtype)).numpy
    out = fn(*(turn(xp.moveaxis(x, dim, 0)).astype(dtype) for x in xs))
    return xp.ascontiguousarray(xp.moveaxis(turn(out), 0, dim).astype(xs[0].dtype))


shift_op: Op = Op(
    name="shift",
    doc="Each element one position on along ``dim``, back with ``reverse``; ``fill`` at the start.",
    infer=same_type,
    reference=lambda xp, x, *, dim, fill, reverse: walk(
        xp, lambda x: xp.concatenate([xp.full_like(x[:1], fill), x[:-1]]), dim, reverse, x
    ),
    vjp=per_arg(
        lambda ct, out, x, *, dim, fill, reverse: shift_op(
            ct, dim=dim, fill=0.0, reverse=not reverse
        )
    ),
    lowering=running(0.0, lambda k, state, x: x, before=True),
    numpy="slower",
    grad_name="ShiftBackward0",
)


def _recurrence_reference(xp: Any, b: Any, a: Any, *, dim: int, reverse: bool) -> Any:
    def run(b: Any, a: Any) -> Any:
        out = b.copy()
        for j in range(1, len(b)):
            out[j] += a[j] * out[j - 1]
        return out

    return walk(xp, run, dim, reverse, b, a, exact=True)


def _recurrence_vjp(
    needs: Sequence[bool], ct: Any, out: Any, b: Any, a: Any, *, dim: int, reverse: bool
) -> list[Any]:
    back = shift_op(a, dim=dim, fill=0.0, reverse=not reverse)
    total = recurrence_op(ct, back, dim=dim, reverse=not reverse)
    return [total, total * shift_op(out, dim=dim, fill=0.0, reverse=reverse) if needs[1] else None]


recurrence_op: Op = Op(
    name="recurrence",
    doc="``h[j] = b[j] + a[j] * h[j - 1]`` along ``dim``, with ``reverse`` from the end.",
    infer=same_type,
    reference=_recurrence_reference,
    vjp=_recurrence_vjp,
    lowering=running(0.0, lambda k, h, b, a: k.add(b, k.mul(a, h)), exact=True),
    kinds="f",
    promote="common",
    grad_name="RecurrenceBackward0",
    numpy="slower",
)
