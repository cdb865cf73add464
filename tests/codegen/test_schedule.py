"""A scheduled kernel computes what the kernel did, by the interpreter, bit for bit."""

import re
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from random_kernels import LENGTH, kernels, random_buffers

from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.kernel import If, Kernel, Loop
from staticflow.codegen.llvm.render import render_kernel
from staticflow.codegen.parts import walk
from staticflow.codegen.primitives import COMBINES, PRIMITIVES, identity
from staticflow.codegen.rewrite import copy_block
from staticflow.codegen.schedule.loops import (
    bind_grid,
    is_vectorizable,
    parallel,
    split,
    unroll,
    vectorize,
)
from staticflow.codegen.target import PORTABLE
from staticflow.codegen.text import parse_kernel, print_kernel
from staticflow.codegen.verify import verify_kernel
from staticflow.codegen.work import work_at
from staticflow.errors import VerifyError
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import DTYPES, DType, bool_, dtype_of, float32, float64, int32, uint8
from staticflow.graph.size_text import parse_size

Schedule = Callable[[Kernel], Kernel]
N, M, VAR, INNER = map(Sym, "nmij")

# What each kernel does, as text with T for the dtype, and how long its buffers are. The loop to
# schedule is the one over i.
KERNELS: dict[str, tuple[str, dict[str, str]]] = {
    "map": (
        """buffer x: T in buffer y: T out
        for i in 0..n {
          let %a: T = load x[i] let %b: T = mul(%a, %a) let %c: T = sub(%b, %a) store y[i] = %c
        }""",
        {"x": "n", "y": "n"},
    ),
    "in place, from 2 on": (
        """buffer x: T in buffer y: T inout
        for i in 2..n {
          let %a: T = load x[i] let %b: T = load y[i] let %c: T = add(%a, %b) store y[i] = %c
        }""",
        {"x": "n", "y": "n"},
    ),
    "strided, gathered and reversed": (
        """buffer x: T in buffer y: T out
        for i in 0..n {
          let %a: T = load x[3*i + 1] let %b: T = load x[i//2] let %c: T = load x[n - i - 1]
          let %d: T = add(%a, %b) let %e: T = sub(%d, %c) store y[2*n - 2*i] = %e
        }""",
        {"x": "3*n", "y": "2*n + 1"},
    ),
    "rows: the inner loop stays": (
        """buffer x: T in buffer w: T in buffer y: T out
        for i in 0..n {
          var %acc: T = 0:T
          for j in 0..m {
            let %a: T = load x[i*m + j] let %w: T = load w[j] let %p: T = mul(%a, %w)
            accumulate %acc add %p
          }
          store y[i] = %acc
        }""",
        {"x": "n*m", "w": "m", "y": "n"},
    ),
    "columns: a sum and what is left after it": (
        """buffer x: T in buffer y: T inout
        for i in 0..n {
          var %acc: T = 0:T
          var %count: T = 0:T
          for j in 0..m {
            let %a: T = load x[j*n + i]
            accumulate %acc add %a
            accumulate %count add 1:T
          }
          for k in 0..m {
            let %b: T = load x[k*n + i] let %c: T = sub(%b, %acc) let %d: T = mul(%c, %count)
            store y[k*n + i] = %d
          }
        }""",
        {"x": "m*n", "y": "m*n"},
    ),
    "a register that is set": (
        """buffer x: T in buffer y: T out
        for i in 0..n {
          var %last: T = 1:T
          for j in 0..m {
            let %h: T = mul(%last, 2:T) let %a: T = load x[i*m + j] let %b: T = sub(%a, %h)
            set %last = %b
            store y[i*m + j] = %h
          }
        }""",
        {"x": "n*m", "y": "n*m"},
    ),
    "a sum over both loops, and a count": (
        """buffer x: T in buffer y: T out
        var %acc: T = 2:T
        var %count: T = 0:T
        for i in 0..n {
          accumulate %count add 1:T
          for j in 0..m { let %a: T = load x[i*m + j] accumulate %acc add %a }
        }
        store y[0] = %acc
        store y[1] = %count""",
        {"x": "n*m", "y": "2"},
    ),
    "inside another loop": (
        """buffer x: T in buffer y: T out
        for j in 0..m {
          var %acc: T = 0:T
          for i in j..n { let %a: T = load x[j*n + i] accumulate %acc max %a }
          store y[j] = %acc
        }""",
        {"x": "n*m", "y": "m"},
    ),
    "an index from a register": (
        """buffer x: T in buffer y: T out buffer at: u8 in
        for i in 0..n {
          for j in 0..m {
            let %at: u8 = load at[j]
            bind k = %at
            let %a: T = load x[k + i] let %i: i64 = index 2*i + k let %b: T = cast %i
            let %c: T = add(%a, %b)
            store y[i*m + j] = %c
          }
        }""",
        {"x": "n + 9", "y": "n*m", "at": "m"},
    ),
}

