"""Fusion: groups of ops that share a loop become one kernel each.

Every node that is not inlined (see `access`) starts as a group of its own. A producer joins its
consumer where both loop over the same domain, every element is read at the place where it is made,
and no path leads from one to the other through a third. A group has a *domain*, the shape it loops
over, and *dims*, those of it that its reductions run along; values of the domain's shape are computed
for each element, values of the reduced shape for each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import networkx as nx

from staticflow.graph.dims import Sym, coefficient, symbols_of
from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.locs import Locs, merge_locs
from staticflow.graph.node import Node, item, make_node, param
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.lowering import (
    Contract,
    Elementwise,
    Generate,
    Index,
    LoopNest,
    Reduce,
    View,
    linear,
)
from staticflow.ops.reduce import reduced_shape
from staticflow.ops.view import reshape_op
from staticflow.passes.access import canonical_index, is_inline, reads, row_index, source_of
from staticflow.passes.cluster import cluster
from staticflow.passes.rewrite import Counts

__all__ = ["fuse", "member_index", "operand_strides"]

MOST_MEMBERS = 48
"""Ops in one kernel; beyond that registers spill and nothing is gained."""

AXES = tuple(Sym(f"i{axis}", -1) for axis in range(32))
"""Stand-ins for the loop variables of a domain, in the analysis only."""


@dataclass(eq=False, slots=True)
class Group:
    """Nodes that will be one kernel."""

    kind: str
    domain: Shape
    dims: tuple[int, ...]
    members: list[Node] = field(default_factory=list)


def fuse(graph: Graph, counts: Counts) -> Graph:
    """The graph as clusters, plain reshapes of what is in memory, and loops (which hold fused
    graphs themselves)."""
    kept = _kept_in_memory(graph)
    groups = {n: g for n in graph.nodes if (g := _own_group(n, kept)) is not None}
    order = {n: i for i, n in enumerate(graph.nodes)}
    merged = True
    while merged:
        merged = False
        for node in reversed(graph.nodes):
            if node not in groups:
                continue
            for producer in _producers(node):
                mine, other = groups[node], groups.get(producer)
                if other is None or other is mine:
                    continue
                joint = _joint(other, mine)
                if joint is None or _detour(graph, groups, order, other, mine):
                    continue
                joint.members = sorted(other.members + mine.members, key=order.__getitem__)
                if not _reads_in_place(joint):
                    continue
                for n in joint.members:
                    groups[n] = joint
                counts["fuse"] += 1
                merged = True
    return _emit(graph, groups, kept)


# -- what stays in memory ------------------------------------------------------------------------


def _kept_in_memory(graph: Graph) -> set[Node]:
    """Inlined nodes that something needs as an array: outputs, operands of loops and loop nests,
    and operands of matrix products that are no strided view."""
    kept: set[Node] = set()
    wanted = list(graph.outputs)
    for node in graph.nodes:
        lowering = node.op.lowering
        if isinstance(lowering, Contract):
            wanted += [a for i, a in enumerate(node.args) if operand_strides(node, i) is None]
        elif not isinstance(lowering, Elementwise | View | Reduce) and node.op is not item:
            wanted += node.args
    while wanted:
        node = wanted.pop()
        if node in kept or not is_inline(node):
            continue
        kept.add(node)
        if node.op is reshape_op:  # the same memory under another shape
            wanted.append(node.args[0])
    return kept


def operand_strides(node: Node, which: int) -> tuple[Node, Index] | None:
    """The array behind an operand of a matrix product and the index in it of element (b, row, col),
    in terms of `AXES`; None unless that is a strided view of an array."""
    arg = node.args[which]
    shape = arg.tensor_type.shape
    source, index = source_of(arg, canonical_index(shape, AXES[: len(shape)]))
    if is_inline(source):
        return None
    at = linear(index, source.tensor_type.shape)
    names = set(AXES[: len(shape)])
    for sym in names:
        stride = coefficient(at, sym)
        if stride is None or symbols_of(stride) & names:
            return None
    return source, index


# -- groups --------------------------------------------------------------------------------------


def _own_group(node: Node, kept: set[Node]) -> Group | None:
    lowering = node.op.lowering
    if is_inline(node):
        if node in kept and node.op is not reshape_op:
            return Group("map", node.tensor_type.shape, (), [node])
        return None
    if isinstance(lowering, Elementwise):
        return Group("map", node.tensor_type.shape, (), [node])
    if isinstance(lowering, Reduce):
        return Group("reduce", node.args[0].tensor_type.shape, node.attrs["dims"], [node])
    if isinstance(lowering, Contract):
        return Group("contract", node.tensor_type.shape, (), [node])
    if isinstance(lowering, LoopNest):
        return Group("nest", (), (), [node])
    return None


def _producers(node: Node) -> list[Node]:
    if isinstance(node.op.lowering, LoopNest):
        return []
    return list(dict.fromkeys(n for n, _ in reads(node, _any_index(node))))


def _any_index(node: Node) -> Index:
    shape = _looped_shape(node)
    return canonical_index(shape, AXES[: len(shape)])


def _looped_shape(node: Node) -> Shape:
    if isinstance(node.op.lowering, Reduce):
        return node.args[0].tensor_type.shape
    return node.tensor_type.shape


def _rows_of(group: Group) -> tuple[Shape, Shape]:
    return tuple(reduced_shape(group.domain, group.dims, keep) for keep in (False, True))  # type: ignore[return-value]


def _joint(producer: Group, consumer: Group) -> Group | None:
    """The group that two would make, by their kinds and domains; None if they cannot."""
    kinds = (producer.kind, consumer.kind)
    if len(producer.members) + len(consumer.members) > MOST_MEMBERS or "nest" in kinds:
        return None
    if kinds in (("map", "map"), ("contract", "map")) and producer.domain == consumer.domain:
        return Group(producer.kind, producer.domain, ())
    if kinds == ("reduce", "reduce"):
        same = producer.domain == consumer.domain and producer.dims == consumer.dims
        return Group("reduce", producer.domain, producer.dims) if same else None
    for reducing, other in ((producer, consumer), (consumer, producer)):
        if reducing.kind == "reduce" and other.kind == "map":
            if other.domain == reducing.domain or other.domain in _rows_of(reducing):
                return Group("reduce", reducing.domain, reducing.dims)
    return None


def member_index(node: Node, domain: Shape, dims: tuple[int, ...], names: Sequence[Sym]) -> Index:
    """Where a member of a group stands when the loops are at ``names``: at its element if it is of
    the domain's shape, else at its row."""
    index = canonical_index(domain, names)
    shape = node.tensor_type.shape
    if not dims or shape == domain:
        return index
    return row_index(index, dims, len(shape) == len(domain))


