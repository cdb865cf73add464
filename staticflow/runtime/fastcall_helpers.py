"""What the native entries of all programs share: LLVM text that is compiled once in a process.

It takes arrays out of Python objects, checks them against a table of ``%spec``, one for each param,
compares ranges of memory, and says what a call gives. What only the program knows (which sizes must
be equal, what to allocate, how long it takes) is in its own text.
"""

from __future__ import annotations

from staticflow.codegen.kernel import INTERRUPTED
from staticflow.runtime.aligned import ALIGNED_FROM
from staticflow.runtime.fastcall_layout import DATA, DESCR, DIMS, FLAGS, HEAD, NDIM, TYPE
from staticflow.runtime.host import BUSY

__all__ = ["DECLARATIONS", "HELPERS", "LANES", "LIKE", "TEXT", "UNKNOWN"]

LANES = 8
"""Ranges that ``overlap`` compares at once."""

UNKNOWN = -1
"""What stands in a `%spec` for a size that is not known before the call."""

_SPEC = """
; A param: its dtype object, sizes, bytes of an element, number when params are counted with those
; that are updated first, number of dims, and flags that it must have.
%spec = type { ptr, ptr, i64, i64, i32, i32 }
"""

DECLARATIONS = f"""{_SPEC}
declare i1 @take(ptr, i64, ptr, ptr, i64, ptr, ptr)
declare i1 @overlap(ptr, ptr, i64, i64, ptr, ptr)
declare void @hold(ptr, i64)
declare void @drop(ptr, i64)
declare i64 @size_of(ptr, i64)
declare ptr @data_of(ptr)
declare ptr @made(i32, ptr, ptr, i64)
declare ptr @taken(i32, ptr, ptr, ptr, i64)
declare i64 @go(ptr, ptr, ptr, ptr, i1, i1)
declare ptr @outcome(i64)
declare ptr @boxed_call(ptr, ptr, ptr, i64, ptr)
"""

HELPERS = (
    "take", "overlap", "hold", "drop", "size_of", "data_of", "made", "taken", "outcome",
    "boxed_call",
)  # fmt: skip

_ARRAYS = f"""
@PyArray_Type = external global i8
declare void @Py_DecRef(ptr)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyArray_Empty(i32, ptr, ptr, i32)
declare void @free(ptr)
@aligned_handler = external global i8
declare ptr @set_handler(ptr)

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

; A new array; null with an error set if it cannot be had.
define ptr @made(i32 %ndim, ptr %sizes, ptr %descr, i64 %bytes) {{
  %large = icmp uge i64 %bytes, {ALIGNED_FROM}
  br i1 %large, label %aligned, label %small
small:
  call void @Py_IncRef(ptr %descr)
  %array = call ptr @PyArray_Empty(i32 %ndim, ptr %sizes, ptr %descr, i32 0)
  ret ptr %array
aligned:
  %before = call ptr @set_handler(ptr @aligned_handler)
  %unset = icmp eq ptr %before, null
  br i1 %unset, label %failed, label %make
failed:
  ret ptr null
make:
  call void @Py_IncRef(ptr %descr)
  %made = call ptr @PyArray_Empty(i32 %ndim, ptr %sizes, ptr %descr, i32 0)
  %own = call ptr @set_handler(ptr %before)
  call void @Py_DecRef(ptr %own)
  call void @Py_DecRef(ptr %before)
  ret ptr %made
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

define void @hold(ptr %arrays, i64 %count) {{
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %one
one:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %at = getelementptr ptr, ptr %arrays, i64 %i
  %array = load ptr, ptr %at
  call void @Py_IncRef(ptr %array)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %one, label %done
done:
  ret void
}}

define void @drop(ptr %arrays, i64 %count) {{
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %one
one:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %at = getelementptr ptr, ptr %arrays, i64 %i
  %array = load ptr, ptr %at
  call void @Py_DecRef(ptr %array)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %one, label %done
done:
  ret void
}}
"""

