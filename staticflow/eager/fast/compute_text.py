"""How the fast path calls what computes an op."""

from __future__ import annotations

__all__ = ["COMPUTE"]

COMPUTE = """
; Whether a tensor and another of another shape make a large one.
define internal i1 @is_wide(ptr %call, i64 %count) {
entry:
  %two = icmp eq i64 %count, 2
  br i1 %two, label %look, label %no
look:
  %x = call ptr @operand(ptr %call, i64 0)
  %y = call ptr @operand(ptr %call, i64 1)
  %x.size = call i64 @operand.size(ptr %x)
  %y.size = call i64 @operand.size(ptr %y)
  %most = mul i64 %x.size, %y.size  ; 0 of a number
  %perhaps = icmp sge i64 %most, $LARGE
  br i1 %perhaps, label %measure, label %no
measure:
  %a = call ptr @operand.array(ptr %x)
  %b = call ptr @operand.array(ptr %y)
  %size = call i64 @joint_size(ptr %a, ptr %b)
  %large = icmp sge i64 %size, $LARGE
  ret i1 %large
no:
  ret i1 false
}

; What a kernel gives of arrays; null if it declines, or with an error set if it fails.
define internal ptr @tried(ptr %kernel, ptr %arrays, i64 %count) {
entry:
  call void @Py_IncRef(ptr %kernel)  ; while it runs another may take its place
  %data = call ptr @PyObject_Vectorcall(ptr %kernel, ptr %arrays, i64 %count, ptr null)
  call void @Py_DecRef(ptr %kernel)
  %failed = icmp eq ptr %data, null
  br i1 %failed, label %nothing, label %look
look:
  %type = call ptr @field(ptr %data, i64 $TYPE)
  %is.array = icmp eq ptr %type, @PyArray_Type
  %is.tuple = icmp eq ptr %type, @PyTuple_Type
  %whole = or i1 %is.array, %is.tuple
  br i1 %whole, label %done, label %decline
decline:  ; of arrays that are not as it takes them, or with the number of an error
  call void @Py_DecRef(ptr %data)
  br label %nothing
nothing:
  ret ptr null
done:
  ret ptr %data
}

; The kernel that is where an address says; null if none is, or if there is no address.
define internal ptr @kernel_at(ptr %cell) {
entry:
  %none = icmp eq ptr %cell, null
  br i1 %none, label %without, label %with
without:
  ret ptr null
with:
  %kernel = load ptr, ptr %cell
  ret ptr %kernel
}

; What a step gives of arrays by what is known of its kind; null if nothing is, or if that declines.
define internal ptr @foreseen(ptr %step, ptr %arrays, i64 %count) {
entry:
  %view = call ptr @step.view(ptr %step)
  %compute = call ptr @step.compute(ptr %step)
  %is.view = icmp ne ptr %view, null
  %open = icmp eq ptr %compute, null
  br i1 %open, label %see, label %ask
see:
  %array = load ptr, ptr %arrays
  br i1 %is.view, label %part, label %nothing
part:
  %seen = call ptr @strided(ptr %view, ptr %array)
  ret ptr %seen
ask:
  %vector = call ptr @step.vector(ptr %step)
  %is.flat = icmp ne ptr %vector, null
  br i1 %is.flat, label %flat, label %run
run:
  %data = call ptr @tried(ptr %compute, ptr %arrays, i64 %count)
  ret ptr %data
flat:  ; the vector stands for the second array, and the result is seen in the shape of that
  %second.at = getelementptr ptr, ptr %arrays, i64 1
  %second = load ptr, ptr %second.at
  store ptr %vector, ptr %second.at
  %row = call ptr @tried(ptr %compute, ptr %arrays, i64 %count)
  store ptr %second, ptr %second.at
  %declined = icmp eq ptr %row, null
  br i1 %declined, label %nothing, label %shape
shape:
  %shaped = call ptr @strided(ptr %view, ptr %row)
  call void @Py_DecRef(ptr %row)
  ret ptr %shaped
nothing:
  ret ptr null
}

; What of NumPy computes a step of small arrays alone; null if that is not known, or if there is no
; step.
define internal ptr @by_numpy(ptr %step) {
entry:
  %none = icmp eq ptr %step, null
  br i1 %none, label %nothing, label %look
look:
  %function = call ptr @step.by_numpy(ptr %step)
  ret ptr %function
nothing:
  ret ptr null
}

; What comes of the operands, an array or a tuple; null with an error set if there is nothing.
define internal ptr @computed(ptr %call, ptr %state) {
entry:
  %op = call ptr @call.op(ptr %call)
  %count = call i64 @call.count(ptr %call)
  %attrs = call ptr @call.attrs(ptr %call)
  %arrays = alloca ptr, i64 %count
  br label %more
more:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %large = phi i1 [ false, %entry ], [ %any.large, %one ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %enter
one:
  %operand = call ptr @operand(ptr %call, i64 %i)
  %array = call ptr @operand.array(ptr %operand)
  %array.at = getelementptr ptr, ptr %arrays, i64 %i
  store ptr %array, ptr %array.at
  %size = call i64 @operand.size(ptr %operand)
  %is.large = icmp sge i64 %size, $LARGE
  %any.large = or i1 %large, %is.large
  %next = add i64 %i, 1
  br label %more
enter:
  %step = call ptr @call.step(ptr %call)
  %unforeseen = icmp eq ptr %step, null
  br i1 %unforeseen, label %measure, label %foresee
foresee:
  %foreseen = call ptr @foreseen(ptr %step, ptr %arrays, i64 %count)
  %known = icmp ne ptr %foreseen, null
  br i1 %known, label %given, label %check
given:
  ret ptr %foreseen
check:
  %error = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %error, null
  br i1 %raised, label %nothing, label %measure
measure:
  %wide = call i1 @is_wide(ptr %call, i64 %count)
  %makes.large = or i1 %large, %wide
  %unnamed = icmp eq ptr %attrs, null
  %by.kernel = and i1 %makes.large, %unnamed
  br i1 %by.kernel, label %recall, label %general
recall:
  %cell = call ptr @op.kernel(ptr %op)
  %kernel = call ptr @kernel_at(ptr %cell)
  %unmet = icmp eq ptr %kernel, null
  br i1 %unmet, label %general, label %again
again:
  %same = call ptr @tried(ptr %kernel, ptr %arrays, i64 %count)
  %suits = icmp ne ptr %same, null
  br i1 %suits, label %repeated, label %doubt
repeated:
  ret ptr %same
doubt:
  %fault = call ptr @PyErr_Occurred()
  %faulty = icmp ne ptr %fault, null
  br i1 %faulty, label %nothing, label %general
general:
  %context = call ptr @field(ptr %state, i64 $state_context)
  call void @Py_IncRef(ptr %context)  ; what runs inside may give the state another
  %refused = call i32 @PyContext_Enter(ptr %context)
  %outside = icmp ne i32 %refused, 0
  br i1 %outside, label %refuse, label %run
refuse:
  call void @Py_DecRef(ptr %context)
  br label %nothing
run:
  %which = zext i1 %makes.large to i64
  %of.op = call ptr @op.compute(ptr %op, i64 %which)
  %own = call ptr @by_numpy(ptr %step)
  %no.own = icmp eq ptr %own, null
  %not.own = or i1 %no.own, %makes.large
  %compute = select i1 %not.own, ptr %of.op, ptr %own
  %given.attrs = select i1 %not.own, ptr %attrs, ptr null
  %data = call ptr @PyObject_VectorcallDict(ptr %compute, ptr %arrays, i64 %count,
                                            ptr %given.attrs)
  call i32 @PyContext_Exit(ptr %context)
  call void @Py_DecRef(ptr %context)
  %failed = icmp eq ptr %data, null
  br i1 %failed, label %nothing, label %look
nothing:
  ret ptr null
look:
  %type = call ptr @field(ptr %data, i64 $TYPE)
  %is.array = icmp eq ptr %type, @PyArray_Type
  %is.tuple = icmp eq ptr %type, @PyTuple_Type
  %whole = or i1 %is.array, %is.tuple
  br i1 %whole, label %done, label %scalar
scalar:
  %scalar.at = alloca ptr
  store ptr %data, ptr %scalar.at
  %made = call ptr @PyObject_Vectorcall(ptr @asarray, ptr %scalar.at, i64 1, ptr null)
  call void @Py_DecRef(ptr %data)
  ret ptr %made
done:
  ret ptr %data
}

; Whether nothing is recorded of an op. An error may be set if it is not.
define internal i1 @is_unrecorded(ptr %call, ptr %state) {
entry:
  %op = call ptr @call.op(ptr %call)
  %recordable = call i1 @has(ptr %op, i64 $RECORDABLE)
  %recording.is = call ptr @field(ptr %state, i64 $state_recording)
  %recording = icmp eq ptr %recording.is, @_Py_TrueStruct
  %may = and i1 %recordable, %recording
  br i1 %may, label %look, label %yes
look:
  %wanted = call i64 @find_edges(ptr %call)
  %none = icmp eq i64 %wanted, 0
  ret i1 %none
yes:
  ret i1 true
}

; The arrays of a tuple as tensors; null if they are not all arrays, or with an error set.
define internal ptr @wrapped(ptr %data) {
entry:
  %count = call i64 @PyTuple_Size(ptr %data)
  %tensors = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %tensors, null
  br i1 %failed, label %nothing, label %more
more:
  %i = phi i64 [ 0, %entry ], [ %next, %put ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %done
one:
  %array = call ptr @PyTuple_GetItem(ptr %data, i64 %i)
  %type = call ptr @field(ptr %array, i64 $TYPE)
  %is.array = icmp eq ptr %type, @PyArray_Type
  br i1 %is.array, label %make, label %drop
make:
  %new = call ptr @like(ptr @tensor_example, i64 $tensor_size, i64 0)
  %none = icmp eq ptr %new, null
  br i1 %none, label %drop, label %put
put:
  call void @Py_IncRef(ptr %array)
  call i1 @put(ptr %new, i64 $tensor_data, ptr %array)
  call i32 @PyTuple_SetItem(ptr %tensors, i64 %i, ptr %new)
  %next = add i64 %i, 1
  br label %more
drop:
  call void @Py_DecRef(ptr %tensors)
  br label %nothing
nothing:
  ret ptr null
done:
  ret ptr %tensors
}
"""
