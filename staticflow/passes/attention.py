"""Attention becomes one op, which has no weights in memory; or is written out in others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.locs import using
from staticflow.graph.node import Node, item
from staticflow.graph.op import Op
from staticflow.ops.declaring.late import behind
from staticflow.ops.matrices.attention import (
    attend_back_op,
    attend_op,
    write_out,
    write_out_back,
)
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.attention import attention_of
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["attention", "write_attention"]


def attention(graph: Graph, counts: Counts) -> Graph:
    """``softmax(scale q k^T) v = attend(q, k, v)``, where nobody else wants the weights."""
    if not any(node.op is matmul_op for node in graph.nodes):
        return graph
    new: dict[Node, Node] = {}
    outputs = frozenset(graph.outputs)

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        found = attention_of(node, lambda n: Symbol(new.get(n, n)), graph.users, outputs)
        if found is not None:
            counts.note("attention", node)
        new[node] = with_args(node, args) if found is None else found.node
        return new[node]

    return rebuild(graph, visit)


_WRITE: dict[Op, Callable[..., tuple[Any, ...]]] = {
    attend_op: write_out,
    attend_back_op: write_out_back,
}


def write_attention(graph: Graph, counts: Counts) -> Graph:
    """What stands for attention is written out in products and exponentials, as it was before it
    was differentiated."""
    if not any(node.op in _WRITE for node in graph.nodes):
        return graph
    parts: dict[Node, tuple[Any, ...]] = {}

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if node.op is item and node.args[0] in parts:
            part: Node = parts[node.args[0]][node.attrs["index"]].node
            return part
        if node.op not in _WRITE:
            return with_args(node, args)
        counts.note("write_attention", node)
        with using(node.locs), behind(args):
            parts[node] = _WRITE[node.op](*map(Symbol, args), **node.attrs)
        return node

    return rebuild(graph, visit)
