"""The register tile of a matrix product: some rows of A times a panel of B, all in registers.

Each step of the inner dimension loads a row of the panel and multiplies it by each element of a
column of A. A is read one element at a time, so its layout does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.plan import Panel, Span, column_panels, divisor, main_rows, row_blocks
from staticflow.codegen.kernel import Operand
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, is_provably_ge
from staticflow.graph.dtypes import DType

__all__ = [
    "Epilogue",
    "Matrix",
    "Piece",
    "Product",
    "Workspace",
    "each",
    "emit_tile",
    "emit_tiles",
    "finish",
    "multiply_add",
]

Epilogue: TypeAlias = Callable[[Builder, Operand, Size, Size, int, Size | None], None]
"""``epilogue(k, acc, row, col, lanes, bound)`` takes a complete piece of a row of C: ``lanes``
columns from ``row`` on, of which ``col`` is the index (it names ``lane`` if there are several) and
those at or past ``bound`` are off. It stores whatever is made of it."""

_NEAR = 1 << 14  # bytes of B that are in the first-level cache while rows of A pass by
_CHAINS = 8  # accumulations that must be under way at a time to keep the multipliers busy


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in a buffer: element ``[i, j]`` is at ``base + i * row + j * col``."""

    buffer: str
    base: Size
    row: Size
    col: Size

    def at(self, i: Size, j: Size) -> Size:
        """The position of an element in the buffer."""
        return self.base + i * self.row + j * self.col

    @property
    def transpose(self) -> Matrix:
        """The matrix with rows and columns exchanged."""
        return replace(self, row=self.col, col=self.row)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Working memory in a buffer, from ``base`` on."""

    buffer: str
    base: Size = 0


@dataclass(frozen=True, slots=True)
class Product:
    """``a @ b``, ``m x depth`` times ``depth x n``, and what it is made for. Where its epilogue is
    long, ``waits`` is memory in which complete sums wait for it."""

    a: Matrix
    b: Matrix
    m: Size
    n: Size
    depth: Size
    dtype: DType
    target: Target
    waits: Matrix | None = None

    @property
    def lanes(self) -> int:
        """Elements of the widest vector."""
        return max(1, self.target.vector_bits // self.dtype.bits)

    @property
    def zero(self) -> float:
        """What sums begin with, an int of integers."""
        return 0.0 if self.dtype.is_floating else 0

    def panels(self, rows: int) -> list[tuple[Span, Panel]]:
        """The columns of C, as tiles of ``rows`` rows take them."""
        return column_panels(self.n, self.lanes, self.target, rows)

    @property
    def main_panels(self) -> list[tuple[Span, Panel]]:
        """The columns of C, as most tiles take them."""
        return self.panels(main_rows(self.target))

    @property
    def blocks(self) -> list[tuple[Span, int]]:
        """The rows of C, each span with the rows of its tiles."""
        vectors = max((len(panel.lanes) for _, panel in self.main_panels), default=1)
        b_bytes = self.n * self.depth * self.dtype.itemsize
        return row_blocks(self.m, self.target, vectors, near=is_provably_ge(_NEAR, b_bytes))


@dataclass(frozen=True, slots=True)
class Piece:
    """``lanes`` columns of a row of C, complete: what an epilogue is given."""

    acc: Operand
    row: Size
    col: Size
    lanes: int
    bound: Size | None


def each(k: Builder, name: str, span: Span, kind: str = "serial") -> Iterator[Size]:
    """A loop over ``span``, whose body is written by the body of ``for i in each(...)``.

    Gives the loop variable; or the only value there is, without a loop; or nothing at all.
    """
    if is_provably_ge(span.lo, span.hi):
        return
    if is_provably_ge(span.hi, span.lo + 1) and is_provably_ge(span.lo + span.step, span.hi):
        yield span.lo
        return
    with k.loop(name, span.hi, lo=span.lo, step=span.step, kind=kind) as i:
        yield i


def multiply_add(k: Builder, target: Target, x: Operand, y: Operand, z: Operand) -> Operand:
    """``x * y + z``, of floats in one instruction where there is one."""
    return k.fma(x, y, z) if target.fma and z.dtype.is_floating else k.add(k.mul(x, y), z)


def emit_tile(
    k: Builder, p: Product, rows: int, panel: Panel, row: Size, col: Size, *, packed: bool = False
) -> list[Piece]:
    """The product of ``rows`` rows from ``row`` and the columns of ``panel`` from ``col``.

    ``p.b.col`` is 1. Where B is ``packed``, its rows lie behind each other and
    can be read past ``p.n``.
    """
    columns = panel.columns(col, p.n)
    # A small tile accumulates several steps side by side: one chain of additions would wait.
    chains = max(1, _CHAINS // (rows * len(columns)))
    if isinstance(p.depth, int):
        chains = divisor(p.depth, chains, -(-chains // 2))
    acc = [
        [[k.var(k.const(p.zero, p.dtype, w)) for w in panel.lanes] for _ in range(rows)]
        for _ in range(chains)
    ]

    starts = [p.a.at(row + r, 0) for r in range(rows)]
    if not isinstance(p.a.row, int):  # a register for each row, with nothing to add in the loop
        starts = [k.bind(k.index_value(start), "begin", held=True) for start in starts]

    def step(kk: Size, chain: int) -> None:
        b_row = p.b.at(kk, 0)
        vectors = [
            k.load(p.b.buffer, b_row + j, w, None if packed else bound) for j, w, bound in columns
        ]
        for r in range(rows):
            x = k.load(p.a.buffer, starts[r] + kk * p.a.col)
            for reg, vector in zip(acc[chain][r], vectors, strict=True):
                k.set(reg, multiply_add(k, p.target, x, vector, reg))

    whole = p.depth // chains * chains
    for kk in each(k, "k", Span(0, whole, chains)):
        for chain in range(chains):
            step(kk + chain, chain)
    for kk in each(k, "k", Span(whole, p.depth, 1)):
        step(kk, 0)
    pieces = []
    for r in range(rows):
        for v, (j, w, bound) in enumerate(columns):
            total: Operand = acc[0][r][v]
            for chain in range(1, chains):
                total = k.add(total, acc[chain][r][v])
            pieces.append(Piece(total, row + r, j, w, bound))
    return pieces


def emit_tiles(k: Builder, p: Product, epilogue: Epilogue) -> None:
    """The whole product, with A and B read where they are; ``p.b.col`` is 1."""
    for span, rows in p.blocks:
        alone = is_provably_ge(rows, p.m)  # then the columns are what can be spread over threads
        for row in each(k, "i", span, "parallel"):
            for columns, panel in p.panels(rows):
                for col in each(k, "j", columns, "parallel" if alone else "serial"):
                    pieces = emit_tile(k, p, rows, panel, row, col)
                    finish(k, epilogue, pieces, rows, p.waits)


def finish(
    k: Builder, epilogue: Epilogue, pieces: list[Piece], rows: int, waits: Matrix | None = None
) -> None:
    """Hand all pieces of a tile of so many ``rows`` to the epilogue: one after the other, or row by
    row in a loop, for which they wait in memory."""
    if waits is not None and rows > 1:
        for piece in pieces:
            at = waits.at(piece.row, piece.col)
            k.store(waits.buffer, at, piece.acc, piece.bound)
        with k.loop("r", rows) as r:
            first = [replace(piece, row=piece.row + r) for piece in pieces[: len(pieces) // rows]]
            places = [waits.at(piece.row, piece.col) for piece in first]
            pieces = [
                replace(piece, acc=k.load(waits.buffer, at, piece.lanes, piece.bound))
                for piece, at in zip(first, places, strict=True)
            ]
            finish(k, epilogue, pieces, 1)
        return
    for piece in pieces:
        epilogue(k, piece.acc, piece.row, piece.col, piece.lanes, piece.bound)
