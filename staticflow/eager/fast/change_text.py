"""What in-place methods of tensors ask and do, step by step.

Whether elements may be changed, whether it is done by a ufunc of NumPy, by a copy or by the program
that did so last, and how a change is counted and its line noted.
"""

from __future__ import annotations

__all__ = ["CHANGE"]

CHANGE = """
@wanted = external global i64  ; threads

@name_alpha = external global i8
@multiply = external global i8
@no_op = internal constant %op zeroinitializer
declare i32 @PyArray_CopyInto(ptr, ptr)

; Whether the elements of an array may be written, each of which has a place of its own.
define internal i1 @is_open(ptr %array) {
entry:
  %flags.at = getelementptr i8, ptr %array, i64 $FLAGS
  %flags = load i32, ptr %flags.at
  %writeable = and i32 %flags, $WRITEABLE
  %may = icmp ne i32 %writeable, 0
  %ndim.at = getelementptr i8, ptr %array, i64 $NDIM
  %ndim = load i32, ptr %ndim.at
  %strides = call ptr @field(ptr %array, i64 $STRIDES)
  br i1 %may, label %more, label %no
more:
  %i = phi i32 [ 0, %entry ], [ %next, %axis ]
  %left = icmp slt i32 %i, %ndim
  br i1 %left, label %axis, label %yes
axis:
  %at = getelementptr i64, ptr %strides, i32 %i
  %stride = load i64, ptr %at
  %next = add i32 %i, 1
  %stretched = icmp eq i64 %stride, 0
  br i1 %stretched, label %no, label %more
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @has_vertex(ptr %tensor) {
  %vertex = call ptr @field(ptr %tensor, i64 $tensor_vertex)
  %has = icmp ne ptr %vertex, @_Py_NoneStruct
  ret i1 %has
}

; Whether a tensor, and what it is a view of, has no history that a change would be a part of.
define internal i1 @is_free(ptr %tensor) {
entry:
  %own = call i1 @has_vertex(ptr %tensor)
  br i1 %own, label %no, label %look
look:
  %base = call ptr @base_of(ptr %tensor)
  %far = icmp eq ptr %base, null
  br i1 %far, label %no, label %ask
ask:
  %its = call i1 @has_vertex(ptr %base)
  call void @Py_DecRef(ptr %base)
  %free = xor i1 %its, true
  ret i1 %free
no:
  ret i1 false
}

; Whether an operand is an array of the tensor's dtype that nothing is recorded of, or becomes one.
; An error may be set if it is not.
define internal i1 @suits(ptr %method, ptr %operand, ptr %tensor, i1 %recording) {
entry:
  %bare = call i8 @in_place.number(ptr %method)
  %number = icmp ne i8 %bare, 0
  br i1 %number, label %other, label %look
look:
  %opens = call i1 @open(ptr %operand)
  br i1 %opens, label %compare, label %other
other:
  %fits = call i1 @number(ptr @no_op, ptr %operand, ptr %tensor)
  ret i1 %fits
compare:
  %array = call ptr @operand.array(ptr %operand)
  %like = call ptr @operand.array(ptr %tensor)
  %descr = call ptr @field(ptr %array, i64 $DESCR)
  %wanted = call ptr @field(ptr %like, i64 $DESCR)
  %same = icmp eq ptr %descr, %wanted
  br i1 %same, label %history, label %no
history:
  br i1 %recording, label %ask, label %yes
ask:
  %free = call i1 @has_no_edge(ptr %operand)
  ret i1 %free
yes:
  ret i1 true
no:
  ret i1 false
}

; A ufunc of arrays, the last of which takes what it gives; true if it failed.
define internal i1 @put_by(ptr %ufunc, ptr %arrays, i64 %count, ptr %state) {
  %out = call ptr @in_context(ptr %ufunc, ptr %arrays, i64 %count, ptr null, ptr %state)
  call void @Py_DecRef(ptr %out)
  %failed = icmp eq ptr %out, null
  ret i1 %failed
}

; Copies an array of the same shape, or of no dims; true if it failed, or was none of these.
define internal i1 @copy(ptr %array, ptr %from) {
entry:
  %ndim.at = getelementptr i8, ptr %from, i64 $NDIM
  %ndim = load i32, ptr %ndim.at
  %single = icmp eq i32 %ndim, 0
  %same = call i1 @same_shape(ptr %array, ptr %from)
  %may = or i1 %single, %same
  br i1 %may, label %run, label %no
run:
  %failed = call i32 @PyArray_CopyInto(ptr %array, ptr %from)
  %wrong = icmp ne i32 %failed, 0
  ret i1 %wrong
no:
  ret i1 true
}

; An operand multiplied by a factor takes its place; true if that failed.
define internal i1 @scale(ptr %operand, ptr %factor, ptr %state) {
entry:
  %pair = alloca [2 x ptr]
  %array = call ptr @operand.array(ptr %operand)
  store ptr %array, ptr %pair
  %by = call ptr @operand.array(ptr %factor)
  %second = getelementptr ptr, ptr %pair, i64 1
  store ptr %by, ptr %second
  %out = call ptr @in_context(ptr @multiply, ptr %pair, i64 2, ptr null, ptr %state)
  %failed = icmp eq ptr %out, null
  br i1 %failed, label %no, label %put
put:
  call void @operand.set.array(ptr %operand, ptr %out)
  call void @Py_DecRef(ptr %array)
  ret i1 false
no:
  ret i1 true
}

; Whether an array is row-major, or in rows as `staticflow.eager.rows` has them.
define internal i1 @is_in_rows(ptr %array) {
entry:
  %flags.at = getelementptr i8, ptr %array, i64 $FLAGS
  %flags = load i32, ptr %flags.at
  %contiguous = and i32 %flags, $CONTIGUOUS
  %ordered = icmp ne i32 %contiguous, 0
  br i1 %ordered, label %done, label %last
last:  ; a scalar is row-major
  %ndim.at = getelementptr i8, ptr %array, i64 $NDIM
  %ndim = load i32, ptr %ndim.at
  %axis = sub i32 %ndim, 1
  %sizes = call ptr @field(ptr %array, i64 $DIMS)
  %size.at = getelementptr i64, ptr %sizes, i32 %axis
  %size = load i64, ptr %size.at
  %long = icmp sge i64 %size, $SHORT
  %strides = call ptr @field(ptr %array, i64 $STRIDES)
  %stride.at = getelementptr i64, ptr %strides, i32 %axis
  %stride = load i64, ptr %stride.at
  %near = icmp ule i64 %stride, $NEAR
  %rows = and i1 %long, %near
  br label %done
done:
  %result = phi i1 [ true, %entry ], [ %rows, %last ]
  ret i1 %result
}

; Whether a method can be done here: a ufunc or a copy of a small array, or a ufunc of a large one
; that does not lie in rows, of which there is no program; a copy of a large one on one thread, but
; of bfloat16, which NumPy copies one by one, and but to fill a very large one; or what a program
; did of a large one, as soon as it is large where the operand is scaled, too.
define internal i1 @is_known(ptr %method, ptr %array, i64 %size, i1 %scaled) {
  %ufunc = call ptr @in_place.ufunc(ptr %method)
  %bare = icmp eq ptr %ufunc, null
  %cell = call ptr @in_place.program(ptr %method)
  %copies = icmp eq ptr %cell, null
  %program = call ptr @kernel_at(ptr %cell)
  %met = icmp ne ptr %program, null
  %computes = xor i1 %copies, true
  %kernel.alone = and i1 %bare, %computes
  %kernel = or i1 %kernel.alone, %scaled  ; what NumPy does not do at once
  %from = select i1 %kernel, i64 $LARGE, i64 $SPREAD
  %small = icmp slt i64 %size, %from
  %threads = load i64, ptr @wanted
  %single = icmp eq i64 %threads, 1
  %plain = xor i1 %bare, true
  %by.numpy = or i1 %plain, %copies
  %descr = call ptr @field(ptr %array, i64 $DESCR)
  %swift = icmp ne ptr %descr, @bfloat16
  %one.by.one = and i1 %copies, %single
  %number = call i8 @in_place.number(ptr %method)
  %constant = call ptr @in_place.constant(ptr %method)
  %given = icmp eq ptr %constant, null
  %another = icmp eq i8 %number, 0
  %elements = and i1 %given, %another
  %held = icmp slt i64 %size, $BEYOND
  %by.bytes = or i1 %elements, %held  ; and not to fill what is beyond the caches
  %easy = and i1 %swift, %by.bytes
  %alone = and i1 %one.by.one, %easy
  %in.rows = call i1 @is_in_rows(ptr %array)
  %apart = xor i1 %in.rows, true
  %strided = and i1 %plain, %apart
  %done.before = and i1 %met, %in.rows
  %either = or i1 %alone, %strided
  %any = or i1 %either, %done.before
  %known = select i1 %small, i1 %by.numpy, i1 %any
  ret i1 %known
}

; Whether the program that overwrote a large array last overwrites this one. An error may be set if
; not.
define internal i1 @overwrite(ptr %method, ptr %arrays, i64 %count) {
entry:
  %cell = call ptr @in_place.program(ptr %method)
  %program = call ptr @kernel_at(ptr %cell)
  %none = call ptr @tried(ptr %program, ptr %arrays, i64 %count)
  %failed = icmp eq ptr %none, null
  br i1 %failed, label %no, label %yes
yes:
  call void @Py_DecRef(ptr %none)
  ret i1 true
no:
  ret i1 false
}

; Counts a change of a memory; true if an error was raised, as of a version that is no number.
define internal i1 @count_change(ptr %memory) {
entry:
  %version = call ptr @field(ptr %memory, i64 $memory_version)
  call void @Py_IncRef(ptr %version)
  %before = call ptr @or_none(ptr %version)
  %after = call ptr @PyNumber_Add(ptr %before, ptr @one)
  call void @Py_DecRef(ptr %before)
  %none = icmp eq ptr %after, null
  br i1 %none, label %stop, label %note
note:
  call i1 @put(ptr %memory, i64 $memory_version, ptr %after)
  ret i1 false
stop:
  ret i1 true
}

; Notes a change of a memory; true if an error was raised.
define internal i1 @bump(ptr %memory) {
entry:
  %uncounted = call i1 @count_change(ptr %memory)
  br i1 %uncounted, label %stop, label %note
note:
  %changed = call ptr @user_line()
  %missing = icmp eq ptr %changed, null
  br i1 %missing, label %stop, label %keep
keep:
  call i1 @put(ptr %memory, i64 $memory_changed, ptr %changed)
  ret i1 false
stop:
  ret i1 true
}
"""
