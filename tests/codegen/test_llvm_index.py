"""Index arithmetic as native code: its values, compared with Python, and where it stands."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from native_kernels import M, N, run_both

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import LANE, LANE_SYM, Buffer, Kernel
from staticflow.codegen.llvm.index import at_lane
from staticflow.codegen.llvm.render import render_kernel
from staticflow.graph.dim_queries import evaluate_dim, substitute_dim
from staticflow.graph.dims import Dim, Size, Sym, dim_max, dim_min
from staticflow.graph.dtypes import float32, int64

P, Q = Dim.of(Sym("i")), Dim.of(Sym("j"))


def index_values(indices: list[Size], lanes: int = 1, **sizes: int) -> list[list[int]]:
    """The values of indices over n, m and the variables of two loops, by i, then by j."""
    count = len(indices)
    k = Builder([Buffer("y", int64, "out")], [Sym("n"), Sym("m")])
    with k.loop("i", 3) as i, k.loop("j", 2) as j:
        for at, index in enumerate(indices):
            value = k.index_value(substitute_dim(index, {Sym("i"): i, Sym("j"): j}), lanes)
            lane = LANE if lanes > 1 else 0
            k.store("y", ((i * 2 + j) * count + at) * lanes + lane, value)
    y = np.zeros((6, count * lanes), np.int64)
    assert run_both(k.kernel("indices"), {"y": y}, **sizes) == 0
    return y.tolist()


@given(st.integers(-2, 2), st.integers(-2, 2), st.integers(0, 15))
def test_the_index_of_a_lane_is_the_index_where_that_is_the_lane(a: int, b: int, lane: int) -> None:
    indices = [a * LANE + b, a * LANE + P * N + b, (N + a) * LANE + P, P // 2 + a * LANE, P + b]
    for index in indices:
        assert at_lane(index, lane) == substitute_dim(index, {LANE_SYM: lane})


def expected_values(indices: list[Size], lanes: int = 1, **sizes: int) -> list[list[int]]:
    """What Python says they are."""
    known = {Sym(name): value for name, value in sizes.items()}
    return [
        [
            evaluate_dim(index, known | {Sym("i"): i, Sym("j"): j, LANE_SYM: lane})
            for index in indices
            for lane in range(lanes)
        ]
        for i in range(3)
        for j in range(2)
    ]


def grown(inner: st.SearchStrategy[Size]) -> st.SearchStrategy[Size]:
    positive = st.sampled_from([2, 3, 8, 1 + N, P + 1, 5 * M + 4])
    return st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, st.sampled_from([-3, 2, N, M, P, Q, LANE])),
        st.builds(lambda a, b: a // b, inner, positive),
        st.builds(lambda a, b: a % b, inner, positive),
        st.builds(dim_max, inner, inner),
        st.builds(dim_min, inner, inner),
    )


polynomials = st.recursive(
    st.one_of(st.integers(-9, 9), st.sampled_from([N, M, P, Q, LANE])), grown, max_leaves=8
)


@settings(max_examples=80, deadline=None)
@given(st.lists(polynomials, min_size=1, max_size=6), st.integers(0, 9), st.integers(0, 9))
def test_index_arithmetic(indices: list[Size], n: int, m: int) -> None:
    assert index_values(indices, 4, n=n, m=m) == expected_values(indices, 4, n=n, m=m)


def test_indices_beyond_32_bits() -> None:
    indices: list[Size] = [
        M * N + P,
        (M * 4 + Q) * 2 - 7,
        (M * M + P) // (N + 1),
        (N - M) // 4,
        (P - M * 3) // N,
        (N - M) % 7,
        dim_max(M, N * P),
        dim_min(Q - M, -5),
    ]
    sizes = {"n": 3, "m": 2**31 + 11}
    assert index_values(indices, **sizes) == expected_values(indices, **sizes)


def test_index_moved_out_of_a_loop_divides_by_no_zero() -> None:
    """m / n does not depend on the loop over n, which does not run where n is zero."""
    k = Builder([Buffer("y", int64, "out")], [Sym("n"), Sym("m")])
    with k.loop("i", N) as i:
        k.store("y", i, k.index_value(M // N + (M + 3) // (N - 1 + i)))
    y = np.full(2, -1, np.int64)
    assert run_both(k.kernel("zero"), {"y": y}, n=0, m=7) == 0
    assert y.tolist() == [-1, -1]
    assert run_both(k.kernel("zero"), {"y": y}, n=2, m=7) == 0
    assert y.tolist() == [3 + 10, 3 + 5]


def blocks_of(kernel: Kernel) -> list[tuple[str, str]]:
    """The basic blocks: what kind each is, and its instructions."""
    parts = re.split(r"^([a-z]+)\S*:$", render_kernel(kernel), flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def test_invariant_index_arithmetic_is_outside_the_loop() -> None:
    """Only the addition of the innermost variable is left to the innermost block."""
    k = Builder([Buffer("x", float32, "in"), Buffer("y", float32, "out")], [Sym("n"), Sym("m")])
    total = k.var(k.const(0.0, float32, 16))
    with k.loop("i", N) as i, k.loop("j", M) as j, k.loop("h", N * M, step=16) as h:
        at = i * N * M * N + j * N * M + h + (M // 3) * i + LANE + 5
        k.accumulate(total, "add", k.load("x", at, 16))
    k.store("y", LANE, total)
    (inner,) = (body for _, body in blocks_of(k.kernel("invariant")) if "fadd" in body)
    assert re.findall(r"= (\w+) ", inner).count("getelementptr") == 2
    assert not re.findall(r"= (mul|udiv|sdiv) ", inner)


def test_index_arithmetic_stays_in_its_branch() -> None:
    """Out of the loops inside of the branch, and out of the branch only with a loop around it."""
    k = Builder([Buffer("x", float32, "inout")], [Sym("n"), Sym("m")])
    with k.loop("i", N) as i, k.when(k.compare("lt", k.index_value(i), 5)), k.loop("j", 9) as j:
        k.store("x", i * (M + 1) + M * N + j, k.const(1.0, float32))
    arithmetic = [(kind, re.findall(r"= (add|mul) ", b)) for kind, b in blocks_of(k.kernel("b"))]
    assert [found for found in arithmetic if found[1]] == [
        ("entry", ["mul", "add"]),
        ("then", ["mul"]),
        ("loop", ["add"]),
        ("join", ["add"]),
    ]


def kernel_of_multiples() -> Kernel:
    """Multiples by sizes of the variable of a loop whose ends are unknown, some in a branch."""
    k = Builder([Buffer("y", int64, "inout")], [Sym("n"), Sym("m")])
    with k.loop("i", 2) as i, k.loop("j", M, lo=N, step=3) as j:
        at = 100 * i + j
        k.store("y", at, k.index_value(j * M + i))
        with k.when(k.compare("gt", k.index_value(j), 4)):
            k.store("y", at + 1, k.index_value(j * (M - 2 * N) + j * M * N + j * j))
    return k.kernel("multiples")


def test_multiples_of_the_innermost_variable() -> None:
    """In loops that begin anywhere, or run not at all."""
    for n, m in ((0, 0), (0, 1), (2, 9), (5, 17), (1, 20), (7, 3)):
        y = np.full(200, -1, np.int64)
        wanted = y.copy()
        assert run_both(kernel_of_multiples(), {"y": y}, n=n, m=m) == 0
        for i in range(2):
            for j in range(n, m, 3):
                wanted[100 * i + j] = j * m + i
                if j > 4:
                    wanted[100 * i + j + 1] = j * (m - 2 * n) + j * m * n + j * j
        np.testing.assert_array_equal(y, wanted)


def test_multiples_of_the_innermost_variable_are_added_to() -> None:
    """What is left to multiply is j * j; the outer loop multiplies."""
    outer, inner = (b for kind, b in blocks_of(kernel_of_multiples()) if kind == "loop")
    assert re.findall(r"= mul .*, (\d+)", outer) == ["100"]
    ((a, b),) = re.findall(r"= mul i64 (\S+), (\S+)", inner)
    assert a == b and a.startswith("%j")
    assert (outer.count("= phi"), inner.count("= phi")) == (1, 3)
