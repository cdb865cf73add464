"""How much work arrays are to NumPy, in elements, in native code and in Python by one function.

NumPy goes along the last dim, and begins anew with each row. Where rows are short that is most of
its work: each row is counted as `STARTED` elements more where operands broadcast. Of an array that
is reduced an element is counted as `ADDED`, and a short row as `SUMMED_ROW`.
"""

from __future__ import annotations

from staticflow.eager.costs import ADDED, STARTED, SUMMED_ROW
from staticflow.native.language import Row, native

__all__ = ["joint_work", "work_by_rows"]


@native
def joint_work(
    sizes: Row[int], ndim: int, others: Row[int], other_ndim: int, by_element: bool
) -> int:
    """How many elements two arrays have that are broadcast together, by their sizes, ``ndim`` and
    ``other_ndim`` many. Where an op goes through them ``by_element`` each row counts as longer,
    unless the sizes are the same. The general path runs it as Python, on shapes."""
    rows = 1
    last = 1
    as_one = ndim == other_ndim
    for k in range(1, max(ndim, other_ndim) + 1):
        size = sizes[ndim - k] if k <= ndim else 1
        other = others[other_ndim - k] if k <= other_ndim else 1
        if size != other:
            as_one = False
        if size == 1:
            size = other
        if k == 1:
            last = size
        else:
            rows *= size
    return rows * last if as_one or last < 2 or not by_element else rows * (last + STARTED)


@native
def work_by_rows(sizes: Row[int], ndim: int) -> int:
    """How many elements are gone through in the time in which NumPy reduces an array of these
    ``sizes``, ``ndim`` many. The general path runs it as Python, on a shape."""
    rows = 1
    for k in range(ndim - 1):
        rows *= sizes[k]
    last = sizes[ndim - 1] if ndim > 0 else 1
    long = last * ADDED
    return rows * long if ndim < 2 or last < 2 else rows * max(long, SUMMED_ROW)
