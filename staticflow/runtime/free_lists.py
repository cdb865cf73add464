"""Small objects whose memory is used again for others of their class.

CPython's collector of garbage walks the young objects whenever 700 more of those that it knows were
allocated than freed (2,000 from CPython 3.13 on), and now and then all there are, which takes as
long as 100,000 operations. It does not count what is taken from a list of free objects, as tuples
are, of which 2,000 wait there at most. So here: what is recorded again and again, and freed, costs
no pass; a tape that is longer than those before it, or that a reference cycle keeps, is counted.
The collector finds these objects as it finds others.
"""

from __future__ import annotations

import ctypes
from string import Template
from typing import Any, final

from staticflow.runtime.host import python_symbols
from staticflow.runtime.native import NativeModule, compile_native
from staticflow.runtime.object_layout import ALLOC, DEALLOC, FREE, HEAD, TYPE
from staticflow.runtime.once import once

__all__ = ["Row", "recycle"]

MOST = 1 << 14
"""So many free objects of a class are kept, and so many rows of a length: some 100 bytes each."""

LONGEST = 4
"""Longer rows are not used again."""

_KEPT: list[NativeModule] = []  # as long as the process lives


@final
class Row(tuple[Any, ...]):
    """A tuple that native code makes by ``row``. It is not to be hashed."""

    __slots__ = ()


_DECLARATIONS = """
declare void @Py_DecRef(ptr)
declare ptr @PyObject_Init(ptr, ptr)
declare ptr @PyObject_InitVar(ptr, ptr, i64)
declare void @PyObject_GC_Del(ptr)
declare void @PyObject_GC_Track(ptr)
declare void @PyObject_GC_UnTrack(ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)

; Free objects: the first, in which at some offset is where the next is, and how many there are.
%pool = type { ptr, i64 }

; Takes an object out of those that are free, null if there are none.
define internal ptr @pop(ptr %pool, i64 %offset) alwaysinline {
entry:
  %first = load ptr, ptr %pool
  %none = icmp eq ptr %first, null
  br i1 %none, label %done, label %take
take:
  %next.at = getelementptr i8, ptr %first, i64 %offset
  %next = load ptr, ptr %next.at
  store ptr %next, ptr %pool
  store ptr null, ptr %next.at
  %count.at = getelementptr %pool, ptr %pool, i64 0, i32 1
  %count = load i64, ptr %count.at
  %fewer = sub i64 %count, 1
  store i64 %fewer, ptr %count.at
  br label %done
done:
  ret ptr %first
}

; An object of nothing yet, which the collector of garbage is to know or not; null with an error set
; if it cannot be had.
define internal ptr @new(ptr %pool, ptr %type, i1 %known) {
entry:
  %free = call ptr @pop(ptr %pool, i64 $HEAD)
  %none = icmp eq ptr %free, null
  br i1 %none, label %make, label %again
make:
  %made = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %failed = icmp eq ptr %made, null
  %done = or i1 %failed, %known
  br i1 %done, label %give, label %hide
give:
  ret ptr %made
hide:
  call void @PyObject_GC_UnTrack(ptr %made)
  ret ptr %made
again:
  call ptr @PyObject_Init(ptr %free, ptr %type)
  br i1 %known, label %show, label %used
show:
  call void @PyObject_GC_Track(ptr %free)
  br label %used
used:
  ret ptr %free
}

; Lets an object, which holds nothing any more, be used again, or frees it.
define internal void @push(ptr %pool, i64 %offset, ptr %object) {
entry:
  %count.at = getelementptr %pool, ptr %pool, i64 0, i32 1
  %count = load i64, ptr %count.at
  %full = icmp uge i64 %count, $MOST
  br i1 %full, label %free, label %keep
free:
  call void @PyObject_GC_Del(ptr %object)
  ret void
keep:
  %more = add i64 %count, 1
  store i64 %more, ptr %count.at
  %first = load ptr, ptr %pool
  %next.at = getelementptr i8, ptr %object, i64 %offset
  store ptr %first, ptr %next.at
  store ptr %object, ptr %pool
  ret void
}
"""

