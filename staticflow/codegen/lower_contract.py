"""Matrix products, sums over windows, and what is fused behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm import Gemm, emit_gemm, scratch_size
from staticflow.codegen.kernel import Buffer, Kernel, Operand
from staticflow.codegen.lower_correlate import Finish, emit_correlate, emit_correlate_kernel
from staticflow.codegen.math import Scalars
from staticflow.codegen.target import Target
from staticflow.codegen.values import Values
from staticflow.errors import CompileError
from staticflow.graph.dim_queries import coefficient, substitute_dim
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import DType
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.lowering import Contract, Correlate, CorrelateKernel, Index, linear
from staticflow.passes.access import broadcast_index, source_of

__all__ = ["lower_contract"]

ROW, COL = Sym("row", -1), Sym("col", -1)


def lower_contract(
    k: Scalars, body: Graph, names: Mapping[Node, str], outs: list[str], target: Target
) -> tuple[Kernel, DType, Size]:
    """The kernel, and the dtype and number of elements of the scratch memory that it wants."""
    (product,) = (n for n in body.nodes if isinstance(n.op.lowering, Contract))
    finish = _finish(k, body, names, outs, product)
    windowed = _WINDOWED.get(type(product.op.lowering))
    if windowed is not None:
        windowed(k, product, names, target, finish)
        return k.kernel(product.op.name), product.tensor_type.dtype, 0
    x, y = product.args
    shape = product.tensor_type.shape
    inner = x.tensor_type.shape[-1]
    dtype = product.tensor_type.dtype
    first = (0,) * len(shape[:-2])
    a, _, a_row, a_col = _strides(x, first, names)
    b, _, b_row, b_col = _strides(y, first, names)
    gemm = Gemm(shape[-2], shape[-1], inner, a_row, a_col, b_row, b_col, dtype)
    size = scratch_size(gemm, target)
    if size != 0:
        k.buffers["scratch"] = Buffer("scratch", dtype, "inout")
    kind = "parallel" if size == 0 else "serial"  # one scratch serves all batches in turn
    with ExitStack() as stack:
        batch: list[Size] = [stack.enter_context(k.loop("b", d, kind=kind)) for d in shape[:-2]]
        a_base = _strides(x, tuple(batch), names)[1]
        b_base = _strides(y, tuple(batch), names)[1]

        def epilogue(
            kk: Builder, acc: Operand, row: Size, col: Size, lanes: int, bound: Size | None
        ) -> None:
            finish(acc, (*broadcast_index(tuple(batch), shape[:-2]), row, col), lanes, bound)

        emit_gemm(k, gemm, target, a, b, "scratch" if size != 0 else None, epilogue, a_base, b_base)
    return k.kernel("contract"), dtype, size


_WINDOWED: dict[type, Callable[[Scalars, Node, Mapping[Node, str], Target, Finish], None]] = {
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


def _strides(
    operand: Node, batch: Index, names: Mapping[Node, str]
) -> tuple[str, Size, Size, Size]:
    """The buffer behind an operand, where its matrix for ``batch`` begins, and its strides."""
    shape: Shape = operand.tensor_type.shape
    index = (*broadcast_index(batch, shape[:-2]), Dim.of(ROW), Dim.of(COL))
    source, place = source_of(operand, index)
    at = linear(place, source.tensor_type.shape)
    row, col = coefficient(at, ROW), coefficient(at, COL)
    if source not in names or row is None or col is None:
        raise CompileError(f"an operand of matmul, {operand.type}, is no strided view of an array")
    return names[source], substitute_dim(at, {ROW: 0, COL: 0}), row, col
