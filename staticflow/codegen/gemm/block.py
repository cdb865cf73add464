"""Products of large matrices, cut into tasks that stay in the second-level cache.

A task is some rows of A by a chunk of the columns of B (`task`). This is after K. Goto and R. van
de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), but that A is read where it is
if it lies by rows. Where rows and columns are few and the inner dimension is long, as in the sums
of squares of many points, tasks are parts of that, whose sums are added up in their order.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.calls import bind_size, call_part, each_piece, each_vector, is_shared
from staticflow.codegen.gemm.cut import ENOUGH, GROUPS, Cut, cut_of, parts_of, tasks_each
from staticflow.codegen.gemm.plan import Span
from staticflow.codegen.gemm.task import Task, emit_task
from staticflow.codegen.gemm.tile import Epilogue, Matrix, Product, Workspace, each
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min

__all__ = ["blocked_scratch", "emit_blocked"]


def blocked_scratch(p: Product) -> Size:
    """Elements of workspace that `emit_blocked` needs, each worker its own."""
    parts = parts_of(p)
    if parts == 1:
        cut = cut_of(p, ENOUGH)
        return dim_min(cut.groups, p.target.workers) * cut.workspace
    cut = cut_of(replace(p, depth=ceil_div(p.depth, parts)), ENOUGH)
    tasks = parts * cut.down * cut.across
    sums = tasks * cut.most_rows * cut.width
    return sums + dim_min(tasks, p.target.workers) * cut.copies


def emit_blocked(k: Builder, p: Product, scratch: Workspace, epilogue: Epilogue) -> None:
    """The whole product; ``p.m`` is at least `LEAST_ROWS`."""
    parts = bind_size(k, "parts", parts_of(p), ENOUGH)
    workers = k.workers()
    alone = k.compare("le", workers, 1)
    many = k.apply("min", k.mul(workers, tasks_each(p)), ENOUGH)
    enough = k.bind(k.select(alone, 1, many), "enough", ENOUGH + 1)
    emit = _emit_tasks if parts == 1 else functools.partial(_emit_deep, parts=parts)
    emit(k, p, enough, scratch, epilogue)


def _bind(k: Builder, p: Product, cut: Cut) -> Cut:
    """The cut with names for what is computed as the program runs."""
    most_depth = bind_size(k, "depth", cut.most_depth, cut.depth)
    chunk, rows = bind_size(k, "chunk", cut.chunk, cut.width), bind_size(k, "rows", cut.rows, p.m)
    down = bind_size(k, "down", ceil_div(p.m, rows), cut.down)
    across = bind_size(k, "across", dim_max(ceil_div(p.n, chunk), 1), cut.across)
    return replace(cut, most_depth=most_depth, chunk=chunk, rows=rows, down=down, across=across)


def _corner(k: Builder, p: Product, cut: Cut, task: Size) -> tuple[Size, Size]:
    """The first row and the first column of a task."""
    row = bind_size(k, "row", task // cut.across, cut.down)
    column = (task - row * cut.across) * cut.chunk
    left = bind_size(k, "left", column, p.n) if cut.across != 1 else 0
    return bind_size(k, "top", row * cut.rows, p.m), left


def _extent(k: Builder, p: Product, cut: Cut, top: Size, left: Size) -> tuple[Size, Size]:
    """The rows and columns of a task."""
    rows = bind_size(k, "rows", dim_min(cut.rows, p.m - top), dim_min(cut.rows, p.m))
    columns = bind_size(k, "width", dim_min(cut.chunk, p.n - left), dim_min(cut.width, p.n))
    return rows, columns


def _columns(p: Product, left: Size, columns: Size) -> Product:
    """The product of A and some columns of B, from ``left`` on."""
    return replace(p, b=replace(p.b, base=p.b.at(0, left)), n=columns)


def _emit_tasks(
    k: Builder, p: Product, enough: Size, scratch: Workspace, epilogue: Epilogue
) -> None:
    """Tasks of rows and columns, which threads share."""
    cut = _bind(k, p, cut_of(p, enough, functools.partial(bind_size, k)))
    tasks = cut.down * cut.across
    groups = bind_size(k, "groups", cut.groups, GROUPS)
    for group in each(k, "group", Span(0, groups, 1), "parallel"):
        worker = k.worker(dim_min(groups, p.target.workers)) if groups != 1 else 0
        workspace = replace(scratch, base=scratch.base + worker * cut.workspace)
        sums = Matrix(workspace.buffer, workspace.base + cut.copies, cut.width, 1)
        span = Span(group * tasks // groups, (group + 1) * tasks // groups, 1)
        for task in each(k, "task", span):
            top, left = _corner(k, p, cut, task)
            if is_shared(p):
                rows, columns = _extent(k, p, cut, top, left)
                here, own = _columns(p, left, columns), (top, rows, cut.most_depth)
                call_part(k, "task", here, sums, own, workspace.buffer, workspace.base)
                each_piece(k, p, sums, rows, columns, top, left, epilogue)
            else:
                Task(k, p, cut, workspace, sums, top, left).emit(epilogue)


def _emit_deep(
    k: Builder,
    p: Product,
    enough: Size,
    scratch: Workspace,
    epilogue: Epilogue,
    parts: Size,
) -> None:
    """Tasks of ``parts`` of the inner dimension, and what they leave added up."""
    depth = bind_size(k, "depth", ceil_div(p.depth, parts), p.depth)
    cut = _bind(k, p, cut_of(replace(p, depth=depth), enough, functools.partial(bind_size, k)))
    of_part = cut.down * cut.across
    tasks, room = parts * of_part, cut.most_rows * cut.width
    copies = scratch.base + tasks * room
    for task in each(k, "task", Span(0, tasks, 1), "parallel"):
        worker = k.worker(dim_min(tasks, p.target.workers))
        workspace = replace(scratch, base=copies + worker * cut.copies)
        part = bind_size(k, "part", task // of_part, parts)
        top, left = _corner(k, p, cut, task - part * of_part)
        start = part * depth
        own = replace(
            p,
            a=replace(p.a, base=p.a.at(0, start)),
            b=replace(p.b, base=p.b.at(start, 0)),
            depth=bind_size(k, "depth", dim_min(depth, p.depth - start), depth),
        )
        rows, columns = _extent(k, p, cut, top, left)
        sums = Matrix(scratch.buffer, scratch.base + task * room, cut.width, 1)
        here = _columns(own, left, columns)
        if is_shared(p):
            sizes = (top, rows, cut.most_depth)
            call_part(k, "task", here, sums, sizes, workspace.buffer, workspace.base)
        else:
            emit_task(k, here, sums, workspace, top, rows, cut.most_depth)
    for task in each(k, "task", Span(0, of_part, 1), "parallel"):
        top, left = _corner(k, p, cut, task)
        rows, columns = _extent(k, p, cut, top, left)
        sums = Matrix(scratch.buffer, scratch.base + task * room, cut.width, 1)
        for row in each(k, "r", Span(0, rows, 1)):
            for at, lanes, bound in each_vector(k, p, 0, columns):
                total = k.var(k.load(sums.buffer, sums.at(row, at), lanes))
                for part in each(k, "part", Span(1, parts, 1)):
                    other = replace(sums, base=sums.base + part * of_part * room)
                    k.accumulate(total, "add", k.load(other.buffer, other.at(row, at), lanes))
                epilogue(k, total, top + row, left + at, lanes, bound)
