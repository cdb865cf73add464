"""What references ask of their array module that cupy gives otherwise than NumPy, or not at all.

cupy has no warnings to silence, factors any matrix without a complaint, wraps indices that lie
outside, stores any one of several values that go to one place, and adds in memory that all threads
write only in some dtypes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from staticflow.graph.dtypes import bfloat16

__all__ = ["accumulate", "combine_at", "put_at", "quietly", "strictly"]


def quietly(xp: Any) -> AbstractContextManager[Any]:
    """Inside, infinite and undefined results are no warnings."""
    return np.errstate(all="ignore") if xp is np else nullcontext()


def strictly(xp: Any) -> AbstractContextManager[Any]:
    """Inside, a matrix that cannot be factored is an error."""
    if xp is np:
        return nullcontext()
    from cupyx import errstate

    context: AbstractContextManager[Any] = errstate(linalg="raise")
    return context


def accumulate(xp: Any, name: str, x: Any) -> Any:
    """``x[0]``, ``f(x[0], x[1])`` and so on, for an associative ufunc ``f`` of ``xp``.

    On a GPU in steps that double (Hillis, Steele, "Data parallel algorithms", 1986), so that the
    number of launches grows with the logarithm of the length.
    """
    if xp is np:
        return getattr(np, name).accumulate(x, axis=0)
    step = 1
    while step < len(x):
        x = xp.concatenate([x[:step], getattr(xp, name)(x[step:], x[:-step])])
        step *= 2
    return x


def put_at(xp: Any, out: Any, key: tuple[Any, ...], values: Any) -> None:
    """``out[key] = values``; where positions repeat, the last value stays.

    ``key`` is a slice or an index array for each dim of ``out``, and ``values`` has the shape of
    ``out[key]``. All values that go to one place are made the last of them first, so that it is no
    matter which is stored.
    """
    if xp is not np:
        dims = [dim for dim, k in enumerate(key) if not isinstance(k, slice)]
        adjoin = dims == list(range(dims[0], dims[0] + len(dims)))
        at = dims[0] if adjoin else 0  # where the dims of the index arrays are in the values
        place = _places(out, key)
        if place.size > 1:
            rows = values.reshape(*values.shape[:at], place.size, *values.shape[at + place.ndim :])
            last = _last_alike(xp, place.reshape(-1))
            values = xp.take(rows, last, axis=at).reshape(values.shape)
    out[key] = values


def _places(out: Any, key: tuple[Any, ...]) -> Any:
    """One integer for each place that the index arrays of ``key`` name together."""
    place: Any = 0
    for size, index in zip(out.shape, key, strict=True):
        if not isinstance(index, slice):
            place = place * size + index.astype(np.int64) % max(size, 1)
    return place


def _last_alike(xp: Any, numbers: Any) -> Any:
    """For each of a vector's elements the position of the last that is equal to it."""
    order = xp.argsort(numbers, kind="stable")
    ordered = numbers[order]
    ends = xp.concatenate([ordered[1:] != ordered[:-1], xp.ones(1, np.bool_)])
    group = xp.cumsum(ends.astype(np.int64)) - ends
    last = xp.empty_like(order)
    last[order] = order[xp.nonzero(ends)[0][group]]
    return last


_ATOMIC = frozenset(("float32", "float64", "int32", "int64"))
"""The dtypes that cupy combines in memory that all threads write, whatever the function."""


def combine_at(xp: Any, name: str, out: Any, key: tuple[Any, ...], values: Any) -> None:
    """``out[key] = f(out[key], values)`` with all values that go to one place, for ``f`` the
    ``"add"``, ``"multiply"``, ``"maximum"`` or ``"minimum"`` of ``xp``.

    On a GPU floats that come together are added in no fixed order.
    """
    if xp is np:
        getattr(np, name).at(out, key, values)
    elif name == "multiply":
        _multiply_in_rounds(xp, out, key, values)
    elif out.dtype.name not in _ATOMIC:
        floating = out.dtype.kind == "f" or out.dtype == bfloat16.numpy
        dtype = np.float32 if floating else np.int32
        wide = out.astype(dtype)
        if name == "add" and out.dtype.kind == "b":
            name = "maximum"
        combine_at(xp, name, wide, key, values.astype(dtype))
        out[...] = wide.astype(out.dtype)
    else:
        getattr(xp, name).at(out, key, values)
        if name != "add" and out.dtype.kind == "f":  # whose NaN is passed over
            unknown = xp.isnan(out).astype(np.int32)
            xp.maximum.at(unknown, key, xp.isnan(values).astype(np.int32))
            out[unknown != 0] = np.nan


def _multiply_in_rounds(xp: Any, out: Any, key: tuple[Any, ...], values: Any) -> None:
    """The first value of each place, then the second, as many rounds as come to one place."""
    place = _places(out, key)
    place, values = place.reshape(-1), xp.broadcast_to(values, place.shape).reshape(-1)
    if not place.size:
        return
    order = xp.argsort(place, kind="stable")
    ordered = place[order]
    begins = xp.concatenate([xp.ones(1, np.bool_), ordered[1:] != ordered[:-1]])
    starts = xp.nonzero(begins)[0]
    group = xp.cumsum(begins.astype(np.int64)) - 1
    turn = xp.arange(place.size) - starts[group]
    flat = out.reshape(-1)  # of a new array, so the same memory
    for number in range(int(turn.max()) + 1):
        now = order[turn == number]
        flat[place[now]] = flat[place[now]] * values[now]
