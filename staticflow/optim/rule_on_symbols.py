"""An update rule on symbols, which is run once for all parameters of one kind: for the others its
nodes are copied, since a thousand runs of Python take seconds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from staticflow import pytree
from staticflow.data_classes import dataclass
from staticflow.graph.graph import substitute_nodes
from staticflow.graph.node import Node, param, toposort
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["RuleOnSymbols"]

Rule = Callable[[Any, Any, Mapping[str, Any], Mapping[str, Any]], tuple[Any, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Written:
    """What a rule made of the nodes ``given``: the ``results``, the first the value of the
    parameter, the others those of its state, by their ``names``."""

    given: Sequence[Node]
    results: Sequence[Node]
    names: Sequence[str]


class RuleOnSymbols:
    """``rule(param, grad, state, hyper)`` with one ``hyper``, on the symbols of many parameters."""

    def __init__(self, rule: Rule, hyper: Mapping[str, Any]) -> None:
        self._rule, self._hyper = rule, hyper
        leaves, _ = pytree.flatten(dict(hyper))
        self._shared = {leaf.node for leaf in leaves if isinstance(leaf, Symbol)}
        self._written: dict[Any, _Written] = {}

    def run(self, param: Any, grad: Any, state: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """What the rule gives. It is not run again for what has the types of another parameter."""
        symbols = [param, grad, *state.values()]
        if not all(type(s) is Symbol for s in symbols):
            return self._rule(param, grad, state, self._hyper)
        given = [s.node for s in symbols]
        kind = (tuple(state), tuple([n.type for n in given]))
        known = self._written.get(kind)
        if known is not None:
            values = {n: n for n in self._shared} | dict(zip(known.given, given, strict=True))
            copies = [Symbol(n) for n in substitute_nodes(known.results, values)]
            return copies[0], dict(zip(known.names, copies[1:], strict=True))
        value, after = self._rule(param, grad, state, self._hyper)
        made = [value, *after.values()]
        if all(type(s) is Symbol for s in made):
            results = [s.node for s in made]
            if self._may_be_copied(given, results):
                self._written[kind] = _Written(given, results, tuple(after))
        return value, after

    def _may_be_copied(self, given: Sequence[Node], results: Collection[Node]) -> bool:
        """Whether the results follow from what the rule is given alone. A rule that draws numbers
        reads the state of a generator, which each parameter has to move on."""
        if len({*given, *self._shared}) < len(given) + len(self._shared):
            return False
        return all(n.op is not param for n in toposort(results, {*given, *self._shared}))
