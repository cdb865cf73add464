"""Which rules are tried at a node: all whose patterns match it, and of the others hardly any."""

from __future__ import annotations

from pathlib import Path

import pytest
from filetests import parse_case, split_cases

from staticflow.graph.graph import Graph, regions_of
from staticflow.graph.node import Node
from staticflow.graph.parser import parse_graph
from staticflow.ops import OPS
from staticflow.ops.symbols.pattern import Rule, RuleTable, match
from staticflow.ops.symbols.stable_forms import STABLE_FORMS
from staticflow.passes.choosing import FUSED
from staticflow.passes.rules import CANONICAL, FAST, PARTS, REORDER

SETS = {
    "canonicalize": CANONICAL, "stabilize": STABLE_FORMS, "stabilize_parts": PARTS, "relax": FAST,
    "reorder": REORDER,
}  # fmt: skip
FILES = sorted(Path(__file__).parent.glob("*.sf"))


def nodes_of(graph: Graph) -> list[Node]:
    inner = [n for node in graph.nodes for region in regions_of(node) for n in nodes_of(region)]
    return [*graph.nodes, *inner]


@pytest.fixture(scope="module")
def nodes() -> list[Node]:
    """The nodes of all text cases of passes, numbers of all kinds among their arguments."""
    texts = [parse_case(case).input for file in FILES for case in split_cases(file.read_text())]
    return [n for text in texts for n in nodes_of(parse_graph(text, {**OPS, **FUSED}))]


@pytest.mark.parametrize("rules", SETS.values(), ids=SETS)
def test_a_rule_that_matches_is_tried_in_its_order(
    rules: tuple[Rule, ...], nodes: list[Node]
) -> None:
    table, tried, matching = RuleTable(rules), 0, 0
    for node in nodes:
        found = list(table.rules_for(node))
        tried += len(found)
        fits = [r for r in rules if match(r.pattern, node, {})]
        matching += len(fits)
        assert [r for r in found if r in fits] == fits
        assert found == [r for r in rules if r in found]
    assert matching
    of_the_op = sum(r.pattern.op is node.op for node in nodes for r in rules)
    assert tried - matching < 0.4 * (of_the_op - matching)
