"""The order of collectives, which all ranks have alike, and which of them are begun early.

A collective waits for those that it needs; of others comes first what fewer operations come
before, or, of gathered tensors, what is needed first. That order is a chain in the graph: each
begins behind the one before it, however a rank orders its kernels.

Sums that no other collective needs, parts of sums and gathered tensors are *begun* as soon as what
they take is there, and *ended* behind all that can be begun before: while kernels compute, messages
are on their way. What is small is sent together, since a message costs some time however short it
is. A gathered tensor is begun one ahead of its need: two are on their way or newly there, not more,
since each takes memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import int64
from staticflow.graph.graph import Graph, close, map_attrs, regions_of
from staticflow.graph.locs import Locs, merge_locs, using
from staticflow.graph.node import Node, item, toposort
from staticflow.graph.op import Op
from staticflow.ops.along.collectives import all_gather_op, all_reduce_op, reduce_scatter_op
from staticflow.ops.along.ordered_collectives import COLLECTIVES, begin_op, end_op
from staticflow.ops.basics.slicing import embed_op, slice_op
from staticflow.ops.declaring.late import tied_op
from staticflow.ops.declaring.lowering import View
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import with_args

__all__ = ["BUNDLE", "PARTS", "order_collectives"]

BUNDLE = 1 << 20
"""Bytes of sums from which on a bundle is sent, and the next sum begins another."""

PARTS = 1 << 14
"""Bytes of one rank's parts from which on a bundle of gathered tensors, or of sums in parts, is
sent. It is smaller, since the whole of each is in memory until all of the bundle is there."""

AHEAD = 2
"""How many bundles of gathered tensors, or of sums in parts, are on their way at most."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """Collectives that go together, or one alone that is not begun ``early``. ``place`` sorts
    it."""

    nodes: tuple[Node, ...]
    early: bool
    place: tuple[int, int]

    @property
    def gathers(self) -> bool:
        return self.early and self.nodes[0].op is all_gather_op


def order_collectives(graph: Graph, first: Symbol) -> Graph:
    """The graph, whose collectives come one behind the other, and behind the number ``first``."""
    units = _units(graph)
    with for_itself():
        chain = _Chain(graph, units, first)
        for i, unit in enumerate(units):
            chain.add(i, unit)
        outputs = [chain.rebuild(o) for o in graph.outputs]
        if not units and outputs and first.node.args:
            outputs[0] = tied_op(Symbol(outputs[0]), first).node
    return close(graph.params, outputs, graph.equalities, graph.declared)


def _order_region(region: Graph) -> Graph:
    """A region whose collectives come one behind the other. None is begun early: what is begun in
    an iteration would have to end in it."""
    level, depth = _levels(region), _depths(region)
    alone = [_Unit((n,), False, (level[n], depth[n])) for n in filter(_sends, region.nodes)]
    if not alone:
        return region
    alone.sort(key=lambda unit: unit.place)
    chain = _Chain(region, alone, Symbol(constant_node(0, int64)))
    for i, unit in enumerate(alone):
        chain.add(i, unit)
    outputs = [chain.rebuild(o) for o in region.outputs]
    return close(region.params, outputs, region.equalities, region.declared)


# -- units in their order ------------------------------------------------------------------------


def _units(graph: Graph) -> list[_Unit]:
    """The collectives of a graph in bundles, in an order in which each comes behind those that it
    needs, and that does not depend on how large this rank's part is."""
    level, depth = _levels(graph), _depths(graph)
    need, needed = _needs(graph, depth), _needed_by_others(graph)
    alone: list[_Unit] = []
    bundles: dict[object, list[tuple[tuple[int, int], Node]]] = {}
    for node in filter(_sends, graph.nodes):
        place = level[node], need[node] if node.op is all_gather_op else depth[node]
        if not _can_be_begun(node, needed):
            alone.append(_Unit((node,), False, place))
            continue
        waits = node in needed or node.op is all_gather_op
        at = level[node] if waits else -1  # others may be ended behind all
        dtype, over = node.tensor_type.dtype, (node.attrs["mesh"], node.attrs["axes"])
        bundles.setdefault((node.op, at, dtype, over), []).append((place, node))
    found = [u for members in bundles.values() for u in _cut_to_bundles(members)]
    for i, unit in enumerate(found):  # what is needed at once is not begun first
        node, *others = unit.nodes
        if unit.gathers and not others and need[node] == depth[node] + 1:
            found[i] = replace(unit, early=False)
    return sorted([*alone, *found], key=lambda unit: unit.place)


