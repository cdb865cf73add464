"""Loops whose carries are numbers: one kernel, with the state in registers, and with the loops and
branches that are in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from staticflow.codegen.kernel import ENDLESS, Cast, Kernel, Operand, Reg
from staticflow.codegen.math import Scalars
from staticflow.codegen.values import Values
from staticflow.graph.dims import Dim, Size, dim_min, is_provably_ge
from staticflow.graph.graph import Graph, regions_of
from staticflow.graph.node import Node, item
from staticflow.graph.types import types_of
from staticflow.ops.cond import cond_op
from staticflow.ops.loop import Loop, loop_ops
from staticflow.ops.lowering import Index

__all__ = ["lower_state"]

_STRETCH = (1 << 14, 1 << 6, 1 << 3)
"""Trips between two looks whether the user wants to stop: of a loop without loops in it, of one
around such loops, and farther out. A look takes some ten nanoseconds, a trip one to a thousand;
those of nested loops multiply."""

_ROOM = 1 << 8
"""Rows for which there is room at least when a stretch of trips begins that stacks them."""


def lower_state(k: Scalars, body: Graph, names: Mapping[Node, str], outs: Sequence[str]) -> Kernel:
    """The kernel of a ``loop`` cluster: ``body`` is a loop of the graph, and its results."""
    node = body.outputs[0].args[0]
    loop = Loop.of(node)
    stacks = {
        o.attrs["index"]: name
        for o, name in zip(body.outputs, outs, strict=True)
        if o.attrs["index"] >= loop.carries and o.tensor_type.size != 0
    }
    values = Values(k, names, {p: ((), k.load(names[p], 0)) for p in body.params if _is_number(p)})
    last = _run(k, node, values, names, stacks)
    for o, name in zip(body.outputs, outs, strict=True):
        if o.attrs["index"] < loop.carries:
            k.store(name, 0, last[o.attrs["index"]])
    return k.kernel("loop")


def _is_number(node: Node) -> bool:
    return not node.tensor_type.shape


def _run(
    k: Scalars, node: Node, around: Values, arrays: Mapping[Node, str], stacks: Mapping[int, str]
) -> list[Reg]:
    """Emit a loop in the block of ``around``; gives its last carries. ``arrays`` are the buffers
    of its operands, ``stacks`` those of its ys."""
    loop = Loop.of(node)
    carries, xs, captured = loop.operands(list(zip(loop.body.params, node.args, strict=True)))
    fixed: dict[Node, tuple[Index, Operand]] = {
        p: ((), around.at(a, ())) for p, a in captured if _is_number(p)
    }
    buffers = {p: arrays[a] for p, a in captured if not _is_number(p)}
    state = [k.var(around.at(a, ())) for _, a in carries]
    end = ENDLESS if loop.length is None else loop.length
    growing = [name for name in stacks.values() if k.buffers[name].access == "grows"]
    with _trips(k, end, state[0] if loop.binds else None, _depth(loop.body), growing) as trip:
        row: Size = end - 1 - trip if loop.reverse else trip
        known = fixed | {p: ((), v) for (p, _), v in zip(carries, state, strict=True)}
        known |= {p: ((), k.load(arrays[a], row)) for p, a in xs if _is_number(p)}
        values = Values(k, buffers, known)
        _emit_nested(k, loop.body, values, buffers)
        ends, ys = loop.results(loop.body.outputs)
        news = [values.at(o, ()) for o in ends]
        rows = [(name, values.at(ys[i - loop.carries], ())) for i, name in stacks.items()]
        for name, value in rows:
            k.store(name, row, value)
        # a carry that is another one's value of before is set after that may have changed
        news = [_kept(k, v) if v in state else v for v in news]
        for var, new in zip(state, news, strict=True):
            k.set(var, new)
    return [k.freeze(v) for v in state]


@contextmanager
def _trips(
    k: Scalars, end: Size, going: Reg | None, depth: int, growing: Sequence[str]
) -> Iterator[Dim]:
    """A loop, in stretches between which it looks whether the user wants to stop, and makes room
    for rows of what is ``growing``: that costs a trip nothing. ``depth`` loops are nested in it."""
    stretch = _STRETCH[min(depth, len(_STRETCH) - 1)]
    if growing:
        stretch = min(stretch, _ROOM)
    if is_provably_ge(stretch, end):
        _reserve(k, growing, end)
        with k.loop("t", end, going=going) as trip:
            yield trip
        return
    with k.loop("s", end, step=stretch, kind="long", going=going) as begin:
        stop = begin + stretch if end == ENDLESS else dim_min(begin + stretch, end)
        _reserve(k, growing, stop)
        with k.loop("t", stop, lo=begin, going=going) as trip:
            yield trip


def _reserve(k: Scalars, growing: Sequence[str], rows: Size) -> None:
    for buffer in growing:
        k.reserve(buffer, rows)


def _depth(body: Graph) -> int:
    """How deep the loops in a region are nested."""
    inner = ((n.op in loop_ops(), r) for n in body.nodes for r in regions_of(n))
    return max((_depth(region) + is_loop for is_loop, region in inner), default=0)


def _emit_nested(k: Scalars, body: Graph, values: Values, buffers: Mapping[Node, str]) -> None:
    """Emit the loops and branches of a region, and tell ``values`` of their results."""
    for inner in body.nodes:
        if inner.op in loop_ops():
            results = _run(k, inner, values, buffers, {})
        elif inner.op is cond_op:
            results = _choose(k, inner, values, buffers)
        else:
            continue
        values.know({
            n: ((), results[n.attrs["index"]])
            for n in body.nodes if n.op is item and n.args[0] is inner
        })  # fmt: skip


def _choose(k: Scalars, node: Node, around: Values, arrays: Mapping[Node, str]) -> list[Reg]:
    """Emit a branch in the block of ``around``; gives its results."""
    flag, *operands = (around.at(a, ()) if _is_number(a) else None for a in node.args)
    results = [k.var(k.const(t.dtype.numpy.type(0).item(), t.dtype)) for t in types_of(node.type)]

    def branch(body: Graph) -> None:
        given = list(zip(body.params, node.args[1:], operands, strict=True))
        known = {p: ((), value) for p, _, value in given if value is not None}
        buffers = {p: arrays[a] for p, a, value in given if value is None}
        values = Values(k, buffers, known)
        _emit_nested(k, body, values, buffers)
        made = [values.at(o, ()) for o in body.outputs]
        for var, value in zip(results, made, strict=True):
            k.set(var, value)

    assert flag is not None
    k.choose(flag, lambda: branch(node.attrs["true"]), lambda: branch(node.attrs["false"]))
    return [k.freeze(v) for v in results]


def _kept(k: Scalars, value: Operand) -> Operand:
    return k.let(Cast(value), value.dtype)
