"""The order of things that wait for each other, beside that of networkx."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from staticflow.graph.order import in_order


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_that_of_networkx(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randrange(30)
    pairs = {tuple(sorted(draw.sample(range(count), 2))) for _ in range(count * 2) if count > 1}
    names = draw.sample(range(1000), count)
    later: dict[int, list[int]] = {name: [] for name in draw.sample(names, count)}
    for first, second in sorted(pairs):
        later[names[first]].append(names[second])
    rank = {name: place for place, name in enumerate(draw.sample(names, count))}
    dag = nx.DiGraph((a, b) for a, after in later.items() for b in after)
    dag.add_nodes_from(later)
    expected = [*nx.lexicographical_topological_sort(dag, key=rank.__getitem__)]
    assert [*in_order(later, rank)] == expected


def test_what_is_named_twice_is_waited_for_twice() -> None:
    assert [*in_order({"a": ["b", "b"], "b": []}, {"a": 1, "b": 0})] == ["a", "b"]


def test_a_circle_never_comes() -> None:
    assert [*in_order({"a": ["b"], "b": ["a"], "c": []}, {"a": 0, "b": 1, "c": 2})] == ["c"]
