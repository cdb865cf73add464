"""Which checks of indices can find nothing wrong, because the same indices were checked before.

The gradient of a table looks at the indices by which rows were taken from it: they are inside, or
the program has ended. Updates need not wait for such a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, is_provably_ge
from staticflow.graph.node import Node, maker_of
from staticflow.ops.basics.axes import flip_op, permute_op
from staticflow.ops.basics.view import reshape_op, squeeze_op, unsqueeze_op
from staticflow.ops.declaring.lowering import LoopNest, View
from staticflow.passes.cluster import checked_members, cluster

__all__ = ["repeated_checks"]

_WHOLE = (reshape_op, permute_op, flip_op, squeeze_op, unsqueeze_op)
"""Views that show every element."""


@dataclass(frozen=True, slots=True)
class _Check:
    """A statement that elements of an array are below ``size``, and at least 0 unless they may
    ``wrap``: all of them if it is of the ``whole``."""

    array: Node
    size: Size
    wraps: bool
    whole: bool


def repeated_checks(nodes: Iterable[Node]) -> set[Node]:
    """Those of ``nodes`` that check indices alone, and only such as others of them, which come
    first, have found to be inside."""
    inside: dict[tuple[Node, Size], bool] = {}  # and whether they may wrap
    found = set()
    for node in nodes:
        checks = _checks_of(node)
        if checks is None:
            continue
        if all(c.wraps >= inside.get((c.array, c.size), True + 1) for c in checks):
            found.add(node)
            continue
        for c in checks:
            if c.whole:
                key = (c.array, c.size)
                inside[key] = min(inside.get(key, True), c.wraps)
    return found


def _checks_of(node: Node) -> list[_Check] | None:
    """What a cluster checks; None if it may end the program for another reason."""
    if node.op is not cluster or len(node.attrs["body"].outputs) != 1:
        return None
    body = node.attrs["body"]
    made = maker_of(body.outputs[0])
    if any(n is not made for n in checked_members(body)):
        return None
    lowering = made.op.lowering
    if not isinstance(lowering, LoopNest) or lowering.checks is None:
        return None
    outer = dict(zip(body.params, node.args, strict=True))
    found = []
    for check in lowering.checks(*(a.tensor_type for a in made.args), **made.attrs):
        array, whole = _array_behind(made.args[check.argument], outer)
        if array is None:
            return None
        always = all(is_provably_ge(d, 1) for d in check.around)
        found.append(_Check(array, check.size, check.wraps, whole and always))
    return found


def _array_behind(node: Node, outer: Mapping[Node, Node]) -> tuple[Node | None, bool]:
    """The array whose elements ``node`` has, in a cluster whose params are ``outer`` nodes, and
    whether it has all of them; None if its elements are computed."""
    whole = True
    while node not in outer:
        if not isinstance(node.op.lowering, View):
            return None, False
        whole = whole and node.op in _WHOLE
        node = node.args[0]
    node = outer[node]
    while node.op is reshape_op:
        node = node.args[0]
    return node, whole
