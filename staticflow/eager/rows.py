"""How arrays lie in memory, as programs take them: row-major, or in rows that lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.eager.costs import NARROW, NEAR, SHORT, STEPS

__all__ = [
    "Steps",
    "in_dims",
    "in_known_rows",
    "in_lines",
    "in_order",
    "in_rows",
    "lies_apart",
    "order_of",
    "steps_of",
]

Array = np.ndarray[Any, Any]
Steps = tuple[int | None, ...] | None


def in_order(a: Any) -> bool:
    """Whether ``a`` is a row-major array."""
    return isinstance(a, np.ndarray) and a.flags.c_contiguous


def in_rows(a: Any) -> bool:
    """Whether ``a`` is an array of rows, each of neighbours in memory or of every other element
    (or so), or of one, perhaps again and again: a row-major one, part of a wider one, a column, an
    expanded one."""
    if not isinstance(a, np.ndarray):
        return False
    if a.flags.c_contiguous:
        return True
    return (a.shape[-1] == 1 or _is_line(a, a.ndim - 1)) and _is_forward(a)


def in_lines(a: Any) -> bool:
    """Whether ``a`` is in such rows along any dim, as a transposed array is along its first."""
    if not isinstance(a, np.ndarray):
        return False
    if a.flags.c_contiguous:
        return True
    return _is_forward(a) and (a.shape[-1] == 1 or any([_is_line(a, dim) for dim in range(a.ndim)]))


def in_known_rows(a: Any) -> bool:
    """Whether ``a`` is in lines, or in rows of neighbours of a length that programs know."""
    if in_lines(a):
        return True
    return isinstance(a, np.ndarray) and _is_forward(a) and _is_short_row(a, a.ndim - 1)


def _is_forward(a: Array) -> bool:
    """Whether all strides count whole elements, none of them backwards."""
    return min(a.strides) >= 0 and a.flags.aligned


def _is_line(a: Array, dim: int) -> bool:
    return a.shape[dim] >= SHORT and _is_near(a, dim)


def _is_near(a: Array, dim: int) -> bool:
    return a.strides[dim] <= min(NEAR, STEPS * a.itemsize)


def lies_apart(a: Array) -> bool:
    """Whether no two elements of ``a`` are one, so that programs may write there."""
    reach = 0
    for n, step in zip(a.shape[::-1], a.strides[::-1], strict=True):
        if n > 1 and step <= reach:
            return False
        reach += (n - 1) * step
    return True


def order_of(arrays: Sequence[Array]) -> tuple[int, ...] | None:
    """The order of dims in which all arrays lie in rows, if that is not the one they have: what is
    computed by element then needs no copies, and its result lies as they do. Arrays of fewer dims
    have dims of size 1 before them, as in broadcasting."""
    turned = next((a for a in arrays if not a.flags.c_contiguous and 0 not in a.strides), None)
    if turned is None:
        return None
    order = tuple(np.argsort(turned.strides, kind="stable")[::-1].tolist())
    if order == tuple(range(len(order))):
        return None
    if any(a.ndim > turned.ndim for a in arrays):
        return None
    return order if all(not a.ndim or in_rows(in_dims(a, order)) for a in arrays) else None


def in_dims(a: Array, order: tuple[int, ...]) -> Array:
    """``a`` with its dims in an order; of fewer dims, with dims of size 1 before them."""
    if a.ndim < len(order):
        a = a.reshape((1,) * (len(order) - a.ndim) + a.shape)
    return a.transpose(order)


def steps_of(a: Array) -> Steps:
    """What a program knows of the strides of an array in lines, in elements: those along lines and
    along short rows, and those of dims of size 1, as 0; None stands for others. None for a
    row-major array."""
    if a.flags.c_contiguous:
        return None
    return tuple(
        0 if n == 1 else step // a.itemsize if _is_line(a, dim) or _is_short_row(a, dim) else None
        for dim, (n, step) in enumerate(zip(a.shape, a.strides, strict=True))
    )


def _is_short_row(a: Array, dim: int) -> bool:
    """Whether ``dim`` is the last, of a length that programs know, and of neighbours in memory."""
    return dim == a.ndim - 1 > 0 and a.shape[dim] <= NARROW and _is_near(a, dim)
