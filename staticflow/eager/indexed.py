"""``x[key]`` of eager tensors: ints and slices without the reading that other keys need."""

from __future__ import annotations

from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from staticflow.eager.made import viewed
from staticflow.eager.remembered import remembered
from staticflow.graph.dtypes import BY_PYTHON
from staticflow.ops import subscript
from staticflow.ops.slicing import select_op, slice_op
from staticflow.ops.thread import thread

__all__ = ["get", "put"]

_array = np.ndarray
_PLAIN = frozenset((int, NoneType, EllipsisType))
_BOUNDS = frozenset((int, NoneType))
_ONE = frozenset((int, slice))


def get(x: Any, key: Any) -> Any:
    """`staticflow.ops.subscript.get`, which reads every key but the usual ones."""
    kind = type(key)
    if kind is tuple:
        return _of_several(x, key)
    a = x._data
    if thread.state.plain and type(a) is _array and a.ndim:
        n = len(a)
        if kind is int and -n <= key < n:
            at = key if key >= 0 else key + n
            return viewed(x, a[at, ...], select_op, {"dim": 0, "index": at})
        if kind is slice and _BOUNDS.issuperset((type(key.start), type(key.stop), type(key.step))):
            start, stop, step = key.indices(n) if key.step != 0 else (0, 0, 0)
            size = len(range(start, stop, step)) if step > 0 else -1
            if size >= 0 and (start or size != n):
                others = a.ndim - 1
                part = a[key]
                attrs = {
                    "start": (start, *(0,) * others),
                    "size": part.shape,
                    "step": (step, *(1,) * others),
                }
                return viewed(x, part, slice_op, attrs)
    return subscript.get(x, key)


def put(x: Any, key: Any, value: Any) -> None:
    """``x[key] = value``; see `staticflow.ops.subscript.put_in_place`."""
    if type(key) in _ONE and type(value) in BY_PYTHON and thread.state.plain:
        get(x, key).copy_(value)
    else:
        subscript.put_in_place(x, key, value)


def _key_of(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key of ints, slices, None and ... so that it is hashable; others are a `TypeError`."""
    found: list[Any] = []
    for k in key:
        if type(k) is slice:
            bounds = k.start, k.stop, k.step
            if not _BOUNDS.issuperset(map(type, bounds)):
                raise TypeError("a bound that is no int")
            found.append(bounds)
        elif type(k) in _PLAIN:
            found.append(k)
        else:
            raise TypeError("what is selected depends on values")
    return tuple(found)


_of_several = remembered(subscript.get, _key_of)
