"""Launches, bytes and FLOPs of kernels against counts by hand."""

from __future__ import annotations

from typing import Any

import pytest

import staticflow as sf
from staticflow.codegen.text import parse_kernel
from staticflow.errors import ShapeError
from staticflow.graph.dims import Sym
from staticflow.measure.kernel_work import work_of_kernel
from staticflow.nn import functional as F


def count(program: Any, **sizes: int) -> tuple[int, int, int]:
    """Launches, bytes and FLOPs of all kernels."""
    kernels = program.work(**sizes)
    return (
        sum(k.launches for k in kernels),
        sum(k.bytes for k in kernels),
        sum(k.flops for k in kernels),
    )


def placeholder(*shape: int | None, name: str = "x", dtype: str = "float32") -> Any:
    return sf.placeholder(shape, dtype, name=name)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000])
def test_elementwise(n: int) -> None:
    x, y = placeholder(None), placeholder(None, name="y")
    program = sf.compile([x, y], (x * 2 + y).sqrt() / y)
    assert count(program, x_0=n) == (1, 12 * n, 4 * n)  # a fused multiply-add is two


def test_a_value_that_is_read_twice_and_one_that_is_stretched_are_read_once() -> None:
    x, row = placeholder(None, 32), placeholder(32, name="row")
    assert count(sf.compile([x, row], x * row - x), x_0=64) == (
        1,
        4 * (64 * 32 + 32 + 64 * 32),
        2 * 64 * 32,
    )


def test_only_what_is_read_of_a_slice() -> None:
    x = placeholder(None, 32)
    assert count(sf.compile([x], x[:, :8] * 2), x_0=10)[1] == 2 * 4 * 80


@pytest.mark.parametrize("n", [1, 7, 48, 128])
def test_sums_of_rows(n: int) -> None:
    x = placeholder(None, 40)
    program = sf.compile([x], (x * x).sum(dim=1))
    assert count(program, x_0=n) == (1, 4 * (40 * n + n), 2 * 40 * n)


@pytest.mark.parametrize(("m", "k", "n"), [(64, 32, 48), (8, 100, 16), (16, 512, 1), (96, 640, 96)])
def test_products(m: int, k: int, n: int) -> None:
    x, y = placeholder(None, None), placeholder(None, None, name="y")
    launches, moved, flops = count(sf.compile([x, y], x @ y), x_0=m, x_1=k, y_1=n)
    assert (launches, moved) == (1, 4 * (m * k + k * n + m * n))
    assert 2 * m * n * k <= flops <= 2.1 * m * n * k  # sums of lanes, and of blocks of k


@pytest.mark.parametrize(("m", "k", "n"), [(300, 700, 200), (1200, 300, 300), (1, 300, 64)])
def test_products_of_unknown_sizes_with_an_epilogue(m: int, k: int, n: int) -> None:
    """Their parts are kernels that programs share; tiles at an edge may compute what is not
    kept."""
    x, y = placeholder(None, None), placeholder(None, None, name="y")
    launches, moved, flops = count(sf.compile([x, y], (x @ y).relu()), x_0=m, x_1=k, y_1=n)
    assert (launches, moved) == (1, 4 * (m * k + k * n + m * n))
    assert 2 * m * n * k <= flops <= 2.2 * m * n * k
    launches, moved, flops = count(sf.compile([x], (x @ x).relu()), x_0=n)  # read once
    assert (launches, moved) == (1, 4 * 2 * n * n)
    assert 2 * n**3 <= flops <= 2.2 * n**3


def test_a_product_with_its_epilogue() -> None:
    x, y, b = placeholder(None, 32), placeholder(32, 16, name="y"), placeholder(16, name="b")
    launches, moved, flops = count(sf.compile([x, y, b], (x @ y + b).relu()), x_0=64)
    assert (launches, moved) == (1, 4 * (64 * 32 + 32 * 16 + 16 + 64 * 16))
    assert flops == 64 * 16 * (2 * 32 + 1 + 1)


def test_a_convolution() -> None:
    x, w = placeholder(None, 3, None, None), placeholder(4, 3, 3, 3, name="w")
    program = sf.compile([x, w], F.conv2d(x, w))
    assert count(program, x_0=8, x_2=18, x_3=50) == (
        1,
        4 * (8 * 3 * 18 * 50 + 4 * 27 + 8 * 4 * 16 * 48),
        2 * 27 * 8 * 4 * 16 * 48,
    )


def test_a_scan_over_rows_is_counted_as_often_as_it_runs() -> None:
    x = placeholder(None, 16)
    program = sf.compile([x], sf.scan(lambda c, row: (c * row + row,) * 2, sf.zeros(16), x)[1])
    kernels = {k.name: k for k in program.work(x_0=50)}
    (step,) = (k for name, k in kernels.items() if name != "copy")
    assert (step.launches, step.bytes, step.flops) == (50, 50 * 3 * 64, 50 * 2 * 16)


def test_a_scan_in_registers() -> None:
    x = placeholder(None)
    program = sf.compile([x], sf.scan(lambda c, v: (c * v + v, c), sf.tensor(0.0), x)[0])
    for n in (3, 40_000):  # which is in several strips
        assert count(program, x_0=n) == (1, 4 * (n + 2), 2 * n)


