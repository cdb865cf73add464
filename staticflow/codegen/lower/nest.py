"""What an op with a loop nest of its own sees of the kernel that is built for it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.copy import copy_columns
from staticflow.codegen.gemm.plan import Column, open_panels
from staticflow.codegen.gemm.tile import Matrix, Product, emit_tiles
from staticflow.codegen.kernel import LANE_SYM, Buffer, Call, Operand, Reg, Shared
from staticflow.codegen.lower.nest_loops import NestLoops
from staticflow.codegen.lower.refusals import CODES
from staticflow.codegen.lower.row_work import share_row_work
from staticflow.codegen.lower.tasks import bind_index, each_in_groups
from staticflow.codegen.lower.values import Values
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import PORTABLE, Target
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import coefficient, substitute_dim, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, prod
from staticflow.graph.dtypes import DType, bool_
from staticflow.graph.node import Node
from staticflow.graph.types import Shape, TensorType, types_of
from staticflow.ops.declaring.lowering import Index, LoopNest, RowWork, View, delinear
from staticflow.passes.access import is_polynomial, source_of

__all__ = ["Nest", "RowCall", "Scratch"]

_NARROW = 8
"""Columns that `Nest.lanes` takes one by one: what a vector with lanes off has stored is not at
hand for the next load, and systems of 2 x 2 take a quarter of the time."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """Working memory that a kernel wants as a buffer ``name``: elements of a dtype."""

    name: str
    dtype: DType
    size: Size


@dataclass(frozen=True, slots=True)
class RowCall:
    """A call of a ``kernel`` that programs share for a ``row`` of ``n`` elements, as much as
    ``work``: where the row begins, what makes a buffer for each result and where in that the
    row's own begins, where the memory does that the kernel works in, and its ``steps`` if it takes
    such."""

    k: Scalars
    kernel: Shared
    row: tuple[str, Size]
    spare: Sequence[tuple[Callable[[], str], Size]]
    rooms: Sequence[tuple[str, Size]]
    n: Size
    steps: tuple[Size, ...]
    work: Size

    def emit(
        self, *sizes: Size, to: Sequence[tuple[str, Size]] | None = None
    ) -> Sequence[tuple[str, Size]]:
        """Call it, with more ``sizes`` than the length. Gives the buffers of its results, and where
        in each they begin: those that are named ``to`` it, or working memory."""
        results = [(make(), at) for make, at in self.spare] if to is None else to
        names, starts = zip(self.row, *results, *self.rooms, strict=True)
        self.k.emit(Call(self.kernel, names, starts, (self.n, *sizes, *self.steps), self.work))
        return results


class Nest(NestLoops):
    """Loads and stores by argument number and index, loops over shapes, index checks, scratch.

    ``looks`` are the loops that only look at indices, all of which count for one answer.
    """

    def __init__(
        self,
        k: Scalars,
        node: Node,
        names: Mapping[Node, str],
        out_names: Sequence[str],
        out_types: Sequence[TensorType] | None = None,
        target: Target = PORTABLE,
    ) -> None:
        """``names`` are the buffers of arrays that arguments are, or that they are views of;
        ``out_types`` those of the arrays that results are written to."""
        super().__init__(k)
        self._target = target
        self.attrs, self._args = node.attrs, node.args
        self._ins, self._outs = [a.tensor_type for a in node.args], types_of(node.type)
        self._out_types = out_types or self._outs
        self._in_names, self._out_names = names, out_names
        self._names = itertools.count()
        self.wanted: list[Scratch] = []
        self._inside: Reg | None = None  # while nothing is stored: whether all indices were
        self._checked = False
        self.looks: set[Sym] = set()
        self._over = self.in_memory(0) and names[node.args[0]] == out_names[0]

    def emit(self, lowering: LoopNest) -> None:
        """Write the nest. Over its argument nothing is stored before all is checked."""
        if self._over:
            self._inside = self.k.var(self.k.const(True, bool_))
            lowering.emit(self)
            self.k.check(self.k.freeze(self._inside), CODES["index"])
            self._inside, self._checked = None, True
        lowering.emit(self)

    @property
    def has_teams(self) -> bool:
        """Whether threads work in teams, as on a GPU: parallel loops inside others are shared out,
        too."""
        return self._target.teams

    @property
    def shares(self) -> bool:
        """Whether kernels that programs share may be called."""
        return self._target.shares

    @property
    def only_looks(self) -> bool:
        """Whether the nest is written for its checks alone, and stores nothing."""
        return self._inside is not None

    @property
    def n_in(self) -> int:
        """How many arguments there are."""
        return len(self._ins)

    def in_shape(self, i: int) -> Shape:
        """The shape of an argument."""
        return self._ins[i].shape

    def in_type(self, i: int) -> TensorType:
        """The type of an argument."""
        return self._ins[i]

    def out_shape(self, i: int) -> Shape:
        """The shape of a result."""
        return self._outs[i].shape

    def out_type(self, i: int) -> TensorType:
        """The type of a result."""
        return self._outs[i]

    def out_name(self, i: int) -> str:
        """The buffer of a result."""
        return self._out_names[i]

    def in_memory(self, i: int) -> bool:
        """Whether an argument is a row-major array, not a view that is read through."""
        return bool(self._args) and self._args[i] in self._in_names and self._ins[i].strides is None

    def adjoins(self, i: int, first: int = 0) -> bool:
        """Whether the dims of an argument from ``first`` on adjoin in memory, so that one loop runs
        over all of them: those of a row-major array, and of some rows of one."""
        shape = self.in_shape(i)
        outer = tuple(Dim.of(Sym(f"at{d}")) for d in range(first))
        position = Dim.of(Sym("at", 0, prod(shape[first:])))
        offset = self._offset(i, (*outer, *delinear(position, shape[first:])))
        return offset is not None and is_polynomial(offset)

    def load(self, i: int, index: Index) -> Operand:
        """An element of an argument."""
        return Values(self.k, self._in_names).at(self._args[i], index)

    def load_out(self, i: int, index: Index) -> Operand:
        """An element of a result that was stored before."""
        return self.k.load(self._out_names[i], self._out_types[i].offset(index))

    def store(self, i: int, index: Index, value: Operand) -> None:
        """Write an element of a result, in its dtype."""
        out = self._out_types[i]
        if self._inside is None:
            self.k.store(self._out_names[i], out.offset(index), self.k.cast(value, out.dtype))

    def copy(self, i: int) -> None:
        """All of an argument to the first result, which has its shape, unless that is there."""
        if self._over:
            return
        with self.loops(self.in_shape(i), "parallel", merged=self.adjoins(i)) as index:
            self.store(0, index, self.load(i, index))

    def name_size(self, size: Size) -> Size:
        """A size under a name of its own, for one that would only grow longer."""
        return self.k.bind(self.k.index_value(size)) if isinstance(size, Dim) else size

    def zero(self) -> None:
        """Zeros all over the first result."""
        dtype = self._outs[0].dtype
        number = self.k.const({"b": False, "f": 0.0}.get(dtype.kind, 0), dtype)
        with self.loops(self.out_shape(0), "parallel", merged=True) as index:
            self.store(0, index, number)

    def scratch(self, dtype: DType, size: Size) -> str:
        """A buffer of working memory, of this kernel alone: unset before, lost after."""
        wanted = Scratch(f"scratch{len(self.wanted)}", dtype, size)
        self.wanted.append(wanted)
        self.k.buffers[wanted.name] = Buffer(wanted.name, dtype, "inout")
        return wanted.name

    def check_index(self, index: Operand, size: Size) -> None:
        """Stop with an error unless ``0 <= index < size`` (int64)."""
        if self._checked:
            return
        k = self.k
        inside = k.apply(
            "and",
            k.compare("ge", index, 0),
            k.compare("lt", index, k.index_value(size)),
        )
        if self._inside is None:
            k.check(inside, CODES["index"])
        else:
            k.accumulate(self._inside, "and", inside)

    def require(self, cond: Operand, reason: str) -> None:
        """Stop for a reason of `REFUSALS` unless the scalar ``cond`` is true."""
        self.k.check(cond, CODES[reason])

    @contextmanager
    def rows(self, shape: Shape, dim: int) -> Iterator[Callable[[Size], Index]]:
        """Loops over the rows of ``shape`` along ``dim``; gives the function from a position along
        it to the index. Rows side by side in memory may be vectorised."""
        outer = (*shape[:dim], *shape[dim + 1 :])
        with self.loops(outer, "parallel") as at:
            yield functools.partial(_insert, at, dim)
        if dim == len(shape) - 1 and outer and self.innermost:
            self.innermost.pop()

    @contextmanager
    def in_groups(self, shape: Shape) -> Iterator[tuple[Size, Index, Size]]:
        """Loops over the elements of a ``shape``, which threads share: how many of them there are
        at most, the index of an element, and the number of its thread."""
        if prod(shape) == 0:
            with self.loops(shape, "serial") as at:
                yield 1, at, 0
            return
        workers, elements = self._each_in_groups(shape)
        for at, worker in elements:
            yield workers, at, worker

    def _each_in_groups(self, shape: Shape) -> tuple[Size, Iterator[tuple[Index, Size]]]:
        """How many threads there are at most for the elements of a ``shape``, and loops that give
        the index of an element, and the number of its thread: none where there is no element."""
        workers, tasks = each_in_groups(self.k, prod(shape), self._target.workers)

        def elements() -> Iterator[tuple[Index, Size]]:
            for number, worker in tasks:
                pairs = zip(delinear(number, shape), shape, strict=True)
                yield tuple(bind_index(self.k, i, d) for i, d in pairs), worker

        return workers, elements()

    def rows_in_groups(
        self, shape: Shape, dim: int
    ) -> tuple[Size, Iterator[tuple[Callable[[Size], Index], Size]]]:
        """`rows` for those who want working memory of their own: how many threads there are at
        most, and loops that give the function, and the number of the thread."""
        outer = (*shape[:dim], *shape[dim + 1 :])
        workers, rows = self._each_in_groups(outer)
        return workers, ((functools.partial(_insert, at, dim), worker) for at, worker in rows)

    def rows_to_work(
        self, work: RowWork, dim: int
    ) -> Iterator[tuple[Callable[[Size], Index], RowCall]]:
        """Loops over the rows of argument 0 along ``dim``, which threads share, for work on each by
        a kernel that programs share; give the function from a position to the index, and what calls
        the kernel. A row that this cannot read where it lies is copied before."""
        x, step = self.in_type(0), self.stride(0, dim)
        n, is_there = x.shape[dim], step == 1 or (step is not None and work.takes_steps)
        workers, tasks = self.rows_in_groups(x.shape, dim)
        rooms = [(self.scratch(d, workers * size), size) for _, d, size in work.rooms(x.dtype, n)]
        results = [
            (functools.partial(self.scratch, d, workers * size), size)
            for _, d, size in work.results(x.dtype, n)
        ]
        steps = (step,) if is_there and step is not None and step != 1 else ()
        kernel = share_row_work(work, x.dtype, bool(steps))
        copies = "" if is_there else self.scratch(x.dtype, workers * n)
        for at, worker in tasks:
            row = copies, worker * n
            if is_there:
                node, index = self._source(0, at(0))
                row = self._in_names[node], node.tensor_type.offset(index)
            else:
                with self.k.loop("j", n) as j, self.lanes_along(j):
                    self.k.store(copies, worker * n + j, self.load(0, at(j)))
            own = [(buffer, worker * size) for buffer, size in rooms]
            spare = [(make, worker * size) for make, size in results]
            yield at, RowCall(self.k, kernel, row, spare, own, n, steps, work.work(n))

    @contextmanager
    def loops(self, shape: Shape, kind: str, merged: bool = False) -> Iterator[Index]:
        """Loops over every index of ``shape``: ``parallel`` where their order does not matter,
        else ``serial``. As one loop if ``merged``: good where the dims adjoin in memory in all that
        is read and written, so that the index as a position cancels."""
        with ExitStack() as stack:
            at: list[Size] = []
            looks = self._inside is not None
            for size in (prod(shape),) if merged and shape else shape:
                name = f"n{next(self._names)}"
                at.append(
                    stack.enter_context(self.k.loop(name, size, kind="serial" if looks else kind))
                )
            if looks:
                self.looks |= {s for size in at for s in symbols_of(size)}
            elif at and kind == "parallel" and isinstance(at[-1], Dim):
                stack.enter_context(self.lanes_along(at[-1]))
            yield delinear(at[0], shape) if merged and shape else tuple(at)

    # -- vectors and products, by those nests that write them themselves ---------------------------

    def stride(self, i: int, dim: int) -> Size | None:
        """How many elements of memory neighbours along a dim of an argument lie apart; None where
        that is no one number."""
        syms = tuple(Sym(f"at{d}") for d in range(len(self.in_shape(i))))
        offset = self._offset(i, tuple(map(Dim.of, syms)))
        return None if offset is None else coefficient(offset, syms[dim])

    def _offset(self, i: int, index: Index) -> Size | None:
        """Where an element of an argument lies in the memory that it is read from; None if it is
        worked out, and not read."""
        node, index = self._source(i, index)
        return node.tensor_type.offset(index) if node in self._in_names else None

    def _source(self, i: int, index: Index) -> tuple[Node, Index]:
        """The node that an element of an argument is read from, through views, and where in it."""
        node = self._args[i]
        while node not in self._in_names and isinstance(node.op.lowering, View):
            node, index = source_of(node, index)
        return node, index

    def lanes(self, dtype: DType, columns: Size) -> int:
        """Elements of a vector along rows of so many columns: of the widest, or of all columns."""
        most = max(1, self._target.vector_bits // dtype.bits)
        if not isinstance(columns, int):
            return most
        return 1 if columns <= _NARROW else min(most, 1 << (columns - 1).bit_length())

    def strips(
        self, lo: Size, hi: Size, lanes: int, vectors: int, kind: str = "serial"
    ) -> Iterator[list[Column]]:
        """Loops over columns ``lo..hi`` as vectors, some of them at a time while there are as many,
        then one by one."""
        for span, panel in open_panels(lo, hi, lanes, vectors, self._target.masks and lanes > 1):
            for col in self.each("j", span.lo, span.hi, span.step, kind):
                yield panel.columns(col, hi)

    def first_of(self, column: Size) -> Size:
        """The first of the columns of a vector."""
        return substitute_dim(column, {LANE_SYM: 0})

    def matrix(self, buffer: str, base: Size, row: Size, col: Size) -> Matrix:
        """The matrix whose element ``[i, j]`` is at ``base + i * row + j * col`` of a buffer."""
        return Matrix(buffer, base, row, col)

    def turn(self, source: Matrix, to: Matrix, rows: Size, columns: Size) -> None:
        """Copy some rows and columns of a matrix that lies by columns to one that lies by rows."""
        lanes = max(1, self._target.vector_bits // self.k.buffers[to.buffer].dtype.bits)
        copy_columns(self.k, source, to, rows, 0, columns, lanes)

    def add_product(
        self, to: Matrix, a: Matrix, b: Matrix, m: Size, n: Size, depth: Size, sign: int = 1
    ) -> None:
        """Add ``a @ b``, of ``m x depth`` and ``depth x n`` elements, to a matrix apart from both,
        or subtract it if the ``sign`` is -1. The matrices lie by rows, but ``a`` as it likes."""

        with self.k.when(self.k.compare("gt", self.k.index_value(m * depth), 0)):
            self._emit_product(to, a, b, m, n, depth, "add" if sign > 0 else "sub")

    def set_product(self, to: Matrix, a: Matrix, b: Matrix, m: Size, n: Size, depth: Size) -> None:
        """`add_product` to zeros."""
        self._emit_product(to, a, b, m, n, depth, None)

    def _emit_product(
        self, to: Matrix, a: Matrix, b: Matrix, m: Size, n: Size, depth: Size, combine: str | None
    ) -> None:
        """Store a product, or what is there and it come to by the primitive ``combine``."""

        def epilogue(
            k: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
        ) -> None:
            at = to.at(row, col)
            if combine is not None:
                acc = k.apply(combine, k.load(to.buffer, at, lanes, bound), acc)
            k.store(to.buffer, at, acc, bound)

        dtype = self.k.buffers[to.buffer].dtype
        emit_tiles(self.k, Product(a, b, m, n, depth, dtype, self._target), epilogue)


def _insert(index: Index, dim: int, at: Size) -> Index:
    """An index with one more dim."""
    return (*index[:dim], at, *index[dim:])
