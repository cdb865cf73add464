"""What the kernels of sums over windows share: operands where they lie, how windows lie in them,
and sums in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.plan import Span, divisor, register_count
from staticflow.codegen.gemm.tile import Matrix, each, multiply_add
from staticflow.codegen.kernel import LANE_SYM, Operand, Reg
from staticflow.codegen.lower.tasks import bind_index
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.errors import CompileError
from staticflow.graph.dim_queries import coefficient, substitute_dim, symbols_of
from staticflow.graph.dims import Size, Sym, ceil_div, dim_max, dim_min, is_provably_ge, prod
from staticflow.graph.dtypes import DType, int64
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.declaring.lowering import Index, delinear
from staticflow.passes.access import source_of

__all__ = [
    "COL", "PART", "ROW", "Array", "Finish", "ImageBlock", "Parts", "Positions", "Work",
    "cut_spans", "strided_matrix", "unroll_spans", "work_of",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finish:
    """What is done with the elements of a product or of a sum over windows: ``take(value, index,
    lanes, bound)`` takes a complete vector of the result, whose lanes at or past ``bound`` are off.
    Where that is long, elements may wait for it, each at its place, in the buffer ``waits``."""

    take: Callable[[Operand, Index, int, Size | None], None]
    waits: str | None = None

    def __call__(self, value: Operand, index: Index, lanes: int, bound: Size | None) -> None:
        """Take a vector."""
        self.take(value, index, lanes, bound)


PART = 128
"""Products that a lane adds up, before the sum goes into the total."""


ROW, COL = Sym("row", -1), Sym("col", -1)


def strided_matrix(operand: Node, index: Index, names: Mapping[Node, str]) -> Matrix:
    """The matrix of the elements of an operand at ``index``, which names `ROW` and `COL`, as it
    lies in memory."""
    source, source_index = source_of(operand, index)
    at = source.tensor_type.offset(source_index)
    row, col = coefficient(at, ROW), coefficient(at, COL)
    if source not in names or row is None or col is None:
        raise CompileError(f"{operand.type}, an operand of a product, is no strided view")
    return Matrix(names[source], substitute_dim(at, {ROW: 0, COL: 0}), row, col)


@dataclass(frozen=True, slots=True)
class Array:
    """An operand: the buffer behind it and where its elements are."""

    node: Node
    names: Mapping[Node, str]

    @property
    def shape(self) -> Shape:
        """Its sizes."""
        return self.node.tensor_type.shape

    def load(self, k: Builder, index: Index, lanes: int = 1, bound: Size | None = None) -> Operand:
        """The element at ``index``, or those of several lanes; 0 in those from ``bound`` on."""
        source, source_index = source_of(self.node, index)
        at = source.tensor_type.offset(source_index)
        if LANE_SYM not in symbols_of(at):
            value = k.splat(k.load(self.names[source], at), lanes)
            if bound is None or lanes == 1:
                return value
            return k.select(k.active(bound, lanes), value, k.const(0, value.dtype, lanes))
        return k.load(self.names[source], at, lanes, bound)

    def matrix(self, index: Index) -> Matrix:
        """The elements at ``index``, which names `ROW` and `COL`, as they lie in memory."""
        return strided_matrix(self.node, index, self.names)


@dataclass(frozen=True, slots=True)
class Work:
    """What both loop nests know: the builder, the machine, and how windows lie."""

    k: Builder
    target: Target
    dtype: DType
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def lanes(self) -> int:
        """Elements of the widest vector."""
        return self.target.vector_bits // self.dtype.bits

    @property
    def registers(self) -> int:
        """Vector registers that a tile may use."""
        return register_count(self.target)

    def zero(self, lanes: int) -> Reg:
        """An accumulator."""
        return self.k.var(self.k.const(0.0, self.dtype, lanes))

    def add_product(self, total: Reg, x: Operand, y: Operand) -> None:
        """``total += x * y``."""
        self.k.set(total, multiply_add(self.k, self.target, x, y, total))

    def at_offset(self, position: Sequence[Size], offset: Sequence[Size]) -> Index:
        """Where a window at ``position`` has its element ``offset``."""
        steps = zip(position, offset, self.stride, self.dilation, strict=True)
        return tuple(p * s + o * d for p, o, s, d in steps)

    @contextmanager
    def loops(self, name: str, sizes: Shape, kind: str = "serial") -> Iterator[Index]:
        """Loops over every index of ``sizes``."""
        with ExitStack() as stack:
            yield tuple(
                0 if d == 1 else stack.enter_context(self.k.loop(name, d, kind=kind)) for d in sizes
            )


def work_of(k: Scalars, node: Node, target: Target) -> Work:
    """What the kernel of a correlation, or of the gradient by its weight, knows."""
    attrs = node.attrs
    return Work(k, target, node.tensor_type.dtype, attrs["stride"], attrs["dilation"])


def cut_spans(size: Size, most: int) -> list[tuple[Span, int]]:
    """``most`` at a time, or fewer if that divides a known size, and the rest one by one."""
    if isinstance(size, int):
        most = divisor(size, max(1, min(most, size)), max(1, most // 2))
    full = size // most * most
    return [(Span(0, full, most), most), (Span(full, size, 1), 1)]


def unroll_spans(size: Size, most: int) -> list[tuple[Span, int]]:
    """A small known size as one step, a larger or unknown one in steps and a rest."""
    if isinstance(size, int) and 0 < size <= most:
        return [(Span(0, size, size), size)]
    return cut_spans(size, most)


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """Some positions: ``rows`` rows from ``row`` on, of each ``length`` positions from ``left``."""

    row: Size
    rows: Size
    left: Size
    length: Size


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions of all images of an array (N, C, ...): the rows along the last dim, of one
    image after the other."""

    batch: Size
    outer: Shape
    last: Size

    @property
    def rows(self) -> Size:
        """The rows of all images."""
        return self.batch * prod(self.outer)

    def most_rows(self, most: int) -> Size:
        """The rows of a block of about ``most`` positions."""
        return dim_max(1, most // dim_max(1, self.last))

    def blocks(self, k: Builder, most: int, first: Size, last: Size) -> Iterator[ImageBlock]:
        """Loops over blocks of ``most`` positions at most, of the rows ``first`` to ``last``: at
        least one, which is empty where there are none."""
        if is_provably_ge(most, self.last):
            lengths: Iterator[tuple[Size, Size]] = iter([(0, self.last)])
        else:
            lengths = (
                (left, bind_index(k, dim_min(most, self.last - left), most + 1))
                for left in each(k, "left", Span(0, dim_max(1, self.last), most))
            )
        per = bind_index(k, self.most_rows(most), most + 1)
        count = bind_index(k, dim_max(1, ceil_div(last - first, per)), dim_max(1, self.rows) + 1)
        for left, length in lengths:
            for block in each(k, "block", Span(0, count, 1)):
                row = first + block * per
                rows = bind_index(k, dim_min(per, last - row), most + 1)
                yield ImageBlock(row, rows, left, length)

    def at(self, k: Builder, row: Size) -> tuple[Size, Index]:
        """The image that has a row, and the index of the row in it."""
        n, *lead = delinear(row, (self.batch, *self.outer))
        sizes = zip(lead, self.outer, strict=True)
        return bind_index(k, n, self.batch), tuple(bind_index(k, i, d) for i, d in sizes)


class Parts:
    """Totals of sums that are added up in parts of about `PART` products a lane, since one sum of
    many floats loses digits with each of them."""

    def __init__(self, work: Work, sums: list[list[Reg]]) -> None:
        k = self.k = work.k
        self.sums = sums
        self.totals = [[work.zero(part.lanes) for part in row] for row in sums]
        self.added = k.var(k.const(0, int64))

    def add(self, steps: Size) -> None:
        """Counts ``steps`` more products a lane; if they make a part, it ends."""
        k = self.k
        k.set(self.added, k.add(self.added, k.index_value(steps)))
        with k.when(k.compare("ge", self.added, PART)):
            self.end()
            k.set(self.added, k.const(0, int64))

    def end(self) -> None:
        """Ends a part: adds the sums to the totals and sets them to 0."""
        k = self.k
        for row, totals in zip(self.sums, self.totals, strict=True):
            for part, total in zip(row, totals, strict=True):
                k.set(total, k.add(total, part))
                k.set(part, k.const(0.0, part.dtype, part.lanes))
