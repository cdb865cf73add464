"""A case that fails, made smaller as long as it fails in the same way: fewer outputs, updates, passes
and nodes, smaller sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from graph_judge import Case

from staticflow.errors import StaticflowError
from staticflow.graph.graph import Graph, close, map_attrs, new_param, regions_of, substitute_nodes
from staticflow.graph.node import Node, item, make_node, param, toposort
from staticflow.graph.types import TensorType

__all__ = ["reduce_case"]

Fails = Callable[[Case], bool]


def reduce_case(case: Case, fails: Fails, most: int = 2000) -> Case:
    """The smallest case that is found with ``most`` trials, for which ``fails`` holds as it does
    for ``case``."""
    left = most
    smaller = True
    while smaller and left > 0:
        smaller = False
        for candidate in _candidates(case):
            left -= 1
            if left <= 0:
                break
            if _weight(candidate) < _weight(case) and fails(candidate):
                case, smaller = candidate, True
                break
    return case


def _weight(case: Case) -> tuple[int, ...]:
    """What is to be small, the most important first."""
    return (
        count_nodes(case.graph), len(case.graph.outputs), len(case.graph.params), int(case.back),
        len(case.passes), sum(n for _, n in case.sizes),
    )  # fmt: skip


def count_nodes(graph: Graph) -> int:
    inner = (count_nodes(r) for n in graph.nodes for r in regions_of(n))
    return sum(n.op not in (param, item) for n in graph.nodes) + sum(inner)


def _candidates(case: Case) -> Iterator[Case]:
    """Smaller ones, the boldest first."""
    if case.back:
        yield replace(case, back=False)
    yield from _fewer_outputs(case)
    for graph in _smaller_graphs(case.graph):
        yield _with_graph(case, graph)
    for i in range(len(case.passes)):
        yield replace(case, passes=(*case.passes[:i], *case.passes[i + 1 :]))
    for i, (name, size) in enumerate(case.sizes):
        for less in {0, 1, 2, size // 2} - {size}:
            if less < size:
                yield replace(case, sizes=(*case.sizes[:i], (name, less), *case.sizes[i + 1 :]))


def _with_graph(case: Case, graph: Graph) -> Case:
    """The case of a graph whose outputs are those of its own, and whose params are among them or
    new, unless it has no use for some."""
    used = set(toposort(graph.outputs))
    olds = {case.graph.params[i] for i, _ in case.updates}
    params = tuple(p for p in graph.params if p in used or p in olds or _gives_size(p, graph))
    graph = Graph(params, graph.outputs, graph.equalities, tuple(p.tensor_type for p in params))
    at = {p: i for i, p in enumerate(params)}
    updates = tuple((at[case.graph.params[i]], out) for i, out in case.updates)
    return replace(case, graph=graph, updates=updates)


def _gives_size(p: Node, graph: Graph) -> bool:
    """Whether a param is the only one that tells a size."""
    others = {s for q in graph.params if q is not p for s in map(str, q.tensor_type.shape)}
    return any(str(d) not in others and not str(d).isdecimal() for d in p.tensor_type.shape)


def _fewer_outputs(case: Case) -> Iterator[Case]:
    graph, changed = case.graph, dict((out, i) for i, out in case.updates)
    count = len(graph.outputs)
    keeps = [[i] for i in range(count)] if count > 2 else []
    keeps += [[i for i in range(count) if i != out] for out in range(count)] if count > 1 else []
    for keep in keeps:
        outputs = tuple(graph.outputs[i] for i in keep)
        updates = tuple((changed[i], at) for at, i in enumerate(keep) if i in changed)
        less = replace(graph, outputs=outputs)
        yield _with_graph(replace(case, updates=updates, graph=less), less)


def _smaller_graphs(graph: Graph) -> Iterator[Graph]:
    """Graphs in which one node is gone: for it stands one of its operands, another node of its
    type, or a new param."""
    for node in reversed(graph.nodes[len(graph.params) :]):
        if not isinstance(node.type, TensorType):
            for smaller in _smaller_regions(node):
                yield from _closed(graph, {node: smaller})
            continue
        alike = [a for a in node.args if a.type == node.type]
        for other in alike:
            yield from _closed(graph, {node: other})
        fresh = new_param(node.type, f"cut{count_nodes(graph)}")
        yield from _closed(graph, {node: fresh}, fresh)


def _smaller_regions(node: Node) -> Iterator[Node]:
    """The node with a smaller region, of the same types."""
    for region in regions_of(node):
        for inner in region.nodes[len(region.params) :]:
            if not isinstance(inner.type, TensorType):
                for smaller in _smaller_regions(inner):
                    yield from _with_region(node, region, {inner: smaller})
                continue
            before = region.nodes[: region.nodes.index(inner)]
            for other in [n for n in before if n.type == inner.type][:3]:
                yield from _with_region(node, region, {inner: other})


def _with_region(node: Node, region: Graph, values: Mapping[Node, Node]) -> Iterator[Node]:
    outputs = tuple(substitute_nodes(region.outputs, values))
    smaller = replace(region, outputs=outputs)
    attrs = map_attrs(node.attrs, lambda d: d, lambda g: smaller if g is region else g)
    try:
        found = make_node(node.op, node.args, attrs)
    except (StaticflowError, AssertionError):
        return
    if found.type == node.type:
        yield found


def _closed(graph: Graph, values: Mapping[Node, Node], *more: Node) -> Iterator[Graph]:
    outputs = substitute_nodes(graph.outputs, values)
    try:
        yield close([*graph.params, *more], outputs, graph.equalities)
    except StaticflowError:
        return
