"""The fast path of elementwise operations as LLVM text, compiled once in a process.

``apply`` takes the usual case of `staticflow.eager.fast` from the tensors to NumPy and back, and
leaves everything else to the general path, which gives the same and words all errors. References
are counted as in C: what a function gives is the caller's to drop, what it is given is not, unless
it says that it *takes* it. Names with a ``$`` stand for numbers: where slots lie, how large objects
are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template

from staticflow.eager.objects_text import DECLARATIONS, OBJECTS
from staticflow.eager.operands_text import OPERANDS
from staticflow.eager.record_text import RECORD
from staticflow.runtime.fastcall_helpers import LIKE
from staticflow.runtime.fastcall_layout import DESCR, DIMS, NDIM, TYPE

__all__ = ["BY_NUMBER", "EVEN", "MEMO", "RECORDABLE", "render_core", "render_entries"]

RECORDABLE, EVEN, BY_NUMBER = 1, 2, 4
"""What an op's flags say: it has a vjp; it is elementwise; numbers reach what computes it as they
are, and not as arrays."""

MEMO = 256
"""So many numbers are remembered as arrays, by identity."""

_APPLY = """
; The array that comes of the operands; null with an error set if there is none.
define internal ptr @computed(ptr %op, ptr %state, ptr %operands, i64 %count) {
entry:
  %arrays = alloca [2 x ptr]
  %x.at = getelementptr %operand, ptr %operands, i64 0, i32 1
  %x = load ptr, ptr %x.at
  store ptr %x, ptr %arrays
  %y.at = getelementptr %operand, ptr %operands, i64 1, i32 1
  %y = load ptr, ptr %y.at
  %arrays.1 = getelementptr ptr, ptr %arrays, i64 1
  store ptr %y, ptr %arrays.1
  %context = call ptr @field(ptr %state, i64 $state_context)
  %refused = call i32 @PyContext_Enter(ptr %context)
  %outside = icmp ne i32 %refused, 0
  br i1 %outside, label %nothing, label %run
run:
  %x.large.at = getelementptr %operand, ptr %operands, i64 0, i32 4
  %x.large = load i1, ptr %x.large.at
  %y.large.at = getelementptr %operand, ptr %operands, i64 1, i32 4
  %y.large = load i1, ptr %y.large.at
  %large = or i1 %x.large, %y.large
  %which = zext i1 %large to i64
  %compute.at = getelementptr %op, ptr %op, i64 0, i32 1, i64 %which
  %compute = load ptr, ptr %compute.at
  %data = call ptr @PyObject_Vectorcall(ptr %compute, ptr %arrays, i64 %count, ptr null)
  call i32 @PyContext_Exit(ptr %context)
  %failed = icmp eq ptr %data, null
  br i1 %failed, label %nothing, label %look
nothing:
  ret ptr null
look:
  %type = call ptr @field(ptr %data, i64 $TYPE)
  %is.array = icmp eq ptr %type, @PyArray_Type
  br i1 %is.array, label %done, label %scalar
scalar:
  %scalar.at = alloca ptr
  store ptr %data, ptr %scalar.at
  %array = call ptr @PyObject_Vectorcall(ptr @asarray, ptr %scalar.at, i64 1, ptr null)
  call void @Py_DecRef(ptr %data)
  ret ptr %array
done:
  ret ptr %data
}

; The op on `count` objects: `general(op, objects)`, by the fast path if it can.
define internal ptr @apply(ptr %op, ptr %objects, i64 %count) {
entry:
  %operands = alloca [2 x %operand]
  store [2 x %operand] zeroinitializer, ptr %operands
  %state = call ptr @current()
  %lost = icmp eq ptr %state, null
  br i1 %lost, label %raise, label %look
look:
  %usual = call i1 @take(ptr %op, ptr %state, ptr %objects, i64 %count, ptr %operands)
  br i1 %usual, label %run, label %leave
run:
  %data = call ptr @computed(ptr %op, ptr %state, ptr %operands, i64 %count)
  %failed = icmp eq ptr %data, null
  br i1 %failed, label %ask, label %wrap
ask:
  %worded = call i32 @PyErr_ExceptionMatches(ptr @Exception)
  %is.worded = icmp ne i32 %worded, 0
  br i1 %is.worded, label %clear, label %raise
clear:
  call void @PyErr_Clear()
  br label %leave
leave:
  call void @drop(ptr %operands)
  %left = call ptr @leave(ptr %op, ptr %objects, i64 %count)
  ret ptr %left
wrap:
  %out = call ptr @like(ptr @tensor_example, i64 $tensor_size, i64 0)
  %no.out = icmp eq ptr %out, null
  br i1 %no.out, label %alone, label %hold
alone:
  call void @Py_DecRef(ptr %data)
  br label %raise
hold:
  call i1 @put(ptr %out, i64 $tensor_data, ptr %data)
  %recording.is = call ptr @field(ptr %state, i64 $state_recording)
  %recording = icmp eq ptr %recording.is, @_Py_TrueStruct
  %flags.at = getelementptr %op, ptr %op, i64 0, i32 4
  %flags = load i64, ptr %flags.at
  %masked = and i64 %flags, $RECORDABLE
  %recordable = icmp ne i64 %masked, 0
  %both = and i1 %recording, %recordable
  br i1 %both, label %record, label %done
record:
  %stopped = call i1 @record(ptr %op, ptr %operands, i64 %count, ptr %out, ptr %data)
  br i1 %stopped, label %undo, label %done
undo:
  call void @Py_DecRef(ptr %out)
  br label %raise
done:
  call void @drop(ptr %operands)
  ret ptr %out
raise:
  call void @drop(ptr %operands)
  ret ptr null
}

