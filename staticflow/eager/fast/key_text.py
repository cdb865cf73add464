"""What a call is told by when its kind is looked for.

A kind of call is a row of words, the *key*: the function, the default dtype, and what each argument
is. Of a tensor that is its dtype, sizes and strides, or which one before it is the same; of an int
or a float its value, of what else may be (None, bools, strings, dtypes) the object, of a list, a
tuple or a slice what is in it.
"""

from __future__ import annotations

__all__ = ["KEYS"]

KEYS = """
@default_dtypes = external global i8
@dtype_type = external global i8
@PyList_Type = external global i8
@PySlice_Type = external global i8
@PyUnicode_Type = external global i8
@_Py_EllipsisObject = external global i8

declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyDict_GetItem(ptr, ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare i32 @memcmp(ptr, ptr, i64)

; Writes a word; false if there is no room.
define internal i1 @word(ptr %key, i64 %value) alwaysinline {
entry:
  %count = call i64 @key.count(ptr %key)
  %room = icmp slt i64 %count, $WORDS
  br i1 %room, label %write, label %full
write:
  %words = call ptr @key.words(ptr %key)
  %at = getelementptr i64, ptr %words, i64 %count
  store i64 %value, ptr %at
  %next = add i64 %count, 1
  call void @key.set.count(ptr %key, i64 %next)
  ret i1 true
full:
  ret i1 false
}

define internal i1 @word_of(ptr %key, ptr %object) {
  %value = ptrtoint ptr %object to i64
  %written = call i1 @word(ptr %key, i64 %value)
  ret i1 %written
}

; What a tensor is to a key; false if it is none of the host, or of an unknown dtype.
define internal i1 @describe_tensor(ptr %key, ptr %tensor) {
entry:
  %array = call ptr @field(ptr %tensor, i64 $tensor_data)
  %unset = icmp eq ptr %array, null
  br i1 %unset, label %no, label %look
look:
  %type = call ptr @field(ptr %array, i64 $TYPE)
  %host = icmp eq ptr %type, @PyArray_Type
  br i1 %host, label %ask, label %no
ask:
  %place = call i64 @dtype_of(ptr %array)
  %foreign = icmp eq i64 %place, $NO_DTYPE
  br i1 %foreign, label %no, label %enter
enter:
  %count = call i64 @key.tensor_count(ptr %key)
  %tensors = call ptr @key.tensors(ptr %key)
  br label %before
before:
  %j = phi i64 [ 0, %enter ], [ %j.next, %another ]
  %j.left = icmp slt i64 %j, %count
  br i1 %j.left, label %compare, label %new
compare:
  %one.at = getelementptr ptr, ptr %tensors, i64 %j
  %one = load ptr, ptr %one.at
  %again = icmp eq ptr %one, %tensor
  br i1 %again, label %same, label %another
another:
  %j.next = add i64 %j, 1
  br label %before
same:
  %j.high = shl i64 %j, 8
  %reference = or i64 %j.high, $THE_SAME
  %written = call i1 @word(ptr %key, i64 %reference)
  ret i1 %written
new:
  %room = icmp slt i64 %count, $MOST
  br i1 %room, label %note, label %no
note:
  %at = getelementptr ptr, ptr %tensors, i64 %count
  store ptr %tensor, ptr %at
  %more = add i64 %count, 1
  call void @key.set.tensor_count(ptr %key, i64 %more)
  %ndim.at = getelementptr i8, ptr %array, i64 $NDIM
  %ndim = load i32, ptr %ndim.at
  %wide = zext i32 %ndim to i64
  %ndim.high = shl i64 %wide, 16
  %place.high = shl i64 %place, 8
  %both = or i64 %ndim.high, %place.high
  %head = or i64 %both, $A_TENSOR
  %good = call i1 @word(ptr %key, i64 %head)
  %sizes = call ptr @field(ptr %array, i64 $DIMS)
  %strides = call ptr @field(ptr %array, i64 $STRIDES)
  br label %axes
axes:
  %i = phi i64 [ 0, %note ], [ %next, %axis ]
  %so.far = phi i1 [ %good, %note ], [ %fits, %axis ]
  %left = icmp slt i64 %i, %wide
  %go.on = and i1 %left, %so.far
  br i1 %go.on, label %axis, label %done
axis:
  %size.at = getelementptr i64, ptr %sizes, i64 %i
  %size = load i64, ptr %size.at
  call i1 @word(ptr %key, i64 %size)
  %stride.at = getelementptr i64, ptr %strides, i64 %i
  %stride = load i64, ptr %stride.at
  %fits = call i1 @word(ptr %key, i64 %stride)
  %next = add i64 %i, 1
  br label %axes
done:
  ret i1 %so.far
no:
  ret i1 false
}

; Whether an object is one of those that a key holds as they are.
define internal i1 @is_itself(ptr %object, ptr %type) {
  %none = icmp eq ptr %object, @_Py_NoneStruct
  %ellipsis = icmp eq ptr %object, @_Py_EllipsisObject
  %float = icmp eq ptr %object, @PyFloat_Type
  %int = icmp eq ptr %object, @PyLong_Type
  %bool = icmp eq ptr %object, @PyBool_Type
  %of.bool = icmp eq ptr %type, @PyBool_Type
  %of.str = icmp eq ptr %type, @PyUnicode_Type
  %of.dtype = icmp eq ptr %type, @dtype_type
  %a = or i1 %none, %ellipsis
  %b = or i1 %float, %int
  %c = or i1 %bool, %of.bool
  %d = or i1 %of.str, %of.dtype
  %ab = or i1 %a, %b
  %cd = or i1 %c, %d
  %any = or i1 %ab, %cd
  ret i1 %any
}

; Writes what an argument is to a key; false if it has no place in one. An error may be set then.
define internal i1 @describe(ptr %key, ptr %object) {
entry:
  %type = call ptr @field(ptr %object, i64 $TYPE)
  %exact = icmp eq ptr %type, @tensor_type
  br i1 %exact, label %tensor, label %numbers
numbers:
  %is.int = icmp eq ptr %type, @PyLong_Type
  br i1 %is.int, label %int, label %others
others:
  %itself = call i1 @is_itself(ptr %object, ptr %type)
  br i1 %itself, label %whole, label %containers
containers:
  %is.tuple = icmp eq ptr %type, @PyTuple_Type
  br i1 %is.tuple, label %tuple, label %lists
lists:
  %is.list = icmp eq ptr %type, @PyList_Type
  br i1 %is.list, label %list, label %slices
slices:
  %is.slice = icmp eq ptr %type, @PySlice_Type
  br i1 %is.slice, label %slice, label %floats
floats:
  %is.float = icmp eq ptr %type, @PyFloat_Type
  br i1 %is.float, label %float, label %derived
derived:
  %subtype = call i32 @PyType_IsSubtype(ptr %type, ptr @tensor_type)
  %is.tensor = icmp ne i32 %subtype, 0
  br i1 %is.tensor, label %tensor, label %no
tensor:
  %described = call i1 @describe_tensor(ptr %key, ptr %object)
  ret i1 %described
int:
  %value = call i64 @PyLong_AsLongLong(ptr %object)
  %perhaps = icmp eq i64 %value, -1
  br i1 %perhaps, label %check, label %small
check:
  %error = call ptr @PyErr_Occurred()
  %large = icmp ne ptr %error, null
  br i1 %large, label %clear, label %small
clear:
  call void @PyErr_Clear()
  br label %no
small:
  call i1 @word(ptr %key, i64 $AN_INT)
  %int.written = call i1 @word(ptr %key, i64 %value)
  ret i1 %int.written
float:
  %number = call double @PyFloat_AsDouble(ptr %object)
  %bits = bitcast double %number to i64
  call i1 @word(ptr %key, i64 $A_FLOAT)
  %float.written = call i1 @word(ptr %key, i64 %bits)
  ret i1 %float.written
whole:
  %written = call i1 @word_of(ptr %key, ptr %object)
  ret i1 %written
slice:
  %slice.written = call i1 @word(ptr %key, i64 $A_SLICE)
  br i1 %slice.written, label %bounds.of, label %no  ; there may be slices in slices without end
bounds.of:
  %bounds = getelementptr i8, ptr %object, i64 $HEAD
  %bounded = call i1 @describe_all(ptr %key, ptr %bounds, i64 3)
  ret i1 %bounded
tuple:
  %size = call i64 @PyTuple_Size(ptr %object)
  call i1 @word(ptr %key, i64 $A_TUPLE)
  br label %items
list:
  %length = call i64 @PyList_Size(ptr %object)
  call i1 @word(ptr %key, i64 $A_LIST)
  br label %items
items:
  %count = phi i64 [ %size, %tuple ], [ %length, %list ]
  %room = call i1 @word(ptr %key, i64 %count)
  br label %more
more:
  %i = phi i64 [ 0, %items ], [ %next, %one ]
  %so.far = phi i1 [ %room, %items ], [ %fits, %one ]
  %left = icmp slt i64 %i, %count
  %go.on = and i1 %left, %so.far
  br i1 %go.on, label %pick, label %done
pick:
  br i1 %is.tuple, label %of.tuple, label %of.list
of.tuple:
  %tuple.item = call ptr @PyTuple_GetItem(ptr %object, i64 %i)
  br label %one
of.list:
  %list.item = call ptr @PyList_GetItem(ptr %object, i64 %i)
  br label %one
one:
  %item = phi ptr [ %tuple.item, %of.tuple ], [ %list.item, %of.list ]
  %fits = call i1 @describe(ptr %key, ptr %item)
  %next = add i64 %i, 1
  br label %more
done:
  ret i1 %so.far
no:
  ret i1 false
}

define internal i1 @describe_all(ptr %key, ptr %objects, i64 %count) {
entry:
  br label %more
more:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %yes
one:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %at
  %fits = call i1 @describe(ptr %key, ptr %object)
  %next = add i64 %i, 1
  br i1 %fits, label %more, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Writes the key of a call; false if there is none.
define internal i1 @describe_call(ptr %key, ptr %function, ptr %self, ptr %args, i64 %count,
                                  ptr %names) {
entry:
  call i1 @word_of(ptr %key, ptr %function)
  %default = call ptr @PyDict_GetItem(ptr @default_dtypes, ptr @PyFloat_Type)
  call i1 @word_of(ptr %key, ptr %default)
  %without = icmp eq ptr %self, null
  br i1 %without, label %rest, label %first
first:
  %self.fits = call i1 @describe(ptr %key, ptr %self)
  br i1 %self.fits, label %rest, label %no
rest:
  %unnamed = icmp eq ptr %names, null
  br i1 %unnamed, label %values, label %named
named:
  %names.fit = call i1 @describe(ptr %key, ptr %names)
  br i1 %names.fit, label %values, label %no
values:
  %all = call i64 @given_count(i64 %count, ptr %names)
  %args.fit = call i1 @describe_all(ptr %key, ptr %args, i64 %all)
  br i1 %args.fit, label %allowed, label %no
allowed:
  %most = call i64 @function.tensors(ptr %function)
  %tensors = call i64 @key.tensor_count(ptr %key)
  %good = icmp sle i64 %tensors, %most
  ret i1 %good
no:
  ret i1 false
}

; Never 0.
define internal i64 @hash(ptr %words, i64 %count) {
entry:
  br label %more
more:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %sum = phi i64 [ 1, %entry ], [ %folded, %one ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %done
one:
  %at = getelementptr i64, ptr %words, i64 %i
  %word = load i64, ptr %at
  %mixed = xor i64 %sum, %word
  %spread = mul i64 %mixed, 11400714819323198485  ; 2**64 over the golden ratio
  %high = lshr i64 %spread, 32
  %folded = xor i64 %spread, %high
  %next = add i64 %i, 1
  br label %more
done:
  %result = or i64 %sum, 1
  ret i64 %result
}

; A key and the arrays of the tensors that it describes, as a tuple; null with an error set if that
; cannot be had. The arrays take the places of the tensors, before anything else runs.
define internal ptr @kind_of(ptr %words, i64 %bytes, ptr %tensors, i64 %count) {
entry:
  br label %more
more:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %hold
one:
  %at = getelementptr ptr, ptr %tensors, i64 %i
  %tensor = load ptr, ptr %at
  %array = call ptr @field(ptr %tensor, i64 $tensor_data)
  store ptr %array, ptr %at
  %next = add i64 %i, 1
  br label %more
hold:
  call void @hold_all(ptr %tensors, i64 %count)
  %arrays = call ptr @PyTuple_New(i64 %count)
  %no.arrays = icmp eq ptr %arrays, null
  br i1 %no.arrays, label %drop, label %fill
drop:
  call void @drop_all(ptr %tensors, i64 %count)
  ret ptr null
fill:
  %j = phi i64 [ 0, %hold ], [ %j.next, %put ]
  %j.left = icmp slt i64 %j, %count
  br i1 %j.left, label %put, label %write
put:
  %from = getelementptr ptr, ptr %tensors, i64 %j
  %item = load ptr, ptr %from
  call i32 @PyTuple_SetItem(ptr %arrays, i64 %j, ptr %item)
  %j.next = add i64 %j, 1
  br label %fill
write:
  %key = call ptr @PyBytes_FromStringAndSize(ptr %words, i64 %bytes)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %lose, label %both
lose:
  call void @Py_DecRef(ptr %arrays)
  ret ptr null
both:
  %kind = call ptr @pair(ptr %key, ptr %arrays)
  ret ptr %kind
}
"""
