"""Loops whose carries are numbers: one kernel, with the state in registers, and with the loops and
branches that are in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from staticflow.codegen.kernel import ENDLESS, Buffer, Cast, Kernel, Operand, Reg
from staticflow.codegen.lower.nest import Scratch
from staticflow.codegen.lower.values import Values
from staticflow.codegen.maths.scalars import Scalars
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, dim_min, is_provably_ge
from staticflow.graph.graph import Graph, regions_of
from staticflow.graph.node import Node
from staticflow.graph.types import types_of
from staticflow.ops.declaring.lowering import Index
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.loop import Loop, loop_ops

__all__ = ["lower_state"]

_STRETCH = (1 << 14, 1 << 6, 1 << 3)
"""Iterations between two looks whether the user wants to stop: of a loop without loops in it, of
one around such loops, and farther out. A look takes some ten nanoseconds, an iteration one to a
thousand; those of nested loops multiply."""

_ROOM = 1 << 8
"""Rows for which there is room at least when a stretch of iterations begins that stacks them."""


def lower_state(
    k: Scalars, body: Graph, names: Mapping[Node, str], outs: Sequence[str]
) -> tuple[Kernel, list[Scratch]]:
    """The kernel of a ``loop`` cluster, and the scratch memory that it wants. ``body`` is a loop of
    the graph, and its results."""
    node = body.outputs[0].args[0]
    loop = Loop.of(node)
    stacks = {
        o.attrs["index"]: name
        for o, name in zip(body.outputs, outs, strict=True)
        if o.attrs["index"] >= loop.carries and _has_numbers(o)
    }
    work = _Lowering(k)
    values = Values(k, names, {p: ((), k.load(names[p], 0)) for p in body.params if _is_number(p)})
    last = work.run(node, values, stacks)
    for o, name in zip(body.outputs, outs, strict=True):
        if o.attrs["index"] < loop.carries:
            k.store(name, 0, last[o.attrs["index"]])
    return k.kernel("loop"), work.scratch


def _is_number(node: Node) -> bool:
    return not node.tensor_type.shape


def _buffers_of(operands: Iterable[tuple[Node, Node]], around: Values) -> dict[Node, str]:
    """The buffers of arrays, by the params that stand for them; ties have none."""
    return {p: around.buffers[a] for p, a in operands if a in around.buffers and not _is_number(p)}


def _has_numbers(stack: Node) -> bool:
    """Whether the rows of a stack are numbers, not ties."""
    return stack.tensor_type.ndim == 1


class _Lowering:
    """Emits loops and branches into a kernel. ``scratch`` is what the loops inside stack."""

    def __init__(self, k: Scalars) -> None:
        self.k = k
        self.scratch: list[Scratch] = []

    def run(self, node: Node, around: Values, stacks: Mapping[int, str]) -> list[Operand]:
        """Emit a loop in the block of ``around``; gives its last carries. ``stacks`` are the
        buffers of its ys."""
        k, loop = self.k, Loop.of(node)
        carries, xs, captured = loop.pairs(node.args)
        fixed: dict[Node, tuple[Index, Operand]] = {
            p: ((), around.at(a, ())) for p, a in captured if _is_number(p)
        }
        buffers = _buffers_of(captured, around)
        starts = [around.at(a, ()) for _, a in carries]
        if loop.length == 0:  # what it would read may be no array at all
            return starts
        state = [k.var(start) for start in starts]
        end = ENDLESS if loop.length is None else loop.length
        growing = [name for name in stacks.values() if k.buffers[name].access == "grows"]
        with _iterations(
            k, end, state[0] if loop.binds else None, _depth(loop.body), growing
        ) as iteration:
            row: Size = end - 1 - iteration if loop.reverse else iteration
            known = fixed | {p: ((), v) for (p, _), v in zip(carries, state, strict=True)}
            known |= {p: ((), k.load(around.buffers[a], row)) for p, a in xs if _is_number(p)}
            values = Values(k, buffers, known)
            self.inside(loop.body, values)
            ends, ys = loop.results(loop.body.outputs)
            news = [values.at(o, ()) for o in ends]
            rows = [(name, values.at(ys[i - loop.carries], ())) for i, name in stacks.items()]
            for name, value in rows:
                k.store(name, row, value)
            # a carry that is another one's value of before is set after that may have changed
            news = [_copy_value(k, v) if v in state else v for v in news]
            for var, new in zip(state, news, strict=True):
                k.set(var, new)
        return [k.freeze(v) for v in state]

    def inside(self, body: Graph, values: Values) -> None:
        """Emit the loops and branches of a region, and tell ``values`` of their results."""
        for node in body.nodes:
            if node.op in loop_ops():
                self.loop_inside(node, body.users[node], values)
            elif node.op is cond_op:
                made = self.choose(node, values)
                values.know({n: ((), made[n.attrs["index"]]) for n in body.users[node]})

    def loop_inside(self, node: Node, results: Sequence[Node], values: Values) -> None:
        """Emit a loop of a region, of which ``results`` are used; what it stacks lies in scratch
        memory."""
        k, loop = self.k, Loop.of(node)
        stacked = [n for n in results if n.attrs["index"] >= loop.carries]
        stacks = {n: self.scratch_for(n) for n in stacked if _has_numbers(n)}
        last = self.run(node, values, {n.attrs["index"]: name for n, name in stacks.items()})
        values.know({n: ((), last[n.attrs["index"]]) for n in results if n not in stacked})
        if loop.binds and stacked:  # which the last carry counts
            (iterations,) = symbols_of(loop.iterations)
            k.define(iterations, last[-1])
        for n, name in stacks.items():
            if k.buffers[name].access == "grows":
                k.reserve(name, n.tensor_type.size)
            values.hold(n, name)

    def scratch_for(self, stack: Node) -> str:
        """A buffer for a stack, which grows if its size is known only in the kernel."""
        name, t = f"s{len(self.scratch)}", stack.tensor_type
        self.scratch.append(Scratch(name, t.dtype, t.size))
        access = "inout" if symbols_of(t.size) <= set(self.k.sizes) else "grows"
        self.k.buffers[name] = Buffer(name, t.dtype, access)
        return name

    def choose(self, node: Node, around: Values) -> list[Reg]:
        """Emit a branch in the block of ``around``; gives its results."""
        k = self.k
        flag, *operands = (around.at(a, ()) if _is_number(a) else None for a in node.args)
        zeros = [k.const(t.dtype.numpy.type(0).item(), t.dtype) for t in types_of(node.type)]
        results = list(map(k.var, zeros))

        def branch(body: Graph) -> None:
            given = zip(body.params, operands, strict=True)
            known = {p: ((), value) for p, value in given if value is not None}
            values = Values(
                k, _buffers_of(zip(body.params, node.args[1:], strict=True), around), known
            )
            self.inside(body, values)
            made = [values.at(o, ()) for o in body.outputs]
            for var, value in zip(results, made, strict=True):
                k.set(var, value)

        assert flag is not None
        k.choose(flag, lambda: branch(node.attrs["true"]), lambda: branch(node.attrs["false"]))
        return [k.freeze(v) for v in results]


@contextmanager
def _iterations(
    k: Scalars, end: Size, going: Reg | None, depth: int, growing: Sequence[str]
) -> Iterator[Dim]:
    """A loop, in stretches between which it looks whether the user wants to stop, and makes room
    for rows of what is ``growing``: that costs an iteration nothing. ``depth`` loops are nested in
    it."""
    stretch = _STRETCH[min(depth, len(_STRETCH) - 1)]
    if growing:
        stretch = min(stretch, _ROOM)
    if is_provably_ge(stretch, end):
        _reserve(k, growing, end)
        with k.loop("t", end, going=going) as iteration:
            yield iteration
        return
    with k.loop("s", end, step=stretch, kind="long", going=going) as begin:
        stop = begin + stretch if end == ENDLESS else dim_min(begin + stretch, end)
        _reserve(k, growing, stop)
        with k.loop("t", stop, lo=begin, going=going) as iteration:
            yield iteration


def _reserve(k: Scalars, growing: Sequence[str], rows: Size) -> None:
    for buffer in growing:
        k.reserve(buffer, rows)


def _depth(body: Graph) -> int:
    """How deep the loops in a region are nested."""
    inner = ((n.op in loop_ops(), r) for n in body.nodes for r in regions_of(n))
    return max((_depth(region) + is_loop for is_loop, region in inner), default=0)


def _copy_value(k: Scalars, value: Operand) -> Operand:
    return k.let(Cast(value), value.dtype)
