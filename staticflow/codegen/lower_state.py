"""Loops whose carries are numbers: one kernel, with the state in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticflow.codegen.kernel import ENDLESS, Cast, Kernel, Operand, Reg
from staticflow.codegen.math import Scalars
from staticflow.codegen.values import Values
from staticflow.graph.dims import Size
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node, item
from staticflow.ops.loop import Loop, loop_ops
from staticflow.ops.lowering import Index

__all__ = ["lower_state"]


def lower_state(k: Scalars, body: Graph, names: Mapping[Node, str], outs: Sequence[str]) -> Kernel:
    """The kernel of a ``loop`` cluster: ``body`` is a loop of the graph, and its results."""
    node = body.outputs[0].args[0]
    loop = Loop.of(node)
    stacks = {
        o.attrs["index"]: name
        for o, name in zip(body.outputs, outs, strict=True)
        if o.attrs["index"] >= loop.carries
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
    with k.loop("t", end, going=state[0] if loop.binds else None) as trip:
        row: Size = end - 1 - trip if loop.reverse else trip
        known = fixed | {p: ((), v) for (p, _), v in zip(carries, state, strict=True)}
        known |= {p: ((), k.load(arrays[a], row)) for p, a in xs if _is_number(p)}
        values = Values(k, buffers, known)
        for inner in loop.body.nodes:
            if inner.op in loop_ops():
                results = _run(k, inner, values, buffers, {})
                values.know({
                    n: ((), results[n.attrs["index"]])
                    for n in loop.body.nodes if n.op is item and n.args[0] is inner
                })  # fmt: skip
        after = [k.cast(values.at(o, ()), o.tensor_type.dtype) for o in loop.body.outputs]
        for i, name in stacks.items():
            k.store(name, row, after[i])
        # a carry that is another one's value of before is set after that may have changed
        news = [_kept(k, v) if v in state else v for v in after[: loop.carries]]
        for var, new in zip(state, news, strict=True):
            k.set(var, new)
    return [k.freeze(v) for v in state]


def _kept(k: Scalars, value: Operand) -> Operand:
    return k.let(Cast(value), value.dtype)