define internal void @drop(ptr %operands) {
  %x.at = getelementptr %operand, ptr %operands, i64 0, i32 1
  %x = load ptr, ptr %x.at
  call void @Py_DecRef(ptr %x)
  %x.edge.at = getelementptr %operand, ptr %operands, i64 0, i32 2
  %x.edge = load ptr, ptr %x.edge.at
  call void @Py_DecRef(ptr %x.edge)
  %y.at = getelementptr %operand, ptr %operands, i64 1, i32 1
  %y = load ptr, ptr %y.at
  call void @Py_DecRef(ptr %y)
  %y.edge.at = getelementptr %operand, ptr %operands, i64 1, i32 2
  %y.edge = load ptr, ptr %y.edge.at
  call void @Py_DecRef(ptr %y.edge)
  ret void
}

; The op by the general path.
define internal ptr @leave(ptr %op, ptr %objects, i64 %count) {
entry:
  %pair = alloca [2 x ptr]
  %record = load ptr, ptr %op
  store ptr %record, ptr %pair
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
  %args.at = getelementptr ptr, ptr %pair, i64 1
  store ptr %args, ptr %args.at
  %result = call ptr @PyObject_Vectorcall(ptr @general, ptr %pair, i64 2, ptr null)
  call void @Py_DecRef(ptr %args)
  ret ptr %result
}

; The op on what a call gives; names, and a wrong number of arguments, are for the op itself.
define ptr @called(ptr %op, i64 %arity, ptr %objects, i64 %count, ptr %names) {
entry:
  %unnamed = icmp eq ptr %names, null
  %right = icmp eq i64 %count, %arity
  %usual = and i1 %unnamed, %right
  br i1 %usual, label %here, label %there
here:
  %result = call ptr @apply(ptr %op, ptr %objects, i64 %count)
  ret ptr %result
there:
  %record = load ptr, ptr %op
  %sorted = call ptr @PyObject_Vectorcall(ptr %record, ptr %objects, i64 %count, ptr %names)
  ret ptr %sorted
}

; The same on an object and what is given beside it.
define ptr @called_on(ptr %op, i64 %arity, ptr %self, ptr %args, i64 %count, ptr %names) {
entry:
  %unnamed = icmp eq ptr %names, null
  br i1 %unnamed, label %gather, label %named
named:
  %names.count = call i64 @PyTuple_Size(ptr %names)
  br label %gather
gather:
  %extra = phi i64 [ 0, %entry ], [ %names.count, %named ]
  %given = add i64 %count, %extra
  %all = add i64 %given, 1
  %objects = alloca ptr, i64 %all
  store ptr %self, ptr %objects
  br label %more
more:
  %i = phi i64 [ 0, %gather ], [ %next, %one ]
  %left = icmp slt i64 %i, %given
  br i1 %left, label %one, label %call
one:
  %from = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %from
  %next = add i64 %i, 1
  %to = getelementptr ptr, ptr %objects, i64 %next
  store ptr %object, ptr %to
  br label %more
call:
  %positional = add i64 %count, 1
  %result = call ptr @called(ptr %op, i64 %arity, ptr %objects, i64 %positional, ptr %names)
  ret ptr %result
}
"""

_ENTRIES = """
%op = type { ptr, [2 x ptr], [2 x ptr], i64, i64, [3 x i64] }
@ops = external global %op
declare ptr @called(ptr, i64, ptr, i64, ptr)
declare ptr @called_on(ptr, i64, ptr, ptr, i64, ptr)
"""

_ENTRY = """
; The forms of one op: a function, a method, and the method of the operator whose operands stand the
; other way round.
define ptr @function_$op(ptr %self, ptr %args, i64 %count, ptr %names) {
  %op = getelementptr %op, ptr @ops, i64 $op
  %result = call ptr @called(ptr %op, i64 $arity, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}

define ptr @method_$op(ptr %self, ptr %args, i64 %count, ptr %names) {
  %op = getelementptr %op, ptr @ops, i64 $op
  %result = call ptr @called_on(ptr %op, i64 $arity, ptr %self, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}

define ptr @reflected_$op(ptr %self, ptr %args, i64 %count, ptr %names) {
  %op = getelementptr %op, ptr @ops, i64 $op
  %objects = alloca [2 x ptr]
  %last = getelementptr ptr, ptr %objects, i64 1
  store ptr %self, ptr %last
  %one = icmp eq i64 %count, 1
  br i1 %one, label %swap, label %call
swap:
  %other = load ptr, ptr %args
  store ptr %other, ptr %objects
  br label %call
call:
  %first = phi ptr [ %last, %0 ], [ %objects, %swap ]
  %given = phi i64 [ 1, %0 ], [ 2, %swap ]
  %result = call ptr @called(ptr %op, i64 $arity, ptr %first, i64 %given, ptr null)
  ret ptr %result
}
"""


def render_core(numbers: Mapping[str, int]) -> str:
    """The module of ``called``; ``numbers`` are those that stand for slots."""
    text = DECLARATIONS + LIKE + OBJECTS + OPERANDS + RECORD + _APPLY
    return Template(text).substitute(
        numbers, TYPE=TYPE, DESCR=DESCR, NDIM=NDIM, DIMS=DIMS, RECORDABLE=RECORDABLE, EVEN=EVEN,
        BY_NUMBER=BY_NUMBER, MEMO_MASK=MEMO - 1,
    )  # fmt: skip


def render_entries(arities: Sequence[int]) -> str:
    """The module of the forms of ops of so many arguments, which are short."""
    entry = Template(_ENTRY)
    return _ENTRIES + "".join(entry.substitute(op=i, arity=n) for i, n in enumerate(arities))
