"""What an operation leaves on the tape: the entries of `staticflow.eager.vertex`."""

from __future__ import annotations

__all__ = ["RECORD"]

RECORD = """
; Where the gradient of a tensor goes, noted at its operand; true if an error was raised.
define internal i1 @find_edge(ptr %operand) {
entry:
  %is.number = call i1 @operand.is_number(ptr %operand)
  br i1 %is.number, label %none, label %tensor
tensor:
  %object = call ptr @operand.object(ptr %operand)
  %view = call ptr @field(ptr %object, i64 $tensor_view)
  %own = call i1 @is_none(ptr %view)
  br i1 %own, label %look, label %seen
seen:  ; a view whose memory nobody changed meanwhile is as it was
  %memory = call ptr @field(ptr %object, i64 $tensor_memory)
  %no.memory = call i1 @is_none(ptr %memory)
  br i1 %no.memory, label %ask, label %classes
classes:
  %a.view = call i1 @is_like(ptr %view, ptr @view_example)
  %counts = call i1 @is_like(ptr %memory, ptr @memory_example)
  %usual = and i1 %a.view, %counts
  br i1 %usual, label %versions, label %ask
versions:
  %version = call ptr @field(ptr %memory, i64 $memory_version)
  %seen.version = call ptr @field(ptr %view, i64 $view_seen)
  %unchanged = icmp eq ptr %version, %seen.version
  br i1 %unchanged, label %look, label %ask
ask:
  %asked = call ptr @PyObject_VectorcallMethod(ptr @name_edge, ptr %operand, i64 1, ptr null)
  %failed = icmp eq ptr %asked, null
  br i1 %failed, label %stop, label %see
see:
  %without = icmp eq ptr %asked, @_Py_NoneStruct
  br i1 %without, label %drop, label %note
drop:
  call void @Py_DecRef(ptr %asked)
  br label %none
look:
  %vertex = call ptr @field(ptr %object, i64 $tensor_vertex)
  %no.vertex = call i1 @is_none(ptr %vertex)
  br i1 %no.vertex, label %none, label %hold
hold:
  %is.leaf = icmp eq ptr %vertex, @leaf
  %held = select i1 %is.leaf, ptr %object, ptr %vertex
  call void @Py_IncRef(ptr %held)
  br label %note
note:
  %edge = phi ptr [ %asked, %see ], [ %held, %hold ]
  call void @operand.set.edge(ptr %operand, ptr %edge)
  br label %none
none:
  ret i1 false
stop:
  ret i1 true
}

; Whether the gradient of a tensor goes nowhere. An error may be set if not.
define internal i1 @has_no_edge(ptr %operand) {
  %failed = call i1 @find_edge(ptr %operand)
  %edge = call ptr @operand.edge(ptr %operand)
  %without = icmp eq ptr %edge, null
  %succeeded = xor i1 %failed, true
  %free = and i1 %without, %succeeded
  ret i1 %free
}

; A value that is kept: its array, its memory, and the version of that. Where the tensor is on
; another array meanwhile, nobody knows the memory of this one, and a copy is kept.
define internal ptr @kept(ptr %tensor, ptr %array) {
entry:
  %memory = call ptr @own_memory(ptr %tensor)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %nothing, label %look
nothing:
  ret ptr null
look:
  %data = call ptr @field(ptr %tensor, i64 $tensor_data)
  %same = icmp eq ptr %data, %array
  br i1 %same, label %take, label %part
take:
  %version = call ptr @PyObject_GetAttr(ptr %memory, ptr @name_version)  ; which may refuse
  call void @Py_IncRef(ptr %array)
  %row = call ptr @triple(ptr %array, ptr %memory, ptr %version)
  ret ptr %row
part:
  call void @Py_DecRef(ptr %memory)
  %copy = call ptr @PyArray_NewCopy(ptr %array, i32 0)
  %new = call ptr @like(ptr @memory_example, i64 $memory_size, i64 0)
  call void @Py_IncRef(ptr @zero)
  %apart = call ptr @triple(ptr %copy, ptr %new, ptr @zero)
  ret ptr %apart
}

; What stands for a tensor whose value is not kept.
define internal ptr @shadow(ptr %array) {
entry:
  %shadow = call ptr @like(ptr @shadow_example, i64 $shadow_size, i64 0)
  %failed = icmp eq ptr %shadow, null
  br i1 %failed, label %nothing, label %fill
fill:
  %place = call i64 @dtype_of(ptr %array)
  %dtype.at = getelementptr ptr, ptr @dtypes, i64 %place
  %dtype = load ptr, ptr %dtype.at
  call void @Py_IncRef(ptr %dtype)
  call i1 @put(ptr %shadow, i64 $shadow_dtype, ptr %dtype)
  %shape = call ptr @PyObject_GetAttr(ptr %array, ptr @name_shape)
  %missing = call i1 @put(ptr %shadow, i64 $shadow_shape, ptr %shape)
  br i1 %missing, label %drop, label %done
drop:
  call void @Py_DecRef(ptr %shadow)
  br label %nothing
nothing:
  ret ptr null
done:
  ret ptr %shadow
}

; Whether an array is of the shape and dtype of another.
define internal i1 @alike(ptr %a, ptr %b) {
entry:
  %a.descr = call ptr @field(ptr %a, i64 $DESCR)
  %b.descr = call ptr @field(ptr %b, i64 $DESCR)
  %dtype = icmp eq ptr %a.descr, %b.descr
  %shape = call i1 @same_shape(ptr %a, ptr %b)
  %both = and i1 %dtype, %shape
  ret i1 %both
}

; Whether the operands are numbers, or like the result.
define internal i1 @is_even(ptr %call, ptr %data) {
entry:
  %op = call ptr @call.op(ptr %call)
  %count = call i64 @call.count(ptr %call)
  %may = call i1 @has(ptr %op, i64 $EVEN)
  br i1 %may, label %more, label %no
more:
  %i = phi i64 [ 0, %entry ], [ %next, %following ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %yes
one:
  %operand = call ptr @operand(ptr %call, i64 %i)
  %number = call i1 @operand.is_number(ptr %operand)
  br i1 %number, label %following, label %compare
compare:
  %array = call ptr @operand.array(ptr %operand)
  %like = call i1 @alike(ptr %array, ptr %data)
  br i1 %like, label %following, label %no
following:
  %next = add i64 %i, 1
  br label %more
yes:
  ret i1 true
no:
  ret i1 false
}

; What an entry holds of an argument that is needed for the cotangents of `uses`, of which `wanted`
; are wanted: a number, `kept`, None for what is like the result, or a shadow.
define internal ptr @held(ptr %operand, i64 %uses, i64 %wanted, ptr %data) {
entry:
  %object = call ptr @operand.object(ptr %operand)
  %number = call i1 @operand.is_number(ptr %operand)
  br i1 %number, label %itself, label %tensor
itself:
  call void @Py_IncRef(ptr %object)
  ret ptr %object
tensor:
  %array = call ptr @operand.array(ptr %operand)
  %used.for = and i64 %uses, %wanted
  %is.used = icmp ne i64 %used.for, 0
  br i1 %is.used, label %keep, label %shape
keep:
  %kept = call ptr @kept(ptr %object, ptr %array)
  ret ptr %kept
shape:
  %like = call i1 @alike(ptr %array, ptr %data)
  br i1 %like, label %none, label %other
other:
  %shadow = call ptr @shadow(ptr %array)
  ret ptr %shadow
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

; The edges of all operands are found: a bit for each that has one; -1 if an error was raised.
define internal i64 @find_edges(ptr %call) {
entry:
  %count = call i64 @call.count(ptr %call)
  br label %more
more:
  %i = phi i64 [ 0, %entry ], [ %next, %look ]
  %wanted = phi i64 [ 0, %entry ], [ %wanted.next, %look ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %done
one:
  %operand = call ptr @operand(ptr %call, i64 %i)
  %failed = call i1 @find_edge(ptr %operand)
  br i1 %failed, label %stop, label %look
look:
  %edge = call ptr @operand.edge(ptr %operand)
  %has.edge = icmp ne ptr %edge, null
  %bit = shl i64 1, %i
  %more.wanted = or i64 %wanted, %bit
  %wanted.next = select i1 %has.edge, i64 %more.wanted, i64 %wanted
  %next = add i64 %i, 1
  br label %more
done:
  ret i64 %wanted
stop:
  ret i64 -1
}

; The edges of an entry, as a row.
define internal ptr @edges(ptr %call) {
entry:
  %count = call i64 @call.count(ptr %call)
  %row = call ptr @row(i64 %count)
  %failed = icmp eq ptr %row, null
  br i1 %failed, label %nothing, label %more
nothing:
  ret ptr null
more:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %done
one:
  %operand = call ptr @operand(ptr %call, i64 %i)
  %edge = call ptr @operand.edge(ptr %operand)
  call void @Py_IncRef(ptr %edge)
  %item = call ptr @or_none(ptr %edge)
  call i32 @PyTuple_SetItem(ptr %row, i64 %i, ptr %item)
  %next = add i64 %i, 1
  br label %more
done:
  call void @PyObject_GC_Track(ptr %row)
  ret ptr %row
}

; What an entry keeps of the arguments, as a row: arrays, numbers and shadows, at which the garbage
; collector need not look.
define internal ptr @args(ptr %call, i64 %wanted, ptr %data) {
entry:
  %op = call ptr @call.op(ptr %call)
  %count = call i64 @call.count(ptr %call)
  %row = call ptr @row(i64 %count)
  %failed = icmp eq ptr %row, null
  br i1 %failed, label %nothing, label %more
more:
  %i = phi i64 [ 0, %entry ], [ %next, %put ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %done
one:
  %operand = call ptr @operand(ptr %call, i64 %i)
  %next = add i64 %i, 1
  %uses = call i64 @op.uses(ptr %op, i64 %next)
  %held = call ptr @held(ptr %operand, i64 %uses, i64 %wanted, ptr %data)
  %missing = icmp eq ptr %held, null
  br i1 %missing, label %drop, label %put
put:
  call i32 @PyTuple_SetItem(ptr %row, i64 %i, ptr %held)
  br label %more
drop:
  call void @Py_DecRef(ptr %row)
  br label %nothing
nothing:
  ret ptr null
done:
  ret ptr %row
}

; Let the tape know what `out` came from, if a gradient is wanted; true if an error was raised.
define internal i1 @record(ptr %call, ptr %out, ptr %data) {
entry:
  %op = call ptr @call.op(ptr %call)
  %wanted = call i64 @find_edges(ptr %call)
  switch i64 %wanted, label %kind [ i64 0, label %done
                                    i64 -1, label %stop ]
kind:
  %even = call i1 @is_even(ptr %call, ptr %data)
  %uneven = xor i1 %even, true
  %which = zext i1 %uneven to i64
  %example = call ptr @op.entry(ptr %op, i64 %which)
  %new = call ptr @like(ptr %example, i64 $entry_size, i64 $entry_weakref)
  %none = icmp eq ptr %new, null
  br i1 %none, label %stop, label %find
find:
  %edges = call ptr @edges(ptr %call)
  %no.edges = call i1 @put(ptr %new, i64 $entry_edges, ptr %edges)
  br i1 %no.edges, label %drop, label %save
save:
  %args = call ptr @args(ptr %call, i64 %wanted, ptr %data)
  %no.args = call i1 @put(ptr %new, i64 $entry_args, ptr %args)
  br i1 %no.args, label %drop, label %attributes
attributes:
  %attrs = call ptr @call.attrs(ptr %call)
  %has.attrs = icmp ne ptr %attrs, null
  br i1 %has.attrs, label %attrs.own, label %needs
attrs.own:
  call void @Py_IncRef(ptr %attrs)
  call i1 @put(ptr %new, i64 $entry_attrs, ptr %attrs)
  br label %needs
needs:
  %uses = call i64 @op.uses(ptr %op, i64 0)
  %used.for = and i64 %uses, %wanted
  %is.used = icmp ne i64 %used.for, 0
  br i1 %is.used, label %keep, label %forget
keep:
  %kept = call ptr @kept(ptr %out, ptr %data)
  br label %result
forget:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  br label %result
result:
  %result.held = phi ptr [ %kept, %keep ], [ @_Py_NoneStruct, %forget ]
  %no.result = call i1 @put(ptr %new, i64 $entry_result, ptr %result.held)
  br i1 %no.result, label %drop, label %number
number:
  %serial = call ptr @PyIter_Next(ptr @serials)
  %no.serial = call i1 @put(ptr %new, i64 $entry_serial, ptr %serial)
  br i1 %no.serial, label %drop, label %line
line:
  %unmarked = call i1 @mark(ptr %new)
  br i1 %unmarked, label %drop, label %attach
drop:
  call void @Py_DecRef(ptr %new)
  br label %stop
attach:
  call i1 @put(ptr %out, i64 $tensor_vertex, ptr %new)
  br label %done
done:
  ret i1 false
stop:
  ret i1 true
}
"""
