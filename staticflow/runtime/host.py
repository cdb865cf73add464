"""What native code and the Python that called it have to do with each other: LLVM text that is
compiled once in a process.

``go`` runs a program. A short run keeps the lock of the interpreter; a long one lets it go, so that
other threads of Python run meanwhile, and so does one that turns out to be long as soon as it looks
for the first time whether the user wants to stop. ``look`` asks Python for that no more often than
every `_PATIENCE`, and in the main thread, which alone sees signals: what a handler raises ends the
run. A program that updates variables takes its turn before it lets the lock go; see
`staticflow.runtime.turn`. ``ask`` calls a function of Python in the midst of a run.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
import time
from typing import Any

from staticflow.codegen.kernel import INTERRUPTED
from staticflow.runtime.native import NativeModule, compile_native
from staticflow.runtime.once import once
from staticflow.runtime.turn import updating

__all__ = ["BUSY", "host", "host_symbols", "python_symbols"]

BUSY = -2
"""What takes the place of a status if there was no run: someone else updates variables."""

_PATIENCE = 50_000_000
"""Nanoseconds between two questions whether a signal has come."""

_TEXT = f"""
; A run: the thread that let the lock of the interpreter go, null while it has the lock; whether the
; program updates variables; whether it is its turn.
%call = type {{ ptr, i1, i1 }}

