"""The native entry of a program as LLVM text: ``ptr @call(ptr self, ptr args, i64 count)``.

It is a ``METH_FASTCALL`` function of CPython that takes the inputs, each an array or a box of one,
checks all that the graph says of them, makes the outputs, and calls ``run``. It gives one array, or
a tuple of arrays where the program has not one output; an int, the status of a run that failed; or
None, before anything has happened, for arguments that it will not take. It words no errors: who
asked runs the same arguments through the portable path, which does.

Addresses of this process reach the code as symbols and through the table ``bound``: the cell of the
arena, the constants, and the boxes of the variables, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from staticflow.codegen.llvm_index import IndexWriter
from staticflow.codegen.llvm_text import I32, I64, BasicBlock, FunctionText, Type, phi
from staticflow.codegen.program import Program
from staticflow.graph.dims import Dim, Size, Sym, as_symbol, is_provably_ge, prod
from staticflow.graph.dtypes import DType
from staticflow.graph.graph import Equality
from staticflow.graph.types import TensorType
from staticflow.runtime.fastcall_layout import (
    ALIGNED,
    CONTIGUOUS,
    DATA,
    DESCR,
    DIMS,
    FLAGS,
    NDIM,
    TYPE,
    WRITEABLE,
)
from staticflow.runtime.fastcall_sizes import moved_bytes, size_limit

__all__ = ["Entry", "descr_symbol", "render_entry"]

_POINTER = Type("ptr")
_LANES = 8
_LONG = 1 << 16
"""Bytes of traffic above which other threads may run meanwhile: some microseconds, against a tenth
of one for letting the lock of the interpreter go, and far more until it is had again."""

_EXTERNALS = """
@_Py_NoneStruct = external global i8
@box_type = external global i8
@bound = external global ptr
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i64 @run(ptr, ptr, ptr)
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the entry of a program has to know.

    ``params`` are the types of the inputs and then of the ``variables`` many variables, and
    ``updated`` the numbers of those that the program overwrites. In the table of ``run`` the arrays
    whose bytes are ``constants`` follow them, and then ``outputs``. ``planned`` are the sizes that
    the memory plan computes, and ``slot_offset`` says where boxes keep their array.
    """

    program: Program
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
    """The text of ``call``, to be put behind that of ``run``."""
    dtypes = dict.fromkeys(t.dtype for t in (*entry.params, *entry.outputs))
    externals = "".join(f"@{descr_symbol(d)} = external global i8\n" for d in dtypes)
    helpers = _HELPERS + (_OVERLAP if entry.updated else "")
    return f"{helpers}\n{externals}\n{_Writer(entry).write()}"


def _bytes(t: TensorType) -> Size:
    return prod(t.shape) * t.dtype.itemsize


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
        self.table = text.op(f"alloca ptr, i64 {max(1, entry.program.slots)}")
        self.sizes = text.op(f"alloca i64, i64 {max(1, len(entry.program.sizes))}")
        ndim = max((t.ndim for t in entry.outputs), default=0)
        self.dims = text.op(f"alloca i64, i64 {max(1, ndim)}")
        if entry.updated:
            self.starts, self.ends = (
                text.op(f"alloca i64, i64 {len(entry.params) + _LANES}") for _ in range(2)
            )
        inputs = len(entry.params) - entry.variables
        self.go_on_if(text.op(f"icmp eq i64 %count, {inputs}"))
        arrays = [self.array(i) for i in range(len(entry.params))]
        self.check_sizes(arrays)
        for i, array in enumerate(arrays):
            self.store(self.table, i, _POINTER, self.data(array))
        self.check_overlap()
        self.fill()
        for array in arrays:
            text.do(f"call void @Py_IncRef(ptr {array})")
        result = self.make_outputs()
        self.run(result)
        self.fail()
        text.start(self.finish)
        name = text.fresh("result")
        self.finish.phis.append(phi(name, _POINTER, self.results))
        for array in arrays:
            text.do(f"call void @Py_DecRef(ptr {array})")
        text.block.end = f"ret ptr {name}"
        text.start(self.declined)
        text.do("call void @Py_IncRef(ptr @_Py_NoneStruct)")
        text.block.end = "ret ptr @_Py_NoneStruct"
        return f"define ptr @call(ptr %self, ptr %args, i64 %count) {{\n{text}}}\n"

    # -- pieces ------------------------------------------------------------------------------

    def go_on_if(self, condition: str) -> None:
        """Leave what follows to the portable path unless ``condition`` holds."""
        block = self.text.new_block("ok")
        self.text.branch(condition, block, self.declined)
        self.text.start(block)

    def load(self, base: str, index: int, type: Type) -> str:
        at = self.text.op(f"getelementptr {type}, ptr {base}, i64 {index}")
        return self.text.op(f"load {type}, ptr {at}")

    def store(self, base: str, index: int, type: Type, value: str) -> None:
        at = self.text.op(f"getelementptr {type}, ptr {base}, i64 {index}")
        self.text.do(f"store {type} {value}, ptr {at}")

    def data(self, array: str) -> str:
        return self.text.op(f"call ptr @data_of(ptr {array})")

    # -- checks ------------------------------------------------------------------------------

    def array(self, i: int) -> str:
        """The array of a param, which has the dtype, number of dims and layout that it must."""
        entry, text = self.entry, self.text
        variable = i - (len(entry.params) - entry.variables)
        if variable < 0:
            given = self.load("%args", i, _POINTER)
            array = text.op(f"call ptr @unboxed(ptr {given}, i64 {entry.slot_offset})")
        else:
            box = self.load("@bound", 1 + len(entry.constants) + variable, _POINTER)
            array = text.op(f"call ptr @opened(ptr {box}, i64 {entry.slot_offset})")
        flags = CONTIGUOUS | ALIGNED | (WRITEABLE if i in entry.updated else 0)
        t = entry.params[i]
        descr = descr_symbol(t.dtype)
        self.go_on_if(
            text.op(f"call i1 @suits(ptr {array}, ptr @{descr}, i32 {t.ndim}, i32 {flags})")
        )
        return array

    def check_sizes(self, arrays: Sequence[str]) -> None:
        """Bind each unknown size where it stands alone first, and compare everything else."""
        entry, text = self.entry, self.text
        limit = size_limit(
            [
                *entry.planned,
                *(d for t in (*entry.params, *entry.outputs) for d in (*t.shape, _bytes(t))),
                *(s for e in entry.equalities for s in (e.a, e.b)),
            ]
        )
        conditions: list[str] = []
        bound: set[Sym] = set()
        later: list[tuple[Size, str]] = []
        for t, array in zip(entry.params, arrays, strict=True):
            if t.ndim:
                at = text.op(f"getelementptr i8, ptr {array}, i64 {DIMS}")
                dims = text.op(f"load ptr, ptr {at}")
            for axis, size in enumerate(t.shape):
                have = self.load(dims, axis, I64)
                sym = as_symbol(size)
                if sym is None or sym in bound:
                    later.append((size, have))
                    continue
                bound.add(sym)
                self.indices.define(sym, have)
                conditions.append(text.op(f"icmp ule i64 {have}, {limit}"))
        for size, have in later:
            conditions.append(text.op(f"icmp eq i64 {have}, {self.indices.value(size)}"))
        for e in entry.equalities:
            a, b = self.indices.value(e.a), self.indices.value(e.b)
            conditions.append(text.op(f"icmp eq i64 {a}, {b}"))
        for t in entry.outputs:
            for d in t.shape:
                if not is_provably_ge(d, 0):
                    conditions.append(text.op(f"icmp sge i64 {self.indices.value(d)}, 0"))
        if conditions:
            every = conditions[0]
            for condition in conditions[1:]:
                every = text.op(f"and i1 {every}, {condition}")
            self.go_on_if(every)

    def check_overlap(self) -> None:
        """No updated param shares memory with another param."""
        entry, text = self.entry, self.text
        if not entry.updated:
            return
        count = len(entry.params)
        order = sorted(range(count), key=lambda i: (i not in entry.updated, i))
        for place, i in enumerate(order):
            start = text.op(f"ptrtoint ptr {self.load(self.table, i, _POINTER)} to i64")
            size = self.indices.value(_bytes(entry.params[i]))
            self.store(self.starts, place, I64, start)
            self.store(self.ends, place, I64, text.op(f"add i64 {start}, {size}"))
        rest = text.op(f"getelementptr i64, ptr {self.ends}, i64 {count}")
        text.do(f"store {I64.wide(_LANES)} zeroinitializer, ptr {rest}, align 8")
        updated = len(entry.updated)
        meets = text.op(
            f"call i1 @overlap(ptr {self.starts}, ptr {self.ends}, i64 {updated}, i64 {count})"
        )
        self.go_on_if(text.op(f"xor i1 {meets}, true"))

    # -- running -----------------------------------------------------------------------------

    def fill(self) -> None:
        """Put constants into the table, and sizes into theirs."""
        entry = self.entry
        for i in range(len(entry.constants)):
            constant = self.load("@bound", 1 + i, _POINTER)
            self.store(self.table, len(entry.params) + i, _POINTER, constant)
        for i, sym in enumerate(entry.program.sizes):
            self.store(self.sizes, i, I64, self.indices.value(Dim.of(sym)))

    def make_outputs(self) -> str:
        """New arrays; the one, or the tuple of them, is the result and owns what there is so far."""
        entry, text = self.entry, self.text
        first = len(entry.params) + len(entry.constants)
        if len(entry.outputs) == 1:
            result = self.output(entry.outputs[0], "null")
            self.store(self.table, first, _POINTER, self.data(result))
            return result
        result = self.made(f"call ptr @PyTuple_New(i64 {len(entry.outputs)})", "null")
        for i, t in enumerate(entry.outputs):
            array = self.output(t, result)
            text.op(f"call i32 @PyTuple_SetItem(ptr {result}, i64 {i}, ptr {array})")
            self.store(self.table, first + i, _POINTER, self.data(array))
        return result

    def output(self, t: TensorType, owner: str) -> str:
        for axis, size in enumerate(t.shape):
            self.store(self.dims, axis, I64, self.indices.value(size))
        descr = descr_symbol(t.dtype)
        return self.made(f"call ptr @made(i32 {t.ndim}, ptr {self.dims}, ptr @{descr})", owner)

    def made(self, call: str, owner: str) -> str:
        """The object that ``call`` makes; without one, ``owner`` is dropped and the error is out."""
        text = self.text
        made = text.op(call)
        block = text.new_block("made")
        self.failures.append((owner, text.block))
        text.branch(text.op(f"icmp eq ptr {made}, null"), self.failed, block)
        text.start(block)
        return made

    def run(self, result: str) -> None:
        """Run on the table, and end with ``result`` or the status."""
        text = self.text
        status = self.status()
        bad = text.new_block("bad")
        self.results.append((result, text.block))
        text.branch(text.op(f"icmp eq i64 {status}, 0"), self.finish, bad)
        text.start(bad)
        text.do(f"call void @Py_DecRef(ptr {result})")
        number = text.op(f"call ptr @PyLong_FromLongLong(i64 {status})")
        self.results.append((number, bad))
        text.jump(self.finish)

    def status(self) -> str:
        """The status of ``run``; other threads of Python go on meanwhile if that takes long."""
        entry, text = self.entry, self.text
        table = [*map(_bytes, entry.params), *entry.constants, *map(_bytes, entry.outputs)]
        moved = moved_bytes(entry.program, table)
        state = self.load("@bound", 0, _POINTER)
        run = f"call i64 @run(ptr {self.table}, ptr {self.sizes}, ptr {state})"
        if is_provably_ge(_LONG, moved):
            return text.op(run)
        long, short, ran = (text.new_block(b) for b in ("long", "short", "ran"))
        text.branch(
            text.op(f"icmp sgt i64 {self.indices.value(moved)}, {_LONG}"), long, short
        )
        text.start(long)
        thread = text.op("call ptr @PyEval_SaveThread()")
        after_long = text.op(run)
        text.do(f"call void @PyEval_RestoreThread(ptr {thread})")
        text.jump(ran)
        text.start(short)
        after_short = text.op(run)
        text.jump(ran)
        text.start(ran)
        status = text.fresh("status")
        ran.phis.append(phi(status, I64, [(after_long, long), (after_short, short)]))
        return status

    def fail(self) -> None:
        """The end of a call that could not make an output: Python's error is set already."""
        text = self.text
        if not self.failures:
            return
        text.start(self.failed)
        owner = text.fresh("owner")
        self.failed.phis.append(phi(owner, _POINTER, self.failures))
        text.do(f"call void @Py_DecRef(ptr {owner})")
        self.results.append(("null", self.failed))
        text.jump(self.finish)
