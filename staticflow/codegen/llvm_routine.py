"""A program as LLVM text: one function that runs all of it.

``i64 @run(ptr table, ptr sizes, ptr state)`` takes the addresses of the caller's arrays, the
unknown sizes, and a cell that holds an arena between calls. It borrows the arena (a second caller
at the same time gets one of its own), runs the steps, and gives it back. The result is 0, -1 if
there was no memory, or ``256 * site + code`` of the kernel that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.codegen.llvm import render_kernel
from staticflow.codegen.llvm_index import IndexWriter
from staticflow.codegen.llvm_text import BasicBlock, FunctionText
from staticflow.codegen.routine import (
    Arena,
    Carry,
    Copy,
    Launch,
    Place,
    Repeat,
    Routine,
    Row,
    Step,
    Table,
)
from staticflow.graph.dims import Size, Sym, is_provably_ge

__all__ = ["NO_MEMORY", "render_routine"]

NO_MEMORY = -1
"""What `run` returns if the arena could not be had."""

_HEADER = 64
"""Bytes before the arena proper, in which its capacity stands; keeps the alignment."""

_RUNTIME = f"""
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @borrow(ptr %state, i64 %bytes) {{
entry:
  %held = atomicrmw xchg ptr %state, ptr null seq_cst
  %none = icmp eq ptr %held, null
  br i1 %none, label %make, label %look
look:
  %capacity = load i64, ptr %held
  %fits = icmp sge i64 %capacity, %bytes
  br i1 %fits, label %done, label %drop
drop:
  call void @free(ptr %held)
  br label %make
make:
  %all = add i64 %bytes, {_HEADER}
  %new = call ptr @aligned_alloc(i64 {_HEADER}, i64 %all)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %nothing, label %note
note:
  store i64 %bytes, ptr %new
  br label %done
nothing:
  ret ptr null
done:
  %arena = phi ptr [ %held, %look ], [ %new, %note ]
  ret ptr %arena
}}

