"""The memory that large arrays leave, kept for those that come after.

The system clears pages as they are first touched, which takes as long as to add two arrays, and
takes the largest blocks back as soon as they are freed. So a few of the blocks that were freed last
are kept, and an array of the same size gets the latest of them. All of it is two functions for the
handler of NumPy's memory (`aligned`), in LLVM text; whoever finds them at work, which is possible
only where NumPy does not hold the interpreter's lock, asks the system.
"""

from __future__ import annotations

import ctypes

from staticflow.runtime.native import NativeModule, compile_native
from staticflow.runtime.once import once

__all__ = ["HUGE_FROM", "KEPT_FROM", "MOST_KEPT", "kept_bytes", "kept_functions"]

KEPT_FROM = 1 << 20
"""Bytes of the smallest blocks that are kept; the C library keeps smaller ones itself."""

MOST_KEPT = 1 << 28
"""Bytes that are kept at most."""

_FUNCTIONS = ("kept_malloc", "kept_calloc", "kept_realloc", "kept_free")
_BLOCKS = 16
_LINE = 64
HUGE_FROM = 1 << 22
"""Bytes from which on Linux is asked for pages of two megabytes, as NumPy does for its own."""
_PAGE, _HUGE_PAGES = 4096, 14  # of Linux; the advice MADV_HUGEPAGE


def kept_functions() -> tuple[int, int, int, int]:
    """The addresses of ``malloc``, ``calloc``, ``realloc`` and ``free`` as the handler of NumPy's
    memory has them: all four are of one kind of memory, the C library's. They stay, since arrays
    are freed until the interpreter has ended."""
    _module().stay()
    malloc, calloc, realloc, free = map(_module().address, _FUNCTIONS)
    return malloc, calloc, realloc, free


def kept_bytes() -> int:
    """How much is kept now."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(_module().address("kept_bytes"))())


@once
def _module() -> NativeModule:
    libc = ctypes.CDLL(None)
    names = ("memalign", "calloc", "realloc", "free", "madvise")
    symbols = {name: ctypes.cast(getattr(libc, name), ctypes.c_void_p).value for name in names}
    exports = (*_FUNCTIONS, "kept_bytes")
    return compile_native(_TEXT, exports, {n: a for n, a in symbols.items() if a}, quick=True)


_TEXT = f"""
@busy = internal global i32 0
@next = internal global i64 0  ; where in the ring the next block goes
@total = internal global i64 0
@blocks = internal global [{_BLOCKS} x ptr] zeroinitializer
@sizes = internal global [{_BLOCKS} x i64] zeroinitializer
declare ptr @memalign(i64, i64)
declare ptr @calloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)

define i64 @kept_bytes() {{
  %total = load i64, ptr @total
  ret i64 %total
}}

define internal i1 @enter() {{
  %got = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %entered = extractvalue {{ i32, i1 }} %got, 1
  ret i1 %entered
}}

define internal void @leave() {{
  store atomic i32 0, ptr @busy release, align 4
  ret void
}}

; The block at a place of the ring, which is empty from then on; null if it was.
define internal ptr @taken(i64 %place) {{
  %block.at = getelementptr ptr, ptr @blocks, i64 %place
  %block = load ptr, ptr %block.at
  store ptr null, ptr %block.at
  %size.at = getelementptr i64, ptr @sizes, i64 %place
  %size = load i64, ptr %size.at
  store i64 0, ptr %size.at
  %total = load i64, ptr @total
  %less = sub i64 %total, %size
  store i64 %less, ptr @total
  ret ptr %block
}}

define ptr @kept_malloc(ptr %context, i64 %size) {{
entry:
  %small = icmp ult i64 %size, {KEPT_FROM}
  br i1 %small, label %new, label %try
try:
  %entered = call i1 @enter()
  br i1 %entered, label %first, label %new
first:
  %next = load i64, ptr @next
  br label %look
look:
  %back = phi i64 [ 1, %first ], [ %further, %other ]
  %from = sub i64 %next, %back
  %place = and i64 %from, {_BLOCKS - 1}
  %own.at = getelementptr i64, ptr @sizes, i64 %place
  %own = load i64, ptr %own.at
  %fits = icmp eq i64 %own, %size
  br i1 %fits, label %found, label %other
other:
  %further = add i64 %back, 1
  %more = icmp ule i64 %further, {_BLOCKS}
  br i1 %more, label %look, label %none
found:
  %block = call ptr @taken(i64 %place)
  call void @leave()
  ret ptr %block
none:
  call void @leave()
  br label %new
new:
  %fresh = call ptr @memalign(i64 {_LINE}, i64 %size)
  %missing = icmp eq ptr %fresh, null
  %modest = icmp ult i64 %size, {HUGE_FROM}
  %done = or i1 %missing, %modest
  br i1 %done, label %finish, label %advise
advise:
  %start = ptrtoint ptr %fresh to i64
  %up = add i64 %start, {_PAGE - 1}
  %page = and i64 %up, -{_PAGE}
  %skipped = sub i64 %page, %start
  %rest = sub i64 %size, %skipped
  %pages = inttoptr i64 %page to ptr
  call i32 @madvise(ptr %pages, i64 %rest, i32 {_HUGE_PAGES})
  br label %finish
finish:
  ret ptr %fresh
}}

define ptr @kept_calloc(ptr %context, i64 %count, i64 %size) {{
  %block = call ptr @calloc(i64 %count, i64 %size)
  ret ptr %block
}}

define ptr @kept_realloc(ptr %context, ptr %block, i64 %size) {{
  %moved = call ptr @realloc(ptr %block, i64 %size)
  ret ptr %moved
}}

define void @kept_free(ptr %context, ptr %block, i64 %size) {{
entry:
  %small = icmp ult i64 %size, {KEPT_FROM}
  %huge = icmp ugt i64 %size, {MOST_KEPT}
  %no = or i1 %small, %huge
  br i1 %no, label %away, label %try
try:
  %entered = call i1 @enter()
  br i1 %entered, label %keep, label %away
keep:
  %next = load i64, ptr @next
  %after = add i64 %next, 1
  %place = and i64 %next, {_BLOCKS - 1}
  store i64 %after, ptr @next
  %old = call ptr @taken(i64 %place)
  call void @free(ptr %old)
  %block.at = getelementptr ptr, ptr @blocks, i64 %place
  store ptr %block, ptr %block.at
  %size.at = getelementptr i64, ptr @sizes, i64 %place
  store i64 %size, ptr %size.at
  %before = load i64, ptr @total
  %with = add i64 %before, %size
  store i64 %with, ptr @total
  br label %ask
ask:  ; the oldest go until it is no more than may be kept
  %oldest = phi i64 [ %after, %keep ], [ %younger, %drop ]
  %total = load i64, ptr @total
  %much = icmp ugt i64 %total, {MOST_KEPT}
  br i1 %much, label %drop, label %done
drop:
  %at = and i64 %oldest, {_BLOCKS - 1}
  %dropped = call ptr @taken(i64 %at)
  call void @free(ptr %dropped)
  %younger = add i64 %oldest, 1
  br label %ask
done:
  call void @leave()
  ret void
away:
  call void @free(ptr %block)
  ret void
}}
"""
