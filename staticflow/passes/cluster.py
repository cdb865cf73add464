"""The op that fusion makes: a small graph that becomes one kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from staticflow.errors import VerifyError
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import int64
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node, param
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType, Type
from staticflow.ops.declaring.lowering import Checked, LoopNest

__all__ = ["KINDS", "checked_members", "cluster", "inner_nodes", "is_checked"]

KINDS = ("map", "reduce", "rows", "contract", "attend", "nest", "loop")
"""What leads a cluster: elementwise work alone, reductions over shared dims, such along rows
and totals over these, a matrix product,
attention, a loop nest of its own, or a loop over numbers."""


def _infer(
    facts: Facts, *args: TensorType, body: Graph, kind: str, binds: tuple[Dim, ...] = ()
) -> Type:
    if kind not in KINDS:
        raise VerifyError(f"a cluster is one of {KINDS}, not {kind!r}")
    if len(args) != len(body.params):
        raise VerifyError(f"the body takes {len(body.params)} values, {len(args)} are given")
    for given, inner in zip(args, body.params, strict=True):
        wanted = inner.tensor_type
        if given != wanted:
            raise VerifyError(f"an operand is {given} where the body takes {wanted}")
    outs = tuple(o.tensor_type for o in body.outputs)
    if binds and outs[-1] != TensorType(int64, ()):
        raise VerifyError(f"what binds {binds[0]} is counted by an i64, not {outs[-1]}")
    return outs if len(outs) > 1 else outs[0]


def _reference(xp: Any, *args: Any, body: Any, kind: str, binds: Any = ()) -> Any:
    outs = body(*args)
    return tuple(outs) if len(outs) > 1 else outs[0]


cluster = Op(
    name="cluster",
    doc="A fused group of ops that runs as one kernel. A loop whose number of iterations is a size "
    "``binds`` it and counts them in its last result.",
    infer=_infer,
    reference=_reference,
    vjp=None,
)


def checked_members(body: Graph) -> list[Node]:
    """The members of a cluster whose elements, or the indices that name them, are checked."""
    return [n for n in body.nodes if is_checked(n)]


def is_checked(node: Node) -> bool:
    """Whether a member of a cluster is one that may end the program."""
    lowering = node.op.lowering
    if isinstance(lowering, LoopNest):
        return lowering.source is not None
    return isinstance(lowering, Checked)


def inner_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and of its clusters that compute something, if any size is unknown."""
    for node in graph.nodes if graph.symbols else ():
        if node.op is cluster:  # whose nodes have the names that a user knows
            yield from inner_nodes(node.attrs["body"])
        if node.op is not param:
            yield node