define internal void @give_back(ptr %state, ptr %arena) {{
entry:
  %other = atomicrmw xchg ptr %state, ptr %arena seq_cst
  %free = icmp eq ptr %other, null
  br i1 %free, label %done, label %drop
drop:
  call void @free(ptr %other)
  br label %done
done:
  ret void
}}
"""


def render_routine(program: Routine, offsets: Sequence[Size], peak: Size) -> str:
    """The text of the kernels and of ``run``; ``offsets`` and ``peak`` are the memory plan."""
    kernels = "\n".join(map(render_kernel, program.kernels))
    return f"{_RUNTIME}\n{kernels}\n{_Writer(program, offsets, peak).write()}"


class _Writer:
    """Writes ``run``."""

    def __init__(self, program: Routine, offsets: Sequence[Size], peak: Size) -> None:
        self.program, self.offsets, self.peak = program, offsets, peak
        self.text = FunctionText()
        self.rows: dict[int, str] = {}  # the row number of each loop that is open
        self.carries: dict[tuple[int, int, bool], str] = {}
        self.tables: list[str] = []
        self.arena = ""
        self.failed: BasicBlock = self.text.new_block("failed")
        self.failures: list[tuple[str, BasicBlock]] = []
        self.arrays: list[str] = []
        self.indices = IndexWriter(self.text, {})

    def write(self) -> str:
        """The whole function."""
        text = self.text
        for i, sym in enumerate(self.program.sizes):
            at = text.op(f"getelementptr i64, ptr %sizes, i64 {i}")
            self.indices.define(sym, text.op(f"load i64, ptr {at}"))
        for slot in range(self.program.slots):
            at = text.op(f"getelementptr ptr, ptr %table, i64 {slot}")
            self.tables.append(text.op(f"load ptr, ptr {at}"))
        lent = self._borrow() if self.program.buffers else ""
        self.arrays = [self._offset(o) for o in self.offsets] if lent else []
        self._steps(self.program.steps)
        done = text.new_block("done")
        last = text.block
        text.jump(done)
        if self.failures:
            text.start(self.failed)
            reasons = ", ".join(f"[ {r}, %{b.label} ]" for r, b in self.failures)
            reason = text.fresh("reason")
            self.failed.phis.append(f"{reason} = phi i64 {reasons}")
            text.jump(done)
        text.start(done)
        merged = f"[ 0, %{last.label} ]"
        if self.failures:
            merged += f", [ {reason}, %{self.failed.label} ]"
        result = text.fresh("result")
        done.phis.append(f"{result} = phi i64 {merged}")
        if lent:
            text.do(f"call void @give_back(ptr %state, ptr {lent})")
        text.block.end = f"ret i64 {result}"
        return f"define i64 @run(ptr %table, ptr %sizes, ptr %state) nounwind {{\n{text}}}\n"

    def _borrow(self) -> str:
        text = self.text
        bytes_ = self.indices.value(self.peak)
        lent = text.op(f"call ptr @borrow(ptr %state, i64 {bytes_})")
        there, missing = text.new_block("there"), text.new_block("missing")
        text.branch(text.op(f"icmp eq ptr {lent}, null"), missing, there)
        text.start(missing)
        missing.end = f"ret i64 {NO_MEMORY}"
        text.start(there)
        self.arena = text.op(f"getelementptr i8, ptr {lent}, i64 {_HEADER}")
        return lent

    def _offset(self, offset: Size) -> str:
        at = self.indices.value(offset)
        return self.text.op(f"getelementptr i8, ptr {self.arena}, i64 {at}")

    def _steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            _STEPS[type(step)](self, step)

    def _place(self, place: Place) -> str:
        return _PLACES[type(place)](self, place)

    def _row(self, place: Row) -> str:
        base = self._place(place.array)
        offset = self.text.op(f"mul i64 {self.rows[place.loop]}, {self.indices.value(place.bytes)}")
        return self.text.op(f"getelementptr i8, ptr {base}, i64 {offset}")

    def launch(self, step: Launch) -> None:
        text = self.text
        args = [f"ptr {self._place(p)}" for p in step.places]
        args += [f"i64 {self.indices.value(s)}" for s in step.sizes]
        status = text.op(f"call i32 @{step.kernel}({', '.join(args)})")
        if step.site == 0:
            return
        good, bad = text.new_block("good"), text.new_block("bad")
        text.branch(text.op(f"icmp eq i32 {status}, 0"), good, bad)
        text.start(bad)
        wide = text.op(f"zext i32 {status} to i64")
        reason = text.op(f"add i64 {wide}, {256 * step.site}")
        self.failures.append((reason, bad))
        text.jump(self.failed)
        text.start(good)

    def copy(self, step: Copy) -> None:
        self._memcpy(self._place(step.target), self._place(step.source), step.bytes)

    def _memcpy(self, target: str, source: str, bytes_: Size) -> None:
        size = self.indices.value(bytes_)
        self.text.do(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)"
        )

    def repeat(self, step: Repeat) -> None:
        """A loop whose carries are pointers: this one's value, where the next goes, and the buffer
        that was not used yet or is free again."""
        text = self.text
        length = self.indices.value(step.length)
        begins = [[self._place(p) for p in trio] for trio in step.carries]
        before, head, done = text.block, text.new_block("scan"), text.new_block("scanned")
        skipped = None
        if is_provably_ge(step.length, 1):
            text.jump(head)
        else:
            skipped = self._skip(step, begins, head, done)
        text.start(head)
        count = text.fresh("count")
        now = [text.fresh("now") for _ in step.carries]
        following = [text.fresh("next") for _ in step.carries]
        for i in range(len(step.carries)):
            self.carries[step.loop, i, False] = now[i]
            self.carries[step.loop, i, True] = following[i]
        with self.indices.scope(before, is_loop=True):
            self.indices.define(Sym("count", -1 - step.loop), count)
            self.rows[step.loop] = count
            if step.reverse:
                rest = text.op(f"sub i64 {length}, {count}")
                self.rows[step.loop] = text.op(f"sub i64 {rest}, 1")
            self._steps(step.body)
        spare = []
        for (_, a, b), n in zip(begins, following, strict=True):
            on_a = text.op(f"icmp eq ptr {n}, {a}")
            spare.append(text.op(f"select i1 {on_a}, ptr {b}, ptr {a}"))
        stepped = text.op(f"add i64 {count}, 1")
        again = text.op(f"icmp slt i64 {stepped}, {length}")
        latch = text.block
        text.branch(again, head, done)
        head.phis.append(f"{count} = phi i64 [ 0, %{before.label} ], [ {stepped}, %{latch.label} ]")
        for i, (start, a, _) in enumerate(begins):
            for name, first, later in (
                (now[i], start, following[i]),
                (following[i], a, spare[i]),
            ):
                merged = f"[ {first}, %{before.label} ], [ {later}, %{latch.label} ]"
                head.phis.append(f"{name} = phi ptr {merged}")
        text.start(done)
        for i, (_, a, _) in enumerate(begins):
            last = text.fresh("last")
            merged = f"[ {following[i]}, %{latch.label} ]"
            if skipped is not None:
                merged = f"[ {a}, %{skipped.label} ], {merged}"
            done.phis.append(f"{last} = phi ptr {merged}")
            self.carries[step.loop, i, False] = last

    def _skip(
        self,
        step: Repeat,
        begins: Sequence[Sequence[str]],
        head: BasicBlock,
        done: BasicBlock,
    ) -> BasicBlock:
        """The way past a loop without trips. It copies the carries: where they began may be a
        variable, which gets its new value before they are read."""
        text = self.text
        before, skipped = text.block, text.new_block("skipped")
        length = self.indices.value(step.length)
        text.branch(text.op(f"icmp sgt i64 {length}, 0"), head, skipped)
        text.start(skipped)
        with self.indices.scope(before, is_loop=False):
            for (start, a, _), (_, place, _) in zip(begins, step.carries, strict=True):
                assert isinstance(place, Arena)
                self._memcpy(a, start, self.program.buffers[place.buffer].bytes)
        text.jump(done)
        return skipped


_PLACES: dict[type, Callable[[_Writer, Any], str]] = {
    Table: lambda writer, place: writer.tables[place.slot],
    Arena: lambda writer, place: writer.arrays[place.buffer],
    Row: _Writer._row,
    Carry: lambda writer, place: writer.carries[place.loop, place.index, place.next],
}

_STEPS: dict[type, Callable[[_Writer, Any], None]] = {
    Launch: _Writer.launch,
    Copy: _Writer.copy,
    Repeat: _Writer.repeat,
}
