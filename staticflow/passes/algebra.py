"""Rules of arithmetic: what is done twice, undone, or said in a dearer way."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from staticflow.graph.dtypes import DType, bool_
from staticflow.graph.op import Op
from staticflow.ops.along.extremes import amax_op, amin_op
from staticflow.ops.basics.arithmetic import (
    add,
    cast,
    clamp_op,
    div,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mul,
    neg,
    sub,
    where,
)
from staticflow.ops.basics.creation import full_like
from staticflow.ops.basics.reduce import all_op, any_op, sum_op
from staticflow.ops.elementwise.maths import (
    abs,
    ceil,
    floor,
    pow,
    reciprocal,
    relu,
    round,
    rsqrt,
    sign,
    sqrt,
    trunc,
)
from staticflow.ops.symbols.pattern import Rule, attr, number_of, rule
from staticflow.ops.symbols.symbol import Symbol, constant_node

__all__ = ["ALGEBRA", "POWERS", "SUMS"]

_FLAT = (floor, ceil, trunc, round)


def _number(x: Any) -> Any:
    """The number that a symbol has everywhere, None if it has no such."""
    return number_of(x.node)


def _inside(x: Any, outer: Collection[Op]) -> bool:
    """Whether ``x`` is what one of the ops ``outer`` gives."""
    return x.node.op in outer


def _power_of_two(number: Any, dtype: DType) -> bool:
    """Whether a number is a power of two whose reciprocal the dtype has too, as a normal one."""
    if not dtype.is_floating or not isinstance(number, float) or number <= 0:
        return False
    least = 2.0**-14 if dtype.short == "f16" else 2.0**-126
    inside = least <= number <= 1 / least
    return inside and math.frexp(number)[0] == 0.5


def _divide(x: Any, c: Any) -> Any:
    number = _number(c)
    same = c.dtype is x.dtype and c.ndim <= x.ndim
    return x * (1 / number) if same and _power_of_two(number, x.dtype) else None


def _merge_factors(x: Any, a: Any, b: Any) -> Any:
    """Integers wrap in any order; powers of two from 1 on never round, nor overflow sooner."""
    first, second = _number(a), _number(b)
    if first is None or second is None or a.ndim or b.ndim or a.dtype is not x.dtype:
        return None
    if x.dtype.is_floating:
        fits = min(first, second) >= 1 and _power_of_two(first * second, x.dtype)
        fits = fits and _power_of_two(first, x.dtype)
        return x * (first * second) if fits else None
    return mul(x, _wrapped(mul, a, b)) if x.dtype.kind in "iu" else None


def _merge_terms(x: Any, a: Any, b: Any) -> Any:
    both = _number(a) is not None and _number(b) is not None and not (a.ndim or b.ndim)
    same = a.dtype is x.dtype and b.dtype is x.dtype
    return add(x, _wrapped(add, a, b)) if both and same and x.dtype.kind in "iu" else None


def _wrapped(op: Op, a: Any, b: Any) -> Any:
    """The number that an op makes of two of an integer dtype. It is computed now, so that of numbers
    alone no rule takes one for the tensor."""
    numbers = (np.asarray(_number(x), x.dtype.numpy) for x in (a, b))
    return Symbol(constant_node(op.reference(np, *numbers), a.dtype))


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


def _same_dims(x: Any, a: tuple[int, ...], b: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The dims of ``x`` that two reductions one after the other take away."""
    if keepdim:
        return tuple(sorted({*a, *b}))
    left = [d for d in range(x.ndim) if d not in a]
    return tuple(sorted({*a, *(left[d] for d in b)}))


def _merge_extremes(op: Op) -> Any:
    """The replacement for an extreme of extremes; of unknown sizes it would assume what was not
    said, that their product is not 0."""

    def replace(x: Any, a: tuple[int, ...], b: tuple[int, ...], keepdim: bool) -> Any:
        dims = _same_dims(x, a, b, keepdim)
        known = all(isinstance(x.__sf_shape__[d], int) for d in dims)
        return op(x, dims=dims, keepdim=keepdim) if known else None

    return replace


