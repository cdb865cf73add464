"""Kernels that do no more than say what threads are to share, written where they are launched.

Such a function costs LLVM a tenth of a small program, and all its work is one call. Where a program
launches it in one place, its instructions stand in ``run``, with the names of what it is given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from staticflow.codegen.llvm.render import RUNS_ONCE
from staticflow.codegen.llvm.text import FunctionText
from staticflow.data_classes import dataclass

__all__ = ["Caller", "take_caller"]

_NAME = re.compile(r'%(?:"[^"]*"|[\w.$-]+)')
_HEAD = "define internal i32 @"


@dataclass(frozen=True, slots=True)
class Caller:
    """The body of a function without branches: the names of its ``parameters``, its instructions,
    and what it returns."""

    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    result: str

    def write(self, text: FunctionText, given: Sequence[str]) -> str:
        """Write the instructions where a function calls it with ``given``; gives the result."""
        names = dict(zip(self.parameters, given, strict=True))

        def rename(found: re.Match[str]) -> str:
            name = found[0]
            if name not in names:
                names[name] = text.fresh(name[1:].partition(".")[0])
            return names[name]

        for line in self.lines:
            renamed = _NAME.sub(rename, line)
            if " = alloca " in renamed:
                text.entry.phis.append(renamed)
            else:
                text.do(renamed)
        return names.get(self.result, self.result)


def take_caller(text: str) -> tuple[str, Caller | None]:
    """The text of a kernel without its last function, and that one, if it only says what threads
    are to share and has no branches; else the text as it is, and None."""
    begin = text.rfind(_HEAD)
    head, *lines = text[begin:].rstrip().split("\n")
    if not head.endswith(f"{RUNS_ONCE} {{") or any(s.endswith(":") for s in lines[1:]):
        return text, None
    *body, last, end = (line.strip() for line in lines[1:])
    if end != "}" or not last.startswith("ret i32 "):
        return text, None
    parameters = _NAME.findall(head)
    return text[:begin], Caller(tuple(parameters), tuple(body), last.removeprefix("ret i32 "))
