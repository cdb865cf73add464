"""Readings of a clock around the steps of a routine, in LLVM text, for profiles.

A *site* is the run as a whole (0), a step (1 and on, in the order of `walk_steps`), or a part that
threads share (behind these). The module counts for each site how often it ran and for how many
ticks, in ``@probes``, and writes the first readings one by one into memory that ``@readings`` says:
how many there are, for how many there is room, and where they lie. ``@inside`` has the ticks of all
steps that hold no others. A kernel that is an endless loop leaves in ``@counted`` how many
iterations it has made. ``i64 @ticks()`` is the clock, and ``i64 @cost(i64 n)`` gives the ticks
that ``n`` runs of a site take in which nothing happens, which are counted as runs of site 0.
"""

from __future__ import annotations

import re
from dataclasses import field

from staticflow.codegen.llvm.text import FunctionText
from staticflow.data_classes import dataclass

__all__ = ["PROBED", "Probes"]

PROBED = ("probes", "readings", "inside", "ticks", "cost")
"""What a module with probes exports."""

_TEXT = """
%Probe = type {{ i64, i64 }}
%Readings = type {{ i64, i64, ptr }}
%Reading = type {{ i64, i64, i64, i64 }}
@probes = global [{sites} x %Probe] zeroinitializer
@readings = global %Readings zeroinitializer
@inside = global i64 0
@counted = internal global i64 0
@caller = internal global i64 0
declare i64 @pthread_self()

define i64 @ticks() nounwind {{
  %now = call i64 @{clock}()
  ret i64 %now
}}

"""

# One thread runs the steps, and parts only while it waits for them: these alone need atomic steps.
_PROBE = """
; Count a run of a site from `start` on, in which it had a `number` of iterations, found the size
; `number`, or was on a thread, 0 for that of the run.
define internal void @{name}(i64 %site, i64 %start, i64 %number{more}) nounwind noinline {{
entry:
  %end = call i64 @{clock}()
  %taken = sub i64 %end, %start
  %count.at = getelementptr %Probe, ptr @probes, i64 %site, i32 0
  %ticks.at = getelementptr %Probe, ptr @probes, i64 %site, i32 1
  {count}
  {ticks}
  {place}{inside}
  %room.at = getelementptr %Readings, ptr @readings, i64 0, i32 1
  %room = load i64, ptr %room.at
  %fits = icmp slt i64 %place, %room
  br i1 %fits, label %write, label %done
write:
  %rows.at = getelementptr %Readings, ptr @readings, i64 0, i32 2
  %rows = load ptr, ptr %rows.at
  %row = getelementptr %Reading, ptr %rows, i64 %place
  store i64 %site, ptr %row
  %start.at = getelementptr %Reading, ptr %row, i64 0, i32 1
  store i64 %start, ptr %start.at
  %end.at = getelementptr %Reading, ptr %row, i64 0, i32 2
  store i64 %end, ptr %end.at
  %number.at = getelementptr %Reading, ptr %row, i64 0, i32 3
  store i64 %number, ptr %number.at
  br label %done
done:
  ret void
}}
"""

_ADD = """{name} = load i64, ptr {at}
  {name}.more = add i64 {name}, {more}
  store i64 {name}.more, ptr {at}"""
_ADD_INSIDE = """
  %own = select i1 %holds, i64 0, i64 %taken
  {add}"""
_ADD_ATOMIC = "{name} = atomicrmw add ptr {at}, i64 {more} monotonic"

_PART = """
define internal i32 @{name}.probed(ptr %struct, i64 %first, i64 %last, i64 %worker) nounwind {{
  %start = call i64 @{clock}()
  %status = call i32 @{name}(ptr %struct, i64 %first, i64 %last, i64 %worker)
  %self = call i64 @pthread_self()
  %caller = load i64, ptr @caller
  %own = icmp eq i64 %self, %caller
  %thread = select i1 %own, i64 0, i64 %self
  call void @probe_part(i64 {site}, i64 %start, i64 %thread)
  ret i32 %status
}}
"""

_COST = """
define i64 @cost(i64 %n) nounwind {{
entry:
  %first = call i64 @{clock}()
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %goes = icmp slt i64 %i, %n
  br i1 %goes, label %body, label %done
body:
  %began = call i64 @{clock}()
  call void @probe(i64 0, i64 %began, i64 0, i1 true)
  %next = add i64 %i, 1
  br label %head
done:
  %last = call i64 @{clock}()
  %taken = sub i64 %last, %first
  ret i64 %taken
}}
"""

_SHARED = re.compile(r"(call i32 @parallel\(ptr @)([\w.$-]+),")


@dataclass(slots=True)
class Probes:
    """Writes the readings, by a clock that is an intrinsic of LLVM. ``parts`` are the names of the
    parts, in the order of their sites, once they are written."""

    clock: str
    parts: list[str] = field(default_factory=list)

    def begin(self, text: FunctionText) -> str:
        """Read the clock; gives the register."""
        return text.op(f"call i64 @{self.clock}()", "began")

    def begin_run(self, text: FunctionText) -> str:
        """Note the thread of a run, and read the clock."""
        text.do(f"store i64 {text.op('call i64 @pthread_self()')}, ptr @caller")
        return self.begin(text)

    def end(self, text: FunctionText, site: int, began: str, number: str, holds: bool) -> None:
        """Count a run of a site, which ``holds`` others or not."""
        text.do(f"call void @probe(i64 {site}, i64 {began}, i64 {number}, i1 {str(holds).lower()})")

    def around_parts(self, kernels: str, steps: int) -> str:
        """The text of kernels, whose parts are read too, and of what reads, for a routine of so
        many steps."""
        self.parts = [*dict.fromkeys(name for _, name in _SHARED.findall(kernels))]
        kernels = _SHARED.sub(r"\1\2.probed,", kernels)
        first = 1 + steps
        around = [
            _PART.format(name=name, clock=self.clock, site=first + i)
            for i, name in enumerate(self.parts)
        ]
        sites = first + len(self.parts)
        head = _TEXT.format(sites=sites, clock=self.clock)
        inside = _ADD_INSIDE.format(add=_ADD.format(name="%inside", at="@inside", more="%own"))
        probes = [
            self._probe("probe", _ADD, ", i1 %holds", inside),
            self._probe("probe_part", _ADD_ATOMIC),
        ]
        return "".join((head, *probes, _COST.format(clock=self.clock), kernels, *around))

    def _probe(self, name: str, add: str, more: str = "", inside: str = "") -> str:
        return _PROBE.format(
            name=name,
            clock=self.clock,
            count=add.format(name="%count", at="%count.at", more="1"),
            ticks=add.format(name="%ticks", at="%ticks.at", more="%taken"),
            place=add.format(name="%place", at="@readings", more="1"),
            more=more,
            inside=inside,
        )
