"""The weights of attention as people write them: the softmax of scores, and what is multiplied with
it or made 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dims import same
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType
from staticflow.ops.along.softmax import logsumexp_op, softmax_op
from staticflow.ops.basics.arithmetic import cast, div, logical_not, logical_or, mul, sub, where
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.reduce import all_op
from staticflow.ops.basics.view import reshape_op, unsqueeze_op
from staticflow.ops.elementwise.maths import exp
from staticflow.ops.indexing.mask_ops import masked_fill_op
from staticflow.ops.symbols.attention_reading import (
    At,
    Part,
    Reading,
    is_row,
    keeps_matrices,
    leave,
    round_less,
    splits_queries,
)
from staticflow.ops.symbols.attention_scores import SCORES, Scores
from staticflow.ops.symbols.pattern import number_of

__all__ = ["WEIGHTS", "Weights", "softmax_of"]


@dataclass(frozen=True, slots=True)
class Weights(Part):
    """The weights ``softmax(scores) factor``, 0 in the rows where ``empty`` is true. ``reshaped``:
    they have got other leading sizes after all that."""

    scores: Scores
    factor: Any = None
    empty: Any = None
    reshaped: bool = False


def softmax_of(node: Node) -> tuple[Node, ...]:
    """What a node is the softmax of along its last dim, and the nodes that are inside of what
    writes it, ``exp(x - logsumexp(x))`` for one; nothing if it is none."""
    last = node.tensor_type.ndim - 1 if isinstance(node.type, TensorType) else -1
    if node.op is softmax_op:
        return (node.args[0],) if node.attrs["dim"] == last else ()
    if node.op is not exp or node.args[0].op is not sub:
        return ()
    x, total = node.args[0].args
    inside = []
    while total.op in (unsqueeze_op, reshape_op):
        inside.append(total)
        (total,) = total.args
    if total.op is not logsumexp_op or total.args != (x,) or total.attrs["dims"] != (last,):
        return ()
    column = node.args[0].args[1].tensor_type.shape
    if len(column) != last + 1 or not same(column[-1], 1):
        return ()
    return x, node.args[0], total, *inside


def _begin_weights(node: Node, at: At) -> Weights | None:
    shape = node.tensor_type.shape
    found = softmax_of(node)
    if not found:
        return None
    scores = SCORES.read(found[0], at)
    return None if scores is None else Weights(shape, (*scores.inside, *found[1:], node), scores)


def _times(inner: Weights, node: Node, position: int, at: At) -> Weights | None:
    if inner.reshaped or (position and node.op is div):
        return None
    other = at(node.args[1 - position])
    return _with_factor(inner, other if node.op is mul else 1 / other)


def _with_factor(inner: Weights, factor: Any) -> Weights:
    return replace(inner, factor=factor if inner.factor is None else inner.factor * factor)


def _zero_where(inner: Weights, drop: Any) -> Weights | None:
    """Weights that are 0 where ``drop`` is true. A row of which all scores are -inf has NaN for
    weights, which times 0 would still be NaN: so rows of which all is dropped are ``empty``."""
    if inner.reshaped:
        return None
    if is_row(drop.__sf_shape__):
        rows = drop
    else:
        one = full.beside(drop, shape=(), value=1.0, dtype=inner.scores.query.dtype)
        inner = _with_factor(inner, where(drop, 0.0, one))
        if not inner.scores.may_be_blind:
            return inner
        rows = all_op(drop, dims=(drop.ndim - 1,), keepdim=True)
    return replace(inner, empty=rows if inner.empty is None else logical_or(inner.empty, rows))


def _choose(inner: Weights, node: Node, position: int, at: At) -> Weights | None:
    if position == 0 or number_of(node.args[3 - position]) != 0:
        return None
    condition = at(node.args[0])
    return _zero_where(inner, condition if position == 2 else logical_not(condition))


def _drop(inner: Weights, node: Node, position: int, at: At) -> Weights | None:
    if position != 2 or number_of(node.args[1]) != 0:
        return None
    return _zero_where(inner, at(node.args[0]))


def _reshape_weights(inner: Weights, node: Node, position: int, at: At) -> Weights | None:
    shape = node.tensor_type.shape
    fits = keeps_matrices(inner.shape, shape) or splits_queries(shape, inner.shape)
    return replace(inner, shape=shape, reshaped=True) if fits else None


WEIGHTS = Reading(_begin_weights, {
    mul: _times, div: _times, where: _choose, masked_fill_op: _drop, reshape_op: _reshape_weights,
    cast: round_less, expand_op: leave,
})  # fmt: skip
