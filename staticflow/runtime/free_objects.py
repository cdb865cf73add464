"""Native code that keeps free objects, and makes new ones of them.

A free object has in one of its words where the next one is: in its first slot, or, of a row, where
its first element was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.native import cpython
from staticflow.native.language import (
    Inside,
    Object,
    Owned,
    Record,
    Row,
    Type,
    constant,
    drop,
    export,
    external,
    inline,
    native,
    take,
    trust,
    unsigned_less,
    variables,
    variant,
)
from staticflow.runtime.object_layout import HEAD

__all__ = ["LONGEST", "MOST", "Pool", "class_functions", "drop_elements", "row"]

MOST = 1 << 14
"""So many free objects of a class are kept, and so many rows of a length: some 100 bytes each."""

LONGEST = 4
"""Longer rows are not used again."""

FIRST_SLOT = HEAD >> 3
FIRST_ELEMENT = tuple.__basicsize__ >> 3


class Pool(Record):
    """Free objects of one kind: the first, and how many there are."""

    first: Owned[Object | None]
    count: int


row_type = constant(Type, "row_type")
row_pools = variables(Pool, "row_pools", LONGEST + 1)
class_pools = constant(Row[Pool], "class_pools")


# -- of C ----------------------------------------------------------------------------------------


@external()
def PyType_GenericAlloc(cls: Type, length: int) -> Owned[Object | None]:
    """A new object of nothing yet, which the collector knows; null with an error set."""
    raise NotImplementedError


@external(runs=False)
def PyObject_Init(memory: Owned[Object], cls: Type) -> Owned[Object]:
    """Memory as a new object of a class."""
    raise NotImplementedError


@external(runs=False)
def PyObject_InitVar(memory: Owned[Object], cls: Type, length: int) -> Owned[Object]:
    """Memory as a new object of a class, of a length."""
    raise NotImplementedError


@external(runs=False)
def PyObject_GC_Del(memory: Owned[Object]) -> None:
    """Give memory back."""
    raise NotImplementedError


# -- pools ---------------------------------------------------------------------------------------


@inline
def words_of(memory: Object) -> Inside[Row[Owned[Object | None]]]:
    """The words of an object."""
    return trust(memory, Row[Owned[Object | None]], "an object is its words")


@inline
def pop(pool: Pool, link: int) -> Owned[Object | None]:
    """A free object, with where the next is in its word ``link``; null if there is none."""
    first = take(pool.first)
    if first is not None:
        pool.first = take(words_of(first)[link])
        pool.count -= 1
    return first


@native
def push(pool: Pool, link: int, memory: Owned[Object]) -> None:
    """Let an object, which holds nothing any more, be used again, or give its memory back."""
    if not unsigned_less(pool.count, MOST):
        PyObject_GC_Del(memory)
        return
    pool.count += 1
    words_of(memory)[link] = take(pool.first)
    pool.first = memory


# -- classes -------------------------------------------------------------------------------------

NUMBER, KNOWN = 0, 1


@native
def alloc(cls: Type, length: int) -> Owned[Object | None]:
    """The ``tp_alloc`` of a class: an object of nothing yet, which the collector of garbage is to
    know or not; null with an error set."""
    free = pop(class_pools[NUMBER], FIRST_SLOT)
    if free is None:
        made = PyType_GenericAlloc(cls, 0)
        if made is not None and KNOWN == 0:
            cpython.PyObject_GC_UnTrack(made)
        return made
    again = PyObject_Init(free, cls)
    if KNOWN != 0:
        cpython.PyObject_GC_Track(again)
    return again


@native
def free(memory: Owned[Object]) -> None:
    """The ``tp_free`` of a class, for an object whose slots are cleared."""
    push(class_pools[NUMBER], FIRST_SLOT, memory)


def class_functions(known: Sequence[bool]) -> list[tuple[Callable[..., Any], Callable[..., Any]]]:
    """``tp_alloc`` and ``tp_free`` of so many classes, whose instances the collector of garbage is
    to know or not."""
    return [
        (
            export(variant(alloc, f"alloc_{number}", NUMBER=number, KNOWN=int(is_known))),
            export(variant(free, f"free_{number}", NUMBER=number)),
        )
        for number, is_known in enumerate(known)
    ]


# -- rows ----------------------------------------------------------------------------------------


@export
def row(length: int) -> Owned[Object | None]:
    """A row of nothing yet that the collector of garbage does not know; null with an error set."""
    if not unsigned_less(LONGEST, length):
        free = pop(row_pools[length], FIRST_ELEMENT)
        if free is not None:
            return PyObject_InitVar(free, row_type, length)
    made = PyType_GenericAlloc(row_type, length)
    if made is not None:
        cpython.PyObject_GC_UnTrack(made)
    return made


@export
def drop_elements(memory: Owned[Object]) -> None:
    """The ``tp_dealloc`` of rows. Long chains of them have other objects in between, which see to
    it that this does not call itself too often."""
    cpython.PyObject_GC_UnTrack(memory)
    length = trust(memory, Row[int], "an object is its words")[FIRST_SLOT]
    words = trust(memory, Row[Owned[Object | None]], "an object is its words")
    for i in range(length):
        element = take(words[FIRST_ELEMENT + i])
        drop(element)
    cls = trust(memory.type, Owned[Type], "an object holds its class, and this one ends")
    if unsigned_less(length - 1, LONGEST):  # one of length 0 has no room for the next
        push(row_pools[length], FIRST_ELEMENT, memory)
    else:
        PyObject_GC_Del(memory)
    drop(cls)
