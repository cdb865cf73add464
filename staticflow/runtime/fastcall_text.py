"""The sizes of a call as LLVM text, of each program its own: ``measure`` checks what the arguments
have against what the graph says, and computes all that a call has to know of it, such as the sizes
of the outputs; ``measure_late`` does so for outputs of which only the run tells the size.

The text is a module of its own, for it is compiled without optimisation: that takes a quarter of
the time, and costs a call nothing that could be measured. What does not depend on the program is in
`fastcall_call`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from staticflow.codegen.llvm.index import IndexWriter
from staticflow.codegen.llvm.text import I64, FunctionText, Type
from staticflow.codegen.program.routine import Routine
from staticflow.codegen.program.traffic import moved_bytes
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import as_symbol, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, is_provably_ge, prod
from staticflow.graph.equalities import Equality
from staticflow.graph.types import TensorType
from staticflow.native.module import declarations
from staticflow.runtime.fastcall_call import (
    MOST_ARRAYS,
    MOST_NUMBERS,
    call_boxed,
    call_program,
)
from staticflow.runtime.fastcall_helpers import MEASURING
from staticflow.runtime.fastcall_sizes import size_limit
from staticflow.runtime.object_layout import DIMS

__all__ = ["Entry", "Numbers", "fits", "numbers_of", "render_entry"]

_POINTER = Type("ptr")

_MOST_APART = 1 << 31
"""The most that a size is where a stride is unknown, too, so that bits are left for this."""

_CALLS = """
@program = external global i8

define ptr @call(ptr %self, ptr %args, i64 %count) {
  %result = tail call ptr @call_program(ptr @program, ptr %args, i64 %count)
  ret ptr %result
}