def _reads_in_place(group: Group) -> bool:
    """Whether every member that another reads is read where it is made."""
    members = set(group.members)
    names = AXES[: len(group.domain)]
    for node in group.members:
        if isinstance(node.op.lowering, Contract):
            continue
        if isinstance(node.op.lowering, Reduce):
            at = canonical_index(group.domain, names)
        else:
            at = member_index(node, group.domain, group.dims, names)
        for source, index in reads(node, at):
            if source in members and index != member_index(
                source, group.domain, group.dims, names
            ):
                return False
    return True


def _detour(
    graph: Graph, groups: dict[Node, Group], order: dict[Node, int], a: Group, b: Group
) -> bool:
    """Whether a path leads from ``a`` to ``b`` through anything else."""
    last = max(order[n] for n in b.members)
    seen: set[int] = {id(a), id(b)}
    stack: list[Node] = [u for n in a.members for u in graph.users[n] if _other(u, groups, a, b)]
    visited: set[Node] = set(stack)
    while stack:
        node = stack.pop()
        if order[node] > last:
            continue
        group = groups.get(node)
        members = [node] if group is None else group.members
        if group is not None:
            if id(group) in seen:
                continue
            seen.add(id(group))
        for user in (u for n in members for u in graph.users[n]):
            if groups.get(user) is b and not _only_inlined(node, groups):
                return True
            if user not in visited and _other(user, groups, a, b):
                visited.add(user)
                stack.append(user)
    return False


