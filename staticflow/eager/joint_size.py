"""How large what two arrays give is, in native code and in Python by one function."""

from __future__ import annotations

from staticflow.native.language import Row, native

__all__ = ["joint_size"]


@native
def joint_size(sizes: Row[int], ndim: int, others: Row[int], other_ndim: int) -> int:
    """How many elements two arrays have that are broadcast together, by their sizes, ``ndim`` and
    ``other_ndim`` many. The general path runs it as Python, on shapes."""
    count = 1
    for k in range(1, max(ndim, other_ndim) + 1):
        size = sizes[ndim - k] if k <= ndim else 1
        if size == 1 and k <= other_ndim:
            size = others[other_ndim - k]
        count *= size
    return count
