"""What a step writes where it is told to, and what has to be copied there."""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.codegen.program.routine import Place
from staticflow.codegen.program.update_order import root_of
from staticflow.graph.graph import bound_symbols
from staticflow.graph.node import Node, maker_of
from staticflow.graph.types import types_of
from staticflow.ops.declaring.lowering import Host
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.loop import loop_ops
from staticflow.passes.cluster import checked_members, cluster

__all__ = ["does_nothing", "split_direct"]


def does_nothing(node: Node) -> bool:
    """Whether a kernel writes no element, whatever the sizes, nor looks whether it may."""
    return (
        node.op is cluster
        and node.attrs["kind"] != "nest"
        and all(t.size == 0 for t in types_of(node.type))
        and not checked_members(node.attrs["body"])
        and not bound_symbols(node)
    )


def split_direct(
    wanted: Sequence[tuple[Node, Place]],
) -> tuple[dict[Node, Place], list[tuple[Node, Place]]]:
    """Which wanted values are written in place by the kernel that makes them, and which are copied
    at the end."""
    direct: dict[Node, Place] = {}
    copied: list[tuple[Node, Place]] = []
    for node, place in wanted:
        root = root_of(node)
        if _writes_where_told(root) and root not in direct:
            direct[root] = place
        else:
            copied.append((node, place))
    return direct, copied


def _writes_where_told(node: Node) -> bool:
    """Whether what makes a value can write it anywhere: a kernel, a branch, a loop, or Python."""
    op = maker_of(node).op
    return op in (cluster, cond_op, *loop_ops()) or isinstance(op.lowering, Host)
