"""Fusion: groups of ops that share a loop become one kernel each.

Every node that is not inlined (see `access`) starts as a group of its own. A producer joins its
consumer where both loop over the same domain, every element is read at the place where it is made,
and no path leads from one to the other through a third. A group has a *domain*, the shape it loops
over, and *dims*, those of it that its reductions run along; values of the domain's shape are
computed for each element, values of the reduced shape for each row. A group that reduces rows may
add up over all of them, too (see `row_totals`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import field

from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import prod
from staticflow.graph.graph import Graph, close
from staticflow.graph.locs import Locs, merge_locs
from staticflow.graph.node import Node, item, make_node
from staticflow.graph.order import in_order
from staticflow.graph.types import Shape, TensorType, types_of
from staticflow.ops.declaring.lowering import (
    Attend,
    Contract,
    Elementwise,
    Index,
    LoopNest,
    Reduce,
)
from staticflow.passes.access import (
    canonical_index,
    chooses_element,
    is_inline,
    is_one_element,
    member_index,
    reads,
    shows_memory,
)
from staticflow.passes.arrays import AXES, MOST_MEMBERS, arrays_in_memory, arrays_read_by
from staticflow.passes.choosing import choose_of_rows, keeps_from_vectors
from staticflow.passes.cluster import cluster, is_checked
from staticflow.passes.cluster_bodies import Bodies
from staticflow.passes.contraction import Contraction
from staticflow.passes.down_columns import writes_down_columns
from staticflow.passes.nests import is_worked_out
from staticflow.passes.recompute import find_recomputed, read_instead
from staticflow.passes.rewrite import Counts
from staticflow.passes.row_totals import adds_rows_up, are_in_place, has_shape_of_total, row_shapes

__all__ = ["fuse", "separate"]

_REDUCING = ("reduce", "rows")
"""The kinds of groups that reduce what they loop over."""

_OWN = frozenset(("nest", "attend"))
"""The kinds of groups that nothing joins."""


@dataclass(eq=False, slots=True)
class Group:
    """Nodes that will be one kernel, which ``checks`` so many of them, of which an error names
    one, and in which some may be ``chosen``: elements that an index names."""

    kind: str
    domain: Shape
    dims: tuple[int, ...]
    members: list[Node] = field(default_factory=list)
    checks: int = 0
    chosen: bool = False


def fuse(graph: Graph, counts: Counts) -> Graph:
    """The graph as clusters, plain reshapes of what is in memory, and loops (which hold fused
    graphs themselves)."""
    graph = choose_of_rows(graph)
    arrays, groups = _group_alone(graph)
    readers = _readers(arrays)
    results = set(graph.outputs)
    order = {n: i for i, n in enumerate(graph.nodes)}
    units = Contraction(
        {groups.get(n, n): [groups.get(s, s) for s in sources] for n, sources in arrays.items()}
    )
    plain = set(_plain_nodes(graph))
    refused = set[tuple[Group, Group]]()  # once two may not be joined, they never may
    across = set[tuple[Group, Group]]()  # refused because of what their kernel would write

    def writes(joint: Group, anew: bool) -> bool:
        """Whether a kernel would write across its rows; not what others can work out ``anew``."""
        return _writes_across(joint, arrays, readers, groups, results, anew)

    def fits(producer: Group, consumer: Group, joint: Group) -> bool:
        """Whether what is read of a producer is at hand where it is read."""
        if joint.kind == "nest":
            made, domain = producer.members, producer.domain
            return is_worked_out(made, domain, consumer.members, readers, results)
        return _reads_in_place(producer, consumer, joint, arrays, plain)

    def join_all(anew: bool) -> None:
        merged = True
        while merged:
            merged = False
            for node in reversed(list(groups)):
                for producer in arrays[node]:
                    mine, other = groups[node], groups.get(producer)
                    if other is None or other is mine or (other, mine) in refused:
                        continue
                    joint = _joint(other, mine)
                    if joint is not None:
                        joint.members = sorted(other.members + mine.members, key=order.__getitem__)
                    if joint is not None and _is_slow(joint):
                        joint = None
                    if joint is not None and writes(joint, anew):
                        across.add((other, mine))
                        joint = None
                    if (
                        joint is None
                        or not fits(other, mine, joint)
                        or _reads_many(other, mine, arrays, groups)
                        or not units.contract(other, mine, joint)
                    ):
                        refused.add((other, mine))
                        continue
                    for n in joint.members:
                        groups[n] = joint
                    counts.note("fuse", node)
                    merged = True

    join_all(anew=False)
    if across:  # what is left of the columns, once all that goes along rows is joined
        refused -= across
        join_all(anew=True)
    for one, node in _siblings(groups, arrays):
        mine, other = groups[one], groups[node]
        joint = None if mine is other else _joint(mine, other) or _joint(other, mine)
        if joint is None:
            continue
        joint.members = sorted(other.members + mine.members, key=order.__getitem__)
        pairs = ((mine, other), (other, mine))
        if _is_slow(joint):
            continue
        if not all(_reads_in_place(a, b, joint, arrays, plain) for a, b in pairs):
            continue
        if writes(joint, True):
            continue
        if units.contract_any(mine, other, joint):
            for n in joint.members:
                groups[n] = joint
            counts.note("fuse siblings", node)
    recomputed = find_recomputed(arrays, readers, lambda n: groups.get(n, n), results)
    return _emit(graph, groups, arrays, recomputed)


def separate(graph: Graph, counts: Counts) -> Graph:
    """The graph as clusters of one op each, but for what costs nothing where it is read: views,
    constants and ramps."""
    arrays, groups = _group_alone(graph)
    return _emit(graph, groups, arrays, {})


def _group_alone(graph: Graph) -> tuple[dict[Node, list[Node]], dict[Node, Group]]:
    """For each node that stands in memory the arrays that it reads, and its group, of it alone."""
    kept = arrays_in_memory(graph)
    arrays = {n: arrays_read_by(n, kept) for n in graph.nodes if n in kept or not is_inline(n)}
    return arrays, {n: g for n in arrays if (g := _own_group(n, kept)) is not None}


def _readers(arrays: Mapping[Node, Sequence[Node]]) -> dict[Node, list[Node]]:
    readers: dict[Node, list[Node]] = {n: [] for n in arrays}
    for node, sources in arrays.items():
        for source in sources:
            readers[source].append(node)
    return readers


def _is_slow(joint: Group) -> bool:
    return joint.chosen and keeps_from_vectors(joint.domain, joint.dims, joint.members)


def _writes_across(
    group: Group,
    arrays: Mapping[Node, Sequence[Node]],
    readers: Mapping[Node, Sequence[Node]],
    groups: Mapping[Node, Group],
    results: Set[Node],
    anew: bool,
) -> bool:
    """Whether a group that reduces along others than its innermost dim would write elements: its
    loops go down the columns, where each write is far from the one before. What others can work
    out ``anew``, once all that goes along rows is joined, need not be written; and then some
    columns are few and short enough."""
    sized = [axis for axis, d in enumerate(group.domain) if d != 1]
    if group.kind not in _REDUCING or not sized or sized[-1] in group.dims:
        return False
    if anew and writes_down_columns(group.domain, group.dims, group.members):
        return False
    members = set(group.members)

    def unit_of(node: Node) -> Group | Node:
        return group if node in members else groups.get(node, node)

    for n in group.members:
        if n.tensor_type.shape != group.domain or isinstance(n.op.lowering, Reduce):
            continue
        outside = [r for r in readers[n] if r not in members]
        instead = read_instead(n, outside, arrays, unit_of) if anew else None
        if n in results or (outside and instead is None):
            return True
    return False


def _reads_many(
    producer: Group,
    consumer: Group,
    arrays: Mapping[Node, Sequence[Node]],
    groups: Mapping[Node, Group],
) -> bool:
    """Whether two reductions of arrays that other kernels make have none in common: as one kernel
    they would need all of them in memory at once, and apart one after the other."""
    if producer.kind not in _REDUCING or consumer.kind not in _REDUCING:
        return False
    inside = {*producer.members, *consumer.members}
    one, other = (
        {
            source
            for n in group.members
            for source in arrays[n]
            if source not in inside and source.tensor_type.shape == group.domain
        }
        for group in (producer, consumer)
    )
    if not one.isdisjoint(other) or any(
        n in producer.members and n.tensor_type.shape == producer.domain
        for member in consumer.members
        for n in arrays[member]
    ):
        return False
    made = [any(source in groups for source in sources) for sources in (one, other)]
    return all(made) and _example_size(producer.domain) >= _LARGE


_LARGE = 1 << 14
"""Elements from which on an array is worth a kernel more, if it is free sooner."""

_EXAMPLE = 64
"""What an unknown size is taken for where that is asked."""


def _example_size(shape: Shape) -> int:
    size = prod(shape)
    return evaluate_dim(size, dict.fromkeys(symbols_of(size), _EXAMPLE))


def _siblings(
    groups: Mapping[Node, Group], arrays: Mapping[Node, Sequence[Node]]
) -> Iterator[tuple[Node, Node]]:
    """Members of reductions that loop over the same domain and read one array of its size."""
    first: dict[tuple[Node, Shape], dict[tuple[int, ...], Node]] = {}
    for node, sources in arrays.items():
        group = groups.get(node)
        if group is None or group.kind not in _REDUCING:
            continue
        for source in sources:
            if prod(types_of(source.type)[0].shape) == prod(group.domain):
                ones = first.setdefault((source, group.domain), {})
                yield from ((one, node) for one in [*ones.values()] if one is not node)
                ones.setdefault(group.dims, node)


# -- groups --------------------------------------------------------------------------------------


def _own_group(node: Node, kept: set[Node]) -> Group | None:
    lowering = node.op.lowering
    if is_inline(node):
        if node in kept and not shows_memory(node):
            return Group("map", node.tensor_type.shape, (), [node])
        return None
    if isinstance(lowering, Elementwise):
        return Group("map", node.tensor_type.shape, (), [node], int(is_checked(node)))
    if isinstance(lowering, Reduce):
        return Group("reduce", node.args[0].tensor_type.shape, node.attrs["dims"], [node])
    if isinstance(lowering, Contract):
        return Group("contract", node.tensor_type.shape, (), [node])
    if isinstance(lowering, Attend):
        return Group("attend", (), (), [node])
    if chooses_element(node):
        return Group("map", node.tensor_type.shape, (), [node], 1, True)
    if isinstance(lowering, LoopNest):
        return Group("nest", (), (), [node])
    return None


def _joint(producer: Group, consumer: Group) -> Group | None:
    """The group that two would make, by their kinds and domains; None if they cannot."""
    kinds = (producer.kind, consumer.kind)
    if len(producer.members) + len(consumer.members) > MOST_MEMBERS:
        return None
    if kinds == ("map", "nest") and not (producer.checks or producer.chosen):
        return Group("nest", (), ())
    if not _OWN.isdisjoint(kinds):
        return None
    checks = producer.checks + consumer.checks
    joint = _joint_shape(producer, consumer) if checks <= _MOST_CHECKS else None
    if joint is not None:
        joint.checks, joint.chosen = checks, producer.chosen or consumer.chosen
    return joint


_MOST_CHECKS = 16
"""Members of a kernel that are checked: each has codes of its own for what it refuses."""


def _joint_shape(producer: Group, consumer: Group) -> Group | None:
    """The group that two would make, still without members."""
    kinds = (producer.kind, consumer.kind)
    if kinds == ("contract", "map") and consumer.checks:
        return None
    one = is_one_element(producer.domain) and is_one_element(consumer.domain)
    if kinds == ("map", "map") and one:
        return Group("map", max(producer.domain, consumer.domain, key=len), ())
    if kinds in (("map", "map"), ("contract", "map")) and producer.domain == consumer.domain:
        return Group(producer.kind, producer.domain, ())
    if set(kinds) <= set(_REDUCING):
        if producer.domain == consumer.domain and producer.dims == consumer.dims:
            return Group("rows" if "rows" in kinds else "reduce", producer.domain, producer.dims)
        rows, total = (producer.domain, producer.dims), (consumer.domain, consumer.dims)
        if consumer.kind == "reduce" and adds_rows_up(*rows, *total):
            return Group("rows", *rows)
        return None
    for reducing, other in ((producer, consumer), (consumer, producer)):
        rows = reducing.domain, reducing.dims
        if reducing.kind not in _REDUCING or other.kind != "map":
            continue
        one = is_one_element(row_shapes(*rows)[0]) and is_one_element(other.domain)
        if other.domain in (reducing.domain, *row_shapes(*rows)) or (
            one and reducing.kind == "reduce"
        ):
            return Group(reducing.kind, *rows)
        if reducing.kind == "rows" and has_shape_of_total(other.domain, *rows):
            return Group("rows", *rows)
    return None


def _plain_nodes(graph: Graph) -> Iterator[Node]:
    """The elementwise nodes that read their arguments themselves, and not through views or numbers
    that are worked out where they are read."""
    leads_on = {n for n in graph.nodes if n.args and is_inline(n)}
    for node in graph.nodes:
        if isinstance(node.op.lowering, Elementwise) and leads_on.isdisjoint(node.args):
            yield node


def _reads_in_place(
    producer: Group,
    consumer: Group,
    joint: Group,
    arrays: Mapping[Node, Sequence[Node]],
    plain: set[Node],
) -> bool:
    """Whether every member of ``producer`` that one of ``consumer`` reads is read where it is made,
    as both groups stand in their ``joint`` one. One that is ``plain`` reads so what has its own
    shape, as all of a group without reductions has."""
    if joint.kind in ("map", "contract") and plain.issuperset(consumer.members):
        return True
    full = canonical_index(joint.domain, AXES[: len(joint.domain)])
    if joint.kind == "rows":
        return are_in_place(joint.members, joint.domain, joint.dims, arrays.__getitem__, full)
    made = set(producer.members)

    def index_of(node: Node) -> Index:
        return member_index(node, full, joint.domain, joint.dims)

    skips = plain if joint.kind in ("map", "contract") else frozenset[Node]()
    for node in consumer.members:
        if node in skips or made.isdisjoint(arrays[node]):
            continue
        reduces = isinstance(node.op.lowering, Reduce)
        at = full if reduces else index_of(node)
        if any(source in made and index != index_of(source) for source, index in reads(node, at)):
            return False
    return True


# -- the fused graph -----------------------------------------------------------------------------


def _emit(
    graph: Graph,
    groups: Mapping[Node, Group],
    arrays: Mapping[Node, Sequence[Node]],
    instead: Mapping[Node, Sequence[Node]],
) -> Graph:
    """The graph of one cluster a group. ``instead`` says of the values that others work out again
    what those read."""
    results = set(graph.outputs)
    arrays = {n: _expand(n, sources, groups, instead) for n, sources in arrays.items()}
    readers = _readers(arrays)
    new: dict[Node, Node] = {p: p for p in graph.params}
    bodies = Bodies(bool(graph.equalities))
    for unit in _in_order(groups, arrays):
        if isinstance(unit, Group):
            members = set(unit.members)
            outputs = [
                n for n in unit.members if n in results or any(r not in members for r in readers[n])
            ]
            if not outputs:  # every reader computes them again
                continue
            outside = dict.fromkeys(s for n in unit.members for s in arrays[n] if s not in members)
            _emit_group(unit, outputs, tuple(outside), new, bodies)
        elif unit not in new:
            args = tuple(new[a] for a in unit.args)
            new[unit] = Node(unit.op, args, unit.attrs, unit.type, unit.locs)
    return close(graph.params, [new[o] for o in graph.outputs], graph.equalities, graph.declared)


def _expand(
    node: Node,
    sources: Sequence[Node],
    groups: Mapping[Node, Group],
    instead: Mapping[Node, Sequence[Node]],
) -> list[Node]:
    """What a node reads where others work out again what is recomputed."""
    found: dict[Node, None] = {}
    stack = list(reversed(sources))
    while stack:
        source = stack.pop()
        if source in instead and groups.get(source) is not groups.get(node):
            stack.extend(reversed(instead[source]))
        else:
            found[source] = None
    return list(found)


def _in_order(
    groups: Mapping[Node, Group], arrays: Mapping[Node, Sequence[Node]]
) -> Iterator[Group | Node]:
    """Groups, and nodes that are in none but stand in memory, each after what it reads."""
    rank: dict[Group | Node, int] = {}
    later: dict[Group | Node, dict[Group | Node, None]] = {}
    for position, (node, sources) in enumerate(arrays.items()):
        unit = groups.get(node, node)
        rank.setdefault(unit, position)
        later.setdefault(unit, {})
        for source in sources:
            other = groups.get(source, source)
            if other is not unit:
                later.setdefault(other, {})[unit] = None
    return in_order(later, rank)


def _emit_group(
    group: Group,
    outputs: Sequence[Node],
    outside: Sequence[Node],
    new: dict[Node, Node],
    bodies: Bodies,
) -> None:
    """Make the cluster that computes ``outputs`` from the arrays ``outside``. A loop nest that
    gives several results gives all of them, used or not."""
    leader = outputs[0]
    several = isinstance(leader.type, tuple)
    if several:
        outputs = [
            make_node(item, (leader,), {"index": i}, leader.locs)
            for i, _ in enumerate(types_of(leader.type))
        ]
    body = bodies.body_of(outside, outputs)
    locs: Locs = ()
    for n in group.members:
        locs = merge_locs(locs, n.locs)
    args = tuple(new[n] for n in outside)
    alone = group.chosen and len(group.members) == 1
    kind = "nest" if alone else group.kind
    made = make_node(cluster, args, {"body": body, "kind": kind}, locs)
    if several or isinstance(made.type, TensorType):
        new[leader] = made
    else:
        for i, n in enumerate(outputs):
            new[n] = make_node(item, (made,), {"index": i}, n.locs)
