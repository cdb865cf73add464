"""Branches over what is split: each rank runs the chosen one on its part.

All ranks have the whole condition, so all choose the same branch, and come to its collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from staticflow.graph.graph import close
from staticflow.graph.locs import using
from staticflow.graph.node import Node
from staticflow.ops.declaring.late import behind
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.partition.layouts import Layout, whole
from staticflow.passes.partition.plans import once_each

if TYPE_CHECKING:
    from staticflow.passes.partition.partition import Walk

__all__ = ["split_branches"]


def split_branches(node: Node, layouts: Sequence[Layout], walk: Walk) -> list[tuple[Node, Layout]]:
    """The results of a branch on this rank, with their layouts, for those of its operands: a result
    is split as in the first of the two functions that has it split."""
    operands = layouts[1:]
    regions = [node.attrs[name] for name in ("true", "false")]
    inside = [walk.follow(region, operands) for region in regions]
    ends = [
        once_each([a or b for a, b in zip(*both, strict=True)])
        for both in zip(
            *([w.local[o][1][0] for o in r.outputs] for r, w in zip(regions, inside, strict=True)),
            strict=True,
        )
    ]
    bodies = [
        close(
            [inner.local[p][0] for p in region.params],
            [inner.take(o, end, node) for o, end in zip(region.outputs, ends, strict=True)],
            region.equalities,
        )
        for region, inner in zip(regions, inside, strict=True)
    ]
    wanted = [whole(0), *operands]
    given = [walk.take(a, layout, node) for a, layout in zip(node.args, wanted, strict=True)]
    with using(node.locs), behind(given):
        made = node.op(*map(Symbol, given), true=bodies[0], false=bodies[1])
    return [(y.node, end) for y, end in zip(made, ends, strict=True)]