def test_iterations_that_only_the_run_can_tell_are_named() -> None:
    n, z = placeholder(name="n", dtype="int64"), placeholder(name="z")
    last = sf.fori_loop(0, n, lambda i, z: z * z + 1, z)
    program = sf.compile([n, z], sf.grad(last, z))
    once, often = program.work(), program.work(iterations=100)
    assert {k.uncounted for k in once} == {("iterations",)}
    assert {k.uncounted for k in often} == {()}
    assert [k.flops for k in often] == [100 * k.flops for k in once] == [200, 200]


def test_a_loop_of_steps_whose_end_is_not_known() -> None:
    x = placeholder(None)
    program = sf.compile([x], sf.while_loop(lambda y: y.max() > 1, lambda y: y / 2, x))
    by_name = {k.name: k for k in program.work(x_0=64)}
    assert {k.uncounted for k in by_name.values()} == {(), ("iterations",)}


def test_elements_chosen_by_data_count_as_if_they_differed() -> None:
    table, at = placeholder(100, 8, name="table"), placeholder(None, name="at", dtype="int64")
    program = sf.compile([table, at], table[at])
    assert count(program, at_0=10)[1] == 8 * 10 + 2 * 4 * 80
    assert count(program, at_0=1000)[1] == 8 * 1000 + 4 * 800 + 4 * 8000  # no more than there are


def test_updates_read_and_write_a_variable() -> None:
    w, x = sf.ones(64), placeholder(64)
    program = sf.compile([x], None, updates={w: sf.symbol(w) - 0.1 * x})
    (kernel,) = program.work()
    assert (kernel.bytes, kernel.flops) == (3 * 256, 2 * 64)


def test_lines_are_those_of_the_user() -> None:
    x = placeholder(4)
    (kernel,) = sf.compile([x], x + 1).work()
    assert kernel.lines.startswith("tests/measure/test_work.py:") or "test_work.py" in kernel.lines


def test_sizes_that_are_missing_or_not_its_own() -> None:
    x = placeholder(None, None)
    program = sf.compile([x], x * 2)
    with pytest.raises(ShapeError, match=r"work: x_1 is not given; .* work\(x_0=..., x_1=...\), "):
        program.work(x_0=3)
    with pytest.raises(ShapeError, match="work: n is no size of it; "):
        program.work(x_0=3, x_1=4, n=5)


KERNEL = """
kernel k(n) {
  buffer p0: f32 in
  buffer o0: f32 out
  let %size: i64 = index n
  let %many: bool = gt(%size, 10:i64)
  for i in 0..n step 8 parallel {
    let %v: f32x8 = load p0[i + lane] if lane < n - i
    if %many {
      let %a: f32x8 = mul(%v, %v)
      store o0[i + lane] = %a if lane < n - i
    } else {
      let %b: f32x8 = fma(%v, %v, %v)
      let %c: f32x8 = abs(%b)
      store o0[i + lane] = %c if lane < n - i
    }
  }
}
"""


@pytest.mark.parametrize(("n", "each"), [(5, 2), (10, 2), (11, 1), (1003, 1)])
def test_branches_by_size_and_lanes_that_are_on(n: int, each: int) -> None:
    kernel = parse_kernel(KERNEL)
    work = work_of_kernel(kernel, {kernel.sizes[0]: n})
    assert (work.flops, dict(work.reads), dict(work.writes)) == (each * n, {"p0": n}, {"o0": n})


def test_loops_whose_bounds_follow_outer_ones() -> None:
    text = """
    kernel k(n) {
      buffer p0: f32 in
      buffer o0: f32 out
      for i in 0..n {
        for j in 0..i {
          let %v: f32 = load p0[j]
          let %a: f32 = add(%v, %v)
          store o0[i] = %a
        }
      }
    }
    """
    kernel = parse_kernel(text)
    work = work_of_kernel(kernel, {Sym("n"): 20})
    assert (work.flops, work.reads["p0"]) == (190, 19)


def test_many_loops_whose_iterations_differ_are_sampled() -> None:
    names = "abcde"
    opened = "".join(f"for {v} in 0..n {{\n" for v in names)
    text = f"""
    kernel k(n) {{
      buffer p0: f32 in
      buffer o0: f32 out
      {opened}
        let %at: i64 = index {" + ".join(names)}
        let %large: bool = gt(%at, 100:i64)
        if %large {{
          let %v: f32 = load p0[a]
          let %s: f32 = add(%v, %v)
          store o0[a] = %s
        }}
      {"}" * len(names)}
    }}
    """
    work = work_of_kernel(parse_kernel(text), {Sym("n"): 50})
    assert 0.7 < work.flops / 50**5 < 0.85  # 0.75; one by one it would take hours


def test_launches_are_those_that_a_profile_counts() -> None:
    w = sf.randn(16, 16, requires_grad=True)
    x = placeholder(None, 16)
    last = sf.scan(lambda h, row: ((h @ w + row).tanh(), h), sf.zeros(16), x)[0]
    loss = (last * last).sum()
    step = sf.compile([x], loss, updates={w: w - 0.1 * sf.grad(loss, w)})
    counted: dict[str, int] = {}
    for row in step.profile(sf.ones(7, 16), repeat=1).rows:
        if row.kind == "kernel":
            counted[row.name] = counted.get(row.name, 0) + row.count
    told = {k.name: k.launches for k in step.work(x_0=7) if k.name != "copy"}
    assert told == counted and max(told.values()) >= 7
