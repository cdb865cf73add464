"""Native code that looks at the arguments of a call before a program runs: whether arrays are as
the program wants them, and whether the memory that it overwrites meets that of others."""

from __future__ import annotations

from staticflow.native import cpython
from staticflow.native.cpython import Array, array_type, is_array
from staticflow.native.language import (
    Byte,
    Int32,
    Object,
    Owned,
    Record,
    Row,
    Type,
    address,
    export,
    hold,
    inline,
    native,
    trust,
)

__all__ = ["UNKNOWN", "Spec", "overlap", "take_arrays"]

UNKNOWN = -1
"""What stands in a `Spec` for a size that is not known before the call."""


class Spec(Record):
    """A param: its dtype object, sizes, bytes of an element, number when params are counted with
    those that are updated first, number of dims, and flags that it must have."""

    descr: Object
    sizes: Row[int]
    item_size: int
    position: int
    ndim: Int32
    flags: Int32


# -- what arrays are -----------------------------------------------------------------------------


@native
def take_arrays(
    objects: Row[Object],
    count: int,
    specs: Row[Spec],
    cls: Type,
    slot: int,
    arrays: Row[Owned[Array]],
    table: Row[Row[Byte] | None],
) -> int:
    """Hold the arrays of ``count`` objects, each an array or a box of class ``cls`` with one at the
    offset ``slot``, and write down where their elements lie. Gives how many there are before one
    that is not as its spec says."""
    for i in range(count):
        array = array_in(objects[i], cls, slot)
        if array is None or not suits(array, specs[i]):
            return i
        table[i] = trust(array.data, Row[Byte], "the row holds the array")
        arrays[i] = hold(array)
    return count


@inline
def array_in(thing: Object, cls: Type, slot: int) -> Array | None:
    """The array that an argument is, or that it has in a slot; null if there is none."""
    if is_array(thing):
        return thing
    if cpython.PyType_IsSubtype(thing.type, cls) == 0:
        return None
    inside = trust(thing, Row[Object | None], "an object is its words")[slot >> 3]
    if inside is None or is_array(inside):
        return inside
    if cpython.PyType_IsSubtype(inside.type, array_type) != 0:  # as of a parameter in parts
        return trust(inside, Array, "an instance of a subclass of arrays begins as an array")
    return None


@native
def suits(array: Array, spec: Spec) -> bool:
    """Whether an array has the dtype, number of dims, flags and known sizes of a spec."""
    if array.descr is not spec.descr:
        return False
    if array.ndim != spec.ndim or array.flags & spec.flags != spec.flags:
        return False
    have = array.dims
    want = spec.sizes
    for i in range(array.ndim):
        if want[i] != UNKNOWN and have[i] != want[i]:
            return False
    return True


# -- where arrays lie ----------------------------------------------------------------------------


@export
def overlap(
    arrays: Row[Array],
    specs: Row[Spec],
    count: int,
    updated: int,
    starts: Row[int],
    ends: Row[int],
) -> bool:
    """Whether the memory of one of ``updated`` arrays meets that of another of all ``count``;
    ``starts`` and ``ends`` have room for them."""
    for i in range(count):
        note_range(arrays[i], specs[i], starts, ends)
    sort_ranges(starts, ends, updated)
    for i in range(1, updated):
        if starts[i] < ends[i - 1]:
            return True
    for i in range(updated, count):
        after = first_after(starts, updated, starts[i])
        if after > 0 and starts[i] < ends[after - 1]:
            return True
        if after < updated and starts[after] < ends[i]:
            return True
    return False


@native
def note_range(array: Array, spec: Spec, starts: Row[int], ends: Row[int]) -> None:
    """Write down where an array begins and ends, at its position; 0 and 0 if it has no elements."""
    start = address(array.data)
    end = start + spec.item_size
    sizes = array.dims
    strides = array.strides
    for i in range(array.ndim):
        size = sizes[i]
        if size == 0:
            start = 0
            end = 0
            break
        end += (size - 1) * strides[i]
    starts[spec.position] = start
    ends[spec.position] = end


@native
def sort_ranges(starts: Row[int], ends: Row[int], count: int) -> None:
    """Sort ranges by where they begin, as Shell does: a program may update thousands, which lie
    nearly in order."""
    gap = count
    while gap > 1:
        gap = max(gap * 5 >> 4, 1)
        for i in range(gap, count):
            start = starts[i]
            end = ends[i]
            at = i
            while at >= gap and start < starts[at - gap]:
                starts[at] = starts[at - gap]
                ends[at] = ends[at - gap]
                at -= gap
            starts[at] = start
            ends[at] = end


@native
def first_after(starts: Row[int], count: int, start: int) -> int:
    """How many of the ranges begin at ``start`` or before."""
    low = 0
    high = count
    while low < high:
        middle = (low + high) >> 1
        if start < starts[middle]:
            high = middle
        else:
            low = middle + 1
    return low
