"""Matrix products, sums over windows, and what is fused behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.dispatch import Gemm, Workspace, emit_gemm, scratch_size
from staticflow.codegen.gemm.tile import Matrix
from staticflow.codegen.kernel import Buffer, Kernel, Operand
from staticflow.codegen.lower.correlate import emit_correlate
from staticflow.codegen.lower.correlate_kernel import emit_correlate_kernel
from staticflow.codegen.lower.tasks import GROUPS, bind_index, each_in_groups
from staticflow.codegen.lower.team_products import emit_team_product
from staticflow.codegen.lower.values import Values
from staticflow.codegen.lower.windows import COL, ROW, Finish, strided_matrix
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import Target
from staticflow.graph.dims import Size, is_provably_ge, prod
from staticflow.graph.dtypes import DType
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.declaring.lowering import (
    Contract,
    Correlate,
    CorrelateKernel,
    Index,
    delinear,
    linear,
)
from staticflow.passes.access import broadcast_index, canonical_index

__all__ = ["lower_contract", "matrix_of"]

_LARGE = 1 << 19
"""Elements of scratch memory of a product that threads may share well enough alone."""


def lower_contract(
    k: Scalars, body: Graph, names: Mapping[Node, str], outs: list[str], target: Target
) -> tuple[Kernel, DType, Size]:
    """The kernel, and the dtype and number of elements of the scratch memory that it wants."""
    (product,) = (n for n in body.nodes if isinstance(n.op.lowering, Contract))
    finish = _finish(k, body, names, outs, product)
    if target.teams:
        wide, used = emit_team_product(k, product, names, finish)
        return k.kernel(product.op.name), wide, used
    windowed = _WINDOWED.get(type(product.op.lowering))
    if windowed is not None:
        used = windowed(k, product, names, target, finish)
        return k.kernel(product.op.name), product.tensor_type.dtype, used
    x, y = product.args
    shape = product.tensor_type.shape
    inner = x.tensor_type.shape[-1]
    dtype = product.tensor_type.dtype
    first = (0,) * len(shape[:-2])
    a, b = (matrix_of(operand, first, names) for operand in (x, y))
    gemm = Gemm(shape[-2], shape[-1], inner, a.row, a.col, b.row, b.col, dtype)
    is_plain = body.outputs == (product,)
    size = scratch_size(gemm, target, is_plain)

    def emit(batch: Index, scratch: Workspace | None) -> None:
        def epilogue(
            kk: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
        ) -> None:
            finish(acc, (*broadcast_index(batch, shape[:-2]), row, col), lanes, bound)

        left, right = (matrix_of(operand, batch, names) for operand in (x, y))
        at = linear((*broadcast_index(batch, shape[:-2]), 0, 0), shape)
        to = Matrix(outs[0], at, shape[-1], 1) if is_plain else None
        emit_gemm(
            k, gemm, target, left.buffer, right.buffer, scratch, epilogue, left.base, right.base, to
        )

    if size == 0:
        with ExitStack() as stack:
            loops = (k.loop("b", d, kind="parallel") for d in shape[:-2])
            emit(tuple([stack.enter_context(loop) for loop in loops]), None)
        return k.kernel("contract"), dtype, 0
    k.buffers["scratch"] = Buffer("scratch", dtype, "inout")
    total = prod(shape[:-2])
    few = is_provably_ge(size, _LARGE)
    workers, tasks = each_in_groups(k, total, target.workers, 1 if few else GROUPS)
    for at, worker in tasks:
        batch = zip(delinear(at, shape[:-2]), shape[:-2], strict=True)
        emit(tuple(bind_index(k, i, d) for i, d in batch), Workspace("scratch", worker * size))
    return k.kernel("contract"), dtype, workers * size


_WINDOWED: dict[type, Callable[[Scalars, Node, Mapping[Node, str], Target, Finish], Size]] = {
    Correlate: emit_correlate,
    CorrelateKernel: emit_correlate_kernel,
}


def _finish(
    k: Scalars, body: Graph, names: Mapping[Node, str], outs: list[str], product: Node
) -> Finish:
    """What takes complete elements of the product, computes what is fused behind them and stores
    the results."""

    def finish(acc: Operand, index: Index, lanes: int, bound: Size | None) -> None:
        values = Values(k, names, {product: (index, acc)}, lanes, bound)
        results = [(o, values.at(o, index)) for o in body.outputs]
        for name, (o, value) in zip(outs, results, strict=True):
            k.store(name, linear(index, o.tensor_type.shape), value, bound)

    return finish


def matrix_of(operand: Node, batch: Index, names: Mapping[Node, str]) -> Matrix:
    """The matrix of an operand for ``batch``, as it lies in memory."""
    shape: Shape = operand.tensor_type.shape
    matrix = canonical_index(shape[-2:], (ROW, COL))
    index = (*broadcast_index(batch, shape[:-2]), *matrix)
    return strided_matrix(operand, index, names)
