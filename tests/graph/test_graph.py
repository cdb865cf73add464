"""Graphs: closing, sizes that must be equal, walks, and graphs of any size."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from graph_ops import OPS, L, M, N, f32, node, parsed

from staticflow.errors import ShapeError, VerifyError
from staticflow.graph.dims import dim_max, fresh_sym
from staticflow.graph.dtypes import float32, float64, int64
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import close, map_attrs, new_param, rebuild, substitute_nodes
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.locs import format_locs, here, merge_locs, using
from staticflow.graph.node import Literal, Node, item, make_node, toposort
from staticflow.graph.printer import print_graph
from staticflow.graph.types import Facts, TensorType
from staticflow.graph.verify import verify_graph
from staticflow.ops.basics.arithmetic import eq, maximum, mul, sub

CHAIN = 100_000


def op_names(nodes: Iterable[Node]) -> list[str]:
    return [n.op.name for n in nodes]


# --- closing ---


def test_equal_nodes_are_merged_and_keep_the_lines_of_both() -> None:
    x = new_param(f32(3), "x")
    first = node("neg", x)
    second = node("neg", x)
    graph = close([x], [node("add", first, second)])
    assert op_names(graph.nodes) == ["param", "neg", "add"]
    _, merged, total = graph.nodes
    assert total.args == (merged, merged)
    assert merged.locs == first.locs + second.locs
    lines = [loc.line for loc in merged.locs]
    assert lines[1] == lines[0] + 1 and merged.locs[0].file == __file__
    assert merged.type is first.type and first.locs == (merged.locs[0],)


def test_what_commutes_is_equal_in_either_order() -> None:
    x, y = new_param(TensorType(float32, (3,)), "x"), new_param(TensorType(float32, (3,)), "y")
    for op, merged in ((mul, True), (eq, True), (sub, False), (maximum, False)):
        graph = close([x, y], [make_node(op, (x, y), {}, ()), make_node(op, (y, x), {}, ())])
        assert (graph.outputs[0] is graph.outputs[1]) is merged


def test_equal_trees_are_merged_and_params_never_are() -> None:
    x, y = new_param(f32(3), "x"), new_param(f32(3), "x")
    trees = [node("neg", node("add", x, x)) for _ in range(2)]
    graph = close([x, y], [*trees, node("neg", node("add", y, y))])
    assert graph.outputs[0] is graph.outputs[1] is not graph.outputs[2]
    assert op_names(graph.nodes) == ["param", "param", "add", "neg", "add", "neg"]


@pytest.mark.parametrize(
    ("a", "b", "merged"),
    [
        (1, 1, True),
        (0.0, -0.0, False),
        (1, 1.0, False),
        (1, True, False),
        ((1, (0.0,)), (1, (-0.0,)), False),
        (float("nan"), float("nan"), True),
        ((1, "a"), (1, "a"), True),
        (Literal(np.array([0.0], np.float32)), Literal(np.array([-0.0], np.float32)), False),
        (Literal(np.array([1.0], np.float32)), Literal(np.array([1.0], np.float32)), True),
        (Literal(np.array([1.0], np.float32)), Literal(np.array([[1.0]], np.float32)), False),
        (Literal(np.array([0], np.int32)), Literal(np.array([0], np.float32)), False),
        (N + 1, 1 + N, True),
        (float32, float64, False),
    ],
    ids=repr,
)
def test_attributes_are_equal_only_if_they_are_the_same_value(a: Any, b: Any, merged: bool) -> None:
    x = new_param(f32(N), "x")
    graph = close([x], [node("tagged", x, tag=a), node("tagged", x, tag=b)])
    assert (graph.outputs[0] is graph.outputs[1]) is merged


def test_the_order_of_attributes_does_not_matter() -> None:
    x = new_param(f32(3), "x")
    graph = close([x], [node("tagged", x, a=1, b=2), node("tagged", x, b=2, a=1)])
    assert graph.outputs[0] is graph.outputs[1]


def test_what_no_output_needs_is_gone_but_params_stay() -> None:
    x, y = new_param(f32(3), "x"), new_param(f32(3), "y")
    kept = node("neg", x)
    dead = node("add", kept, y)
    graph = close([x, y], [kept])
    assert dead not in graph.nodes and graph.nodes == (x, y, kept)
    assert graph.users == {x: (kept,), y: (), kept: ()}


def test_closing_a_closed_graph_changes_nothing() -> None:
    x, y, c = new_param(f32(N), "x"), new_param(f32(M), "y"), new_param(f32(3), "c")
    loop = node("repeat", c, times=3, body=close([c], [node("neg", c)]))
    graph = close(
        [x, y, c], [node("neg", node("add", x, y)), make_node(item, (loop,), {"index": 0})]
    )
    assert graph.params[0] is not x and graph.params[1:] == (y, c)  # only what names N is new
    assert loop in graph.nodes
    again = close(graph.params, graph.outputs, graph.equalities, graph.declared)
    assert again.nodes == graph.nodes and again.equalities == graph.equalities
    assert print_graph(again, locs=True) == print_graph(graph, locs=True)
    assert close([x], [x]).nodes == (x,)


def test_a_param_of_another_graph_is_refused() -> None:
    x, y = new_param(f32(3), "x"), new_param(f32(3), "y", locs=here())
    with pytest.raises(VerifyError, match=r"the param 'y' \(f32\[3\], made at .*test_graph.py:"):
        close([x], [node("add", x, y)])


def test_nodes_are_immutable() -> None:
    x = new_param(f32(3), "x")
    with pytest.raises(AttributeError, match="a Node is immutable; type cannot be set"):
        x.type = f32(4)
    array = np.ones(2)
    value = Literal(array)
    array[0] = 5
    assert value.array[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        value.array[0] = 2


# --- sizes that must be equal ---


def test_sizes_that_met_become_one() -> None:
    x, y = new_param(f32(N, 2), "x"), new_param(f32(M, 2), "y")
    graph = close([x, y], [node("neg", node("add", x, y))])
    assert [n.type for n in graph.nodes] == [f32(M, 2)] * 4
    assert graph.declared == (f32(N, 2), f32(M, 2))
    (equality,) = graph.equalities
    assert (equality.a, equality.b, equality.reason) == (N, M, "add: the sizes at dim -2")
    assert [loc.file for loc in equality.locs] == [__file__]
    assert str(equality).startswith("N == M (add: the sizes at dim -2, ")


def test_a_number_wins_over_a_name_and_a_name_over_an_unnamed_size() -> None:
    k = fresh_sym("k")
    x, y = new_param(f32(N), "x"), new_param(f32(3), "y")
    assert close([x, y], [node("add", x, y)]).nodes[0].type == f32(3)
    for first, second in ((k, N), (N, k)):
        x, y = new_param(f32(first), "x"), new_param(f32(second), "y")
        assert [n.type for n in close([x, y], [node("add", x, y)]).nodes] == [f32(N)] * 3


def test_equalities_are_followed_through() -> None:
    x, y, z = (new_param(f32(d), name) for d, name in ((N, "x"), (M, "y"), (L, "z")))
    graph = close([x, y, z], [node("add", x, y), node("add", y, z)])
    assert {n.type for n in graph.nodes} == {f32(L)}
    assert [(e.a, e.b) for e in graph.equalities] == [(N, M), (M, L)]
    w = new_param(f32(2 * N), "w")
    graph = close([x, w, y], [node("add", w, y)])
    assert graph.nodes[2].type == f32(2 * N)


def test_sizes_are_replaced_in_attributes_and_regions() -> None:
    x, y, c = new_param(f32(N), "x"), new_param(f32(M), "y"), new_param(f32(N), "c")
    filled = node("fill", shape=(N, 1), value=0.0, dtype=float32)
    inner = close([c], [node("add", c, node("fill", shape=(N,), value=1.0, dtype=float32))])
    loop = node("repeat", x, times=N, body=inner)
    graph = close([x, y], [node("add", x, y), filled, make_node(item, (loop,), {"index": 0})])
    assert "fill() {shape=[M, 1], " in str(graph) and "times=M, body=graph (%c: f32[M]" in str(
        graph
    )
    assert "shape=[M], " in str(graph) and "f32[N]" not in str(graph).replace("declared f32[N]", "")
    assert verify_graph(graph) is graph


def test_sizes_that_never_are_equal_are_refused_at_the_op() -> None:
    x, y = new_param(f32(N), "x"), new_param(f32(N + 1), "y")
    with pytest.raises(ShapeError, match=r"the sizes at dim -1: N and N \+ 1 differ"):
        node("add", x, y)
    with pytest.raises(ShapeError, match="inner sizes: 3 and 4 differ"):
        node("matmul", new_param(f32(2, 3), "x"), new_param(f32(4, 2), "y"))
    with pytest.raises(ShapeError, match=r"the sizes at dim -1: 2 and N \+ 12 differ"):
        node("add", new_param(f32(2), "x"), new_param(f32(N + 12), "y"))


def test_a_size_that_is_always_too_small_is_refused_at_once() -> None:
    facts = Facts()
    facts.at_least(N, 2, "the rows of x")
    assert [(a.a, a.b) for a in facts.assumptions] == [(dim_max(N, 2), N)]
    with pytest.raises(ShapeError, match=r"the rows of x: 3 is too small; .* at least N \+ 4"):
        facts.at_least(3, N + 4, "the rows of x")


def test_sizes_that_contradict_each_other_are_refused_when_closing() -> None:
    x, a, b = new_param(f32(N), "x"), new_param(f32(3), "a"), new_param(f32(4), "b")
    outputs = [node("add", x, a), node("add", x, b)]
    with pytest.raises(
        ShapeError,
        match=r"add: the sizes at dim -1: N and 4 must be equal, but 3 and 4 differ, at .*\.py:\d+",
    ):
        close([x, a, b], outputs)


def test_an_equality_without_a_bare_symbol_is_only_kept() -> None:
    x, y = new_param(f32(2 * N), "x"), new_param(f32(3 * M), "y")
    graph = close([x, y], [node("add", x, y)])
    assert [n.type for n in graph.nodes] == [f32(2 * N), f32(3 * M), f32(3 * M)]
    assert [(e.a, e.b) for e in graph.equalities] == [(2 * N, 3 * M)]
    assert verify_graph(graph) is graph


def test_a_size_known_only_as_the_program_runs_replaces_none_and_is_checked() -> None:
    x, y, k = new_param(f32(N), "x"), new_param(TensorType(int64, (M,)), "y"), fresh_sym("k")
    graph = close([x, y], [node("add", y, node("nonzero", x, binds=(k,)))])
    assert [n.tensor_type.shape for n in graph.nodes] == [(N,), (M,), (k,), (k,)]
    assert verify_graph(graph) is graph
    ones = np.ones(2, np.int64)
    (out,) = interpret_graph(graph, [np.array([0, 5, 0, 7], np.float32), ones])
    assert out.tolist() == [2, 4]
    with pytest.raises(ShapeError, match=r"M is 2 \(dim 0 of y\), k is 3 \(dim 0 of the r"):
        interpret_graph(graph, [np.array([1, 5, 0, 7], np.float32), ones])


def test_shape_rules() -> None:
    facts = Facts()
    assert facts.broadcast([]) == ()
    assert facts.broadcast([(3, 1), (), (1, 4)]) == (3, 4)
    assert facts.broadcast([(0,), (1,)]) == (0,)
    assert facts.broadcast([(N, 1), (1,)]) == (N, 1) and facts.assumptions == []
    assert facts.broadcast([(N,), (2, 3)]) == (2, 3)
    assert [(a.a, a.b) for a in facts.assumptions] == [(N, 3)]
    with pytest.raises(ShapeError):
        facts.broadcast([(0,), (2,)])


def test_an_equality_can_be_added_by_hand() -> None:
    x, y = new_param(f32(N), "x"), new_param(f32(M), "y")
    graph = close([x, y], [x, y], [Equality(N, M, "by hand", ())])
    assert [p.type for p in graph.params] == [f32(M), f32(M)]
    with pytest.raises(ShapeError, match="by hand: N and M must be equal"):
        interpret_graph(graph, [np.ones(1, np.float32), np.ones(2, np.float32)])


# --- walks ---


def test_rebuilding_shares_what_does_not_change_and_merges_what_becomes_equal() -> None:
    x, y = new_param(f32(3), "x"), new_param(f32(3), "y")
    kept, replaced = node("neg", x), node("tagged", x, tag=1)
    graph = close([x, y], [node("add", kept, y), node("neg", replaced)])

    def visit(n: Node, args: tuple[Node, ...]) -> Node:
        if n.op.name == "tagged":
            return args[0]
        return n if args == n.args else Node(n.op, args, n.attrs, n.type, n.locs)

    new = rebuild(graph, visit)
    assert op_names(new.nodes) == ["param", "param", "neg", "add"]
    assert new.outputs[1] is new.outputs[0].args[0]
    assert new.params == graph.params and op_names(graph.nodes).count("tagged") == 1
    assert rebuild(graph, lambda n, args: n).nodes == graph.nodes


def test_substituting_nodes() -> None:
    x, y = new_param(f32(3), "x"), new_param(f32(3), "y")
    inner, other = node("neg", x), node("neg", y)
    top = node("add", inner, other)
    (new,) = substitute_nodes([top], {x: y})
    assert new.args[1] is other and new.args[0].args == (y,)
    assert substitute_nodes([top, y], {}) == [top, y]


def test_arguments_come_before_users_once_each() -> None:
    x = new_param(f32(3), "x")
    a = node("neg", x)
    b = node("add", a, x)
    c = node("add", b, a)
    assert toposort([c, a, c]) == [x, a, b, c]
    assert toposort([]) == []


def test_attributes_are_mapped_wherever_they_are() -> None:
    region = close([], [])
    attrs = {"a": (N, (1, f32(N, 2))), "b": region, "c": True, "d": (region,)}
    mapped = map_attrs(attrs, lambda size: 7, lambda graph: "region")
    assert mapped == {"a": (7, (1, f32(7, 2))), "b": "region", "c": True, "d": ("region",)}


def test_lines_can_be_inherited() -> None:
    mine = here()
    with using(()):
        assert here() == ()
        with using(mine):
            assert here() == mine
        assert here() == ()
    assert here() != mine
    assert merge_locs(mine, mine) == mine
    assert format_locs(()) == "<unknown line>"
    assert format_locs(mine).endswith(f"test_graph.py:{mine[0].line}")


def test_to_networkx() -> None:
    x, y = new_param(f32(N), "x"), new_param(f32(N), "y")
    graph = close([x, y], [node("add", node("add", x, x), x)])
    g = graph.to_networkx()
    _, _, inner, outer = graph.nodes
    assert list(g) == list(graph.nodes)
    assert sorted((u.serial, v.serial, p) for u, v, p in g.edges(data="position")) == sorted(
        (a.serial, n.serial, i) for n in graph.nodes for i, a in enumerate(n.args)
    )
    assert g.number_of_edges(x, inner) == 2 and g.number_of_edges(x, outer) == 1
    assert g.degree(y) == 0
    assert g.nodes[inner]["op"] == "add" and g.nodes[inner]["type"] == "f32[N]"
    assert g.nodes[inner]["lines"] == format_locs(inner.locs)


# --- size ---


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Python's garbage collector walks over every node again and again, which is not our time."""
    gc.disable()
    yield
    gc.enable()


