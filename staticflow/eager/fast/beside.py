"""Functions that are LLVM text still, as native functions call them."""

from __future__ import annotations

from typing import TypeGuard, TypeVar

from staticflow.eager.fast.classes import Memory, Tensor, View, memory_example, view_example
from staticflow.eager.fast.records import Op, Operand
from staticflow.native.cpython import Array, Tuple
from staticflow.native.language import Inside, Object, Owned, external, inline, trusted

__all__ = [
    "bit_of", "count_elements", "dtype_of", "forgiven", "given_count", "has",
     "is_memory", "is_none", "is_tensor", "is_there", "is_view", "joint_size",
    "like", "operand_array", "operand_tensor", "pair", "row", "same_shape", "tensor_of",
    "triple",
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
def tensor_of(array: Array) -> Owned[Tensor | None]:
    """A new tensor that holds an array; null with an error set."""
    raise NotImplementedError


@external()
def forgiven() -> bool:
    """Whether another way may be tried: nothing was raised, or an error that it will word, which is
    cleared."""
    raise NotImplementedError


@external(runs=False, symbol="size_of")
def count_elements(array: Array) -> int:
    """How many elements an array has."""
    raise NotImplementedError


@external(runs=False)
def joint_size(a: Array, b: Array) -> int:
    """How many elements two arrays have that are broadcast together."""
    raise NotImplementedError


@external(runs=False)
def bit_of(array: Array) -> int:
    """What stands for an array's dtype among those of all dtypes, as a bit; 0 if it is none."""
    raise NotImplementedError


@external(runs=False)
def is_tensor(thing: Object | None) -> TypeGuard[Tensor]:
    """Whether an object is a tensor; false for null."""
    raise NotImplementedError


@external(runs=False)
def given_count(count: int, names: Tuple | None) -> int:
    """How many arguments a call gives: by position, and by names."""
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
