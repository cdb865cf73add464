"""The code of compiled programs: memory plans, and kernels against the interpreter of Kernel IR."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_programs import LOOPS, weighted
from opinfo.core import values
from random_programs import Drawn, arrays_for, programs, sizes
from routine_machine import run_slowly
from static_programs import PROGRAMS

import staticflow as sf
from staticflow.codegen.program.routine import Launch, Repeat, walk_steps
from staticflow.config import config
from staticflow.errors import IndexRangeError, ShapeError
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import DType, dtype_of, float16, float32, float64
from staticflow.runtime.plan import ALIGNMENT


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "verify", True)


def assert_same_results(program: Any, arrays: Any, eps: float) -> None:
    """Native code and the machine of these tests."""
    code, expected = run_slowly(program, arrays)
    assert code == 0
    results = sf.pytree.flatten(program(*arrays))[0]
    for got, wanted in zip(results, expected, strict=True):
        assert (got.numpy().dtype, got.shape) == (wanted.dtype, wanted.shape)
        pair = (got.numpy().astype(np.float64), wanted.astype(np.float64))
        np.testing.assert_allclose(*pair, rtol=eps, atol=eps, equal_nan=True)


# -- kernels against the interpreter ---------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("dtype", [float32, float64, float16], ids=str)
@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "gradients"])
def test_native_code_is_what_the_kernels_say(name: str, dtype: DType, n: int) -> None:
    """Whole programs, step by step; every load and store stays inside of its array."""
    fn, dims = PROGRAMS[name]
    at = {"n": n, "m": 3, "k": 2}
    inputs = [sf.placeholder(tuple(d), dtype, f"x{i}") for i, d in enumerate(dims)]
    arrays = [values(tuple(at[d] for d in s), dtype, -1, 1, seed=i) for i, s in enumerate(dims)]
    eps = {2: 2e-2, 4: 1e-5, 8: 1e-12}[dtype.itemsize]
    assert_same_results(sf.compile(inputs, fn(*inputs)), arrays, eps)


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("name", ["rnn", "nested", "trees", "chained", "carries exchanged"])
def test_loops_and_their_gradients_keep_apart_what_they_store(name: str, n: int) -> None:
    xs = [sf.placeholder(tuple(s), "float64", f"x{i}") for i, s in enumerate(["m", "nm", "mm"])]
    loss = weighted(LOOPS[name](*xs))
    program = sf.compile(xs, (loss, sf.grad(loss, xs, allow_unused=True)))
    arrays = [values(s, float64, -1, 1) for s in ((2,), (n, 2), (2, 2))]
    assert_same_results(program, arrays, 1e-12)


def test_what_a_loop_reads_in_every_round_is_not_overwritten_in_one() -> None:
    """A buffer of the same size is made in each round, after the last use in it."""
    x, w = (
        sf.placeholder((None, 3), "float64", name="x"),
        sf.placeholder((3, 3), "float64", name="w"),
    )
    squared = w @ w

    def body(c: Any, row: Any) -> Any:
        c = row @ squared + c
        return c @ (c.unsqueeze(1) @ row.unsqueeze(0)).tanh().T.softmax(0), None

    program = sf.compile([x, w], sf.scan(body, x[0], x)[0])
    assert_same_results(program, [values((4, 3), float64), values((3, 3), float64)], 1e-12)


def test_a_check_that_fails_stops_the_program() -> None:
    x, i = sf.placeholder((None,), name="x"), sf.placeholder((None,), "int64", name="i")
    program = sf.compile([x, i], sf.gather(x.sin(), 0, i) * 2)
    arrays = (values((3,), float32), np.array([0, 3]))
    assert run_slowly(program, arrays)[0] != 0
    with pytest.raises(IndexRangeError):
        program(*arrays)


@settings(max_examples=25, derandomize=True, database=None, deadline=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(programs(), sizes, st.integers(0, 2**32))
def test_random_programs(drawn: Drawn, values: dict[Sym, int], seed: int) -> None:
    small = {s: min(v, 5) for s, v in values.items()}
    arrays = arrays_for(drawn, small, seed)
    try:
        program = sf.compile(drawn.inputs, drawn.outputs)
        program(*arrays)
    except (ShapeError, IndexRangeError):
        return
    assert_same_results(program, arrays, 1e-9)


# -- the plan ----------------------------------------------------------------------------------------


def ends(program: Any, at: dict[Sym, int]) -> list[tuple[int, int]]:
    """Where each buffer lies in the arena; one that grows is no part of it."""
    plan = program.plan
    return [
        (start := plan.evaluate(o, at), start + (0 if b.grows else evaluate_dim(b.bytes, at)))
        for o, b in zip(plan.offsets, plan.routine.buffers, strict=True)
    ]


@settings(max_examples=40, derandomize=True, database=None, deadline=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(programs(), sizes)
def test_buffers_that_live_at_once_lie_apart(drawn: Drawn, values: dict[Sym, int]) -> None:
    try:
        program = sf.compile(drawn.inputs, drawn.outputs)
    except ShapeError:
        return
    plan = program.plan
    at = {s: values[s] for s in plan.routine.sizes}
    peak = plan.evaluate(plan.arena, at)
    found = ends(program, at)
    for i, (start, stop) in enumerate(found):
        line = start // ALIGNMENT * ALIGNMENT
        assert start == line or stop <= line + ALIGNMENT  # small ones share lines
        assert stop <= peak
        for j, (other_start, other_stop) in enumerate(found[:i]):
            (first, last), (other_first, other_last) = plan.live[i], plan.live[j]
            if start == stop or other_start == other_stop:
                continue
            if first <= other_last and other_first <= last:
                assert stop <= other_start or other_stop <= start


def test_the_peak_is_what_a_call_borrows() -> None:
    x, w = sf.placeholder((None, None), name="x"), sf.placeholder((None, None), name="w")
    program = sf.compile([x, w], ((x @ w).tanh() @ w.T).exp().sum())
    for n, m, k in ((3, 4, 5), (17, 2, 9)):
        program(values((n, m), float32), values((m, k), float32))
        state = program._executable._state
        held = ctypes.c_int64.from_address(state.cell.value).value
        assert held == program.plan.peak_bytes(x_0=n, x_1=m, w_0=m, w_1=k)


def test_buffers_of_equal_size_take_turns() -> None:
    """A chain of products needs two buffers and one to work in, however long it is."""
    x = sf.placeholder((None, None), name="x")
    y = x
    for _ in range(6):
        y = (y @ x).tanh()
    plan = sf.compile([x], y).plan
    assert len(plan.offsets) == 5 + 6
    assert plan.peak_bytes(x_0=16, x_1=16) == 2 * 16 * 16 * 4


def test_buffers_of_unknown_sizes_lie_apart_whichever_is_larger() -> None:
    x, y = sf.placeholder(("n",), name="x"), sf.placeholder(("m",), name="y")
    first = (x.unsqueeze(1) @ x.unsqueeze(0)).sin().sum(0)
    second = (y.unsqueeze(1) @ y.unsqueeze(0)).cos().sum(0)
    program = sf.compile([x, y], (first.sum() * second).sum())
    for n, m in ((100, 2), (2, 100), (50, 50)):
        at = {s: {"n": n, "m": m}[s.name] for s in program.plan.routine.sizes}
        largest = max(4 * n * n, 4 * m * m)
        assert largest <= program.plan.evaluate(program.plan.arena, at) < 1.2 * largest + 1024


def test_a_plan_reads_as_text() -> None:
    x = sf.placeholder((None, 4), name="x")
    program = sf.compile([x], (x @ sf.ones(4, 4)).exp().sum(0))
    lines = str(program.plan).splitlines()
    assert (
        lines[0]
        == "peak of 64*((16*x_0 + 63)//64) bytes, arena of 64*((16*x_0 + 63)//64) bytes, 1 buffers"
    )
    assert lines[1] == "  where x_0 is the size of dim 0 of x"
    assert lines[2].startswith("  contract: f32[x_0, 4] at 0, live in steps 1..2, ")
    assert f"{__file__}:" in lines[2]
    assert "contract0(slot 0, slot 1, buffer 0, x_0)" in program.explain("routine")


def test_equal_work_shares_a_kernel() -> None:
    x, w = sf.placeholder((8, 8), name="x"), sf.placeholder((8, 8), name="w")
    y = x
    for _ in range(10):
        y = (y @ w).tanh()
    program = sf.compile([x, w], y)
    launches = [s for s in program._executable.program.steps if isinstance(s, Launch)]
    assert (len(launches), program.kernel_count) == (10, 1)


def test_numbers_tell_kernels_apart_by_their_bits() -> None:
    x, y = sf.placeholder((None,), name="x"), sf.placeholder((None,), name="y")
    program = sf.compile([x, y], (x * 0.0, y * -0.0))
    assert program.kernel_count == 2
    one, other = program(np.ones(3, np.float32), np.ones(2, np.float32))
    assert np.signbit(other.numpy()).all()
    assert not np.signbit(one.numpy()).any()


def test_a_loop_is_one_step() -> None:
    xs = sf.placeholder((None, 3), name="xs")
    start = sf.constant(np.zeros(3, np.float32))
    last, ys = sf.scan(lambda c, x: ((c + x).tanh(), ((c + x) * 2).sum()), start, xs)
    program = sf.compile([xs], (last, ys))
    loops = [s for s in walk_steps(program._executable.program.steps) if isinstance(s, Repeat)]
    assert len(loops) == 1
    assert sum(isinstance(s, Launch) for s in loops[0].body) == 1


def test_constants_inside_of_loops_are_arrays_of_the_program() -> None:
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    xs = sf.placeholder((None, 2), dtype_of(np.float32), name="xs")

    def body(c: Any, x: Any) -> Any:
        inner, _ = sf.scan(lambda a, s: (a + s * table[1], None), c, x)
        return inner + x @ table, inner

    program = sf.compile([xs], sf.scan(body, sf.constant(np.zeros(3, np.float32)), xs))
    arrays = [values((4, 2), float32)]
    assert_same_results(program, arrays, 1e-5)
    carry = np.zeros(3, np.float32)
    for x in arrays[0]:
        carry = carry + x.sum() * table[1] + x @ table
    np.testing.assert_allclose(program(*arrays)[0].numpy(), carry, rtol=1e-4, atol=1e-4)