_CLASS = """
@pool.$i = internal global %pool zeroinitializer

; The class's `tp_alloc`.
define ptr @alloc.$i(ptr %type, i64 %items) {
  %new = tail call ptr @new(ptr @pool.$i, ptr %type, i1 $known)
  ret ptr %new
}

; The class's `tp_free`, for an object whose slots are cleared.
define void @free.$i(ptr %object) {
  tail call void @push(ptr @pool.$i, i64 $HEAD, ptr %object)
  ret void
}
"""

_ROWS = """
@row_type = external global i8
@rows = internal global [$LENGTHS x %pool] zeroinitializer

; A row of nothing yet that the collector of garbage does not know; null with an error set if it
; cannot be had.
define ptr @row(i64 %length) {
entry:
  %short = icmp ule i64 %length, $LONGEST
  br i1 %short, label %look, label %make
look:
  %pool = getelementptr %pool, ptr @rows, i64 %length
  %free = call ptr @pop(ptr %pool, i64 $ITEMS)
  %none = icmp eq ptr %free, null
  br i1 %none, label %make, label %again
again:
  call ptr @PyObject_InitVar(ptr %free, ptr @row_type, i64 %length)
  ret ptr %free
make:
  %made = call ptr @PyType_GenericAlloc(ptr @row_type, i64 %length)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %done, label %hide
hide:
  call void @PyObject_GC_UnTrack(ptr %made)
  br label %done
done:
  ret ptr %made
}

; The `tp_dealloc` of rows. Long chains of them have other objects in between, which see to it that
; this does not call itself too often.
define void @drop_row(ptr %row) {
entry:
  call void @PyObject_GC_UnTrack(ptr %row)
  %length.at = getelementptr i8, ptr %row, i64 $HEAD
  %length = load i64, ptr %length.at
  br label %more
more:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %left = icmp slt i64 %i, %length
  br i1 %left, label %one, label %empty
one:
  %offset = mul i64 %i, 8
  %place = add i64 %offset, $ITEMS
  %at = getelementptr i8, ptr %row, i64 %place
  %item = load ptr, ptr %at
  store ptr null, ptr %at
  call void @Py_DecRef(ptr %item)
  %next = add i64 %i, 1
  br label %more
empty:
  %type.at = getelementptr i8, ptr %row, i64 $TYPE
  %type = load ptr, ptr %type.at
  %before = sub i64 %length, 1  ; no row of length 0, which has no room for the next
  %again = icmp ult i64 %before, $LONGEST
  br i1 %again, label %keep, label %free
keep:
  %pool = getelementptr %pool, ptr @rows, i64 %length
  call void @push(ptr %pool, i64 $ITEMS, ptr %row)
  br label %done
free:
  call void @PyObject_GC_Del(ptr %row)
  br label %done
done:
  call void @Py_DecRef(ptr %type)
  ret void
}
"""


@once  # made anew, it would take up what the code that is made already does not give
def recycle(classes: tuple[type, ...], hidden: tuple[type, ...]) -> dict[str, int]:
    """Let the memory of instances of these classes (not of derived ones), and of rows, be used
    again, for as long as the process lives. The classes have slots, and no finalizers; what the
    ``hidden`` ones hold leads back to nothing, so that the collector need not know of them.

    Gives the address of ``row``, a function of native code, by its name; see `has_known_layout` for
    whether there can be any.
    """
    known = [*("true" for _ in classes), *("false" for _ in hidden)]
    each = [Template(_CLASS).safe_substitute(i=i, known=k) for i, k in enumerate(known)]
    text = Template("".join((_DECLARATIONS, _ROWS, *each))).substitute(
        MOST=MOST, LONGEST=LONGEST, LENGTHS=LONGEST + 1, HEAD=HEAD, TYPE=TYPE,
        ITEMS=tuple.__basicsize__,
    )  # fmt: skip
    places = range(len(known))
    names = ["row", "drop_row", *(f"{name}.{i}" for i in places for name in ("alloc", "free"))]
    module = compile_native(text, names, {"row_type": id(Row), **python_symbols(text)})
    _KEPT.append(module)
    _set(Row, DEALLOC, module.address("drop_row"))
    for i, cls in enumerate((*classes, *hidden)):
        _set(cls, ALLOC, module.address(f"alloc.{i}"))
        _set(cls, FREE, module.address(f"free.{i}"))
    return {"row": module.address("row")}


def _set(cls: type, offset: int, address: int) -> None:
    ctypes.c_void_p.from_address(id(cls) + offset).value = address
