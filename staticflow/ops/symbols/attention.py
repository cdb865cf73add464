"""Attention as people write it, found in a graph: ``softmax(q k^T) v`` with whatever is done to the
scores and to the weights on the way, which becomes `attend_op`.

From the last product the way leads back over the weights to the softmax, and over the scores to the
first product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeAlias, TypeVar

from staticflow.data_classes import dataclass
from staticflow.graph.dims import same, same_shape
from staticflow.graph.dtypes import DType, bfloat16, float16, float32, float64
from staticflow.graph.graph import bound_symbols, substitute_nodes
from staticflow.graph.locs import using
from staticflow.graph.node import Node, param, toposort
from staticflow.graph.op import Op
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.along.softmax import logsumexp_op, softmax_op
from staticflow.ops.basics.arithmetic import (
    add,
    cast,
    div,
    logical_and,
    logical_not,
    logical_or,
    mul,
    sub,
    where,
)
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.reduce import all_op
from staticflow.ops.basics.view import reshape, reshape_op, unsqueeze_op
from staticflow.ops.declaring.late import behind
from staticflow.ops.elementwise.maths import exp
from staticflow.ops.indexing.mask_ops import masked_fill_op
from staticflow.ops.matrices.attention import ROLES, attend_op
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.effect import is_mark
from staticflow.ops.symbols.pattern import number_of
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["attend_nodes", "attention_of"]

_LEAST = 8
"""Queries below which the weights are few, and would fill no vector."""

_DTYPES = (float32, float64, float16, bfloat16)

_SHORT = (float16, bfloat16)
"""Dtypes whose scores and weights are of float32, rounded no more than the result."""

_ADDING = ("addmm", "baddbmm")
"""Products with something added, by name: their module is not imported for this."""

_DEEP = 24
"""Operations between two products, at most, that are looked through."""

At: TypeAlias = Callable[[Node], Any]
"""The symbol that stands for a node by now."""


@dataclass(frozen=True, slots=True)
class _Scores:
    """The scores ``keep ? (scale query) key^T + bias : fill`` of ``shape``, and the nodes that are
    ``inside`` of what writes them."""

    shape: Shape
    query: Any
    key: Any
    inside: tuple[Node, ...]
    bias: Any = None
    keep: Any = None
    fill: float = -math.inf
    scale: float = 1.0

    @property
    def is_plain(self) -> bool:
        """Whether these are nothing but a product."""
        return self.bias is None and self.keep is None

    @property
    def may_be_blind(self) -> bool:
        """Whether all scores of a query may be -inf."""
        return self.bias is not None or (self.keep is not None and self.fill == -math.inf)


@dataclass(frozen=True, slots=True)
class _Weights:
    """The weights ``softmax(scores) factor`` of ``shape``, 0 in the rows where ``empty`` is true.
    ``reshaped``: they have got other leading sizes after all that."""

    shape: Shape
    scores: _Scores
    inside: tuple[Node, ...]
    factor: Any = None
    empty: Any = None
    reshaped: bool = False


_Part = TypeVar("_Part", bound=_Scores | _Weights)


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
    queries = node.tensor_type.shape[-2]
    if isinstance(queries, int) and queries < _LEAST:
        return None
    with using(node.locs), behind(node.args):
        weights = _WEIGHTS.read(node.args[0], at)
        if weights is None or not _is_private(weights.inside, node, users, closed):
            return None
        return _write(weights, node, at)


def _is_private(
    inside: Collection[Node], node: Node, users: Mapping[Node, Collection[Node]],
    closed: Collection[Node],
) -> bool:  # fmt: skip
    """Whether only ``node`` needs the values of what is inside; of some only the shape is asked."""
    own = {*inside, node}
    return not any(
        n in closed or any(u not in own and not u.op.shapeless for u in users[n]) for n in inside
    )


def attend_nodes(outputs: Sequence[Node], closed: Collection[Node]) -> dict[Node, Node]:
    """For each node that ``outputs`` need what computes the same without the weights of attention
    in memory, often the node itself. A ``closed`` node is kept for what it is."""
    order = toposort(outputs)
    found = {node: node for node in order}
    if not any(map(_softmax_of, order)):
        return found
    users: dict[Node, list[Node]] = {node: [] for node in order}
    for node in order:
        for arg in node.args:
            users[arg].append(node)
    kept = {*closed, *outputs}
    for node in order:
        attended = attention_of(node, lambda n: Symbol(found[n]), users, kept)
        if attended is not None:
            found[node] = attended.node
        elif node.op is not param and not is_mark(node) and not bound_symbols(node):
            args = tuple(found[a] for a in node.args)
            if any(a is not b for a, b in zip(args, node.args, strict=True)):
                found[node] = Node(node.op, args, node.attrs, node.type, node.locs)
    return found


# -- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reading(Generic[_Part]):
    """The way from a node back to where scores or weights ``begin``, and what each operation
    ``over`` them makes of them, given which of its arguments they are."""

    begin: Callable[[Node, At], _Part | None]
    over: Mapping[Op, Callable[[_Part, Node, int, At], _Part | None]]

    def read(
        self, node: Node, at: At, others: set[Node] | None = None, left: int = _DEEP
    ) -> _Part | None:
        """What a node computes, if that is the part of attention which is read here. ``others``
        are nodes that are none, as was seen before; ``left`` more operations are looked through."""
        others = set() if others is None else others
        begun = self.begin(node, at)
        if begun is not None:
            return begun
        over = self.over.get(node.op)
        if over is None or node in others or not left:
            return None
        for position, arg in enumerate(node.args):
            inner = self.read(arg, at, others, left - 1)
            if inner is not None:
                if node.op is not reshape_op and _is_stretched(inner.shape, node.tensor_type.shape):
                    return None
                part = over(inner, node, position, at)
                return None if part is None else replace(part, inside=(*part.inside, node))
        others.add(node)
        return None


def _is_stretched(shape: Shape, to: Shape) -> bool:
    """Whether broadcasting stretches an operand of ``shape`` to a result of shape ``to``. Sizes
    under two names, of which neither is 1, are equal there."""
    return len(shape) != len(to) or any(
        same(n, 1) and not same(m, 1) for n, m in zip(shape, to, strict=True)
    )


# -- scores ---------------------------------------------------------------------------------------


def _begin_scores(node: Node, at: At) -> _Scores | None:
    shape, bias, scale = node.tensor_type.shape, None, 1.0
    if node.op is matmul_op:
        query, key = node.args
    elif node.op.name in _ADDING:
        beside, query, key = node.args
        scale, beta = float(node.attrs["alpha"]), node.attrs["beta"]
        if beta and not _is_row(beside.tensor_type.shape):  # softmax(x + c) = softmax(x)
            bias = at(beside) * beta if beta != 1 else at(beside)
    else:
        return None
    for one, other in (query.args, reversed(query.args)) if query.op is mul and scale == 1 else ():
        number = number_of(other)
        if number is not None and same_shape(one.tensor_type.shape, query.tensor_type.shape):
            query, scale = one, float(number)
            break
    return _Scores(shape, at(query), mT(at(key)), (node,), bias=bias, scale=scale)


def _add(inner: _Scores, node: Node, position: int, at: At) -> _Scores | None:
    if (inner.keep is not None and inner.fill != -math.inf) or (position and node.op is sub):
        return None
    other = node.args[1 - position]
    if _is_row(other.tensor_type.shape):  # softmax(x + c) = softmax(x)
        return replace(inner, inside=(*inner.inside, *_chain(other, inner.inside)))
    bias = at(other) if node.op is add else -at(other)
    return replace(inner, bias=bias if inner.bias is None else inner.bias + bias)


def _is_row(shape: Shape) -> bool:
    """Whether what is of ``shape`` is the same for all keys."""
    return not shape or same(shape[-1], 1)


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


def _scale(inner: _Scores, node: Node, position: int, at: At) -> _Scores | None:
    """Scores times or divided by what is the same for all keys: so are the queries."""
    if position and node.op is div:
        return None
    by = node.args[1 - position]
    shape, number = by.tensor_type.shape, number_of(by)
    if number is None and not _is_row(shape):
        return None
    fill = inner.fill
    if inner.keep is not None:
        if number is None or not 0 < number < math.inf:
            return None
        fill = fill * number if node.op is mul else fill / number
    factor = at(by) if number is None or not shape else number
    inner = replace(
        inner, bias=None if inner.bias is None else node.op(inner.bias, factor), fill=fill
    )
    if number is not None and inner.scale == 1:
        if node.op is mul and math.isfinite(number):
            return replace(inner, scale=float(number))
        if node.op is div and _is_power_of_two(number):
            return replace(inner, scale=1 / number)
    return replace(inner, query=node.op(inner.query, factor))


def _is_power_of_two(number: float) -> bool:
    """Whether dividing by a number is multiplying by another one, to the bit."""
    return (
        math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5 and 2**-64 < abs(number) < 2**64
    )


def _fill_where(inner: _Scores, keep: Any, number: Any) -> _Scores | None:
    if not isinstance(number, float | int) or math.isnan(number):
        return None
    if inner.keep is not None:
        if inner.fill != number:
            return None
        keep = logical_and(inner.keep, keep)
    return replace(inner, keep=keep, fill=float(number))


def _where(inner: _Scores, node: Node, position: int, at: At) -> _Scores | None:
    if position == 0:
        return None
    condition, other = at(node.args[0]), number_of(node.args[3 - position])
    return _fill_where(inner, condition if position == 1 else logical_not(condition), other)


def _masked_fill(inner: _Scores, node: Node, position: int, at: At) -> _Scores | None:
    if position != 2:
        return None
    return _fill_where(inner, logical_not(at(node.args[0])), number_of(node.args[1]))


def _reshape_scores(inner: _Scores, node: Node, position: int, at: At) -> _Scores | None:
    """Scores under other leading sizes, and so are queries and keys; or with the queries in groups,
    each of which reads the same keys."""
    shape = node.tensor_type.shape
    if not inner.is_plain:
        return None
    parts = [_stretch(x, inner.shape[:-2]) for x in (inner.query, inner.key)]
    if _splits_queries(inner.shape, shape):
        query, key = parts
        lead = inner.shape[:-2]
        ones = (1,) * (len(shape) - len(inner.shape))
        query = reshape(query, (*shape[:-1], query.__sf_shape__[-1]))
        key = reshape(key, (*lead, *ones, *key.__sf_shape__[-2:]))
        return replace(inner, shape=shape, query=query, key=key)
    if not _keeps_matrices(inner.shape, shape):
        return None
    query, key = (reshape(x, (*shape[:-2], *x.__sf_shape__[-2:])) for x in parts)
    return replace(inner, shape=shape, query=query, key=key)


def _keeps_matrices(before: Shape, after: Shape) -> bool:
    return min(len(before), len(after)) >= 2 and same_shape(before[-2:], after[-2:])


def _splits_queries(before: Shape, after: Shape) -> bool:
    """Whether a reshape of scores does nothing but put the queries into groups."""
    lead = len(before) - 2
    return (
        len(after) > len(before) >= 2
        and same_shape(before[:lead], after[:lead])
        and same(before[-1], after[-1])
    )


def _round_less(inner: _Part, node: Node, position: int, at: At) -> _Part | None:
    """Scores or weights in another float dtype, unless they were computed in float64 for it: of
    16 bits they are computed in float32."""
    before, after = node.args[0].tensor_type.dtype, node.tensor_type.dtype
    return inner if after.is_floating and (before is not float64 or after is float64) else None


def _stretch(x: Any, lead: Shape) -> Any:
    """Matrices as of the leading sizes that theirs stretch to."""
    own = x.__sf_shape__
    return expand(x, (*lead, *own[-2:])) if _is_stretched(own[:-2], lead) else x


_SCORES = _Reading(_begin_scores, {
    add: _add, sub: _add, mul: _scale, div: _scale, where: _where, masked_fill_op: _masked_fill,
    reshape_op: _reshape_scores, cast: _round_less,
})  # fmt: skip


# -- weights --------------------------------------------------------------------------------------


def _softmax_of(node: Node) -> tuple[Node, ...]:
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


def _begin_weights(node: Node, at: At) -> _Weights | None:
    shape = node.tensor_type.shape
    found = _softmax_of(node)
    if not found:
        return None
    scores = _SCORES.read(found[0], at)
    return None if scores is None else _Weights(shape, scores, (*scores.inside, *found[1:], node))


def _times(inner: _Weights, node: Node, position: int, at: At) -> _Weights | None:
    if inner.reshaped or (position and node.op is div):
        return None
    other = at(node.args[1 - position])
    return _with_factor(inner, other if node.op is mul else 1 / other)


def _with_factor(inner: _Weights, factor: Any) -> _Weights:
    return replace(inner, factor=factor if inner.factor is None else inner.factor * factor)


def _zero_where(inner: _Weights, drop: Any) -> _Weights | None:
    """Weights that are 0 where ``drop`` is true. A row of which all scores are -inf has NaN for
    weights, which times 0 would still be NaN: so rows of which all is dropped are ``empty``."""
    if inner.reshaped:
        return None
    if _is_row(drop.__sf_shape__):
        rows = drop
    else:
        one = full.beside(drop, shape=(), value=1.0, dtype=inner.scores.query.dtype)
        inner = _with_factor(inner, where(drop, 0.0, one))
        if not inner.scores.may_be_blind:
            return inner
        rows = all_op(drop, dims=(drop.ndim - 1,), keepdim=True)
    return replace(inner, empty=rows if inner.empty is None else logical_or(inner.empty, rows))


def _choose(inner: _Weights, node: Node, position: int, at: At) -> _Weights | None:
    if position == 0 or number_of(node.args[3 - position]) != 0:
        return None
    condition = at(node.args[0])
    return _zero_where(inner, condition if position == 2 else logical_not(condition))


def _drop(inner: _Weights, node: Node, position: int, at: At) -> _Weights | None:
    if position != 2 or number_of(node.args[1]) != 0:
        return None
    return _zero_where(inner, at(node.args[0]))


def _reshape_weights(inner: _Weights, node: Node, position: int, at: At) -> _Weights | None:
    shape = node.tensor_type.shape
    fits = _keeps_matrices(inner.shape, shape) or _splits_queries(shape, inner.shape)
    return replace(inner, shape=shape, reshaped=True) if fits else None


_WEIGHTS = _Reading(_begin_weights, {
    mul: _times, div: _times, where: _choose, masked_fill_op: _drop, reshape_op: _reshape_weights,
    cast: _round_less,
})  # fmt: skip


# -- the op ---------------------------------------------------------------------------------------


def _write(weights: _Weights, node: Node, at: At) -> Any:
    scores, value = weights.scores, at(node.args[1])
    lead, outer = scores.shape[:-2], weights.shape[:-2]
    if _is_stretched(outer, node.tensor_type.shape[:-2]):
        return None  # over the leading sizes of the values
    value = _stretch(value, outer)
    if weights.reshaped and _splits_queries(weights.shape, scores.shape):
        ones = (1,) * (len(lead) - len(outer))
        value = _stretch(reshape(value, (*outer, *ones, *value.__sf_shape__[-2:])), lead)
    elif weights.reshaped:
        value = reshape(value, (*lead, *value.__sf_shape__[-2:]))
    query, key = (_stretch(x, lead) for x in (scores.query, scores.key))
    extras = {"bias": scores.bias, "keep": scores.keep, "factor": weights.factor,
              "empty": weights.empty}  # fmt: skip
    extras = {role: x for role in ROLES if (x := extras[role]) is not None}
    found = [_without(x, weights.inside, at) for x in extras.values()]
    if None in found:
        return None
    dtype = node.tensor_type.dtype
    parts = [_widen(x, float32 if dtype in _SHORT else dtype) for x in (query, key, value, *found)]
    out, *_ = attend_op(*parts, roles=tuple(extras), fill=scores.fill, scale=scores.scale)
    if weights.reshaped:
        out = reshape(out, node.tensor_type.shape)
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
