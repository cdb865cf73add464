"""The order in which updates are made, against its definition, and what finding it asks."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import networkx as nx
import pytest

import staticflow as sf
from staticflow.codegen.program import assemble, update_order
from staticflow.graph.graph import Graph, binders_of
from staticflow.graph.node import Node, maker_of
from staticflow.graph.order import in_order
from staticflow.passes.cluster import cluster


class FoundError(Exception):
    """An order was found: no more of the program is wanted."""


def order_by_paths(
    graph: Graph, updates: Sequence[tuple[Node, Node]]
) -> tuple[list[Node], set[Node]]:
    """What `order_updates` gives, found as its docstring says it: edge by edge, path by path."""
    dag = nx.DiGraph()
    rank = {n: i for i, n in enumerate(graph.nodes)}
    dag.add_nodes_from(graph.nodes)
    dag.add_edges_from((a, n) for n in graph.nodes for a in n.args)
    dag.add_edges_from((b, n) for n, found in binders_of(graph.nodes).items() for b in found)
    in_place: set[Node] = set()
    asked = update_order.Order(graph)
    for value, over in updates:
        maker = maker_of(value)
        if maker.op is not cluster or not asked._reads_in_place(maker, value, over):
            continue
        positions = update_order._positions_of(maker, over)
        if update_order._may_end(maker) and not update_order._updates(
            maker.attrs["body"], positions
        ):
            continue
        before = {r for r in update_order._readers(graph, over) if r is not maker}
        before |= {n for n in graph.nodes if n is not maker and update_order._may_end(n)}
        if any(nx.has_path(dag, maker, r) for r in before):
            continue
        dag.add_edges_from((r, maker) for r in before)
        in_place.add(over)
    return list(nx.lexicographical_topological_sort(dag, key=rank.__getitem__)), in_place


def order_as_written(graph: Graph, edges: Sequence[Sequence[int]]) -> list[Node]:
    """The first order of a graph's nodes that keeps to ``edges``; the last is the gate."""
    later = {-1 if i == len(graph.nodes) else i: after for i, after in enumerate(edges)}
    moved = {i: [-1 if j == len(graph.nodes) else j for j in after] for i, after in later.items()}
    return [graph.nodes[i] for i in in_order(moved, {i: i for i in moved}) if i >= 0]


def random_updates(
    seed: int,
) -> tuple[list[sf.Symbol], list[sf.Symbol], dict[sf.Tensor, sf.Symbol]]:
    """Some variables whose new values are made of old and new ones, by kernels that may end too."""
    rng = random.Random(seed)
    x = sf.placeholder((6,), name="x")
    rows = sf.placeholder((2,), "int64", name="rows")
    variables = [sf.zeros(6) for _ in range(rng.randint(1, 5))]
    values = [x * v for v in variables]
    for _ in range(rng.randint(1, 8)):
        a, b, v = rng.choice(values), rng.choice(values), rng.choice(variables)
        made = [
            lambda a, b, v: a.sin() + v,
            lambda a, b, v: (a * b).sum() * v,
            lambda a, b, v: v.index_add(0, rows, a[:2]),
            lambda a, b, v: (v.index_add(0, rows, b[:2]), a.sin() * v)[1],
            lambda a, b, v: a.flip(0) - v,
            lambda a, b, v: b.cumsum(0) + v.sum(),
        ]
        values.append(rng.choice(made)(a, b, v))
    values += [v.index_add(0, rows, rng.choice(values)[:2]) for v in variables]
    updates = {v: rng.choice(values) for v in variables}
    return [x, rows], [rng.choice(values)], updates


def test_the_order_is_as_it_is_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    in_place = through_copies = moved = 0

    def compare(graph: Graph, updates: Sequence[tuple[Node, Node]], fails: object) -> None:
        nonlocal in_place, through_copies, moved
        monkeypatch.setattr(update_order, "repeated_checks", lambda nodes: set())
        waiting, places = update_order.order_updates(graph, updates)
        order = order_as_written(graph, waiting.edges())
        assert (order, places) == order_by_paths(graph, updates)
        in_place += len(places)
        through_copies += len(updates) - len(places)
        moved += order != list(graph.nodes)
        raise FoundError

    monkeypatch.setattr(assemble, "order_updates", compare)
    for seed in range(50):
        inputs, outputs, updates = random_updates(seed)
        with pytest.raises(FoundError):
            sf.compile(inputs, outputs, updates)
    assert min(in_place, through_copies, moved) > 6


def test_what_may_end_is_asked_of_each_node_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Node] = []
    may_end = update_order._may_end

    def count(node: Node, fails: Callable[[Node], bool]) -> bool:
        asked.append(node)
        return may_end(node, fails)

    def order(graph: Graph, updates: Sequence[tuple[Node, Node]], fails: object) -> None:
        update_order.order_updates(graph, updates)
        assert len(updates) == 40 and len(asked) <= len(graph.nodes)
        raise FoundError

    monkeypatch.setattr(update_order, "_may_end", count)
    monkeypatch.setattr(assemble, "order_updates", order)
    x = sf.placeholder((), name="x")
    with pytest.raises(FoundError):
        sf.compile([x], None, {sf.zeros(()): x * i for i in range(40)})
