"""Calls of the parts of matrix products that programs share, and what is done with their results.

The kernels themselves are made by `staticflow.codegen.gemm.shared`; here is what they are called
and what they take.
"""

from __future__ import annotations

from collections.abc import Iterator

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.plan import Column, Panel, Span, main_rows, open_panels
from staticflow.codegen.gemm.tile import Epilogue, Matrix, Product, each
from staticflow.codegen.kernel import Buffer, Call, Kernel, Operand, Shared
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import as_symbol
from staticflow.graph.dims import Size, Sym, ceil_div, is_provably_ge
from staticflow.graph.dtypes import DTYPES, float32, float64

__all__ = [
    "STRIDES",
    "Part",
    "bind_size",
    "call_part",
    "each_piece",
    "each_row",
    "each_vector",
    "is_shared",
    "storing",
    "strides_of",
]

STRIDES = ("a_row", "a_col", "b_row", "b_col")
"""What the strides of a product are called that are not 1."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of products that programs share: its ``kind``, one of those that
    `staticflow.codegen.gemm.shared` lists, the short name of a ``dtype``, and which of the strides
    of A by rows, A by columns, B by rows and B by columns are 1."""

    kind: str
    dtype: str
    ones: tuple[bool, ...]

    @staticmethod
    def of_product(kind: str, p: Product) -> Part:
        """The part for the layout of a product."""
        ones = tuple(s == 1 for s in strides_of(p))
        return Part(kind, p.dtype.short, ones)

    @staticmethod
    def of_name(name: str) -> Part:
        """The part of that `name`."""
        _, kind, dtype, layout = name.split("_")
        return Part(kind, dtype, tuple(c == "1" for c in layout))

    @property
    def name(self) -> str:
        """What its kernel is called, in all programs."""
        return f"shared_{self.kind}_{self.dtype}_{''.join('1' if o else 'n' for o in self.ones)}"

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes that it takes."""
        strides = (s for s, is_one in zip(STRIDES, self.ones, strict=True) if not is_one)
        return ("m", "n", "depth", *strides, "c_row", *self.own_sizes)

    @property
    def own_sizes(self) -> tuple[str, ...]:
        """Those of its kind alone."""
        return ("top", "rows", "most_depth") if self.kind == "task" else ()

    @property
    def workers(self) -> int:
        """The threads that may work in its memory, of a whole product."""
        return int(self.kind.removeprefix(self.word)) if self.is_whole else 1

    @property
    def word(self) -> str:
        """Its kind without the number of threads."""
        return self.kind.rstrip("0123456789")

    @property
    def is_whole(self) -> bool:
        """Whether it is a product in whatever way its sizes ask for."""
        return self.word in ("product", "many")

    @property
    def buffers(self) -> tuple[str, ...]:
        """The buffers that it takes."""
        works = self.kind in ("task", "scaled") or self.is_whole
        return ("a", "b", "c", "work") if works else ("a", "b", "c")

    def parameters(self) -> tuple[tuple[Buffer, ...], tuple[Sym, ...]]:
        """Its buffers and sizes, as its kernel takes them."""
        dtype = next(d for d in DTYPES if d.short == self.dtype)
        buffers = [Buffer(b, dtype, "in" if b in ("a", "b") else "inout") for b in self.buffers]
        return tuple(buffers), tuple(map(Sym, self.sizes))

    @property
    def runs_inside(self) -> bool:
        """Whether it is called in a loop, which looks whether the user wants to stop."""
        return self.is_small or self.kind == "task"

    @property
    def is_small(self) -> bool:
        """Whether it runs on the thread that calls it."""
        return self.kind in ("strip", "onto", "scaled")


def strides_of(p: Product) -> tuple[Size, ...]:
    """The strides of a product, in the order of `STRIDES`."""
    return p.a.row, p.a.col, p.b.row, p.b.col


def is_shared(p: Product) -> bool:
    """Whether a product is made of parts that programs share: not where it has few rows or columns,
    for which other tiles are faster, nor where both sizes of B are known, for which they are
    few."""
    if not p.target.shares or p.dtype not in (float32, float64):
        return False
    if is_provably_ge(main_rows(p.target), p.m):
        return False
    return not (isinstance(p.n, int) and (p.n <= p.lanes or isinstance(p.depth, int)))


def call_part(
    k: Builder, kind: str, p: Product, c: Matrix, own: tuple[Size, ...] = (), work: str = "",
    work_at: Size = 0,
) -> None:  # fmt: skip
    """Call the part of a kind, which leaves ``p`` in ``c``; a task also takes sizes of its ``own``,
    and memory to ``work`` in."""
    target = Target(p.target.vector_bits, p.target.fma, p.target.masks, p.target.avx512)
    part = Part.of_product(kind, p)

    def make() -> Kernel:
        from staticflow.codegen.gemm.shared import shared_kernel  # which has calls in it, too

        return shared_kernel(part.name, target)

    kernel = Shared(part.name, *part.parameters(), make)
    strides = (s for s in strides_of(p) if s != 1)
    rows = own[1] if own else p.m
    buffers = (p.a.buffer, p.b.buffer, c.buffer, *([work] if work else []))
    starts = (p.a.base, p.b.base, c.base, *([work_at] if work else []))
    sizes = (p.m, p.n, p.depth, *strides, c.row, *own)
    steps = ceil_div(p.n, p.lanes) * rows * p.depth
    k.emit(Call(kernel, buffers, starts, sizes, 3 * steps))


def storing(kind: str, c: Matrix, scale: Matrix | None = None) -> Epilogue:
    """The epilogue that leaves a product in ``c``: added to what is there if the kind of the part
    is ``onto``, and to that times the ``scale`` of its column if it is ``scaled``."""

    def epilogue(
        k: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
    ) -> None:
        at = c.at(row, col)
        total = acc
        if kind in ("onto", "scaled"):
            before = k.load(c.buffer, at, lanes, bound)
            if scale is None:
                total = k.add(before, acc)
            else:
                factor = k.load(scale.buffer, scale.at(0, col), lanes, bound)
                total = k.fma(before, factor, acc)
        k.store(c.buffer, at, total, bound)

    return epilogue


def each_piece(
    k: Builder, p: Product, c: Matrix, rows: Size, columns: Size, top: Size, left: Size,
    epilogue: Epilogue,
) -> None:  # fmt: skip
    """Hand ``rows`` and ``columns`` of results, which are in ``c``, to the epilogue, as those of
    the product from ``top`` and ``left`` on."""
    pairs = rows // 2 * 2  # of rows, so that one need not wait for the other
    for span in (Span(0, pairs, 2), Span(pairs, rows, 1)):
        for r in each(k, "r", span):
            for at, lanes, bound in each_vector(k, p, 0, columns):
                for row in range(span.step):
                    total = k.load(c.buffer, c.at(r + row, at), lanes)
                    epilogue(k, total, top + r + row, left + at, lanes, bound)


def each_row(k: Builder, p: Product, c: Matrix, epilogue: Epilogue) -> None:
    """Hand all of a product, which is in ``c``, to the epilogue, row by row; where a row is no more
    than half a vector, element by element: 5,000 rows of 8 take 17 microseconds, and 31 as vectors
    with lanes off."""

    def by_vectors() -> None:
        for row in each(k, "r", Span(0, p.m, 1), "parallel"):
            for at, lanes, bound in each_vector(k, p, 0, p.n):
                epilogue(k, k.load(c.buffer, c.at(row, at), lanes, bound), row, at, lanes, bound)

    def one_by_one() -> None:
        for row in each(k, "r", Span(0, p.m, 1), "parallel"):
            for at in each(k, "j", Span(0, p.n, 1)):
                epilogue(k, k.load(c.buffer, c.at(row, at)), row, at, 1, None)

    k.choose(k.compare("le", k.index_value(p.n), p.lanes // 2), one_by_one, by_vectors)


def each_vector(k: Builder, p: Product, left: Size, right: Size) -> Iterator[Column]:
    """Loops over columns ``left`` to ``right`` as vectors, whose last lanes may be off, or
    else one by one at the end."""
    spans = open_panels(left, right, p.lanes, 1, p.target.masks)
    if p.target.masks:
        spans = [(Span(left, right, p.lanes), Panel((p.lanes,), partial=True))]
    for span, panel in spans:
        for j in each(k, "j", span):
            yield from panel.columns(j, right)


def bind_size(k: Builder, name: str, size: Size, most: Size) -> Size:
    """The size, which is ``most`` at most, as a symbol, unless it is known or a symbol: long
    expressions of sizes take long to simplify."""
    if isinstance(size, int) or as_symbol(size) is not None:
        return size
    return k.bind(k.index_value(size), name, most + 1)
