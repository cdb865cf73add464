"""Running graphs by the ops' references."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from graph_ops import OPS, M, N, f32, node, parsed

from staticflow.errors import DTypeError, ShapeError, VerifyError
from staticflow.graph.dtypes import float32, int8
from staticflow.graph.graph import (
    Graph,
    close,
    new_param,
)
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.locs import format_locs
from staticflow.graph.node import Node, make_node
from staticflow.graph.op import Op
from staticflow.graph.verify import verify_graph


def test_every_op_form_runs() -> None:
    graph = parsed("""
        graph (%x: f32[N, 2], %w: f32[2, 2], %which: i64[]) {
          %y: f32[N, 2] = matmul(%x, %w)
          %pair: (f32[N//2, 2], f32[N//2, 2]) = halves(%y)
          %low: f32[N//2, 2] = item(%pair) {index=0}
          %high: f32[N//2, 2] = item(%pair) {index=1}
          %fill: f32[N + 1] = fill() {shape=[N + 1], value=2.5, dtype=f32}
          %loop: (f32[N//2, 2], f32[N//2, 2]) = repeat(%low, %high)
            {times=N - 1, body=graph (%a: f32[N//2, 2], %b: f32[N//2, 2]) {
              %s: f32[N//2, 2] = add(%a, %b)
              return %b, %s
            }}
          %last: f32[N//2, 2] = item(%loop) {index=1}
          %t: f32[] = total(%last)
          %chosen: f32[] = choose(%which, %t) {branches=[graph (%a: f32[]) {
            return %a
          }, graph (%a: f32[]) {
            %c: f32[] = constant 100.0
            %0: f32[] = fill() {shape=[], value=1.0, dtype=f32}
            %1: f32[] = add(%a, %c)
            return %1
          }]}
          return %fill, %last, %chosen, %which
        }""")
    verify_graph(graph)
    x, w = np.arange(8, dtype=np.float32).reshape(4, 2), np.eye(2, dtype=np.float32)
    fill, last, chosen, which = interpret_graph(graph, [x, w, np.int64(1)])
    assert fill.dtype == np.float32 and fill.tolist() == [2.5] * 5
    # three Fibonacci steps from (low, high) end in low + low + high + high + high
    expected = 2 * x[:2] + 3 * x[2:]
    np.testing.assert_array_equal(last, expected)
    assert chosen == expected.sum() + 100 and which == 1
    assert all(isinstance(a, np.ndarray) for a in (fill, last, chosen, which))
    assert chosen.shape == () and chosen.dtype == np.float32


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_zero_and_one_are_sizes_like_any_other(size: int) -> None:
    graph = parsed("""
        graph (%x: f32[N, 3]) {
          %y: f32[N, 3] = neg(%x)
          %t: f32[] = total(%y)
          return %y, %t
        }""")
    y, t = interpret_graph(graph, [np.ones((size, 3), np.float32)])
    assert y.shape == (size, 3) and t == -3 * size


def test_a_loop_without_iterations_gives_what_it_was_given() -> None:
    graph = parsed("""
        graph (%x: f32[N]) {
          %0: (f32[N]) = repeat(%x) {times=N, body=graph (%c: f32[N]) {
            %0: f32[N] = neg(%c)
            return %0
          }}
          %1: f32[N] = item(%0) {index=0}
          return %1
        }""")
    for n in range(4):
        (out,) = interpret_graph(graph, [np.ones(n, np.float32)])
        assert out.tolist() == [(-1.0) ** n] * n


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_region_tells_its_types_before_it_runs(length: int) -> None:
    graph = parsed("""
        graph (%x: f32[N], %n: i8[T]) {
          %0: f32[T, N] = steps(%x) {times=T, body=graph (%c: f32[N]) {
            %0: f32[N] = add(%c, %c)
            return %0
          }}
          return %0
        }""")
    args = [np.ones(2, np.float32), np.zeros(length, np.int8)]
    (out,) = interpret_graph(verify_graph(graph), args)
    assert out.shape == (length, 2) and out.tolist() == [[2.0**k] * 2 for k in range(1, length + 1)]


def pair(x: Any, y: Any) -> list[Any]:
    graph = parsed("graph (%x: f32[N, 2], %y: f32[3, N]) {\n  return %x, %y\n}")
    return interpret_graph(graph, [x, y])


def test_shapes_must_agree_with_the_params_types() -> None:
    x, y = np.zeros((4, 2), np.float32), np.zeros((3, 4), np.float32)
    assert pair(x, y)[0] is x
    with pytest.raises(
        ShapeError,
        match=r"y has 5 in dim 1 where f32\[3, N\] wants N, where N is 4 \(dim 0 of x\)",
    ):
        pair(x, np.zeros((3, 5), np.float32))
    with pytest.raises(ShapeError, match=r"y has 2 in dim 0 where f32\[3, N\] wants 3$"):
        pair(x, np.zeros((2, 4), np.float32))
    with pytest.raises(
        ShapeError, match=r"x has 1 dims, shape \[4\], and must have 2: f32\[N, 2\]"
    ):
        pair(x[:, 0], y)
    with pytest.raises(DTypeError, match="y is float64 and must be float32"):
        pair(x, np.zeros((3, 4)))
    with pytest.raises(ShapeError, match="2 arrays are needed, 1 were given"):
        interpret_graph(parsed("graph (%x: f32[], %y: f32[]) {\n  return\n}"), [x])


def test_equalities_are_checked_and_both_sizes_named() -> None:
    x, y = new_param(f32(N), "x"), new_param(f32(M), "y")
    total = node("add", x, y)
    graph = close([x, y], [total])
    ones = np.ones(3, np.float32)
    assert interpret_graph(graph, [ones, ones])[0].tolist() == [2, 2, 2]
    with pytest.raises(ShapeError) as raised:
        interpret_graph(graph, [ones, np.ones(1, np.float32)])
    assert str(raised.value) == (
        "add: the sizes at dim -1: N and M must be equal, but N is 3 (dim 0 of x), "
        f"M is 1 (dim 0 of y); at {format_locs(total.locs)}"
    )


def test_an_equality_of_a_region_is_checked_there() -> None:
    graph = parsed("""
        graph (%x: f32[N]) {
          %0: (f32[N//2, 2]) = repeat(%x) {times=1, body=graph (%c: f32[N]) {
            %0: f32[N//2, 2] = pairs(%c)
            assume 2*(N//2) == N because "pairs: an even size"
            return %0
          }}
          %1: f32[N//2, 2] = item(%0) {index=0}
          return %1
        }""")
    assert interpret_graph(graph, [np.ones(4, np.float32)])[0].shape == (2, 2)
    with pytest.raises(
        ShapeError, match=r"an even size: 2\*\(N//2\) and N must be equal"
    ) as raised:
        interpret_graph(graph, [np.ones(5, np.float32)])
    assert raised.value.__notes__ == ["in repeat(f32[N]), made at <unknown line>"]


def test_an_op_is_held_to_its_own_type() -> None:
    x = new_param(f32(N), "x")
    narrowed = node("narrowed", x)
    with pytest.raises(
        VerifyError, match=r"the result of narrowed is float16 .* not f32\[N\]"
    ) as raised:
        interpret_graph(close([x], [narrowed]), [np.ones(2, np.float32)])
    (note,) = raised.value.__notes__
    assert note == f"in narrowed(f32[N]), made at {format_locs(narrowed.locs)}"
    wrong = Graph((x,), (Node(OPS["neg"], (x,), {}, f32(N + 1)),))
    with pytest.raises(
        VerifyError, match=r"has the shape \(2,\), not f32\[N \+ 1\], that is \(3,\)"
    ):
        interpret_graph(wrong, [np.ones(2, np.float32)])


def test_a_size_is_not_used_before_it_is_known() -> None:
    x = new_param(f32(3), "x")
    graph = Graph((x,), (node("fill", shape=(N,), value=0.0, dtype=float32),))
    with pytest.raises(VerifyError, match="the size N is used before N is known"):
        interpret_graph(graph, [np.ones(3, np.float32)])


def test_ieee_values_pass_through_without_warnings(recwarn: pytest.WarningsRecorder) -> None:
    graph = parsed("graph (%x: f32[N]) {\n  %0: f32[N] = add(%x, %x)\n  return %0\n}")
    x = np.array([3e38, -np.inf, np.nan, -0.0], np.float32)
    (out,) = interpret_graph(graph, [x])
    assert out[0] == np.inf and out[1] == -np.inf and np.isnan(out[2]) and np.signbit(out[3])
    assert not recwarn.list
    graph = parsed("graph (%x: i8[N]) {\n  %0: i8[N] = add(%x, %x)\n  return %0\n}")
    (out,) = interpret_graph(graph, [np.array([127], np.int8)])
    assert out.dtype == int8.numpy and out.tolist() == [-2]


def test_values_are_freed_after_their_last_use() -> None:
    made: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def reference(xp: Any, x: Any) -> Any:
        alive.append(sum(array() is not None for array in made))
        made.append(weakref.ref(out := -x))
        return out

    watched = Op(name="watched", doc="", infer=lambda facts, x: x, reference=reference, vjp=None)
    x = value = new_param(f32(2), "x")
    for _ in range(6):
        value = make_node(watched, (value,), {})
    interpret_graph(Graph((x,), (value,)), [np.ones(2, np.float32)])
    assert alive == [0, 1, 1, 1, 1, 1]
