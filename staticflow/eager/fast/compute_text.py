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

; Whether this is an array, or a tuple of what an op gives, and no scalar.
define internal i1 @is_whole(ptr %data) alwaysinline {
  %type = call ptr @field(ptr %data, i64 $TYPE)
  %is.array = icmp eq ptr %type, @PyArray_Type
  %is.tuple = icmp eq ptr %type, @PyTuple_Type
  %whole = or i1 %is.array, %is.tuple
  ret i1 %whole
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
  %whole = call i1 @is_whole(ptr %data)
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
  %seen = call ptr @part_of(ptr %view, ptr %array)
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
  %shaped = call ptr @part_of(ptr %view, ptr %row)
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

; What a known way gives of arrays: that of the step's kind, or, on `large` arrays, the kernel that
; computed the op last; null if these decline, or with an error set.
define internal ptr @by_known(ptr %op, ptr %step, ptr %arrays, i64 %count, i1 %large) alwaysinline {
entry:
  %unforeseen = icmp eq ptr %step, null
  br i1 %unforeseen, label %recall, label %foresee
foresee:
  %foreseen = call ptr @foreseen(ptr %step, ptr %arrays, i64 %count)
  %is.given = icmp ne ptr %foreseen, null
  %error = call ptr @PyErr_Occurred()
  %is.raised = icmp ne ptr %error, null
  %over = or i1 %is.given, %is.raised
  br i1 %over, label %done, label %recall
recall:
  %cell = call ptr @op.kernel(ptr %op)
  %kernel = call ptr @kernel_at(ptr %cell)
  %met = icmp ne ptr %kernel, null
  %may = and i1 %large, %met
  br i1 %may, label %again, label %done
again:
  %same = call ptr @tried(ptr %kernel, ptr %arrays, i64 %count)
  br label %done
done:
  %data = phi ptr [ %foreseen, %foresee ], [ null, %recall ], [ %same, %again ]
  ret ptr %data
}

; What a function of NumPy gives of arrays and attributes, a dict or null, where it does not warn;
; null with an error set if it fails.
define internal ptr @in_context(ptr %function, ptr %arrays, i64 %count, ptr %attrs,
                                 ptr %state) alwaysinline {
entry:
  %context = call ptr @field(ptr %state, i64 $state_context)
  %lost = icmp eq ptr %context, null  ; somebody deleted it
  br i1 %lost, label %done, label %enter
enter:
  call void @Py_IncRef(ptr %context)  ; what runs inside may give the state another
  %refused = call i32 @PyContext_Enter(ptr %context)
  %outside = icmp ne i32 %refused, 0
  br i1 %outside, label %leave, label %run
run:
  %data = call ptr @PyObject_VectorcallDict(ptr %function, ptr %arrays, i64 %count, ptr %attrs)
  %stuck = call i32 @PyContext_Exit(ptr %context)
  %is.stuck = icmp ne i32 %stuck, 0
  br i1 %is.stuck, label %drop, label %leave
drop:
  call void @Py_DecRef(ptr %data)
  br label %leave
leave:
  %given = phi ptr [ null, %enter ], [ %data, %run ], [ null, %drop ]
  call void @Py_DecRef(ptr %context)
  br label %done
done:
  %result = phi ptr [ null, %entry ], [ %given, %leave ]
  ret ptr %result
}

; What comes of the operands, an array or a tuple; null with an error set if there is nothing.
define internal ptr @computed(ptr %call, ptr %state) {
entry:
  %op = call ptr @call.op(ptr %call)
  %count = call i64 @call.count(ptr %call)
  %attrs = call ptr @call.attrs(ptr %call)
  %step = call ptr @call.step(ptr %call)
  %arrays = alloca ptr, i64 %count
  br label %more
more:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %any.large = phi i1 [ false, %entry ], [ %large.so.far, %one ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %measure
one:
  %operand = call ptr @operand(ptr %call, i64 %i)
  %array = call ptr @operand.array(ptr %operand)
  %array.at = getelementptr ptr, ptr %arrays, i64 %i
  store ptr %array, ptr %array.at
  %size = call i64 @operand.size(ptr %operand)
  %is.large = icmp sge i64 %size, $LARGE
  %large.so.far = or i1 %any.large, %is.large
  %next = add i64 %i, 1
  br label %more
measure:
  %wide = call i1 @is_wide(ptr %call, i64 %count)
  %large = or i1 %any.large, %wide
  %unnamed = icmp eq ptr %attrs, null
  %by.kernel = and i1 %large, %unnamed
  %is.step = icmp ne ptr %step, null
  %perhaps = or i1 %is.step, %by.kernel
  br i1 %perhaps, label %try, label %general
try:
  %known = call ptr @by_known(ptr %op, ptr %step, ptr %arrays, i64 %count, i1 %by.kernel)
  %is.known = icmp ne ptr %known, null
  br i1 %is.known, label %done, label %doubt
doubt:
  %error = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %error, null
  br i1 %raised, label %done, label %general
general:
  %which = zext i1 %large to i64
  %of.op = call ptr @op.compute(ptr %op, i64 %which)
  %own = call ptr @by_numpy(ptr %step)
  %no.own = icmp eq ptr %own, null
  %not.own = or i1 %no.own, %large
  %compute = select i1 %not.own, ptr %of.op, ptr %own
  %given.attrs = select i1 %not.own, ptr %attrs, ptr null
  %data = call ptr @in_context(ptr %compute, ptr %arrays, i64 %count, ptr %given.attrs, ptr %state)
  %failed = icmp eq ptr %data, null
  br i1 %failed, label %done, label %look
look:
  %whole = call i1 @is_whole(ptr %data)
  br i1 %whole, label %done, label %scalar
scalar:
  %scalar.at = alloca ptr
  store ptr %data, ptr %scalar.at
  %made = call ptr @PyObject_Vectorcall(ptr @asarray, ptr %scalar.at, i64 1, ptr null)
  call void @Py_DecRef(ptr %data)
  br label %done
done:
  %result = phi ptr [ %known, %try ], [ null, %doubt ], [ %data, %general ], [ %data, %look ],
                    [ %made, %scalar ]
  ret ptr %result
}

; Whether nothing is recorded of an op. An error may be set if it is not.
define internal i1 @is_unrecorded(ptr %call, ptr %state) {
entry:
  %op = call ptr @call.op(ptr %call)
  %recordable = call i1 @has(ptr %op, i64 $RECORDABLE)
  %recording = call i1 @is_recording(ptr %state)
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
  %empty = icmp eq i64 %count, 0  ; that one is everybody's
  %over = or i1 %failed, %empty
  br i1 %over, label %give, label %hide
give:
  ret ptr %tensors
hide:  ; nobody finds it while there is nothing in it
  call void @PyObject_GC_UnTrack(ptr %tensors)
  br label %more
more:
  %i = phi i64 [ 0, %hide ], [ %next, %put ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %done
one:
  %array = call ptr @PyTuple_GetItem(ptr %data, i64 %i)
  %type = call ptr @field(ptr %array, i64 $TYPE)
  %is.array = icmp eq ptr %type, @PyArray_Type
  br i1 %is.array, label %make, label %drop
make:
  %new = call ptr @tensor_of(ptr %array)
  %none = icmp eq ptr %new, null
  br i1 %none, label %drop, label %put
put:
  call i32 @PyTuple_SetItem(ptr %tensors, i64 %i, ptr %new)
  %next = add i64 %i, 1
  br label %more
drop:
  call void @Py_DecRef(ptr %tensors)
  ret ptr null
done:
  call void @PyObject_GC_Track(ptr %tensors)
  ret ptr %tensors
}
"""
