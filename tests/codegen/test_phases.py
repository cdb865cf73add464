"""Rows some at a time, in phases, are what they are one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.kernel import Kernel, Local
from staticflow.codegen.parts import walk
from staticflow.codegen.schedule.loops import vectorize_whole
from staticflow.codegen.schedule.phases import ROWS, in_phases
from staticflow.codegen.text import parse_kernel, print_kernel
from staticflow.codegen.unused import innermost_loops
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dims import Sym

N, M = Sym("n"), Sym("m")

# What a row is, in the buffers x: f64 of n rows of m, y like it, z: f64 of n, k: i64 of n below m,
# s: f64 of m, and t: f64 of one; ROW is the loop over rows.
ROWS_OF: dict[str, str] = {
    "a total of a total": """for i in 0..n parallel {
      var %a: f64 = 0.0:f64
      for j in 0..m { let %x: f64 = load x[m*i + j] accumulate %a add %x }
      let %mean: f64 = mul(%a, 0.5:f64)
      var %b: f64 = 1.0:f64
      for l in 0..m { let %u: f64 = load x[m*i + l] let %d: f64 = sub(%u, %mean) accumulate %b max %d }
      store z[i] = %b
    }""",
    "what is read again and again, and stored in between": """for i in 0..n parallel {
      var %a: f64 = 0.0:f64
      let %first: f64 = load x[m*i]
      for j in 0..m { let %x: f64 = load x[m*i + j] accumulate %a add %x }
      store z[i] = %a
      let %twice: f64 = mul(%a, 2.0:f64)
      for l in 0..m {
        let %u: f64 = load x[m*i + l]
        let %d: f64 = sub(%u, %twice)
        accumulate %a add %d
      }
      let %h: f64 = add(%a, %first)
      for o in 0..m { let %g: f64 = mul(%h, %twice) store y[m*i + o] = %g }
    }""",
    "an index that later phases look up": """for i in 0..n parallel {
      let %k: i64 = load k[i]
      let %is_near: bool = lt(%k, 5:i64)
      check %is_near 7
      bind at = %k below m
      var %a: f64 = 0.0:f64
      for j in 0..m { let %x: f64 = load x[m*i + j] accumulate %a add %x }
      let %picked: f64 = load x[m*i + at]
      let %row: i64 = index i
      let %number: f64 = cast %row
      let %sum: f64 = add(%picked, %number)
      var %b: f64 = 0.0:f64
      for l in 0..m {
        let %u: f64 = load x[m*i + l]
        let %v: f64 = load s[at]
        let %p: f64 = mul(%u, %v)
        accumulate %b add %p
      }
      let %all: f64 = add(%sum, %b)
      let %flag: bool = gt(%all, %a)
      let %kept: f64 = select(%flag, %all, %a)
      store z[i] = %kept
    }""",
    "totals of all rows": """var %t: f64 = 3.0:f64
    for i in 0..n {
      var %a: f64 = 0.0:f64
      for j in 0..m { let %x: f64 = load x[m*i + j] accumulate %a add %x }
      var %b: f64 = 0.0:f64
      for l in 0..m { let %u: f64 = load x[m*i + l] let %d: f64 = mul(%u, %a) accumulate %b add %d }
      accumulate %t add %b
      store z[i] = %b
    }
    store t[0] = %t""",
    "sums of columns, beside": """for i in 0..n {
      var %a: f64 = 0.0:f64
      for j in 0..m { let %x: f64 = load x[m*i + j] accumulate %a add %x }
      let %half: f64 = mul(%a, 0.5:f64)
      var %b: f64 = 0.0:f64
      for l in 0..m {
        let %u: f64 = load x[m*i + l]
        let %d: f64 = mul(%u, %half)
        accumulate %b add %d
        let %s: f64 = load s[l]
        let %e: f64 = add(%s, %d)
        store s[l] = %e
      }
      store z[i] = %b
    }""",
    "a loop that goes on in a branch": """let %rest: i64 = index m//3
    let %more: bool = gt(%rest, 0:i64)
    for i in 0..n parallel {
      var %a: f64 = 0.0:f64
      for j in 0..m - 3*(m//3) { let %x: f64 = load x[m*i + j] accumulate %a add %x }
      if %more {
        for r in 0..m//3 {
          for q in 0..3 { let %w: f64 = load x[m*i + 3*r + q + m - 3*(m//3)] accumulate %a add %w }
        }
      }
      let %half: f64 = mul(%a, 0.5:f64)
      var %b: f64 = 0.0:f64
      for l in 0..m { let %u: f64 = load x[m*i + l] let %d: f64 = mul(%u, %half) accumulate %b add %d }
      store z[i] = %b
    }""",
}  # fmt: skip

AGAIN = """for i in 0..n parallel {
  var %a: f64 = 0.0:f64
  for j in 0..m { let %x: f64 = load x[m*i + j] accumulate %a max %x }
  var %b: f64 = 0.0:f64
  for l in 0..m {
    let %u: f64 = load x[m*i + l] let %d: f64 = sub(%u, %a) accumulate %b add %d
    store s[m*i + l] = %d
  }
  for o in 0..m {
    let %v: f64 = load s[m*i + o] let %e: f64 = mul(%v, %b) store s[m*i + o] = %e
  }
}"""
"""Rows of eight, a vector of them in a register, are stored and read again: they stay row by row."""

BUFFERS = """buffer x: f64 in buffer y: f64 out buffer z: f64 out buffer k: i64 in
buffer s: f64 inout buffer t: f64 out"""


def kernel_of(rows: str, m: str = "m") -> Kernel:
    body = f"kernel rows(n, m) {{ {BUFFERS} {rows} }}"
    kernel = parse_kernel(body.replace("0..m ", f"0..{m} "))
    verify_kernel(kernel)
    return kernel


def phased(kernel: Kernel) -> tuple[Kernel, tuple[Sym, ...]]:
    inner = tuple(loop.var for loop in innermost_loops(kernel.body))
    found, lanes = in_phases(kernel, inner, 8)
    verify_kernel(found)
    assert parse_kernel(print_kernel(found)) == found
    return found, lanes


def run(kernel: Kernel, n: int, m: int) -> tuple[int, dict[str, Any]]:
    rng = np.random.default_rng([n, m])
    buffers = {
        "x": rng.integers(-9, 9, n * m).astype(float),  # of which sums are exact in any order
        "y": np.full(n * m, -1.0),
        "z": np.full(n, -1.0),
        "k": rng.integers(0, min(m, 5), n),
        "s": rng.integers(-9, 9, m).astype(float),
        "t": np.full(1, -1.0),
    }
    return interpret_kernel(kernel, buffers, {N: n, M: m}), buffers


def has_arrays(kernel: Kernel) -> bool:
    return any(isinstance(stmt, Local) for stmt in walk(kernel.body))


@pytest.mark.parametrize("m", ["m", "9"])
@pytest.mark.parametrize("rows", ROWS_OF)
def test_a_kernel_in_phases_does_what_it_did(rows: str, m: str) -> None:
    kernel = kernel_of(ROWS_OF[rows], m)
    found, lanes = phased(kernel)
    assert has_arrays(found) and lanes
    wide = found
    for var in lanes:
        wide = vectorize_whole(wide, var, ROWS)
    verify_kernel(wide)
    assert any(r.lanes == ROWS for s in walk(wide.body) if (r := getattr(s, "reg", None)))
    lengths = (9,) if m == "9" else (1, 9, 300)
    for n in (0, 1, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS, 3 * ROWS + 5):
        for length in lengths:
            expected = run(kernel, n, length)
            for other in (found, wide):
                code, buffers = run(other, n, length)
                assert code == expected[0]
                for name, array in buffers.items():
                    np.testing.assert_array_equal(array, expected[1][name], name)


def test_a_check_that_fails_in_one_row_ends_the_kernel() -> None:
    kernel = kernel_of(ROWS_OF["an index that later phases look up"].replace("5:i64", "4:i64"))
    found, lanes = phased(kernel)
    for var in lanes:
        found = vectorize_whole(found, var, ROWS)
    assert run(kernel, 40, 9)[0] == run(found, 40, 9)[0] == 7
    assert run(kernel, 40, 4)[0] == run(found, 40, 4)[0] == 0


AT_A_SYMBOL = (
    ROWS_OF["a total of a total"]
    .replace("parallel {", "parallel { let %row: i64 = index i bind at = %row below n")
    .replace("m*i", "m*at")
)


@pytest.mark.parametrize(
    ("rows", "m"),
    [
        (ROWS_OF["a total of a total"].replace("0..n", "0..15"), "m"),  # few rows
        (ROWS_OF["a total of a total"], "257"),  # long ones: half of 4096 bytes
        (AT_A_SYMBOL, "257"),
        (ROWS_OF["sums of columns, beside"].replace("store z[i] = %b", "store s[0] = %b"), "m"),
        (ROWS_OF["totals of all rows"].replace("store z[i] = %b", "store z[i] = %t"), "m"),
        (ROWS_OF["a total of a total"].replace("x[m*i + l]", "x[i + n*l]"), "m"),
        ("""for i in 0..n parallel {
          var %a: f64 = 0.0:f64
          for j in 0..m { let %x: f64 = load x[m*i + j] accumulate %a add %x }
          let %half: f64 = mul(%a, 0.5:f64)
          for l in 0..m { store y[m*i + l] = %half }
        }""", "m"),
        (AGAIN, "8"),
    ],
    ids=["few", "long", "long, at a symbol", "one element", "a total that is read", "across", "one loop", "again"],
)  # fmt: skip
def test_what_stays_row_by_row(rows: str, m: str) -> None:
    kernel = kernel_of(rows, m)
    assert phased(kernel) == (kernel, ())


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "logsumexp": lambda x: sf.logsumexp(x, -1),
    "log_softmax": lambda x: sf.log_softmax(x, -1),
    "softmax": lambda x: sf.softmax(x, -1),
    "layer_norm": lambda x: sf.nn.functional.layer_norm(x, (x.shape[-1],)),
    "var": lambda x: x.var(-1),
    "entropy": lambda x: -(sf.softmax(x, -1) * sf.log_softmax(x, -1)).sum(-1),
    "batched": lambda x: sf.log_softmax(x.unflatten(0, (-1, 1)), -1),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_are_what_they_are_in_float64(name: str, known: bool) -> None:
    """On both sides of the lengths at which rows are long, and with gradients."""
    of = FUNCTIONS[name]
    open_ = None if known else _compiled(of, None)
    for k in (33, 64, 127, 511, 513, 1025):
        step = _compiled(of, k) if open_ is None else open_
        for rows in (0, 1, 15, 16, 17, 83):
            given = np.random.default_rng(rows).uniform(-3, 3, (rows, k))
            x = sf.tensor(given, requires_grad=True)
            exact = of(x)
            (exact * exact).sum().backward()
            assert x.grad is not None
            found, slope = step(given.astype(np.float32))
            np.testing.assert_allclose(found.numpy(), exact.detach().numpy(), 1e-5, 2e-6)
            np.testing.assert_allclose(slope.numpy(), x.grad.numpy(), 1e-4, 1e-4)


def _compiled(of: Callable[[Any], Any], k: int | None) -> Any:
    x = sf.placeholder((None, k), name="x")
    y = of(x)
    return sf.compile([x], [y, sf.grad((y * y).sum(), x)])


def test_the_logarithm_of_rows_is_one_of_lanes() -> None:
    for columns in (33, None):
        x = sf.placeholder((None, columns), name="x")
        text = sf.compile([x], sf.logsumexp(x, -1)).source("kernels")
        assert " stack" in text
        assert f"f32x{ROWS} = mantissa(" in text and "f32 = mantissa(" not in text


def test_short_rows_at_a_symbol_are_in_phases() -> None:
    assert has_arrays(phased(kernel_of(AT_A_SYMBOL, "256"))[0])


def test_a_row_that_no_register_holds_is_read_again_in_phases() -> None:
    assert has_arrays(phased(kernel_of(AGAIN, "9"))[0])


VIEWS: dict[str, Callable[[Any], Any]] = {
    "cropped": lambda x: x[1:, 1:-2],
    "stepped": lambda x: x[::2, ::3],
    "flipped": lambda x: x.flip(0, 1),
    "turned": lambda x: x.t(),
    "expanded": lambda x: x[:, None, :].expand(-1, 3, -1),
    "one row again and again": lambda x: x[:1].expand(40, -1),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("view", VIEWS)
def test_views_and_threads(view: str, known: bool) -> None:
    """Operands and cotangents that lie in other ways; threads change no bit."""

    def of(x: Any) -> Any:
        seen = VIEWS[view](x)
        return VIEWS[view](sf.log_softmax(x, -1)) * seen + sf.log_softmax(seen, -1)

    x = sf.placeholder((None, 99 if known else None), name="x")
    y = of(x)
    step = sf.compile([x], [y, sf.grad((y * y).sum(), x)])
    given = np.random.default_rng(0).uniform(-3, 3, (3000, 99))
    exact = sf.tensor(given, requires_grad=True)
    out = of(exact)
    (out * out).sum().backward()
    assert exact.grad is not None
    threads, found = sf.get_num_threads(), []
    try:
        for n in (1, 3):
            sf.set_num_threads(n)
            found.append([r.numpy() for r in step(given.astype(np.float32))])
    finally:
        sf.set_num_threads(threads)
    for one, other, wanted in zip(*found, (out.detach(), exact.grad), strict=True):
        np.testing.assert_array_equal(one, other)
        scale = np.abs(wanted.numpy()).max()
        np.testing.assert_allclose(one / scale, wanted.numpy() / scale, 1e-5, 1e-5)


@pytest.mark.parametrize("length", [40, 1000, 5000])
def test_rows_of_one_element_each_are_computed_in_phases(length: int) -> None:
    """Where all elements of a row are one, what is computed of it is much beside a loop, as beside
    that over a block of a long row, which is in the loop over rows."""
    column = np.linspace(-3.0, 3.0, 40, dtype=np.float32)[:, None]
    x = sf.from_numpy(column).expand(40, length)
    got = x.logsumexp(1).numpy()
    np.testing.assert_allclose(got, column[:, 0] + np.log(length), rtol=1e-5)
