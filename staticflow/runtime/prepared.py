"""The arrays of a call as kernels take them: in one row, and apart where one is overwritten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow.errors import ShapeError
from staticflow.graph.rowmajor import row_major
from staticflow.runtime.overlaps import find_sharing, overlaps_itself

if TYPE_CHECKING:
    from staticflow.runtime.draft import ParamSpec

__all__ = ["prepare"]


def _itself(array: Any) -> Any:
    return array


def prepare(
    specs: Sequence[ParamSpec],
    arrays: Sequence[Any],
    where: Callable[[Any], Any] = _itself,
    in_row: Callable[[Any], Any] = row_major,
) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """The ``arrays`` as the code of a program takes them: contiguous, aligned, and inputs apart
    from the variables that are overwritten; and the copies of variables to write back, each behind
    what it is a copy of.

    ``where`` gives a NumPy array that lies where an array does, of which no element is looked at,
    ``in_row`` a copy that is contiguous and aligned. Raises `ShapeError` for memory that cannot be
    written over.
    """
    lies = [where(a) for a in arrays]
    named = [(s.name, at) for at, s in zip(lies, specs, strict=True) if s.updated]
    ready: list[Any] = []
    write_back: list[tuple[Any, Any]] = []
    for array, at, spec in zip(arrays, lies, specs, strict=True):
        lies_well = at.flags.c_contiguous or spec.type.strides is not None
        own = array if lies_well and at.flags.aligned else in_row(array)
        if spec.updated:
            if not at.flags.writeable:
                raise ShapeError(f"{spec.name} is updated, but its memory is read-only")
            if overlaps_itself(at):
                raise ShapeError(
                    f"{spec.name} is written over, and elements of it (shape "
                    f"{list(at.shape)}, strides of {list(at.strides)} bytes) lie in one "
                    "place of memory; give a clone"
                )
            if own is not array:
                write_back.append((array, own))
        elif own is array and any(np.may_share_memory(at, u) for _, u in named):
            own = own.copy()
        ready.append(own)
    shared = find_sharing([at for _, at in named])
    if shared is not None:
        one, other = (named[i][0] for i in shared)
        raise ShapeError(
            f"{one} and {other} are both written over, and share memory; give each its own"
        )
    return ready, write_back
