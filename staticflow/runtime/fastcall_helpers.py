"""What the native entries of all programs share: LLVM text that is compiled once in a process.

It checks what a call is given (`staticflow.runtime.fastcall_checks`), makes arrays, and says what a
call gives. What only the program knows (which sizes must be equal, what to allocate, how long it
takes) is in its own text.
"""

from __future__ import annotations

from string import Template

from staticflow.codegen.kernel import INTERRUPTED
from staticflow.runtime.aligned import ALIGNED_FROM
from staticflow.runtime.fastcall_checks import OVERLAP, SPEC, TAKE
from staticflow.runtime.host import BUSY
from staticflow.runtime.object_layout import (
    ALLOC,
    CONTIGUOUS,
    DATA,
    DIMS,
    FLAGS,
    HEAD,
    STRIDES,
    TYPE,
)

__all__ = ["DECLARATIONS", "EACH", "HELPERS", "LIKE", "TEXT"]

DECLARATIONS = f"""{SPEC}
declare i1 @take(ptr, i64, ptr, ptr, i64, ptr, ptr)
declare i1 @overlap(ptr, ptr, i64, i64, ptr, ptr)
declare void @hold(ptr, i64)
declare void @drop(ptr, i64)
declare i64 @size_of(ptr, i64)
declare i64 @stride_of(ptr, i64, i64)
declare i1 @is_apart(ptr)
declare ptr @data_of(ptr)
declare ptr @made(i32, ptr, ptr, i64)
declare ptr @taken(i32, ptr, ptr, ptr, i64)
declare ptr @hidden_tuple(i64)
declare void @show_tuple(ptr, i64)
declare i64 @go(ptr, ptr, ptr, ptr, i1, i1)
declare ptr @outcome(i64)
declare ptr @boxed_call(ptr, ptr, ptr, i64, ptr)
"""

HELPERS = (
    "take", "overlap", "hold", "drop", "size_of", "stride_of", "is_apart", "data_of", "made",
    "taken", "outcome", "boxed_call", "hidden_tuple", "show_tuple",
)  # fmt: skip

_ARRAYS = f"""
@PyArray_Type = external global i8
declare void @Py_DecRef(ptr)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyArray_Empty(i32, ptr, ptr, i32)
declare ptr @PyTuple_New(i64)
declare void @PyObject_GC_Track(ptr)
declare void @PyObject_GC_UnTrack(ptr)
declare void @free(ptr)
declare ptr @aligned_array(i32, ptr, ptr, i64)

define ptr @data_of(ptr %array) {{
  %at = getelementptr i8, ptr %array, i64 {DATA}
  %data = load ptr, ptr %at
  ret ptr %data
}}

define i64 @size_of(ptr %array, i64 %axis) {{
  %at = getelementptr i8, ptr %array, i64 {DIMS}
  %sizes = load ptr, ptr %at
  %size.at = getelementptr i64, ptr %sizes, i64 %axis
  %size = load i64, ptr %size.at
  ret i64 %size
}}

; How far apart neighbours along an axis lie, in elements of so many bytes; -1 if that is not a
; number of them.
define i64 @stride_of(ptr %array, i64 %axis, i64 %element) {{
  %at = getelementptr i8, ptr %array, i64 {STRIDES}
  %strides = load ptr, ptr %at
  %stride.at = getelementptr i64, ptr %strides, i64 %axis
  %stride = load i64, ptr %stride.at
  %count = sdiv i64 %stride, %element
  %back = mul i64 %count, %element
  %whole = icmp eq i64 %back, %stride
  %result = select i1 %whole, i64 %count, i64 -1
  ret i64 %result
}}

; Whether an array is not row-major.
define i1 @is_apart(ptr %array) {{
  %at = getelementptr i8, ptr %array, i64 {FLAGS}
  %flags = load i32, ptr %at
  %row.major = and i32 %flags, {CONTIGUOUS}
  %result = icmp eq i32 %row.major, 0
  ret i1 %result
}}

; A new array; null with an error set if it cannot be had.
define ptr @made(i32 %ndim, ptr %sizes, ptr %descr, i64 %bytes) {{
  %large = icmp uge i64 %bytes, {ALIGNED_FROM}
  br i1 %large, label %aligned, label %small
small:
  call void @Py_IncRef(ptr %descr)
  %array = call ptr @PyArray_Empty(i32 %ndim, ptr %sizes, ptr %descr, i32 0)
  ret ptr %array
aligned:
  %made = call ptr @aligned_array(i32 %ndim, ptr %sizes, ptr %descr, i64 %bytes)
  ret ptr %made
}}

; A tuple of nothing yet, which nobody finds until it is shown; null with an error set if it cannot
; be had. The empty one is everybody's.
define ptr @hidden_tuple(i64 %count) {{
entry:
  %tuple = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %tuple, null
  %empty = icmp eq i64 %count, 0
  %over = or i1 %failed, %empty
  br i1 %over, label %done, label %hide
hide:
  call void @PyObject_GC_UnTrack(ptr %tuple)
  br label %done
done:
  ret ptr %tuple
}}

define void @show_tuple(ptr %tuple, i64 %count) {{
entry:
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %done, label %show
show:
  call void @PyObject_GC_Track(ptr %tuple)
  br label %done
done:
  ret void
}}

; A new array of what lies in memory that a program gave away, which is freed.
define ptr @taken(i32 %ndim, ptr %sizes, ptr %descr, ptr %memory, i64 %bytes) {{
entry:
  %array = call ptr @made(i32 %ndim, ptr %sizes, ptr %descr, i64 %bytes)
  %missing = icmp eq ptr %array, null
  %nothing = icmp eq ptr %memory, null
  %skip = or i1 %missing, %nothing
  br i1 %skip, label %done, label %copy
copy:
  %data = call ptr @data_of(ptr %array)
  call void @llvm.memcpy.p0.p0.i64(ptr %data, ptr %memory, i64 %bytes, i1 false)
  br label %done
done:
  call void @free(ptr %memory)
  ret ptr %array
}}
"""