define ptr @boxed(ptr %self, ptr %args, i64 %count, ptr %names) {
  %result = tail call ptr @call_boxed(ptr @program, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the text of a program's entry depends on.

    ``params`` are the types of the inputs and then of the variables. In the table of ``run`` the
    arrays whose bytes are ``constants`` follow them, and then ``outputs``. ``planned`` are the
    sizes that the memory plan computes.
    """

    routine: Routine
    params: tuple[TensorType, ...]
    constants: tuple[int, ...]
    outputs: tuple[TensorType, ...]
    equalities: tuple[Equality, ...]
    planned: tuple[Size, ...]

    def is_late(self, t: TensorType) -> bool:
        """Whether only the run can tell the size of an output."""
        return any(not symbols_of(d).isdisjoint(self.routine.told) for d in t.shape)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a call: first the sizes that ``run`` takes and tells; at ``traffic`` the bytes
    that it moves; at ``outputs`` the bytes of each, and its sizes behind; from ``rest`` on the
    sizes of late outputs that are known before. There are ``count`` of them."""

    traffic: int
    outputs: tuple[int, ...]
    rest: tuple[Sym, ...]
    count: int


def numbers_of(entry: Entry) -> Numbers:
    """Where the numbers of a call are."""
    traffic = len(entry.routine.sizes) + len(entry.routine.told)
    at, outputs = traffic + 1, []
    for t in entry.outputs:
        outputs.append(at)
        at += 1 + t.ndim
    late = [d for t in entry.outputs if entry.is_late(t) for d in t.shape]
    told = frozenset(entry.routine.told)
    rest = tuple(dict.fromkeys(s for d in late for s in symbols_of(d) if s not in told))
    return Numbers(traffic, tuple(outputs), rest, at + len(rest))


def fits(entry: Entry) -> bool:
    """Whether a program is small enough for a native entry, which has its arrays and the sizes of
    a call on the stack."""
    arrays = len(entry.params) + len(entry.constants) + len(entry.outputs)
    return arrays <= MOST_ARRAYS and numbers_of(entry).count <= MOST_NUMBERS


def render_entry(entry: Entry) -> str:
    """The text of ``call`` and ``boxed``, which lead to `call_program` and `call_boxed`, and of
    ``measure`` and ``measure_late``: a module of its own."""
    return f"{_declarations()}{_CALLS}\n{_Measure(entry).write()}\n{_MeasureLate(entry).write()}"


@functools.cache
def _declarations() -> str:
    """The native functions that entries call."""
    return declarations((*MEASURING, call_program, call_boxed))


def _bytes(t: TensorType) -> Size:
    return prod(t.shape) * t.dtype.itemsize


def _extent(t: TensorType) -> Size:
    """Bytes that no element lies behind, counted from the first."""
    return t.offset(t.shape) * t.dtype.itemsize


def _limits(entry: Entry, outputs: Sequence[TensorType]) -> dict[Sym, int]:
    """The most that each size and each stride of the params may be for all that a call computes of
    them to fit into 64 bits. Strides are far larger than sizes: a product of sizes is the last."""
    shapes = [s for t in entry.params for s in map(as_symbol, t.shape) if s is not None]
    strides = [s for t in entry.params for s in map(as_symbol, t.strides or ()) if s is not None]
    strides = [s for s in strides if s not in shapes]
    sizes = [
        *entry.planned,
        *(d for t in (*entry.params, *outputs) for d in (*t.shape, _bytes(t), _extent(t))),
        *(s for e in entry.equalities for s in (e.a, e.b)),
    ]
    most = size_limit(sizes, dict.fromkeys(strides, 1))
    if not strides:
        return dict.fromkeys(shapes, most)
    limits = dict.fromkeys(shapes, min(most, _MOST_APART))
    return limits | dict.fromkeys(strides, size_limit(sizes, limits))


class _Writer:
    """Writes a function that computes numbers."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.text = FunctionText()
        self.indices = IndexWriter(self.text, {})
        self.numbers = numbers_of(entry)

    def at(self, base: str, index: int, type: Type) -> str:
        """The address of a word."""
        return self.text.op(f"getelementptr {type}, ptr {base}, i64 {index}")

    def load(self, base: str, index: int, type: Type) -> str:
        """A word."""
        return self.text.op(f"load {type}, ptr {self.at(base, index, type)}")

    def store(self, index: int, size: Size) -> None:
        """Write a number down."""
        self.text.do(f"store i64 {self.indices.value(size)}, ptr {self.at('%numbers', index, I64)}")

    def store_outputs(self, late: bool) -> None:
        """Write down the bytes and the sizes of outputs."""
        for t, at in zip(self.entry.outputs, self.numbers.outputs, strict=True):
            if self.entry.is_late(t) is late:
                for i, size in enumerate((_bytes(t), *t.shape)):
                    self.store(at + i, size)

    @property
    def first_of_rest(self) -> int:
        """Where the sizes are that late outputs need beside those that the run tells."""
        return self.numbers.count - len(self.numbers.rest)


class _Measure(_Writer):
    """Writes ``measure``: whether a program is for the sizes of ``arrays``, and its numbers."""

    def write(self) -> str:
        """The whole function."""
        entry, text = self.entry, self.text
        good, other = text.new_block("good"), text.new_block("other")
        text.branch(self.check_sizes(), good, other)
        text.start(other)
        other.end = "ret i1 false"
        text.start(good)
        for i, sym in enumerate(entry.routine.sizes):
            self.store(i, Dim.of(sym))
        for i, sym in enumerate(self.numbers.rest, self.first_of_rest):
            self.store(i, Dim.of(sym))
        table = [*map(_bytes, entry.params), *entry.constants, *map(_bytes, entry.outputs)]
        self.store(self.numbers.traffic, moved_bytes(entry.routine, table))
        self.store_outputs(late=False)
        text.block.end = "ret i1 true"
        return f"define zeroext i1 @measure(ptr %arrays, ptr %numbers) {{\n{text}}}\n"

    def check_sizes(self) -> str:
        """Bind each unknown size where it stands alone first, and compare everything else; gives
        whether all is as it should be."""
        entry, text = self.entry, self.text
        early = [t for t in entry.outputs if not entry.is_late(t)]
        limits = _limits(entry, early)
        conditions: list[str] = []
        bound: set[Sym] = set()
        later: list[tuple[Size, str]] = []
        for i, t in enumerate(entry.params):
            if t.strides is None and all(isinstance(size, int) for size in t.shape):
                continue  # compared with the spec already, which has sizes, and no strides
            array = self.load("%arrays", i, _POINTER)
            if t.strides is not None:  # a row-major array is for a program that knows that
                conditions.append(text.op(f"call i1 @is_apart(ptr {array})"))
            for size, have in self.unknown_sizes(t, array):
                sym = as_symbol(size)
                if sym is None or sym in bound:
                    later.append((size, have))
                    continue
                bound.add(sym)
                self.indices.define(sym, have)
                conditions.append(text.op(f"icmp ule i64 {have}, {limits[sym]}"))
        for size, have in later:
            conditions.append(text.op(f"icmp eq i64 {have}, {self.indices.value(size)}"))
        for e in entry.equalities:
            a, b = self.indices.value(e.a), self.indices.value(e.b)
            conditions.append(text.op(f"icmp eq i64 {a}, {b}"))
        for size in dict.fromkeys(d for t in early for d in t.shape):
            if not is_provably_ge(size, 0):
                conditions.append(text.op(f"icmp sge i64 {self.indices.value(size)}, 0"))
        every = "true"
        for condition in conditions:
            every = text.op(f"and i1 {every}, {condition}")
        return every

    def unknown_sizes(self, t: TensorType, array: str) -> Iterator[tuple[Size, str]]:
        """The sizes of a param that the spec does not know, and its strides, with what ``array``
        has."""
        for axis, size in enumerate(t.shape):
            if not isinstance(size, int):
                at = self.text.op(f"getelementptr i8, ptr {array}, i64 {DIMS}")
                yield size, self.load(self.text.op(f"load ptr, ptr {at}"), axis, I64)
        for axis, stride in enumerate(t.strides or ()):
            if t.shape[axis] != 1:
                asked = f"ptr {array}, i64 {axis}, i64 {t.dtype.itemsize}"
                yield stride, self.text.op(f"call i64 @stride_along({asked})")


class _MeasureLate(_Writer):
    """Writes ``measure_late``, which computes the numbers of late outputs behind a run."""

    def write(self) -> str:
        """The whole function."""
        told = enumerate(self.entry.routine.told, len(self.entry.routine.sizes))
        for i, sym in (*told, *enumerate(self.numbers.rest, self.first_of_rest)):
            self.indices.define(sym, self.load("%numbers", i, I64))
        self.store_outputs(late=True)
        self.text.block.end = "ret void"
        return f"define void @measure_late(ptr %numbers) {{\n{self.text}}}\n"
