"""When a product of matrices is a kernel's, by its sizes and by how the matrices lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.codegen.thresholds import LEAST_ROWS
from staticflow.eager.costs import (
    BY_VECTOR,
    LITTLE,
    MATRICES,
    NARROW,
    NO_LIBRARY,
    PANELS,
    PRODUCT,
    SOME,
    TURNED,
)
from staticflow.eager.rows import in_order

__all__ = ["is_dense", "is_of_small", "linear_pays", "product_pays"]

Array = np.ndarray[Any, Any]

_WIDE = frozenset(map(np.dtype, ("float32", "float64")))


def product_pays(x: Array, y: Array) -> bool:
    """Whether the kernel that graphs run is faster than NumPy's library at the product of ``x``
    (..., m, k) and ``y`` (..., k, n)."""
    (rows, inner), columns = x.shape[-2:], y.shape[-1]
    work = x.size * columns
    if x.shape[:-2] != y.shape[:-2]:
        return False
    if is_of_small(x.shape) and is_of_small(y.shape) and is_dense(x) and is_dense(y):
        return True
    if x.dtype not in _WIDE:  # what lies otherwise is copied
        return bool(work >= (BY_VECTOR if columns == 1 else NO_LIBRARY))
    if columns == 1:
        long = inner >= BY_VECTOR and y.flags.c_contiguous
        return long and (x.flags.c_contiguous or (work >= NO_LIBRARY and not _is_for_library(x)))
    if work < TURNED or rows < 2 or columns < LEAST_ROWS or not (is_dense(x) and is_dense(y)):
        return False
    turned = not y.flags.c_contiguous
    if turned and math.prod(y.shape[-2:]) < LITTLE:
        return False
    if rows >= LEAST_ROWS and work >= PRODUCT:
        return True
    if x.ndim > 2 or not x.flags.c_contiguous:
        return False
    if work < PRODUCT:
        return bool(turned and rows * columns > PANELS)
    return bool(turned or x.dtype.itemsize == 4)


def is_of_small(shape: Sequence[int]) -> bool:
    """Whether an array of a shape is of many small matrices, of which a kernel multiplies several
    at a time."""
    return (
        len(shape) > 2
        and shape[-1] <= NARROW
        and shape[-2] <= NARROW
        and math.prod(shape[:-2]) >= MATRICES
    )


def linear_pays(x: Array, weight: Array, bias: Array) -> bool:
    """Whether the kernel that graphs run is faster than NumPy at ``x @ weight.T + bias``, for which
    NumPy goes over the result twice."""
    columns, inner = weight.shape
    if not (in_order(x) and in_order(weight) and in_order(bias)):
        return False
    if not weight.dtype is x.dtype is bias.dtype:
        return False
    if x.dtype not in _WIDE:
        return bool(x.size * columns >= NO_LIBRARY)
    if columns < LEAST_ROWS:
        return False
    rows = x.size // max(inner, 1)
    return weight.size >= LITTLE and (rows >= SOME or (rows > 1 and rows * columns > PANELS))


def _is_for_library(a: Array) -> bool:
    """Whether a library takes matrices as they lie: in rows, or columns, of neighbours, which may
    lie apart. NumPy multiplies others by vectors one element after the other."""
    (rows, columns), (row, column) = a.shape[-2:], a.strides[-2:]
    by_rows = column == a.itemsize and row >= columns * a.itemsize
    return by_rows or (row == a.itemsize and column >= rows * a.itemsize)


def is_dense(a: Array) -> bool:
    """Whether matrices lie by rows or by columns, one element behind the other."""
    return a.flags.c_contiguous or a.swapaxes(-1, -2).flags.c_contiguous
