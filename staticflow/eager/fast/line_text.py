"""How the fast path finds the line of the user that is running."""

from __future__ import annotations

__all__ = ["LINES"]

LINES = """
; Whether code is the user's, and not staticflow's own; below 0 if an error was raised. Python is
; asked once.
define internal i64 @is_users(ptr %code) {
entry:
  %address = ptrtoint ptr %code to i64
  %high = lshr i64 %address, 4
  %place = and i64 %high, $CODES_MASK
  %known = getelementptr %known, ptr @codes, i64 %place
  %known.code = call ptr @known.code(ptr %known)
  %same = icmp eq ptr %code, %known.code
  br i1 %same, label %told, label %ask
told:
  %before = call i64 @known.users(ptr %known)
  ret i64 %before
ask:
  %code.at = alloca ptr
  store ptr %code, ptr %code.at
  %said = call ptr @PyObject_Vectorcall(ptr @users, ptr %code.at, i64 1, ptr null)
  %failed = icmp eq ptr %said, null
  br i1 %failed, label %stop, label %note
note:
  %yes = icmp eq ptr %said, @_Py_TrueStruct
  %answer = zext i1 %yes to i64
  call void @Py_DecRef(ptr %said)
  call void @known.set.users(ptr %known, i64 %answer)
  call void @Py_IncRef(ptr %code)
  call i1 @put(ptr %known, i64 0, ptr %code)
  ret i64 %answer
stop:
  ret i64 -1
}

; The user's code that is running, to be dropped, and the instruction: that of the innermost frame
; that does not run staticflow's own code, None and 0 where there is none. True if an error was
; raised.
define internal i1 @line(ptr %code.at, ptr %instruction.at) {
entry:
  %first = call ptr @PyEval_GetFrame()
  call void @Py_IncRef(ptr %first)
  br label %look
look:
  %frame = phi ptr [ %first, %entry ], [ %back, %out ]
  %nowhere = icmp eq ptr %frame, null
  br i1 %nowhere, label %end, label %ask
ask:
  %code = call ptr @PyFrame_GetCode(ptr %frame)
  %users = call i64 @is_users(ptr %code)
  switch i64 %users, label %lost [ i64 0, label %out
                                   i64 1, label %here ]
out:
  call void @Py_DecRef(ptr %code)
  %back = call ptr @PyFrame_GetBack(ptr %frame)
  call void @Py_DecRef(ptr %frame)
  br label %look
lost:
  call void @Py_DecRef(ptr %code)
  call void @Py_DecRef(ptr %frame)
  ret i1 true
here:
  %instruction = call i32 @PyFrame_GetLasti(ptr %frame)
  call void @Py_DecRef(ptr %frame)
  br label %note
end:  ; called by C, or there is no memory for the frame
  %error = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %error, null
  br i1 %raised, label %stop, label %unknown
unknown:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  br label %note
note:
  %user = phi ptr [ %code, %here ], [ @_Py_NoneStruct, %unknown ]
  %at.code = phi i32 [ %instruction, %here ], [ 0, %unknown ]
  store ptr %user, ptr %code.at
  %wide = sext i32 %at.code to i64
  %at = call ptr @PyLong_FromLongLong(i64 %wide)
  store ptr %at, ptr %instruction.at
  %missing = icmp eq ptr %at, null
  br i1 %missing, label %drop, label %done
drop:
  call void @Py_DecRef(ptr %user)
  br label %stop
done:
  ret i1 false
stop:
  ret i1 true
}

; The user's line, into an entry; true if it could not be told.
define internal i1 @mark(ptr %vertex) {
entry:
  %code.at = alloca ptr
  %instruction.at = alloca ptr
  %lost = call i1 @line(ptr %code.at, ptr %instruction.at)
  br i1 %lost, label %stop, label %note
note:
  %code = load ptr, ptr %code.at
  call i1 @put(ptr %vertex, i64 $entry_code, ptr %code)
  %instruction = load ptr, ptr %instruction.at
  call i1 @put(ptr %vertex, i64 $entry_at, ptr %instruction)
  ret i1 false
stop:
  ret i1 true
}
"""
