"""Matrix products that copy a matrix first.

B by rows, if it lies by columns, which tiles cannot read; or by columns, if they are so few that
dot products are faster; or a few rows of A, if it lies by columns, too.
"""

from __future__ import annotations

from dataclasses import replace

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.copy import copy_columns
from staticflow.codegen.gemm.dot import emit_dots
from staticflow.codegen.gemm.tile import Epilogue, Matrix, Product, Workspace, emit_tiles
from staticflow.graph.dims import Size, ceil_div

__all__ = [
    "a_by_rows_scratch",
    "by_columns_scratch",
    "by_rows_scratch",
    "emit_by_columns",
    "emit_by_rows",
    "emit_dots_of_copy",
]


def by_rows_scratch(p: Product) -> Size:
    """Elements of workspace that `emit_by_rows` needs."""
    return p.depth * _row_length(p)


def _row_length(p: Product) -> Size:
    """A row of the copy, and a gap so that rows do not lie a power of two apart."""
    return ceil_div(p.n, p.lanes) * p.lanes + p.lanes


def emit_by_rows(k: Builder, p: Product, scratch: Workspace, epilogue: Epilogue) -> None:
    """The whole product, as tiles over a copy of B by rows."""
    to = Matrix(scratch.buffer, scratch.base, _row_length(p), 1)
    copy_columns(k, p.b, to, p.depth, 0, p.n, p.lanes)
    emit_tiles(k, replace(p, b=to), epilogue)


def by_columns_scratch(p: Product) -> Size:
    """Elements of workspace that `emit_by_columns` needs."""
    return p.depth * p.n


def emit_by_columns(k: Builder, p: Product, scratch: Workspace, epilogue: Epilogue) -> None:
    """The whole product, as dot products with a copy of B by columns; ``p.a.col`` is 1."""
    to = Matrix(scratch.buffer, scratch.base, 1, p.depth)
    copy_columns(k, p.b.transpose, to.transpose, p.n, 0, p.depth, p.lanes)
    emit_dots(k, replace(p, b=to), epilogue)


def a_by_rows_scratch(p: Product) -> Size:
    """Elements of workspace that `emit_dots_of_copy` needs."""
    return p.m * p.depth


def emit_dots_of_copy(k: Builder, p: Product, scratch: Workspace, epilogue: Epilogue) -> None:
    """The whole product, as dot products with a copy of A by rows; ``p.b.row`` is 1."""
    to = Matrix(scratch.buffer, scratch.base, p.depth, 1)
    copy_columns(k, p.a, to, p.m, 0, p.depth, p.lanes)
    emit_dots(k, replace(p, a=to), epilogue)