REDUCTION = """buffer x: T in buffer y: T inout
  let %y: T = load y[0]
  var %acc: T = %y
  for i in 0..n { let %a: T = load x[i] accumulate %acc OP %a }
  store y[0] = %acc"""


def by_fours_and_twos(kernel: Kernel) -> Kernel:
    kernel, wide = split(kernel, VAR, 4)
    return vectorize(kernel if wide is None else vectorize(kernel, wide, 4), VAR, 2)


SCHEDULES: dict[str, Schedule] = {
    "vectorize 2": lambda k: vectorize(k, VAR, 2),
    "vectorize 4": lambda k: vectorize(k, VAR, 4),
    "split 4, vectorize 4 and 2": by_fours_and_twos,
    "unroll 1": lambda k: unroll(k, VAR, 1),
    "unroll 3": lambda k: unroll(k, VAR, 3),
    "vectorize 2, unroll 2": lambda k: unroll(vectorize(k, VAR, 2), VAR, 2),
}
SIZES = [0, 1, 3, 4, 5, 17]  # 0, 1, W - 1, W, W + 1 and 3 W + 5 for W = 4


def kernel_of(body: str, dtype: DType) -> Kernel:
    words = body.replace(": T", f": {dtype}").replace(":T", f":{dtype}")
    if dtype.is_floating:
        words = words.replace(f"0:{dtype}", f"0.0:{dtype}")
    return verify_kernel(parse_kernel(f"kernel k(n, m) {{\n{words}\n}}"))


def with_constant_sizes(kernel: Kernel, **sizes: int) -> Kernel:
    return kernel.with_body(copy_block(kernel.body, {Sym(s): v for s, v in sizes.items()}))


def run(kernel: Kernel, buffers: dict[str, Any], **sizes: int) -> dict[str, Any]:
    copies = {name: array.copy() for name, array in buffers.items()}
    assert interpret_kernel(kernel, copies, {Sym(s): v for s, v in sizes.items()}) == 0
    return copies


def buffers_of(kernel: Kernel, lengths: dict[str, str], **sizes: int) -> dict[str, Any]:
    symbols: Any = {"n": N, "m": M}
    arrays = random_buffers(kernel, 1000, seed=sizes["n"])
    for name, length in lengths.items():
        size = parse_size(
            length.replace("n", str(sizes["n"])).replace("m", str(sizes["m"])), symbols
        )
        assert isinstance(size, int)
        arrays[name] = arrays[name][:size]
    return arrays


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
        if array.dtype.kind == "f":
            zeros = array == 0
            np.testing.assert_array_equal(np.signbit(found[name][zeros]), np.signbit(array[zeros]))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "u8"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_schedule_changes_nothing(name: str, dtype: str, schedule: str) -> None:
    body, lengths = KERNELS[name]
    kernel = kernel_of(body, dtype_of(dtype))
    scheduled = verify_kernel(SCHEDULES[schedule](kernel))
    assert parse_kernel(print_kernel(scheduled)) == scheduled
    for size in SIZES:
        buffers = buffers_of(kernel, lengths, n=size, m=3)
        expected = run(kernel, buffers, n=size, m=3)
        assert_same(run(scheduled, buffers, n=size, m=3), expected)
        constant = with_constant_sizes(kernel, n=size, m=3)
        written_out = verify_kernel(_if_there(SCHEDULES[schedule], constant))
        assert_same(run(written_out, buffers, n=size, m=3), expected)
    buffers = buffers_of(kernel, lengths, n=5, m=0)
    assert_same(run(scheduled, buffers, n=5, m=0), run(kernel, buffers, n=5, m=0))


