"""Attention as people write it, found in a graph: ``softmax(q k^T) v`` with whatever is done to the
scores and to the weights on the way, which becomes `attend_op`.

From the last product the way leads back over the weights to the softmax, and over the scores to the
first product.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from staticflow.graph.dims import Size
from staticflow.graph.dtypes import DType, bfloat16, float16, float32, float64
from staticflow.graph.graph import bound_symbols, substitute_nodes
from staticflow.graph.locs import using
from staticflow.graph.node import Node, param, toposort
from staticflow.graph.types import Shape
from staticflow.ops.basics.arithmetic import (
    cast,
)
from staticflow.ops.basics.axes import mT, permute_op, t_op, transpose_op
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.late import behind
from staticflow.ops.matrices.attention import ROLES, attend_op
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.attention_reading import At, is_stretched, splits_queries, stretch
from staticflow.ops.symbols.attention_weights import WEIGHTS, Weights, softmax_of
from staticflow.ops.symbols.effect import is_mark
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["attend_nodes", "attention_of"]

_LEAST = 8
"""Queries below which the weights are few, and would fill no vector."""

_DTYPES = (float32, float64, float16, bfloat16)

_SHORT = (float16, bfloat16)
"""Dtypes whose scores and weights are of float32, rounded no more than the result."""


def attention_of(
    node: Node, at: At, users: Mapping[Node, Collection[Node]], closed: Collection[Node]
) -> Any:
    """The symbol that computes the same as ``node`` without its weights in memory, if that is a
    product of the weights of attention and values; else None.

    ``at`` gives what stands for the arguments. Nothing ``closed``, and nothing that others use,
    may lie between the two products.
    """
    if node.op is not matmul_op or node.tensor_type.dtype not in _DTYPES:
        return None
    with using(node.locs), behind(node.args):
        found = _attend_by_rows(node, at, users, closed)
        return _attend_by_columns(node, at, users, closed) if found is None else found


def _attend_by_rows(
    node: Node, at: At, users: Mapping[Node, Collection[Node]], closed: Collection[Node]
) -> Any:
    """`attention_of`, of ``weights value``."""
    weights = WEIGHTS.read(node.args[0], at)
    t = node.tensor_type
    if weights is None or _are_few(t.shape[-2]):
        return None
    if not _is_private(weights.inside, node, users, closed):
        return None
    return _write(weights, at(node.args[1]), t.shape, t.dtype, at)


def _attend_by_columns(
    node: Node, at: At, users: Mapping[Node, Collection[Node]], closed: Collection[Node]
) -> Any:
    """`attention_of`, of ``value^T weights^T``, where channels stand before positions."""
    turned, t = node.args[1], node.tensor_type
    if not _is_transposed(turned) or _are_few(t.shape[-1]):
        return None
    weights = WEIGHTS.read(turned.args[0], at)
    if weights is None or not _is_private((*weights.inside, turned), node, users, closed):
        return None
    shape = (*t.shape[:-2], t.shape[-1], t.shape[-2])
    out = _write(weights, mT(at(node.args[0])), shape, t.dtype, at)
    return None if out is None else mT(out)


def _are_few(queries: Size) -> bool:
    return isinstance(queries, int) and queries < _LEAST


def _is_transposed(node: Node) -> bool:
    """Whether a node is its argument with the last two dims exchanged."""
    ndim = node.tensor_type.ndim
    if node.op is permute_op:
        return bool(node.attrs["dims"] == (*range(ndim - 2), ndim - 1, ndim - 2))
    if node.op is transpose_op:
        return {node.attrs["dim0"], node.attrs["dim1"]} == {ndim - 2, ndim - 1}
    return node.op is t_op


def _is_private(
    inside: Collection[Node], node: Node, users: Mapping[Node, Collection[Node]],
    closed: Collection[Node],
) -> bool:  # fmt: skip
    """Whether only ``node`` needs the values of what is inside; of some only the shape is asked."""
    own = {*inside, node}
    return not any(
        n in closed or any(u not in own and not u.op.shapeless for u in users[n]) for n in inside
    )


def attend_nodes(
    outputs: Sequence[Node], closed: Collection[Node], outside: Collection[Node]
) -> dict[Node, Node]:
    """For each node that ``outputs`` need what computes the same without the weights of attention
    in memory, often the node itself. A ``closed`` node is kept for what it is, and one ``outside``
    stays, with all that it is made of."""
    order = toposort(outputs)
    found = {node: node for node in order}
    if not any(map(softmax_of, order)):
        return found
    users: dict[Node, list[Node]] = {node: [] for node in order}
    for node in order:
        for arg in node.args:
            users[arg].append(node)
    kept = {*closed, *outputs}
    for node in order:
        if node in outside:
            continue
        attended = attention_of(node, lambda n: Symbol(found[n]), users, kept)
        if attended is not None:
            found[node] = attended.node
        elif node.op is not param and not is_mark(node) and not bound_symbols(node):
            args = tuple(found[a] for a in node.args)
            if any(a is not b for a, b in zip(args, node.args, strict=True)):
                found[node] = Node(node.op, args, node.attrs, node.type, node.locs)
    return found


# -- the op ---------------------------------------------------------------------------------------


def _write(weights: Weights, value: Any, shape: Shape, dtype: DType, at: At) -> Any:
    """Weights times values, of ``shape``; None if that is no attention."""
    scores = weights.scores
    lead, outer = scores.shape[:-2], weights.shape[:-2]
    if is_stretched(outer, shape[:-2]):
        return None  # over the leading sizes of the values
    value = stretch(value, outer)
    if weights.reshaped and splits_queries(weights.shape, scores.shape):
        ones = (1,) * (len(lead) - len(outer))
        value = stretch(reshape(value, (*outer, *ones, *value.__sf_shape__[-2:])), lead)
    elif weights.reshaped:
        value = reshape(value, (*lead, *value.__sf_shape__[-2:]))
    query, key = (stretch(x, lead) for x in (scores.query, scores.key))
    given = (scores.times, scores.bias, scores.keep, weights.factor, weights.empty)
    extras = {role: x for role, x in zip(ROLES, given, strict=True) if x is not None}
    found = [_without(x, weights.inside, at) for x in extras.values()]
    if None in found:
        return None
    parts = [_widen(x, float32 if dtype in _SHORT else dtype) for x in (query, key, value, *found)]
    out, *_ = attend_op(
        *parts, roles=tuple(extras), fill=scores.fill, scale=scores.scale, cap=scores.cap
    )
    if weights.reshaped:
        out = reshape(out, shape)
    return out if out.dtype is dtype else cast(out, dtype=dtype)


def _widen(x: Any, dtype: DType) -> Any:
    """Floats in ``dtype``, and masks as they are."""
    return x if x.dtype is dtype or not x.dtype.is_floating else cast(x, dtype=dtype)


def _without(x: Any, inside: Collection[Node], at: At) -> Any:
    """``x``, which asks nothing but the shape of what is ``inside``; None if it asks more."""
    hidden = {at(n).node for n in inside}
    oldest = min(n.serial for n in hidden)
    instead: dict[Node, Node] = {}
    seen, stack = {x.node}, [x.node]
    while stack:
        node = stack.pop()
        if node in hidden:
            return None
        for position, arg in enumerate(node.args):
            if arg in hidden and node.op.shapeless and position == 1:
                t = arg.tensor_type
                instead[arg] = full.beside(x, shape=t.shape, value=0, dtype=t.dtype).node
            elif arg not in seen and arg.serial >= oldest:
                seen.add(arg)
                stack.append(arg)
    return Symbol(substitute_nodes([x.node], instead)[0]) if instead else x