def _other(node: Node, groups: dict[Node, Group], a: Group, b: Group) -> bool:
    return groups.get(node) not in (a, b)


def _only_inlined(node: Node, groups: dict[Node, Group]) -> bool:
    return node not in groups and is_inline(node)


# -- the fused graph -----------------------------------------------------------------------------


def _emit(graph: Graph, groups: dict[Node, Group], kept: set[Node]) -> Graph:
    new: dict[Node, Node] = {p: p for p in graph.params}
    for unit in _in_order(graph, groups, kept):
        if isinstance(unit, Group):
            _emit_group(graph, unit, new, kept)
        elif unit not in new:
            args = tuple(new[a] for a in unit.args)
            new[unit] = Node(unit.op, args, unit.attrs, unit.type, unit.locs)
    outputs = [new[o] for o in graph.outputs]
    return close(graph.params, outputs, graph.equalities, graph.declared)


def _in_order(
    graph: Graph, groups: dict[Node, Group], kept: set[Node]
) -> Iterator[Group | Node]:
    """Groups, and nodes that are in none but stand in memory, each after what it reads."""
    dag = nx.DiGraph()
    rank: dict[Group | Node, int] = {}

    def unit_of(node: Node) -> Group | Node | None:
        if node in groups:
            return groups[node]
        return node if node in kept or not is_inline(node) else None

    for position, node in enumerate(graph.nodes):
        unit = unit_of(node)
        if unit is None:
            continue
        rank.setdefault(unit, position)
        dag.add_node(unit)
        for source in _array_inputs(node, kept):
            other = unit_of(source)
            if other is not None and other is not unit:
                dag.add_edge(other, unit)
    yield from nx.lexicographical_topological_sort(dag, key=rank.__getitem__)


def _array_inputs(node: Node, kept: set[Node]) -> Iterator[Node]:
    """The arrays that a node needs, through whatever is inlined on the way."""
    stack = list(node.args)
    while stack:
        arg = stack.pop()
        if is_inline(arg) and arg not in kept:
            stack.extend(arg.args)
        elif is_inline(arg) and isinstance(arg.op.lowering, View | Generate | Elementwise):
            yield arg
            stack.extend(arg.args)
        else:
            yield arg


def _emit_group(graph: Graph, group: Group, new: dict[Node, Node], kept: set[Node]) -> None:
    members = set(group.members)
    outputs = [
        n
        for n in group.members
        if n in graph.outputs or any(u not in members for u in graph.users[n])
    ]
    outside: dict[Node, Node] = {}
    stack = [a for n in reversed(group.members) for a in reversed(n.args)]
    nest = group.kind == "nest"
    while stack:
        node = stack.pop()
        if node in members or node in outside:
            continue
        if node.op is param or (nest and node in new) or not is_inline(node):
            t = node.tensor_type
            outside[node] = new_param(t, f"p{len(outside)}", locs=node.locs)
        elif nest:
            raise AssertionError("an operand of a loop nest stands in memory")
        else:
            stack.extend(reversed(node.args))
    inside = substitute_nodes(outputs, outside)
    body = close(tuple(outside.values()), inside)
    args = tuple(new[n] for n in outside)
    locs: Locs = ()
    for n in group.members:
        locs = merge_locs(locs, n.locs)
    made = make_node(cluster, args, {"body": body, "kind": group.kind}, locs)
    if isinstance(made.type, TensorType):
        new[outputs[0]] = made
    else:
        for i, n in enumerate(outputs):
            new[n] = make_node(item, (made,), {"index": i}, n.locs)


