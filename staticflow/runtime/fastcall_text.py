"""The native entry of a program as LLVM text: ``ptr @call(ptr self, ptr args, i64 count)``.

It is a ``METH_FASTCALL`` function of CPython that takes the inputs, each an array or a box of one,
checks all that the graph says of them, makes the outputs, and calls ``run``. It gives one array, or
a tuple of arrays where the program has not one output; an int, the status of a run that failed; or
None, with nothing done, for arguments that it will not take or if it is not its turn. It raises
what made the user stop the run, and words no errors of its own: who asked runs the same arguments
through the portable path, which does. ``boxed`` asks itself, and gives a new box; it takes
arguments by name, too (``METH_KEYWORDS``).

Addresses of this process reach the code as symbols and through the table ``bound``: the cell of
the arena, the constants, the boxes of the variables, and what ``boxed`` needs, in this order. The
text is a module of its own, for it is compiled without optimisation: that takes a quarter of the
time, and costs a call nothing that could be measured. What does not depend on the program is in
`fastcall_helpers`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from staticflow.codegen.llvm.index import IndexWriter
from staticflow.codegen.llvm.text import I64, BasicBlock, FunctionText, Type, phi
from staticflow.codegen.program.routine import Routine
from staticflow.codegen.program.traffic import moved_bytes
from staticflow.graph.dim_queries import as_symbol, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, is_provably_ge, prod
from staticflow.graph.dtypes import DType
from staticflow.graph.equalities import Equality
from staticflow.graph.types import TensorType
from staticflow.native.module import declarations
from staticflow.runtime.fastcall_checks import UNKNOWN
from staticflow.runtime.fastcall_helpers import HELPERS
from staticflow.runtime.fastcall_sizes import size_limit
from staticflow.runtime.interpreter_lock import go
from staticflow.runtime.object_layout import ALIGNED, CONTIGUOUS, WRITEABLE

__all__ = ["MOST_ARRAYS", "Entry", "descr_symbol", "render_entry"]

MOST_ARRAYS = 4096
"""Programs of more arrays have no native entry, which has them on the stack."""

_POINTER = Type("ptr")
_LONG = 1 << 16
"""Bytes of traffic above which other threads may run meanwhile: some microseconds, against a tenth
of one for letting the lock of the interpreter go, and far more until it is had again."""

_MOST_APART = 1 << 31
"""The most that a size is where a stride is unknown, too, so that bits are left for this."""

_EXTERNALS = """
%spec = type { ptr, ptr, i64, i64, i32, i32 }  ; a `Spec`
@_Py_NoneStruct = external global i8
@box_type = external global i8
@bound = external global ptr
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @run(ptr, ptr, ptr, ptr)
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the entry of a program has to know.

    ``params`` are the types of the inputs and then of the ``variables`` many variables, and
    ``updated`` the numbers of those that the program overwrites. In the table of ``run`` the arrays
    whose bytes are ``constants`` follow them, and then ``outputs``. ``planned`` are the sizes that
    the memory plan computes, and ``slot_offset`` says where boxes keep their array.
    """

    routine: Routine
    params: tuple[TensorType, ...]
    variables: int
    updated: frozenset[int]
    constants: tuple[int, ...]
    outputs: tuple[TensorType, ...]
    equalities: tuple[Equality, ...]
    planned: tuple[Size, ...]
    slot_offset: int


def descr_symbol(dtype: DType) -> str:
    """The symbol that stands for the address of NumPy's dtype object."""
    return f"descr_{dtype.short}"


def render_entry(entry: Entry) -> str:
    """The text of ``call``, a module of its own."""
    dtypes = dict.fromkeys(t.dtype for t in (*entry.params, *entry.outputs))
    externals = "".join(f"@{descr_symbol(d)} = external global i8\n" for d in dtypes)
    return f"{_declared()}{_EXTERNALS}{externals}{_specs(entry)}\n{_Writer(entry).write()}"


@functools.cache
def _declared() -> str:
    """The native functions that entries call."""
    return declarations((*HELPERS, go))


