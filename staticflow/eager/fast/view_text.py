"""What a view op gives: the same as `staticflow.eager.views.viewed`."""

from __future__ import annotations

__all__ = ["VIEWS"]

VIEWS = """
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @PyArray_SetBaseObject(ptr, ptr)

; Whether an array has the sizes and strides of which a view was planned: since then its tensor may
; have been given another, or it another shape.
define internal i1 @is_planned(ptr %view, ptr %array) {
entry:
  %ndim.at = getelementptr i8, ptr %array, i64 $NDIM
  %ndim = load i32, ptr %ndim.at
  %planned = call i32 @strided.from_ndim(ptr %view)
  %rank = icmp eq i32 %ndim, %planned
  %sizes = call ptr @field(ptr %array, i64 $DIMS)
  %sizes.planned = call ptr @strided.from_sizes(ptr %view)
  %strides = call ptr @field(ptr %array, i64 $STRIDES)
  %strides.planned = call ptr @strided.from_strides(ptr %view)
  br i1 %rank, label %more, label %no
more:
  %i = phi i32 [ 0, %entry ], [ %next, %axis ]
  %left = icmp slt i32 %i, %ndim
  br i1 %left, label %axis, label %yes
axis:
  %size.at = getelementptr i64, ptr %sizes, i32 %i
  %size = load i64, ptr %size.at
  %size.planned.at = getelementptr i64, ptr %sizes.planned, i32 %i
  %size.planned = load i64, ptr %size.planned.at
  %stride.at = getelementptr i64, ptr %strides, i32 %i
  %stride = load i64, ptr %stride.at
  %stride.planned.at = getelementptr i64, ptr %strides.planned, i32 %i
  %stride.planned = load i64, ptr %stride.planned.at
  %same.size = icmp eq i64 %size, %size.planned
  %same.stride = icmp eq i64 %stride, %stride.planned
  %same = and i1 %same.size, %same.stride
  %next = add i32 %i, 1
  br i1 %same, label %more, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; The view of an array; null if it was planned of another, or with an error set.
define internal ptr @part_of(ptr %view, ptr %array) {
entry:
  %planned = call i1 @is_planned(ptr %view, ptr %array)
  br i1 %planned, label %make, label %decline
make:
  %made = call ptr @strided(ptr %view, ptr %array)
  ret ptr %made
decline:
  ret ptr null
}

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

; The memory of a tensor, made if need be, to be dropped; null with an error set if that fails.
define internal ptr @own_memory(ptr %tensor) alwaysinline {
entry:
  %has = call ptr @field(ptr %tensor, i64 $tensor_memory)
  %is.none = call i1 @is_none(ptr %has)
  br i1 %is.none, label %make, label %done
make:
  %made = call ptr @like(ptr @memory_example, i64 $memory_size, i64 0)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %nothing, label %look
nothing:
  ret ptr null
look:  ; a finalizer may have asked for it meanwhile
  %has.now = call ptr @field(ptr %tensor, i64 $tensor_memory)
  %still.none = call i1 @is_none(ptr %has.now)
  br i1 %still.none, label %own, label %drop
drop:
  call void @Py_DecRef(ptr %made)
  br label %done
own:
  call void @Py_IncRef(ptr %made)
  call i1 @put(ptr %tensor, i64 $tensor_memory, ptr %made)
  ret ptr %made
done:
  %memory = phi ptr [ %has, %entry ], [ %has.now, %drop ]
  call void @Py_IncRef(ptr %memory)
  ret ptr %memory
}

; The memory of a tensor that is on `array`, to be dropped; null if it is none that counts its
; changes, or if the tensor is on another array meanwhile, or with an error set.
define internal ptr @memory_of(ptr %tensor, ptr %array) {
entry:
  %memory = call ptr @own_memory(ptr %tensor)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %nothing, label %check
check:
  %counts = call i1 @is_like(ptr %memory, ptr @memory_example)
  %data = call ptr @field(ptr %tensor, i64 $tensor_data)
  %same = icmp eq ptr %data, %array
  %right = and i1 %counts, %same
  br i1 %right, label %done, label %drop
done:
  ret ptr %memory
drop:
  call void @Py_DecRef(ptr %memory)
  br label %nothing
nothing:
  ret ptr null
}

; The tensor of which a view of this one is a view, to be dropped; null where `View.base` has to
; look further.
define internal ptr @base_of(ptr %tensor) {
entry:
  %view = call ptr @field(ptr %tensor, i64 $tensor_view)
  %own = call i1 @is_none(ptr %view)
  br i1 %own, label %itself, label %before
itself:
  call void @Py_IncRef(ptr %tensor)
  ret ptr %tensor
before:
  %usual = call i1 @is_like(ptr %view, ptr @view_example)
  br i1 %usual, label %look, label %nothing
look:
  %base = call ptr @field(ptr %view, i64 $view_base)
  %is.tensor = call i1 @is_tensor(ptr %base)
  br i1 %is.tensor, label %behind, label %nothing
behind:
  %further = call ptr @field(ptr %base, i64 $tensor_view)
  %last = call i1 @is_none(ptr %further)
  br i1 %last, label %hold, label %nothing
hold:
  call void @Py_IncRef(ptr %base)
  ret ptr %base
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
  %memory = call ptr @memory_of(ptr %x, ptr %array)
  %no.memory = icmp eq ptr %memory, null
  br i1 %no.memory, label %nothing, label %ask
ask:
  %base = call ptr @base_of(ptr %x)
  %before = call ptr @field(ptr %x, i64 $tensor_view)
  call void @Py_IncRef(ptr %before)
  %no.base = icmp eq ptr %base, null
  br i1 %no.base, label %forget, label %make
make:
  %view = call ptr @like(ptr @view_example, i64 $view_size, i64 0)
  %no.view = icmp eq ptr %view, null
  br i1 %no.view, label %forget, label %fill
forget:
  call void @Py_DecRef(ptr %base)
  call void @Py_DecRef(ptr %before)
  call void @Py_DecRef(ptr %memory)
  br label %nothing
fill:
  call i1 @put(ptr %view, i64 $view_base, ptr %base)
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
  call i1 @put(ptr %out, i64 $tensor_memory, ptr %memory)
  call i1 @put(ptr %out, i64 $tensor_view, ptr %view)
  ret ptr %out
drop:
  call void @Py_DecRef(ptr %view)
  call void @Py_DecRef(ptr %memory)
  br label %nothing
nothing:
  ret ptr null
}
"""
