"""Rules of single elements: what is done twice, undone, or said in a dearer way."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from staticflow.graph.dtypes import DType, bool_
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import (
    cast,
    clamp_op,
    eq,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    where,
)
from staticflow.ops.elementwise.bits import bitwise_not
from staticflow.ops.elementwise.maths import (
    abs,
    ceil,
    exp,
    floor,
    relu,
    round,
    sigmoid,
    sign,
    trunc,
)
from staticflow.ops.symbols.pattern import Rule, attr, rule
from staticflow.passes.powers import number_in

__all__ = ["ALGEBRA"]

_FLAT = (floor, ceil, trunc, round)


def _inside(x: Any, outer: Collection[Op]) -> bool:
    """Whether ``x`` is what one of the ops ``outer`` gives."""
    return x.node.op in outer


_EXACT_IN = {  # which floats hold every number of a dtype
    "bool": ("f16", "bf16", "f32", "f64"), "u8": ("f16", "bf16", "f32", "f64"),
    "i8": ("f16", "bf16", "f32", "f64"), "i16": ("f32", "f64"), "i32": ("f64",),
    "f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",),
}  # fmt: skip


def _holds_all(wide: DType, narrow: DType) -> bool:
    """Whether ``wide`` has every number of ``narrow``, signs of zeros and all."""
    if wide.is_floating:
        return wide.short in _EXACT_IN.get(narrow.short, ())
    if narrow.is_floating or wide is bool_:
        return False
    if narrow is bool_:
        return True
    more = wide.bits - narrow.bits
    return more > 0 if narrow.kind == "u" and wide.kind == "i" else (
        more >= 0 and narrow.kind == wide.kind
    )  # fmt: skip


def _cast_cast(x: Any, inner: DType, outer: DType) -> Any:
    if not _holds_all(inner, x.dtype):
        return None
    if x.dtype is outer:
        return x
    if inner.is_floating and not outer.is_floating:
        return None  # what is out of range is not the same by each way
    return cast(x, dtype=outer)


def _flat(op: Op) -> Rule:
    return rule(
        f"{op.name}_of_integers", "what is a whole number stays it", lambda x: op(x),
        lambda x: x if not x.dtype.is_floating or _inside(x, _FLAT) else None,
    )  # fmt: skip


def _is_nonnegative(x: Any) -> bool:
    """Whether no element of ``x`` has a sign: an exponential, a square, a root that is no -0."""
    node = x.node
    if not x.dtype.is_floating:
        return not x.dtype.is_signed
    return node.op in (exp, sigmoid, abs) or (node.op is mul and node.args[0] is node.args[1])


def _as_choice(c: Any, x: Any, y: Any) -> Any:
    """What a choice by a number gives."""
    number = number_in(c)
    return None if number is None else (x if number else y)


def _clamp_twice(x: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """The bounds of bounds. Integers and floats are not told apart by a bound: all must be of the
    kind of the elements. Zeros have signs, so it is None where a bound gives another than two."""
    given = [n for n in (a, b, c, d) if n is not None]
    fits = float if x.dtype.is_floating else int
    if not all(isinstance(n, fits | int) and n == n for n in given):
        return None
    inner, outer = {"min": a, "max": b}, {"min": c, "max": d}
    a, c = (-math.inf if n is None else n for n in (a, c))
    b, d = (math.inf if n is None else n for n in (b, d))
    if a > b or c > d:
        return None
    least, most = min(max(a, c), d), min(max(b, c), d)
    bounds = {
        "min": None if least == -math.inf else least,
        "max": None if most == math.inf else most,
    }
    if 0 in given and x.dtype.is_floating:
        zeros = np.array([-math.inf, -0.0, 0.0, math.inf], x.dtype.numpy)
        twice = clamp_op.reference(np, clamp_op.reference(np, zeros, **inner), **outer)
        if twice.tobytes() != clamp_op.reference(np, zeros, **bounds).tobytes():
            return None
    return clamp_op(x, **bounds)


ALGEBRA: tuple[Rule, ...] = (
    # what has been done already
    rule("abs_abs", "||x|| = |x|", lambda x: abs(abs(x)), lambda x: abs(x)),
    rule(
        "abs_neg", "|-x| = |x|, unless -x wraps", lambda x: abs(neg(x)),
        lambda x: abs(x) if x.dtype.is_signed else None,
    ),
    rule("relu_relu", "max(max(x, 0), 0) = max(x, 0)", lambda x: relu(relu(x)), lambda x: relu(x)),
    rule(
        "relu_abs", "max(|x|, 0) = |x| but for the smallest integer, which has no |x|",
        lambda x: relu(abs(x)), lambda x: abs(x) if x.dtype.is_floating else None,
    ),
    rule("sign_sign", "the sign of a sign", lambda x: sign(sign(x)), lambda x: sign(x)),
    rule(
        "clamp_clamp", "the same bounds again",
        lambda x: clamp_op(
            clamp_op(x, min=attr("min"), max=attr("max")), min=attr("min"), max=attr("max")
        ),
        lambda x, min, max: clamp_op(x, min=min, max=max),
    ),
    rule(
        "clamp_of_clamp", "the bounds of bounds",
        lambda x: clamp_op(
            clamp_op(x, min=attr("a"), max=attr("b")), min=attr("c"), max=attr("d")
        ),
        lambda x, **bounds: _clamp_twice(x, **bounds),
    ),
    rule(
        "abs_of_nonnegative", "|x| = x of an exponential, a square, an unsigned integer",
        lambda x: abs(x), lambda x: x if _is_nonnegative(x) else None,
    ),
    rule(
        "relu_of_nonnegative", "max(x, 0) = x of an exponential, a square, an unsigned integer",
        lambda x: relu(x), lambda x: x if _is_nonnegative(x) else None,
    ),
    *map(_flat, _FLAT),
    rule("maximum_same", "max(x, x) = x", lambda x: maximum(x, x), lambda x: x),
    rule("minimum_same", "min(x, x) = x", lambda x: minimum(x, x), lambda x: x),
    rule(
        "and_same", "x and x = x", lambda x: logical_and(x, x),
        lambda x: x if x.dtype is bool_ else None,
    ),
    rule(
        "or_same", "x or x = x", lambda x: logical_or(x, x),
        lambda x: x if x.dtype is bool_ else None,
    ),
    rule(
        "not_not", "not not x = x", lambda x: logical_not(logical_not(x)),
        lambda x: x if x.dtype is bool_ else None,
    ),
    rule(
        "where_not", "not c ? x : y = c ? y : x", lambda c, x, y: where(logical_not(c), x, y),
        lambda c, x, y: where(c, y, x) if c.dtype is bool_ else None,
    ),
    rule(
        "not_of_bools", "of bools a bit is the truth", lambda x: bitwise_not(x),
        lambda x: logical_not(x) if x.dtype is bool_ else None,
    ),
    rule("not_equal", "not x = y is x != y", lambda x, y: logical_not(eq(x, y)),
         lambda x, y: ne(x, y)),
    rule("not_unequal", "not x != y is x = y", lambda x, y: logical_not(ne(x, y)),
         lambda x, y: eq(x, y)),
    rule(
        "and_absorbed", "y and (x and y) = x and y", lambda x, y: logical_and(y, logical_and(x, y)),
        lambda x, y: logical_and(x, y),
    ),
    rule(
        "or_absorbed", "y or (x or y) = x or y", lambda x, y: logical_or(y, logical_or(x, y)),
        lambda x, y: logical_or(x, y),
    ),
    rule(
        "nonzero_of_bool", "(c ? 1 : 0) != 0 is c", lambda c: ne(cast(c, dtype=attr("dtype")), 0),
        lambda c, dtype: c if c.dtype is bool_ else None,
    ),
    rule(
        "where_number", "true ? x : y = x, false ? x : y = y", lambda c, x, y: where(c, x, y),
        _as_choice,
    ),
    rule(
        "where_again", "c ? (c ? x : y) : z = c ? x : z",
        lambda c, x, y, z: where(c, where(c, x, y), z), lambda c, x, y, z: where(c, x, z),
    ),
    rule(
        "where_never", "c ? x : (c ? y : z) = c ? x : z",
        lambda c, x, y, z: where(c, x, where(c, y, z)), lambda c, x, y, z: where(c, x, z),
    ),
    # casts in pairs
    rule(
        "cast_cast", "through a dtype that holds all numbers of the first one",
        lambda x: cast(cast(x, dtype=attr("inner")), dtype=attr("outer")),
        lambda x, inner, outer: _cast_cast(x, inner, outer),
    ),
)  # fmt: skip
"""Rules that keep every bit."""
