"""Memory that elements have in common: those of one array, and those of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["find_sharing", "overlaps_itself", "share_elements"]

Array = np.ndarray[Any, Any]

_PATIENCE: Any = 10_000
"""How much NumPy may do to find an element that two arrays share; then they count as sharing."""


def overlaps_itself(array: Array) -> bool:
    """Whether two elements of an array have a byte in common, as those of an expanded one have, and
    those of windows that slide by less than their length.

    >>> row = np.zeros(6)
    >>> overlaps_itself(np.broadcast_to(row, (2, 6))), overlaps_itself(row[::2])
    (True, False)
    """
    if not array.size:
        return False
    shape, strides = array.shape, array.strides
    dims = sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1)
    length, is_nested = array.itemsize, True  # of the dims so far, the nearest elements first
    for stride, size in dims:
        is_nested = is_nested and stride >= length
        length += stride * (size - 1)
    if is_nested:
        return False
    if length < array.nbytes:  # there are more elements than places
        return True
    starts = np.zeros(1, np.int64)
    for stride, size in dims:
        starts = np.add.outer(starts, np.arange(size) * stride).ravel()
    starts.sort()
    return bool((np.diff(starts) < array.itemsize).any())


def share_elements(a: Array, b: Array) -> bool:
    """Whether two arrays have an element in common: two that take turns in memory, as ``x[::2]``
    and ``x[1::2]`` do, have none."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, _PATIENCE)
    except np.exceptions.TooHardError:
        return True


def find_sharing(arrays: Sequence[Array]) -> tuple[int, int] | None:
    """The numbers of the first two of ``arrays`` that have an element in common; None if none
    have."""
    spans = sorted((*_span(a), i) for i, a in enumerate(arrays) if a.size)
    for k, (_, end, i) in enumerate(spans):
        other = k + 1
        while other < len(spans) and spans[other][0] < end:
            j = spans[other][2]
            if share_elements(arrays[i], arrays[j]):
                return min(i, j), max(i, j)
            other += 1
    return None


def _span(array: Array) -> tuple[int, int]:
    """Where the memory of an array that has elements begins and ends."""
    low = high = int(array.ctypes.data)
    for stride, size in zip(array.strides, array.shape, strict=True):
        reach = stride * (size - 1)
        low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    return low, high + array.itemsize
