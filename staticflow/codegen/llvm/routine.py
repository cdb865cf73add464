"""A program as LLVM text: one function that runs all of it.

``i64 @run(ptr table, ptr sizes, ptr state, ptr call)`` takes the addresses of the caller's arrays,
the unknown sizes, a cell that holds an arena between calls, and what ``look`` wants to know of this
one. It borrows the arena (a second caller at the same time gets one of its own), runs the steps,
and gives it back. The result is 0, -1 if there was no memory, `INTERRUPTED` if the user wanted to
stop, or ``256 * site + code`` of the kernel that failed. Then ``iterations`` has the number of
iterations done by then of each loop around it.

``i1 @look(ptr call)`` says whether the user wants to stop. Loops call it after so many iterations
that it costs them nothing, and programs that take long between their kernels; kernels that take
long ask ``i1 @stopping()``. From ``@commit()`` on, before the first kernel that overwrites a
variable, nobody asks any more.

Buffers that grow stay from call to call, so that a loop that makes as many iterations as before
allocates nothing (`staticflow.codegen.llvm.arena`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from staticflow.codegen.llvm.addresses import Places
from staticflow.codegen.llvm.arena import CELL, arena_text, header_bytes, make_room
from staticflow.codegen.llvm.callers import Caller, take_caller
from staticflow.codegen.llvm.index import IndexWriter
from staticflow.codegen.llvm.modules import SMALL
from staticflow.codegen.llvm.probes import Probes
from staticflow.codegen.llvm.render import LOOK, join_kernels, looks, may_stop, render_kernel
from staticflow.codegen.llvm.repeats import write_choose, write_repeat
from staticflow.codegen.llvm.stretches import find_stretches, launch_key, write_stretch
from staticflow.codegen.llvm.subnormals import flush_subnormals
from staticflow.codegen.llvm.text import BasicBlock, FunctionText, Type
from staticflow.codegen.program.layout import Layout
from staticflow.codegen.program.routine import (
    Arena,
    Ask,
    Choose,
    Copy,
    Ensure,
    Give,
    Launch,
    Measure,
    Place,
    Repeat,
    Require,
    Routine,
    Step,
    Table,
    walk_steps,
)
from staticflow.codegen.statuses import INTERRUPTED, NO_MEMORY, NO_ROOM, SIZES_DIFFER
from staticflow.codegen.target import PORTABLE, Target
from staticflow.graph.dims import Call, Dim, Size, terms_of

if TYPE_CHECKING:
    from staticflow.codegen.llvm.poison import Poison

__all__ = ["render_routine"]

_POINTER = Type("ptr")

_HUGE = 2.0**62

_IN_REGISTERS = 32
"""Arrays of the caller's whose addresses are loaded as a run begins. More are no sooner at hand
where registers are spilled to, and what LLVM takes for them grows with the square of their number:
4.7 s for 4,000, of which each is then loaded where it is used. Without loops each launch stands in
the text once and is run once: `run` is not optimised then, which takes LLVM half the time, and a
launch of many 8 ns more."""

_STEPS_OF_A_BLOCK = 32
"""Outermost steps in one basic block, at most: what LLVM takes for one grows faster than its
length, 6.5 s for 3,000 launches that are one block and 0.9 s for as many in such parts."""


def render_routine(
    program: Routine,
    layout: Layout,
    table: Sequence[Size],
    updated: Collection[int] = (),
    keeps_arena: bool = True,
    target: Target = PORTABLE,
    probes: Probes | None = None,
    poison: Poison | None = None,
    written: Mapping[str, str] | None = None,
) -> str:
    """The text of the kernels, of ``run``, and, if there is an arena, of ``release``. ``layout``
    says where buffers lie in it; an arena that is not kept is freed at the end of each run.
    ``table`` has the bytes of the caller's arrays, of which ``updated`` are variables' that the
    program overwrites, ``target`` the machine whose instructions the text may name, ``probes`` what
    reads a clock around each step, ``poison`` what spoils freed memory, if anything does; the texts
    of kernels that are ``written`` already are given by name."""
    arena = arena_text(bool(program.buffers), len(program.growing))
    counted = {
        step.kernel
        for step in walk_steps(program.steps)
        if probes is not None and isinstance(step, Launch) and step.binds is not None
    }
    texts = {
        k.name: (written or {}).get(k.name) or render_kernel(k, target, k.name in counted)
        for k in program.kernels
    }
    stopping = {name for name, text in texts.items() if may_stop(text)}
    callers = {} if probes is not None else _take_callers(program, texts)
    kernels = join_kernels(texts.values(), "\n".join(s for c in callers.values() for s in c.lines))
    if probes is not None:
        kernels = probes.around_parts(kernels, sum(1 for _ in walk_steps(program.steps)))
    run = RunWriter(
        program, layout, table, updated, stopping, callers, keeps_arena, probes, poison
    ).write()
    asks = sum(isinstance(s, Ask) for s in walk_steps(program.steps))
    answers = "".join(f"@answer{i} = external global i8\n" for i in range(asks))
    ask = f"{answers}declare i1 @ask(ptr, ptr, ptr)\n" if asks else ""
    iterations = (
        f"@iterations = global [{program.loops} x i64] zeroinitializer\n" if program.loops else ""
    )
    text = f"{arena}\n{LOOK}{ask}{iterations}\n{kernels}\n{run}"
    return text if program.flushes is None else flush_subnormals(text, program.flushes)


def _take_callers(program: Routine, texts: dict[str, str]) -> dict[str, Caller]:
    """The kernels that stand where they are launched, taken out of the ``texts`` of all; none of a
    long text, of which other modules have a part."""
    if sum(map(len, texts.values())) >= SMALL:
        return {}
    launched = Counter(s.kernel for s in walk_steps(program.steps) if isinstance(s, Launch))
    found: dict[str, Caller] = {}
    for name, text in texts.items():
        if launched[name] == 1:
            texts[name], caller = take_caller(text)
            if caller is not None:
                found[name] = caller
    return found


class RunWriter:
    """Writes ``run``."""

    def __init__(
        self,
        program: Routine,
        layout: Layout,
        table: Sequence[Size],
        updated: Collection[int],
        stopping: Collection[str],
        callers: Mapping[str, Caller],
        keeps_arena: bool,
        probes: Probes | None,
        poison: Poison | None,
    ) -> None:
        self.program, self.layout = program, layout
        self.table, self.updated, self.keeps_arena = table, updated, keeps_arena
        self.kernels = {k.name: k for k in program.kernels}
        self.looking = {k.name for k in program.kernels if looks(k)}
        self.stopping = stopping  # kernels that may return `INTERRUPTED`
        self.callers = callers  # kernels that are written where they are launched
        self.overwrites = False
        self.asked = 0  # of the answers, which are in the order of the steps
        self.probes, self.poison = probes, poison
        self.site = 0  # the latest
        self.written = 0  # of the steps, those in a stretch once
        self.tables: list[str] = []  # of stretches
        self.text = FunctionText()
        self.open: list[int] = []  # the loops around the step that is written
        self.arena = ""
        self.failed: BasicBlock = self.text.new_block("failed")
        self.stopped: BasicBlock | None = None
        self.failures: list[tuple[str, BasicBlock]] = []
        self.header = header_bytes(len(program.growing))
        self.indices = IndexWriter(self.text, {})
        self.places = Places(self.text, self.indices)

    def write(self) -> str:
        """The whole function."""
        text = self.text
        began = None if self.probes is None else self.probes.begin_run(text)
        for i, sym in enumerate(self.program.sizes):
            at = text.op(f"getelementptr i64, ptr %sizes, i64 {i}")
            self.indices.define(sym, text.op(f"load i64, ptr {at}"))
        if self.program.slots <= _IN_REGISTERS:
            self.places.tables = [self.places.load_slot(i) for i in range(self.program.slots)]
        for mark, height in self.layout.marks:
            self.indices.define(mark, self.indices.value(height))
        lent = self._borrow() if self.program.buffers else ""
        if lent:
            self.places.arena = self.arena
            self.places.arrays = [
                o if isinstance(o, int) else self._offset(o) for o in self.layout.offsets
            ]
        for i, buffer in enumerate(self.program.growing):
            cell = f"getelementptr i8, ptr {lent}, i64 {8 + CELL * i}"
            self.places.cells[buffer] = text.op(cell)
        if self.poison is not None:
            self._spoil_all(self.poison)
        self._top(self.program.steps)
        for i, sym in enumerate(self.program.told, len(self.program.sizes)):
            at = text.op(f"getelementptr i64, ptr %sizes, i64 {i}")
            text.do(f"store i64 {self.indices.value(Dim.of(sym))}, ptr {at}")
        done = text.new_block("done")
        last = text.block
        text.jump(done)
        if self.stopped is not None:
            text.start(self.stopped)
            self.failures.append((str(INTERRUPTED), self.stopped))
            text.jump(self.failed)
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
        if lent and self.keeps_arena:
            text.do(f"call void @give_back(ptr %state, ptr {lent})")
        elif lent:
            text.do(f"call void @release(ptr {lent})")
        if self.probes is not None and began is not None:
            self.probes.end(text, 0, began, "0", holds=True)
        text.block.end = f"ret i64 {result}"
        few_in_a_loop = self.tables and self.written <= _IN_REGISTERS
        is_optimised = self.program.loops or few_in_a_loop
        how = "nounwind" if is_optimised else "nounwind noinline optnone"
        head = f"define i64 @run(ptr %table, ptr %sizes, ptr %state, ptr %call) {how}"
        return f"{''.join(self.tables)}{head} {{\n{text}}}\n"

    def _borrow(self) -> str:
        text = self.text
        bytes_ = self.indices.value(self.layout.arena)
        lent = text.op(f"call ptr @borrow(ptr %state, i64 {bytes_}, i64 {self.header})")
        there, missing = text.new_block("there"), text.new_block("missing")
        text.branch(text.op(f"icmp eq ptr {lent}, null"), missing, there)
        text.start(missing)
        missing.end = f"ret i64 {NO_MEMORY}"
        text.start(there)
        self.arena = text.op(f"getelementptr i8, ptr {lent}, i64 {self.header}")
        return lent

    def _offset(self, offset: Size) -> str:
        at = self.indices.value(offset)
        return self.text.op(f"getelementptr i8, ptr {self.arena}, i64 {at}")

    def _top(self, steps: Sequence[Step]) -> None:
        """The outermost steps. A run that is long, and so has let the lock of the interpreter go,
        looks between them whether the user wants to stop, until one overwrites a variable."""
        first = next((i for i, s in enumerate(steps) if self._overwrites(s)), len(steps))
        count = min(first, len(steps) - 1)
        long = ""
        if count >= 1:
            thread = self.text.op("load ptr, ptr %call")
            long = self.text.op(f"icmp ne ptr {thread}, null")
        keys = [launch_key(self, step) for step in steps]
        stretches = [*find_stretches(keys, 0, first), *find_stretches(keys, first)]
        for i, stretch in enumerate(stretches):
            if 1 <= stretch.first <= count:
                self.look_if(long)
            if i and i % _STEPS_OF_A_BLOCK == 0:
                part = self.text.new_block("part")
                self.text.jump(part)
                self.text.start(part)
            if stretch.first == first:
                self.overwrites = True
                self.text.do("call void @commit()")
            if stretch.times == 1:
                self.steps([steps[stretch.first]])
            else:
                look = long if stretch.first < first else ""
                write_stretch(self, steps[stretch.first : stretch.end], stretch, look)

    def _overwrites(self, step: Step) -> bool:
        """Whether a step writes the new value of a variable over the old one."""
        written: Sequence[Place] = ()
        if isinstance(step, Launch):
            buffers = self.kernels[step.kernel].buffers
            written = [p for b, p in zip(buffers, step.places, strict=True) if b.access != "in"]
        elif isinstance(step, Copy):
            written = (step.target,)
        return any(isinstance(p, Table) and p.slot in self.updated for p in written)

    def look_if(self, condition: str) -> None:
        """Where ``condition`` holds, end the run if the user wants to stop."""
        text = self.text
        look, on = text.new_block("look"), text.new_block("on")
        text.branch(condition, look, on)
        text.start(look)
        if self.stopped is None:
            self.stopped = text.new_block("stopped")
        text.branch(text.op("call i1 @look(ptr %call)"), self.stopped, on)
        text.start(on)

    def steps(self, steps: Sequence[Step]) -> None:
        """Write steps one after the other."""
        self.written += len(steps)
        for step in steps:
            site = self.site = self.site + 1
            if self.probes is None:
                _STEPS[type(step)](self, step)
            else:
                self._probe(step, self.probes, site)
            if self.poison is not None:
                self._spoil(self.poison, self.poison.freed.get(site, ()))

    def _spoil(self, poison: Poison, buffers: Sequence[int]) -> None:
        """Spoil buffers that nothing reads any more."""
        for i in buffers:
            buffer = self.program.buffers[i]
            if buffer.grows:
                poison.fill_room(self.text, self.places.cells[i], buffer.dtype)
            else:
                bytes_ = self.indices.value(buffer.bytes)
                poison.fill(self.text, self.places.address(Arena(i)), bytes_, buffer.dtype)

    def _spoil_all(self, poison: Poison) -> None:
        """Spoil all that has no value as a run begins."""
        if self.program.buffers:
            poison.fill(self.text, self.arena, self.indices.value(self.layout.arena))
        for cell in self.places.cells.values():
            poison.fill_room(self.text, cell)
        for slot in poison.outputs:
            poison.fill(
                self.text, self.places.address(Table(slot)), self.indices.value(self.table[slot])
            )

    def _probe(self, step: Step, probes: Probes, site: int) -> None:
        """A step between two readings of the clock."""
        counts = isinstance(step, Launch) and step.binds is not None
        if counts:
            self.text.do("store i64 0, ptr @counted")
        began = probes.begin(self.text)
        _STEPS[type(step)](self, step)
        number = self.text.op("load i64, ptr @counted") if counts else "0"
        if isinstance(step, Repeat):
            number = self.places.reached[step.loop].iteration
        elif isinstance(step, Measure):
            number = self.indices.value(Dim.of(step.binds))
        probes.end(self.text, site, began, number, isinstance(step, Repeat | Choose))

    def launch(self, step: Launch) -> None:
        buffers = self.kernels[step.kernel].buffers
        self.call(
            step,
            [
                self.places.cell(p) if b.access == "grows" else self.places.address(p)
                for b, p in zip(buffers, step.places, strict=True)
            ],
        )

    def call(self, step: Launch, arrays: Sequence[str]) -> None:
        """Launch a kernel on arrays at these addresses."""
        text = self.text
        kernel = self.kernels[step.kernel]
        sizes = [self.indices.value(s) for s in step.sizes]
        caller = self.callers.get(step.kernel)
        if caller is not None:
            status = caller.write(text, [*arrays, *sizes])
        else:
            args = [f"ptr {array}" for array in arrays] + [f"i64 {size}" for size in sizes]
            args += ["ptr %call"] if kernel.name in self.looking else []
            status = text.op(f"call i32 @{step.kernel}({', '.join(args)})")
        if kernel.name in self.looking or (kernel.name in self.stopping and not self.overwrites):
            going = text.op(f"icmp ne i32 {status}, {INTERRUPTED}")
            self._go_on_if(going, str(INTERRUPTED))
        if any(b.access == "grows" for b in kernel.buffers):
            self._go_on_if(text.op(f"icmp ne i32 {status}, {NO_ROOM}"), str(NO_MEMORY))
        if step.site == 0:
            return
        wide = text.op(f"zext i32 {status} to i64")
        reason = text.op(f"add i64 {wide}, {256 * step.site}")
        self._go_on_if(text.op(f"icmp eq i32 {status}, 0"), reason)

    def _go_on_if(self, condition: str, reason: str) -> None:
        """Fail for ``reason`` unless ``condition`` holds."""
        text = self.text
        good, bad = text.new_block("good"), text.new_block("bad")
        text.branch(condition, good, bad)
        text.start(bad)
        for loop in self.open:
            at = text.op(f"getelementptr i64, ptr @iterations, i64 {loop}")
            text.do(f"store i64 {self.places.reached[loop].iteration}, ptr {at}")
        self.failures.append((reason, bad))
        text.jump(self.failed)
        text.start(good)

    def ensure(self, step: Ensure) -> None:
        wanted = self.indices.value(step.bytes)
        reason = str(256 * step.site + NO_ROOM if step.site else NO_MEMORY)
        if step.site and self._may_be_huge(step.bytes):
            real = self.indices.real(step.bytes)
            self._go_on_if(self.text.op(f"fcmp olt double {real}, {_HUGE:.1f}"), reason)
        cell = self.places.cells[step.buffer]
        before = "" if self.poison is None else self.poison.capacity(self.text, cell)
        self._go_on_if(make_room(self.text, cell, wanted), reason)
        if self.poison is not None:
            self.poison.fill_from(self.text, cell, before)

    @staticmethod
    def _may_be_huge(bytes_: Size) -> bool:
        """Whether a number of bytes may be too large for an integer, as the product of two sizes
        that come from values."""
        return any(len(m) > 1 or isinstance(a, Call) for m, _ in terms_of(bytes_) for a in m)

    def require(self, step: Require) -> None:
        a, b = self.indices.value(step.a), self.indices.value(step.b)
        reason = str(256 * step.site + SIZES_DIFFER)
        self._go_on_if(self.text.op(f"icmp eq i64 {a}, {b}"), reason)

    def measure(self, step: Measure) -> None:
        text = self.text
        number = text.op(f"load i64, ptr {self.places.address(step.number)}")
        if step.most is not None:
            most = self.indices.value(step.most)
            inside = text.op(f"icmp ule i64 {number}, {most}")  # a negative one is large
            self._go_on_if(inside, str(256 * step.site + SIZES_DIFFER))
        self.indices.define(step.binds, number)

    def give(self, step: Give) -> None:
        """The caller frees it; the next call begins with an empty cell."""
        text, cell = self.text, self.places.cells[step.buffer]
        at = text.op(f"getelementptr ptr, ptr %table, i64 {step.slot}")
        text.do(f"store ptr {text.op(f'load ptr, ptr {cell}')}, ptr {at}")
        text.do(f"call void @llvm.memset.p0.i64(ptr {cell}, i8 0, i64 {CELL}, i1 false)")

    def ask(self, step: Ask) -> None:
        """``ask`` has the addresses of the arrays, and then their sizes."""
        text = self.text
        sizes = [self.indices.value(s) for t in step.types for s in t.shape]
        with text.at(text.entry):
            words = text.op(f"alloca i64, i64 {len(step.types) + len(sizes)}")
        values = [f"ptr {self.places.address(p)}" for p in step.places]
        values += [f"i64 {s}" for s in sizes]
        for i, value in enumerate(values):
            text.do(f"store {value}, ptr {text.op(f'getelementptr i64, ptr {words}, i64 {i}')}")
        number = self.asked
        self.asked += 1
        stopped = text.op(f"call i1 @ask(ptr %call, ptr @answer{number}, ptr {words})")
        self._go_on_if(text.op(f"xor i1 {stopped}, true"), str(INTERRUPTED))

    def flag(self, place: Place) -> str:
        """The bool that lies at a place."""
        byte = self.text.op(f"load i8, ptr {self.places.address(place)}")
        return self.text.op(f"icmp ne i8 {byte}, 0")

    def copy(self, step: Copy) -> None:
        target, source = map(self.places.address, (step.target, step.source))
        size = self.indices.value(step.bytes)
        self.text.do(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)"
        )


_STEPS: dict[type, Callable[[RunWriter, Any], None]] = {
    Launch: RunWriter.launch,
    Copy: RunWriter.copy,
    Repeat: write_repeat,
    Choose: write_choose,
    Ensure: RunWriter.ensure,
    Require: RunWriter.require,
    Measure: RunWriter.measure,
    Give: RunWriter.give,
    Ask: RunWriter.ask,
}
