"""When the new value of a variable may be written over the old one, and in which order that lets
kernels run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from staticflow.codegen.program.index_checks import repeated_checks
from staticflow.graph.doubtful_sizes import doubtful_sizes
from staticflow.graph.graph import Graph, binders_of, bound_symbols, has_regions, regions_of
from staticflow.graph.node import Node, item, maker_of, toposort
from staticflow.ops.declaring.late import prefix_op
from staticflow.ops.declaring.lowering import Contract, Host, Index, LoopNest
from staticflow.ops.loops.loop import loop_ops
from staticflow.passes.access import (
    canonical_index,
    is_one_element,
    member_index,
    reads,
    root_of,
    shows_memory,
)
from staticflow.passes.arrays import AXES
from staticflow.passes.cluster import checked_members, cluster, inner_nodes

__all__ = ["Order", "changes_elements", "order_updates", "put_into", "root_of"]


def _has_no_memory(node: Node) -> bool:
    """Whether a value lies in the memory of its argument."""
    return node.op is prefix_op or shows_memory(node)


def _memory_of(node: Node) -> Node:
    """The node in whose memory a value lies, if it has none of its own."""
    while _has_no_memory(node):
        node = node.args[0]
    return node


def order_updates(
    graph: Graph,
    updates: Sequence[tuple[Node, Node]],
    fails: Callable[[Node], bool] = lambda nest: True,
    over_in: Callable[[Node], Collection[int]] | None = None,
) -> tuple[Order, set[Node]]:
    """What an order of the graph's nodes has to keep to, and the params that may be overwritten in
    place.

    ``updates`` are (new value, param). Whatever else reads the param, and whatever may end the
    program before its time, runs before the kernel that overwrites it; where that is impossible, or
    where that kernel reads the param elsewhere than it writes, the new value goes through a copy.
    ``fails`` tells of a cluster with a loop nest of its own whether its kernel looks at anything
    that may be wrong. Where the params are carries, memory of the program's own, nobody sees them
    after it has ended early; then ``over_in`` tells which carries a loop in the graph writes over.
    """
    order = Order(graph, fails, over_in)
    firsts = [value if over_in is None else _first_put(graph, value) for value, _ in updates]
    in_place = {
        over
        for first, (_, over) in zip(firsts, updates, strict=True)
        if order.put_last(maker_of(first), first, over)
    }
    return order, in_place


class Order:
    """What an order of a graph's nodes has to keep to: to which one update after another adds what
    it must wait for.

    All updates, but those of carries, wait for what may end the program. That is one gate,
    not an edge to each of them from each such node, and whether a node leads there is known without
    a search.
    """

    def __init__(
        self,
        graph: Graph,
        fails: Callable[[Node], bool] = lambda nest: True,
        over_in: Callable[[Node], Collection[int]] | None = None,
    ) -> None:
        self.graph, self.over_in, self.is_private = graph, over_in, over_in is not None
        self.later: dict[Node, list[Node]] = {n: list(graph.users[n]) for n in graph.nodes}
        for node, binders in binders_of(graph.nodes).items():
            for binder in binders:
                self.later[binder].append(node)
        ending = {n: None for n in graph.nodes if _may_end(n, fails)}
        self.ending = ending.keys() - repeated_checks(ending)
        self.before_gate = set() if self.is_private else self._nodes_before(self.ending)
        self.behind_gate: set[Node] = set()
        self.in_place: dict[tuple[Graph, str, int, tuple[int, ...]], bool] = {}
        self.last: Node | None = None  # of what may end the program, if it updates, too

    def put_last(self, maker: Node, value: Node, over: Node) -> bool:
        """Whether ``maker`` may write ``value`` over ``over``: then it waits for what reads that,
        and for what may end the program, from now on."""
        if not self._may_write(maker, value, over):
            return False
        ends = maker in self.ending and not self.is_private
        if ends and not _updates(maker.attrs["body"], _positions_of(maker, over)):
            return False
        if not self.before_gate.isdisjoint(self.later[maker] if ends else (maker,)):
            return False
        readers = {r for r in _readers(self.graph, over) if r is not maker}
        if readers and not readers.isdisjoint(self._nodes_after(maker)):
            return False
        for reader in readers:
            self.later[reader].append(maker)
        if not ends:
            self.behind_gate |= set() if self.is_private else {maker}
            return True
        for other in self.ending:  # which happens once: then all that may end is before this one
            if other is not maker:
                self.later[other].append(maker)
        self.last = maker
        self.before_gate = self._nodes_before(self.ending)
        return True

    def edges(self) -> list[list[int]]:
        """For each node, by its number in the graph, those that run later, and for the gate, whose
        number is behind all others. What may end the program does so in the order in which it was
        written."""
        number = {n: i for i, n in enumerate(self.graph.nodes)}
        found = [[number[n] for n in self.later[node]] for node in self.graph.nodes]
        ending = [i for i, n in enumerate(self.graph.nodes) if n in self.ending]
        for i in ending:
            found[i].append(len(number))
        for i, j in itertools.pairwise([i for i in ending if self.graph.nodes[i] is not self.last]):
            found[i].append(j)
        found.append([number[n] for n in self.behind_gate])
        return found

    def _may_write(self, maker: Node, value: Node, over: Node) -> bool:
        """Whether ``maker`` reads of ``over`` nothing that it has written ``value`` over."""
        if self.over_in is not None and maker.op in loop_ops() and value.op is item:
            carry = value.attrs["index"]
            return _positions_of(maker, over) == (carry,) and carry in self.over_in(maker)
        return maker.op is cluster and self._reads_in_place(maker, value, over)

    def _reads_in_place(self, maker: Node, value: Node, over: Node) -> bool:
        """`_reads_in_place`, asked once of clusters that have one body."""
        body, kind = maker.attrs["body"], maker.attrs["kind"]
        index = value.attrs["index"] if value.op is item else 0
        key = body, kind, index, _positions_of(maker, over)
        if key not in self.in_place:
            self.in_place[key] = _reads_in_place(body, kind, body.outputs[index], key[-1])
        return self.in_place[key]

    def _nodes_after(self, start: Node) -> set[Node]:
        """What waits for ``start``."""
        gate = self.behind_gate if start in self.ending else ()
        return _reach((*self.later[start], *gate), self.later)

    def _nodes_before(self, ends: Iterable[Node]) -> set[Node]:
        """``ends``, and what they wait for."""
        earlier: dict[Node, list[Node]] = {n: [] for n in self.later}
        for node, after in self.later.items():
            for n in after:
                earlier[n].append(node)
        return _reach(ends, earlier)


def _reach(start: Iterable[Node], edges: Mapping[Node, Sequence[Node]]) -> set[Node]:
    """``start``, and all that edges lead to from there."""
    found = set(start)
    stack = list(found)
    while stack:
        for node in edges[stack.pop()]:
            if node not in found:
                found.add(node)
                stack.append(node)
    return found


def _readers(graph: Graph, node: Node) -> Iterator[Node]:
    """What reads the memory of ``node``, under whatever shape."""
    stack = [node]
    while stack:
        for user in graph.users[stack.pop()]:
            if _has_no_memory(user):
                stack.append(user)
            if not shows_memory(user):
                yield user


def _may_end(node: Node, fails: Callable[[Node], bool] = lambda nest: True) -> bool:
    """Kernels may check indices, loops look whether the user wants to stop, Python may raise
    whatever it likes, and sizes that only the run can tell may be wrong."""
    if bound_symbols(node):
        return True
    if node.op is cluster:
        kind = node.attrs["kind"]
        if kind == "nest":
            return fails(node)
        return kind == "loop" or bool(checked_members(node.attrs["body"]))
    if node.op in loop_ops() or isinstance(node.op.lowering, Host):
        return True
    if not has_regions(node):
        return False
    regions = regions_of(node)
    if any(_may_end(n, fails) for region in regions for n in region.nodes):
        return True
    return any(doubtful_sizes((n for region in regions for n in inner_nodes(region)), ()))


def changes_elements(value: Node, old: Node) -> bool:
    """Whether ``value`` is ``old`` but for some elements, which kernels put there."""
    maker = maker_of(value)
    while maker.op is cluster:
        body = maker.attrs["body"]
        if _updates(body, _positions_of(maker, old)):
            return True
        before = [a for i, a in enumerate(maker.args) if _updates(body, (i,))]
        if not before:
            return False
        maker = maker_of(before[0])
    return False


def put_into(graph: Graph, value: Node) -> Node | None:
    """The array, made by a kernel, that the kernel of ``value`` puts elements into, if nothing else
    needs it: the two may lie in one place."""
    if value.op is not cluster or value.attrs["kind"] != "nest":
        return None
    for i, old in enumerate(value.args):
        if _updates(value.attrs["body"], (i,)):
            is_alone = graph.users[old] == (value,) and value.args.count(old) == 1
            return old if is_alone and old.op is cluster and old not in graph.outputs else None
    return None


def _first_put(graph: Graph, value: Node) -> Node:
    """Where the kernels begin that put elements into one array, of which ``value`` is the last."""
    while (old := put_into(graph, value)) is not None:
        value = old
    return value


def _positions_of(maker: Node, over: Node) -> tuple[int, ...]:
    """Which arguments of ``maker`` lie in the memory of ``over``."""
    return tuple([i for i, a in enumerate(maker.args) if _memory_of(a) is over])


def _updates(body: Graph, positions: Sequence[int]) -> bool:
    """Whether a loop nest puts elements into the array that its params at ``positions`` are, of
    which it reads nothing else; it ends, if it does, before the first is there."""
    (result,) = body.outputs if len(body.outputs) == 1 else (None,)
    if result is None or not isinstance(result.op.lowering, LoopNest):
        return False
    within = [body.params[i] for i in positions]
    return (
        result.op.lowering.updates
        and within == [result.args[0]]
        and body.users[within[0]] == (result,)
        and result.args.count(within[0]) == 1
    )


def _reads_in_place(body: Graph, kind: str, result: Node, positions: Sequence[int]) -> bool:
    """Whether each element of the array that the params at ``positions`` are is read, if at all,
    just where that of ``result`` is written over it."""
    if not positions or _updates(body, positions):
        return True
    if kind not in ("map", "contract") or len(positions) > 1:
        return False
    old = body.params[positions[0]]
    shape = result.tensor_type.shape
    if old.tensor_type.dense != result.type:
        return False
    others = {o.tensor_type.shape for o in body.outputs} - {shape}
    if not all(map(is_one_element, (shape, *others) if others else ())):
        return False
    here = canonical_index(shape, AXES[: len(shape)])
    starts = ((o, member_index(o, here, shape, ())) for o in body.outputs)
    return all(index == here for index in _indices_read(old, starts))


def _indices_read(old: Node, starts: Iterable[tuple[Node, Index]]) -> Iterator[Index | None]:
    """The index of each element of ``old`` that the nodes of ``starts`` at their indices are
    computed from, through all that lies between; None for any, as a product reads them."""
    stack = list(starts)
    seen = set(stack)
    while stack:
        node, at = stack.pop()
        if node is old:
            yield at
        elif isinstance(node.op.lowering, Contract):
            if old in toposort([node]):
                yield None
        elif node.args:
            for part in reads(node, at):
                if part not in seen:
                    seen.add(part)
                    stack.append(part)
