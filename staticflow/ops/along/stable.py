"""The stable order of elements, by sorts that need not be stable.

NumPy sorts numbers several at a time, but not where it must keep the order of equal ones. Where an
element and its position fit into one integer of 64 bits, no two are equal, and the positions come
out in the order that is wanted. Of wider elements the leading bits stand there; the few that differ
in the others alone are put in order afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["stable_order"]

_FEW = 1 << 12
"""Elements below which the ways round cost more than they save."""


def stable_order(xp: Any, x: Any, dim: int, descending: bool) -> Any:
    """The positions (int64) of the elements of ``x`` along ``dim`` in order, equal ones as they
    lie; NaN is the largest."""
    if xp is np and x.size >= _FEW:
        order = _by_keys(x, dim, descending)
        if order is not None:
            return order
    if not descending:
        return xp.argsort(x, axis=dim, kind="stable")
    backwards = xp.argsort(xp.flip(x, dim), axis=dim, kind="stable")
    return xp.ascontiguousarray(xp.flip(x.shape[dim] - 1 - backwards, dim))


def _by_keys(x: Any, dim: int, descending: bool) -> Any:
    """The order by one sort of integers, each an element with its position behind it; None if too
    many elements begin with the same bits."""
    count = x.shape[dim]
    bits = max(count - 1, 0).bit_length()
    keys = _integers(x)
    if descending:
        np.invert(keys, keys)
    low, high = int(keys.min()), int(keys.max())
    fits = (high - low).bit_length() + bits <= 63
    if fits:
        keys -= low
        keys <<= bits
    whole = None if fits else keys.copy()
    mask = (1 << bits) - 1
    keys &= ~mask
    along = [1] * x.ndim
    along[dim] = count
    keys |= np.arange(count).reshape(along)
    keys.sort(axis=dim)
    keys &= mask
    return keys if whole is None else _put_right(keys, whole, dim)


_TIMES = 4
"""So often neighbours change places."""


def _put_right(order: Any, numbers: Any, dim: int) -> Any:
    """The order in which ``numbers`` are sorted, from one in which few are not; else None."""
    order = np.moveaxis(order, dim, -1)
    found = np.take_along_axis(np.moveaxis(numbers, dim, -1), order, axis=-1)
    for _ in range(_TIMES):
        wrong = found[..., :-1] > found[..., 1:]
        if not wrong.any():
            return np.ascontiguousarray(np.moveaxis(order, -1, dim))
        wrong[..., 1:] &= ~wrong[..., :-1]
        *rows, at = np.nonzero(wrong)
        here, there = (*rows, at), (*rows, at + 1)
        for array in (order, found):
            array[here], array[there] = array[there], array[here]
    return None


def _integers(x: Any) -> Any:
    """New integers of 64 bits in the order of the elements, equal ones where these are."""
    if x.dtype == np.uint64:
        return x.view(np.int64) ^ np.int64(-(1 << 63))
    if x.dtype.kind in "biu":
        return x.astype(np.int64)
    x = x + x.dtype.type(0) if x.dtype.itemsize > 4 else x + np.float32(0)  # -0.0 is 0.0
    np.copyto(x, np.nan, where=np.isnan(x))  # whatever its sign
    bits = x.view(np.int64 if x.itemsize > 4 else np.int32)
    signs = bits >> (8 * x.itemsize - 1)
    signs &= np.iinfo(bits.dtype).max
    bits ^= signs  # below 0 they would grow with the size of the number
    return bits.astype(np.int64, copy=False)
