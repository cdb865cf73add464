"""Loops that go on while a counter is below or above a number or a size are of so many iterations.

Their stacks have a known size then, the memory plan has a place for them, and what is done to
scans, such as writing out a few iterations, is done to them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size, Sym, ceil_div, dim_max, dim_min
from staticflow.graph.graph import Graph, bound_symbols, replace_sizes
from staticflow.graph.node import Node
from staticflow.ops.basics.arithmetic import add, ge, gt, le, lt, sub
from staticflow.ops.basics.creation import size_value
from staticflow.ops.loops.loop import Loop, scan_op, while_op
from staticflow.ops.symbols.pattern import number_of
from staticflow.passes.rewrite import Counts

__all__ = ["count_iterations"]


def count_iterations(graph: Graph, counts: Counts) -> Graph:
    """A loop that goes on while a counter is below or above a number or a size is a scan of as many
    iterations as that takes."""
    while sizes := _known_iterations(graph):
        new: dict[Node, Node] = {}
        for node in graph.nodes:
            op, attrs = node.op, node.attrs
            args = tuple(new[a] for a in node.args)
            if op is while_op and (size := sizes.get(_iterations_of(node))) is not None:
                counts.note("counted loop", node)
                op, attrs = scan_op, replace(Loop.of(node), length=size, binds=()).attrs
            same = op is node.op and args == node.args
            new[node] = node if same else Node(op, args, attrs, node.type, node.locs)
        graph = replace_sizes(graph, [new[o] for o in graph.outputs], sizes)
    return graph


def _iterations_of(loop: Node) -> Sym:
    """The size that a guarded loop binds."""
    (iterations,) = bound_symbols(loop)
    return iterations


def _known_iterations(graph: Graph) -> dict[Sym, Size]:
    """How many iterations loops make, by the size that they bind, where all that bind it tell."""
    found: dict[Sym, Size | None] = {}
    for node in graph.nodes:
        if node.op is while_op:
            iterations, count = _iterations_of(node), _count(node)
            same = iterations not in found or found[iterations] == count
            found[iterations] = count if same else None
    return {s: count for s, count in found.items() if count is not None}


_TURNED = {lt: gt, le: ge, gt: lt, ge: le}
"""The comparisons of a counter with what ends its loop, and each with its sides changed."""


def _count(node: Node) -> Size | None:
    """How many iterations a guarded loop makes, if that is a number or a size."""
    loop = Loop.of(node)
    flag = loop.body.outputs[0]
    if flag.op not in _TURNED:
        return None
    carries = loop.body.outputs[1 : loop.carries]
    sides = ((flag.op, 0), (_TURNED[flag.op], 1))
    op, at = next(((o, i) for o, i in sides if flag.args[i] in carries), (None, 0))
    if op is None:
        return None
    carry = 1 + carries.index(flag.args[at])
    step = _step(flag.args[at], loop.body.params[carry])
    start, end = _size_of(node.args[carry]), _size_inside(flag.args[1 - at], node)
    if step is None or start is None or end is None or not _begins(node, flag, at, start, end):
        return None
    if op in (lt, le) and step > 0:
        distance = end - start
    elif op in (gt, ge) and step < 0:
        distance = start - end
    else:
        return None
    count = dim_max(ceil_div(distance + (op in (le, ge)), abs(step)), 0)
    last = start + count * step
    if any(s.late for s in symbols_of(count)) or not _holds(flag.args[at], last):
        return None
    return count if loop.length is None else dim_min(count, loop.length)


def _step(value: Node, param: Node) -> int | None:
    """What an iteration adds to a counter."""
    if value.op is sub and value.args[0] is param:
        step = number_of(value.args[1])
        return -step if type(step) is int else None
    if value.op is add and param in value.args:
        step = number_of(value.args[value.args[0] is param])
        return step if type(step) is int else None
    return None


def _size_of(node: Node) -> Size | None:
    """The integer or the size that a node is."""
    number = number_of(node)
    if type(number) is int:
        return number
    return node.attrs["size"] if node.op is size_value else None


def _size_inside(node: Node, around: Node) -> Size | None:
    """What a node of the body of the loop ``around`` is, the same in each iteration."""
    loop = Loop.of(around)
    params = loop.body.params
    if node not in params:
        return _size_of(node)
    at = params.index(node)
    stays = at >= loop.carries + loop.xs or (at < loop.carries and loop.body.outputs[at] is node)
    return _size_of(around.args[at]) if stays else None


def _begins(node: Node, flag: Node, at: int, start: Size, end: Size) -> bool:
    """Whether the flag that a loop begins with is that of its counter's first value."""
    first = node.args[0]
    return first.op is flag.op and [_size_of(a) for a in first.args] == (
        [end, start] if at else [start, end]
    )


def _holds(counter: Node, last: Size) -> bool:
    """Whether a counter can hold its last value, which else is another."""
    limits = np.iinfo(counter.tensor_type.dtype.numpy)
    if isinstance(last, int):
        return bool(limits.min <= last <= limits.max)
    return limits.bits == 64 and limits.min < 0