def _if_there(schedule: Schedule, kernel: Kernel) -> Kernel:
    """``kernel`` scheduled; the second of two steps may find that the first left no loop."""
    try:
        return schedule(kernel)
    except VerifyError as error:
        assert "there is no loop" in str(error)
        return vectorize(kernel, VAR, 2)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "u8", "bool"])
@pytest.mark.parametrize("op", COMBINES)
def test_every_combination_has_its_identity(op: str, dtype: str) -> None:
    of = dtype_of(dtype)
    if of.kind not in PRIMITIVES[op].kinds:
        with pytest.raises(VerifyError, match="not defined"):
            kernel_of(REDUCTION.replace("OP", op), of)
        return
    kernel = kernel_of(REDUCTION.replace("OP", op), of)
    for width in (2, 4):
        scheduled = verify_kernel(vectorize(kernel, VAR, width))
        for size in SIZES:
            # Powers of two: the product is exact in any order.
            values = np.array([1, 2, -1, 0.5, 1] * 4)[:size]
            x = np.abs(values).astype(of.numpy) if of.kind in "bu" else values.astype(of.numpy)
            for start in (0, 1, 3) if of is not bool_ else (0, 1):
                buffers = {"x": x, "y": np.array([start], of.numpy)}
                expected = run(kernel, buffers, n=size, m=0)
                assert_same(run(scheduled, buffers, n=size, m=0), expected)


def test_a_sum_of_negative_zeros_stays_negative() -> None:
    kernel = kernel_of(REDUCTION.replace("OP", "add"), float32)
    for size in SIZES:
        buffers = {"x": np.full(size, -0.0, np.float32), "y": np.array([-0.0], np.float32)}
        assert np.signbit(run(vectorize(kernel, VAR, 4), buffers, n=size, m=0)["y"][0])


def test_identities_change_nothing() -> None:
    for dtype in DTYPES:
        for op in COMBINES:
            if dtype.kind in PRIMITIVES[op].kinds:
                value = identity(op, dtype)
                kernel = kernel_of(REDUCTION.replace("OP", op), dtype)
                for edge in _edges(dtype):
                    buffers = {"x": np.full(1, value, dtype.numpy), "y": np.full(1, edge)}
                    found = run(kernel, buffers, n=1, m=0)["y"]
                    assert found.tobytes() == buffers["y"].tobytes()