_TAKE = f"""
; The arrays of `count` objects, and where their elements lie; false if one is not as its spec says.
; An object is an array, or has it in a slot if it is of `class`.
define i1 @take(ptr %objects, i64 %count, ptr %specs, ptr %class, i64 %slot, ptr %arrays,
                ptr %table) {{
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %one
one:
  %i = phi i64 [ 0, %entry ], [ %next, %write ]
  %object.at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object.at
  %type.at = getelementptr i8, ptr %object, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %bare = icmp eq ptr %type, @PyArray_Type
  br i1 %bare, label %check, label %unbox
unbox:
  %subtype = call i32 @PyType_IsSubtype(ptr %type, ptr %class)
  %is.box = icmp ne i32 %subtype, 0
  br i1 %is.box, label %open, label %done
open:
  %inside.at = getelementptr i8, ptr %object, i64 %slot
  %inside = load ptr, ptr %inside.at
  %unset = icmp eq ptr %inside, null
  br i1 %unset, label %done, label %look
look:
  %inside.type.at = getelementptr i8, ptr %inside, i64 {TYPE}
  %inside.type = load ptr, ptr %inside.type.at
  %holds.array = icmp eq ptr %inside.type, @PyArray_Type
  br i1 %holds.array, label %check, label %done
check:
  %array = phi ptr [ %object, %one ], [ %inside, %look ]
  %spec = getelementptr %spec, ptr %specs, i64 %i
  %suits = call i1 @suits(ptr %array, ptr %spec)
  br i1 %suits, label %write, label %done
write:
  %array.at = getelementptr ptr, ptr %arrays, i64 %i
  store ptr %array, ptr %array.at
  %data.at = getelementptr ptr, ptr %table, i64 %i
  %data = call ptr @data_of(ptr %array)
  store ptr %data, ptr %data.at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %one, label %done
done:
  %all = phi i1 [ true, %entry ], [ true, %write ],
                [ false, %unbox ], [ false, %open ], [ false, %look ], [ false, %check ]
  ret i1 %all
}}

; Whether an array has the dtype, number of dims, flags and known sizes of a spec.
define internal i1 @suits(ptr %array, ptr %spec) {{
entry:
  %descr.at = getelementptr i8, ptr %array, i64 {DESCR}
  %descr = load ptr, ptr %descr.at
  %descr.want = load ptr, ptr %spec
  %descr.ok = icmp eq ptr %descr, %descr.want
  %ndim.at = getelementptr i8, ptr %array, i64 {NDIM}
  %ndim = load i32, ptr %ndim.at
  %ndim.want.at = getelementptr %spec, ptr %spec, i64 0, i32 4
  %ndim.want = load i32, ptr %ndim.want.at
  %ndim.ok = icmp eq i32 %ndim, %ndim.want
  %flags.at = getelementptr i8, ptr %array, i64 {FLAGS}
  %flags = load i32, ptr %flags.at
  %flags.want.at = getelementptr %spec, ptr %spec, i64 0, i32 5
  %flags.want = load i32, ptr %flags.want.at
  %flags.common = and i32 %flags, %flags.want
  %flags.ok = icmp eq i32 %flags.common, %flags.want
  %two = and i1 %descr.ok, %ndim.ok
  %three = and i1 %two, %flags.ok
  %scalar = icmp eq i32 %ndim, 0
  %over = xor i1 %three, true
  %stop = or i1 %scalar, %over
  br i1 %stop, label %done, label %sizes
sizes:
  %have.at = getelementptr i8, ptr %array, i64 {DIMS}
  %have = load ptr, ptr %have.at
  %want.at = getelementptr %spec, ptr %spec, i64 0, i32 1
  %want = load ptr, ptr %want.at
  %count = sext i32 %ndim to i64
  br label %axis
axis:
  %i = phi i64 [ 0, %sizes ], [ %next, %following ]
  %size.at = getelementptr i64, ptr %have, i64 %i
  %size = load i64, ptr %size.at
  %size.want.at = getelementptr i64, ptr %want, i64 %i
  %size.want = load i64, ptr %size.want.at
  %same = icmp eq i64 %size, %size.want
  %open = icmp eq i64 %size.want, {UNKNOWN}
  %fits = or i1 %same, %open
  br i1 %fits, label %following, label %done
following:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %axis, label %done
done:
  %result = phi i1 [ %three, %entry ], [ false, %axis ], [ true, %following ]
  ret i1 %result
}}
"""

