"""What a view op gives: the same as `staticflow.eager.views.viewed`."""

from __future__ import annotations

__all__ = ["VIEWS"]

VIEWS = """
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @PyArray_SetBaseObject(ptr, ptr)

; The view of an array; null with an error set if it cannot be made.
define internal ptr @strided(ptr %view, ptr %array) {
entry:
  %offset = call i64 @strided.offset(ptr %view)
  %ndim = call i32 @strided.ndim(ptr %view)
  %sizes = call ptr @strided.sizes(ptr %view)
  %strides = call ptr @strided.strides(ptr %view)
  %data = call ptr @field(ptr %array, i64 $DATA)
  %first = getelementptr i8, ptr %data, i64 %offset
  %flags.at = getelementptr i8, ptr %array, i64 $FLAGS
  %flags = load i32, ptr %flags.at
  %writeable = and i32 %flags, $WRITEABLE
  %descr = call ptr @field(ptr %array, i64 $DESCR)
  call void @Py_IncRef(ptr %descr)
  %new = call ptr @PyArray_NewFromDescr(ptr @PyArray_Type, ptr %descr, i32 %ndim, ptr %sizes,
                                        ptr %strides, ptr %first, i32 %writeable, ptr null)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %nothing, label %attach
attach:
  call void @Py_IncRef(ptr %array)
  %refused = call i32 @PyArray_SetBaseObject(ptr %new, ptr %array)
  %alone = icmp ne i32 %refused, 0
  br i1 %alone, label %drop, label %done
drop:
  call void @Py_DecRef(ptr %new)
  br label %nothing
nothing:
  ret ptr null
done:
  ret ptr %new
}

; Whether an array lies in the memory of another and NumPy says so by `base`.
define internal i1 @lies_in(ptr %data, ptr %of) {
entry:
  %base = call ptr @field(ptr %data, i64 $BASE)
  %none = icmp eq ptr %base, null
  br i1 %none, label %no, label %compare
compare:
  %direct = icmp eq ptr %base, %of
  %of.base = call ptr @field(ptr %of, i64 $BASE)
  %both = icmp eq ptr %base, %of.base
  %either = or i1 %direct, %both
  ret i1 %either
no:
  ret i1 false
}

; The memory of a tensor, made if need be; null with an error set if that fails.
define internal ptr @own_memory(ptr %tensor) alwaysinline {
entry:
  %has = call ptr @field(ptr %tensor, i64 $tensor_memory)
  %is.none = call i1 @is_none(ptr %has)
  br i1 %is.none, label %make, label %done
make:
  %made = call ptr @like(ptr @memory_example, i64 $memory_size, i64 0)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %done, label %own
own:
  call i1 @put(ptr %tensor, i64 $tensor_memory, ptr %made)
  br label %done
done:
  %memory = phi ptr [ %has, %entry ], [ %made, %make ], [ %made, %own ]
  ret ptr %memory
}

; The same, but null if it is none that counts its changes.
define internal ptr @memory_of(ptr %tensor) {
entry:
  %memory = call ptr @own_memory(ptr %tensor)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %nothing, label %check
check:
  %type = call ptr @field(ptr %memory, i64 $TYPE)
  %usual = call ptr @field(ptr @memory_example, i64 $TYPE)
  %counts = icmp eq ptr %type, %usual
  br i1 %counts, label %done, label %nothing
done:
  ret ptr %memory
nothing:
  ret ptr null
}

; The tensor of which a view of this one is a view; null where `View.base` has to look further.
define internal ptr @base_of(ptr %tensor) {
entry:
  %view = call ptr @field(ptr %tensor, i64 $tensor_view)
  %own = call i1 @is_none(ptr %view)
  br i1 %own, label %itself, label %before
itself:
  ret ptr %tensor
before:
  %base = call ptr @field(ptr %view, i64 $view_base)
  %lost = icmp eq ptr %base, null
  br i1 %lost, label %nothing, label %behind
behind:
  %further = call ptr @field(ptr %base, i64 $tensor_view)
  %last = call i1 @is_none(ptr %further)
  %result = select i1 %last, ptr %base, ptr null
  ret ptr %result
nothing:
  ret ptr null
}

; The tensor on `data`, which the op of a call gave as a view of its operand; null if Python is to
; look whether it is one, or with an error set.
define internal ptr @viewed(ptr %call, ptr %state, ptr %data) {
entry:
  %operand = call ptr @operand(ptr %call, i64 0)
  %x = call ptr @operand.object(ptr %operand)
  %array = call ptr @operand.array(ptr %operand)
  %inside = call i1 @lies_in(ptr %data, ptr %array)
  br i1 %inside, label %look, label %nothing
look:
  %base = call ptr @base_of(ptr %x)
  %memory = call ptr @memory_of(ptr %x)
  %no.base = icmp eq ptr %base, null
  %no.memory = icmp eq ptr %memory, null
  %unusual = or i1 %no.base, %no.memory
  br i1 %unusual, label %nothing, label %make
make:
  %view = call ptr @like(ptr @view_example, i64 $view_size, i64 0)
  %no.view = icmp eq ptr %view, null
  br i1 %no.view, label %nothing, label %fill
fill:
  call void @Py_IncRef(ptr %base)
  call i1 @put(ptr %view, i64 $view_base, ptr %base)
  %before = call ptr @field(ptr %x, i64 $tensor_view)
  call void @Py_IncRef(ptr %before)
  call i1 @put(ptr %view, i64 $view_before, ptr %before)
  %recording = call ptr @field(ptr %state, i64 $state_recording)
  call void @Py_IncRef(ptr %recording)
  call i1 @put(ptr %view, i64 $view_recorded, ptr %recording)
  %version = call ptr @field(ptr %memory, i64 $memory_version)
  call void @Py_IncRef(ptr %version)
  call i1 @put(ptr %view, i64 $view_seen, ptr %version)
  %op = call ptr @call.op(ptr %call)
  %record = call ptr @op.object(ptr %op)
  %attrs = call ptr @call.attrs(ptr %call)
  %bare = icmp eq ptr %attrs, null
  %named = select i1 %bare, ptr @no_attrs, ptr %attrs
  call void @Py_IncRef(ptr %record)
  call void @Py_IncRef(ptr %named)
  %step = call ptr @pair(ptr %record, ptr %named)
  %no.step = call i1 @put(ptr %view, i64 $view_step, ptr %step)
  br i1 %no.step, label %drop, label %wrap
wrap:
  %out = call ptr @tensor_of(ptr %data)
  %no.out = icmp eq ptr %out, null
  br i1 %no.out, label %drop, label %attach
attach:
  call void @Py_IncRef(ptr %memory)
  call i1 @put(ptr %out, i64 $tensor_memory, ptr %memory)
  call i1 @put(ptr %out, i64 $tensor_view, ptr %view)
  ret ptr %out
drop:
  call void @Py_DecRef(ptr %view)
  br label %nothing
nothing:
  ret ptr null
}
"""
