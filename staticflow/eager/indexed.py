"""``x[key]`` of eager tensors: ints, slices, and one mask or index tensor, without the reading that
other keys need."""

from __future__ import annotations

import sys
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from staticflow.eager.inplace import filled_at
from staticflow.eager.made import viewed
from staticflow.eager.memory import Memory
from staticflow.eager.programs import SPREAD
from staticflow.eager.remembered import remembered
from staticflow.eager.vertex import Shadow, TapeEntry, entered
from staticflow.graph.dtypes import BY_PYTHON
from staticflow.ops import subscript
from staticflow.ops.advanced import index_op
from staticflow.ops.slicing import select_op, slice_op
from staticflow.ops.thread import thread

__all__ = ["get", "put"]

_array = np.ndarray
_bool = np.dtype(bool)
_getframe = sys._getframe
_PLAIN = frozenset((int, NoneType, EllipsisType))
_BOUNDS = frozenset((int, NoneType))
_ONE = frozenset((int, slice))


def get(x: Any, key: Any) -> Any:
    """`staticflow.ops.subscript.get`, which reads every key but the usual ones."""
    kind = type(key)
    if kind is tuple:
        return _of_several(x, key)
    if key is None or key is Ellipsis:
        return _of_several(x, (key,))
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
        places = _places(key, a) if hasattr(key, "_vertex") else None
        if places is not None:
            try:
                return _selected(x, a, key, places)
            except IndexError:  # which the other way words
                pass
    return subscript.get(x, key)


def _places(key: Any, a: Any) -> tuple[Any, ...] | None:
    """The places in ``a`` that a mask or an index tensor says, as arrays; None if it says none, or
    if a kernel is to look."""
    k = key._data
    if type(k) is not _array or not k.ndim:
        return None
    if k.dtype is _bool:
        return k.nonzero() if k.shape == a.shape[: k.ndim] else None
    return (k,) if k.dtype.kind in "iu" and a.size < SPREAD else None


def _selected(x: Any, a: Any, key: Any, places: tuple[Any, ...]) -> Any:
    """What `index_op` gives of ``x``."""
    out = x._wrap(a[places])
    edge = x._edge() if thread.state.recording else None
    if edge is not None:
        memory = key._own_memory() if places[0] is key._data else Memory()
        kept = [(p, memory, memory.version) for p in places]
        attrs = {"dims": tuple(range(len(places)))}
        edges = (edge, *(None for _ in places))
        args = [Shadow(x), *kept]
        out._vertex = entered(TapeEntry, index_op, attrs, edges, args, None, _getframe(2))
    return out


def put(x: Any, key: Any, value: Any) -> None:
    """``x[key] = value``; see `staticflow.ops.subscript.put_in_place`."""
    if type(key) in _ONE and type(value) in BY_PYTHON and thread.state.plain:
        get(x, key).copy_(value)
    elif not (hasattr(key, "_vertex") and _filled(x, key, value)):
        subscript.put_in_place(x, key, value)


def _filled(x: Any, key: Any, value: Any) -> bool:
    """Put a number where a mask or an index tensor says, if that is all that there is to do."""
    if type(value) not in BY_PYTHON or not thread.state.plain:
        return False
    a, k = x._data, key._data
    usual = type(a) is type(k) is _array and k.ndim
    if not usual or (
        k.shape != a.shape[: k.ndim] if k.dtype is _bool else k.dtype.kind not in "iu"
    ):
        return False
    return filled_at(x, k, value)


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