_OVERLAP = f"""
define internal i64 @bytes_of(ptr %array, ptr %spec) {{
entry:
  %element.at = getelementptr %spec, ptr %spec, i64 0, i32 2
  %element = load i64, ptr %element.at
  %ndim.at = getelementptr i8, ptr %array, i64 {NDIM}
  %ndim = load i32, ptr %ndim.at
  %count = sext i32 %ndim to i64
  %scalar = icmp eq i64 %count, 0
  br i1 %scalar, label %done, label %axis
axis:
  %i = phi i64 [ 0, %entry ], [ %next, %axis ]
  %so.far = phi i64 [ %element, %entry ], [ %bytes, %axis ]
  %size = call i64 @size_of(ptr %array, i64 %i)
  %bytes = mul i64 %so.far, %size
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %axis, label %done
done:
  %result = phi i64 [ %element, %entry ], [ %bytes, %axis ]
  ret i64 %result
}}

; Whether the memory of one of `updated` arrays meets that of another of all `count`. `starts` and
; `ends` have room for {LANES} more.
define i1 @overlap(ptr %arrays, ptr %specs, i64 %count, i64 %updated, ptr %starts, ptr %ends) {{
entry:
  %rest = getelementptr i64, ptr %ends, i64 %count
  store <{LANES} x i64> zeroinitializer, ptr %rest, align 8
  br label %range
range:
  %n = phi i64 [ 0, %entry ], [ %n.next, %range ]
  %array.at = getelementptr ptr, ptr %arrays, i64 %n
  %array = load ptr, ptr %array.at
  %spec = getelementptr %spec, ptr %specs, i64 %n
  %place.at = getelementptr %spec, ptr %spec, i64 0, i32 3
  %place = load i64, ptr %place.at
  %data = call ptr @data_of(ptr %array)
  %from = ptrtoint ptr %data to i64
  %bytes = call i64 @bytes_of(ptr %array, ptr %spec)
  %to = add i64 %from, %bytes
  %from.at = getelementptr i64, ptr %starts, i64 %place
  store i64 %from, ptr %from.at
  %to.at = getelementptr i64, ptr %ends, i64 %place
  store i64 %to, ptr %to.at
  %n.next = add i64 %n, 1
  %n.more = icmp slt i64 %n.next, %count
  br i1 %n.more, label %range, label %one
one:
  %i = phi i64 [ 0, %range ], [ %following, %next ]
  %before = phi <{LANES} x i1> [ zeroinitializer, %range ], [ %found, %next ]
  %following = add i64 %i, 1
  %start.at = getelementptr i64, ptr %starts, i64 %i
  %start = load i64, ptr %start.at
  %start.one = insertelement <{LANES} x i64> poison, i64 %start, i64 0
  %start.all = shufflevector <{LANES} x i64> %start.one, <{LANES} x i64> poison,
    <{LANES} x i32> zeroinitializer
  %end.at = getelementptr i64, ptr %ends, i64 %i
  %end = load i64, ptr %end.at
  %end.one = insertelement <{LANES} x i64> poison, i64 %end, i64 0
  %end.all = shufflevector <{LANES} x i64> %end.one, <{LANES} x i64> poison,
    <{LANES} x i32> zeroinitializer
  br label %others
others:
  %j = phi i64 [ %following, %one ], [ %j.next, %others ]
  %so.far = phi <{LANES} x i1> [ %before, %one ], [ %found, %others ]
  %starts.at = getelementptr i64, ptr %starts, i64 %j
  %starts.of = load <{LANES} x i64>, ptr %starts.at, align 8
  %ends.at = getelementptr i64, ptr %ends, i64 %j
  %ends.of = load <{LANES} x i64>, ptr %ends.at, align 8
  %begins = icmp ult <{LANES} x i64> %starts.of, %end.all
  %ends.after = icmp ult <{LANES} x i64> %start.all, %ends.of
  %meets = and <{LANES} x i1> %begins, %ends.after
  %found = or <{LANES} x i1> %so.far, %meets
  %j.next = add i64 %j, {LANES}
  %more = icmp slt i64 %j.next, %count
  br i1 %more, label %others, label %next
next:
  %again = icmp slt i64 %following, %updated
  br i1 %again, label %one, label %done
done:
  %any = call i1 @llvm.vector.reduce.or.v{LANES}i1(<{LANES} x i1> %found)
  ret i1 %any
}}
"""

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
declare ptr @PyType_GenericAlloc(ptr, i64)

; A new object of the class of another and of its size, with what its slots hold but that of one
; offset; null with an error set if it cannot be had.
define internal ptr @like(ptr %example, i64 %size, i64 %without) {{
entry:
  %type.at = getelementptr i8, ptr %example, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %new = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
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

TEXT = _SPEC + LIKE + _ARRAYS + _TAKE + _OVERLAP + _RUN + _BOXED
