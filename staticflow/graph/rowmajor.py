"""Copies of arrays in row-major order, at the speed of memory whatever order they are in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["copy_to", "is_slow", "repeats_few", "row_major"]

_LARGE = 1 << 14  # elements: more than what the nearest cache holds
_SOME = 8  # passes over the copy that take less time than one element after another
_FEW_TIMES = 4  # copies that take less time than one that goes along them
_WIDTH = 64  # of a strip: some cache lines of the copy, and few enough of the original
_STRIP = 1 << 13  # elements of a strip, of few rows: a strip of fewer takes as long to begin
_RUN = 1 << 12  # elements that are copied at once, three times as fast as each is stored


def row_major(array: Any) -> Any:
    """A copy of ``array``, of NumPy or cupy, in row-major order.

    NumPy copies a transposed matrix row by row, and reads a line of cache for each element. In
    strips of some columns the lines are still there for the next rows. It is slow, too, where it
    moves a few elements at a time (`copy_to`).
    """
    if not is_slow(array):
        return array.copy(order="C")
    out = np.empty(array.shape, array.dtype)
    if _short_dim(out, array) is not None:
        copy_to(out, array)
        return out
    columns = array.shape[-1]
    width = max(_WIDTH, _STRIP * columns // array.size)
    for begin in range(0, columns, width):
        strip = ..., slice(begin, begin + width)
        out[strip] = array[strip]
    return out


def is_slow(array: Any) -> bool:
    """Whether `row_major` copies a large array otherwise than NumPy does."""
    if type(array) is not np.ndarray or array.size < _LARGE or array.flags.c_contiguous:
        return False
    if _is_in_rows(array):
        return False
    return _is_turned(array) or _short_dim(None, array) is not None


def copy_to(target: Any, source: Any) -> None:
    """Copy an array to another, of NumPy or cupy, which it is broadcast to. Where NumPy would move
    a few elements at a time, it is given one of these after the other, and where it would store one
    again and again, a run of them."""
    if _is_filled(target, source):
        _fill(target.reshape(-1), source[(0,) * source.ndim])
        return
    dim = _short_dim(target, source) if target.shape == source.shape else None
    if dim is None:
        np.copyto(target, source)
        return
    for i in range(target.shape[dim]):
        at = (*(slice(None),) * dim, i)
        target[at] = source[at]


def _is_filled(target: Any, source: Any) -> bool:
    """Whether a copy puts one number into all of a large row-major array of its dtype."""
    if type(target) is not np.ndarray or target.size < _LARGE or any(source.strides):
        return False
    if source.shape not in ((), target.shape):  # which NumPy broadcasts, or refuses
        return False
    return bool(target.flags.c_contiguous and target.dtype == source.dtype)


def _fill(target: Any, number: Any) -> None:
    """Put a number, of the dtype of NumPy's, into all elements of a vector of many. 100,000 float32
    take 4 microseconds, zeros 3, and 7 where NumPy stores each."""
    if not number.tobytes().strip(b"\0"):
        target.view(np.uint8).fill(0)
        return
    whole = target.size // _RUN * _RUN
    np.copyto(target[:whole].reshape(-1, _RUN), np.full(_RUN, number, target.dtype))
    target[whole:] = number


def repeats_few(target: Any, source: Any) -> bool:
    """Whether `copy_to` copies a large ``source`` a few times, since each of its elements comes
    that often, one behind the other."""
    dim = _short_dim(target, source) if target.shape == source.shape else None
    return dim is not None and source.strides[dim] == 0 and source.shape[dim] <= _FEW_TIMES


def _short_dim(target: Any, source: Any) -> int | None:
    """A dim of a few elements that NumPy would go along between two large arrays: in one of them at
    least no other dim goes on where it ends, and there is none of many elements that lie nearer in
    both. None if there is none. Without a ``target`` that is a row-major array."""
    if type(source) is not np.ndarray or source.size < _LARGE:
        return None
    if _is_in_rows(source) and (target is None or _is_in_rows(target)):
        return None
    dims = range(source.ndim)
    rows = [source.itemsize * math.prod(source.shape[d + 1 :]) for d in dims]
    steps = rows if target is None else target.strides
    for d in reversed(dims):
        n = source.shape[d]
        if 1 < n <= _SOME and not any(
            all(s[e] == n * s[d] or s[d] == source.shape[e] * s[e] for s in (steps, source.strides))
            for e in dims
            if e != d and source.shape[e] > 1
        ):
            nearer = (
                all(not s[d] or abs(s[e]) < abs(s[d]) for s in (steps, source.strides))
                for e in dims
                if source.shape[e] > _SOME
            )
            if not any(nearer):
                return d
    return None


def _is_in_rows(array: Any) -> bool:
    """Whether an array is of rows of many neighbours: then NumPy goes along these."""
    n = array.shape[-1] if array.ndim else 0
    return n > _SOME and array.strides[-1] == array.itemsize


def _is_turned(array: Any) -> bool:
    """Whether neighbours along another dim than the last lie nearer in memory."""
    steps = [abs(s) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    return len(steps) > 1 and steps[-1] > min(steps) > 0