def test_a_chain_of_any_length_works(no_collector: None) -> None:
    x = new_param(f32(N), "x")
    value, locs = x, here()
    for _ in range(CHAIN):
        value = make_node(OPS["neg"], (value,), {}, locs)
    graph = close([x], [value])
    assert len(graph.nodes) == CHAIN + 1
    text = print_graph(graph)
    again = parsed(text)
    assert print_graph(again) == text
    verify_graph(again)
    (out,) = interpret_graph(again, [np.array([1, -2], np.float32)])
    assert out.tolist() == [1, -2]
    doubled = rebuild(graph, lambda n, args: make_node(OPS["neg"], args, {}, n.locs))
    assert len(doubled.nodes) == CHAIN + 1 and len(doubled.users) == CHAIN + 1
    (new,) = substitute_nodes(graph.outputs, {x: new_param(f32(N), "y")})
    assert new is not graph.outputs[0]


def test_a_chain_of_assumed_sizes_becomes_one() -> None:
    params = [new_param(f32(fresh_sym("n")), f"x{i}") for i in range(200)]
    total = params[0]
    for p in params[1:]:
        total = node("add", total, p)
    graph = close(params, [total])
    assert len({n.type for n in graph.nodes}) == 1 and len(graph.equalities) == 199
    assert verify_graph(graph) is graph
    assert print_graph(parsed(print_graph(graph))) == print_graph(graph)
