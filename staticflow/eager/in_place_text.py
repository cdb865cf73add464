"""In-place methods of tensors that are a ufunc, or a copy, as LLVM text: a part of the module of
`staticflow.eager.fast_text`, which says how to read it.

If nothing of it is recorded, NumPy puts the result where it belongs, or, of large arrays, the
program that did so last (`staticflow.eager.overwrite`); or what a function gives is copied
(`staticflow.eager.renew_text`). All else goes to `staticflow.eager.inplace`.
"""

from __future__ import annotations

__all__ = ["IN_PLACE"]

IN_PLACE = """
; An in-place method: what does what is not usual; the ufunc, or null; how many operands it takes
; beside the tensor itself, 0 or 1; the number that a copy takes if it has none, or null; the
; dtypes, a bit for each; whether its operand may be scaled; whether that is a number; where the
; program is that overwrote a large array last, or null for a copy; and the function whose value is
; copied to a small array, or null.
%in_place = type { ptr, ptr, i64, ptr, i64, i8, i8, ptr, ptr }
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
  %free = xor i1 %its, true
  ret i1 %free
no:
  ret i1 false
}

; Whether an operand is an array of the tensor's dtype that nothing is recorded of, or becomes one.
; An error may be set if it is not.
define internal i1 @suits(ptr %method, ptr %operand, ptr %tensor, i1 %recording) {
entry:
  %bare.at = getelementptr %in_place, ptr %method, i64 0, i32 6
  %bare = load i8, ptr %bare.at
  %number = icmp ne i8 %bare, 0
  br i1 %number, label %other, label %look
look:
  %opens = call i1 @open(ptr %operand)
  br i1 %opens, label %compare, label %other
other:
  %fits = call i1 @number(ptr @no_op, ptr %operand, ptr %tensor)
  ret i1 %fits
compare:
  %array = call ptr @array_of(ptr %operand)
  %like = call ptr @array_of(ptr %tensor)
  %descr = call ptr @field(ptr %array, i64 $DESCR)
  %wanted = call ptr @field(ptr %like, i64 $DESCR)
  %same = icmp eq ptr %descr, %wanted
  br i1 %same, label %history, label %no
history:
  br i1 %recording, label %ask, label %yes
ask:
  %failed = call i1 @find_edge(ptr %operand)
  %edge = call ptr @edge_of(ptr %operand)
  %without = icmp eq ptr %edge, null
  %succeeded = xor i1 %failed, true
  %free = and i1 %without, %succeeded
  ret i1 %free
yes:
  ret i1 true
no:
  ret i1 false
}

; A ufunc of arrays, the last of which takes what it gives; true if it failed.
define internal i1 @put_by(ptr %ufunc, ptr %arrays, i64 %count, ptr %state) {
entry:
  %context = call ptr @field(ptr %state, i64 $state_context)
  call void @Py_IncRef(ptr %context)
  %refused = call i32 @PyContext_Enter(ptr %context)
  %outside = icmp ne i32 %refused, 0
  br i1 %outside, label %refuse, label %run
refuse:
  call void @Py_DecRef(ptr %context)
  ret i1 true
run:
  %out = call ptr @PyObject_Vectorcall(ptr %ufunc, ptr %arrays, i64 %count, ptr null)
  call i32 @PyContext_Exit(ptr %context)
  call void @Py_DecRef(ptr %context)
  %failed = icmp eq ptr %out, null
  br i1 %failed, label %no, label %yes
no:
  ret i1 true
yes:
  call void @Py_DecRef(ptr %out)
  ret i1 false
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

; What an operand is multiplied by, which takes its place; true if that failed.
define internal i1 @scale(ptr %operand, ptr %tensor, ptr %factor, ptr %state) {
entry:
  %scaling = alloca %operand
  call void @llvm.memset.p0.i64(ptr %scaling, i8 0, i64 $OPERAND, i1 false)
  store ptr %factor, ptr %scaling
  %fits = call i1 @number(ptr @no_op, ptr %scaling, ptr %tensor)
  br i1 %fits, label %enter, label %no
enter:
  %pair = alloca [2 x ptr]
  %array = call ptr @array_of(ptr %operand)
  store ptr %array, ptr %pair
  %by = call ptr @array_of(ptr %scaling)
  %second = getelementptr ptr, ptr %pair, i64 1
  store ptr %by, ptr %second
  %context = call ptr @field(ptr %state, i64 $state_context)
  call void @Py_IncRef(ptr %context)
  %refused = call i32 @PyContext_Enter(ptr %context)
  %outside = icmp ne i32 %refused, 0
  br i1 %outside, label %drop, label %run
run:
  %scaled = call ptr @PyObject_Vectorcall(ptr @multiply, ptr %pair, i64 2, ptr null)
  call i32 @PyContext_Exit(ptr %context)
  br label %drop
drop:
  %out = phi ptr [ null, %enter ], [ %scaled, %run ]
  call void @Py_DecRef(ptr %context)
  call void @Py_DecRef(ptr %by)
  %failed = icmp eq ptr %out, null
  br i1 %failed, label %no, label %put
put:
  %at = getelementptr %operand, ptr %operand, i64 0, i32 1
  store ptr %out, ptr %at
  call void @Py_DecRef(ptr %array)
  ret i1 false
no:
  ret i1 true
}

define internal i1 @is_ordered(ptr %array) {
  %flags.at = getelementptr i8, ptr %array, i64 $FLAGS
  %flags = load i32, ptr %flags.at
  %contiguous = and i32 %flags, $CONTIGUOUS
  %ordered = icmp ne i32 %contiguous, 0
  ret i1 %ordered
}

; Whether a method can be done here: a ufunc or a copy of a small array, or a ufunc of a large one
; that does not lie in order, of which there is no program; a copy of a large one on one thread, but
; of bfloat16, which NumPy copies one by one; or what a program did of a large one.
define internal i1 @is_known(ptr %method, ptr %array, i64 %size) {
  %ufunc.at = getelementptr %in_place, ptr %method, i64 0, i32 1
  %ufunc = load ptr, ptr %ufunc.at
  %bare = icmp eq ptr %ufunc, null
  %cell.at = getelementptr %in_place, ptr %method, i64 0, i32 7
  %cell = load ptr, ptr %cell.at
  %copies = icmp eq ptr %cell, null
  %program = call ptr @kernel_at(ptr %cell)
  %met = icmp ne ptr %program, null
  %computes = xor i1 %copies, true
  %kernel = and i1 %bare, %computes  ; what NumPy does not do at once
  %from = select i1 %kernel, i64 $LARGE, i64 $SPREAD
  %small = icmp slt i64 %size, %from
  %threads = load i64, ptr @wanted
  %single = icmp eq i64 %threads, 1
  %plain = xor i1 %bare, true
  %by.numpy = or i1 %plain, %copies
  %descr = call ptr @field(ptr %array, i64 $DESCR)
  %swift = icmp ne ptr %descr, @bfloat16
  %one.by.one = and i1 %copies, %single
  %alone = and i1 %one.by.one, %swift
  %ordered = call i1 @is_ordered(ptr %array)
  %apart = xor i1 %ordered, true
  %strided = and i1 %plain, %apart
  %in.order = and i1 %met, %ordered
  %either = or i1 %alone, %strided
  %any = or i1 %either, %in.order
  %known = select i1 %small, i1 %by.numpy, i1 %any
  ret i1 %known
}

; Whether the program that overwrote a large array last overwrites this one. An error may be set if
; not.
define internal i1 @overwrite(ptr %method, ptr %arrays, i64 %count) {
entry:
  %cell.at = getelementptr %in_place, ptr %method, i64 0, i32 7
  %cell = load ptr, ptr %cell.at
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

; Counts a change of a memory; true if an error was raised.
define internal i1 @count_change(ptr %memory) {
entry:
  %before = call ptr @field(ptr %memory, i64 $memory_version)
  %version = call i64 @PyLong_AsLongLong(ptr %before)
  %more = add i64 %version, 1
  %after = call ptr @PyLong_FromLongLong(i64 %more)
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
  %code.at = alloca ptr
  %instruction.at = alloca ptr
  %uncounted = call i1 @count_change(ptr %memory)
  br i1 %uncounted, label %stop, label %note
note:
  %lost = call i1 @line(ptr %code.at, ptr %instruction.at)
  br i1 %lost, label %stop, label %place
place:
  %code = load ptr, ptr %code.at
  %instruction = load ptr, ptr %instruction.at
  %changed = call ptr @pair(ptr %code, ptr %instruction)
  %missing = icmp eq ptr %changed, null
  br i1 %missing, label %stop, label %keep
keep:
  call i1 @put(ptr %memory, i64 $memory_changed, ptr %changed)
  ret i1 false
stop:
  ret i1 true
}

; What a call scales its operand by; null if it does not.
define internal ptr @scaled_by(ptr %method, ptr %args, i64 %count, ptr %names) {
entry:
  %named = icmp ne ptr %names, null
  %scales.at = getelementptr %in_place, ptr %method, i64 0, i32 5
  %scales = load i8, ptr %scales.at
  %is.scaled = icmp ne i8 %scales, 0
  %may = and i1 %named, %is.scaled
  br i1 %may, label %measure, label %no
measure:
  %size = call i64 @PyTuple_Size(ptr %names)
  %one = icmp eq i64 %size, 1
  br i1 %one, label %look, label %no
look:
  %name = call ptr @PyTuple_GetItem(ptr %names, i64 0)
  %alpha = icmp eq ptr %name, @name_alpha
  br i1 %alpha, label %yes, label %no
yes:
  %at = getelementptr ptr, ptr %args, i64 %count
  %factor = load ptr, ptr %at
  ret ptr %factor
no:
  ret ptr null
}

; The memory of the tensor that a method is called on, if its elements may be changed and nothing of
; that is recorded; null if not. Its operand is opened.
define internal ptr @changeable(ptr %method, ptr %operand, i1 %recording) {
entry:
  %tensor = load ptr, ptr %operand
  %opens = call i1 @open(ptr %operand)
  br i1 %opens, label %look, label %no
look:
  %array = call ptr @array_of(ptr %operand)
  %bit = call i64 @bit_of(ptr %array)
  %dtypes.at = getelementptr %in_place, ptr %method, i64 0, i32 4
  %dtypes = load i64, ptr %dtypes.at
  %common = and i64 %bit, %dtypes
  %usual = icmp ne i64 %common, 0
  %writeable = call i1 @is_open(ptr %array)
  %both = and i1 %usual, %writeable
  br i1 %both, label %ask, label %no
ask:
  %memory = call ptr @memory_of(ptr %tensor)
  %special = icmp eq ptr %memory, null
  br i1 %special, label %no, label %history
history:
  br i1 %recording, label %free, label %yes
free:
  %is.free = call i1 @is_free(ptr %tensor)
  br i1 %is.free, label %yes, label %no
yes:
  ret ptr %memory
no:
  ret ptr null
}

define internal i1 @is_recording(ptr %state) {
  %recording.is = call ptr @field(ptr %state, i64 $state_recording)
  %recording = icmp eq ptr %recording.is, @_Py_TrueStruct
  ret i1 %recording
}

; Does it in the usual case; false with nothing done, and perhaps an error set, in any other. An
; error may be set after it was done, too.
define internal i1 @changed(ptr %method, ptr %operands, ptr %factor, ptr %state) {
entry:
  %other = getelementptr %operand, ptr %operands, i64 1
  %recording = call i1 @is_recording(ptr %state)
  %memory = call ptr @changeable(ptr %method, ptr %operands, i1 %recording)
  %special = icmp eq ptr %memory, null
  br i1 %special, label %no, label %look
look:
  %array = call ptr @array_of(ptr %operands)
  %size.at = getelementptr %operand, ptr %operands, i64 0, i32 4
  %size = load i64, ptr %size.at
  %few = icmp slt i64 %size, $SPREAD
  %ufunc.at = getelementptr %in_place, ptr %method, i64 0, i32 1
  %ufunc = load ptr, ptr %ufunc.at
  %by.numpy = icmp ne ptr %ufunc, null
  %small = and i1 %few, %by.numpy
  %known = call i1 @is_known(ptr %method, ptr %array, i64 %size)
  %ordered = call i1 @is_ordered(ptr %array)
  %strided = xor i1 %ordered, true
  %by.ufunc = or i1 %small, %strided
  br i1 %known, label %take, label %no
take:
  %given = load ptr, ptr %other
  %unary = icmp eq ptr %given, null
  br i1 %unary, label %compute, label %second
second:
  %fits = call i1 @suits(ptr %method, ptr %other, ptr %operands, i1 %recording)
  br i1 %fits, label %factors, label %no
factors:
  %plain = icmp eq ptr %factor, null
  br i1 %plain, label %compute, label %weigh
weigh:
  br i1 %by.ufunc, label %scale, label %no
scale:
  %unscaled = call i1 @scale(ptr %other, ptr %operands, ptr %factor, ptr %state)
  br i1 %unscaled, label %no, label %compute
compute:
  %source = call ptr @array_of(ptr %other)
  %cell.at = getelementptr %in_place, ptr %method, i64 0, i32 7
  %cell = load ptr, ptr %cell.at
  %copies = icmp eq ptr %cell, null
  br i1 %copies, label %copy, label %gather
copy:
  %uncopied = call i1 @copy(ptr %array, ptr %source)
  br i1 %uncopied, label %no, label %note
gather:
  %arrays = alloca [3 x ptr]
  store ptr %array, ptr %arrays
  %single = icmp eq ptr %source, null
  br i1 %by.ufunc, label %apply, label %large
large:
  %source.at = getelementptr ptr, ptr %arrays, i64 1
  store ptr %source, ptr %source.at
  %given.count = select i1 %single, i64 1, i64 2
  %done = call i1 @overwrite(ptr %method, ptr %arrays, i64 %given.count)
  br i1 %done, label %note, label %no
apply:
  %middle = select i1 %single, ptr %array, ptr %source
  %middle.at = getelementptr ptr, ptr %arrays, i64 1
  store ptr %middle, ptr %middle.at
  %last.at = getelementptr ptr, ptr %arrays, i64 2
  store ptr %array, ptr %last.at
  %count = select i1 %single, i64 2, i64 3
  %failed = call i1 @put_by(ptr %ufunc, ptr %arrays, i64 %count, ptr %state)
  br i1 %failed, label %no, label %note
note:
  call i1 @bump(ptr %memory)
  ret i1 true
no:
  ret i1 false
}

; A call of an in-place method.
define ptr @change(ptr %method, ptr %self, ptr %args, i64 %count, ptr %names) {
entry:
  %operands = alloca [2 x %operand]
  %bytes = mul i64 2, $OPERAND
  call void @llvm.memset.p0.i64(ptr %operands, i8 0, i64 %bytes, i1 false)
  store ptr %self, ptr %operands
  %general = load ptr, ptr %method
  %state = call ptr @current()
  %lost = icmp eq ptr %state, null
  br i1 %lost, label %nothing, label %ask
ask:
  %plain.is = call ptr @field(ptr %state, i64 $state_plain)
  %plain = icmp eq ptr %plain.is, @_Py_TrueStruct
  %function.at = getelementptr %in_place, ptr %method, i64 0, i32 8
  %function = load ptr, ptr %function.at
  %by.function = icmp ne ptr %function, null
  %cell.at = getelementptr %in_place, ptr %method, i64 0, i32 7
  %cell = load ptr, ptr %cell.at
  %no.program = icmp eq ptr %cell, null
  %by.value = and i1 %plain, %by.function
  br i1 %by.value, label %renew, label %count.them
renew:
  %renewed = call i1 @renewed(ptr %method, ptr %self, ptr %args, i64 %count, ptr %names, ptr %state)
  %wrong = call ptr @PyErr_Occurred()
  %right.so.far = icmp eq ptr %wrong, null
  %missed = xor i1 %renewed, true
  %go.on = and i1 %missed, %right.so.far
  %has.program = xor i1 %no.program, true
  %try.program = and i1 %go.on, %has.program
  br i1 %try.program, label %count.them, label %look
count.them:
  %wanted.at = getelementptr %in_place, ptr %method, i64 0, i32 2
  %wanted = load i64, ptr %wanted.at
  %right = icmp eq i64 %count, %wanted
  %factor = call ptr @scaled_by(ptr %method, ptr %args, i64 %count, ptr %names)
  %unnamed = icmp eq ptr %names, null
  %scaled = icmp ne ptr %factor, null
  %known = or i1 %unnamed, %scaled
  %a = and i1 %plain, %right
  %usual = and i1 %a, %known
  br i1 %usual, label %pick, label %leave
pick:
  %other.at = getelementptr %operand, ptr %operands, i64 1
  %none = icmp eq i64 %wanted, 0
  br i1 %none, label %constant, label %given
constant:
  %constant.at = getelementptr %in_place, ptr %method, i64 0, i32 3
  %constant.is = load ptr, ptr %constant.at
  br label %try
given:
  %first = load ptr, ptr %args
  br label %try
try:
  %other = phi ptr [ %constant.is, %constant ], [ %first, %given ]
  store ptr %other, ptr %other.at
  %changed = call i1 @changed(ptr %method, ptr %operands, ptr %factor, ptr %state)
  br label %look
look:
  %done = phi i1 [ %renewed, %renew ], [ %changed, %try ]
  %raised = call ptr @PyErr_Occurred()
  %silent = icmp eq ptr %raised, null
  br i1 %done, label %finish, label %judge
judge:
  br i1 %silent, label %leave, label %weigh
weigh:
  %ordinary = call i32 @PyErr_ExceptionMatches(ptr @Exception)
  %is.ordinary = icmp ne i32 %ordinary, 0
  br i1 %is.ordinary, label %clear, label %finish
clear:
  call void @PyErr_Clear()  ; the general way does it, or says what is wrong
  br label %leave
leave:
  call void @release(ptr %operands, ptr %state)
  %left = call ptr @forward(ptr %general, ptr %self, ptr null, ptr %args, i64 %count, ptr %names)
  ret ptr %left
finish:
  %good = and i1 %done, %silent
  %result = select i1 %good, ptr %self, ptr null
  call void @release(ptr %operands, ptr %state)
  call void @Py_IncRef(ptr %result)
  ret ptr %result
nothing:
  ret ptr null
}

; What the two operands hold, and the state.
define internal void @release(ptr %operands, ptr %state) {
entry:
  br label %one
one:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %operand = getelementptr %operand, ptr %operands, i64 %i
  %array = call ptr @array_of(ptr %operand)
  call void @Py_DecRef(ptr %array)
  %edge = call ptr @edge_of(ptr %operand)
  call void @Py_DecRef(ptr %edge)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 2
  br i1 %more, label %one, label %done
done:
  call void @Py_DecRef(ptr %state)
  ret void
}
"""
