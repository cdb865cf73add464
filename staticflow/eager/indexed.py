"""``x[key]`` of eager tensors: ints, slices, and one mask or index tensor, without the reading that
other keys need where they are not remembered (`staticflow.eager.fast.plans`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import NoneType
from typing import Any

import numpy as np

from staticflow.eager.choose import compute_of
from staticflow.eager.costs import LARGE, SPREAD
from staticflow.eager.in_place import stored_at
from staticflow.eager.memory import Memory
from staticflow.eager.saved import SavedType
from staticflow.eager.vertex import TapeEntry, make_entry
from staticflow.eager.views import wrap_view
from staticflow.graph.dtypes import BY_PYTHON
from staticflow.graph.mask_indices import places_of
from staticflow.ops.basics.slicing import select_op, slice_op
from staticflow.ops.declaring.thread import thread
from staticflow.ops.indexing.index_ops import index_op
from staticflow.ops.tensors import subscript

__all__ = ["get", "put"]

MANY = 1 << 10
"""Elements from which on a kernel puts a number where a mask says sooner than NumPy does."""

_array = np.ndarray
_bool = np.dtype(bool)
_getframe = sys._getframe
_BOUNDS = frozenset((int, NoneType))


def get(x: Any, key: Any) -> Any:
    """`staticflow.ops.tensors.subscript.get`, which reads every key but the usual ones."""
    kind = type(key)
    a = x._data
    if thread.state.usual and type(a) is _array and a.ndim:
        n = len(a)
        if kind is int and -n <= key < n:
            at = key if key >= 0 else key + n
            return wrap_view(x, a[at, ...], select_op, {"dim": 0, "index": at})
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
                return wrap_view(x, part, slice_op, attrs)
        indices = _indices(key, a) if hasattr(key, "_vertex") else None
        if indices is not None:
            try:
                return _select(x, a, key, indices)
            except IndexError:  # which the other way words
                pass
    return subscript.get(x, key)


def _indices(key: Any, a: Any) -> tuple[Any, ...] | None:
    """The indices in ``a`` that a mask or an index tensor says, as arrays; None if it says none, or
    if a kernel is to look."""
    k = key._data
    if type(k) is not _array or not k.ndim:
        return None
    if k.dtype is _bool:
        thread.state.sizes += 1
        return places_of(k) if k.shape == a.shape[: k.ndim] else None
    return (k,) if k.dtype.kind in "iu" and a.size < LARGE else None


def _select(x: Any, a: Any, key: Any, indices: tuple[Any, ...]) -> Any:
    """What `index_op` gives of ``x``."""
    dims = tuple(range(len(indices)))
    out = x._wrap(compute_of(index_op, a.size >= LARGE)(np, a, *indices, dims=dims))
    edge = x._current_vertex() if thread.state.recording else None
    if edge is not None:
        memory = key._own_memory() if indices[0] is key._data else Memory()
        kept = [(p, memory, memory.version) for p in indices]
        attrs = {"dims": dims}
        edges = (edge, *(None for _ in indices))
        args = [SavedType(x), *kept]
        out._vertex = make_entry(TapeEntry, index_op, attrs, edges, args, None, _getframe(2))
    return out


def put(x: Any, key: Any, value: Any) -> None:
    """``x[key] = value``, by `staticflow.ops.tensors.subscript.put_in_place` but in usual cases."""
    plain = thread.state.usual
    if plain and type(value) in BY_PYTHON and _is_large_mask(key, x._data):
        x.masked_fill_(key, value)
        return
    indices = _basic(key, x._data) if plain else None
    if indices is not None and stored_at(x, indices, value):
        return
    if plain and _is_one(key) and type(value) in BY_PYTHON:
        get(x, key).copy_(value)
    else:
        subscript.put_in_place(x, key, value)


def _is_one(key: Any) -> bool:
    """Whether a key is one int, or one slice in the order of the elements, which gives a view."""
    return type(key) is int or (type(key) is slice and (key.step is None or key.step > 0))


def _is_large_mask(key: Any, a: Any) -> bool:
    k = getattr(key, "_data", None)
    return type(k) is _array and k.dtype is _bool and k.shape == a.shape and k.size >= MANY


def _basic(key: Any, a: Any) -> Any:
    """What NumPy puts at the same indices of ``a`` by, for ints, slices, a mask or an index tensor;
    None if it would not, or if all threads are to."""
    if type(a) is not _array:
        return None
    if hasattr(key, "_vertex"):
        k = key._data
        if type(k) is not _array or not k.ndim:
            return None
        fits = k.shape == a.shape[: k.ndim] if k.dtype is _bool else k.dtype.kind in "iu"
        return k if fits else None
    if a.size >= SPREAD:
        return None
    keys = key if type(key) is tuple else (key,)
    tensors = [k for k in keys if hasattr(k, "_vertex")]
    if tensors:
        return _by_tensors(keys, tensors)
    for k in keys:
        if type(k) is slice:
            if k.step is not None and not (type(k.step) is int and k.step > 0):
                return None
        elif type(k) is not int:
            return None
    return key


def _by_tensors(keys: Sequence[Any], tensors: Sequence[Any]) -> Any:
    """What NumPy puts by for index tensors alone; None beside what it takes for an index."""
    arrays = tuple([k._data for k in tensors])
    alone = len(arrays) == len(keys)
    usual = all([type(k) is _array and k.ndim and k.dtype.kind in "iu" for k in arrays])
    return arrays if alone and usual else None