def _cut_to_bundles(members: list[tuple[tuple[int, int], Node]]) -> Iterator[_Unit]:
    members.sort(key=lambda member: (member[0], member[1].tensor_type.ndim))  # biases first
    own: list[tuple[tuple[int, int], Node]] = []
    total: Size = 0
    for i, (place, node) in enumerate(members):
        own.append((place, node))
        total = total + _bytes_of_part(node)
        most = BUNDLE if node.op is all_reduce_op else PARTS
        enough = not isinstance(total, int) or total >= most
        if enough or i + 1 == len(members):  # gathered for the first, summed behind the last
            at = own[0] if node.op is all_gather_op else own[-1]
            yield _Unit(tuple([n for _, n in own]), True, at[0])
            own, total = [], 0


def _bytes_of_part(node: Node) -> Size:
    """What a rank has of the tensor that is split, or of a sum that none has a part of."""
    x = node.args[0].tensor_type
    ranks = 1
    if node.op is reduce_scatter_op:
        ranks = math.prod(node.attrs["mesh"][a] for a in node.attrs["axes"])
    return x.size * x.dtype.itemsize // ranks


def _sends(node: Node) -> bool:
    return node.op in COLLECTIVES or any(
        _sends(inner) for region in regions_of(node) for inner in region.nodes
    )


def _can_be_begun(node: Node, needed: set[Node]) -> bool:
    if node.op is all_reduce_op:
        return node.attrs["reduce"] == "sum" and node not in needed
    return node.op in (all_gather_op, reduce_scatter_op)


def _needed_by_others(graph: Graph) -> set[Node]:
    """The nodes that a collective waits for."""
    needed: set[Node] = set()
    for node in reversed(graph.nodes):
        if node in needed or _sends(node):
            needed.update(node.args)
    return needed


def _levels(graph: Graph) -> dict[Node, int]:
    """How many collectives, one behind the other, each node waits for."""
    found: dict[Node, int] = {}
    for node in graph.nodes:
        found[node] = max((found[a] + _sends(a) for a in node.args), default=0)
    return found


def _moves(node: Node) -> bool:
    """Whether a node moves elements: a rank whose part is smaller has more of these."""
    return isinstance(node.op.lowering, View) or node.op in (embed_op, slice_op)


def _depths(graph: Graph) -> dict[Node, int]:
    """How many operations, one behind the other, each node waits for."""
    found: dict[Node, int] = {}
    for node in graph.nodes:
        found[node] = max((found[a] for a in node.args), default=0) + (not _moves(node))
    return found


def _needs(graph: Graph, depth: Mapping[Node, int]) -> dict[Node, int]:
    """The depth of the first operation that reads each node, or that of the node itself."""
    found: dict[Node, int] = {}
    for node in reversed(graph.nodes):
        uses = [found[u] if _moves(u) else depth[u] for u in graph.users[node]]
        found[node] = min(uses, default=depth[node])
    return found


# -- the chain -----------------------------------------------------------------------------------


