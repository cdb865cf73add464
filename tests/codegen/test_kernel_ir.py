"""Kernel IR: its rules, its text, and what the interpreter says that it means."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from random_kernels import kernels

from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.kernel import (
    LANE,
    Accumulate,
    Active,
    Apply,
    Bind,
    Bitcast,
    Block,
    Buffer,
    Cast,
    Const,
    Fold,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Operand,
    Reg,
    Splat,
    Stmt,
    Store,
    Var,
    Zip,
)
from staticflow.codegen.llvm.render import render_module
from staticflow.codegen.parts import operands_of
from staticflow.codegen.text import parse_kernel, print_kernel
from staticflow.codegen.verify import verify_kernel
from staticflow.errors import IndexRangeError, VerifyError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, Sym, fresh_sym
from staticflow.graph.dtypes import (
    DTYPES,
    DType,
    bfloat16,
    bool_,
    dtype_of,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
)

N = Sym("n")
n = Dim.of(N)

# -- rules that a text cannot break, since the parser would not read it; the others are in
# -- tests/codegen/kernel/verify.sf ----------------------------------------------------------------------

BUFFERS = (Buffer("x", float32, "in"), Buffer("y", float32, "out"))
A = Reg("a", float32)
ONE = Const(1.0, float32)
LOAD_A = Let(A, Load("x", 0))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ((Store("y", 0, A),), "%a is not bound here"),
        ((LOAD_A, Store("y", 0, Reg("a", float64))), "%a is used as f64 but bound as f32"),
        ((LOAD_A, Store("y", 0, Reg("a", float32, 4))), "%a is used as f32x4 but bound as f32"),
        ((Let(Reg("a b", float32), Load("x", 0)),), "'a b' is no name for a register"),
        ((Let(Reg("a", float32, 0), Cast(Const(1, int32, 0))),), "a constant has 0 lanes"),
        ((Let(A, Load("w", 0)),), "there is no buffer w"),
        ((Let(A, Load("x", Dim.of(Sym("k")))),), "the index names k, not bound here"),
        ((Let(A, Load("x", 0, Dim.of(Sym("k")))),), "the bound names k, not bound here"),
        ((Let(A, Apply("exp", (ONE,))),), "there is no primitive exp"),
        ((Let(A, Fold("sub", Const(1.0, float32, 4))),), "sub is no combination"),
        ((Store("y", 0, Const(np.float64(1.0), float32)),), "is no f32"),
        ((Var(A, ONE), Accumulate(A, "div", ONE)), "div is no combination"),
        ((Loop(Sym("i"), 0, n, (), kind="fast"),), "'fast' is none of serial, parallel, grid, warps, blocks, threads, scan, long"),
        ((Loop(Sym("i j"), 0, n, ()),), "'i j' is no name for a symbol"),
        ((Loop(Sym("i", 0, n), 0, n + 1, ()),), "i is said to be below n"),
        ((Loop(Sym("i"), 0, Dim.of(Sym("k")), ()),), "the loop's end names k"),
        ((Loop(Sym("i"), Dim.of(Sym("k")), n, ()),), "the loop's start names k"),
        ((If(A, ()),), "%a is not bound here"),
    ],
)  # fmt: skip
def test_a_kernel_that_breaks_a_rule_is_refused(body: Block, message: str) -> None:
    with pytest.raises(VerifyError) as error:
        verify_kernel(Kernel("k", BUFFERS, (N,), body))
    assert str(error.value).startswith("kernel k: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Kernel("a-b", (), (), ()), "'a-b' is no name for a kernel"),
        (Kernel("k", (Buffer("", float32, "in"),), (), ()), "'' is no name for a buffer"),
        (Kernel("k", (Buffer("x", float32, "read"),), (), ()), "buffer x: 'read' is none of"),
        (Kernel("k", (), (Sym("batch size"),), ()), "'batch size' is no name for a symbol"),
    ],
)
def test_a_signature_that_breaks_a_rule_is_refused(kernel: Kernel, message: str) -> None:
    with pytest.raises(VerifyError) as error:
        verify_kernel(kernel)
    assert message in str(error.value)


def test_the_hash_of_a_kernel_tells_ends_and_places_apart() -> None:
    """Kernels that differ in what they compute have one hash, and differ all the same; thousands
    that differ in the row that they read, as updates of many tensors do, have one each."""
    n, i = Dim.of(N), Sym("i")
    double = Let(A, Apply("add", (A, A)))

    def kernel(end: Size, *body: Stmt) -> Kernel:
        return Kernel("k", BUFFERS, (N,), (Loop(i, 0, end, body),))

    short, other = kernel(n, LOAD_A), kernel(n, LOAD_A, double)
    assert hash(short) == hash(other)
    assert short != other
    assert hash(kernel(n + 1, LOAD_A)) != hash(short)
    rows = [kernel(n, Let(A, Load("x", row * 16 + Dim.of(i)))) for row in range(100)]
    assert len({hash(row) for row in rows}) == 100


def test_operands_are_all_that_a_statement_reads() -> None:
    acc = Reg("acc", float32)
    assert operands_of(Accumulate(acc, "add", acc)) == (acc,)
    assert operands_of(Let(acc, Apply("add", (A, ONE)))) == (A, ONE)
    assert operands_of(LOAD_A) == ()


# -- text ----------------------------------------------------------------------------------------


@given(kernels())
@settings(deadline=None, max_examples=150)
def test_a_kernel_is_read_back_as_it_was_printed(kernel: Kernel) -> None:
    verify_kernel(kernel)
    text = print_kernel(kernel)
    again = parse_kernel(text)
    assert again == kernel
    assert print_kernel(again) == text


@given(st.floats() | st.integers() | st.booleans())
def test_a_literal_is_read_back_bit_by_bit(value: bool | int | float) -> None:
    kernel = Kernel("k", (), (), (Var(A, Const(value, float32)),))
    assert parse_kernel(print_kernel(kernel)) == kernel


def test_the_variable_of_a_loop_gets_its_bound_back() -> None:
    kernel = parse_kernel("kernel k(n) { for i in 0..n { bind j = 1:i64 below i + 1 } }")
    (loop,) = kernel.body
    assert isinstance(loop, Loop) and loop.var.upper == n
    (bind,) = loop.body
    assert bind.sym.upper == Dim.of(loop.var) + 1


def test_what_is_held_in_a_register_is_read_back() -> None:
    text = "kernel k(n) { bind j = 1:i64 below n held\n bind i = 1:i64 held }"
    kernel = parse_kernel(text)
    assert len(kernel.body) == 2
    assert all(isinstance(stmt, Bind) and stmt.held for stmt in kernel.body)
    assert parse_kernel(print_kernel(kernel)) == kernel
    assert 'asm ""' in render_module([kernel])


def test_symbols_of_one_name_are_printed_apart() -> None:
    rows, columns = fresh_sym("d"), fresh_sym("d")
    (r,), (c,) = symbols_of(rows), symbols_of(columns)
    i = Sym("d", 0, rows)
    body = (Loop(i, 0, rows, (Store("y", Dim.of(i) * columns, ONE),)),)
    kernel = verify_kernel(Kernel("k", BUFFERS, (r, c), body))
    text = print_kernel(kernel)
    assert "kernel k(d, d_2)" in text
    assert "for d_3 in 0..d {" in text
    assert "store y[d_2*d_3]" in text
    assert print_kernel(parse_kernel(text)) == text


# -- the interpreter -----------------------------------------------------------------------------


def value_of(expr: Any, dtype: DType, lanes: int = 1) -> np.ndarray[Any, Any]:
    """What a register that is bound to ``expr`` holds."""
    reg = Reg("r", dtype, lanes)
    store = Store("out", LANE if lanes > 1 else 0, reg)
    kernel = Kernel("k", (Buffer("out", dtype, "out"),), (), (Let(reg, expr), store))
    out = np.zeros(lanes, dtype.numpy)
    assert interpret_kernel(verify_kernel(kernel), {"out": out}, {}) == 0
    return out


def apply(op: str, dtype: DType, *values: Any, result: DType | None = None) -> Any:
    args: list[Operand] = [Const(v, bool_ if v is True else dtype) for v in values]
    return value_of(Apply(op, tuple(args)), result or dtype)[0]


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("op", "dtype", "args", "expected"),
    [
        ("add", "i8", (127, 1), -128),
        ("sub", "u8", (0, 1), 255),
        ("mul", "i32", (2**30, 4), 0),
        ("add", "f32", (2.0**24, 1.0), 2.0**24),
        ("add", "bf16", (256.0, 1.0), 256.0),
        ("div", "f32", (1.0, 0.0), INF),
        ("div", "f16", (65504.0, 0.5), INF),
        ("neg", "f32", (0.0,), -0.0),
        ("neg", "i8", (-128,), -128),
        ("abs", "i8", (-128,), -128),
        ("abs", "f64", (-0.0,), 0.0),
        ("sqrt", "f32", (-1.0,), NAN),
        ("sqrt", "f32", (-0.0,), -0.0),
        ("floor", "f64", (-0.5,), -1.0),
        ("ceil", "f64", (-0.5,), -0.0),
        ("trunc", "bf16", (-1.5,), -1.0),
        ("round", "f32", (2.5,), 2.0),
        ("round", "f32", (-0.5,), -0.0),
        ("copysign", "f32", (3.0, -0.0), -3.0),
        ("quotient", "i8", (-7, 2), -3),
        ("quotient", "i8", (-128, -1), -128),
        ("quotient", "u8", (200, 7), 28),
        ("quotient", "i64", (-(2**63), 3), -(2**63 // 3)),
        ("remainder", "i8", (-7, 2), -1),
        ("remainder", "i8", (7, -2), 1),
        ("remainder", "i8", (-128, -1), 0),
        ("and", "bool", (True, False), False),
        ("xor", "i8", (-1, 5), -6),
        ("not", "bool", (True,), False),
        ("not", "u8", (5,), 250),
        ("shl", "i8", (64, 1), -128),
        ("shr", "i8", (-128, 7), -1),
        ("shr", "u8", (128, 7), 1),
        ("max", "f32", (NAN, 1.0), NAN),
        ("min", "f32", (1.0, NAN), NAN),
        ("max", "bool", (False, True), True),
        ("min", "i8", (-128, 127), -128),
        ("fma", "f32", (INF, 0.0, 1.0), NAN),
        ("fma", "f64", (1e300, 1e300, -INF), -INF),
        ("fma", "f64", (1e300, -1e300, 1.0), -INF),
        ("fma", "f32", (0.0, -1.0, 0.0), 0.0),
        ("fma", "f32", (0.0, -1.0, -0.0), -0.0),
        ("fma", "f32", (1.0, 1.0, -1.0), 0.0),
        ("fma", "f64", (1 + 2.0**-30, 1 + 2.0**-30, -1 - 2.0**-29), 2.0**-60),
        # Through float64 this would be a tie that the second rounding breaks downwards.
        ("fma", "f32", (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-80), 1 + 2.0**-11 + 2.0**-23),
        ("fma", "f32", (1 + 2.0**-12, 1 + 2.0**-12, -(2.0**-80)), 1 + 2.0**-11),
    ],
)  # fmt: skip
def test_a_primitive_at_its_edges(op: str, dtype: str, args: Any, expected: Any) -> None:
    found = apply(op, dtype_of(dtype), *args)
    assert found.dtype == dtype_of(dtype).numpy
    np.testing.assert_array_equal(float(found), float(expected))
    assert math.isnan(expected) or np.signbit(float(found)) == np.signbit(float(expected))


@pytest.mark.parametrize(
    ("op", "truth"),
    [("lt", 0), ("le", 0), ("gt", 0), ("ge", 0), ("eq", 0), ("ne", 1)],
)
def test_a_comparison_with_nan(op: str, truth: int) -> None:
    for dtype in (float16, bfloat16, float32, float64):
        assert apply(op, dtype, NAN, NAN, result=bool_) == truth
        assert apply(op, dtype, 1.0, NAN, result=bool_) == truth


def test_select_takes_the_bool_first() -> None:
    assert value_of(Apply("select", (Const(True, bool_), ONE, Const(2.0, float32))), float32) == 1
    assert value_of(Apply("select", (Const(False, bool_), ONE, Const(2.0, float32))), float32) == 2


@given(*[st.floats(width=32, allow_nan=False, allow_infinity=False)] * 3)
@settings(max_examples=200)
def test_fma_is_the_nearest_of_the_exact_value(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    found = apply("fma", float32, a, b, c)
    if math.isfinite(found):
        error = abs(Fraction(float(found)) - exact)
        with np.errstate(over="ignore"):
            others = [np.nextafter(found, np.float32(to)) for to in (INF, -INF)]
        for other in others:
            assert not math.isfinite(other) or error <= abs(Fraction(float(other)) - exact)
    else:
        assert abs(exact) >= Fraction(float(np.finfo(np.float32).max))


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (-1.75, float32, int32, -1),
        (300, int32, uint8, 44),
        (-1, int8, int64, -1),
        (200, uint8, int8, -56),
        (NAN, float32, bool_, True),
        (-0.0, float32, bool_, False),
        (0.5, float64, bool_, True),
        (True, bool_, float32, 1.0),
        (1 + 2.0**-8, float32, bfloat16, 1.0),
        (70000.0, float32, float16, INF),
    ],
)
def test_a_cast(value: Any, source: DType, target: DType, expected: Any) -> None:
    found = value_of(Cast(Const(value, source)), target)
    assert found.dtype == target.numpy and float(found[0]) == expected


def test_lanes() -> None:
    assert value_of(Splat(ONE), float32, 3).tolist() == [1, 1, 1]
    assert value_of(Index(3 * LANE + 1), int64, 4).tolist() == [1, 4, 7, 10]
    assert value_of(Active(2), bool_, 4).tolist() == [True, True, False, False]
    assert value_of(Active(-1), bool_, 2).tolist() == [False, False]
    ones, twos = Const(1, int8, 4), Const(2, int8, 4)
    assert value_of(Zip(ones, twos, "high"), int8, 4).tolist() == [1, 2, 1, 2]
    assert value_of(Fold("add", Const(3, int8, 50)), int8).tolist() == [150 - 256]
    assert value_of(Fold("and", Const(True, bool_, 3)), bool_).tolist() == [True]
    assert value_of(Bitcast(Const(1.0, float32, 2)), int32, 2).tolist() == [0x3F800000] * 2


COPY = """kernel copy(n) {
  buffer x: f32 in
  buffer y: f32 out
  let %a: f32x4 = load x[2*lane] if lane < n
  store y[lane + 1] = %a if lane < n
}"""


def test_lanes_that_are_off_read_zero_and_write_nothing() -> None:
    kernel = verify_kernel(parse_kernel(COPY.replace("lane + 1] = %a if lane < n", "lane] = %a")))
    x, y = np.arange(8, dtype=np.float32), np.full(5, 9, np.float32)
    assert interpret_kernel(kernel, {"x": x, "y": y}, {N: 2}) == 0
    assert y.tolist() == [0, 2, 0, 0, 9]
    kernel = verify_kernel(parse_kernel(COPY))
    y[:] = 9
    assert interpret_kernel(kernel, {"x": x[:5], "y": y[:4]}, {N: 3}) == 0
    assert y.tolist() == [9, 0, 2, 4, 9]
    assert interpret_kernel(kernel, {"x": x[:0], "y": y[:0]}, {N: 0}) == 0


def test_an_element_outside_its_buffer_is_an_error() -> None:
    kernel = verify_kernel(parse_kernel(COPY))
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    with pytest.raises(IndexRangeError, match=r"element 6 of x, which has 6, where n=4"):
        interpret_kernel(kernel, {"x": x[:6], "y": y}, {N: 4})
    with pytest.raises(IndexRangeError, match=r"store y\[lane \+ 1\] = %a.*\n.*element 4 of y"):
        interpret_kernel(kernel, {"x": x, "y": y[:4]}, {N: 4})
    negative = verify_kernel(parse_kernel("kernel k() { buffer y: i8 out store y[-1] = 1:i8 }"))
    with pytest.raises(IndexRangeError, match="element -1"):
        interpret_kernel(negative, {"y": np.zeros(4, np.int8)}, {})


def test_an_integer_division_by_zero_is_an_error() -> None:
    for op in ("quotient", "remainder"):
        with pytest.raises(ZeroDivisionError):
            apply(op, int32, 1, 0)


@pytest.mark.parametrize(
    ("buffers", "sizes", "message"),
    [
        ({}, {N: 1}, "buffer x needs a flat f32 array"),
        ({"x": np.zeros(2), "y": np.zeros(2, np.float32)}, {N: 1}, "buffer x needs a flat f32"),
        ({"x": np.zeros((2, 2), np.float32)}, {N: 1}, "buffer x needs a flat f32 array"),
        ({"x": np.zeros(9, np.float32), "y": np.zeros(9, np.float32)}, {}, "size n needs"),
        ({"x": np.zeros(9, np.float32), "y": np.zeros(9, np.float32)}, {N: -1}, "size n needs"),
    ],
)
def test_buffers_and_sizes_must_fit(buffers: Any, sizes: Any, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        interpret_kernel(parse_kernel(COPY), buffers, sizes)


def test_the_first_check_that_fails_ends_the_kernel() -> None:
    text = """kernel k(n) {
      buffer y: i64 out
      for i in 0..n {
        let %i: i64 = index i
        let %low: bool = lt(%i, 3:i64)
        if %low { store y[i] = %i } else { check %low 8 }
        let %lower: bool = lt(%i, 9:i64)
        check %lower 9
      }
      check false:bool 5
    }"""
    kernel = verify_kernel(parse_kernel(text))
    y = np.full(4, -1)
    assert interpret_kernel(kernel, {"y": y}, {N: 2}) == 5
    assert y.tolist() == [0, 1, -1, -1]
    assert interpret_kernel(kernel, {"y": y}, {N: 20}) == 8


def test_iterations_that_claim_to_be_parallel_run_backwards() -> None:
    text = (
        "kernel k() { buffer y: i64 out for i in 0..5 KIND {let %i: i64 = index i store y[0] = %i}}"
    )
    for kind, last in [("", 4), ("parallel", 0), ("grid", 0)]:
        y = np.zeros(1, np.int64)
        kernel = verify_kernel(parse_kernel(text.replace("KIND", kind)))
        assert interpret_kernel(kernel, {"y": y}, {}) == 0
        assert y[0] == last


def test_every_dtype_is_loaded_and_stored_as_it_is() -> None:
    for dtype in DTYPES:
        text = """kernel k() {
          buffer x: T in
          buffer y: T out
          let %a: Tx3 = load x[lane]
          store y[lane] = %a
        }"""
        values = np.array([0, 1, -1.5 if dtype.is_floating else 1]).astype(dtype.numpy)
        y = np.zeros(3, dtype.numpy)
        kernel = verify_kernel(parse_kernel(text.replace("T", dtype.short)))
        assert interpret_kernel(kernel, {"x": values, "y": y}, {}) == 0
        assert y.tobytes() == values.tobytes()
    assert ml_dtypes.bfloat16 in {d.numpy.type for d in DTYPES}


def test_a_renamed_kernel_differs_in_its_name_alone() -> None:
    kernel = parse_kernel(COPY)
    assert kernel.with_name("other") == replace(kernel, name="other")
