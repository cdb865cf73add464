"""Matrix products, sums over windows, and what is fused behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.dispatch import (
    Gemm,
    Workspace,
    emit_gemm,
    may_leave_sums,
    scratch_size,
)
from staticflow.codegen.gemm.tile import Matrix
from staticflow.codegen.kernel import Buffer, Kernel, Operand
from staticflow.codegen.lower.correlate import emit_correlate
from staticflow.codegen.lower.correlate_kernel import emit_correlate_kernel
from staticflow.codegen.lower.tasks import GROUPS, bind_index, each_in_groups
from staticflow.codegen.lower.team_products import emit_team_product
from staticflow.codegen.lower.values import Values
from staticflow.codegen.lower.windows import COL, ROW, Finish, strided_matrix
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.parts import walk
from staticflow.codegen.target import Target
from staticflow.graph.dims import Dim, Size, Sym, is_provably_ge, prod
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
from staticflow.passes.access import broadcast_index, canonical_index, member_index

__all__ = ["lower_contract", "matrix_of"]

_LARGE = 1 << 19
"""Elements of scratch memory of a product that threads may share well enough alone."""

_LONG = 16
"""Statements behind each vector of a product from which on they are in a loop over the rows of a
tile, for which sums wait in memory. Written out for the 24 vectors of a tile, those of gelu make
four fifths of the code, which takes three times as long to compile."""

_MUCH = 56
"""Statements and products for each vector, together, from which on the wait takes no time that is
seen: of a product of 33 columns with a sigmoid it is 5 %, of one of 128 nothing."""


def lower_contract(
    k: Scalars, body: Graph, names: Mapping[Node, str], outs: list[str], target: Target
) -> tuple[Kernel, DType, Size]:
    """The kernel, and the dtype and number of elements of the scratch memory that it wants."""
    (product,) = (n for n in body.nodes if isinstance(n.op.lowering, Contract))
    take = _finish(k, body, names, outs, product)
    if target.teams:
        wide, used = emit_team_product(k, product, names, Finish(take))
        return k.kernel(product.op.name), wide, used
    dtype = product.tensor_type.dtype
    free = next((name for name in outs if k.buffers[name] == Buffer(name, dtype, "out")), None)
    is_long = free is not None and _is_long_behind(k, body, names, outs, product)
    finish = Finish(take, free if is_long else None)
    windowed = _WINDOWED.get(type(product.op.lowering))
    if windowed is not None:
        _let_read(k, finish.waits)
        used = windowed(k, product, names, target, finish)
        return k.kernel(product.op.name), product.tensor_type.dtype, used
    x, y = product.args
    shape = product.tensor_type.shape
    inner = x.tensor_type.shape[-1]
    first = (0,) * len(shape[:-2])
    a, b = (matrix_of(operand, first, names) for operand in (x, y))
    gemm = Gemm(shape[-2], shape[-1], inner, a.row, a.col, b.row, b.col, dtype)
    is_plain = body.outputs == (product,)
    size = scratch_size(gemm, target, is_plain)
    apart = None if is_plain or not may_leave_sums(gemm, target) else free
    _let_read(k, finish.waits or apart)

    def emit(batch: Index, scratch: Workspace | None) -> None:
        def epilogue(
            kk: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
        ) -> None:
            finish(acc, (*broadcast_index(batch, shape[:-2]), row, col), lanes, bound)

        left, right = (matrix_of(operand, batch, names) for operand in (x, y))
        at = linear((*broadcast_index(batch, shape[:-2]), 0, 0), shape)
        to = Matrix(outs[0], at, shape[-1], 1) if is_plain else None
        waits, sums = (
            None if name is None else Matrix(name, at, shape[-1], 1)
            for name in (finish.waits, apart)
        )
        emit_gemm(
            k, gemm, target, left.buffer, right.buffer, scratch, epilogue, left.base, right.base,
            to, waits, sums,
        )  # fmt: skip

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
) -> Callable[[Operand, Index, int, Size | None], None]:
    """What takes complete elements of the product, computes what is fused behind them and stores
    the results."""

    def finish(acc: Operand, index: Index, lanes: int, bound: Size | None) -> None:
        values = Values(k, names, {product: (index, acc)}, lanes, bound)
        places = [member_index(o, index, index, ()) for o in body.outputs]
        results = [values.at(o, at) for o, at in zip(body.outputs, places, strict=True)]
        for name, o, at, value in zip(outs, body.outputs, places, results, strict=True):
            k.store(name, linear(at, o.tensor_type.shape), value, bound)

    return finish


def _let_read(k: Scalars, result: str | None) -> None:
    """From now on the kernel reads the buffer of a result, in which sums wait."""
    if result is not None:
        k.buffers[result] = Buffer(result, k.buffers[result].dtype, "inout")


def _is_long_behind(
    k: Scalars, body: Graph, names: Mapping[Node, str], outs: list[str], product: Node
) -> bool:
    """Whether sums wait for what is fused behind them, which is long."""
    statements = _statements_behind(k, body, names, outs, product)
    return statements >= _LONG and not is_provably_ge(_MUCH - statements - 1, _products_of(product))


def _products_of(product: Node) -> Size:
    """How many numbers are added up for an element of a product or of a sum over windows."""
    x, y = product.args
    windowed = type(product.op.lowering) in _WINDOWED
    return prod(y.tensor_type.shape[1:]) if windowed else x.tensor_type.shape[-1]


def _statements_behind(
    k: Scalars, body: Graph, names: Mapping[Node, str], outs: list[str], product: Node
) -> int:
    """How many statements are written for each vector of a product."""
    trial = Scalars([*k.buffers.values()], [*k.sizes])
    index = tuple([Dim.of(Sym(f"i{i}", -1)) for i, _ in enumerate(product.tensor_type.shape)])
    acc = trial.var(trial.const(0, product.tensor_type.dtype))
    _finish(trial, body, names, outs, product)(acc, index, 1, None)
    return sum(1 for _ in walk(trial.kernel("trial").body))


def matrix_of(operand: Node, batch: Index, names: Mapping[Node, str]) -> Matrix:
    """The matrix of an operand for ``batch``, as it lies in memory."""
    shape: Shape = operand.tensor_type.shape
    matrix = canonical_index(shape[-2:], (ROW, COL))
    index = (*broadcast_index(batch, shape[:-2]), *matrix)
    return strided_matrix(operand, index, names)
