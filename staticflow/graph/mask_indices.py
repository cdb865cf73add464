"""Where the elements of a mask are, at the speed at which it is read."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["index_rows", "places_of", "select"]

_LARGE = 1 << 12  # elements: what more calls of NumPy cost no longer counts

_SMALL = 1 << 10  # elements, of which NumPy's branches take less time than two more calls

_DENSE = 16  # of so many elements of a mask less than one is false: NumPy's branches are told ahead

# NumPy finds the elements of a vector of bools without a branch for each, those of more dims with.


def places_of(mask: Any) -> tuple[Any, ...]:
    """What ``mask.nonzero()`` gives of bools: a vector of indices for each dim."""
    if not _is_large(mask) or mask.ndim == 1:
        return tuple(mask.nonzero())
    rest = mask.reshape(-1).nonzero()[0]
    found = []
    for size in mask.shape[:0:-1]:
        quotient = rest // size
        rest -= quotient * size
        found.append(rest)
        rest = quotient
    return (rest, *found[::-1])


def index_rows(xp: Any, x: Any) -> Any:
    """What ``xp.argwhere(x)`` gives: a row of indices for each element that is not zero."""
    mask = x if x.dtype == bool else x != 0  # at which NumPy does not branch for each element
    if x.ndim == 1:
        return mask.nonzero()[0].reshape(-1, 1)
    if type(mask) is not np.ndarray or not x.ndim:
        return xp.argwhere(mask)
    if mask.size <= _SMALL:
        return _rows_at_once(mask)
    rest = mask.reshape(-1).nonzero()[0]
    rows = np.empty((len(rest), x.ndim), np.int64)
    for dim in range(x.ndim - 1, 0, -1):
        quotient = rest // x.shape[dim]
        np.subtract(rest, quotient * x.shape[dim], out=rows[:, dim])
        rest = quotient
    rows[:, 0] = rest
    return rows


def _rows_at_once(mask: Any) -> Any:
    """`index_rows`, of few elements: NumPy makes such rows, and gives their columns."""
    columns = mask.nonzero()
    rows = columns[0].base
    if (
        type(rows) is np.ndarray
        and rows.shape == (len(columns[0]), mask.ndim)
        and rows.dtype == np.int64
        and rows.flags.c_contiguous
        and rows.flags.owndata
    ):
        return rows
    return np.stack(columns, 1)


def select(x: Any, mask: Any) -> Any:
    """``x[mask]``, of a mask of the shape of ``x``."""
    if not _is_large(mask) or np.count_nonzero(mask) * _DENSE > (_DENSE - 1) * mask.size:
        return x[mask]
    return x.reshape(-1)[mask.reshape(-1).nonzero()[0]]


def _is_large(array: Any) -> bool:
    return type(array) is np.ndarray and array.size >= _LARGE
