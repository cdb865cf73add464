"""Arithmetic, comparison, logic and selection, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import DType, bool_
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import elementwise
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.promote import as_number, result_type

__all__ = [
    "add", "cast", "clamp", "clamp_op", "clone", "div", "eq", "floor_divide", "ge", "gt",
    "keep_history", "le", "logical_and", "logical_not", "logical_or", "logical_xor", "lt",
    "maximum", "minimum", "mul", "ne", "neg", "remainder", "stop_gradient", "sub", "where",
]  # fmt: skip


def _or_on_bool(op: str, bool_op: str) -> Any:
    """The primitive ``op``, and on bools the one that NumPy and PyTorch mean by it there."""

    def emit(k: Any, x: Any, y: Any) -> Any:
        return k.apply(bool_op if x.dtype is bool_ else op, x, y)

    return emit


add = elementwise(
    "add", "``x + y``; or on bools.",
    "add",
    _or_on_bool("add", "or"),
    (lambda ct, out, x, y: ct, lambda ct, out, x, y: ct),
    numbers="wrap",
)  # fmt: skip

sub = elementwise(
    "sub", "``x - y``.",
    "subtract",
    lambda k, x, y: k.sub(x, y),
    (lambda ct, out, x, y: ct, lambda ct, out, x, y: -ct),
    kinds="iuf",
    numbers="wrap",
)  # fmt: skip

mul = elementwise(
    "mul", "``x * y``; and on bools.",
    "multiply",
    _or_on_bool("mul", "and"),
    (lambda ct, out, x, y: ct * y, lambda ct, out, x, y: ct * x),
    numbers="wrap",
)  # fmt: skip

div = elementwise(
    "div", "``x / y``, of real numbers: integers become float32 first.",
    "divide",
    lambda k, x, y: k.div(x, y),
    (lambda ct, out, x, y: ct / y, lambda ct, out, x, y: -ct * out / y),
    kinds="f", promote="float",
)  # fmt: skip

floor_divide = elementwise(
    "floor_divide", "``x / y`` rounded towards minus infinity; an integer divided by 0 gives 0.",
    "floor_divide",
    lambda k, x, y: k.floor_divide(x, y),
    (lambda ct, out, x, y: zeros_like(ct), lambda ct, out, x, y: zeros_like(ct)),
    kinds="iuf",
    numbers="wrap",
    numpy="small", exact=True,
)  # fmt: skip

remainder = elementwise(
    "remainder",
    "``x - floor_divide(x, y) * y``: the sign is that of ``y``; of an integer and 0 it is 0.",
    "remainder",
    lambda k, x, y: k.remainder(x, y),
    (lambda ct, out, x, y: ct, lambda ct, out, x, y: -ct * floor_divide(x, y)),
    kinds="iuf",
    numbers="wrap", numpy="small", exact=True,
)  # fmt: skip

neg = elementwise(
    "neg", "``-x``.",
    "negative",
    lambda k, x: k.neg(x) if x.dtype.kind != "u" else k.sub(k.const(0, x.dtype, x.lanes), x),
    (lambda ct, out, x: -ct,),
    kinds="iuf",
)  # fmt: skip


def _share(ct: Any, x: Any, y: Any, loses: Any) -> Any:
    """``ct`` unless ``x`` loses; ties are shared in halves, and of a NaN both have all, as in
    PyTorch."""
    return where(x == y, ct * 0.5, where(loses, 0.0, ct))


maximum = elementwise(
    "maximum", "The larger of ``x`` and ``y``; NaN if either is NaN.",
    "maximum",
    lambda k, x, y: k.apply("max", x, y),
    (lambda ct, out, x, y: _share(ct, x, y, x < y),
     lambda ct, out, x, y: _share(ct, x, y, y < x)),
)  # fmt: skip

minimum = elementwise(
    "minimum", "The smaller of ``x`` and ``y``; NaN if either is NaN.",
    "minimum",
    lambda k, x, y: k.apply("min", x, y),
    (lambda ct, out, x, y: _share(ct, x, y, x > y),
     lambda ct, out, x, y: _share(ct, x, y, y > x)),
)  # fmt: skip


def _clamp_infer(facts: Facts, x: TensorType, *, min: Any, max: Any) -> TensorType:
    if x.dtype is bool_:
        raise DTypeError("not defined for bool")
    if not x.dtype.is_floating:
        limits = np.iinfo(x.dtype.numpy)
        for bound in (min, max):
            if bound is not None and not limits.min <= bound <= limits.max:
                raise DTypeError(f"the bound {bound} does not fit {x.dtype.name}")
    return x


def _clamp_reference(xp: Any, x: Any, *, min: Any, max: Any) -> Any:
    if min is not None:
        x = xp.maximum(x, x.dtype.type(min))
    if max is not None:
        x = xp.minimum(x, x.dtype.type(max))
    return x


def _clamp_emit(k: Any, x: Any, *, min: Any, max: Any) -> Any:
    # select(bound > x, bound, x) is one instruction and keeps NaN
    if min is not None:
        x = k.select(k.compare("lt", x, min), min, x)
    if max is not None:
        x = k.select(k.compare("gt", x, max), max, x)
    return x


def _clamp_vjp(ct: Any, out: Any, x: Any, *, min: Any, max: Any) -> Any:
    if min is not None:
        ct = where(x >= min, ct, 0.0)
    if max is not None:
        ct = where(x <= max, ct, 0.0)
    return ct


clamp_op = elementwise(
    "clamp", "``x`` held between the numbers ``min`` and ``max`` (None: no bound); NaN stays.",
    _clamp_reference,
    _clamp_emit,
    (_clamp_vjp,),
    kinds="iuf", infer=_clamp_infer, numpy="small", exact=True,
)  # fmt: skip


@by_shape
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """``input`` held between ``min`` and ``max``: numbers, sizes, or tensors to broadcast; NaN
    stays. An element on a bound has all of the gradient."""
    min, max = as_number(min), as_number(max)
    if min is None and max is None:
        raise ArgumentError(f"clamp: give min or max, or both, at {format_locs(here())}")
    if isinstance(min, int | float | None) and isinstance(max, int | float | None):
        bounds = [b for b in (min, max) if b is not None]
        if not input.dtype.is_floating:
            dtype = result_type([input, *bounds])
            input = input if input.dtype is dtype else cast(input, dtype=dtype)
        return clamp_op(input, min=min, max=max)
    if isinstance(min, Dim) or isinstance(max, Dim):
        return _clamp_to(input, min, max)
    return _clamp_fused(input, min, max)


@fused("ClampBackward1", only_large=True)
def _clamp_fused(input: Any, min: Any, max: Any) -> Any:
    return _clamp_to(input, min, max)


def _clamp_to(input: Any, min: Any, max: Any) -> Any:
    for bound, beyond, name in ((min, lt, "min"), (max, gt, "max")):
        if isinstance(bound, int | float):
            input = clamp(input, **{name: bound})
        elif isinstance(bound, Dim):
            input = where(beyond(input, bound), bound, input)
        elif bound is not None:  # a NaN is one of the result
            input = where(logical_or(beyond(input, bound), ne(bound, bound)), bound, input)
    return input


def _comparison(name: str, sign: str, numpy_name: str) -> Any:
    return elementwise(
        name, f"``x {sign} y``, a bool.",
        numpy_name,
        lambda k, x, y: k.compare(name, x, y),
        result=bool_, numbers="wrap",
    )  # fmt: skip


lt = _comparison("lt", "<", "less")
le = _comparison("le", "<=", "less_equal")
gt = _comparison("gt", ">", "greater")
ge = _comparison("ge", ">=", "greater_equal")
eq = _comparison("eq", "==", "equal")
ne = _comparison("ne", "!=", "not_equal")


def _truth(k: Any, x: Any) -> Any:
    return k.cast(x, bool_)


def _logical(name: str, op: str) -> Any:
    return elementwise(
        name, f"Whether ``x`` {op} ``y`` are nonzero, a bool.",
        name,
        lambda k, x, y: k.apply(op, _truth(k, x), _truth(k, y)),
        result=bool_, numpy="small", exact=True,
    )  # fmt: skip


logical_and = _logical("logical_and", "and")
logical_or = _logical("logical_or", "or")
logical_xor = _logical("logical_xor", "xor")
logical_not = elementwise(
    "logical_not", "Whether ``x`` is zero, a bool.",
    "logical_not",
    lambda k, x: k.apply("not", _truth(k, x)),
    result=bool_, numpy="small", exact=True,
)  # fmt: skip


def _where_infer(facts: Facts, c: TensorType, x: TensorType, y: TensorType) -> TensorType:
    if c.dtype is not bool_:
        raise DTypeError(f"the condition is {c.dtype}, it must be bool; compare, as in x > 0")
    if x.dtype is not y.dtype:
        raise DTypeError(f"the branches are of different dtypes, {x.dtype} and {y.dtype}")
    return TensorType(x.dtype, facts.broadcast([c.shape, x.shape, y.shape]))


def _where_reference(xp: Any, c: Any, x: Any, y: Any) -> Any:
    if type(c) is not bool and c.dtype.kind != "b":
        raise DTypeError("the condition must be bool")
    return xp.where(c, x, y)


where: Op = elementwise(
    "where", "``x`` where ``condition`` (a bool) is true, ``y`` elsewhere.",
    _where_reference,
    lambda k, c, x, y: k.select(c, x, y),
    (None,
     lambda ct, out, c, x, y: where(c, ct, 0.0),
     lambda ct, out, c, x, y: where(c, 0.0, ct)),
    promote="tail", infer=_where_infer, numpy="small", exact=True,
)  # fmt: skip


def _cast_reference(xp: Any, x: Any, *, dtype: DType) -> Any:
    return xp.asarray(x).astype(dtype.numpy)


cast: Op = elementwise(
    "cast", "``x`` in another dtype; floats to integers truncate.",
    _cast_reference,
    lambda k, x, *, dtype: k.cast(x, dtype),
    (lambda ct, out, x, *, dtype: cast(ct, dtype=x.dtype) if x.dtype.is_floating else None,),
    promote="none", grad_name="ToCopyBackward0", numpy="small", exact=True,
    infer=lambda facts, x, *, dtype: TensorType(dtype, x.shape),
)  # fmt: skip

clone = elementwise(
    "clone", "A copy of ``x``.",
    lambda xp, x: xp.array(x, copy=True),
    lambda k, x: x,
    (lambda ct, out, x: ct,),
    promote="none", numpy="alone", exact=True,
)  # fmt: skip

stop_gradient = elementwise(
    "stop_gradient", "``x``, through which no gradient flows.",
    lambda xp, x: xp.asarray(x),
    lambda k, x: x,
    (None,),
    promote="none", numpy="faster", flows=lambda: ((),),
)  # fmt: skip

keep_history = elementwise(
    "keep_history", "``value``, whose gradient goes to ``x``, of the same shape: what a change in "
    "position leaves that is not recorded.",
    lambda xp, x, value: xp.asarray(value),
    lambda k, x, value: value,
    (lambda ct, out, x, value: ct, None),
    promote="none", numpy="faster", names=("x", "value"), flows=lambda: ((0,),),
)  # fmt: skip
