"""What native entries look at before a program runs, as LLVM text.

Whether arrays are as the program wants them, one ``%spec`` for each param, and whether the memory
of those that it overwrites meets that of others.
"""

from __future__ import annotations

from staticflow.runtime.object_layout import DESCR, DIMS, FLAGS, NDIM, TYPE

__all__ = ["LANES", "OVERLAP", "SPEC", "TAKE", "UNKNOWN"]

LANES = 8
"""Ranges that ``overlap`` compares at once."""

UNKNOWN = -1
"""What stands in a `%spec` for a size that is not known before the call."""

SPEC = """
; A param: its dtype object, sizes, bytes of an element, number when params are counted with those
; that are updated first, number of dims, and flags that it must have.
%spec = type { ptr, ptr, i64, i64, i32, i32 }
"""

TAKE = f"""
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

OVERLAP = f"""
; The bytes from the first element of an array to behind the last; none if it has no elements.
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
  %i = phi i64 [ 0, %entry ], [ %next, %further ]
  %so.far = phi i64 [ %element, %entry ], [ %bytes, %further ]
  %size = call i64 @size_of(ptr %array, i64 %i)
  %none = icmp eq i64 %size, 0
  br i1 %none, label %done, label %further
further:
  %stride = call i64 @stride_of(ptr %array, i64 %i, i64 1)
  %steps = sub i64 %size, 1
  %way = mul i64 %steps, %stride
  %bytes = add i64 %so.far, %way
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %axis, label %done
done:
  %result = phi i64 [ %element, %entry ], [ 0, %axis ], [ %bytes, %further ]
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
