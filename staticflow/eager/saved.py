"""What vertices keep of tensors for backward: values, or shapes and dtypes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow.eager.memory import Memory
from staticflow.eager.saved_hooks import Packed
from staticflow.errors import AutogradError
from staticflow.graph.dtypes import BY_NUMPY, DType
from staticflow.graph.locs import format_locs
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import thread
from staticflow.ops.tensors.methods import Methods

if TYPE_CHECKING:
    from staticflow.eager.tensor import Tensor
    from staticflow.eager.vertex import TapeEntry, Vertex

__all__ = [
    "ResultType", "SavedType", "SavedValue", "Unsaved", "check_unchanged", "copy_if_on",
    "load_value", "refuse_unsaved", "save_value",
]  # fmt: skip

SavedValue = tuple[Any, Memory, int]
"""The array of a saved tensor, its memory, and the version that it had."""


class Unsaved(Methods):
    """What stands for a tensor whose value the vjp does not need: its shape and dtype."""

    __slots__ = ()

    @property
    def __sf_mode__(self) -> Any:
        """The mode of tensors."""
        return eager.mode


class SavedType(Unsaved):
    """The shape and dtype of a tensor, kept for backward."""

    __slots__ = ("__sf_gpu__", "_dtype", "_shape")

    def __init__(self, tensor: Tensor) -> None:
        data = tensor._data
        self._shape: tuple[int, ...] = data.shape
        self._dtype = BY_NUMPY[data.dtype]
        self.__sf_gpu__ = None if type(data) is np.ndarray else tensor.__sf_gpu__

    @staticmethod
    def of(shape: tuple[int, ...], dtype: DType) -> SavedType:
        """What is kept of a tensor of the host that has this shape and dtype."""
        made = object.__new__(SavedType)
        made._shape, made._dtype, made.__sf_gpu__ = shape, dtype, None
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dims."""
        return self._shape

    __sf_shape__ = shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype


class ResultType(Unsaved):
    """The shape and dtype of the cotangent ``ct``."""

    __slots__ = ("ct",)
    ct: Tensor

    @staticmethod
    def of(ct: Tensor) -> ResultType:
        """What a cotangent tells of the result."""
        made = object.__new__(ResultType)
        made.ct = ct
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dims."""
        shape: tuple[int, ...] = self.ct._data.shape
        return shape

    __sf_shape__ = shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return BY_NUMPY[self.ct._data.dtype]

    @property
    def __sf_gpu__(self) -> Any:
        """The device, None for the CPU."""
        return self.ct.__sf_gpu__


def refuse_unsaved(error: Exception, entry: TapeEntry) -> None:
    """Raise `AutogradError` if ``error`` tells that the vjp of ``entry`` asked for the value of
    what is not kept."""
    asked = getattr(error, "value", getattr(error, "obj", None))
    if isinstance(asked, Unsaved):
        raise AutogradError(
            f"{entry.op.name}: the vjp uses the value of an argument or result, "
            f"{asked.dtype.name}{list(asked.shape)}, which was not kept, since it did not when "
            "the op was first recorded; let the op state all arguments whose values it may use, "
            f"Op(..., saves=...); recorded at {format_locs(entry.locs)}"
        ) from error


def save_value(tensor: Tensor) -> SavedValue:
    """What is kept of a tensor that a vjp needs: not the tensor itself, since an in-place operation
    can give it a vertex that leads to who keeps it."""
    hooks = thread.state.saved_hooks
    if hooks is not None:
        return Packed(tensor, hooks), Memory(), 0
    memory = tensor._memory or tensor._own_memory()
    return tensor._data, memory, memory.version


def check_unchanged(kept: SavedValue, entry: TapeEntry, position: int) -> Any:
    """The array that was kept: argument ``position`` of ``entry``, or a result if that is `OUT`.
    Raises `AutogradError` if it was changed."""
    array, memory, version = kept
    if memory.version != version:
        raise AutogradError(
            f"{entry.saved_name(position)}, {BY_NUMPY[array.dtype].name}{list(array.shape)}, "
            f"needed for the gradient was changed in place after it was used: it is at version "
            f"{memory.version}, version {version} is needed; changed at "
            f"{format_locs(memory.locs)}, used at {format_locs(entry.locs)}. Change a clone "
            "instead, or compute out of place (y = y + 1)"
        )
    return array


def load_value(kept: SavedValue, edge: Vertex, entry: Vertex, position: int) -> Tensor:
    """The tensor that was kept, as in `check_unchanged`, on the tape where it was."""
    array = check_unchanged(kept, entry, position)
    if type(array) is Packed:
        array = array.array()
    if edge is not None and not edge.serial and edge._data is array:
        leaf: Tensor = edge
        return leaf
    out: Tensor = eager.wrap(array)
    out._memory, out._vertex = kept[1], edge
    return out


def copy_if_on(kept: Any, memory: Memory) -> Any:
    """What is kept, as a copy if it is of this memory."""
    if isinstance(kept, tuple) and kept[1] is memory:
        return kept[0].copy(), Memory(), 0
    return kept
