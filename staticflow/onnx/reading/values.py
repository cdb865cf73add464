"""Values of a run: tensors, and what is known before it, as sizes are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from staticflow.eager.creation import from_numpy, full
from staticflow.errors import SymbolicError
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import DType, dtype_of, int64
from staticflow.graph.locs import format_locs, here
from staticflow.onnx.reading.arrays import Array
from staticflow.ops.basics.joining import stack
from staticflow.ops.basics.view import reshape
from staticflow.ops.symbols.symbol import Symbol
from staticflow.static.inputs import constant

__all__ = ["Known", "Value", "as_tensor", "as_tensors", "integers", "one", "read", "shape_array"]


class Known:
    """A value that is known before the run: an ``array``, in which int64 may be unknown sizes."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    @property
    def dtype(self) -> DType:
        """The dtype of the elements; sizes are int64."""
        return int64 if self.array.dtype == object else dtype_of(self.array.dtype)


Value: TypeAlias = Any
"""A tensor, a symbol, a `Known`, a list of tensors (a sequence of ONNX), or None."""


def as_tensor(value: Value, symbolic: bool) -> Any:
    """A value as a tensor, or as a symbol where the run writes a graph."""
    if not isinstance(value, Known):
        return value
    array = value.array
    if array.dtype != object:
        return constant(array) if symbolic else from_numpy(array.copy())
    parts = [full((), n, dtype=int64) for n in array.reshape(-1)]
    if not parts:
        return full(array.shape, 0, dtype=int64)
    return reshape(stack(parts), array.shape)


def as_tensors(value: Value, symbolic: bool) -> Any:
    """A value with what is known of it, or in it where it is a list, as tensors or symbols."""
    if isinstance(value, list):
        return [as_tensors(v, symbolic) for v in value]
    return as_tensor(value, symbolic)


def shape_array(sizes: Iterable[Any]) -> Array:
    """Sizes as a vector, of int64 where all are numbers."""
    sizes = list(sizes)
    if all(isinstance(n, int) for n in sizes):
        return np.asarray(sizes, np.int64).reshape(-1)
    found = np.empty(len(sizes), object)
    found[:] = sizes
    return found


def read(value: Value) -> Any:
    """A value as a number or (of more dims) a list of numbers and sizes: what is known before the
    run, of an eager tensor its elements, of a symbolic vector of integers sizes that only the run
    can tell."""
    if value is None:
        return None
    if isinstance(value, Known):
        found: Any = value.array.tolist()
        return found
    if isinstance(value, Symbol):
        if value.ndim == 0:
            return value
        (count,) = value.shape if value.ndim == 1 else (None,)
        if isinstance(count, int):
            return [value[i] for i in range(count)]
        raise SymbolicError(
            f"{value.dtype}{list(value.shape)} must be known before the run, or a vector of known "
            f"length, where a graph is written; run it eagerly, at {format_locs(here())}"
        )
    return value.detach().numpy().tolist()


def integers(value: Any, what: str) -> list[int]:
    """One integer or several that are known now, as numbers of dims are."""
    several = value if isinstance(value, list | tuple) else [value]
    for each in several:
        if isinstance(each, Symbol | Dim):
            raise SymbolicError(
                f"{what} depends on the run, and a graph is written of numbers that are known; "
                f"make it a constant of the model, or run it eagerly, at {format_locs(here())}"
            )
    return [int(v) for v in several]


def one(value: Any) -> Any:
    """A number that may be given as a vector of one."""
    if isinstance(value, list | tuple):
        (value,) = value
    return value
