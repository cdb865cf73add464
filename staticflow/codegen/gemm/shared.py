"""Parts of matrix products as kernels that programs share.

Where a size is unknown, a product needs a dozen tiles, whatever it turns out to be, and their text
takes longer to compile than all around it. None of it depends on the program: such a kernel takes
every size and every stride that is not 1 as an argument, and is compiled once. What remains of a
product in a program are its loops over pieces, a call for each, and the epilogue, once.

===========  ===============================================================================
``product``  the whole product in whatever way its sizes ask for, on so many threads at most as
             stand behind the name
``many``     that, of rows and columns that are known to be more than a few: half of the code
``tiles``    the whole product by tiles, read where it is, on as many threads as there are
``strip``    a few rows of it, on the thread that calls; what is stored fills vectors
``onto``     a few rows, added to what is there
``scaled``   that, added to what is there times a number for each column
``dots``     the whole product by dot products, on as many threads as there are
``task``     rows and columns of a large product, block by block (`staticflow.codegen.gemm.task`)
===========  ===============================================================================
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.calls import Part, storing
from staticflow.codegen.gemm.dispatch import Gemm, emit_gemm
from staticflow.codegen.gemm.dot import emit_dots
from staticflow.codegen.gemm.task import emit_task
from staticflow.codegen.gemm.tile import Epilogue, Matrix, Product, Workspace, emit_tiles
from staticflow.codegen.kernel import Block, If, Kernel, Loop, Operand
from staticflow.codegen.target import Target
from staticflow.graph.dims import Dim, Size

__all__ = ["shared_kernel"]


@functools.cache
def shared_kernel(name: str, target: Target) -> Kernel:
    """The kernel of a `Part`'s name, for a target."""
    part = Part.of_name(name)
    buffers, sizes = part.parameters()
    at = {s.name: Dim.of(s) for s in sizes}
    k = Builder([*buffers], [*sizes])
    a, b = (Matrix(m, 0, at.get(f"{m}_row", 1), at.get(f"{m}_col", 1)) for m in ("a", "b"))
    target = replace(target, workers=part.workers)
    p = Product(a, b, at["m"], at["n"], at["depth"], buffers[0].dtype, target)
    emit = _EMIT[part.word]
    emit(k, p, Matrix("c", 0, at["c_row"], 1), [at[s] for s in part.own_sizes])
    kernel = k.kernel(name)
    return kernel.with_body(_in_order(kernel.body)) if part.is_small else kernel


def _emit_product(
    k: Builder, p: Product, c: Matrix, own: Sequence[Size], every: bool = True
) -> None:
    gemm = Gemm(p.m, p.n, p.depth, p.a.row, p.a.col, p.b.row, p.b.col, p.dtype)
    work, epilogue = Workspace("work"), storing("tiles", c)
    emit_gemm(k, gemm, p.target, "a", "b", work, epilogue, every=every)


def _emit_tiles(k: Builder, p: Product, c: Matrix, own: Sequence[Size]) -> None:
    emit_tiles(k, p, storing("tiles", c))


def _emit_strip(k: Builder, p: Product, c: Matrix, own: Sequence[Size]) -> None:
    emit_tiles(k, p, _in_full(storing("strip", c)))


def _emit_onto(k: Builder, p: Product, c: Matrix, own: Sequence[Size]) -> None:
    emit_tiles(k, p, storing("onto", c))


def _emit_scaled(k: Builder, p: Product, c: Matrix, own: Sequence[Size]) -> None:
    emit_tiles(k, p, _in_full(storing("scaled", c, Matrix("work", 0, 0, 1))))


def _emit_dots(k: Builder, p: Product, c: Matrix, own: Sequence[Size]) -> None:
    emit_dots(k, p, storing("tiles", c))


def _emit_task(k: Builder, p: Product, c: Matrix, own: Sequence[Size]) -> None:
    emit_task(k, p, c, Workspace("work"), *own)


_EMIT: dict[str, Callable[[Builder, Product, Matrix, Sequence[Size]], None]] = {
    "product": _emit_product,
    "many": functools.partial(_emit_product, every=False),
    "tiles": _emit_tiles,
    "strip": _emit_strip,
    "onto": _emit_onto,
    "scaled": _emit_scaled,
    "dots": _emit_dots,
    "task": _emit_task,
}


def _in_full(epilogue: Epilogue) -> Epilogue:
    """The epilogue for vectors of which no lane is off: what is stored in part cannot be loaded
    again before it has left for the cache."""

    def emit(
        k: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
    ) -> None:
        epilogue(k, acc, row, col, lanes, None)

    return emit


def _in_order(block: Block) -> Block:
    """The block with all loops in order."""
    return tuple(
        replace(s, kind="serial", body=_in_order(s.body))
        if isinstance(s, Loop)
        else replace(s, then=_in_order(s.then), orelse=_in_order(s.orelse))
        if isinstance(s, If)
        else s
        for s in block
    )
