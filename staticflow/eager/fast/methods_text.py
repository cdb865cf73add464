"""Methods of tensors that are native code: a module of LLVM text that calls the one of
`staticflow.eager.fast.core_text`. It is compiled without being optimised, since each only leads
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import Template

from staticflow.eager.fast.records import render_records

__all__ = ["render_methods"]

_ENTRIES = """
@ops = external global %op
declare ptr @call_op(ptr, ptr, i64, ptr)
declare ptr @call_op_on(ptr, ptr, ptr, i64, ptr)
@functions = external global %function
declare ptr @recall(ptr, ptr, ptr, i64, ptr)
@in_place = external global %in_place
declare ptr @change(ptr, ptr, ptr, i64, ptr)
"""

_METHOD = """
define ptr @method_$op(ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
  %result = tail call ptr @call_op_on(ptr getelementptr (%op, ptr @ops, i64 $op),
                                     ptr %self, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}
"""

_REFLECTED = """
; The method of the operator whose operands stand the other way round.
define ptr @reflected_$op(ptr %self, ptr %args, i64 %count, ptr %names) {
  %op = getelementptr %op, ptr @ops, i64 $op
  %objects = alloca [2 x ptr]
  %last = getelementptr ptr, ptr %objects, i64 1
  store ptr %self, ptr %last
  %one = icmp eq i64 %count, 1
  br i1 %one, label %swap, label %call
swap:
  %other = load ptr, ptr %args
  store ptr %other, ptr %objects
  br label %call
call:
  %first = phi ptr [ %last, %0 ], [ %objects, %swap ]
  %given = phi i64 [ 1, %0 ], [ 2, %swap ]
  %result = call ptr @call_op(ptr %op, ptr %first, i64 %given, ptr null)
  ret ptr %result
}
"""

_REMEMBERED = """
define ptr @remembered_$op(ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
  %result = tail call ptr @recall(ptr getelementptr (%function, ptr @functions, i64 $op),
                                  ptr %self, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}
"""


_CHANGED = """
define ptr @changed_$op(ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
  %result = tail call ptr @change(ptr getelementptr (%in_place, ptr @in_place, i64 $op),
                                  ptr %self, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}
"""

FORMS = {
    "method": _METHOD, "reflected": _REFLECTED, "remembered": _REMEMBERED, "changed": _CHANGED,
}  # fmt: skip
"""The kinds of methods: those of ops, with the operands in order and the other way round, those
that are remembered, and those in place."""


def render_methods(numbers: Mapping[str, Iterable[int]]) -> str:
    """The module of methods, by their kinds and their numbers in the tables of these."""
    return (
        render_records("")
        + _ENTRIES
        + "".join(
            Template(FORMS[kind]).substitute(op=i) for kind, group in numbers.items() for i in group
        )
    )
