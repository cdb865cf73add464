"""Loops keep only what somebody needs: carries, ys, operands and results that nobody does are
dropped, and what is the same on every iteration is captured instead of carried or read row by row.
Nor does a loop stack what it is given.
"""

from __future__ import annotations

from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.graph import Graph, new_param, rebuild, substitute_nodes
from staticflow.graph.locs import using
from staticflow.graph.node import Node, item, make_node, toposort
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.expand import expand, expand_op
from staticflow.ops.basics.view import reshape
from staticflow.ops.loops.loop import Loop, loop_ops
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["prune_loops"]


def prune_loops(graph: Graph, counts: Counts) -> Graph:
    """Drop what no loop needs, until nothing more falls away."""
    while True:
        used = _used_results(graph)
        before = sum(counts.values())
        pruned: dict[Node, _Pruned] = {}

        def visit(
            node: Node,
            args: tuple[Node, ...],
            used: dict[Node, set[int]] = used,
            pruned: dict[Node, _Pruned] = pruned,
        ) -> Node:
            if node.op in loop_ops():
                pruned[node] = _prune(with_args(node, args), used[node], counts)
                return pruned[node].loop
            if node.op is item and node.args[0] in pruned:
                return pruned[node.args[0]].result(node)
            return with_args(node, args)

        graph = rebuild(graph, visit)
        if sum(counts.values()) == before:
            return graph


def _used_results(graph: Graph) -> dict[Node, set[int]]:
    used: dict[Node, set[int]] = {n: set() for n in graph.nodes if n.op in loop_ops()}
    for node in graph.nodes:
        if node.op is item and node.args[0] in used:
            used[node.args[0]].add(node.attrs["index"])
    return used


@dataclass(frozen=True, slots=True)
class _Pruned:
    """A loop, and what the results of the one that it replaces are: its results by number, or other
    values."""

    loop: Node
    results: dict[int, int | Node]

    def result(self, old: Node) -> Node:
        now = self.results[old.attrs["index"]]
        if isinstance(now, Node):
            return now
        return make_node(item, (self.loop,), {"index": now}, old.locs)


def _prune(node: Node, used: set[int], counts: Counts) -> _Pruned:
    loop = Loop.of(node)
    flags = 1 if loop.binds else 0
    fixed = {i for i in range(flags, loop.carries) if loop.body.outputs[i] is loop.body.params[i]}
    live = _live_carries(loop, used, fixed)
    given = _known_ys(loop, node, fixed, used)
    ys = [i for i in range(loop.carries, len(loop.body.outputs)) if i in used and i not in given]
    kept = [i for i in range(loop.carries) if i in live and i not in fixed]
    outputs = [loop.body.outputs[i] for i in (*kept, *ys)]
    carries, xs, captured = loop.pairs(node.args)
    rows: dict[Node, Node] = {}  # what a row is, where all are the same
    operands: dict[Node, Node] = {}  # what that takes from outside, by param
    for p, x in xs:
        if (row := _same_row(x, p, operands)) is not None:
            rows[p] = row
    new = loop.remade(
        substitute_nodes(outputs, rows),
        [carries[i] for i in kept],
        xs,
        [*(carries[i] for i in fixed), *captured, *operands.items()],
        node.locs,
    )
    if new.args == node.args and len(outputs) == len(loop.body.outputs) and not fixed:
        return _Pruned(node, {i: i for i in range(len(outputs))})
    counts.note("prune loop", node)
    results: dict[int, int | Node] = {i: node.args[i] for i in fixed}
    results |= given
    results |= {i: position for position, i in enumerate((*kept, *ys))}
    return _Pruned(new, results)


def _live_carries(loop: Loop, used: set[int], fixed: set[int]) -> set[int]:
    """The carries that a used result depends on, or whether there is another iteration."""
    position = {p: i for i, p in enumerate(loop.body.params[: loop.carries])}
    live: set[int] = set()
    waiting = [*used, *([0] if loop.binds else [])]
    while waiting:
        i = waiting.pop()
        if i in live:
            continue
        live.add(i)
        reached = toposort([loop.body.outputs[i]])
        waiting += [position[n] for n in reached if n in position and position[n] not in fixed]
    return {i for i in live if i < loop.carries}


def _known_ys(loop: Loop, node: Node, fixed: set[int], used: set[int]) -> dict[int, Node]:
    """The ys that no iteration makes, each with what it is: rows as they are read, or one value
    again and again. (A size that only the run can tell needs an operand that has it.)"""
    late = bool(loop.binds) or any(s.late for s in symbols_of(loop.iterations))
    carries, xs, captured = loop.pairs(node.args)
    read = {p: x for p, x in xs if x.tensor_type.shape[0] == loop.iterations}
    same = dict(captured) | {carries[i][0]: carries[i][1] for i in fixed}
    found = {}
    for i in used - set(range(loop.carries)):
        y = loop.body.outputs[i]
        if y in read:
            found[i] = read[y]
        elif y in same and not late:
            with using(node.locs):
                rows = (loop.iterations, *y.tensor_type.shape)
                found[i] = expand(Symbol(same[y]), rows).node
    return found


def _same_row(x: Node, row: Node, operands: dict[Node, Node]) -> Node | None:
    """What every row of ``x`` is, for use inside the loop; None if they differ. What it takes from
    outside goes into ``operands``, by the param that stands for it."""
    shape = row.tensor_type.shape
    with using(x.locs):
        if x.op is full:
            return make_node(full, (), {**x.attrs, "shape": shape}, x.locs)
        if x.op is not expand_op:
            return None
        (source,) = x.args
        stretched = source.tensor_type.ndim < x.tensor_type.ndim
        if not stretched and source.tensor_type.shape[0] != 1:
            return None
        inner = new_param(source.tensor_type, "row", locs=x.locs)
        operands[inner] = source
        one = Symbol(inner)
        made: Node = expand(one if stretched else reshape(one, one.shape[1:]), shape).node
        return made
