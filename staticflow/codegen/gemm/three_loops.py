"""The matrix product of any dtype as three loops, for the dtypes that no tile is made for."""

from __future__ import annotations

from staticflow.codegen.builder import Builder
from staticflow.codegen.gemm.tile import Epilogue, Product
from staticflow.codegen.kernel import Operand
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import bfloat16, bool_, float16, float32
from staticflow.passes.access import broadcast_index

__all__ = ["emit_plain"]


def emit_plain(k: Builder, p: Product, epilogue: Epilogue) -> None:
    """Integers wrap, bools are combined by ``or`` of ``and``, 16-bit floats are summed in float32
    and rounded once."""
    wide = float32 if p.dtype in (float16, bfloat16) else p.dtype
    times, plus = ("and", "or") if p.dtype is bool_ else ("mul", "add")

    def element(matrix_buffer: str, at: Size) -> Operand:
        return k.cast(k.load(matrix_buffer, at), wide)

    with k.loop("i", p.m, kind="parallel") as i, k.loop("j", p.n) as j:
        total = k.var(k.const(wide.numpy.type(0).item(), wide))
        with k.loop("k", p.depth) as kk:
            x, y = element(p.a.buffer, p.a.at(i, kk)), element(p.b.buffer, p.b.at(kk, j))
            k.accumulate(total, plus, k.apply(times, x, y))
        row, col = broadcast_index((i, j), (p.m, p.n))  # 0 in a dim of one, as views read it
        epilogue(k, k.cast(total, p.dtype), row, col, 1, None)
