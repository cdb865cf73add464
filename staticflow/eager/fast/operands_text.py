"""How the fast path takes up what an operation is given."""

from __future__ import annotations

__all__ = ["OPERANDS"]

OPERANDS = """
; The state of the thread, to be dropped. A thread's number is never used again; while it ends, its
; finalizers may compute when the thread itself has let go of the state.
define internal ptr @current() {
entry:
  %python = call ptr @PyThreadState_Get()
  %number = call i64 @PyThreadState_GetID(ptr %python)
  %last = load i64, ptr @last_thread
  %known = icmp eq i64 %number, %last
  br i1 %known, label %same, label %other
same:
  %state = load ptr, ptr @last_state
  call void @Py_IncRef(ptr %state)
  ret ptr %state
other:
  %asked = call ptr @PyObject_GetAttr(ptr @thread, ptr @name_state)
  %failed = icmp eq ptr %asked, null
  br i1 %failed, label %done, label %check
check:
  %type = call ptr @field(ptr %asked, i64 $TYPE)
  %right = icmp eq ptr %type, @state_type
  br i1 %right, label %note, label %refuse
refuse:
  call void @PyErr_SetObject(ptr @TypeError, ptr @no_state)
  call void @Py_DecRef(ptr %asked)
  ret ptr null
note:
  %before = load ptr, ptr @last_state
  call void @Py_IncRef(ptr %asked)
  store i64 %number, ptr @last_thread
  store ptr %asked, ptr @last_state
  call void @Py_DecRef(ptr %before)
  br label %done
done:
  ret ptr %asked
}

define internal i1 @is_recording(ptr %state) alwaysinline {
  %recording.is = call ptr @field(ptr %state, i64 $state_recording)
  %recording = icmp eq ptr %recording.is, @_Py_TrueStruct
  ret i1 %recording
}

; Whether none of the rarer switches of the thread is on.
define internal i1 @is_plain(ptr %state) alwaysinline {
  %plain.is = call ptr @field(ptr %state, i64 $state_plain)
  %plain = icmp eq ptr %plain.is, @_Py_TrueStruct
  ret i1 %plain
}

; Whether an operand is a tensor on an array of the host, whose dtype is the very object that we
; know; takes note of that.
define internal i1 @open(ptr %operand) {
entry:
  %tensor = call ptr @operand.object(ptr %operand)
  %is.tensor = call i1 @is_tensor(ptr %tensor)
  br i1 %is.tensor, label %inside, label %no
inside:
  %array = call ptr @field(ptr %tensor, i64 $tensor_data)
  %unset = icmp eq ptr %array, null
  br i1 %unset, label %no, label %look
look:
  %array.type = call ptr @field(ptr %array, i64 $TYPE)
  %host = icmp eq ptr %array.type, @PyArray_Type
  br i1 %host, label %ask, label %no
ask:
  %place = call i64 @dtype_of(ptr %array)
  %foreign = icmp eq i64 %place, $NO_DTYPE
  br i1 %foreign, label %no, label %yes
yes:
  %size = call i64 @size_of(ptr %array)
  call void @operand.set.size(ptr %operand, i64 %size)
  call void @Py_IncRef(ptr %array)
  call void @operand.set.array(ptr %operand, ptr %array)
  ret i1 true
no:
  ret i1 false
}

; Whether an operand is a number that does not change the dtype of the tensor beside it. An error is
; set if the user interrupted that.
define internal i1 @number(ptr %op, ptr %operand, ptr %tensor) {
entry:
  %number = call ptr @operand.object(ptr %operand)
  %type = call ptr @field(ptr %number, i64 $TYPE)
  %is.float = icmp eq ptr %type, @PyFloat_Type
  %is.int = icmp eq ptr %type, @PyLong_Type
  %is.bool = icmp eq ptr %type, @PyBool_Type
  %is.either = or i1 %is.float, %is.int
  %is.number = or i1 %is.either, %is.bool
  br i1 %is.number, label %find, label %no
find:
  %like = call ptr @operand.array(ptr %tensor)
  %descr = call ptr @field(ptr %like, i64 $DESCR)
  %a = ptrtoint ptr %number to i64
  %b = ptrtoint ptr %descr to i64
  %both = xor i64 %a, %b
  %high = lshr i64 %both, 4
  %place = and i64 %high, $MEMO_MASK
  %memo = getelementptr %memo, ptr @memo, i64 %place
  %number.kept = call ptr @memo.number(ptr %memo)
  %descr.kept = call ptr @memo.descr(ptr %memo)
  %array.kept = call ptr @memo.array(ptr %memo)
  %same.number = icmp eq ptr %number, %number.kept
  %same.descr = icmp eq ptr %descr, %descr.kept
  %same = and i1 %same.number, %same.descr
  br i1 %same, label %known, label %ask
ask:
  %pair = alloca [2 x ptr]
  store ptr %number, ptr %pair
  %pair.1 = getelementptr ptr, ptr %pair, i64 1
  store ptr %descr, ptr %pair.1
  call void @Py_IncRef(ptr %descr)  ; an array may be given another dtype meanwhile
  %made = call ptr @PyObject_Vectorcall(ptr @number_beside, ptr %pair, i64 2, ptr null)
  %refused = icmp eq ptr %made, null
  br i1 %refused, label %refuse, label %keep
refuse:
  call void @Py_DecRef(ptr %descr)
  call i1 @forgiven()
  br label %no
keep:
  %number.before = call ptr @memo.number(ptr %memo)  ; another thread may have been here meanwhile
  %descr.before = call ptr @memo.descr(ptr %memo)
  %array.before = call ptr @memo.array(ptr %memo)
  call void @Py_IncRef(ptr %number)
  call void @memo.set.number(ptr %memo, ptr %number)
  call void @memo.set.descr(ptr %memo, ptr %descr)
  call void @memo.set.array(ptr %memo, ptr %made)
  call void @Py_IncRef(ptr %made)
  call void @Py_DecRef(ptr %number.before)
  call void @Py_DecRef(ptr %descr.before)
  call void @Py_DecRef(ptr %array.before)
  br label %chosen
known:
  call void @Py_IncRef(ptr %array.kept)
  br label %chosen
chosen:
  %array = phi ptr [ %made, %keep ], [ %array.kept, %known ]
  %by.number = call i1 @has(ptr %op, i64 $BY_NUMBER)
  %plain = icmp ne ptr %descr, @bfloat16
  %bare = and i1 %by.number, %plain
  %value = select i1 %bare, ptr %number, ptr %array
  call void @Py_IncRef(ptr %value)
  call void @Py_DecRef(ptr %array)
  call void @operand.set.array(ptr %operand, ptr %value)
  call void @operand.set.is_number(ptr %operand, i1 true)
  ret i1 true
no:
  ret i1 false
}

; Whether this is the usual case, with the operands opened; an error may be set if it is not.
define internal i1 @take(ptr %call, ptr %state, ptr %objects) {
entry:
  %op = call ptr @call.op(ptr %call)
  %count = call i64 @call.count(ptr %call)
  %plain = call i1 @is_plain(ptr %state)
  br i1 %plain, label %tensors, label %no
tensors:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %found = phi ptr [ null, %entry ], [ %one.found, %one ]  ; the last tensor
  %others = phi i64 [ 0, %entry ], [ %one.others, %one ]  ; how many are none
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %opened
one:
  %object.at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object.at
  %operand = call ptr @operand(ptr %call, i64 %i)
  call void @operand.set.object(ptr %operand, ptr %object)
  %opens = call i1 @open(ptr %operand)
  %one.found = select i1 %opens, ptr %operand, ptr %found
  %more.others = add i64 %others, 1
  %one.others = select i1 %opens, i64 %others, i64 %more.others
  %i.next = add i64 %i, 1
  br label %tensors
opened:
  %none = icmp eq ptr %found, null
  br i1 %none, label %nothing, label %mixed
nothing:  ; what is made of attributes alone, or of numbers
  %made = icmp eq i64 %count, 0
  br i1 %made, label %yes, label %no
mixed:
  %uniform = icmp eq i64 %others, 0
  %numbers = call i1 @has(ptr %op, i64 $NUMBERS)
  %may = or i1 %uniform, %numbers
  br i1 %may, label %rule, label %no
rule:
  %any.dtypes = call i1 @has(ptr %op, i64 $ANY_DTYPES)
  br i1 %any.dtypes, label %yes, label %agree
agree:
  %array = call ptr @operand.array(ptr %found)
  %descr = call ptr @field(ptr %array, i64 $DESCR)
  %bit = call i64 @bit_of(ptr %array)
  %dtypes = call i64 @op.dtypes(ptr %op)
  %common = and i64 %dtypes, %bit
  %usual = icmp ne i64 %common, 0
  %tail = call i1 @has(ptr %op, i64 $TAIL)
  %first = zext i1 %tail to i64
  %head = call ptr @operand(ptr %call, i64 0)
  %head.array = call ptr @operand.array(ptr %head)
  %headless = icmp eq ptr %head.array, null
  %no.head = and i1 %tail, %headless
  %good.head = xor i1 %no.head, true
  %both = and i1 %usual, %good.head
  br i1 %both, label %compare, label %no
compare:
  %j = phi i64 [ %first, %agree ], [ %j.next, %same ]
  %rest = icmp slt i64 %j, %count
  br i1 %rest, label %look, label %yes
look:
  %next = call ptr @operand(ptr %call, i64 %j)
  %next.array = call ptr @operand.array(ptr %next)
  %is.other = icmp eq ptr %next.array, null
  br i1 %is.other, label %number, label %tensor
number:
  %fits = call i1 @number(ptr %op, ptr %next, ptr %found)
  br i1 %fits, label %same, label %no
tensor:
  %next.descr = call ptr @field(ptr %next.array, i64 $DESCR)
  %equal = icmp eq ptr %descr, %next.descr
  br i1 %equal, label %same, label %no
same:
  %j.next = add i64 %j, 1
  br label %compare
yes:
  ret i1 true
no:
  ret i1 false
}
"""
