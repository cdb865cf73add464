"""Copies of parts of matrices for the tiles of a product."""

from __future__ import annotations

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.plan import Span
from staticflow.codegen.gemm.tile import Matrix, each
from staticflow.codegen.kernel import HALVES, LANE, Operand
from staticflow.graph.dims import Size

__all__ = ["copy_columns"]

_STRIP = 4  # columns copied side by side; more would compete for the same places of the cache


def copy_columns(
    k: Builder, source: Matrix, to: Matrix, rows: Size, lo: Size, hi: Size, lanes: int
) -> None:
    """Copy columns ``lo..hi`` of some rows, which lie by columns in the source and by rows in the
    copy: in squares of ``lanes``, which are transposed in registers, and what is left in strips."""
    left = lo
    if source.row == 1:
        left, whole = lo + (hi - lo) // lanes * lanes, rows // lanes * lanes
        for j in each(k, "j", Span(lo, left, lanes), "parallel"):
            for i in each(k, "i", Span(0, whole, lanes)):
                _copy_square(k, source, to, i, j, lanes)
            _copy_strip(k, source, to, Span(whole, rows, 1), j, lanes)
    cut = left + (hi - left) // _STRIP * _STRIP
    for span, width in ((Span(left, cut, _STRIP), _STRIP), (Span(cut, hi, 1), 1)):
        for j in each(k, "j", span, "parallel"):
            _copy_strip(k, source, to, Span(0, rows, 1), j, width)


def _copy_strip(k: Builder, source: Matrix, to: Matrix, rows: Span, j: Size, width: int) -> None:
    """Copy some rows of ``width`` columns from ``j`` on."""
    at = j + LANE if width > 1 else j
    for i in each(k, "i", rows):
        k.store(to.buffer, to.at(i, at), k.load(source.buffer, source.at(i, at), width))


def _copy_square(k: Builder, source: Matrix, to: Matrix, i: Size, j: Size, lanes: int) -> None:
    """Copy ``lanes`` rows from ``i`` on of as many columns from ``j`` on. Zipping the first half of
    the vectors with the second brings neighbours in a row together; done again and again, rows."""
    vectors: list[Operand] = [
        k.load(source.buffer, source.at(i + LANE, j + c), lanes) for c in range(lanes)
    ]
    for _ in range(lanes.bit_length() - 1):
        pairs = list(zip(vectors[: lanes // 2], vectors[lanes // 2 :], strict=True))
        vectors = [k.zip(a, b, half) for a, b in pairs for half in HALVES]
    for r, vector in enumerate(vectors):
        k.store(to.buffer, to.at(i + r, j + LANE), vector)
