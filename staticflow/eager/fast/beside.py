"""Functions that are LLVM text still, as native functions call them."""

from __future__ import annotations

from typing import TypeGuard, TypeVar

from staticflow.eager.fast.classes import Memory, Tensor, View, memory_example, view_example
from staticflow.eager.fast.records import Op, Operand
from staticflow.native.cpython import Array, Tuple
from staticflow.native.language import Inside, Object, Owned, external, inline, trusted

__all__ = [
    "dtype_of", "has", "is_memory", "is_there", "is_view", "like", "operand_array",
    "operand_tensor", "own_memory", "pair", "row", "same_shape", "triple",
]  # fmt: skip

K = TypeVar("K", bound=Object)


@external()
def like(example: K, size: int, without: int) -> Owned[K | None]:
    """A new object of the class of another, with what its slots hold but one; null with an error
    set."""
    raise NotImplementedError


@external()
def row(length: int) -> Owned[Tuple | None]:
    """A tuple of nothing yet that the garbage collector does not know; null with an error set."""
    raise NotImplementedError


@external()
def triple(
    x: Owned[Object | None], y: Owned[Object | None], z: Owned[Object | None]
) -> Owned[Tuple | None]:
    """A row of three objects; null if one of them is, or with an error set."""
    raise NotImplementedError


@external()
def pair(x: Owned[Object], y: Owned[Object]) -> Owned[Tuple | None]:
    """A row of two objects; null with an error set."""
    raise NotImplementedError


@external()
def own_memory(tensor: Tensor) -> Owned[Object | None]:
    """The memory of a tensor, made if need be; null with an error set."""
    raise NotImplementedError


@external(runs=False)
def has(op: Op, flag: int) -> bool:
    """Whether a flag of an op is set."""
    return op.flags & flag != 0


@external(runs=False)
def dtype_of(array: Array) -> int:
    """The place of an array's dtype among all dtypes."""
    raise NotImplementedError


@external(runs=False)
def same_shape(a: Array, b: Array) -> bool:
    """Whether two arrays have the same sizes."""
    raise NotImplementedError


@external(runs=False)
def is_none(value: Object | None) -> bool:
    """Whether a slot holds nothing: None, or not even that, since somebody deleted it."""
    raise NotImplementedError


@inline
def is_there(value: Object | None) -> TypeGuard[Object]:
    """Whether a slot holds something."""
    return not is_none(value)


@inline
def is_memory(thing: Object) -> TypeGuard[Memory]:
    """Whether an object is a `Memory`."""
    return thing.type is memory_example.type


@inline
def is_view(thing: Object) -> TypeGuard[View]:
    """Whether an object is a `View`."""
    return thing.type is view_example.type


@inline
def operand_tensor(operand: Operand) -> Inside[Tensor]:
    """The tensor of an operand that was opened."""
    return trusted(operand.object, Tensor, "only what is a tensor is opened")


@inline
def operand_array(operand: Operand) -> Inside[Array]:
    """The array of an operand that was opened."""
    return trusted(operand.array, Array, "what is opened holds the array of its tensor")
