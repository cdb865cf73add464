"""Methods of tensors that are native code, as LLVM text: a module that calls the one of
`staticflow.eager.fast_text`. It is compiled without being optimised, since each only leads there.
"""

from __future__ import annotations

from collections.abc import Iterable
from string import Template

from staticflow.eager.fast_text import MOST

__all__ = ["render_methods"]

_ENTRIES = """
%op = type { ptr, [2 x ptr], [2 x ptr], i64, i64, [$USES x i64], i64 }
@ops = external global %op
declare ptr @called(ptr, ptr, i64, ptr)
declare ptr @called_on(ptr, ptr, ptr, i64, ptr)
%function = type { ptr, ptr, i64 }
@functions = external global %function
declare ptr @recall(ptr, ptr, ptr, i64, ptr)
"""

_METHOD = """
define ptr @method_$op(ptr %self, ptr %args, i64 %count, ptr %names) {
  %op = getelementptr %op, ptr @ops, i64 $op
  %result = call ptr @called_on(ptr %op, ptr %self, ptr %args, i64 %count, ptr %names)
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
  %result = call ptr @called(ptr %op, ptr %first, i64 %given, ptr null)
  ret ptr %result
}
"""

_REMEMBERED = """
define ptr @remembered_$op(ptr %self, ptr %args, i64 %count, ptr %names) {
  %function = getelementptr %function, ptr @functions, i64 $op
  %result = call ptr @recall(ptr %function, ptr %self, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}
"""


def render_methods(
    methods: Iterable[int], reflected: Iterable[int], remembered: Iterable[int]
) -> str:
    """The module of the methods of those ops, and of those functions that are remembered, by
    number."""
    forms = ((_METHOD, methods), (_REFLECTED, reflected), (_REMEMBERED, remembered))
    return Template(_ENTRIES).substitute(USES=MOST + 1) + "".join(
        Template(form).substitute(op=i) for form, numbers in forms for i in numbers
    )
