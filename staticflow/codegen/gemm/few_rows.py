"""A few rows times a matrix that lies by rows: each row of B is read from its first column on.

A tile would go down B for the few columns that it has in registers, and each of its loads is on
another page. Here some rows of B pass by side by side, and what they come to is added to sums in
memory, which stay in the first-level cache.
"""

from __future__ import annotations

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.calls import bind_size, each_vector
from staticflow.codegen.gemm.plan import Span
from staticflow.codegen.gemm.tile import Epilogue, Matrix, Product, Workspace, each, multiply_add
from staticflow.codegen.kernel import Operand
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, is_provably_ge

__all__ = ["LEAST_VECTORS", "emit_few_rows", "few_rows_scratch"]

LEAST_VECTORS = 8
"""Vectors of a row of B from which on none waits for the one before, whose sums it adds to."""

_STREAMS = 8
"""Rows of B that pass by at a time: as many as a processor fetches ahead of."""

_SIDE_BY_SIDE = 4
"""Rows of A that meet a row of B at a time."""

_MOST = 16
"""Elements of A that are multiplied at a time: in registers, beside what else is there."""

_CHUNK = 1024
"""Columns that a thread takes at a time, whose sums are a small part of a first-level cache."""

_LEAST_CHUNK = 128
"""Columns that are worth a thread of their own, whose rows of B are shorter then."""


def few_rows_scratch(p: Product) -> Size:
    """Elements of workspace that `emit_few_rows` needs."""
    return p.n * (1 if p.m == 1 else _SIDE_BY_SIDE)


def emit_few_rows(k: Builder, p: Product, scratch: Workspace, epilogue: Epilogue) -> None:
    """The whole product, whose rows add up in the workspace; ``p.b.col`` is 1."""
    sums = Matrix(scratch.buffer, scratch.base, p.n, 1)
    parts = _parts(k, p.n)
    width = ceil_div(p.n, dim_max(parts, 1) * p.lanes) * p.lanes
    chunk = bind_size(k, "chunk", width, p.n + p.lanes)
    cut = p.m // _SIDE_BY_SIDE * _SIDE_BY_SIDE
    for span in (Span(0, cut, _SIDE_BY_SIDE), Span(cut, p.m, 1)):
        for top in each(k, "i", span):
            rows = range(span.step)
            for part in each(k, "part", Span(0, parts, 1), "parallel"):
                columns = Span(part * chunk, dim_min((part + 1) * chunk, p.n), 1)
                _add_up(k, p, sums, top, rows, columns)
                for at, lanes, bound in each_vector(k, p, columns.lo, columns.hi):
                    for r in rows:
                        total = k.load(sums.buffer, sums.at(r, at), lanes, bound)
                        epilogue(k, total, top + r, at, lanes, bound)


def _parts(k: Builder, n: Size) -> Size:
    """Into how many parts ``n`` columns are cut, no element of which depends on it: one for each
    thread, if that has enough of them."""
    fewest = ceil_div(n, _CHUNK)
    if is_provably_ge(2 * _LEAST_CHUNK - 1, n):
        return fewest
    most = dim_max(fewest, n // _LEAST_CHUNK)
    wanted = k.apply("min", k.workers(), k.index_value(most))
    return k.bind(k.apply("max", wanted, k.index_value(fewest)), "parts", most + 1)


def _add_up(k: Builder, p: Product, sums: Matrix, top: Size, rows: range, columns: Span) -> None:
    """Some columns of the ``rows`` from ``top`` on."""
    for at, lanes, bound in each_vector(k, p, columns.lo, columns.hi):
        for r in rows:
            k.store(sums.buffer, sums.at(r, at), k.const(p.zero, p.dtype, lanes), bound)
    together = min(_STREAMS, _MOST // len(rows))
    whole = p.depth // together * together
    for span in (Span(0, whole, together), Span(whole, p.depth, 1)):
        for first in each(k, "k", span):
            steps = [first + i for i in range(span.step)]
            own = [[k.load(p.a.buffer, p.a.at(top + r, kk)) for kk in steps] for r in rows]
            for at, lanes, bound in each_vector(k, p, columns.lo, columns.hi):
                vectors = [k.load(p.b.buffer, p.b.at(kk, at), lanes, bound) for kk in steps]
                for r in rows:
                    total: Operand = k.load(sums.buffer, sums.at(r, at), lanes, bound)
                    for x, vector in zip(own[r], vectors, strict=True):
                        total = multiply_add(k, p.target, x, vector, total)
                    k.store(sums.buffer, sums.at(r, at), total, bound)
