"""The code of native methods of tensors: each calls a function of `core` with the record of its op.

CPython hands a method nothing but the object and the arguments, so that each has code of its own.
The module of these is compiled without being optimised.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from string import Template
from typing import Any

from staticflow.eager.fast.records import InPlaceRecord, KnownOpRecord, RememberedRecord

__all__ = ["TARGETS", "render_methods"]

TARGETS: Mapping[str, tuple[str, str, Any]] = {
    "method": ("call_op_on", "ops", KnownOpRecord),
    "reflected": ("call_reflected", "ops", KnownOpRecord),
    "remembered": ("recall", "functions", RememberedRecord),
    "changed": ("call_in_place", "in_place", InPlaceRecord),
}
"""The kinds of methods: those of ops, with the operands in order and the other way round, those
that are remembered, and those in place. Of each the function it leads to, whose first argument is
a record, and the table in which that lies."""

_TABLE = Template("""
@$table = external global i8
""")

_TARGET = Template("""
declare ptr @$function(ptr, ptr, ptr, i64, ptr)
""")

_METHOD = Template("""
define ptr @${kind}_$number(ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
  %result = tail call ptr @$function(ptr getelementptr (i8, ptr @$table, i64 $offset),
                                     ptr %self, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}
""")


def render_methods(numbers: Mapping[str, Iterable[int]]) -> str:
    """The module of methods, by their kinds and their numbers in the tables of these."""
    tables = dict.fromkeys(table for _, table, _ in TARGETS.values())
    parts = [_TABLE.substitute(table=table) for table in tables]
    for kind, (function, table, record) in TARGETS.items():
        parts.append(_TARGET.substitute(function=function))
        for number in numbers[kind]:
            offset = number * ctypes.sizeof(record)
            parts.append(_METHOD.substitute(
                kind=kind, number=number, function=function, table=table, offset=offset
            ))  # fmt: skip
    return "".join(parts)
