"""An op by the fast path, from its operands to tensors, or else by the general path."""

from __future__ import annotations

__all__ = ["APPLY"]

APPLY = """
; The op on `count` objects: `general(op, objects, attrs)`, by the fast path if it can. Attributes
; are a dict, or null, and so is the step that this is.
define internal ptr @apply(ptr %op, ptr %objects, i64 %count, ptr %attrs, ptr %step) {
entry:
  %many = icmp sgt i64 %count, $MOST
  br i1 %many, label %crowd, label %few
crowd:
  %general = call ptr @leave(ptr %op, ptr %objects, i64 %count, ptr %attrs)
  ret ptr %general
few:
  %call = alloca %call
  %operands = alloca %operand, i64 %count
  %bytes = mul i64 %count, $OPERAND
  call void @llvm.memset.p0.i64(ptr %operands, i8 0, i64 %bytes, i1 false)
  call void @call.set.op(ptr %call, ptr %op)
  call void @call.set.count(ptr %call, i64 %count)
  call void @call.set.operands(ptr %call, ptr %operands)
  call void @call.set.attrs(ptr %call, ptr %attrs)
  call void @call.set.step(ptr %call, ptr %step)
  %state = call ptr @current()
  call void @call.set.state(ptr %call, ptr %state)
  %lost = icmp eq ptr %state, null
  br i1 %lost, label %raise, label %look
look:
  %usual = call i1 @take(ptr %call, ptr %state, ptr %objects)
  br i1 %usual, label %run, label %unusual
unusual:
  %interrupted = call ptr @PyErr_Occurred()
  %is.interrupted = icmp ne ptr %interrupted, null
  br i1 %is.interrupted, label %raise, label %leave
run:
  %data = call ptr @computed(ptr %call, ptr %state)
  %failed = icmp eq ptr %data, null
  br i1 %failed, label %ask, label %wrap
ask:
  %forgiven = call i1 @forgiven()
  br i1 %forgiven, label %leave, label %raise
leave:
  call void @drop(ptr %call)
  %left = call ptr @leave(ptr %op, ptr %objects, i64 %count, ptr %attrs)
  ret ptr %left
wrap:
  %type = call ptr @field(ptr %data, i64 $TYPE)
  %several = icmp eq ptr %type, @PyTuple_Type
  br i1 %several, label %ways, label %single
ways:
  %unrecorded = call i1 @is_unrecorded(ptr %call, ptr %state)
  br i1 %unrecorded, label %tensors, label %results
tensors:
  %together = call ptr @wrapped(ptr %data)
  %unusual.data = icmp eq ptr %together, null
  br i1 %unusual.data, label %results, label %together.done
together.done:
  call void @Py_DecRef(ptr %data)
  call void @drop(ptr %call)
  ret ptr %together
results:
  %may = call i1 @forgiven()  ; an error is met again, but for an interrupt
  br i1 %may, label %rest, label %alone
rest:
  call void @drop(ptr %call)
  %finished = call ptr @finished(ptr %op, ptr %objects, i64 %count, ptr %attrs, ptr %data)
  call void @Py_DecRef(ptr %data)
  ret ptr %finished
single:
  %is.view = call i1 @has(ptr %op, i64 $VIEW)
  br i1 %is.view, label %view, label %values
view:
  %seen = call ptr @wrap_view(ptr %call, ptr %state, ptr %data)
  %unseen = icmp eq ptr %seen, null
  br i1 %unseen, label %blind, label %hold
blind:
  %error = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %error, null
  br i1 %raised, label %alone, label %results
values:
  %new = call ptr @tensor_of(ptr %data)
  %none.new = icmp eq ptr %new, null
  br i1 %none.new, label %alone, label %hold
alone:
  call void @Py_DecRef(ptr %data)
  br label %raise
hold:
  %out = phi ptr [ %seen, %view ], [ %new, %values ]
  call void @Py_DecRef(ptr %data)  ; which the tensor holds
  %recording = call i1 @is_recording(ptr %state)
  %recordable = call i1 @has(ptr %op, i64 $RECORDABLE)
  %both = and i1 %recording, %recordable
  br i1 %both, label %float, label %done
float:
  %dtype = call i64 @bit_of(ptr %data)
  %floating = and i64 %dtype, $FLOATS
  %is.floating = icmp ne i64 %floating, 0
  br i1 %is.floating, label %record, label %done
record:
  %stopped = call i1 @record(ptr %call, ptr %out, ptr %data)
  br i1 %stopped, label %undo, label %done
undo:
  call void @Py_DecRef(ptr %out)
  br label %raise
done:
  call void @drop(ptr %call)
  ret ptr %out
raise:
  call void @drop(ptr %call)
  ret ptr null
}

; What a call holds.
define internal void @drop(ptr %call) {
  %state = call ptr @call.state(ptr %call)
  call void @Py_DecRef(ptr %state)
  %operands = call ptr @call.operands(ptr %call)
  %count = call i64 @call.count(ptr %call)
  call void @release(ptr %operands, i64 %count)
  ret void
}

; What operands hold.
define internal void @release(ptr %operands, i64 %count) alwaysinline {
entry:
  br label %more
more:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %done
one:
  %operand = getelementptr %operand, ptr %operands, i64 %i
  %array = call ptr @operand.array(ptr %operand)
  call void @Py_DecRef(ptr %array)
  %edge = call ptr @operand.edge(ptr %operand)
  call void @Py_DecRef(ptr %edge)
  %next = add i64 %i, 1
  br label %more
done:
  ret void
}

; A function of Python on the op, the objects as a tuple, the attributes and, unless it is null,
; what was computed.
define internal ptr @python(ptr %function, ptr %op, ptr %objects, i64 %count, ptr %attrs,
                            ptr %data) {
entry:
  %given = alloca [4 x ptr]
  %record = call ptr @op.object(ptr %op)
  store ptr %record, ptr %given
  %args = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %args, null
  br i1 %failed, label %nothing, label %more
nothing:
  ret ptr null
more:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %call
one:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %at
  call void @Py_IncRef(ptr %object)
  call i32 @PyTuple_SetItem(ptr %args, i64 %i, ptr %object)
  %next = add i64 %i, 1
  br label %more
call:
  %args.at = getelementptr ptr, ptr %given, i64 1
  store ptr %args, ptr %args.at
  %bare = icmp eq ptr %attrs, null
  %named = select i1 %bare, ptr @no_attrs, ptr %attrs
  %attrs.at = getelementptr ptr, ptr %given, i64 2
  store ptr %named, ptr %attrs.at
  %data.at = getelementptr ptr, ptr %given, i64 3
  store ptr %data, ptr %data.at
  %without = icmp eq ptr %data, null
  %n = select i1 %without, i64 3, i64 4
  %result = call ptr @PyObject_Vectorcall(ptr %function, ptr %given, i64 %n, ptr null)
  call void @Py_DecRef(ptr %args)
  ret ptr %result
}

; The op by the general path.
define internal ptr @leave(ptr %op, ptr %objects, i64 %count, ptr %attrs) {
  %result = call ptr @python(ptr @general, ptr %op, ptr %objects, i64 %count, ptr %attrs, ptr null)
  ret ptr %result
}

; What was computed as tensors: several, or perhaps a view.
define internal ptr @finished(ptr %op, ptr %objects, i64 %count, ptr %attrs, ptr %data) {
  %result = call ptr @python(ptr @finish, ptr %op, ptr %objects, i64 %count, ptr %attrs, ptr %data)
  ret ptr %result
}

; The function of an op, whose address is `self`, called with its arguments and its attributes: a
; tuple and a dict, other sequences and mappings, and wrong calls, are for the general path.
define ptr @function(ptr %self, ptr %given, i64 %count, ptr %names) {
entry:
  %op = call ptr @PyLong_AsVoidPtr(ptr %self)
  %two = icmp eq i64 %count, 2
  %unnamed = icmp eq ptr %names, null
  %right = and i1 %two, %unnamed
  br i1 %right, label %look, label %leave
look:
  %args = load ptr, ptr %given
  %attrs.at = getelementptr ptr, ptr %given, i64 1
  %attrs = load ptr, ptr %attrs.at
  %args.type = call ptr @field(ptr %args, i64 $TYPE)
  %attrs.type = call ptr @field(ptr %attrs, i64 $TYPE)
  %is.tuple = icmp eq ptr %args.type, @PyTuple_Type
  %is.dict = icmp eq ptr %attrs.type, @PyDict_Type
  %usual = and i1 %is.tuple, %is.dict
  br i1 %usual, label %open, label %leave
leave:
  %record = call ptr @op.object(ptr %op)
  %left = call ptr @forward(ptr @general, ptr %record, ptr null, ptr %given, i64 %count, ptr %names)
  ret ptr %left
open:
  %n = call i64 @PyTuple_Size(ptr %args)
  %objects = getelementptr i8, ptr %args, i64 $ITEMS
  %size = call i64 @PyDict_Size(ptr %attrs)
  %empty = icmp eq i64 %size, 0
  %named = select i1 %empty, ptr null, ptr %attrs
  %result = call ptr @apply(ptr %op, ptr %objects, i64 %n, ptr %named, ptr null)
  ret ptr %result
}

; Calls with one or two objects, which may be null, before the arguments. Few of these are on the
; stack, of which there is not much: a caller may give millions.
define internal ptr @forward(ptr %callable, ptr %first, ptr %second, ptr %args, i64 %count,
                             ptr %names) {
entry:
  %given = call i64 @given_count(i64 %count, ptr %names)
  %many = icmp sgt i64 %given, $MOST
  br i1 %many, label %crowd, label %few
few:
  %room = add i64 $MOST, 2
  %objects = alloca ptr, i64 %room
  %result = call ptr @forward_in(ptr %objects, ptr %callable, ptr %first, ptr %second, ptr %args,
                                 i64 %count, i64 %given, ptr %names)
  ret ptr %result
crowd:
  %all = add i64 %given, 2
  %bytes = mul i64 %all, 8
  %memory = call ptr @PyMem_Malloc(i64 %bytes)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %refuse, label %call
refuse:
  %none = call ptr @PyErr_NoMemory()
  ret ptr %none
call:
  %of.many = call ptr @forward_in(ptr %memory, ptr %callable, ptr %first, ptr %second, ptr %args,
                                  i64 %count, i64 %given, ptr %names)
  call void @PyMem_Free(ptr %memory)
  ret ptr %of.many
}

; The same, in a row `objects` with room for the `given` arguments and two more.
define internal ptr @forward_in(ptr %objects, ptr %callable, ptr %first, ptr %second, ptr %args,
                                i64 %count, i64 %given, ptr %names) {
  store ptr %first, ptr %objects
  %with.first = icmp ne ptr %first, null
  %one = zext i1 %with.first to i64
  %second.at = getelementptr ptr, ptr %objects, i64 %one
  store ptr %second, ptr %second.at
  %with.second = icmp ne ptr %second, null
  %another = zext i1 %with.second to i64
  %before = add i64 %one, %another
  %rest = getelementptr ptr, ptr %objects, i64 %before
  %bytes = mul i64 %given, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %args, i64 %bytes, i1 false)
  %positional = add i64 %count, %before
  %result = call ptr @PyObject_Vectorcall(ptr %callable, ptr %objects, i64 %positional, ptr %names)
  ret ptr %result
}

; The op on what a call gives; names, and a wrong number of arguments, are for the op itself.
define ptr @called(ptr %op, ptr %objects, i64 %count, ptr %names) {
entry:
  %arity = call i64 @op.arity(ptr %op)
  %unnamed = icmp eq ptr %names, null
  %right = icmp eq i64 %count, %arity
  %usual = and i1 %unnamed, %right
  br i1 %usual, label %here, label %there
here:
  %result = call ptr @apply(ptr %op, ptr %objects, i64 %count, ptr null, ptr null)
  ret ptr %result
there:
  %record = call ptr @op.object(ptr %op)
  %sorted = call ptr @forward(ptr @op_call, ptr %record, ptr null, ptr %objects, i64 %count,
                              ptr %names)
  ret ptr %sorted
}

; The same, of the op whose address is `self`.
define ptr @direct(ptr %self, ptr %objects, i64 %count, ptr %names) {
  %op = call ptr @PyLong_AsVoidPtr(ptr %self)
  %result = call ptr @called(ptr %op, ptr %objects, i64 %count, ptr %names)
  ret ptr %result
}

; The same on an object and what is given beside it.
define ptr @called_on(ptr %op, ptr %self, ptr %args, i64 %count, ptr %names) {
entry:
  %arity = call i64 @op.arity(ptr %op)
  %all = add i64 %count, 1
  %unnamed = icmp eq ptr %names, null
  %right = icmp eq i64 %all, %arity
  %known = and i1 %unnamed, %right
  %few = icmp sle i64 %all, $MOST
  %usual = and i1 %known, %few
  br i1 %usual, label %here, label %there
here:
  %objects = alloca ptr, i64 $MOST
  store ptr %self, ptr %objects
  %rest = getelementptr ptr, ptr %objects, i64 1
  %bytes = mul i64 %count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %args, i64 %bytes, i1 false)
  %result = call ptr @apply(ptr %op, ptr %objects, i64 %all, ptr null, ptr null)
  ret ptr %result
there:
  %record = call ptr @op.object(ptr %op)
  %sorted = call ptr @forward(ptr @op_call, ptr %record, ptr %self, ptr %args, i64 %count,
                              ptr %names)
  ret ptr %sorted
}
"""
