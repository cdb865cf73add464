"""In-place methods of tensors that copy what a function gives.

The function is the native form of what the method is the in-place form of, as `clamp` of `clamp_`.
"""

from __future__ import annotations

__all__ = ["RENEW"]

RENEW = """
; Whether no argument is a tensor with a history. An error may be set if one is.
define internal i1 @without_history(ptr %args, i64 %count, ptr %names) {
entry:
  %all = call i64 @given_count(i64 %count, ptr %names)
  %operand = alloca %operand
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %one ], [ %after, %ask ]
  %left = icmp slt i64 %i, %all
  br i1 %left, label %one, label %yes
one:
  call void @llvm.memset.p0.i64(ptr %operand, i8 0, i64 $OPERAND, i1 false)
  %at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %at
  call void @operand.set.object(ptr %operand, ptr %object)
  %after = add i64 %i, 1
  %is.tensor = call i1 @open(ptr %operand)
  br i1 %is.tensor, label %ask, label %next
ask:
  %free = call i1 @has_no_edge(ptr %operand)
  call void @release(ptr %operand, i64 1)
  br i1 %free, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether the tensor of an opened operand is on the same array and memory still, and has no history
; that a change would be a part of.
define internal i1 @is_still(ptr %operand, ptr %memory, i1 %recording) {
entry:
  %tensor = call ptr @operand.object(ptr %operand)
  %array = call ptr @operand.array(ptr %operand)
  %array.now = call ptr @field(ptr %tensor, i64 $tensor_data)
  %memory.now = call ptr @field(ptr %tensor, i64 $tensor_memory)
  %same.array = icmp eq ptr %array, %array.now
  %same.memory = icmp eq ptr %memory, %memory.now
  %same = and i1 %same.array, %same.memory
  %ask = and i1 %same, %recording
  br i1 %ask, label %history, label %done
history:
  %free = call i1 @is_free(ptr %tensor)
  ret i1 %free
done:
  ret i1 %same
}

; Copies what the function of a method gives, in the usual case; false with nothing done, and
; perhaps an error set, in any other. An error may be set after it was done, too.
define internal i1 @renewed(ptr %method, ptr %self, ptr %args, i64 %count, ptr %names, ptr %state) {
entry:
  %operands = alloca [2 x %operand]
  %bytes = mul i64 2, $OPERAND
  call void @llvm.memset.p0.i64(ptr %operands, i8 0, i64 %bytes, i1 false)
  call void @operand.set.object(ptr %operands, ptr %self)
  %new = getelementptr %operand, ptr %operands, i64 1
  %recording = call i1 @is_recording(ptr %state)
  %memory = call ptr @changeable(ptr %method, ptr %operands, i1 %recording)
  %special = icmp eq ptr %memory, null
  %size = call i64 @operand.size(ptr %operands)
  %large = icmp sge i64 %size, $LARGE
  %unusual = or i1 %special, %large
  br i1 %unusual, label %done, label %ask
ask:
  br i1 %recording, label %histories, label %compute
histories:
  %free = call i1 @without_history(ptr %args, i64 %count, ptr %names)
  br i1 %free, label %compute, label %done
compute:
  %function = call ptr @in_place.value(ptr %method)
  %value = call ptr @forward(ptr %function, ptr %self, ptr null, ptr %args, i64 %count, ptr %names)
  call void @operand.set.object(ptr %new, ptr %value)
  %failed = icmp eq ptr %value, null
  br i1 %failed, label %done, label %open
open:
  %opens = call i1 @open(ptr %new)
  br i1 %opens, label %again, label %drop
again:
  %still = call i1 @is_still(ptr %operands, ptr %memory, i1 %recording)
  br i1 %still, label %compare, label %drop
compare:
  %array = call ptr @operand.array(ptr %operands)
  %source = call ptr @operand.array(ptr %new)
  %fits = call i1 @alike(ptr %array, ptr %source)
  %recorded = call i1 @has_vertex(ptr %value)
  %unrecorded = xor i1 %recorded, true
  %usual = and i1 %fits, %unrecorded
  br i1 %usual, label %copy, label %drop
copy:
  %uncopied = call i1 @copy(ptr %array, ptr %source)
  br i1 %uncopied, label %drop, label %note
note:
  call i1 @bump(ptr %memory)
  br label %drop
drop:
  %changed = phi i1 [ false, %open ], [ false, %again ], [ false, %compare ], [ false, %copy ],
                    [ true, %note ]
  call void @Py_DecRef(ptr %value)
  br label %done
done:
  %result = phi i1 [ false, %entry ], [ false, %histories ], [ false, %compute ],
                   [ %changed, %drop ]
  call void @Py_DecRef(ptr %memory)
  call void @release(ptr %operands, i64 2)
  ret i1 %result
}
"""
