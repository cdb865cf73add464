"""What ran inside of the programs that a block called: their kernels, as rows and as spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from staticflow.measure.clock import Clock
from staticflow.measure.operation_work import Call, OperationWork
from staticflow.measure.profile import Row, Span
from staticflow.measure.program_calls import Inside, ProbedProgram, ProgramCalls
from staticflow.measure.readings import name_sizes
from staticflow.measure.recorder import Operation
from staticflow.runtime.plan import name_bound_sizes

__all__ = ["InsidePrograms", "add_sizes_of_run"]

Key = tuple[str, int, str]
"""What a step of a program has of its own: its kind, the program, its name."""


class InsidePrograms:
    """What ran inside of the programs of ``calls``, which are called no more."""

    def __init__(self, calls: ProgramCalls | None) -> None:
        self._made: Sequence[ProbedProgram] = [] if calls is None else calls.made
        self._clock: Clock | None = None if calls is None else calls.clock
        self._rate = self._cost = 0.0
        self._counted = [p.reader.read_counts() for p in self._made]
        if self._clock is not None and self._made:
            self._clock.calibrate()
            self._rate = self._clock.rate
            self._cost = self._made[0].reader.measure_cost() * self._rate  # counted as readings

    def own_seconds(self, operation: Operation) -> float:
        """The seconds that an operation took itself: without the steps inside of it."""
        inside: Inside | None = operation.inside
        own = operation.own / 1e9
        return own if inside is None else own - inside.spent / 1e9 - inside.ticks * self._rate

    def reading(self, operation: Operation) -> float:
        """The seconds that it took to read the clock inside of an operation."""
        inside: Inside | None = operation.inside
        return 0.0 if inside is None else (inside.last - inside.first) * self._cost

    def rows(self, counts_work: bool) -> Iterator[tuple[Key, Row]]:
        """A row for each step of each program. If work is counted, other rows have it."""
        none = 0 if counts_work else None
        for probed, counted in zip(self._made, self._counted, strict=True):
            for row in probed.reader.rows(counted, self._rate):
                key = (row.kind, id(probed.program), row.name)
                yield key, replace(row, moved=none, flops=none, program=probed.label)

    def share_work(
        self, operation: Operation, work: OperationWork | None
    ) -> tuple[OperationWork | None, list[tuple[Key, Row]]]:
        """The ``work`` of an operation less that of the kernels inside of it, and rows of these; of
        work that is not known the kernels have none that is."""
        inside: Inside | None = operation.inside
        if inside is None:
            return work, []
        probed = inside.of
        kernels = {} if work is None else {k.name: k for k in work.kernels}
        rows = []
        launches = [s for s in reversed(probed.reader.sites) if s.kind == "kernel"]
        for name, lines in {s.name: s.lines for s in launches}.items():  # of the first launch
            kernel = kernels.get(name)
            moved, flops = (None, None) if kernel is None else (kernel.bytes, kernel.flops)
            row = Row(name, "kernel", 0, 0.0, 0.0, None, lines, moved, flops, probed.label)
            rows.append((("kernel", id(probed.program), name), row))
        if work is None:
            return None, rows
        moved = sum(row.moved or 0 for _, row in rows)
        flops = sum(row.flops or 0 for _, row in rows)
        return OperationWork(work.bytes - moved, work.flops - flops), rows

    def spans(self, operation: Operation, thread: int, pool: int) -> Iterator[Span]:
        """What ran in an operation on ``thread``, as far as it was kept; a thread that shares its
        work has the number ``pool`` and that in the pool."""
        inside: Inside | None = operation.inside
        if inside is None or self._clock is None:
            return
        reader = inside.of.reader
        least, most = operation.start / 1e9, operation.end / 1e9
        for reading in reader.readings_between(inside.first, inside.last):
            shares = reader.is_part(reading) and reader.thread_of(reading)
            span = reader.span(reading, self._clock, pool + shares if shares else thread)
            # two clocks were compared, which may differ by nanoseconds
            start, end = (min(max(t, least), most) for t in (span.start, span.end))
            yield replace(span, start=start, end=end)


def add_sizes_of_run(operation: Operation) -> Call | None:
    """What tells the work of an operation, with the sizes that its run has told."""
    call: Call | None = operation.call
    inside: Inside | None = operation.inside
    if call is None or inside is None:
        return call
    reader = inside.of.reader
    if not name_bound_sizes(reader.executable.program):
        return call
    kept = reader.readings_between(inside.first, inside.last)
    if len(kept) < inside.last - inside.first:
        return call
    return replace(call, fn=call.fn.with_sizes(name_sizes(reader, kept)))
