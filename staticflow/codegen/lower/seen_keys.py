"""Which keys the queries of a block may see at all, and which queries see the keys of a block, read
off what makes the mask.

A mask compares positions, as in ``key <= query``. It is read into *bounds*: arithmetic of the
symbols `_QUERY` and `_KEY` that is not negative wherever a key is seen, here ``query - key``. In a
bound both stand with a factor of 1 or -1, or it is left alone: what it says of the key, with the
first or the last query of the block put in, is the first or the last key that any of them sees.
Masks that are joined by `and` give the bounds of both.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias

from staticflow.graph.dim_queries import coefficient, substitute_dim, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, dim_max, dim_min
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import (
    add,
    cast,
    eq,
    ge,
    gt,
    le,
    logical_and,
    logical_not,
    logical_or,
    lt,
    ne,
    neg,
    sub,
    where,
)
from staticflow.ops.basics.creation import iota, size_value
from staticflow.ops.declaring.lowering import Index
from staticflow.ops.elementwise.bits import bitwise_and, bitwise_not, bitwise_or
from staticflow.ops.symbols.pattern import number_of
from staticflow.passes.access import broadcast_index, source_of

__all__ = ["seeing_queries", "seen_keys"]

_QUERY, _KEY, _BATCH = Sym("query", -1), Sym("key", -1), Sym("batch", -1)

Bound: TypeAlias = Size
"""Arithmetic of query and key that is not negative where a key is seen."""

Range = tuple[Size | None, Size | None]
"""The first key and the one behind the last, where these are known."""

_At = tuple[Node, Index]
"""An element of a node, where it stands for query `_QUERY` and key `_KEY`."""


def seen_keys(of: Mapping[str, Node], fill: float, first: Size, end: Size) -> Range:
    """The range of keys outside of which the queries ``first..end`` see none: their scores are
    -inf there, by the ``keep`` or the ``bias`` in ``of``. None: there is no such bound."""
    return _range(_all_bounds(of, fill), _KEY, _QUERY, first, end)


def seeing_queries(of: Mapping[str, Node], fill: float, first: Size, end: Size) -> Range:
    """The range of queries outside of which none sees the keys ``first..end``, as `seen_keys`."""
    return _range(_all_bounds(of, fill), _QUERY, _KEY, first, end)


def _all_bounds(of: Mapping[str, Node], fill: float) -> list[Bound]:
    bounds: list[Bound] = []
    if "keep" in of and fill == -math.inf:
        bounds += _bounds(_element(of["keep"]), True)
    if "bias" in of:
        bounds += _bounds_of_bias(_element(of["bias"]))
    return bounds


def _range(bounds: list[Bound], of: Sym, other: Sym, first: Size, end: Size) -> Range:
    """The range of ``of`` in which bounds hold for some ``other`` in ``first..end``."""
    low: Size | None = None
    high: Size | None = None
    for bound in bounds:
        own, opposite = coefficient(bound, of), coefficient(bound, other)
        rest = substitute_dim(bound, {_KEY: 0, _QUERY: 0})
        if _BATCH in symbols_of(rest) or {own, opposite} - {-1, 0, 1}:
            continue
        # opposite * other is this at most
        most = rest + (end - 1 if opposite == 1 else -first if opposite == -1 else 0)
        if own == 1:
            low = -most if low is None else dim_max(low, -most)
        elif own == -1:
            high = most + 1 if high is None else dim_min(high, most + 1)
    return low, high


def _element(node: Node) -> _At:
    at = (*(Dim.of(_BATCH),) * node.tensor_type.ndim, Dim.of(_QUERY), Dim.of(_KEY))
    return _arg(at, node)


def _arg(index: Index, arg: Node) -> _At:
    """The element of an argument that one at ``index`` is made of, behind all views."""
    return source_of(arg, broadcast_index(index, arg.tensor_type.shape))


def _args(at: _At) -> list[_At]:
    node, index = at
    return [_arg(index, a) for a in node.args]


def _bounds(at: _At, wanted: bool) -> list[Bound]:
    """The bounds of the keys for which a bool of the mask is as ``wanted``."""
    op, args = at[0].op, _args(at)
    if op in (_BOTH if wanted else _EITHER):
        return [bound for arg in args for bound in _bounds(arg, wanted)]
    if op in _NOT:
        return _bounds(args[0], not wanted)
    if op is where:
        return _bounds_of_choice(args, lambda x: x == wanted)
    if op in _COMPARES:
        holds, name = _COMPARES[op]
        x, y = args
        limit = number_of(y[0])
        if x[0].op is where and limit is not None:
            return _bounds_of_choice(_args(x), lambda x: holds(x, limit) == wanted)
        return _SIGNS[name if wanted else _OPPOSITE[name]](_size(x), _size(y))
    return []


def _bounds_of_choice(args: list[_At], allows: Callable[[float], bool]) -> list[Bound]:
    """The bounds of the keys for which a `where` gives a number that is as ``allows`` says; its
    ``args`` are the condition and the two values."""
    condition, *values = args
    numbers = [number_of(node) for node, _ in values]
    first, second = (x is None or allows(x) for x in numbers)
    return [] if first == second else _bounds(condition, first)


def _bounds_of_bias(at: _At) -> list[Bound]:
    """The bounds of the keys for which an additive mask is not -inf."""
    op, args = at[0].op, _args(at)
    if op is add:
        return [bound for arg in args for bound in _bounds_of_bias(arg)]
    return _bounds_of_choice(args, lambda x: x != -math.inf) if op is where else []


def _size(at: _At) -> Size | None:
    """An integer as arithmetic of sizes, if it is such."""
    node, index = at
    if node.tensor_type.dtype.kind != "i" or node.tensor_type.dtype.bits < 32:
        return None
    if node.op is iota:
        dim: int = node.attrs["dim"]
        return index[dim]
    if node.op is size_value:
        size: Size = node.attrs["size"]
        return size
    number = number_of(node)
    if number is not None:
        return int(number)
    if node.op not in _ARITHMETIC:
        return None
    args = [_size(a) for a in _args(at)]
    return None if None in args else _ARITHMETIC[node.op](*args)


_BOTH = (logical_and, bitwise_and)
_EITHER = (logical_or, bitwise_or)
_NOT = (logical_not, bitwise_not)

_ARITHMETIC: dict[Op, Callable[..., Size]] = {
    add: operator.add, sub: operator.sub, neg: operator.neg, cast: lambda x: x,
}  # fmt: skip

_COMPARES: dict[Op, tuple[Callable[[float, float], bool], str]] = {
    ge: (operator.ge, "ge"), gt: (operator.gt, "gt"), le: (operator.le, "le"),
    lt: (operator.lt, "lt"), eq: (operator.eq, "eq"), ne: (operator.ne, "ne"),
}  # fmt: skip

_OPPOSITE = {"ge": "lt", "lt": "ge", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def _differences(*ways: Callable[[Size, Size], Bound]) -> Callable[..., list[Bound]]:
    return lambda x, y: [] if x is None or y is None else [way(x, y) for way in ways]


_SIGNS: dict[str, Callable[..., list[Bound]]] = {
    "ge": _differences(lambda x, y: x - y),
    "gt": _differences(lambda x, y: x - y - 1),
    "le": _differences(lambda x, y: y - x),
    "lt": _differences(lambda x, y: y - x - 1),
    "eq": _differences(lambda x, y: x - y, lambda x, y: y - x),
    "ne": _differences(),
}
"""The bounds of two integers that compare as the key says."""
