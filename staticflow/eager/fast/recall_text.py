"""How a call of a kind that was met before runs the ops that it came to.

What follows from the key of a call (`staticflow.eager.fast.key_text`) is a *plan*, which
`staticflow.eager.fast.plans` makes.
"""

from __future__ import annotations

__all__ = ["OFTEN", "PLACES", "RECALL", "SLOTS"]

OFTEN = 100
"""So many calls of a kind are worth the 30 ms that a kernel takes to compile."""

SLOTS = 4096
"""So many kinds of calls are remembered at most."""

PLACES = 4
"""In so many slots, the newest first, the plan of one may lie."""

RECALL = """
@slots = external global %slot
@name_hasten = external global i8
declare ptr @PyObject_CallObject(ptr, ptr)

; The slot of the plan of a key; null if it has none.
define internal ptr @find(ptr %words, i64 %count, i64 %hash) {
entry:
  %high = lshr i64 %hash, 1
  %place = and i64 %high, $SLOTS_MASK
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %other ]
  %at = or i64 %place, %i
  %slot = getelementptr %slot, ptr @slots, i64 %at
  %hash.there = call i64 @slot.hash(ptr %slot)
  %perhaps = icmp eq i64 %hash.there, %hash
  br i1 %perhaps, label %compare, label %other
compare:
  %plan = call ptr @slot.plan(ptr %slot)
  %key = call ptr @plan.key(ptr %plan)
  %its.count = call i64 @plan.words(ptr %plan)
  %as.long = icmp eq i64 %count, %its.count
  br i1 %as.long, label %words.of, label %other
words.of:
  %bytes = mul i64 %count, 8
  %differ = call i32 @memcmp(ptr %key, ptr %words, i64 %bytes)
  %same = icmp eq i32 %differ, 0
  br i1 %same, label %found, label %other
other:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, $PLACES
  br i1 %more, label %look, label %none
found:
  ret ptr %slot
none:
  ret ptr null
}

; Puts a plan, which `owner` holds, where keys of a hash look first; what lay there, and behind it,
; moves on, and what lay last is dropped. A slot holds its owner. Nothing else runs meanwhile.
define void @install(i64 %hash, ptr %plan, ptr %owner) {
entry:
  %high = lshr i64 %hash, 1
  %place = and i64 %high, $SLOTS_MASK
  call void @Py_IncRef(ptr %owner)
  br label %one
one:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %newer.hash = phi i64 [ %hash, %entry ], [ %its.hash, %one ]
  %newer.plan = phi ptr [ %plan, %entry ], [ %its.plan, %one ]
  %newer.owner = phi ptr [ %owner, %entry ], [ %its.owner, %one ]
  %at = or i64 %place, %i
  %slot = getelementptr %slot, ptr @slots, i64 %at
  %its.hash = call i64 @slot.hash(ptr %slot)
  %its.plan = call ptr @slot.plan(ptr %slot)
  %its.owner = call ptr @slot.owner(ptr %slot)
  call void @slot.set.hash(ptr %slot, i64 %newer.hash)
  call void @slot.set.plan(ptr %slot, ptr %newer.plan)
  call void @slot.set.owner(ptr %slot, ptr %newer.owner)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, $PLACES
  br i1 %more, label %one, label %done
done:
  call void @Py_DecRef(ptr %its.owner)
  ret void
}

; Whether a key is looked for in vain a second time. Its slots remember the last ones that were.
define internal i1 @is_second(i64 %hash) {
entry:
  %high = lshr i64 %hash, 1
  %place = and i64 %high, $SLOTS_MASK
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %look ]
  %newer = phi i64 [ %hash, %entry ], [ %before, %look ]
  %at = or i64 %place, %i
  %slot = getelementptr %slot, ptr @slots, i64 %at
  %before = call i64 @slot.missed(ptr %slot)
  call void @slot.set.missed(ptr %slot, i64 %newer)
  %same = icmp eq i64 %before, %hash
  %next = add i64 %i, 1
  %over = icmp eq i64 %next, $PLACES
  %stop = or i1 %same, %over
  br i1 %stop, label %done, label %look
done:
  ret i1 %same
}

; Whether an array is the state of a generator, a seed and a count that may be written.
define internal i1 @is_source(ptr %array) {
entry:
  %flags.at = getelementptr i8, ptr %array, i64 $FLAGS
  %flags = load i32, ptr %flags.at
  %wanted = or i32 $WRITEABLE, $CONTIGUOUS
  %both = and i32 %flags, %wanted
  %plain = icmp eq i32 %both, %wanted
  %dtype = call i64 @dtype_of(ptr %array)
  %ints = icmp eq i64 %dtype, $INT64
  %size = call i64 @size_of(ptr %array)
  %two = icmp eq i64 %size, 2
  %lies = and i1 %plain, %ints
  %result = and i1 %lies, %two
  ret i1 %result
}

; A draw from a generator: its state, which is counted on, as a new tensor; null if that is not as
; it should be, or with an error set.
define internal ptr @drawn(ptr %source) {
entry:
  %operand = alloca %operand
  call void @llvm.memset.p0.i64(ptr %operand, i8 0, i64 $OPERAND, i1 false)
  call void @operand.set.object(ptr %operand, ptr %source)
  %opens = call i1 @open(ptr %operand)
  br i1 %opens, label %look, label %nothing
look:
  %array = call ptr @operand.array(ptr %operand)
  %memory = call ptr @memory_of(ptr %source, ptr %array)
  %special = icmp eq ptr %memory, null
  br i1 %special, label %close, label %copy
copy:
  %state = call ptr @PyArray_NewCopy(ptr %array, i32 0)
  %no.state = icmp eq ptr %state, null
  br i1 %no.state, label %close, label %make
make:
  %new = call ptr @tensor_of(ptr %state)
  call void @Py_DecRef(ptr %state)  ; which the tensor holds
  %no.new = icmp eq ptr %new, null
  br i1 %no.new, label %close, label %count
count:
  %uncounted = call i1 @count_change(ptr %memory)
  br i1 %uncounted, label %undo, label %check
check:  ; nothing else runs from here on
  %from = call i1 @is_source(ptr %array)
  %to = call i1 @is_source(ptr %state)
  %right = and i1 %from, %to
  br i1 %right, label %step, label %undo
undo:
  call void @Py_DecRef(ptr %new)
  br label %close
step:
  %numbers = call ptr @field(ptr %array, i64 $DATA)
  %seed = load i64, ptr %numbers
  %count.at = getelementptr i64, ptr %numbers, i64 1
  %before = load i64, ptr %count.at
  %after = add i64 %before, 1
  store i64 %after, ptr %count.at
  %drawn = call ptr @field(ptr %state, i64 $DATA)
  store i64 %seed, ptr %drawn
  %drawn.at = getelementptr i64, ptr %drawn, i64 1
  store i64 %after, ptr %drawn.at
  br label %close
close:
  %result = phi ptr [ null, %look ], [ null, %copy ], [ null, %make ], [ null, %undo ],
                    [ %new, %step ]
  call void @Py_DecRef(ptr %memory)
  call void @release(ptr %operand, i64 1)
  ret ptr %result
nothing:
  ret ptr null
}

; What a step gives of the values so far. Without an op it is a draw from a generator, whose state
; stands in the place of what computes an op.
define internal ptr @stepped(ptr %step, ptr %values, ptr %operands) {
entry:
  %op = call ptr @step.op(ptr %step)
  %is.draw = icmp eq ptr %op, null
  br i1 %is.draw, label %draw, label %gather
draw:
  %source = call ptr @step.compute(ptr %step)
  %state = call ptr @drawn(ptr %source)
  ret ptr %state
gather:
  %attrs = call ptr @step.attrs(ptr %step)
  %count = call i64 @step.count(ptr %step)
  %places = call ptr @step.places(ptr %step)
  br label %more
more:
  %i = phi i64 [ 0, %gather ], [ %next, %one ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %run
one:
  %place.at = getelementptr i64, ptr %places, i64 %i
  %place = load i64, ptr %place.at
  %value.at = getelementptr ptr, ptr %values, i64 %place
  %value = load ptr, ptr %value.at
  %operand.at = getelementptr ptr, ptr %operands, i64 %i
  store ptr %value, ptr %operand.at
  %next = add i64 %i, 1
  br label %more
run:
  %out = call ptr @apply(ptr %op, ptr %operands, i64 %count, ptr %attrs, ptr %step)
  ret ptr %out
}

; Takes what a step gave to the values, from `at` on; how many values there are then, -1 if it is
; not as many as the step gives.
define internal i64 @entered(ptr %step, ptr %values, i64 %at, ptr %out) {
entry:
  %results = call i64 @step.results(ptr %step)
  %single = icmp eq i64 %results, 0
  br i1 %single, label %alone, label %several
alone:
  %alone.at = getelementptr ptr, ptr %values, i64 %at
  store ptr %out, ptr %alone.at
  %after = add i64 %at, 1
  ret i64 %after
several:
  %type = call ptr @field(ptr %out, i64 $TYPE)
  %is.tuple = icmp eq ptr %type, @PyTuple_Type
  br i1 %is.tuple, label %measure, label %wrong
measure:
  %size = call i64 @PyTuple_Size(ptr %out)
  %right = icmp eq i64 %size, %results
  br i1 %right, label %more, label %wrong
more:
  %i = phi i64 [ 0, %measure ], [ %next, %one ]
  %left = icmp slt i64 %i, %results
  br i1 %left, label %one, label %done
one:
  %item = call ptr @PyTuple_GetItem(ptr %out, i64 %i)
  call void @Py_IncRef(ptr %item)
  %place = add i64 %at, %i
  %item.at = getelementptr ptr, ptr %values, i64 %place
  store ptr %item, ptr %item.at
  %next = add i64 %i, 1
  br label %more
done:
  call void @Py_DecRef(ptr %out)
  %end = add i64 %at, %results
  ret i64 %end
wrong:
  call void @Py_DecRef(ptr %out)
  ret i64 -1
}

; What is given of the values.
define internal ptr @given(ptr %plan, ptr %values) {
entry:
  %count = call i64 @plan.result_count(ptr %plan)
  %places = call ptr @plan.results(ptr %plan)
  %single = icmp slt i64 %count, 0
  br i1 %single, label %alone, label %several
alone:
  %place = load i64, ptr %places
  %value.at = getelementptr ptr, ptr %values, i64 %place
  %value = load ptr, ptr %value.at
  call void @Py_IncRef(ptr %value)
  ret ptr %value
several:
  %tuple = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %tuple, null
  br i1 %failed, label %plain, label %more
more:
  %i = phi i64 [ 0, %several ], [ %next, %one ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %one, label %named
one:
  %at = getelementptr i64, ptr %places, i64 %i
  %which = load i64, ptr %at
  %item.at = getelementptr ptr, ptr %values, i64 %which
  %item = load ptr, ptr %item.at
  call void @Py_IncRef(ptr %item)
  call i32 @PyTuple_SetItem(ptr %tuple, i64 %i, ptr %item)
  %next = add i64 %i, 1
  br label %more
named:
  %class = call ptr @plan.made(ptr %plan)
  %bare = icmp eq ptr %class, null
  br i1 %bare, label %plain, label %dress
dress:
  %dressed = call ptr @PyObject_CallObject(ptr %class, ptr %tuple)
  call void @Py_DecRef(ptr %tuple)
  ret ptr %dressed
plain:
  ret ptr %tuple
}

; What the steps of a plan give of the tensors; null if something failed.
define internal ptr @follow(ptr %plan, ptr %tensors, i64 %count) {
entry:
  %numbers = call ptr @plan.numbers(ptr %plan)
  %numbers.count = call i64 @plan.number_count(ptr %plan)
  %steps = call ptr @plan.steps(ptr %plan)
  %steps.count = call i64 @plan.step_count(ptr %plan)
  %all = call i64 @plan.values(ptr %plan)
  %widest = call i64 @plan.widest(ptr %plan)
  %values = alloca ptr, i64 %all
  %operands = alloca ptr, i64 %widest
  %bytes = mul i64 %count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %values, ptr %tensors, i64 %bytes, i1 false)
  %rest = getelementptr ptr, ptr %values, i64 %count
  %numbers.bytes = mul i64 %numbers.count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %numbers, i64 %numbers.bytes, i1 false)
  %first = add i64 %count, %numbers.count
  call void @hold_all(ptr %values, i64 %first)
  br label %more
more:
  %i = phi i64 [ 0, %entry ], [ %i.next, %enter ]
  %at = phi i64 [ %first, %entry ], [ %after, %enter ]
  %left = icmp slt i64 %i, %steps.count
  br i1 %left, label %run, label %give
run:
  %step = getelementptr %step, ptr %steps, i64 %i
  %out = call ptr @stepped(ptr %step, ptr %values, ptr %operands)
  %failed = icmp eq ptr %out, null
  br i1 %failed, label %drop, label %take
take:
  %after = call i64 @entered(ptr %step, ptr %values, i64 %at, ptr %out)
  %wrong = icmp slt i64 %after, 0
  br i1 %wrong, label %drop, label %enter
enter:
  %i.next = add i64 %i, 1
  br label %more
give:
  %given = call ptr @given(ptr %plan, ptr %values)
  br label %drop
drop:
  %result = phi ptr [ null, %run ], [ null, %take ], [ %given, %give ]
  call void @drop_all(ptr %values, i64 %at)
  ret ptr %result
}

; A call of a function, of its kind if that is known. `self` may be null.
define ptr @recall(ptr %function, ptr %self, ptr %args, i64 %count, ptr %names) {
entry:
  %words = alloca i64, i64 $ROOM
  %tensors = alloca ptr, i64 $MOST
  %key = alloca %key
  call void @key.set.words(ptr %key, ptr %words)
  call void @key.set.count(ptr %key, i64 0)
  call void @key.set.tensors(ptr %key, ptr %tensors)
  call void @key.set.tensor_count(ptr %key, i64 0)
  %itself = call ptr @function.plain(ptr %function)
  %state = call ptr @current()
  %lost = icmp eq ptr %state, null
  br i1 %lost, label %nothing, label %ask
nothing:
  ret ptr null
ask:
  %plain = call i1 @is_plain(ptr %state)
  call void @Py_DecRef(ptr %state)
  br i1 %plain, label %describe, label %leave
describe:
  %described = call i1 @describe_call(ptr %key, ptr %function, ptr %self, ptr %args, i64 %count,
                                      ptr %names)
  br i1 %described, label %look, label %leave
look:
  %length = call i64 @key.count(ptr %key)
  %hash = call i64 @hash(ptr %words, i64 %length)
  %slot = call ptr @find(ptr %words, i64 %length, i64 %hash)
  %missing = icmp eq ptr %slot, null
  br i1 %missing, label %miss, label %hit
miss:
  %second = call i1 @is_second(i64 %hash)
  br i1 %second, label %learn, label %leave
learn:
  %hash.at = getelementptr i64, ptr %words, i64 %length
  store i64 %hash, ptr %hash.at
  %longer = add i64 %length, 1
  %bytes = mul i64 %longer, 8
  %described.count = call i64 @key.tensor_count(ptr %key)
  %kind = call ptr @kind_of(ptr %words, i64 %bytes, ptr %tensors, i64 %described.count)
  %no.kind = icmp eq ptr %kind, null
  br i1 %no.kind, label %nothing, label %remember
remember:
  %learner = call ptr @function.learner(ptr %function)
  %learnt = call ptr @forward(ptr %learner, ptr %kind, ptr %self, ptr %args, i64 %count, ptr %names)
  call void @Py_DecRef(ptr %kind)
  ret ptr %learnt
hit:
  %plan = call ptr @slot.plan(ptr %slot)
  %steps = call ptr @plan.steps(ptr %plan)
  %unknown = icmp eq ptr %steps, null  ; calls of this kind are not remembered
  br i1 %unknown, label %leave, label %follow
follow:
  %owner = call ptr @slot.owner(ptr %slot)
  call void @Py_IncRef(ptr %owner)  ; another plan may take its place meanwhile
  %held = call i64 @key.tensor_count(ptr %key)
  %result = call ptr @follow(ptr %plan, ptr %tensors, i64 %held)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %stop, label %tally
tally:
  %runs = call i64 @plan.runs(ptr %plan)
  %runs.now = add i64 %runs, 1
  call void @plan.set.runs(ptr %plan, i64 %runs.now)
  %often = icmp eq i64 %runs.now, $OFTEN
  br i1 %often, label %hasten, label %done
hasten:
  store ptr %owner, ptr %words  ; the key is not needed any more
  %said = call ptr @PyObject_VectorcallMethod(ptr @name_hasten, ptr %words, i64 1, ptr null)
  %refused = icmp eq ptr %said, null
  br i1 %refused, label %undo, label %hastened
undo:
  call void @Py_DecRef(ptr %result)
  br label %stop
hastened:
  call void @Py_DecRef(ptr %said)
  br label %done
stop:
  call void @Py_DecRef(ptr %owner)
  br label %judge
done:
  call void @Py_DecRef(ptr %owner)
  ret ptr %result
judge:
  %forgiven = call i1 @forgiven()
  br i1 %forgiven, label %leave, label %nothing
leave:
  %left = call ptr @forward(ptr %itself, ptr %self, ptr null, ptr %args, i64 %count, ptr %names)
  ret ptr %left
}

; The same, of the function whose address is `self`.
define ptr @recalled(ptr %self, ptr %args, i64 %count, ptr %names) {
  %function = call ptr @PyLong_AsVoidPtr(ptr %self)
  %result = call ptr @recall(ptr %function, ptr null, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}
"""