@main_thread = external global i64
@turn_acquire = external global i8
@turn_release = external global i8
@turn_held = external global i64
@due = internal global i64 0  ; the main thread's
declare void @Py_DecRef(ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyLong_FromVoidPtr(ptr)
declare i64 @PyThread_get_thread_ident()
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare i32 @clock_gettime(i32, ptr)

; The status of a run. One that is not long to begin with, and updates variables, leaves it to the
; caller if it is not its turn.
define i64 @go(ptr %run, ptr %table, ptr %sizes, ptr %state, i1 %long, i1 %updates) {{
entry:
  %call = alloca %call
  store %call zeroinitializer, ptr %call
  %updates.at = getelementptr %call, ptr %call, i64 0, i32 1
  store i1 %updates, ptr %updates.at
  br i1 %long, label %let, label %keep
let:
  %stopped = call i1 @let_go(ptr %call)
  br i1 %stopped, label %interrupted, label %begin
keep:
  %held = load i64, ptr @turn_held
  %taken = icmp ne i64 %held, 0
  %wait = and i1 %updates, %taken
  br i1 %wait, label %busy, label %begin
busy:
  ret i64 {BUSY}
begin:
  %status = call i64 %run(ptr %table, ptr %sizes, ptr %state, ptr %call)
  %thread = load ptr, ptr %call
  %kept = icmp eq ptr %thread, null
  br i1 %kept, label %done, label %back
back:
  call void @take_back(ptr %call)
  br label %done
done:
  ret i64 %status
interrupted:
  ret i64 {INTERRUPTED}
}}

; Let the lock go; true if Python raised an error before.
define internal i1 @let_go(ptr %call) {{
entry:
  %updates.at = getelementptr %call, ptr %call, i64 0, i32 1
  %updates = load i1, ptr %updates.at
  br i1 %updates, label %acquire, label %let
acquire:
  %acquired = call ptr @PyObject_CallNoArgs(ptr @turn_acquire)
  %interrupted = icmp eq ptr %acquired, null
  br i1 %interrupted, label %stopped, label %turn
stopped:
  ret i1 true
turn:
  call void @Py_DecRef(ptr %acquired)
  %before = load i64, ptr @turn_held
  %more = add i64 %before, 1
  store i64 %more, ptr @turn_held
  %turn.at = getelementptr %call, ptr %call, i64 0, i32 2
  store i1 true, ptr %turn.at
  br label %let
let:
  %thread = call ptr @PyEval_SaveThread()
  store ptr %thread, ptr %call
  ret i1 false
}}

; Take the lock again, and end one's turn; an error that Python raised stays.
define internal void @take_back(ptr %call) {{
entry:
  %error = alloca [3 x ptr]
  %value = getelementptr ptr, ptr %error, i64 1
  %trace = getelementptr ptr, ptr %error, i64 2
  %thread = load ptr, ptr %call
  call void @PyEval_RestoreThread(ptr %thread)
  %turn.at = getelementptr %call, ptr %call, i64 0, i32 2
  %turn = load i1, ptr %turn.at
  br i1 %turn, label %release, label %done
release:
  %held = load i64, ptr @turn_held
  %less = sub i64 %held, 1
  store i64 %less, ptr @turn_held
  call void @PyErr_Fetch(ptr %error, ptr %value, ptr %trace)
  %released = call ptr @PyObject_CallNoArgs(ptr @turn_release)
  call void @Py_DecRef(ptr %released)
  %e = load ptr, ptr %error
  %v = load ptr, ptr %value
  %t = load ptr, ptr %trace
  call void @PyErr_Restore(ptr %e, ptr %v, ptr %t)
  br label %done
done:
  ret void
}}

define internal i64 @now() {{
  %time = alloca [2 x i64]
  %failed = call i32 @clock_gettime(i32 {int(time.CLOCK_MONOTONIC)}, ptr %time)
  %rest.at = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}}

; Whether the user wants the run to stop.
define i1 @look(ptr %call) {{
entry:
  %thread = load ptr, ptr %call
  %kept = icmp eq ptr %thread, null
  br i1 %kept, label %let, label %who
let:
  %stopped = call i1 @let_go(ptr %call)
  ret i1 %stopped
who:
  %self = call i64 @PyThread_get_thread_ident()
  %main = load i64, ptr @main_thread
  %is.main = icmp eq i64 %self, %main
  br i1 %is.main, label %when, label %nothing
when:
  %now = call i64 @now()
  %due = load i64, ptr @due
  %early = icmp slt i64 %now, %due
  br i1 %early, label %nothing, label %ask
ask:
  call void @PyEval_RestoreThread(ptr %thread)
  %error = call i32 @PyErr_CheckSignals()
  %same = call ptr @PyEval_SaveThread()
  %later = call i64 @now()
  %next = add i64 %later, {_PATIENCE}
  store i64 %next, ptr @due
  %stop = icmp ne i32 %error, 0
  ret i1 %stop
nothing:
  ret i1 false
}}

; Call a function of Python with the address of some words; true if it raised an error.
define i1 @ask(ptr %call, ptr %answer, ptr %words) {{
entry:
  %first = load ptr, ptr %call
  %kept = icmp eq ptr %first, null
  br i1 %kept, label %let, label %take
let:
  %stopped = call i1 @let_go(ptr %call)
  br i1 %stopped, label %failed, label %take
take:
  %thread = load ptr, ptr %call
  call void @PyEval_RestoreThread(ptr %thread)
  %number = call ptr @PyLong_FromVoidPtr(ptr %words)
  %none = icmp eq ptr %number, null
  br i1 %none, label %leave, label %ask
ask:
  %result = call ptr @PyObject_CallOneArg(ptr %answer, ptr %number)
  call void @Py_DecRef(ptr %number)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %leave, label %good
good:
  call void @Py_DecRef(ptr %result)
  br label %leave
leave:
  %error = phi i1 [ true, %take ], [ true, %ask ], [ false, %good ]
  %same = call ptr @PyEval_SaveThread()
  ret i1 %error
failed:
  ret i1 true
}}
"""

_main_thread = ctypes.c_uint64()


def _note_main_thread() -> None:
    _main_thread.value = threading.main_thread().ident or 0


@once
def host() -> NativeModule:
    """The code, with the addresses of ``go``, ``look`` and ``ask``."""
    _note_main_thread()
    os.register_at_fork(after_in_child=_note_main_thread)
    symbols = {
        **python_symbols(_TEXT),
        **updating.symbols(),
        "main_thread": ctypes.addressof(_main_thread),
    }
    return compile_native(_TEXT, ["go", "look", "ask"], symbols)


def host_symbols() -> dict[str, int]:
    """The addresses of what the native code of programs calls."""
    return {name: host().address(name) for name in ("look", "ask")}


def python_symbols(text: str) -> dict[str, int]:
    """The addresses of the functions of CPython that an LLVM text declares."""
    names = re.findall(r"^declare .*@(Py(?!Array_)\w+)\(", text, re.MULTILINE)
    return {n: _address_of(getattr(ctypes.pythonapi, n)) for n in names}


def _address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
