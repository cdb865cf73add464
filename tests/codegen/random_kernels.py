"""Random kernels: loops over ``i`` and ``j`` that load, compute, combine and store."""

import itertools
from typing import Any

import hypothesis.strategies as st
import numpy as np

from staticflow.codegen.kernel import (
    Accumulate,
    Apply,
    Bind,
    Block,
    Buffer,
    Cast,
    Const,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Operand,
    Reg,
    Stmt,
    Store,
    Var,
)
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import DType, bool_, float32, int32, int64

N, M = Sym("n"), Sym("m")
n, m = Dim.of(N), Dim.of(M)
LENGTH = 4096  # more elements than any index below reaches with n and m up to 20

BUFFERS = (
    Buffer("f", float32, "in"),
    Buffer("k", int32, "in"),
    Buffer("fi", float32, "inout"),
    Buffer("fj", float32, "out"),
    Buffer("ki", int32, "out"),
    Buffer("fs", float32, "out"),
    Buffer("ks", int32, "out"),
)
FLOAT_OPS = ["add", "sub", "mul", "div", "max", "min", "copysign", "sqrt", "floor", "neg", "fma"]
INT_OPS = ["add", "sub", "mul", "max", "min", "and", "xor", "not", "abs"]
ARITY = {"sqrt": 1, "floor": 1, "neg": 1, "not": 1, "abs": 1, "fma": 3}


class _Body:
    """Draws the statements of a block and keeps what they bind."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.serial = itertools.count()
        self.values: dict[DType, list[Operand]] = {
            float32: [Const(1.5, float32), Const(-0.0, float32)],
            int32: [Const(3, int32), Const(-(2**31), int32)],
            bool_: [Const(True, bool_)],
        }

    def pick(self, dtype: DType) -> Operand:
        return self.draw(st.sampled_from(self.values[dtype]))

    def bind(self, dtype: DType, expr: Any) -> Let:
        reg = Reg(f"r{next(self.serial)}", dtype)
        self.values.setdefault(dtype, []).append(reg)
        return Let(reg, expr)

    def statement(self, indices: list[Size]) -> list[Stmt]:
        dtype = self.draw(st.sampled_from([float32, int32]))
        other = int32 if dtype is float32 else float32
        whats = ["load", "load", "op", "op", "select", "cast", "index", "look up"]
        what = self.draw(st.sampled_from(whats))
        index = self.draw(st.sampled_from(indices))
        if what == "load":
            return [self.bind(dtype, Load("f" if dtype is float32 else "k", index))]
        if what == "op":
            op = self.draw(st.sampled_from(FLOAT_OPS if dtype is float32 else INT_OPS))
            args = tuple(self.pick(dtype) for _ in range(ARITY.get(op, 2)))
            return [self.bind(dtype, Apply(op, args))]
        if what == "select":
            test = self.bind(bool_, Apply("lt", (self.pick(other), self.pick(other))))
            args = (self.pick(bool_), self.pick(dtype), self.pick(dtype))
            return [test, self.bind(dtype, Apply("select", args))]
        if what == "cast":
            return [self.bind(float32, Cast(self.pick(int32)))]
        if what == "look up":  # where a value says
            low = self.bind(int32, Apply("and", (self.pick(int32), Const(15, int32))))
            sym = Sym(f"at{next(self.serial)}", 0, 16)
            at = index + self.draw(st.sampled_from([1, 2, m])) * Dim.of(sym)
            use = Load("f", at) if dtype is float32 else Load("k", at)
            return [low, Bind(sym, low.reg), self.bind(dtype, use)]
        wide = self.bind(int64, Index(index))
        return [wide, self.bind(int32, Cast(wide.reg))]

    def some(self, indices: list[Size]) -> list[Stmt]:
        return [s for _ in range(self.draw(st.integers(1, 4))) for s in self.statement(indices)]


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    """A verified kernel with a loop over ``i``, which always can be vectorised, and maybe one over
    ``j`` in it. Floats are never added up, so that every order gives the same bits."""
    body = _Body(draw)
    i, j = Dim.of(Sym("i", 0, n)), Dim.of(Sym("j", 0, m))
    outer: list[Size] = [i, i * m, 2 * i + 1, 3 * n - i, i // 3, 0, n, i + i // 2, i % 5]
    inner: list[Size] = [*outer, i * m + j, j * n + i, j, i + j, (i * m + j) // 4]
    whole, part = Reg("whole", int32), Reg("part", float32)
    best = Reg("best", float32)
    stmts = body.some(outer)
    if draw(st.booleans()):
        stmts.append(Var(part, body.pick(float32)))
        saved = {dtype: list(values) for dtype, values in body.values.items()}
        nested: Block = (
            *body.some(inner),
            Accumulate(part, draw(st.sampled_from(["max", "add"])), body.pick(float32)),
            Accumulate(whole, "add", body.pick(int32)),
            Store("fj", draw(st.sampled_from([i * m + j, j * n + i])), body.pick(float32)),
        )
        stmts.append(Loop(Sym("j", 0, m), 0, m, nested))
        body.values = saved
        body.values[float32].append(part)
        stmts += body.some(outer)
    stmts.append(Store("ki", 2 * i + 3, body.pick(int32)))
    mine = body.bind(float32, Load("fi", i))
    stmts += [mine, *body.some(outer), Store("fi", i, body.pick(float32))]
    stmts += [
        Accumulate(whole, "add", body.pick(int32)),
        Accumulate(best, draw(st.sampled_from(["max", "min"])), body.pick(float32)),
    ]
    return Kernel(
        "k",
        BUFFERS,
        (N, M),
        (
            Var(whole, Const(7, int32)),
            Var(best, Const(0.5, float32)),
            Loop(Sym("i", 0, n), 0, n, tuple(stmts)),
            Store("fs", 0, best),
            Store("ks", 0, whole),
        ),
    )


def random_buffers(kernel: Kernel, length: int, seed: int = 0) -> dict[str, Any]:
    """Arrays for the buffers of a kernel: small numbers, among floats a few that are special."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for buffer in kernel.buffers:
        values = rng.integers(0 if buffer.dtype.kind == "u" else -9, 9, length)
        arrays[buffer.name] = values.astype(buffer.dtype.numpy)
        if buffer.dtype.is_floating and length >= 8:
            special = rng.permutation(length)[:4]
            arrays[buffer.name][special] = [np.nan, np.inf, -np.inf, -0.0]
    return arrays
