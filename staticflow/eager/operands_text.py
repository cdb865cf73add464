"""How the fast path takes up what an operation is given, as LLVM text: a part of the module of
`staticflow.eager.fast_text`, which says how to read it."""

from __future__ import annotations

__all__ = ["OPERANDS"]

OPERANDS = """
; The state of the thread, which keeps it: borrowed. A thread's number is never used again.
define internal ptr @current() {
entry:
  %python = call ptr @PyThreadState_Get()
  %number = call i64 @PyThreadState_GetID(ptr %python)
  %last = load i64, ptr @last_thread
  %known = icmp eq i64 %number, %last
  br i1 %known, label %same, label %other
same:
  %state = load ptr, ptr @last_state
  ret ptr %state
other:
  %asked = call ptr @PyObject_GetAttr(ptr @thread, ptr @name_state)
  %failed = icmp eq ptr %asked, null
  br i1 %failed, label %done, label %note
note:
  call void @Py_DecRef(ptr %asked)
  store i64 %number, ptr @last_thread
  store ptr %asked, ptr @last_state
  br label %done
done:
  ret ptr %asked
}

; Whether an operand is a tensor on an array of the host; takes note of that.
define internal i1 @open(ptr %operand) {
entry:
  %tensor = load ptr, ptr %operand
  %type = call ptr @field(ptr %tensor, i64 $TYPE)
  %exact = icmp eq ptr %type, @tensor_type
  br i1 %exact, label %inside, label %derived
derived:
  %subtype = call i32 @PyType_IsSubtype(ptr %type, ptr @tensor_type)
  %is.tensor = icmp ne i32 %subtype, 0
  br i1 %is.tensor, label %inside, label %no
inside:
  %array = call ptr @field(ptr %tensor, i64 $tensor_data)
  %unset = icmp eq ptr %array, null
  br i1 %unset, label %no, label %look
look:
  %array.type = call ptr @field(ptr %array, i64 $TYPE)
  %host = icmp eq ptr %array.type, @PyArray_Type
  br i1 %host, label %yes, label %no
yes:
  %size = call i64 @size_of(ptr %array)
  %large = icmp sge i64 %size, $LARGE
  %large.at = getelementptr %operand, ptr %operand, i64 0, i32 4
  store i1 %large, ptr %large.at
  call void @Py_IncRef(ptr %array)
  %array.at = getelementptr %operand, ptr %operand, i64 0, i32 1
  store ptr %array, ptr %array.at
  ret i1 true
no:
  ret i1 false
}

; Whether an operand is a number that does not change the dtype of the tensor beside it.
define internal i1 @number(ptr %op, ptr %operand, ptr %tensor) {
entry:
  %number = load ptr, ptr %operand
  %type = call ptr @field(ptr %number, i64 $TYPE)
  %is.float = icmp eq ptr %type, @PyFloat_Type
  %is.int = icmp eq ptr %type, @PyLong_Type
  %is.bool = icmp eq ptr %type, @PyBool_Type
  %is.either = or i1 %is.float, %is.int
  %is.number = or i1 %is.either, %is.bool
  br i1 %is.number, label %find, label %no
find:
  %like.at = getelementptr %operand, ptr %tensor, i64 0, i32 1
  %like = load ptr, ptr %like.at
  %descr = call ptr @field(ptr %like, i64 $DESCR)
  %a = ptrtoint ptr %number to i64
  %b = ptrtoint ptr %descr to i64
  %both = xor i64 %a, %b
  %high = lshr i64 %both, 4
  %place = and i64 %high, $MEMO_MASK
  %memo = getelementptr %memo, ptr @memo, i64 %place
  %number.kept = load ptr, ptr %memo
  %descr.at = getelementptr %memo, ptr %memo, i64 0, i32 1
  %descr.kept = load ptr, ptr %descr.at
  %array.at = getelementptr %memo, ptr %memo, i64 0, i32 2
  %array.kept = load ptr, ptr %array.at
  %same.number = icmp eq ptr %number, %number.kept
  %same.descr = icmp eq ptr %descr, %descr.kept
  %same = and i1 %same.number, %same.descr
  br i1 %same, label %known, label %ask
ask:
  %pair = alloca [2 x ptr]
  store ptr %number, ptr %pair
  %pair.1 = getelementptr ptr, ptr %pair, i64 1
  store ptr %descr, ptr %pair.1
  %made = call ptr @PyObject_Vectorcall(ptr @number_beside, ptr %pair, i64 2, ptr null)
  %refused = icmp eq ptr %made, null
  br i1 %refused, label %clear, label %keep
clear:
  call void @PyErr_Clear()
  br label %no
keep:
  %number.before = load ptr, ptr %memo  ; another thread may have been here meanwhile
  %array.before = load ptr, ptr %array.at
  call void @Py_IncRef(ptr %number)
  store ptr %number, ptr %memo
  store ptr %descr, ptr %descr.at
  store ptr %made, ptr %array.at
  call void @Py_IncRef(ptr %made)
  call void @Py_DecRef(ptr %number.before)
  call void @Py_DecRef(ptr %array.before)
  br label %chosen
known:
  call void @Py_IncRef(ptr %array.kept)
  br label %chosen
chosen:
  %array = phi ptr [ %made, %keep ], [ %array.kept, %known ]
  %flags.at = getelementptr %op, ptr %op, i64 0, i32 4
  %flags = load i64, ptr %flags.at
  %masked = and i64 %flags, $BY_NUMBER
  %by.number = icmp ne i64 %masked, 0
  %plain = icmp ne ptr %descr, @bfloat16
  %bare = and i1 %by.number, %plain
  %value = select i1 %bare, ptr %number, ptr %array
  call void @Py_IncRef(ptr %value)
  call void @Py_DecRef(ptr %array)
  %value.at = getelementptr %operand, ptr %operand, i64 0, i32 1
  store ptr %value, ptr %value.at
  %number.at = getelementptr %operand, ptr %operand, i64 0, i32 3
  store i1 true, ptr %number.at
  ret i1 true
no:
  ret i1 false
}

; Whether this is the usual case, with the operands opened.
define internal i1 @take(ptr %op, ptr %state, ptr %objects, i64 %count, ptr %operands) {
entry:
  %plain.is = call ptr @field(ptr %state, i64 $state_plain)
  %plain = icmp eq ptr %plain.is, @_Py_TrueStruct
  br i1 %plain, label %first, label %no
first:
  %x = load ptr, ptr %objects
  store ptr %x, ptr %operands
  %x.opens = call i1 @open(ptr %operands)
  %binary = icmp eq i64 %count, 2
  br i1 %binary, label %second, label %alone
alone:
  br i1 %x.opens, label %check, label %no
second:
  %y.at = getelementptr ptr, ptr %objects, i64 1
  %y = load ptr, ptr %y.at
  %y.operand = getelementptr %operand, ptr %operands, i64 1
  store ptr %y, ptr %y.operand
  %y.opens = call i1 @open(ptr %y.operand)
  %both = and i1 %x.opens, %y.opens
  br i1 %both, label %compare, label %mixed
compare:
  %x.array.at = getelementptr %operand, ptr %operands, i64 0, i32 1
  %x.array = load ptr, ptr %x.array.at
  %x.descr = call ptr @field(ptr %x.array, i64 $DESCR)
  %y.array.at = getelementptr %operand, ptr %operands, i64 1, i32 1
  %y.array = load ptr, ptr %y.array.at
  %y.descr = call ptr @field(ptr %y.array, i64 $DESCR)
  %same = icmp eq ptr %x.descr, %y.descr
  br i1 %same, label %check, label %no
mixed:
  %either = or i1 %x.opens, %y.opens
  %flags.at = getelementptr %op, ptr %op, i64 0, i32 4
  %flags = load i64, ptr %flags.at
  %masked = and i64 %flags, $EVEN
  %even = icmp ne i64 %masked, 0
  %may = and i1 %either, %even
  br i1 %may, label %beside, label %no
beside:
  %tensor = select i1 %x.opens, ptr %operands, ptr %y.operand
  %other = select i1 %x.opens, ptr %y.operand, ptr %operands
  %is.number = call i1 @number(ptr %op, ptr %other, ptr %tensor)
  br i1 %is.number, label %check, label %no
check:
  %of = phi ptr [ %operands, %alone ], [ %operands, %compare ], [ %tensor, %beside ]
  %array.at = getelementptr %operand, ptr %of, i64 0, i32 1
  %array = load ptr, ptr %array.at
  %dtype = call i64 @dtype_of(ptr %array)
  %bit = shl i64 1, %dtype
  %dtypes.at = getelementptr %op, ptr %op, i64 0, i32 3
  %dtypes = load i64, ptr %dtypes.at
  %common = and i64 %dtypes, %bit
  %usual = icmp ne i64 %common, 0
  ret i1 %usual
no:
  ret i1 false
}
"""