EACH = Template("""
; Take, or drop, a reference to each of some objects.
define void @$name(ptr %objects, i64 %count) {
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %one
one:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %at
  call void @$call(ptr %object)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %one, label %done
done:
  ret void
}
""")

_HOLD = EACH.substitute(name="hold", call="Py_IncRef")
_DROP = EACH.substitute(name="drop", call="Py_DecRef")

_RUN = f"""
@_Py_NoneStruct = external global i8
declare ptr @PyLong_FromLongLong(i64)

; What a call gives whose status is not 0.
define ptr @outcome(i64 %status) {{
entry:
  switch i64 %status, label %failed [ i64 {BUSY}, label %busy
                                      i64 {INTERRUPTED}, label %interrupted ]
failed:
  %number = call ptr @PyLong_FromLongLong(i64 %status)
  ret ptr %number
busy:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
interrupted:
  ret ptr null
}}
"""

_BOXED = f"""
@_Py_FalseStruct = external global i8
@check_nan = external global ptr
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)

; What is done with the array that an entry gives, and with calls that it leaves (names, arguments
; to convert, errors): the callable for those; an object for the array to come in one like it; the
; size of such an object, and the place of the array in it.
%box = type {{ ptr, ptr, i64, i64 }}

define ptr @boxed_call(ptr %call, ptr %box, ptr %args, i64 %count, ptr %names) {{
entry:
  %checks = load ptr, ptr @check_nan
  %unchecked = icmp eq ptr %checks, @_Py_FalseStruct
  %unnamed = icmp eq ptr %names, null
  %usual = and i1 %unchecked, %unnamed
  br i1 %usual, label %run, label %leave
run:
  %result = call ptr %call(ptr null, ptr %args, i64 %count)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %nothing, label %look
nothing:
  ret ptr null
look:
  %type.at = getelementptr i8, ptr %result, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %array = icmp eq ptr %type, @PyArray_Type
  br i1 %array, label %wrap, label %drop
wrap:
  %boxed = call ptr @boxed(ptr %box, ptr %result)
  ret ptr %boxed
drop:
  call void @Py_DecRef(ptr %result)
  br label %leave
leave:
  %portable = load ptr, ptr %box
  %left = call ptr @PyObject_Vectorcall(ptr %portable, ptr %args, i64 %count, ptr %names)
  ret ptr %left
}}

define internal ptr @boxed(ptr %box, ptr %array) {{
entry:
  %example.at = getelementptr %box, ptr %box, i64 0, i32 1
  %example = load ptr, ptr %example.at
  %size.at = getelementptr %box, ptr %box, i64 0, i32 2
  %size = load i64, ptr %size.at
  %slot.in = getelementptr %box, ptr %box, i64 0, i32 3
  %slot = load i64, ptr %slot.in
  %new = call ptr @like(ptr %example, i64 %size, i64 %slot)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %nothing, label %done
nothing:
  call void @Py_DecRef(ptr %array)
  ret ptr null
done:
  %slot.at = getelementptr i8, ptr %new, i64 %slot
  store ptr %array, ptr %slot.at
  ret ptr %new
}}
"""

LIKE = f"""
declare void @Py_IncRef(ptr)

; A new object of the class of another and of its size, with what its slots hold but that of one
; offset; null with an error set if it cannot be had.
define internal ptr @like(ptr %example, i64 %size, i64 %without) {{
entry:
  %type.at = getelementptr i8, ptr %example, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %alloc.at = getelementptr i8, ptr %type, i64 {ALLOC}
  %alloc = load ptr, ptr %alloc.at
  %new = call ptr %alloc(ptr %type, i64 0)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %nothing, label %word
nothing:
  ret ptr null
word:
  %at = phi i64 [ {HEAD}, %entry ], [ %next, %following ]
  %source = getelementptr i8, ptr %example, i64 %at
  %value = load ptr, ptr %source
  %target = getelementptr i8, ptr %new, i64 %at
  %other = icmp eq i64 %at, %without
  %unset = icmp eq ptr %value, null
  %skip = or i1 %other, %unset
  br i1 %skip, label %following, label %share
share:
  call void @Py_IncRef(ptr %value)
  store ptr %value, ptr %target
  br label %following
following:
  %next = add i64 %at, 8
  %more = icmp slt i64 %next, %size
  br i1 %more, label %word, label %done
done:
  ret ptr %new
}}
"""

TEXT = "".join((SPEC, LIKE, _ARRAYS, _HOLD, _DROP, TAKE, OVERLAP, _RUN, _BOXED))