class _Chain:
    """The nodes that take the place of those of a graph, made one unit after the other."""

    def __init__(self, graph: Graph, units: Sequence[_Unit], first: Symbol) -> None:
        self.graph, self.units = graph, units
        self.place = {n: i for i, unit in enumerate(units) for n in unit.nodes}
        self.last = _last_before_each_ends(graph, units, self.place)
        self.new: dict[Node, Node] = {}
        self.token = first
        """What the next unit comes behind: a number that `begin` takes."""
        self.tickets: list[Symbol] = []
        self.operands: dict[int, list[Symbol]] = {}

    def add(self, i: int, unit: _Unit) -> None:
        """Begin a unit, or have it done at once."""
        if unit.early:
            xs = [Symbol(self.rebuild(n.args[0])) for n in unit.nodes]
            before, ahead = self.token, self._ahead(i)
            if ahead is not None:
                before = tied_op(before, Symbol(self.rebuild(ahead)))
            with using(_locs_of(unit)):
                self.token = begin_op(before, *xs, **_attrs(unit))
            self.operands[i] = xs
        else:
            (node,) = unit.nodes
            args = [self.rebuild(a) for a in node.args]
            if self.token.node.args and args:
                args[0] = tied_op(Symbol(args[0]), self.token).node
            attrs = map_attrs(node.attrs, lambda size: size, _order_region)
            self.new[node] = Node(node.op, tuple(args), attrs, node.type, node.locs)
            if i + 1 < len(self.units):
                self.token = tied_op(self.token, Symbol(self._result_of(node)))
        self.tickets.append(self.token)

    def rebuild(self, node: Node) -> Node:
        """The node in the place of one; what was begun is ended where it is first needed."""
        for n in toposort((node,), self.new):
            if n in self.new:
                continue
            i = self.place.get(n)
            if i is None:
                self.new[n] = with_args(n, tuple([self.new[a] for a in n.args]))
                continue
            unit = self.units[i]  # that was begun: one that is done at once is in new
            with using(_locs_of(unit)):
                found = end_op(
                    self.tickets[i], self.tickets[self.last[i]], *self.operands[i], **_attrs(unit)
                )
            self.new |= {n: y.node for n, y in zip(unit.nodes, found, strict=True)}
        return self.new[node]

    def _ahead(self, i: int) -> Node | None:
        """What must have been gathered, or summed in parts, before the unit ``i`` is begun."""
        op = self.units[i].nodes[0].op
        before = [u for u in self.units[:i] if u.early and u.nodes[0].op is op is not all_reduce_op]
        return before[-AHEAD].nodes[0] if len(before) >= AHEAD else None

    def _result_of(self, node: Node) -> Node:
        """A result of a node."""
        if not isinstance(node.type, tuple):
            return self.new[node]
        return self.rebuild(next(u for u in self.graph.users[node] if u.op is item))


def _last_before_each_ends(
    graph: Graph, units: Sequence[_Unit], place: Mapping[Node, int]
) -> list[int]:
    """For each unit the last one that is begun before it is waited for: the one before the first
    that needs it, and at most the next one of what has much memory: of gathered tensors the result,
    of parts of sums the operand."""
    reader: dict[Node, int] = {}
    for node in reversed(graph.nodes):
        uses = [place[u] if u in place else reader[u] for u in graph.users[node]]
        reader[node] = min(uses, default=len(units))
    found = [min(reader[n] for n in unit.nodes) - 1 for unit in units]
    following: dict[Op, int] = {}
    for i, unit in reversed([*enumerate(units)]):
        op = unit.nodes[0].op
        if op is not all_reduce_op:
            found[i], following[op] = min(found[i], following.get(op, len(units))), i
    return [min(last, len(units) - 1) for last in found]


def _attrs(unit: _Unit) -> dict[str, object]:
    node = unit.nodes[0]
    return {
        "collective": node.op.name,
        "mesh": node.attrs["mesh"],
        "axes": node.attrs["axes"],
        "along": tuple([n.attrs.get("dim", 0) for n in unit.nodes]),
    }


def _locs_of(unit: _Unit) -> Locs:
    found = unit.nodes[0].locs
    for n in unit.nodes[1:]:
        found = merge_locs(found, n.locs)
    return found
