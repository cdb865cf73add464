"""The scores of attention as people write them: a product of queries and keys, and whatever is
added to it, multiplied with it or put into its place."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dims import same_shape
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import (
    add,
    cast,
    div,
    logical_and,
    logical_not,
    mul,
    sub,
    where,
)
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.view import reshape, reshape_op
from staticflow.ops.elementwise.trig import tanh
from staticflow.ops.indexing.mask_ops import masked_fill_op
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.attention_reading import (
    At,
    Part,
    Reading,
    is_row,
    keeps_matrices,
    leave,
    round_less,
    splits_queries,
    stretch,
)
from staticflow.ops.symbols.pattern import number_of

__all__ = ["SCORES", "Scores"]

_ADDING = ("addmm", "baddbmm")
"""Products with something added, by name: their module is not imported for this."""


@dataclass(frozen=True, slots=True)
class Scores(Part):
    """The scores ``keep ? s times + bias : fill`` with ``s = (scale query) key^T``, or
    ``s = cap tanh((scale query) key^T)`` with a cap other than 0. Of ``shifted`` ones the scores of
    each query are less all by the same, which a softmax does not see, and what is not done to all
    of them alike does."""

    query: Any
    key: Any
    times: Any = None
    bias: Any = None
    keep: Any = None
    fill: float = -math.inf
    scale: float = 1.0
    cap: float = 0.0
    shifted: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether these are nothing but a product, with or without a cap, and shifted or not."""
        return self.times is None and self.bias is None and self.keep is None

    @property
    def may_be_blind(self) -> bool:
        """Whether all scores of a query may be -inf."""
        has_others = self.bias is not None or self.times is not None
        return has_others or (self.keep is not None and self.fill == -math.inf)


def _begin_scores(node: Node, at: At) -> Scores | None:
    shape, bias, scale, shifted = node.tensor_type.shape, None, 1.0, False
    if node.op is matmul_op:
        query, key = node.args
    elif node.op.name in _ADDING:
        beside, query, key = node.args
        scale, beta = float(node.attrs["alpha"]), node.attrs["beta"]
        shifted = _is_finite_number(beside)  # softmax(x + c) = softmax(x)
        if beta and not shifted:
            bias = at(beside) * beta if beta != 1 else at(beside)
    else:
        return None
    for one, other in (query.args, reversed(query.args)) if query.op is mul and scale == 1 else ():
        number = number_of(other)
        if number is not None and same_shape(one.tensor_type.shape, query.tensor_type.shape):
            query, scale = one, float(number)
            break
    return Scores(shape, (node,), at(query), mT(at(key)), bias=bias, scale=scale, shifted=shifted)


def _add(inner: Scores, node: Node, position: int, at: At) -> Scores | None:
    if (inner.keep is not None and inner.fill != -math.inf) or (position and node.op is sub):
        return None
    other = node.args[1 - position]
    if is_row(other.tensor_type.shape):  # softmax(x + c) = softmax(x)
        chain = _chain(other, inner.inside)
        if chain or _is_finite_number(other):
            return replace(inner, inside=(*inner.inside, *chain), shifted=True)
    bias = at(other) if node.op is add else -at(other)
    return replace(inner, bias=bias if inner.bias is None else inner.bias + bias)


def _is_finite_number(node: Node) -> bool:
    """Whether a node is the same number everywhere, which has no gradient, and is no infinity."""
    number = number_of(node)
    return number is not None and math.isfinite(number)


def _chain(node: Node, inside: Collection[Node]) -> list[Node]:
    """The functions of one value that lead from what is ``inside`` to ``node``, such as its largest
    element; nothing if they do not."""
    chain = []
    while node not in inside:
        chain.append(node)
        if len(node.args) != 1:
            return []
        (node,) = node.args
    return chain


