"""Copies of parts of matrices for the tiles of a product."""

from __future__ import annotations

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm_plan import Span
from staticflow.codegen.gemm_tile import Matrix, each
from staticflow.codegen.kernel import LANE
from staticflow.graph.dims import Size

__all__ = ["copy_columns"]

_STRIP = 4  # columns copied side by side; more would compete for the same places of the cache


def copy_columns(k: Builder, source: Matrix, to: Matrix, rows: Size, lo: Size, hi: Size) -> None:
    """Copy columns ``lo..hi`` of some rows; elements of a row lie apart in the source."""
    cut = lo + (hi - lo) // _STRIP * _STRIP
    for span, lanes in ((Span(lo, cut, _STRIP), _STRIP), (Span(cut, hi, 1), 1)):
        for j in each(k, "j", span, "parallel"):
            at = j + LANE if lanes > 1 else j
            for i in each(k, "i", Span(0, rows, 1)):
                k.store(to.buffer, to.at(i, at), k.load(source.buffer, source.at(i, at), lanes))