def _edges(dtype: DType) -> Any:
    if dtype is bool_:
        return np.array([False, True])
    if dtype.is_floating:
        return np.array([0.0, -0.0, 1.5, -np.inf, np.inf], dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return np.array([limits.min, limits.max, 0, 1], dtype.numpy)


def test_lanes_that_are_off_divide_by_one() -> None:
    """A masked load gives 0, by which the machine would trap; the interpreter raises."""
    body = """buffer x: T in buffer y: T out
    for i in 0..n {
      let %a: T = load x[i] let %q: T = quotient(7:T, %a) let %r: T = remainder(9:T, %a)
      let %s: T = add(%q, %r) store y[i] = %s
    }"""
    for dtype in (int32, uint8):
        kernel = kernel_of(body, dtype)
        buffers = {"x": np.arange(1, 6, dtype=dtype.numpy), "y": np.zeros(5, dtype.numpy)}
        expected = run(kernel, buffers, n=5, m=0)
        assert_same(run(vectorize(kernel, VAR, 4), buffers, n=5, m=0), expected)


def test_logic_has_lanes() -> None:
    body = """buffer x: T in buffer y: T out
    for i in 0..n {
      let %a: T = load x[i] let %b: T = load x[i//2] let %c: T = xor(%a, %b)
      let %d: T = not(%c) let %e: T = select(%a, %d, true:T) store y[i] = %e
    }"""
    kernel = kernel_of(body, bool_)
    for size in SIZES:
        x = np.arange(size) % 3 == 0
        buffers = {"x": x, "y": np.zeros(size, bool)}
        expected = run(kernel, buffers, n=size, m=0)
        assert_same(run(vectorize(kernel, VAR, 4), buffers, n=size, m=0), expected)


@given(kernels(), st.sampled_from([2, 3, 4]), st.integers(0, 9), st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_a_random_kernel_survives_its_schedules(k: Kernel, width: int, n: int, m: int) -> None:
    buffers = random_buffers(k, LENGTH)
    expected = run(k, buffers, n=n, m=m)
    for scheduled in (vectorize(k, VAR, width), unroll(k, VAR, width), by_fours_and_twos(k)):
        verify_kernel(scheduled)
        assert parse_kernel(print_kernel(scheduled)) == scheduled
        assert_same(run(scheduled, buffers, n=n, m=m), expected)
    if any(isinstance(s, Loop) and s.var == INNER for s in walk(k.body)):
        inner = verify_kernel(unroll(k, INNER, 2))
        assert_same(run(inner, buffers, n=n, m=m), expected)
        if is_vectorizable(k, INNER):
            assert_same(run(verify_kernel(vectorize(k, INNER, 2)), buffers, n=n, m=m), expected)


NEST = """buffer x: T in buffer y: T out
  for i in 1..n step 2 parallel {
    for j in i..i + m parallel {
      let %a: T = load x[j] let %i: i64 = index 10*i + j let %b: T = cast %i
      let %c: T = add(%a, %b) store y[i*(n + m) + j] = %c
    }
  }"""
RECTANGLE = NEST.replace("i..i + m", "2..m step 3")


@pytest.mark.parametrize(("body", "loops"), [(NEST, 2), (RECTANGLE, 1)])
def test_a_grid_computes_what_its_loops_did(body: str, loops: int) -> None:
    kernel = kernel_of(body, float64)
    grid = verify_kernel(bind_grid(kernel))
    assert parse_kernel(print_kernel(grid)) == grid
    kinds = [s.kind for s in walk(grid.body) if isinstance(s, Loop)]
    assert kinds == ["grid", "parallel"][:loops]
    for n in SIZES:
        for m in (0, 1, 2, 3, 9):
            buffers = random_buffers(kernel, LENGTH)
            assert_same(run(grid, buffers, n=n, m=m), run(kernel, buffers, n=n, m=m))


def test_a_kernel_without_parallel_loops_is_its_own_grid() -> None:
    kernel = kernel_of(KERNELS["map"][0], float32)
    assert bind_grid(kernel) is kernel
    empty = Kernel("k", (), (), ())
    assert bind_grid(empty) is empty


def test_a_parallel_loop_is_vectorized_on_trust() -> None:
    body = """buffer x: T in buffer y: T inout
    for i in 0..n {
      let %a: T = load y[2*i + 1] store y[2*i] = %a store y[i//2 + i + 2*n] = %a
    }"""
    kernel = kernel_of(body, int32)
    assert not is_vectorizable(kernel, VAR)
    lanes = verify_kernel(vectorize(parallel(kernel, VAR), VAR, 4))
    loop, rest = [s for s in walk(lanes.body) if isinstance(s, Loop)]
    assert loop.kind == "parallel" and loop.step == 4
    assert rest.kind == "serial" and rest.step == 1  # lanes that are off would be branches
    buffers = random_buffers(kernel, 100)
    assert_same(run(lanes, buffers, n=17, m=0), run(kernel, buffers, n=17, m=0))


@pytest.mark.parametrize(
    ("access", "independent"),
    [
        ("let %a: T = load y[i] store y[i] = %a", True),
        ("let %a: T = load y[i + 1] store y[i] = %a", False),
        ("let %a: T = load y[n + i] store y[n + i] = %a", True),
        ("let %a: T = load y[0] store y[i] = %a", False),
        ("store y[2*i] = 1:T store y[2*i + 1] = 1:T", True),
        ("store y[2*i + 1] = 1:T store y[2*i + 2] = 1:T", False),
        ("store y[2*i] = 1:T store y[2*i + 2] = 1:T", False),
        ("store y[n - i] = 1:T", True),
        ("store y[i*i] = 1:T", False),
        ("store y[i//2] = 1:T", False),
        ("for j in 0..m { store y[i*m + j] = 1:T }", True),
        ("for j in 0..m + 1 { store y[i*m + j] = 1:T }", False),
        ("for j in 0..m { store y[j*n + i] = 1:T }", True),
        ("for j in 0..m { store y[j*n + i + 1] = 1:T }", True),
        ("for j in 0..m { store y[j*(n - 1) + i] = 1:T }", False),
        ("for j in 0..m { for k in 0..4 { store y[(j*n + i)*4 + k] = 1:T } }", True),
        ("for j in 0..m { for k in 0..5 { store y[(j*n + i)*4 + k] = 1:T } }", False),
        ("for j in 0..m { for k in 0..4 { store y[(k*m + j)*n + i] = 1:T } }", True),
        ("for j in 0..m { store y[i + j] = 1:T }", False),
        ("for j in 0..m { let %a: T = load y[i*m + j] store y[j*n + i] = %a }", False),
        ("for j in 0..m { store y[j*n + i] = 1:T } store y[i] = 2:T", True),
        ("let %a: i64 = index n bind k = %a below 3 store y[3*i + k] = 1:T", True),
        ("let %a: i64 = index n bind k = %a below 4 store y[3*i + k] = 1:T", False),
    ],
)
def test_iterations_are_independent_only_if_that_is_proved(access: str, independent: bool) -> None:
    kernel = kernel_of(f"buffer y: T inout for i in 0..n {{ {access} }}", int32)
    assert is_vectorizable(kernel, VAR) == independent
    if independent:
        buffers = random_buffers(kernel, LENGTH)
        lanes = verify_kernel(vectorize(kernel, VAR, 4))
        assert_same(run(lanes, buffers, n=6, m=3), run(kernel, buffers, n=6, m=3))


def test_a_tail_is_one_vector_behind_a_branch() -> None:
    kernel = vectorize(kernel_of(KERNELS["map"][0], float32), VAR, 16)
    assert len([s for s in walk(kernel.body) if isinstance(s, Loop)]) == 1
    assert len([s for s in walk(kernel.body) if isinstance(s, If)]) == 1


def test_the_rest_of_an_outermost_parallel_loop_is_its_last_iteration() -> None:
    """So that it is in the function that threads share, and what calls that is a few numbers."""
    body = "buffer x: T in buffer y: T inout for i in 0..n {{ {} }}"
    store = "let %a: T = load x[i] store y[i] = %a"
    kernel = parallel(kernel_of(body.format(store), float32), VAR)
    (loop,) = verify_kernel(vectorize(kernel, VAR, 16)).body
    assert isinstance(loop, Loop) and loop.step == 16
    (branch,) = [s for s in loop.body if isinstance(s, If)]
    assert branch.mostly and len(branch.orelse) > len(branch.then)
    text = render_kernel(vectorize(kernel, VAR, 16), PORTABLE)
    part, caller = text.split("define internal ")[1:]
    assert "masked.store" in part and "optnone" not in part
    assert "optnone" in caller and not re.search(r"<\d+ x", caller)
    buffers = random_buffers(kernel, 100)
    for n in (0, 1, 16, 17, 47):
        assert_same(
            run(vectorize(kernel, VAR, 16), buffers, n=n, m=0), run(kernel, buffers, n=n, m=0)
        )


def test_a_parallel_loop_of_whole_vectors_has_no_rest() -> None:
    """As the loop is that `split` makes for tiles of columns: lanes are never off in it."""
    body = "buffer x: T in buffer y: T inout for i in 0..{} {{ {} }}"
    store = "let %a: T = load x[i] store y[i] = %a"
    for count, whole in (("16*(n//16)", True), ("32*n", True), ("8*n", False), ("n", False)):
        kernel = parallel(kernel_of(body.format(count, store), float32), VAR)
        (loop,) = verify_kernel(vectorize(kernel, VAR, 16)).body
        assert isinstance(loop, Loop) and loop.step == 16
        assert whole is not any(isinstance(s, If) for s in walk(loop.body)), count
        buffers = random_buffers(kernel, 200)
        for n in (0, 1, 5):
            assert_same(
                run(vectorize(kernel, VAR, 16), buffers, n=n, m=0), run(kernel, buffers, n=n, m=0)
            )


def test_a_branch_that_is_rare_is_written_and_counted_so() -> None:
    text = """kernel k(n) {
  buffer x: f32 inout
  for i in 0..n {
    let %a: i64 = index i
    let %b: bool = ge(%a, 7:i64)
    if %b mostly {
      store x[i] = 1.0:f32
    } else {
      store x[i] = 2.0:f32
      store x[i] = 3.0:f32
    }
  }
}
"""
    kernel = parse_kernel(text)
    assert print_kernel(kernel) == text
    assert 'branch_weights", i32 1000000, i32 1}' in render_kernel(kernel, PORTABLE)
    usual = parse_kernel(text.replace(" mostly", ""))
    stores = [work_at(k.body[0], {k.sizes[0]: 10}) for k in (kernel, usual)]
    assert stores[1] > stores[0]
