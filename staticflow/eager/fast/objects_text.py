"""What the fast path knows of Python's objects and of arrays."""

from __future__ import annotations

__all__ = ["DECLARATIONS", "OBJECTS"]

DECLARATIONS = """
@PyArray_Type = external global i8
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@PyBool_Type = external global i8
@PyTuple_Type = external global i8
@PyDict_Type = external global i8
@Exception = external global i8
@TypeError = external global i8
@_Py_NoneStruct = external global i8
@_Py_TrueStruct = external global i8
@tensor_type = external global i8
@tensor_example = external global i8
@memory_example = external global i8
@shadow_example = external global i8
@view_example = external global i8
@leaf = external global i8
@thread = external global i8
@serials = external global i8
@state_type = external global i8
@no_state = external global i8
@one = external global i8
@zero = external global i8
@bfloat16 = external global i8
@finish = external global i8
@name_state = external global i8
@name_edge = external global i8
@name_shape = external global i8
@name_version = external global i8
@asarray = external global i8
@number_beside = external global i8
@general = external global i8
@op_call = external global i8
@no_attrs = external global i8
@users = external global i8
@descrs = external global ptr
@dtypes = external global ptr
@memo = external global %memo
@codes = external global %known

declare void @Py_DecRef(ptr)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyTuple_New(i64)
declare void @PyObject_GC_Track(ptr)
declare void @PyObject_GC_UnTrack(ptr)
declare ptr @row(i64)
declare i64 @PyTuple_Size(ptr)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyIter_Next(ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_VectorcallDict(ptr, ptr, i64, ptr)
declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare ptr @PyThreadState_Get()
declare i64 @PyThreadState_GetID(ptr)
declare i64 @PyDict_Size(ptr)
declare i32 @PyContext_Enter(ptr)
declare i32 @PyContext_Exit(ptr)
declare ptr @PyEval_GetFrame()
declare ptr @PyFrame_GetCode(ptr)
declare ptr @PyFrame_GetBack(ptr)
declare i32 @PyFrame_GetLasti(ptr)
declare i32 @PyErr_ExceptionMatches(ptr)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare ptr @PyErr_NoMemory()
declare void @PyErr_SetObject(ptr, ptr)
declare ptr @PyMem_Malloc(i64)
declare void @PyMem_Free(ptr)
declare ptr @PyNumber_Add(ptr, ptr)
declare ptr @PyArray_NewCopy(ptr, i32)
"""

