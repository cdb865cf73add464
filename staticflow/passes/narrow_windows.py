"""A sum over windows of 16-bit floats is taken of these as they are, for a GPU's tensor cores.

Convolutions are written as sums over windows of float32, to which their operands are cast. Tensor
cores take 16 bits, and add up in 32, so that the casts would only keep them away. The sum is
rounded to 16 bits before a bias is added, as that of a product of matrices is.
"""

from __future__ import annotations

from staticflow.graph.dtypes import DType, bfloat16, float16
from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.locs import using
from staticflow.graph.node import Node, make_node
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.slicing import embed_op
from staticflow.ops.declaring.lowering import View
from staticflow.ops.symbols.symbol import Symbol
from staticflow.ops.windows.correlate import correlate_kernel_op, correlate_op
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["narrow_windows"]


def narrow_windows(graph: Graph, counts: Counts) -> Graph:
    """``correlate(wide(x), wide(w)) = wide(correlate(x, w))``, of floats of 16 bits."""

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if node.op not in (correlate_op, correlate_kernel_op):
            return with_args(node, args)
        narrow = [_narrow(a) for a in args]
        found = [a for a in narrow if a is not None]
        if len(found) < len(args) or len({a.tensor_type.dtype for a in found}) > 1:
            return with_args(node, args)
        counts.note("narrow_windows", node)
        with using(node.locs):
            made = make_node(node.op, tuple(found), node.attrs, node.locs)
            return _cast(made, node.tensor_type.dtype)

    return rebuild(graph, visit)


def _cast(node: Node, dtype: DType) -> Node:
    found: Node = cast(Symbol(node), dtype=dtype).node
    return found


def _narrow(node: Node) -> Node | None:
    """The values of a node in 16 bits, if they are a cast of such, perhaps seen otherwise or with
    zeros around; None if they are not."""
    if node.op is cast:
        return node.args[0] if node.args[0].tensor_type.dtype in (float16, bfloat16) else None
    if not isinstance(node.op.lowering, View) and node.op is not embed_op:
        return None
    below = _narrow(node.args[0])
    return None if below is None else make_node(node.op, (below,), node.attrs, node.locs)
