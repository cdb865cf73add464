"""What is differentiated, in a form that is right at the extremes.

The gradient of ``log(softmax(x))`` is NaN where the softmax is 0, and stays so whatever is later
made of the value. So what a person wrote is rewritten before the reverse walk goes over it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from staticflow.errors import VerifyError
from staticflow.graph.graph import bound_symbols
from staticflow.graph.node import Node, param, toposort
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.effect import is_mark
from staticflow.ops.symbols.pattern import RuleTable, rewrite_node
from staticflow.ops.symbols.stable_forms import STABLE_FORMS

__all__ = ["stabilize_nodes"]

_TABLE = RuleTable(STABLE_FORMS)
_MOST_ROUNDS = 20


def stabilize_nodes(
    outputs: Sequence[Node], closed: Collection[Node], outside: Collection[Node]
) -> dict[Node, Node]:
    """For each node that ``outputs`` need what computes the same without loss at the extremes,
    often the node itself. A ``closed`` node is kept for what it is: no form reaches over it. A node
    ``outside`` stays, with all that it is made of, though a form may reach into it."""
    order = toposort(outputs)
    found = {node: node for node in order}
    if not thread.state.stable or not any(map(_TABLE.rules_for, order)):
        return found
    known: dict[Node, Node] = {}  # what became of nodes in rounds before
    for _ in range(_MOST_ROUNDS):
        now = toposort(found[o] for o in outputs)
        new = _rewrite_once(now, {found[c] for c in closed}, outside, known)
        changed = {a: b for a, b in new.items() if a is not b and a not in known}
        if not changed:
            return found
        known |= changed
        found = {node: new.get(by_now, by_now) for node, by_now in found.items()}
    raise VerifyError(f"the stable forms keep changing after {_MOST_ROUNDS} rounds")


def _rewrite_once(
    order: Sequence[Node],
    closed: Collection[Node],
    outside: Collection[Node],
    known: Mapping[Node, Node],
) -> dict[Node, Node]:
    """What becomes of each node in one go from the arguments to the users. What names sizes that
    only the run tells, or marks an effect, is there once, and stays, with its arguments as they
    were: of these it is ``known`` what became of them."""
    new: dict[Node, Node] = {}
    shut = set(closed)  # with what has come in their place
    for node in order:
        if node.op is param or node in outside or is_mark(node) or bound_symbols(node):
            new[node] = node
            continue
        if node in known:
            new[node] = known[node]
            if node in closed:
                shut.add(new[node])
            continue
        args = tuple(new[a] for a in node.args)
        same = all(a is b for a, b in zip(args, node.args, strict=True))
        now = node if same else Node(node.op, args, node.attrs, node.type, node.locs)
        if node in closed:
            shut.add(now)
        elif (rewritten := rewrite_node(now, _TABLE, shut)) is not None:
            now = rewritten[0]
        new[node] = now
    return new
