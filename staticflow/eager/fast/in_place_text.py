"""In-place methods of tensors that are a ufunc, or a copy.

If nothing of it is recorded, NumPy puts the result where it belongs, or, of large arrays, the
program that did so last (`staticflow.eager.overwrite`); or what a function gives is copied
(`staticflow.eager.fast.renew`). All else goes to `staticflow.eager.in_place`.
"""

from __future__ import annotations

__all__ = ["IN_PLACE"]

IN_PLACE = """
; What a call scales its operand by; null if it does not.
define internal ptr @scaled_by(ptr %method, ptr %args, i64 %count, ptr %names) {
entry:
  %named = icmp ne ptr %names, null
  %scales = call i8 @in_place.scaled(ptr %method)
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

; The memory of the tensor that a method is called on, to be dropped, if its elements may be changed
; and nothing of that is recorded; null if not. Its operand is opened.
define internal ptr @changeable(ptr %method, ptr %operand, i1 %recording) {
entry:
  %tensor = call ptr @operand.object(ptr %operand)
  %opens = call i1 @open(ptr %operand)
  br i1 %opens, label %look, label %no
look:
  %array = call ptr @operand.array(ptr %operand)
  %bit = call i64 @bit_of(ptr %array)
  %dtypes = call i64 @in_place.dtypes(ptr %method)
  %common = and i64 %bit, %dtypes
  %usual = icmp ne i64 %common, 0
  %writeable = call i1 @is_open(ptr %array)
  %both = and i1 %usual, %writeable
  br i1 %both, label %ask, label %no
ask:
  %memory = call ptr @memory_of(ptr %tensor, ptr %array)
  %special = icmp eq ptr %memory, null
  br i1 %special, label %no, label %history
history:
  br i1 %recording, label %free, label %yes
free:
  %is.free = call i1 @is_free(ptr %tensor)
  br i1 %is.free, label %yes, label %drop
yes:
  ret ptr %memory
drop:
  call void @Py_DecRef(ptr %memory)
  br label %no
no:
  ret ptr null
}

; Does it in the usual case; false with nothing done, and perhaps an error set, in any other. An
; error may be set after it was done, too.
define internal i1 @changed(ptr %method, ptr %operands, ptr %state) {
entry:
  %other = getelementptr %operand, ptr %operands, i64 1
  %factor = getelementptr %operand, ptr %operands, i64 2
  %factor.is = call ptr @operand.object(ptr %factor)
  %scaled = icmp ne ptr %factor.is, null
  %recording = call i1 @is_recording(ptr %state)
  %memory = call ptr @changeable(ptr %method, ptr %operands, i1 %recording)
  %special = icmp eq ptr %memory, null
  br i1 %special, label %no, label %look
look:
  %array = call ptr @operand.array(ptr %operands)
  %size = call i64 @operand.size(ptr %operands)
  %from = select i1 %scaled, i64 $LARGE, i64 $SPREAD  ; a program saves a pass over memory
  %few = icmp slt i64 %size, %from
  %ufunc = call ptr @in_place.ufunc(ptr %method)
  %by.numpy = icmp ne ptr %ufunc, null
  %small = and i1 %few, %by.numpy
  %known = call i1 @is_known(ptr %method, ptr %array, i64 %size, i1 %scaled)
  %in.rows = call i1 @is_in_rows(ptr %array)
  %strided = xor i1 %in.rows, true
  %by.ufunc = or i1 %small, %strided
  br i1 %known, label %take, label %no
take:
  %given = call ptr @operand.object(ptr %other)
  %unary = icmp eq ptr %given, null
  br i1 %unary, label %compute, label %second
second:
  %fits = call i1 @suits(ptr %method, ptr %other, ptr %operands, i1 %recording)
  br i1 %fits, label %factors, label %no
factors:
  br i1 %scaled, label %weigh, label %compute
weigh:
  %weighs = call i1 @number(ptr @no_op, ptr %factor, ptr %operands)
  br i1 %weighs, label %choose, label %no
choose:
  br i1 %by.ufunc, label %scale, label %compute
scale:
  %unscaled = call i1 @scale(ptr %other, ptr %factor, ptr %state)
  br i1 %unscaled, label %no, label %compute
compute:
  %source = call ptr @operand.array(ptr %other)
  %cell = call ptr @in_place.program(ptr %method)
  %copies = icmp eq ptr %cell, null
  br i1 %copies, label %copy, label %gather
copy:
  %source.in.rows = call i1 @is_in_rows(ptr %source)
  %at.once = or i1 %few, %source.in.rows  ; NumPy is slow at transposed ones
  br i1 %at.once, label %go, label %no
go:
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
  %factor.at = getelementptr ptr, ptr %arrays, i64 2
  %weight = call ptr @operand.array(ptr %factor)
  store ptr %weight, ptr %factor.at
  %weighed = select i1 %scaled, i64 3, i64 2
  %given.count = select i1 %single, i64 1, i64 %weighed
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
  call void @Py_DecRef(ptr %memory)
  ret i1 true
no:
  call void @Py_DecRef(ptr %memory)
  ret i1 false
}

; A call of an in-place method.
define ptr @change(ptr %method, ptr %self, ptr %args, i64 %count, ptr %names) {
entry:
  %operands = alloca [3 x %operand]  ; the tensor, the operand, and what that is scaled by
  %bytes = mul i64 3, $OPERAND
  call void @llvm.memset.p0.i64(ptr %operands, i8 0, i64 %bytes, i1 false)
  call void @operand.set.object(ptr %operands, ptr %self)
  %general = call ptr @in_place.general(ptr %method)
  %state = call ptr @current()
  %lost = icmp eq ptr %state, null
  br i1 %lost, label %nothing, label %ask
ask:
  %plain = call i1 @is_plain(ptr %state)
  %function = call ptr @in_place.value(ptr %method)
  %by.function = icmp ne ptr %function, null
  %cell = call ptr @in_place.program(ptr %method)
  %no.program = icmp eq ptr %cell, null
  %by.value = and i1 %plain, %by.function
  br i1 %by.value, label %renew, label %count.them
renew:
  %renewed = call i1 @renew(ptr %method, ptr %self, ptr %args, i64 %count, ptr %names, ptr %state)
  %wrong = call ptr @PyErr_Occurred()
  %right.so.far = icmp eq ptr %wrong, null
  %missed = xor i1 %renewed, true
  %go.on = and i1 %missed, %right.so.far
  %has.program = xor i1 %no.program, true
  %try.program = and i1 %go.on, %has.program
  br i1 %try.program, label %count.them, label %look
count.them:
  %wanted = call i64 @in_place.count(ptr %method)
  %right = icmp eq i64 %count, %wanted
  %factor = call ptr @scaled_by(ptr %method, ptr %args, i64 %count, ptr %names)
  %unnamed = icmp eq ptr %names, null
  %scaled = icmp ne ptr %factor, null
  %known = or i1 %unnamed, %scaled
  %a = and i1 %plain, %right
  %usual = and i1 %a, %known
  br i1 %usual, label %pick, label %leave
pick:
  %none = icmp eq i64 %wanted, 0
  br i1 %none, label %constant, label %given
constant:
  %constant.is = call ptr @in_place.constant(ptr %method)
  br label %try
given:
  %first = load ptr, ptr %args
  br label %try
try:
  %other = phi ptr [ %constant.is, %constant ], [ %first, %given ]
  %second = getelementptr %operand, ptr %operands, i64 1
  call void @operand.set.object(ptr %second, ptr %other)
  %third = getelementptr %operand, ptr %operands, i64 2
  call void @operand.set.object(ptr %third, ptr %factor)
  %changed = call i1 @changed(ptr %method, ptr %operands, ptr %state)
  br label %look
look:
  %done = phi i1 [ %renewed, %renew ], [ %changed, %try ]
  br i1 %done, label %finish, label %judge
judge:
  %forgiven = call i1 @forgiven()
  br i1 %forgiven, label %leave, label %finish
leave:
  call void @release(ptr %operands, i64 3)
  call void @Py_DecRef(ptr %state)
  %left = call ptr @forward(ptr %general, ptr %self, ptr null, ptr %args, i64 %count, ptr %names)
  ret ptr %left
finish:
  %raised = call ptr @PyErr_Occurred()
  %silent = icmp eq ptr %raised, null
  %good = and i1 %done, %silent
  %result = select i1 %good, ptr %self, ptr null
  call void @release(ptr %operands, i64 3)
  call void @Py_DecRef(ptr %state)
  call void @Py_IncRef(ptr %result)
  ret ptr %result
nothing:
  ret ptr null
}
"""
