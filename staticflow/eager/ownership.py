"""Which gradients of a backward may be a ``.grad`` as they are, and which are copied first."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticflow.eager.costs import LARGE
from staticflow.eager.device import is_writeable
from staticflow.eager.overwrite import make_copy
from staticflow.graph.rowmajor import row_major

__all__ = ["OwnedArrays", "owned_copy"]


class OwnedArrays:
    """What somebody has of the arrays of a walk: who asked for it, hooks and functions of the
    user's, and every ``.grad`` that it has filled. A change of one ``.grad`` must not show there.
    """

    __slots__ = ("_owners", "_parts")

    def __init__(self) -> None:
        self._owners: set[int] = set()  # the ids of arrays that are somebody's whole
        self._parts: dict[int, list[Any]] = {}  # by the ids of such of which parts are

    def mark(self, array: Any) -> None:
        """The memory that ``array`` is a part of is somebody's."""
        self._owners.add(id(_owner(array)))

    def claim(self, array: Any, like: Any, whole: bool) -> bool:
        """Whether ``array`` may be the ``.grad`` of a leaf on the array ``like``; then it is one
        from now on. A part of an array (the cotangents of `cat` and `reshape` are such) may be if
        it meets no other, it is large, and not only a ``whole`` one is wanted.
        """
        if not is_writeable(array) or not _lies_well(array, like):
            return False
        owner = array if array.base is None else _owner(array)
        number = id(owner)
        if number in self._owners:
            return False
        if array is owner and number not in self._parts:
            self._owners.add(number)
            return True
        if whole or type(array) is not np.ndarray or array.size < LARGE or not owner.flags.owndata:
            return False
        parts = self._parts.setdefault(number, [])
        if any(np.may_share_memory(array, part) for part in parts):
            return False
        parts.append(array)
        return True


def owned_copy(array: Any) -> Any:
    """A copy in row-major order, as the ``.grad`` of most leaves lies."""
    if type(array) is np.ndarray and (array.flags.c_contiguous or 0 in array.strides):
        return make_copy(array)
    return row_major(array)


def _owner(array: Any) -> Any:
    """The last array on whose memory ``array`` lies, itself if that is its own."""
    while type(array.base) is type(array):
        array = array.base
    return array


def _lies_well(array: Any, like: Any) -> bool:
    strides = array.strides
    return bool(array.flags.c_contiguous) or (strides == like.strides and 0 not in strides)
