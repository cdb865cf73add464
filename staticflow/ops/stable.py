"""The stable order of elements, by sorts that need not be stable.

NumPy sorts numbers several at a time, but not where it must keep the order of equal ones. Where an
element and its place fit into one integer of 64 bits, no two are equal, and the places come out in
the order that is wanted. Elements of 64 bits are put in some order, which is the only one if no two
of them turn out to be equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["stable_order"]

_FEW = 1 << 12
"""Elements below which the ways round cost more than they save."""


def stable_order(xp: Any, x: Any, dim: int, descending: bool) -> Any:
    """The places (int64) of the elements of ``x`` along ``dim`` in order, equal ones as they lie;
    NaN is the largest."""
    if xp is np and x.size >= _FEW:
        order = _by_keys(x, dim, descending)
        if order is None:
            order = _if_distinct(x, dim, descending)
        if order is not None:
            return order
    if not descending:
        return xp.argsort(x, axis=dim, kind="stable")
    backwards = xp.argsort(xp.flip(x, dim), axis=dim, kind="stable")
    return xp.ascontiguousarray(xp.flip(x.shape[dim] - 1 - backwards, dim))


def _by_keys(x: Any, dim: int, descending: bool) -> Any:
    """By one sort of integers, each an element with its place behind it; None if they do not fit
    into 63 bits."""
    numbers = _integers(x)
    if numbers is None:
        return None
    count = x.shape[dim]
    bits = max(count - 1, 0).bit_length()
    low, high = int(numbers.min()), int(numbers.max())
    if (high - low).bit_length() + bits > 63:
        return None
    keys = numbers.astype(np.int64)
    if descending:
        np.subtract(high, keys, keys)
    else:
        keys -= low
    keys <<= bits
    along = [1] * x.ndim
    along[dim] = count
    keys |= np.arange(count).reshape(along)
    keys.sort(axis=dim)
    keys &= (1 << bits) - 1
    return keys


def _integers(x: Any) -> Any:
    """Integers in the order of the elements, equal ones where these are; None if there are none in
    int64."""
    if x.dtype.kind in "biu":
        return x if x.dtype != np.uint64 else None
    if x.dtype.itemsize > 4:
        return None
    x = x + np.float32(0)  # -0.0 is 0.0
    np.copyto(x, np.nan, where=np.isnan(x))  # whatever its sign
    bits = x.view(np.int32)
    signs = bits >> 31
    signs &= 0x7FFFFFFF
    bits ^= signs  # below 0 they would grow with the size of the number
    return bits


def _if_distinct(x: Any, dim: int, descending: bool) -> Any:
    """By any sort, if no two elements are equal; else None."""
    order = np.argsort(x, axis=dim)
    found = np.take_along_axis(x, order, axis=dim)
    before, after = (
        found[(slice(None),) * dim + (part,)] for part in (slice(None, -1), slice(1, None))
    )
    if not np.all((before < after) | ((before == before) & (after != after))):
        return None
    return np.ascontiguousarray(np.flip(order, dim)) if descending else order
