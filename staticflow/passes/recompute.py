"""Which values a kernel works out again from what it reads, though another kernel has them.

The normalised rows of a layer norm are a difference and a product of the rows that were read and
two numbers for each. A kernel that reads the rows and the numbers needs no tensor of the normalised
ones, which is then neither written nor read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from staticflow.graph.node import Node
from staticflow.ops.basics.arithmetic import add, cast, div, eq, ge, gt, le, lt, mul, ne, neg, sub
from staticflow.ops.declaring.lowering import Elementwise, Reduce

__all__ = ["find_recomputed", "read_instead"]

_CHEAP = (add, sub, mul, neg, cast, eq, ne, lt, le, gt, ge)
"""What costs less than to load the result, as a quotient does that reads no array at all: it is of
numbers and sizes, and computed once, outside of the loops."""

_MOST = 4
"""Operations that are done again for one value."""


def find_recomputed(
    arrays: Mapping[Node, Sequence[Node]],
    readers: Mapping[Node, Sequence[Node]],
    unit_of: Callable[[Node], Any],
    results: Set[Node],
) -> dict[Node, tuple[Node, ...]]:
    """For each value that its readers outside of its kernel work out themselves, what they read
    instead: one array that its kernel reads, too, and smaller ones. ``unit_of`` is the kernel of a
    node."""
    found: dict[Node, tuple[Node, ...]] = {}
    for node in arrays:
        outside = [r for r in readers[node] if unit_of(r) is not unit_of(node)]
        instead = read_instead(node, outside, arrays, unit_of) if node not in results else None
        if instead is not None:
            found[node] = instead
    return found


def read_instead(
    node: Node,
    outside: Sequence[Node],
    arrays: Mapping[Node, Sequence[Node]],
    unit_of: Callable[[Node], Any],
) -> tuple[Node, ...] | None:
    """What the readers ``outside`` of the kernel of a value read if they work it out themselves;
    None if they read the value, or if there are none."""
    inlines = all(isinstance(r.op.lowering, Elementwise | Reduce) for r in outside)
    return _instead_of(node, arrays, unit_of) if outside and inlines else None


def _instead_of(
    value: Node, arrays: Mapping[Node, Sequence[Node]], unit_of: Callable[[Node], Any]
) -> tuple[Node, ...] | None:
    shape, own = value.tensor_type.shape, unit_of(value)
    instead: dict[Node, None] = {}
    seen = {value}
    stack = [value]
    large = 0
    while stack:
        node = stack.pop()
        if node.tensor_type.shape != shape:
            instead[node] = None
        elif unit_of(node) is not own:
            instead[node] = None
            large += 1
        elif node.op not in _CHEAP and not (node.op is div and not arrays[node]):
            return None
        else:
            fresh = [s for s in arrays[node] if s not in seen]
            seen.update(fresh)
            stack.extend(fresh)
    return tuple(instead) if large <= 1 and len(seen) - len(instead) <= _MOST else None