def _specs(entry: Entry) -> str:
    """The constant tables ``specs`` and, behind them, ``wanted``: the sizes of all params."""
    rows: list[str] = []
    sizes: list[Size] = []
    order = sorted(range(len(entry.params)), key=lambda i: (i not in entry.updated, i))
    places = {i: place for place, i in enumerate(order)}
    for i, t in enumerate(entry.params):
        flags = ALIGNED | (CONTIGUOUS if t.strides is None else 0)
        flags |= WRITEABLE if i in entry.updated else 0
        rows.append(
            f"%spec {{ ptr @{descr_symbol(t.dtype)}, "
            f"ptr getelementptr (i64, ptr @wanted, i64 {len(sizes)}), "
            f"i64 {t.dtype.itemsize}, i64 {places[i]}, i32 {t.ndim}, i32 {flags} }}"
        )
        sizes += t.shape
    wanted = ", ".join(f"i64 {s if isinstance(s, int) else UNKNOWN}" for s in sizes)
    return (
        f"@specs = internal constant [{len(rows)} x %spec] [{', '.join(rows)}]\n"
        f"@wanted = internal constant [{len(sizes)} x i64] [{wanted}]\n"
    )


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
    """Writes ``call``. Everything up to the run is one chain of blocks that goes on while the
    arguments are as they should be; what a block defines is there in all that follow."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.text = FunctionText()
        self.indices = IndexWriter(self.text, {})
        self.declined = self.text.new_block("declined")
        self.failed = self.text.new_block("failed")
        self.failures: list[tuple[str, BasicBlock]] = []
        self.finish = self.text.new_block("finish")
        self.results: list[tuple[str, BasicBlock]] = []

    def write(self) -> str:
        """The whole function."""
        entry, text = self.entry, self.text
        count = len(entry.params)
        self.arrays = self.room(_POINTER, count)
        self.table = self.room(_POINTER, entry.routine.slots)
        self.sizes = self.room(I64, len(entry.routine.sizes) + len(entry.routine.told))
        self.shape = self.room(I64, max((t.ndim for t in entry.outputs), default=0))
        self.starts, self.ends = (self.room(I64, count) for _ in range(2))
        self.take()
        self.check_sizes()
        if entry.updated:
            self.check_overlap()
        text.do(f"call void @hold_each(ptr {self.arrays}, i64 {count})")
        self.fill()
        result = self.make_outputs()
        self.run(result)
        self.fail()
        text.start(self.finish)
        name = text.fresh("result")
        self.finish.phis.append(phi(name, _POINTER, self.results))
        text.do(f"call void @drop_each(ptr {self.arrays}, i64 {count})")
        text.block.end = f"ret ptr {name}"
        text.start(self.declined)
        text.do("call void @Py_IncRef(ptr @_Py_NoneStruct)")
        text.block.end = "ret ptr @_Py_NoneStruct"
        return f"define ptr @call(ptr %self, ptr %args, i64 %count) {{\n{text}}}\n{self.boxed()}"

    def boxed(self) -> str:
        """The function that gives its one array in a box."""
        text = FunctionText()
        cells = 1 + len(self.entry.constants) + self.entry.variables
        box = text.op(f"getelementptr ptr, ptr @bound, i64 {cells}")
        result = text.op(
            f"call ptr @boxed_call(ptr @call, ptr {box}, ptr %args, i64 %count, ptr %names)"
        )
        text.block.end = f"ret ptr {result}"
        return f"define ptr @boxed(ptr %self, ptr %args, i64 %count, ptr %names) {{\n{text}}}\n"

    # -- pieces ------------------------------------------------------------------------------

    def room(self, type: Type, count: int) -> str:
        return self.text.op(f"alloca {type}, i64 {count}")

    def go_on_if(self, condition: str) -> None:
        """Leave what follows to the portable path unless ``condition`` holds."""
        block = self.text.new_block("ok")
        self.text.branch(condition, block, self.declined)
        self.text.start(block)

    def at(self, base: str, index: int, type: Type) -> str:
        return self.text.op(f"getelementptr {type}, ptr {base}, i64 {index}")

    def load(self, base: str, index: int, type: Type) -> str:
        return self.text.op(f"load {type}, ptr {self.at(base, index, type)}")

    def store(self, base: str, index: int, type: Type, value: str) -> None:
        self.text.do(f"store {type} {value}, ptr {self.at(base, index, type)}")

    def data(self, array: str) -> str:
        return self.text.op(f"call ptr @data_of(ptr {array})")

    # -- checks ------------------------------------------------------------------------------

    def take(self) -> None:
        """Take the arrays out of the arguments and of the variables."""
        entry, text = self.entry, self.text
        inputs = len(entry.params) - entry.variables
        self.go_on_if(text.op(f"icmp eq i64 %count, {inputs}"))
        boxes = self.at("@bound", 1 + len(entry.constants), _POINTER)
        for objects, first, count in (("%args", 0, inputs), (boxes, inputs, entry.variables)):
            if count == 0:
                continue
            specs = self.at("@specs", first, Type("%spec"))
            arrays, table = (self.at(b, first, _POINTER) for b in (self.arrays, self.table))
            taken = text.op(
                f"call i1 @take_arrays(ptr {objects}, i64 {count}, ptr {specs}, ptr @box_type, "
                f"i64 {entry.slot_offset}, ptr {arrays}, ptr {table})"
            )
            self.go_on_if(taken)

    def check_sizes(self) -> None:
        """Bind each unknown size where it stands alone first, and compare everything else."""
        entry, text = self.entry, self.text
        early = [t for t in entry.outputs if not self.is_late(t)]
        limits = _limits(entry, early)
        conditions: list[str] = []
        bound: set[Sym] = set()
        later: list[tuple[Size, str]] = []
        for i, t in enumerate(entry.params):
            if all(isinstance(size, int) for size in t.sizes):
                continue  # compared with the spec already
            array = self.load(self.arrays, i, _POINTER)
            if t.strides is not None:  # a row-major array is for a program that knows that
                conditions.append(text.op(f"call i1 @is_apart(ptr {array})"))
            for size, have in self.given(t, array):
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
        self.go_on_if(every)

    def given(self, t: TensorType, array: str) -> Iterator[tuple[Size, str]]:
        """The sizes of a param that the spec does not know, and its strides, with what ``array``
        has."""
        for axis, size in enumerate(t.shape):
            if not isinstance(size, int):
                yield size, self.text.op(f"call i64 @size_along(ptr {array}, i64 {axis})")
        for axis, stride in enumerate(t.strides or ()):
            if t.shape[axis] != 1:
                asked = f"ptr {array}, i64 {axis}, i64 {t.dtype.itemsize}"
                yield stride, self.text.op(f"call i64 @stride_along({asked})")

    def check_overlap(self) -> None:
        """No updated param shares memory with another param."""
        entry = self.entry
        overlap = self.text.op(
            f"call i1 @overlap(ptr {self.arrays}, ptr @specs, i64 {len(entry.params)}, "
            f"i64 {len(entry.updated)}, ptr {self.starts}, ptr {self.ends})"
        )
        self.go_on_if(self.text.op(f"xor i1 {overlap}, true"))

    # -- running -----------------------------------------------------------------------------

    def fill(self) -> None:
        """Put constants into the table, and sizes into theirs."""
        entry = self.entry
        for i in range(len(entry.constants)):
            constant = self.load("@bound", 1 + i, _POINTER)
            self.store(self.table, len(entry.params) + i, _POINTER, constant)
        for i, sym in enumerate(entry.routine.sizes):
            self.store(self.sizes, i, I64, self.indices.value(Dim.of(sym)))

    def is_late(self, t: TensorType) -> bool:
        """Whether only the run can tell the size of an output."""
        return any(not symbols_of(d).isdisjoint(self.entry.routine.told) for d in t.shape)

    def make_outputs(self) -> str:
        """New arrays. The one, or the tuple of them, is the result, and owns the rest. Late ones
        are made after the run; their places in the table are for what the program gives away."""
        entry = self.entry
        single = len(entry.outputs) == 1
        result = "null"
        if not single:
            result = self.made(f"call ptr @hidden_tuple(i64 {len(entry.outputs)})", "null")
        for i, t in enumerate(entry.outputs):
            data = "null"
            if not self.is_late(t):
                bytes_ = self.indices.value(_bytes(t))
                array = self.made(f"call ptr @new_array({self.type_of(t)}, i64 {bytes_})", result)
                data = self.data(array)
                result = array if single else self.put(result, i, array)
            self.store(self.table, self.slot(i), _POINTER, data)
        return result

    def take_outputs(self, result: str) -> str:
        """The result after the run, with the late outputs."""
        entry, text = self.entry, self.text
        for i, sym in enumerate(entry.routine.told, len(entry.routine.sizes)):
            self.indices.define(sym, self.load(self.sizes, i, I64))
        every = "true"
        for i, t in enumerate(entry.outputs):
            if self.is_late(t):
                given = self.load(self.table, self.slot(i), _POINTER)
                bytes_ = self.indices.value(_bytes(t))
                array = text.op(
                    f"call ptr @array_from({self.type_of(t)}, ptr {given}, i64 {bytes_})"
                )
                every = text.op(f"and i1 {every}, {text.op(f'icmp ne ptr {array}, null')}")
                result = array if len(entry.outputs) == 1 else self.put(result, i, array)
        block = text.new_block("taken")
        self.failures.append((result, text.block))
        text.branch(every, block, self.failed)
        text.start(block)
        return result

    def slot(self, output: int) -> int:
        """The place of an output in the table."""
        return len(self.entry.params) + len(self.entry.constants) + output

    def put(self, result: str, i: int, array: str) -> str:
        self.text.op(f"call i32 @PyTuple_SetItem(ptr {result}, i64 {i}, ptr {array})")
        return result

    def type_of(self, t: TensorType) -> str:
        """Number of dims, sizes and dtype of an output, as arguments of a call."""
        for axis, size in enumerate(t.shape):
            self.store(self.shape, axis, I64, self.indices.value(size))
        return f"i32 {t.ndim}, ptr {self.shape}, ptr @{descr_symbol(t.dtype)}"

    def made(self, call: str, owner: str) -> str:
        """The object that ``call`` makes; without one, ``owner`` is dropped and the error is
        Python's."""
        text = self.text
        made = text.op(call)
        block = text.new_block("made")
        self.failures.append((owner, text.block))
        text.branch(text.op(f"icmp eq ptr {made}, null"), self.failed, block)
        text.start(block)
        return made

    def run(self, result: str) -> None:
        """Run on the table, and end with ``result``, or with what the status says."""
        entry, text = self.entry, self.text
        table = [*map(_bytes, entry.params), *entry.constants, *map(_bytes, entry.outputs)]
        moved = self.indices.value(moved_bytes(entry.routine, table))
        long = text.op(f"icmp sgt i64 {moved}, {_LONG}")
        state = self.load("@bound", 0, _POINTER)
        updates = "true" if entry.updated else "false"
        status = text.op(
            f"call i64 @go(ptr @run, ptr {self.table}, ptr {self.sizes}, ptr {state}, i1 {long}, "
            f"i1 {updates})"
        )
        good, other = text.new_block("good"), text.new_block("other")
        text.branch(text.op(f"icmp eq i64 {status}, 0"), good, other)
        text.start(good)
        taken = self.take_outputs(result) if entry.routine.told else result
        if len(entry.outputs) != 1:
            text.do(f"call void @show_tuple(ptr {taken}, i64 {len(entry.outputs)})")
        self.results.append((taken, text.block))
        text.jump(self.finish)
        text.start(other)
        text.do(f"call void @Py_DecRef(ptr {result})")
        outcome = text.op(f"call ptr @outcome(i64 {status})")
        self.results.append((outcome, other))
        text.jump(self.finish)

    def fail(self) -> None:
        """The end of a call that could not make an output: Python's error is set already."""
        text = self.text
        text.start(self.failed)
        owner = text.fresh("owner")
        self.failed.phis.append(phi(owner, _POINTER, self.failures))
        text.do(f"call void @Py_DecRef(ptr {owner})")
        self.results.append(("null", self.failed))
        text.jump(self.finish)