def _twice(op: Op, name: str) -> Rule:
    return rule(
        name, f"{op.name} over some dims, then over others, is {op.name} over all of them",
        lambda x: op(
            op(x, dims=attr("a"), keepdim=attr("keepdim")), dims=attr("b"), keepdim=attr("keepdim")
        ),
        _merge_extremes(op) if op in (amax_op, amin_op) else
        lambda x, a, b, keepdim: op(x, dims=_same_dims(x, a, b, keepdim), keepdim=keepdim),
    )  # fmt: skip


def _flat(op: Op) -> Rule:
    return rule(
        f"{op.name}_of_integers", "what is a whole number stays it", lambda x: op(x),
        lambda x: x if _inside(x, _FLAT) else None,
    )  # fmt: skip


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
    _twice(amax_op, "amax_amax"),
    _twice(amin_op, "amin_amin"),
    _twice(all_op, "all_all"),
    _twice(any_op, "any_any"),
    # casts in pairs
    rule(
        "cast_cast", "through a dtype that holds all numbers of the first one",
        lambda x: cast(cast(x, dtype=attr("inner")), dtype=attr("outer")),
        lambda x, inner, outer: _cast_cast(x, inner, outer),
    ),
    # numbers
    rule(
        "div_power_of_two", "x / 2**k = x 2**-k, both rounded once", lambda x, c: div(x, c),
        lambda x, c: _divide(x, c),
    ),
    rule(
        "mul_mul", "(x a) b = x (a b) for integers and powers of two",
        lambda x, a, b: mul(mul(x, a), b), lambda x, a, b: _merge_factors(x, a, b),
    ),
    rule(
        "add_add", "(x + a) + b = x + (a + b) for integers", lambda x, a, b: add(add(x, a), b),
        lambda x, a, b: _merge_terms(x, a, b),
    ),
    rule("pow_zero", "x ** 0 = 1, of NaN too", lambda x: pow(x, 0), lambda x: full_like(x, 1)),
)  # fmt: skip
"""Rules that keep every bit."""


def _few_products(x: Any, n: Any) -> Any:
    number = _number(n)
    if not x.dtype.is_floating or x.dtype.bits < 32 or n.dtype is not x.dtype:
        return None
    return _by_products(x, int(number)) if number in (3, 4) else None


def _by_products(x: Any, n: int) -> Any:
    """``x ** n`` for n from 1 on, by squares."""
    half = x if n < 2 else _by_products(x, n // 2)
    square = x if n == 1 else half * half
    return square * x if n > 1 and n % 2 else square


def _power(x: Any, n: Any) -> Any:
    number = _number(n)
    if number is None or not x.dtype.is_floating or (number * 2) % 1 or not 0 < number**2 <= 256:
        return None
    if number == -0.5:
        return rsqrt(x)
    whole, half = divmod(math.fabs(number), 1)
    parts = [sqrt(x)] * bool(half) + [_by_products(x, int(whole))] * (whole > 0)
    power = parts[0] if len(parts) == 1 else parts[0] * parts[1]
    return power if number > 0 else reciprocal(power)


SUMS: tuple[Rule, ...] = (
    _twice(sum_op, "sum_sum"),
    rule(
        "pow_by_products", "x ** 3 = x x x, x ** 4 = (x x) (x x)", lambda x, n: pow(x, n),
        lambda x, n: _few_products(x, n),
    ),
)  # fmt: skip
"""Rules that put sums and products into another order, and so round otherwise."""

POWERS: tuple[Rule, ...] = (
    rule(
        "pow_by_roots", "x ** (k / 2) by products and a root, k from -32 to 32",
        lambda x, n: pow(x, n), lambda x, n: _power(x, n),
    ),
    rule(
        "div_sqrt", "y / sqrt(x) = y rsqrt(x)", lambda x, y: div(y, sqrt(x)),
        lambda x, y: y * rsqrt(x),
    ),
    rule("sub_same", "x - x = 0", lambda x: sub(x, x), lambda x: full_like(x, 0)),
    rule("div_same", "x / x = 1", lambda x: div(x, x), lambda x: full_like(x, 1)),
)  # fmt: skip
"""Rules that are wrong for signed zeros, infinities and NaN, or by more roundings."""