OBJECTS = """
define internal ptr @field(ptr %object, i64 %offset) alwaysinline {
  %at = getelementptr i8, ptr %object, i64 %offset
  %value = load ptr, ptr %at
  ret ptr %value
}

; Whether a slot holds nothing: None, or not even that, since somebody deleted it.
define internal i1 @is_none(ptr %value) alwaysinline {
  %null = icmp eq ptr %value, null
  %none = icmp eq ptr %value, @_Py_NoneStruct
  %either = or i1 %null, %none
  ret i1 %either
}

; Whether an object is a tensor; false for null.
define internal i1 @is_tensor(ptr %object) alwaysinline {
entry:
  %none = icmp eq ptr %object, null
  br i1 %none, label %no, label %look
look:
  %type = call ptr @field(ptr %object, i64 $TYPE)
  %exact = icmp eq ptr %type, @tensor_type
  br i1 %exact, label %yes, label %derived
derived:
  %subtype = call i32 @PyType_IsSubtype(ptr %type, ptr @tensor_type)
  %is.tensor = icmp ne i32 %subtype, 0
  ret i1 %is.tensor
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether an object, which is not null, is of the very class of an example: anybody can put anything
; into a slot.
define internal i1 @is_like(ptr %object, ptr %example) alwaysinline {
  %type = call ptr @field(ptr %object, i64 $TYPE)
  %usual = call ptr @field(ptr %example, i64 $TYPE)
  %same = icmp eq ptr %type, %usual
  ret i1 %same
}

; Takes `value` into a slot; true if it is null, since it could not be made.
define internal i1 @put(ptr %object, i64 %offset, ptr %value) alwaysinline {
  %at = getelementptr i8, ptr %object, i64 %offset
  %before = load ptr, ptr %at
  store ptr %value, ptr %at
  call void @Py_DecRef(ptr %before)
  %missing = icmp eq ptr %value, null
  ret i1 %missing
}

; Takes three objects into a row that the garbage collector does not know, for nothing in it leads
; to a tensor; null if one of them, or the row, could not be made.
define internal ptr @triple(ptr %x, ptr %y, ptr %z) {
entry:
  %no.x = icmp eq ptr %x, null
  %no.y = icmp eq ptr %y, null
  %no.z = icmp eq ptr %z, null
  %no.xy = or i1 %no.x, %no.y
  %missing = or i1 %no.xy, %no.z
  br i1 %missing, label %drop, label %new
new:
  %row = call ptr @row(i64 3)
  %failed = icmp eq ptr %row, null
  br i1 %failed, label %drop, label %fill
fill:
  call i32 @PyTuple_SetItem(ptr %row, i64 0, ptr %x)
  call i32 @PyTuple_SetItem(ptr %row, i64 1, ptr %y)
  call i32 @PyTuple_SetItem(ptr %row, i64 2, ptr %z)
  ret ptr %row
drop:
  call void @Py_DecRef(ptr %x)
  call void @Py_DecRef(ptr %y)
  call void @Py_DecRef(ptr %z)
  ret ptr null
}

; Takes two objects into such a row; null if it could not be made.
define internal ptr @pair(ptr %x, ptr %y) {
entry:
  %row = call ptr @row(i64 2)
  %failed = icmp eq ptr %row, null
  br i1 %failed, label %drop, label %fill
fill:
  call i32 @PyTuple_SetItem(ptr %row, i64 0, ptr %x)
  call i32 @PyTuple_SetItem(ptr %row, i64 1, ptr %y)
  ret ptr %row
drop:
  call void @Py_DecRef(ptr %x)
  call void @Py_DecRef(ptr %y)
  ret ptr null
}

; An object, or None for null, to be held.
define internal ptr @or_none(ptr %object) alwaysinline {
entry:
  %null = icmp eq ptr %object, null
  br i1 %null, label %none, label %done
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  br label %done
done:
  %result = phi ptr [ %object, %entry ], [ @_Py_NoneStruct, %none ]
  ret ptr %result
}

; Whether another way may be tried: nothing was raised, or an error that it will word, which is
; cleared; what is no `Exception`, as an interrupt, stays.
define internal i1 @forgiven() {
entry:
  %raised = call ptr @PyErr_Occurred()
  %silent = icmp eq ptr %raised, null
  br i1 %silent, label %yes, label %weigh
weigh:
  %ordinary = call i32 @PyErr_ExceptionMatches(ptr @Exception)
  %is.ordinary = icmp ne i32 %ordinary, 0
  br i1 %is.ordinary, label %clear, label %no
clear:
  call void @PyErr_Clear()
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; How many arguments a call gives: by position, and by names, a tuple or null.
define internal i64 @given_count(i64 %count, ptr %names) alwaysinline {
entry:
  %unnamed = icmp eq ptr %names, null
  br i1 %unnamed, label %done, label %named
named:
  %extra = call i64 @PyTuple_Size(ptr %names)
  br label %done
done:
  %more = phi i64 [ 0, %entry ], [ %extra, %named ]
  %all = add i64 %count, %more
  ret i64 %all
}

; A new tensor that holds an array; null with an error set if it cannot be had.
define internal ptr @tensor_of(ptr %array) alwaysinline {
entry:
  %new = call ptr @like(ptr @tensor_example, i64 $tensor_size, i64 $tensor_weakref)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %done, label %fill
fill:
  call void @Py_IncRef(ptr %array)
  call i1 @put(ptr %new, i64 $tensor_data, ptr %array)
  br label %done
done:
  ret ptr %new
}

; What stands where an array's descr does among those of all dtypes, as a bit; 0 if it does not.
define internal i64 @bit_of(ptr %array) alwaysinline {
entry:
  %place = call i64 @dtype_of(ptr %array)
  %none = icmp eq i64 %place, $NO_DTYPE
  %bit = shl i64 1, %place
  %result = select i1 %none, i64 0, i64 %bit
  ret i64 %result
}

define internal i1 @has(ptr %op, i64 %flag) alwaysinline {
  %flags = call i64 @op.flags(ptr %op)
  %masked = and i64 %flags, %flag
  %result = icmp ne i64 %masked, 0
  ret i1 %result
}

define internal ptr @operand(ptr %call, i64 %i) alwaysinline {
  %all = call ptr @call.operands(ptr %call)
  %operand = getelementptr %operand, ptr %all, i64 %i
  ret ptr %operand
}

; The place of an array's dtype among all dtypes.
define internal i64 @dtype_of(ptr %array) alwaysinline {
entry:
  %descr = call ptr @field(ptr %array, i64 $DESCR)
  br label %one
one:
  %i = phi i64 [ 0, %entry ], [ %next, %other ]
  %at = getelementptr ptr, ptr @descrs, i64 %i
  %known = load ptr, ptr %at
  %same = icmp eq ptr %known, %descr
  br i1 %same, label %found, label %other
other:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, $DTYPES
  br i1 %more, label %one, label %unknown
found:
  ret i64 %i
unknown:
  ret i64 $NO_DTYPE
}

define internal i64 @size_of(ptr %array) {
entry:
  %ndim.at = getelementptr i8, ptr %array, i64 $NDIM
  %ndim = load i32, ptr %ndim.at
  %sizes = call ptr @field(ptr %array, i64 $DIMS)
  br label %more
more:
  %i = phi i32 [ 0, %entry ], [ %next, %axis ]
  %count = phi i64 [ 1, %entry ], [ %product, %axis ]
  %left = icmp slt i32 %i, %ndim
  br i1 %left, label %axis, label %done
axis:
  %at = getelementptr i64, ptr %sizes, i32 %i
  %size = load i64, ptr %at
  %product = mul i64 %count, %size
  %next = add i32 %i, 1
  br label %more
done:
  ret i64 %count
}

; The size of a dim counted from the last; 1 where there is none.
define internal i64 @size_from_last(ptr %array, i32 %k) {
entry:
  %ndim.at = getelementptr i8, ptr %array, i64 $NDIM
  %ndim = load i32, ptr %ndim.at
  %there = icmp slt i32 %k, %ndim
  br i1 %there, label %look, label %none
look:
  %sizes = call ptr @field(ptr %array, i64 $DIMS)
  %last = sub i32 %ndim, 1
  %i = sub i32 %last, %k
  %at = getelementptr i64, ptr %sizes, i32 %i
  %size = load i64, ptr %at
  ret i64 %size
none:
  ret i64 1
}

; How many elements two arrays have that are broadcast together.
define internal i64 @joint_size(ptr %a, ptr %b) {
entry:
  %a.ndim.at = getelementptr i8, ptr %a, i64 $NDIM
  %a.ndim = load i32, ptr %a.ndim.at
  %b.ndim.at = getelementptr i8, ptr %b, i64 $NDIM
  %b.ndim = load i32, ptr %b.ndim.at
  %a.more = icmp sgt i32 %a.ndim, %b.ndim
  %ndim = select i1 %a.more, i32 %a.ndim, i32 %b.ndim
  br label %more
more:
  %k = phi i32 [ 0, %entry ], [ %next, %axis ]
  %count = phi i64 [ 1, %entry ], [ %product, %axis ]
  %left = icmp slt i32 %k, %ndim
  br i1 %left, label %axis, label %done
axis:
  %x = call i64 @size_from_last(ptr %a, i32 %k)
  %y = call i64 @size_from_last(ptr %b, i32 %k)
  %one = icmp eq i64 %x, 1
  %size = select i1 %one, i64 %y, i64 %x
  %product = mul i64 %count, %size
  %next = add i32 %k, 1
  br label %more
done:
  ret i64 %count
}

define internal i1 @same_shape(ptr %a, ptr %b) {
entry:
  %a.ndim.at = getelementptr i8, ptr %a, i64 $NDIM
  %ndim = load i32, ptr %a.ndim.at
  %b.ndim.at = getelementptr i8, ptr %b, i64 $NDIM
  %b.ndim = load i32, ptr %b.ndim.at
  %a.sizes = call ptr @field(ptr %a, i64 $DIMS)
  %b.sizes = call ptr @field(ptr %b, i64 $DIMS)
  %rank = icmp eq i32 %ndim, %b.ndim
  br i1 %rank, label %more, label %done
more:
  %i = phi i32 [ 0, %entry ], [ %next, %axis ]
  %left = icmp slt i32 %i, %ndim
  br i1 %left, label %axis, label %done
axis:
  %a.at = getelementptr i64, ptr %a.sizes, i32 %i
  %a.size = load i64, ptr %a.at
  %b.at = getelementptr i64, ptr %b.sizes, i32 %i
  %b.size = load i64, ptr %b.at
  %next = add i32 %i, 1
  %equal = icmp eq i64 %a.size, %b.size
  br i1 %equal, label %more, label %done
done:
  %result = phi i1 [ false, %entry ], [ true, %more ], [ false, %axis ]
  ret i1 %result
}
"""
