"""Operators on what is known before a run: numbers of axes and shapes, and arithmetic of sizes.

Arrays hold int64, or objects where some of them are unknown sizes. What only the run can tell, such
as which of two sizes is larger, raises, and the operator then runs on tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.graph.dims import Dim, closed_size, dim_max, dim_min, is_provably_ge, prod
from staticflow.graph.open_size import open_shape
from staticflow.onnx.reading.arrays import Array
from staticflow.onnx.reading.values import integers
from staticflow.onnx.types import dtype_of_code

__all__ = ["KNOWN"]


def _tidy(found: Any, like: Array | None = None) -> Array:
    """An array of int64 where all of its objects are numbers."""
    array = np.asarray(found, object) if isinstance(found, Dim) else np.asarray(found)
    if array.dtype == object and all(isinstance(v, int) for v in array.flat):
        return array.astype(np.int64)
    return array


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers and sizes as one of arrays."""
    over = np.frompyfunc(function, 2, 1)

    def apply(*arrays: Array, **_: Any) -> Any:
        found = arrays[0]
        for array in arrays[1:]:
            if found.dtype != object and array.dtype != object and found.dtype != array.dtype:
                return NotImplemented
            found = over(found.astype(object), array.astype(object))
        return _tidy(found) if _are_sizes(arrays) else NotImplemented

    return apply


def _are_sizes(arrays: Sequence[Array]) -> bool:
    return all(a.dtype in (np.dtype(np.int64), np.dtype(object)) for a in arrays)


def _of_sizes(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of sizes as the framework compares them, of sizes as users hold them."""

    def apply(a: Any, b: Any) -> Any:
        (found,) = open_shape((function(closed_size(a), closed_size(b)),))
        return found

    return apply


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        whole = abs(a) // abs(b)
        return whole if (a < 0) == (b < 0) else -whole
    if not (is_provably_ge(closed_size(a), 0) and is_provably_ge(closed_size(b), 1)):
        raise ValueError("rounding depends on signs")
    return a // b


def _mod(a: Array, b: Array, fmod: int = 0) -> Any:
    if fmod:
        return NotImplemented
    return _each(lambda x, y: x % y)(a, b)


def _compare(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    over = np.frompyfunc(lambda a, b: bool(function(a, b)), 2, 1)

    def apply(a: Array, b: Array) -> Any:
        if not _are_sizes((a, b)):
            return NotImplemented
        return np.asarray(over(a, b)).astype(bool)

    return apply


def _cast(x: Array, *, to: int, **_: Any) -> Any:
    dtype = dtype_of_code(to)
    if dtype is None or (x.dtype == object and dtype.name != "int64"):
        return NotImplemented
    return x if x.dtype == object else x.astype(dtype.numpy)


def _gather(x: Array, indices: Array, *, axis: int = 0) -> Any:
    if indices.dtype == object or x.ndim == 0 or x.shape[axis] == 0:
        return NotImplemented
    if (indices < -x.shape[axis]).any() or (indices >= x.shape[axis]).any():
        return NotImplemented  # the run says what is wrong
    return _tidy(np.take(x, indices, axis))


def _slice(x: Array, *, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    starts, ends = integers(starts, "starts"), integers(ends, "ends")
    axes = list(range(len(starts))) if axes is None else integers(axes, "axes")
    steps = [1] * len(starts) if steps is None else integers(steps, "steps")
    key: list[Any] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 0 and end < -x.shape[axis]:
            end = None
        key[axis] = slice(start, end, step)
    return _tidy(x[tuple(key)])


def _squeeze(x: Array, *, axes: Any = None) -> Any:
    return _tidy(np.squeeze(x, None if axes is None else tuple(integers(axes, "axes"))))


def _unsqueeze(x: Array, *, axes: Any) -> Any:
    return _tidy(np.expand_dims(x, tuple(integers(axes, "axes"))))


def _reshape(x: Array, *, shape: Any, allowzero: int = 0) -> Any:
    wanted = integers(shape, "the shape")
    if not allowzero:
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return _tidy(x.reshape(wanted))


def _concat(*xs: Array, axis: int) -> Any:
    if len({x.dtype for x in xs if x.dtype != object}) > 1:
        return NotImplemented
    return _tidy(np.concatenate(xs, axis))


def _reduce(function: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    def apply(
        x: Array, *, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        if x.ndim != 1 or not _are_sizes((x,)) or axes not in (None, 0, [0], [-1]):
            return NotImplemented
        found = _tidy(function(x.tolist()))
        return found.reshape(1) if keepdims else found

    return apply


def _range(*, start: Any, limit: Any, delta: Any, **_: Any) -> Any:
    if not _are_sizes((start, limit, delta)):
        return NotImplemented
    start, limit, delta = (integers(n.item(), "a bound")[0] for n in (start, limit, delta))
    if len(range(start, limit, delta)) > 4096:
        return NotImplemented
    return np.array(range(start, limit, delta), np.int64)


def _constant_of_shape(*, input: Any, value: Any = None) -> Any:
    sizes = integers(input if isinstance(input, list) else [input], "the shape")
    if value is None or any(n > 64 for n in sizes) or len(sizes) > 1:
        return NotImplemented
    return np.full(sizes, value.reshape(()), value.dtype)


def _where(condition: Array, x: Array, y: Array) -> Any:
    return _tidy(np.where(condition, x, y)) if condition.dtype == bool else NotImplemented


def _transpose(x: Array, *, perm: Any = None) -> Any:
    return _tidy(np.transpose(x, perm))


KNOWN: Mapping[str, Callable[..., Any]] = {
    "Add": _each(lambda a, b: a + b),
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Div": _each(_divide),
    "Equal": _compare(lambda a, b: a == b),
    "Gather": _gather,
    "Greater": _compare(lambda a, b: a > b),
    "GreaterOrEqual": _compare(lambda a, b: a >= b),
    "Identity": lambda x: x,
    "Less": _compare(lambda a, b: a < b),
    "LessOrEqual": _compare(lambda a, b: a <= b),
    "Max": _each(_of_sizes(dim_max)),
    "Min": _each(_of_sizes(dim_min)),
    "Mod": _mod,
    "Mul": _each(lambda a, b: a * b),
    "Neg": lambda x: _tidy(-x) if _are_sizes((x,)) else NotImplemented,
    "Not": lambda x: ~x,
    "Range": _range,
    "ReduceProd": _reduce(lambda sizes: open_shape((prod(map(closed_size, sizes)),))[0]),
    "ReduceSum": _reduce(sum),
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _each(lambda a, b: a - b),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
"""By operator what it is of arrays, which may hold unknown sizes."""
