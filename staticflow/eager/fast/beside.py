"""Functions that are LLVM text still, as native functions call them."""

from __future__ import annotations

from typing import TypeGuard, TypeVar

from staticflow.eager.fast.classes import Memory, State, Tensor, View, memory_example, view_example
from staticflow.eager.fast.records import InPlace, Op, Operand
from staticflow.native.cpython import Array, Tuple
from staticflow.native.language import Inside, Object, Owned, Row, external, inline, trusted

__all__ = [
    "bump", "changeable", "copy_into", "dtype_of", "forward", "given_count", "has",
    "has_vertex", "is_free", "is_memory", "is_none", "is_recording", "is_tensor", "is_there",
    "is_view", "like", "open_operand", "operand_array", "operand_tensor", "pair", "row",
    "same_shape", "tensor_of", "triple",
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
def forward(
    function: Object,
    first: Object | None,
    second: Object | None,
    args: Row[Object],
    count: int,
    names: Tuple | None,
) -> Owned[Object | None]:
    """What a function gives of one or two objects before the arguments; null with an error set."""
    raise NotImplementedError


@external()
def changeable(method: InPlace, operand: Operand, recording: bool) -> Owned[Memory | None]:
    """The memory of the tensor that a method is called on, if its elements may be changed and
    nothing of that is recorded; null if not. The operand is opened."""
    raise NotImplementedError


@external()
def is_free(tensor: Tensor) -> bool:
    """Whether a tensor, and what it is a view of, has no history that a change is a part of."""
    raise NotImplementedError


@external(symbol="copy")
def copy_into(array: Array, source: Array) -> bool:
    """Copy an array of the same shape, or of no dims; true if that failed, or it is neither."""
    raise NotImplementedError


@external()
def bump(memory: Memory) -> bool:
    """Note a change of a memory; true if an error was raised."""
    raise NotImplementedError


@external(runs=False, symbol="open")
def open_operand(operand: Operand) -> bool:
    """Whether an operand is a tensor on an array of the host; takes note of that."""
    raise NotImplementedError


@external(runs=False)
def is_tensor(thing: Object | None) -> TypeGuard[Tensor]:
    """Whether an object is a tensor; false for null."""
    raise NotImplementedError


@external(runs=False)
def has_vertex(tensor: Tensor) -> bool:
    """Whether a tensor has a history, or is a leaf."""
    raise NotImplementedError


@external(runs=False)
def is_recording(state: State) -> bool:
    """Whether a thread records its operations."""
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
