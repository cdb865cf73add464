"""Copies of arrays in row-major order, at the speed of memory whatever order they are in."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["is_slow", "row_major"]

_LARGE = 1 << 14  # elements: more than what the nearest cache holds
_SOME = 8  # passes over the copy that take less time than one element after another
_WIDTH = 64  # of a strip: some cache lines of the copy, and few enough of the original


def row_major(array: Any) -> Any:
    """A copy of ``array``, of NumPy or cupy, in row-major order.

    NumPy copies a transposed matrix row by row, and reads a line of cache for each element. In
    strips of some columns the lines are still there for the next rows. It is slow, too, where each
    element is repeated a few times.
    """
    if _repeats(array):
        out = np.empty(array.shape, array.dtype)
        for column in range(array.shape[-1]):
            out[..., column] = array[..., 0]
        return out
    if not _is_turned(array):
        return array.copy(order="C")
    out = np.empty(array.shape, array.dtype)
    for begin in range(0, array.shape[-1], _WIDTH):
        strip = ..., slice(begin, begin + _WIDTH)
        out[strip] = array[strip]
    return out


def is_slow(array: Any) -> bool:
    """Whether `row_major` copies a large array otherwise than NumPy does."""
    return _repeats(array) or _is_turned(array)


def _repeats(array: Any) -> bool:
    """Whether the elements of a large array of NumPy are each there a few times in a row."""
    if type(array) is not np.ndarray or array.size < _LARGE or array.strides[-1] != 0:
        return False
    return bool(1 < array.shape[-1] <= _SOME)


def _is_turned(array: Any) -> bool:
    """Whether an array of NumPy is large and neighbours along another dim than the last lie nearer
    in memory."""
    if type(array) is not np.ndarray or array.size < _LARGE or array.flags.c_contiguous:
        return False
    steps = [abs(s) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    return len(steps) > 1 and steps[-1] > min(steps) > 0
