"""Subnormal numbers that are zero while a program runs: a mode of the processor, which each thread
has for itself, so that `run` and each part that threads share sets it, and puts back what was. A
new thread has the mode of the one that begins it, so the pool is called in the usual one.

Without it, a product or sum that is subnormal (below 1.2e-38 in float32), or takes a number that
is, costs a processor some hundred cycles; with it, such a number is read and written as 0. What a
program asks of NumPy on its way runs in the usual mode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["FLUSH_MODES", "flush_subnormals"]

_X86 = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal i64 @float_mode() nounwind noinline {
  %at = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %at)
  %mode = load i32, ptr %at
  %wide = zext i32 %mode to i64
  ret i64 %wide
}

define internal void @set_float_mode(i64 %mode) nounwind noinline {
  %at = alloca i32
  %narrow = trunc i64 %mode to i32
  store i32 %narrow, ptr %at
  call void @llvm.x86.sse.ldmxcsr(ptr %at)
  ret void
}
"""

_AARCH64 = """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal i64 @float_mode() nounwind noinline {
  %mode = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %mode
}

define internal void @set_float_mode(i64 %mode) nounwind noinline {
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}
"""

_FTZ_AND_DAZ = 0x8040
"""Results that are subnormal are zero, and so are arguments (Intel's manual, volume 1, 10.2.3)."""

_FZ = 1 << 24
"""The bit of AArch64's FPCR for it, in 32 and 64 bits (Arm's reference manual, C5.2.8)."""

FLUSH_MODES: Mapping[str, tuple[str, int]] = {
    "x86_64": (_X86, _FTZ_AND_DAZ), "AMD64": (_X86, _FTZ_AND_DAZ),
    "aarch64": (_AARCH64, _FZ), "arm64": (_AARCH64, _FZ),
}  # fmt: skip
"""By the name of the machine (`platform.machine`): how its mode is read and written, in LLVM text,
and the bits of it."""

_WITHIN = """
define {linkage}{type} @{name}({params}) nounwind {{
  %before = call i64 @float_mode()
  %own = {change}
  call void @set_float_mode(i64 %own)
  %result = call {type} @{inner}({params})
  call void @set_float_mode(i64 %before)
  ret {type} %result
}}
"""

_SHARED = re.compile(r"call i32 @parallel\(ptr @([\w.$-]+),")


def flush_subnormals(text: str, machine: str) -> str:
    """The text of a routine that flushes on such a ``machine``, one of `FLUSH_MODES`."""
    mode, bits = FLUSH_MODES[machine]
    on, off = f"or i64 %before, {bits}", f"and i64 %before, {~bits}"
    parts = dict.fromkeys(_SHARED.findall(text))
    text = _SHARED.sub(r"call i32 @parallel.usually(ptr @\1.flushing,", text)
    text = text.replace("define i64 @run(", "define internal i64 @run.flushing(")
    text = text.replace("call i1 @ask(", "call i1 @ask.usually(")
    around = [
        _within("", "i64", "run", "run.flushing", _RUN, on),
        *(_within("internal ", "i32", f"{p}.flushing", p, _PART, on) for p in parts),
    ]
    if parts:
        around.append(_within("internal ", "i32", "parallel.usually", "parallel", _POOL, off))
    if "@ask.usually(" in text:
        around.append(_within("internal ", "i1", "ask.usually", "ask", _ASK, off))
    return "".join((text, mode, *around))


_RUN = "ptr %table, ptr %sizes, ptr %state, ptr %call"
_PART = "ptr %struct, i64 %first, i64 %last, i64 %worker"
_POOL = "ptr %part, ptr %struct, i64 %count, i64 %work, i64 %threads"
_ASK = "ptr %call, ptr %answer, ptr %words"


def _within(linkage: str, type: str, name: str, inner: str, params: str, change: str) -> str:
    return _WITHIN.format(
        linkage=linkage, type=type, name=name, inner=inner, params=params, change=change
    )
