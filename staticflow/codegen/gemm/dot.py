"""Matrix products whose vectors run along the inner dimension: each element of C is a dot product.

For A by rows and B by columns (``a.col`` and ``b.row`` are 1), such as ``x @ w.T``, a matrix times
a vector, or a row times a transposed matrix. Nothing is copied; what it costs is adding up the
lanes of each accumulator at the end.
"""

from __future__ import annotations

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.plan import Span, dot_tile
from staticflow.codegen.gemm.tile import Epilogue, Product, each, multiply_add
from staticflow.codegen.kernel import LANE, Operand
from staticflow.graph.dims import Size, is_provably_ge

__all__ = ["emit_dots"]

_CHAINS = 4
"""Sums that are added up side by side where there is one element of C alone, so that one addition
does not wait for another."""


def emit_dots(k: Builder, p: Product, epilogue: Epilogue) -> None:
    """The whole product; the epilogue is given single elements."""
    cols = dot_tile(p.target, p.m, p.n)[1]
    few = not is_provably_ge(p.n, cols + 1)  # or may be: then rows are what threads can share
    inner = "parallel" if few else "serial"
    for columns, width in _spans(p.n, cols):
        rows = dot_tile(p.target, p.m, width if width < cols else p.n)[0]
        for col in each(k, "j", columns, "parallel"):
            for span, height in _spans(p.m, rows):
                for row in each(k, "i", span, inner):
                    _tile(k, p, height, width, row, col, epilogue)


def _spans(size: Size, most: int) -> list[tuple[Span, int]]:
    """``most`` at a time; of an unknown rest two at a time; then one by one."""
    if isinstance(size, int):
        most = max(1, min(most, size))
    widths = (most, 1) if isinstance(size, int) or most <= 2 else (most, 2, 1)
    spans: list[tuple[Span, int]] = []
    lo: Size = 0
    for width in widths:
        hi = size if width == 1 else lo + (size - lo) // width * width
        spans.append((Span(lo, hi, width), width))
        lo = hi
    return spans


def _tile(
    k: Builder, p: Product, rows: int, cols: int, row: Size, col: Size, epilogue: Epilogue
) -> None:
    lanes = p.lanes
    chains = _CHAINS if p.m == 1 == p.n else 1
    acc = [
        [[k.var(k.const(p.zero, p.dtype, lanes)) for _ in range(cols)] for _ in range(rows)]
        for _ in range(chains)
    ]

    def step(kk: Size, bound: Size | None, chain: int = 0) -> None:
        a_at, b_at = p.a.at(row, kk) + LANE, p.b.at(kk, col) + LANE
        right = [k.load(p.b.buffer, b_at + c * p.b.col, lanes, bound) for c in range(cols)]
        for r in range(rows):
            left = k.load(p.a.buffer, a_at + r * p.a.row, lanes, bound)
            for reg, vector in zip(acc[chain][r], right, strict=True):
                k.set(reg, multiply_add(k, p.target, left, vector, reg))

    first: Size = 0
    whole = p.depth // lanes * lanes
    if chains > 1:
        first = p.depth // (chains * lanes) * (chains * lanes)
        for kk in each(k, "k", Span(0, first, chains * lanes)):
            for chain in range(chains):
                step(kk + chain * lanes, None, chain)
    for kk in each(k, "k", Span(first, whole, lanes)):
        step(kk, None)
    for kk in each(k, "k", Span(whole, p.depth, lanes)):
        step(kk, p.depth - kk)
    for r in range(rows):
        for c in range(cols):
            total: Operand = acc[0][r][c]
            for chain in range(1, chains):
                total = k.add(total, acc[chain][r][c])
            epilogue(k, k.fold("add", total), row + r, col + c, 1, None)
