"""The engine that applies rules to a graph until none fires."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from staticflow.errors import VerifyError
from staticflow.graph.graph import Graph, has_regions, map_attrs, new_args, rebuild, replace_nodes
from staticflow.graph.locs import Loc
from staticflow.graph.node import Node
from staticflow.ops.symbols.pattern import Rule, RuleTable, rewrite_node

__all__ = ["Counts", "Pass", "each_region", "rewrite"]


class Counts(Counter[str]):
    """How often each rule of a pass fired, by its name, and ``lines``, the user's lines of what it
    replaced, where these are known. ``depth`` is how many regions the graph that a pass is at lies
    in: 0 is the whole program. With a ``limit`` no rule of a set fires more often in all."""

    def __init__(self, limit: int | None = None) -> None:
        super().__init__()
        self.depth = 0
        self.limit = limit
        self.last = ""
        """The rule that fired last."""
        self.lines: dict[str, dict[Loc, None]] = {}

    def note(self, rule: str, *nodes: Node) -> None:
        """Count that ``rule`` fired at ``nodes``, once for each."""
        self[rule] += len(nodes)
        self.last = rule
        lines = self.lines.setdefault(rule, {})
        for node in nodes:
            lines.update(dict.fromkeys(node.locs))


Pass = Callable[[Graph, Counts], Graph]
_MOST_ROUNDS = 20


def rewrite(graph: Graph, rules: Sequence[Rule], counts: Counts) -> Graph:
    """``graph`` with ``rules`` applied, first match first, everywhere and again until none fires.

    What replaces a node has its dtype and, if need be, is stretched to its shape.
    """
    table = _table_of(tuple(rules))
    settled: set[Node] = set()  # what no rule applies to, with all that it stands on
    for _ in range(_MOST_ROUNDS):
        fired: set[str] = set()
        changed: dict[Node, Node] = {}
        for node in graph.nodes:
            now = with_args(node, new_args(node, changed))
            if now not in settled:
                found = rewrite_node(now, table)
                if found is None:
                    settled.add(now)
                elif counts.limit is None or counts.total() < counts.limit:
                    now = found[0]
                    fired.add(found[1].name)
                    counts.note(found[1].name, node)
            if now is not node:
                changed[node] = now
        graph = replace_nodes(graph, changed)
        if not fired:
            return graph
    raise VerifyError(f"the rules {sorted(fired)} keep firing after {_MOST_ROUNDS} rounds")


@lru_cache(maxsize=64)
def _table_of(rules: tuple[Rule, ...]) -> RuleTable:
    return RuleTable(rules)


def with_args(node: Node, args: tuple[Node, ...]) -> Node:
    """The node with other arguments; itself if they are the same."""
    if args == node.args:  # nodes are compared by identity
        return node
    return Node(node.op, args, node.attrs, node.type, node.locs)


def each_region(graph: Graph, run: Pass, counts: Counts) -> Graph:
    """A pass applied to every nested graph, inner before outer, and to the graph itself. What is
    one graph in several positions stays one."""
    return _each_region(graph, run, counts, {})


def _each_region(graph: Graph, run: Pass, counts: Counts, done: dict[Graph, Graph]) -> Graph:
    def region(inner: Graph) -> Graph:
        if inner not in done:
            counts.depth += 1
            done[inner] = _each_region(inner, run, counts, done)
            counts.depth -= 1
        return done[inner]

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        node = with_args(node, args)
        if not has_regions(node):
            return node
        attrs = map_attrs(node.attrs, lambda s: s, region)
        if all(attrs[k] is v or attrs[k] == v for k, v in node.attrs.items()):
            return node
        return Node(node.op, args, attrs, node.type, node.locs)

    if graph.has_regions:
        graph = rebuild(graph, visit)
    return run(graph, counts)
