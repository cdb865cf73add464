"""The memory of a routine as LLVM text: an arena that stays from call to call, and growing buffers.

``borrow`` gives an arena of at least so many bytes behind a header, ``give_back`` returns it, and
``release`` frees it. All programs without growing buffers call the same three (`lending`), and
others have their own. The header is the arena's capacity and a cell for each growing buffer: its
address and capacity. ``grow`` gives such a buffer more room, as long as all of them have no more
than ``room``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from staticflow.codegen.llvm.text import FunctionText, Type, phi

__all__ = ["CELL", "LENDING", "arena_text", "capacities_at", "header_bytes", "lending_text",
           "make_room"]  # fmt: skip

LENDING = ("borrow", "give_back", "release")
"""The functions that lend an arena."""

_ALIGNMENT = 64
"""The alignment of the arena, and of what stands before the buffers in it."""

CELL = 16
"""Bytes of the cell of a growing buffer."""

_LITTLE = 1 << 16
"""Bytes by which a growing buffer grows at least, if it has as many: often is slower than much."""

_DECLARATIONS = """
declare ptr @aligned_alloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
"""

_LENT = """
declare ptr @borrow(ptr, i64, i64)
declare void @give_back(ptr, ptr)
declare void @release(ptr)
"""

_LENDING = f"""
define internal ptr @borrow(ptr %state, i64 %bytes, i64 %header) nounwind {{
entry:
  %held = atomicrmw xchg ptr %state, ptr null seq_cst
  %none = icmp eq ptr %held, null
  br i1 %none, label %make, label %look
look:
  %capacity = load i64, ptr %held
  %fits = icmp sge i64 %capacity, %bytes
  br i1 %fits, label %done, label %make
make:
  %all = add i64 %bytes, %header
  %new = call ptr @aligned_alloc(i64 {_ALIGNMENT}, i64 %all)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %nothing, label %note
nothing:
  call void @release(ptr %held)
  ret ptr null
note:
  br i1 %none, label %clear, label %move
clear:
  call void @llvm.memset.p0.i64(ptr %new, i8 0, i64 %header, i1 false)
  br label %begin
move:
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %held, i64 %header, i1 false)
  call void @free(ptr %held)
  br label %begin
begin:
  store i64 %bytes, ptr %new
  br label %done
done:
  %arena = phi ptr [ %held, %look ], [ %new, %begin ]
  ret ptr %arena
}}

define internal void @give_back(ptr %state, ptr %arena) nounwind {{
entry:
  %other = atomicrmw xchg ptr %state, ptr %arena seq_cst
  call void @release(ptr %other)
  ret void
}}
"""

_GROWING = f"""
@room = global i64 {(1 << 62) - 1}
@grown = internal global i64 0

; Room for `bytes` at least in a growing buffer: twice what it had while that is little, later a
; tenth more; false if there is none, or if all of them would have more than `room`. What is not yet
; reached of it has no pages: allocators move pages, not bytes, as a large block grows.
define internal i1 @grow(ptr %cell, i64 %bytes) nounwind noinline {{
entry:
  %old = load ptr, ptr %cell
  %capacity.at = getelementptr i8, ptr %cell, i64 8
  %capacity = load i64, ptr %capacity.at
  %tenth = udiv i64 %capacity, 10
  %little = call i64 @llvm.smin.i64(i64 %capacity, i64 {_LITTLE})
  %step = call i64 @llvm.smax.i64(i64 %tenth, i64 %little)
  %more = add i64 %capacity, %step
  %some = call i64 @llvm.smax.i64(i64 %more, i64 %bytes)
  %up = add i64 %some, {_ALIGNMENT - 1}
  %aligned = and i64 %up, -{_ALIGNMENT}
  %room = load i64, ptr @room
  %grown = load i64, ptr @grown
  %others = sub i64 %grown, %capacity
  %left = sub i64 %room, %others
  %wanted = call i64 @llvm.smin.i64(i64 %aligned, i64 %left)
  %fits = icmp sge i64 %wanted, %bytes
  br i1 %fits, label %get, label %nothing
get:
  %new = call ptr @realloc(ptr %old, i64 %wanted)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %nothing, label %note
nothing:
  ret i1 false
note:
  store ptr %new, ptr %cell
  store i64 %wanted, ptr %capacity.at
  %more.of.all = sub i64 %wanted, %capacity
  %before = atomicrmw add ptr @grown, i64 %more.of.all seq_cst
  ret i1 true
}}
"""


def header_bytes(cells: int) -> int:
    """Bytes of the header of an arena with so many cells."""
    return -(-(8 + CELL * cells) // _ALIGNMENT) * _ALIGNMENT


def capacities_at(cells: Iterable[int]) -> Iterator[int]:
    """Where in a header the capacities are: that of the arena, and those of the cells."""
    yield 0
    yield from (8 + CELL * i + 8 for i in cells)


def make_room(text: FunctionText, cell: str, bytes_: str) -> str:
    """Write what gives the growing buffer of a cell room for ``bytes_``, unless it has; gives an
    i1, whether it has now."""
    capacity = text.op(f"load i64, ptr {text.op(f'getelementptr i8, ptr {cell}, i64 8')}")
    before, small, done = text.block, text.new_block("small"), text.new_block("room")
    text.branch(text.op(f"icmp sge i64 {capacity}, {bytes_}"), done, small)
    text.start(small)
    grown = text.op(f"call i1 @grow(ptr {cell}, i64 {bytes_})")
    text.jump(done)
    text.start(done)
    there = text.fresh("there")
    done.phis.append(phi(there, Type("i1"), [("true", before), (grown, small)]))
    return there


def arena_text(lends: bool, cells: int) -> str:
    """What a routine needs of this that has an arena to lend, and growing buffers in so many cells:
    LLVM would compile the rest, too."""
    if not cells:
        return _DECLARATIONS + (_LENT if lends else "")
    return "".join((_DECLARATIONS, _LENDING, _GROWING, _release_text(cells)))


def lending_text() -> str:
    """The functions of `LENDING`, for arenas of programs without growing buffers."""
    lending = _LENDING.replace("define internal", "define")
    return "".join((_DECLARATIONS, lending, _release_text(0)))


def _release_text(cells: int) -> str:
    """The function that frees an arena, if there is one, and the buffers of its cells."""
    text = FunctionText()
    some, done = text.new_block("some"), text.new_block("done")
    text.branch(text.op("icmp eq ptr %arena, null"), done, some)
    text.start(some)
    for i in range(cells):
        cell = text.op(f"getelementptr i8, ptr %arena, i64 {8 + CELL * i}")
        text.do(f"call void @free(ptr {text.op(f'load ptr, ptr {cell}')})")
        at = text.op(f"getelementptr i8, ptr {cell}, i64 8")
        capacity = text.op(f"load i64, ptr {at}")
        text.do(f"{text.fresh('before')} = atomicrmw sub ptr @grown, i64 {capacity} seq_cst")
    text.do("call void @free(ptr %arena)")
    text.jump(done)
    text.start(done)
    done.end = "ret void"
    return f"define void @release(ptr %arena) nounwind {{\n{text}}}\n"
