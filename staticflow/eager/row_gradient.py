"""Gradients of large tables of which few rows were looked up: `embedding` of a leaf.

The dense gradient is zeros but for these rows. It is kept as the rows that were named and their
gradients, and made when somebody asks for it: for 512 rows of 50,000 of 64 elements that and an
update of the whole table take 7 milliseconds, and the rows alone 0.2. Where a step of the optimiser
leaves alone what has a gradient of 0, it takes the rows (`Optimizer.rests_at_zero`); it gives the
same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.eager.costs import LARGE
from staticflow.eager.saved import SavedType
from staticflow.graph.op import Op
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import thread
from staticflow.ops.indexing.index_functions import index_add
from staticflow.ops.indexing.index_ops import embedding_op
from staticflow.runtime.once import once

__all__ = ["FEW", "is_of_rows", "pull_rows", "step_rows", "to_dense"]

FEW = 8
"""A table has so many rows for each that is named at least."""


@once
def _row_gradient(tensor: Any) -> Any:
    """The class of such gradients, made of the class of tensors."""

    class RowGradient(tensor):  # type: ignore[misc]
        """A gradient that is zeros but for the rows at ``numbers``, which ascend."""

        __slots__ = ("dense_dtype", "dense_shape", "numbers", "rows")

        @property
        def _data(self) -> Any:
            """The dense array, made when it is first asked for."""
            data = _slot(self)
            if data is None:
                data = np.zeros(self.dense_shape, self.dense_dtype)
                data[self.numbers] = self.rows._data
                slot.__set__(self, data)
            return data

        @_data.setter
        def _data(self, data: Any) -> None:
            slot.__set__(self, data)

    slot = tensor.__dict__["_data"]

    def _slot(gradient: Any) -> Any:
        try:
            return slot.__get__(gradient)
        except AttributeError:
            return None

    return RowGradient


def is_of_rows(gradient: Any) -> bool:
    """Whether a gradient, or None, is kept by its rows."""
    return hasattr(type(gradient), "numbers")


def to_dense(gradient: Any) -> Any:
    """A gradient, or None, as a tensor of all rows."""
    return eager.wrap(gradient._data) if is_of_rows(gradient) else gradient


def step_rows(table: Any, step: Callable[[Any, Any], Any]) -> bool:
    """Put what a step of an optimiser gives of the rows of a parameter that have a gradient, and of
    their gradients, in the place of these rows. False, with nothing done, where the gradient is
    not kept by its rows, or is to be refused."""
    gradient, data = table._grad, table._data
    if not is_of_rows(gradient) or type(data) is not np.ndarray or thread.state.tracing:
        return False
    if data.shape != gradient.dense_shape or 0 in data.strides or not data.flags.writeable:
        return False
    numbers = gradient.numbers
    rows = step(eager.wrap(data[numbers]), gradient.rows)
    table._bump()
    data[numbers] = rows._data
    return True


def pull_rows(op: Op, edge: Any, ct: Any, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """The gradient of a table by its rows, where ``op`` looked up few rows of a large leaf whose
    gradient nobody waits for; else None."""
    if op is not embedding_op or edge is None or edge.serial or edge._hooks is not None:
        return None
    table, indices = args
    if type(table) is not SavedType or table.__sf_gpu__ is not None or thread.state.recording:
        return None
    count, width = table.shape
    numbers = indices._data.reshape(-1)
    if count * width < LARGE or numbers.size * FEW > count or type(ct._data) is not np.ndarray:
        return None
    if table.dtype.itemsize < 4:  # whose sums are kept in more bits
        return None
    rows = ct._data.reshape(-1, width)
    padding = attrs["padding_idx"]
    if padding is not None:
        named = numbers != padding
        numbers, rows = numbers[named], rows[named]
    distinct, places = np.unique(numbers, return_inverse=True)
    summed = eager.wrap(np.zeros((distinct.size, width), rows.dtype))
    made = object.__new__(_row_gradient(eager.tensor))
    made._memory = made._view = made._vertex = made._grad = made.name = made._hooks = None
    made.dense_shape, made.dense_dtype = table.shape, rows.dtype
    made.numbers = distinct
    made.rows = index_add(summed, 0, eager.wrap(places), eager.wrap(rows))
    return made
