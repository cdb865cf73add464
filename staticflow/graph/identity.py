"""What a graph is, as bytes: equal ones of two graphs, in whatever processes, are graphs of which
everything that is made is equal, too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from staticflow.graph.graph import Graph, regions_of
from staticflow.graph.node import Node, constant, item, param
from staticflow.graph.op import Op
from staticflow.graph.printer import ATTR_CLASSES, store_graph
from staticflow.graph.terms import Sym

__all__ = ["identify_graph"]

_STRUCTURAL = (param, constant, item)


def identify_graph(graph: Graph, ops: Mapping[str, Op]) -> list[str | bytes] | None:
    """All of a graph that anything made of it may depend on, but for its source lines, which only
    messages name. None if it has an op that is none of ``ops``, such as a user's, of which the name
    does not say what it does.

    That is its text, the elements of its constants, and what the text does not say: by which names
    and in which order symbols are sorted, in which order nodes were made, and which params stand
    for one tensor.
    """
    nodes = [*_walk(graph)]
    if not all(_is_known(node, ops) for node in nodes):
        return None
    stored = store_graph(graph, few=0)
    symbols = sorted(stored.symbols.items(), key=lambda named: named[1].sort_key())
    return [
        stored.text,
        *(array.tobytes() for array in stored.arrays.values()),
        "\n".join(_describe_symbol(name, symbol) for name, symbol in symbols),
        _ranks([node.serial for node in nodes]),
        _ranks([id(p.attrs["source"]) for p in graph.params], by_size=False),
    ]


def _walk(graph: Graph) -> Iterator[Node]:
    """Every node, each before those of the graphs that it holds."""
    for node in graph.nodes:
        yield node
        for region in regions_of(node):
            yield from _walk(region)


def _is_known(node: Node, ops: Mapping[str, Op]) -> bool:
    if node.op in _STRUCTURAL:
        return True
    return ops.get(node.op.name) is node.op and all(map(_has_text, node.attrs.values()))


def _has_text(value: object) -> bool:
    return all(map(_has_text, value)) if type(value) is tuple else type(value) in ATTR_CLASSES


def _describe_symbol(name: str, symbol: Sym) -> str:
    return f"{name} {json.dumps(symbol.name)} {symbol.late}"


def _ranks(numbers: list[int], by_size: bool = True) -> str:
    """How numbers compare: for each the place that it has among all, or of the first that it is
    equal to; nothing where that is their own order."""
    found: dict[int, int] = {}
    for number in sorted(numbers) if by_size else numbers:
        found.setdefault(number, len(found))
    ranks = [found[number] for number in numbers]
    return "" if ranks == [*range(len(numbers))] else str(ranks)
