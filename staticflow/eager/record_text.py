"""What an operation of the fast path leaves on the tape, as LLVM text: a part of the module of
`staticflow.eager.fast_text`. The entries are those of `staticflow.eager.vertex`."""

from __future__ import annotations

__all__ = ["RECORD"]

RECORD = """
; Where the gradient of a tensor goes, noted at its operand; true if an error was raised.
define internal i1 @find_edge(ptr %operand) {
entry:
  %number.at = getelementptr %operand, ptr %operand, i64 0, i32 3
  %is.number = load i1, ptr %number.at
  br i1 %is.number, label %none, label %tensor
tensor:
  %object = load ptr, ptr %operand
  %view = call ptr @field(ptr %object, i64 $tensor_view)
  %own = icmp eq ptr %view, @_Py_NoneStruct
  br i1 %own, label %look, label %ask
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
  %no.vertex = icmp eq ptr %vertex, @_Py_NoneStruct
  br i1 %no.vertex, label %none, label %hold
hold:
  %is.leaf = icmp eq ptr %vertex, @leaf
  %held = select i1 %is.leaf, ptr %object, ptr %vertex
  call void @Py_IncRef(ptr %held)
  br label %note
note:
  %edge = phi ptr [ %asked, %see ], [ %held, %hold ]
  %edge.at = getelementptr %operand, ptr %operand, i64 0, i32 2
  store ptr %edge, ptr %edge.at
  br label %none
none:
  ret i1 false
stop:
  ret i1 true
}

; A value that is kept: its array, its memory, and the version of that.
define internal ptr @kept(ptr %tensor, ptr %array) {
entry:
  %has = call ptr @field(ptr %tensor, i64 $tensor_memory)
  %is.none = icmp eq ptr %has, @_Py_NoneStruct
  br i1 %is.none, label %make, label %take
make:
  %made = call ptr @like(ptr @memory_example, i64 $memory_size, i64 0)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %nothing, label %own
nothing:
  ret ptr null
own:
  call i1 @put(ptr %tensor, i64 $tensor_memory, ptr %made)
  br label %take
take:
  %memory = phi ptr [ %has, %entry ], [ %made, %own ]
  %version = call ptr @PyObject_GetAttr(ptr %memory, ptr @name_version)  ; which may refuse
  call void @Py_IncRef(ptr %array)
  call void @Py_IncRef(ptr %memory)
  %tuple = call ptr @triple(ptr %array, ptr %memory, ptr %version)
  ret ptr %tuple
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

; What an entry holds of argument `which`, where the cotangents of the arguments in `wanted` are
; wanted: a number, `kept`, a shadow, or None for one of the shape of the result.
define internal ptr @held(ptr %op, i64 %which, ptr %operand, i64 %wanted, i1 %even, ptr %data) {
entry:
  %object = load ptr, ptr %operand
  %number.at = getelementptr %operand, ptr %operand, i64 0, i32 3
  %is.number = load i1, ptr %number.at
  br i1 %is.number, label %number, label %tensor
number:
  call void @Py_IncRef(ptr %object)
  ret ptr %object
tensor:
  %array.at = getelementptr %operand, ptr %operand, i64 0, i32 1
  %array = load ptr, ptr %array.at
  %uses.at = getelementptr %op, ptr %op, i64 0, i32 5, i64 %which
  %uses = load i64, ptr %uses.at
  %used.for = and i64 %uses, %wanted
  %is.used = icmp ne i64 %used.for, 0
  br i1 %is.used, label %keep, label %shape
keep:
  %kept = call ptr @kept(ptr %object, ptr %array)
  ret ptr %kept
shape:
  br i1 %even, label %none, label %compare
compare:
  %same = call i1 @same_shape(ptr %array, ptr %data)
  br i1 %same, label %none, label %other
other:
  %shadow = call ptr @shadow(ptr %array)
  ret ptr %shadow
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

; The user's line, into an entry; true if it could not be told.
define internal i1 @mark(ptr %vertex) {
entry:
  %frame = call ptr @PyEval_GetFrame()
  %nowhere = icmp eq ptr %frame, null  ; called by C
  br i1 %nowhere, label %unknown, label %look
unknown:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  br label %note
look:
  %code = call ptr @PyFrame_GetCode(ptr %frame)
  %last = call ptr @field(ptr @recent, i64 $recent_code)
  %same = icmp eq ptr %code, %last
  br i1 %same, label %here, label %search
search:
  call void @Py_DecRef(ptr %code)
  %frame.at = alloca ptr
  store ptr %frame, ptr %frame.at
  %found = call ptr @PyObject_Vectorcall(ptr @users, ptr %frame.at, i64 1, ptr null)
  %failed = icmp eq ptr %found, null
  br i1 %failed, label %stop, label %elsewhere
elsewhere:
  %its.code = call ptr @PyTuple_GetItem(ptr %found, i64 0)
  call void @Py_IncRef(ptr %its.code)
  %its.frame = call ptr @PyTuple_GetItem(ptr %found, i64 1)
  %there = call i32 @PyFrame_GetLasti(ptr %its.frame)
  call void @Py_DecRef(ptr %found)
  br label %note
here:
  %at.frame = call i32 @PyFrame_GetLasti(ptr %frame)
  br label %note
note:
  %user = phi ptr [ @_Py_NoneStruct, %unknown ], [ %its.code, %elsewhere ], [ %code, %here ]
  %instruction = phi i32 [ 0, %unknown ], [ %there, %elsewhere ], [ %at.frame, %here ]
  call i1 @put(ptr %vertex, i64 $entry_code, ptr %user)
  %wide = sext i32 %instruction to i64
  %at = call ptr @PyLong_FromLongLong(i64 %wide)
  %missing = call i1 @put(ptr %vertex, i64 $entry_at, ptr %at)
  ret i1 %missing
stop:
  ret i1 true
}

; Let the tape know what `out` came from, if a gradient is wanted; true if an error was raised.
define internal i1 @record(ptr %op, ptr %operands, i64 %count, ptr %out, ptr %data) {
entry:
  %x.operand = getelementptr %operand, ptr %operands, i64 0
  %y.operand = getelementptr %operand, ptr %operands, i64 1
  %binary = icmp eq i64 %count, 2
  %x.failed = call i1 @find_edge(ptr %x.operand)
  br i1 %x.failed, label %stop, label %next
next:
  br i1 %binary, label %second, label %wanted
second:
  %y.failed = call i1 @find_edge(ptr %y.operand)
  br i1 %y.failed, label %stop, label %wanted
wanted:
  %x.edge.at = getelementptr %operand, ptr %x.operand, i64 0, i32 2
  %x.edge = load ptr, ptr %x.edge.at
  %y.edge.at = getelementptr %operand, ptr %y.operand, i64 0, i32 2
  %y.edge = load ptr, ptr %y.edge.at
  %x.wants = icmp ne ptr %x.edge, null
  %y.wants = icmp ne ptr %y.edge, null
  %x.bit = zext i1 %x.wants to i64
  %y.bit = select i1 %y.wants, i64 2, i64 0
  %both.bits = or i64 %x.bit, %y.bit
  %nobody = icmp eq i64 %both.bits, 0
  br i1 %nobody, label %done, label %kind
kind:
  br i1 %binary, label %compare, label %enter
compare:
  %flags.at = getelementptr %op, ptr %op, i64 0, i32 4
  %flags = load i64, ptr %flags.at
  %masked = and i64 %flags, $EVEN
  %elementwise = icmp ne i64 %masked, 0
  %x.number.at = getelementptr %operand, ptr %x.operand, i64 0, i32 3
  %x.number = load i1, ptr %x.number.at
  %y.number.at = getelementptr %operand, ptr %y.operand, i64 0, i32 3
  %y.number = load i1, ptr %y.number.at
  %a.number = or i1 %x.number, %y.number
  br i1 %a.number, label %enter, label %shapes
shapes:
  %x.array.at = getelementptr %operand, ptr %x.operand, i64 0, i32 1
  %x.array = load ptr, ptr %x.array.at
  %y.array.at = getelementptr %operand, ptr %y.operand, i64 0, i32 1
  %y.array = load ptr, ptr %y.array.at
  %same = call i1 @same_shape(ptr %x.array, ptr %y.array)
  %same.even = and i1 %same, %elementwise
  br label %enter
enter:
  %even = phi i1 [ true, %kind ], [ true, %compare ], [ %same.even, %shapes ]
  %uneven = xor i1 %even, true
  %which = zext i1 %uneven to i64
  %example.at = getelementptr %op, ptr %op, i64 0, i32 2, i64 %which
  %example = load ptr, ptr %example.at
  %entry.new = call ptr @like(ptr %example, i64 $entry_size, i64 0)
  %none = icmp eq ptr %entry.new, null
  br i1 %none, label %stop, label %fill
fill:
  call void @Py_IncRef(ptr %x.edge)
  call void @Py_IncRef(ptr %y.edge)
  %edges = call ptr @row(ptr %x.edge, ptr %y.edge, i64 %count)
  %no.edges = call i1 @put(ptr %entry.new, i64 $entry_edges, ptr %edges)
  %x.held = call ptr @held(ptr %op, i64 0, ptr %x.operand, i64 %both.bits, i1 %even, ptr %data)
  %x.missing = icmp eq ptr %x.held, null
  br i1 %x.missing, label %drop, label %first.held
first.held:
  br i1 %binary, label %second.held, label %arguments
second.held:
  %y.some = call ptr @held(ptr %op, i64 1, ptr %y.operand, i64 %both.bits, i1 %even, ptr %data)
  %y.missing = icmp eq ptr %y.some, null
  br i1 %y.missing, label %drop.first, label %arguments
drop.first:
  call void @Py_DecRef(ptr %x.held)
  br label %drop
arguments:
  %y.held = phi ptr [ null, %first.held ], [ %y.some, %second.held ]
  %args = call ptr @row(ptr %x.held, ptr %y.held, i64 %count)
  %no.args = call i1 @put(ptr %entry.new, i64 $entry_args, ptr %args)
  %uses.at = getelementptr %op, ptr %op, i64 0, i32 5, i64 2
  %uses = load i64, ptr %uses.at
  %used.for = and i64 %uses, %both.bits
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
  %no.result = call i1 @put(ptr %entry.new, i64 $entry_result, ptr %result.held)
  %lacks.some = or i1 %no.edges, %no.args
  %lacks = or i1 %lacks.some, %no.result
  br i1 %lacks, label %drop, label %number
number:
  %serial = call ptr @PyIter_Next(ptr @serials)
  %no.serial = call i1 @put(ptr %entry.new, i64 $entry_serial, ptr %serial)
  br i1 %no.serial, label %drop, label %line
line:
  %unmarked = call i1 @mark(ptr %entry.new)
  br i1 %unmarked, label %drop, label %attach
drop:
  call void @Py_DecRef(ptr %entry.new)
  br label %stop
attach:
  call i1 @put(ptr %out, i64 $tensor_vertex, ptr %entry.new)
  br label %done
done:
  ret i1 false
stop:
  ret i1 true
}
"""