def _scale(inner: Scores, node: Node, position: int, at: At) -> Scores | None:
    """Scores times or divided by what is the same for all keys, and so are the queries; or by what
    is not, or after they were bounded by a cap."""
    if position and node.op is div:
        return None
    by = node.args[1 - position]
    shape, number = by.tensor_type.shape, number_of(by)
    if number is None and (inner.cap or not is_row(shape)):
        return _scale_each(inner, node.op, at(by))
    fill = inner.fill
    if inner.keep is not None:
        if number is None or not 0 < number < math.inf:
            return None
        fill = fill * number if node.op is mul else fill / number
    factor = at(by) if number is None or not shape else number
    inner = replace(
        inner, bias=None if inner.bias is None else node.op(inner.bias, factor), fill=fill
    )
    if number is not None and inner.cap:
        cap = inner.cap * number if node.op is mul else inner.cap / number if number else 0.0
        return replace(inner, cap=float(cap)) if cap and math.isfinite(cap) else None
    if number is not None and inner.scale == 1:
        if node.op is mul and math.isfinite(number):
            return replace(inner, scale=float(number))
        if node.op is div and _is_power_of_two(number):
            return replace(inner, scale=1 / number)
    return replace(inner, query=node.op(inner.query, factor))


def _scale_each(inner: Scores, op: Op, by: Any) -> Scores | None:
    """Scores times or divided by a number for each query and key."""
    if inner.keep is not None or (inner.shifted and not is_row(by.__sf_shape__)):
        return None
    by = by if op is mul else 1 / by
    times, bias = (x if x is None else x * by for x in (inner.times, inner.bias))
    return replace(inner, times=by if times is None else times, bias=bias)


def _bound(inner: Scores, node: Node, position: int, at: At) -> Scores | None:
    fits = inner.is_plain and not inner.cap and not inner.shifted
    return replace(inner, cap=1.0) if fits else None


def _is_power_of_two(number: float) -> bool:
    """Whether dividing by a number is multiplying by another one, to the bit."""
    return (
        math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5 and 2**-64 < abs(number) < 2**64
    )


def _fill_where(inner: Scores, keep: Any, number: Any) -> Scores | None:
    if not isinstance(number, float | int) or not number < math.inf:
        return None
    if inner.shifted and number != -math.inf:
        return None
    if inner.keep is not None:
        if inner.fill != number:
            return None
        keep = logical_and(inner.keep, keep)
    return replace(inner, keep=keep, fill=float(number))


def _where(inner: Scores, node: Node, position: int, at: At) -> Scores | None:
    if position == 0:
        return None
    condition, other = at(node.args[0]), number_of(node.args[3 - position])
    return _fill_where(inner, condition if position == 1 else logical_not(condition), other)


def _masked_fill(inner: Scores, node: Node, position: int, at: At) -> Scores | None:
    if position != 2:
        return None
    return _fill_where(inner, logical_not(at(node.args[0])), number_of(node.args[1]))


def _reshape_scores(inner: Scores, node: Node, position: int, at: At) -> Scores | None:
    """Scores under other leading sizes, and so are queries and keys; or with the queries in groups,
    each of which reads the same keys."""
    shape = node.tensor_type.shape
    if not inner.is_plain:
        return None
    parts = [stretch(x, inner.shape[:-2]) for x in (inner.query, inner.key)]
    if splits_queries(inner.shape, shape):
        query, key = parts
        lead = inner.shape[:-2]
        ones = (1,) * (len(shape) - len(inner.shape))
        query = reshape(query, (*shape[:-1], query.__sf_shape__[-1]))
        key = reshape(key, (*lead, *ones, *key.__sf_shape__[-2:]))
        return replace(inner, shape=shape, query=query, key=key)
    if not keeps_matrices(inner.shape, shape):
        return None
    query, key = (reshape(x, (*shape[:-2], *x.__sf_shape__[-2:])) for x in parts)
    return replace(inner, shape=shape, query=query, key=key)


SCORES = Reading(_begin_scores, {
    add: _add, sub: _add, mul: _scale, div: _scale, tanh: _bound, where: _where,
    masked_fill_op: _masked_fill, reshape_op: _reshape_scores, cast: round_less,
    expand_op: leave,
})  # fmt: skip
