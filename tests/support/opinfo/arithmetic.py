"""Arithmetic, comparison, logic, selection, casts."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import (
    ALL,
    NUMBERS,
    Array,
    Failure,
    OpInfo,
    Sample,
    Samples,
    layouts,
    pointwise,
    special,
    values,
)
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DTYPES, DType, bool_, dtype_of
from staticflow.graph.op import Op
from staticflow.ops import OPS

__all__ = [
    "PAIR_FAILURES", "ROWS", "binary", "pairwise", "sized_pair", "sized_unary", "unary",
    "zero_if_impossible",
]  # fmt: skip

_PAIRS = (
    ((3,), ()), ((), (3,)), ((), ()), ((1,), (3,)), ((3,), (1,)), ((2, 1), (1, 3)), ((2, 3), (3,)),
    ((3,), (2, 3)), ((2, 3), (2, 1)), ((1,), (0,)), ((0,), ()), ((2, 0, 3), (1, 3)), ((4, 1, 2), (3, 1)),
)  # fmt: skip


def _numbers_beside(dtype: DType) -> tuple[Any, ...]:
    if dtype is bool_:
        return (True,)
    return (2, 2.5) if dtype.is_floating else (2,)


def binary(
    first: tuple[float, float] = (-3, 3),
    second: tuple[float, float] = (-3, 3),
    specials: bool = True,
) -> Samples:
    """Pairs of every way to broadcast, of memory orders, of special values, and with numbers on
    either side. Smooth ones lie in the given ranges."""

    def samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
        one, two = (first, second) if smooth else ((-3.0, 3.0), (-3.0, 3.0))

        def pair(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[Array, Array]:
            return values(a, dtype, *one), values(b, dtype, two[0], two[1], seed=1)

        for a, b in _PAIRS:
            yield Sample(pair(a, b))
        for number in _numbers_beside(dtype):
            yield Sample((values((2, 3), dtype, *one), number))
            yield Sample((number, values((2, 3), dtype, *two)))
        if smooth:
            return
        for x in layouts(lambda shape: values(shape, dtype, *one)):
            yield Sample((x, pair((), x.shape)[1]))
        if specials:
            yield Sample((special(dtype)[:, None], special(dtype)))

    return samples


def unary(low: float = -3, high: float = 3, **kwargs: Any) -> Samples:
    """Arrays of every layout and of special values; smooth ones between ``low`` and ``high``."""

    def samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
        if smooth:
            for shape in ((), (0,), (3,), (2, 3)):
                yield Sample((values(shape, dtype, low, high),), kwargs)
            return
        for a in layouts(lambda shape: values(shape, dtype)):
            yield Sample((a,), kwargs)
        yield Sample((special(dtype),), kwargs)

    return samples


def sized_pair(dtype: DType, n: int) -> Sample:
    return Sample((values((n, 3), dtype), values((n, 1), dtype, seed=1)))


def sized_unary(dtype: DType, n: int) -> Sample:
    return Sample((values((n, 3), dtype),))


PAIR_FAILURES = (
    Failure(Sample((np.zeros(3, "f4"), np.zeros(2, "f4"))), ShapeError, "3 and 2 differ"),
    Failure(Sample((np.zeros((2, 3), "f4"), np.zeros((2, 2), "f4"))), ShapeError, "dim -1"),
)
_NO_BOOL = Failure(Sample((np.array([True]), np.array([True]))), DTypeError, "not defined for bool")


def pairwise(
    op: Op, call: Callable[..., Any], fn: Callable[..., Any] | None = None, **row: Any
) -> OpInfo:
    dtypes = row.setdefault("dtypes", NUMBERS)
    row.setdefault("samples", binary())
    failures = (*PAIR_FAILURES, *(() if bool_ in dtypes else (_NO_BOOL,)))
    row.setdefault("failures", failures)
    if fn is not None:
        row["expect"] = pointwise(fn)
    return OpInfo(op, call, sized=sized_pair, grad=op.vjp is not None, **row)


def zero_if_impossible(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """For division by zero: 0 in integers, what IEEE says in floats."""

    def apply(x: Any, y: Any) -> Any:
        if not isinstance(x, float) and not isinstance(y, float):
            return fn(x, y) if y else 0
        return fn(float(x), float(y))

    return apply


def _true_divide(x: float, y: float) -> float:
    if y == 0 or math.isnan(y):
        return (
            math.nan
            if x == 0 or x != x or y != y
            else math.copysign(math.inf, x) * math.copysign(1, y)
        )
    return x / y


def _floor_divide(x: Any, y: Any) -> Any:
    if isinstance(x, float):
        if y == 0:
            return _true_divide(x, y)
        return math.nan if math.isinf(x) else x // y
    return x // y


def _remainder(x: Any, y: Any) -> Any:
    if isinstance(x, float):
        return math.nan if y == 0 or math.isinf(x) else x % y
    return x % y


def _extreme(of: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: math.nan if x != x or y != y else of(x, y)


def _add(x: Any, y: Any) -> Any:
    return x or y if isinstance(x, bool) else x + y


def _mul(x: Any, y: Any) -> Any:
    return x and y if isinstance(x, bool) else x * y


_ARITHMETIC = (
    pairwise(OPS["add"], operator.add, _add, dtypes=ALL, exact=True),
    pairwise(OPS["sub"], operator.sub, operator.sub, exact=True),
    pairwise(OPS["mul"], operator.mul, _mul, dtypes=ALL, exact=True),
    pairwise(
        OPS["div"], operator.truediv, expect=pointwise(lambda x, y: _true_divide(float(x), float(y)), real=True),
        dtypes=ALL, samples=binary(second=(0.5, 3)), failures=PAIR_FAILURES,
    ),
    pairwise(
        OPS["floor_divide"], operator.floordiv, zero_if_impossible(_floor_divide),
        samples=binary(second=(0.5, 3)),
    ),
    pairwise(
        OPS["remainder"], operator.mod, zero_if_impossible(_remainder),
        samples=binary(second=(0.5, 3)), zeros=False,
    ),
    pairwise(OPS["maximum"], sf.maximum, _extreme(max), dtypes=ALL, zeros=False),
    pairwise(OPS["minimum"], sf.minimum, _extreme(min), dtypes=ALL, zeros=False),
    OpInfo(
        OPS["neg"], operator.neg, pointwise(operator.neg), unary(), NUMBERS, grad=True, sized=sized_unary,
        exact=True,
        failures=(Failure(Sample((np.array([True]),)), DTypeError, "not defined for bool"),),
    ),
)  # fmt: skip


# -- clamp ---------------------------------------------------------------------------------------


def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    if min is not None:
        x = min if x < min else x
    if max is not None:
        x = max if x > max else x
    return x


def _clamp_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    yield from unary(min=1, max=2)(dtype, smooth)
    for bounds in ({"min": 1}, {"max": 2}, {"min": 2, "max": 1}, {"min": 0}, {"max": 0.0}):
        numbers = values((2, 3), dtype) if smooth else special(dtype)
        if dtype.is_floating or not isinstance(bounds.get("max"), float):
            yield Sample((numbers,), bounds)


_CLAMP = OpInfo(
    OPS["clamp"], sf.clamp, pointwise(_clamp), _clamp_samples, NUMBERS, grad=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype),), {"min": 0, "max": 1}),
    failures=(Failure(Sample((np.array([True]), False, True)), DTypeError, "not defined for bool"),),
    zeros=False,
)  # fmt: skip


# -- comparison and logic ------------------------------------------------------------------------


def _truth_table(name: str, fn: Callable[..., Any]) -> OpInfo:
    call = getattr(operator, name, None) or getattr(sf, name)
    return pairwise(OPS[name], call, expect=pointwise(fn, bool_), dtypes=ALL, exact=True)


_COMPARISONS = (
    *(_truth_table(n, getattr(operator, n)) for n in ("lt", "le", "gt", "ge", "eq", "ne")),
    _truth_table("logical_and", lambda x, y: bool(x) and bool(y)),
    _truth_table("logical_or", lambda x, y: bool(x) or bool(y)),
    _truth_table("logical_xor", lambda x, y: bool(x) != bool(y)),
    OpInfo(
        OPS["logical_not"], sf.logical_not, pointwise(operator.not_, bool_), unary(), ALL,
        grad=False, sized=sized_unary, exact=True,
    ),
)  # fmt: skip


# -- where ---------------------------------------------------------------------------------------


def _where_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    condition = values((2, 3), bool_)
    for x, y in (((2, 3), (2, 3)), ((3,), (2, 1)), ((), (2, 3)), ((1, 3), ())):
        yield Sample((condition, values(x, dtype), values(y, dtype, seed=1)))
    yield Sample((np.array(True), values((2, 3), dtype), values((3,), dtype)))
    yield Sample((values((3,), bool_)[::-1], values((3, 2), dtype).T, values((3,), dtype)))
    yield Sample((values((0,), bool_), values((1,), dtype), values((0,), dtype)))
    number = _numbers_beside(dtype)[-1]
    yield Sample((condition, values((2, 3), dtype), number))
    yield Sample((condition, number, values((2, 3), dtype)))
    yield Sample((True, values((2, 3), dtype), number))
    if not smooth:
        both = special(dtype)
        yield Sample((values(both.shape, bool_), both, both[::-1]))


_WHERE = OpInfo(
    OPS["where"], sf.where, pointwise(lambda c, x, y: x if c else y), _where_samples, ALL, grad=True,
    sized=lambda dtype, n: Sample(
        (values((n, 1), bool_), values((n, 3), dtype), values((3,), dtype))
    ),
    exact=True,
    failures=(
        Failure(
            Sample((np.ones(3, "f4"), np.ones(3, "f4"), np.ones(3, "f4"))), DTypeError, "must be bool"
        ),
        Failure(
            Sample((np.ones(3, "?"), np.ones(3, "f4"), np.ones(2, "f4"))), ShapeError, "3 and 2 differ"
        ),
    ),
)  # fmt: skip


# -- casts ---------------------------------------------------------------------------------------


def _cast_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    if smooth:
        for a in ((), (0,), (2, 3)):
            yield Sample((values(a, dtype),), {"dtype": sf.float64})
        return
    for target in DTYPES:
        low = 0 if target.kind == "u" else -100
        yield Sample((values((2, 3), dtype, low, 100),), {"dtype": target})
        yield Sample((values((3, 2), dtype, low, 100).T[:, ::-1],), {"dtype": target.name})
        if not dtype.is_floating or target.is_floating or target is bool_:
            # a NaN or what is out of range has no integer that all machines agree on
            yield Sample((special(dtype),), {"dtype": target})


def _cast_expect(x: Array, *, dtype: Any) -> Array:
    target = next(d for d in DTYPES if dtype in (d, d.name))
    one = {"b": bool, "f": float}.get(target.kind, int)
    return pointwise(one, target)(x)


_CAST = OpInfo(
    OPS["cast"], lambda x, dtype: OPS["cast"](x, dtype=dtype_of(dtype)), _cast_expect,
    _cast_samples, ALL, grad=True, exact=True,
    sized=lambda dtype, n: Sample((values((n, 3), dtype, 0, 9),), {"dtype": sf.float32}),
)  # fmt: skip

_STOP = OpInfo(
    OPS["stop_gradient"], lambda x: OPS["stop_gradient"](x), pointwise(lambda x: x), unary(), ALL,
    grad=True, sized=sized_unary, exact=True,
)  # fmt: skip

_KEEP = OpInfo(
    OPS["keep_history"], lambda x: OPS["keep_history"](x, x.detach()), pointwise(lambda x: x),
    unary(), ALL, grad=True, sized=sized_unary, exact=True,
)  # fmt: skip

_CLONE = OpInfo(
    OPS["clone"], lambda x: OPS["clone"](x), pointwise(lambda x: x), unary(), ALL,
    grad=True, sized=sized_unary, exact=True,
)  # fmt: skip

ROWS = (*_ARITHMETIC, _CLAMP, *_COMPARISONS, _WHERE, _CAST, _CLONE, _STOP, _KEEP)
