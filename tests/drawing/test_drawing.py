"""Drawings: every node of a graph or tape once, with what is known of it."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

import staticflow as sf
from staticflow.drawing.dot import dot_of
from staticflow.drawing.graphs import draw_graph
from staticflow.drawing.model import KINDS, Drawing
from staticflow.drawing.svg import svg_of
from staticflow.drawing.tapes import draw_tape
from staticflow.errors import ArgumentError
from staticflow.graph.graph import Graph, close, regions_of
from staticflow.measure.work import work_of_program
from staticflow.static.compile import Program


def nested() -> Program:
    """A branch in a loop in a loop."""
    x = sf.placeholder((None, 3), name="x")

    def inner(a: sf.Tensor) -> sf.Tensor:
        return sf.cond(a.sum() > 1, lambda: a * 2, lambda: a + 1)

    def outer(carry: sf.Tensor, row: sf.Tensor) -> tuple[sf.Tensor, sf.Tensor]:
        carry = sf.while_loop(lambda a: a.sum() < 5, inner, carry)
        return carry + row, carry

    carry, ys = sf.scan(outer, sf.zeros(3), x)
    return sf.compile([x], [carry, ys])


def count_nodes(graph: Graph) -> int:
    """The nodes of a graph and of those in it, at every place where they stand."""
    return sum(1 + sum(map(count_nodes, regions_of(node))) for node in graph.nodes)


@pytest.fixture(scope="module")
def program() -> Program:
    return nested()


@pytest.mark.parametrize("which", ["graph", "optimized"])
def test_every_node_is_drawn_once(program, which) -> None:
    graph = getattr(program, which)
    drawing = draw_graph(graph)
    nodes = [n for n in drawing.nodes if n.name]  # without the two sides of a branch
    assert len(nodes) == count_nodes(graph) > 20
    assert len({n.id for n in drawing.nodes}) == len(drawing.nodes)
    sides = [n.label for n in drawing.nodes if not n.name]
    assert sides == ["true", "false"] and {n.kind for n in drawing.nodes} <= KINDS.keys()
    svg = svg_of(drawing, is_open=True)
    assert svg.count("<rect") == len(drawing.nodes)
    assert svg.count("marker-end") == len({(e.source, e.target) for e in drawing.edges})


def test_what_is_nested_is_drawn_in_its_group(program) -> None:
    drawing = draw_graph(program.graph)
    by_id = {n.id: n for n in drawing.nodes}
    (side,) = (n for n in drawing.nodes if n.label == "true")
    way = []
    while side is not None:
        way.append(side.kind)
        side = by_id.get(side.parent)
    assert way == ["region", "branch", "loop", "loop"]
    for edge in drawing.edges:
        assert by_id[edge.source].parent == by_id[edge.target].parent
    for node in drawing.nodes:
        if node.kind == "parameter":
            assert by_id[node.operand].id < node.id


def test_closed_groups_are_drawn_without_what_is_in_them(program) -> None:
    drawing = draw_graph(program.graph)
    outside = [n for n in drawing.nodes if n.parent is None]
    assert svg_of(drawing, is_open=False).count("<rect") == len(outside) < len(drawing.nodes)


def test_json_gives_the_drawing_again(program) -> None:
    drawing = draw_graph(program.optimized, "step")
    assert Drawing.from_dict(json.loads(json.dumps(drawing.as_dict()))) == drawing
    with pytest.raises(ArgumentError, match="is no drawing of the form"):
        Drawing.from_dict({"schema": "another/7"})


def test_a_node_says_its_type_and_line(program) -> None:
    found = {n.label: n for n in reversed(draw_graph(program.graph).nodes)}
    assert all(re.fullmatch(r"test_drawing\.py:\d+", line) for line in found["cond"].lines)
    assert found["x"].type == "f32[x_0, 3]" and found["x"].kind == "input"
    assert found["sum"].attrs["keepdim"] == "False"


def test_an_empty_graph_is_a_drawing() -> None:
    drawing = draw_graph(close([], []))
    assert drawing.nodes == () and ElementTree.fromstring(svg_of(drawing)) is not None
    assert dot_of(drawing).count("\n") == 3


HOSTILE = "</script><b>\"&\\n'%0 \n\x00\ud800\u2028"


def test_hostile_names_are_escaped() -> None:
    weight = sf.ones(2)
    weight.name = HOSTILE
    drawing = draw_graph(sf.compile([], sf.symbol(weight).exp()).graph, HOSTILE)
    svg = svg_of(drawing)
    svg.encode()
    assert "<b>" not in svg and "</script>" not in svg
    texts = [t.text for t in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("</script><b>") for text in texts)
    dot_of(drawing).encode()
    json.dumps(drawing.as_dict(), ensure_ascii=False).encode()
    assert '</script><b>\\"&\\\\n' in dot_of(drawing)


def test_a_tape_is_drawn_with_leaves_and_kept_values() -> None:
    w = sf.ones(3, requires_grad=True)
    w.name = "weight"
    data = sf.ones(2, 3)
    loss = ((data * w).exp() * 2.0).sum()
    drawing = draw_tape([loss])
    shown = [(n.kind, n.label, n.type) for n in drawing.nodes]
    assert shown == [
        ("leaf", "weight", "f32[3]"),
        ("saved", "saved", "f32[2, 3]"),
        ("op", "mul", "f32[2, 3]"),
        ("op", "exp", "f32[2, 3]"),
        ("op", "mul", "f32[2, 3]"),
        ("op", "sum", "f32[]"),
    ]
    nodes = drawing.nodes
    assert nodes[1].bytes == "24"
    assert nodes[2].attrs["keeps"] == "argument 0: f32[2, 3]" and nodes[5].outputs == ("output",)
    assert nodes[3].attrs["keeps"] == "its result: f32[2, 3]"
    assert nodes[4].attrs["argument 1"] == "2.0" and nodes[4].attrs["keeps"] == "nothing"
    loss.backward()
    assert "freed by the backward at test_drawing.py" in draw_tape([loss]).nodes[1].attrs["keeps"]


def test_a_jitted_call_on_the_tape_is_a_group() -> None:
    f = sf.jit(lambda a: (a.exp() * a).sum())
    loss = f(sf.ones(3, requires_grad=True)) + 1
    drawing = draw_tape([loss])
    (group,) = (n for n in drawing.nodes if n.label == "jit")
    inside = [n for n in drawing.nodes if n.parent == group.id]
    assert [n.kind for n in inside] == ["parameter", "kernel"] and inside[0].operand == 0


def test_several_results_are_drawn_as_items() -> None:
    values, _ = sf.ones(2, 3, requires_grad=True).max(dim=1)
    kinds = [(n.kind, n.label, n.type) for n in draw_tape([values]).nodes]
    assert kinds == [
        ("leaf", "leaf", "f32[2, 3]"),
        ("op", "max_dim", ""),
        ("item", "item 0", "f32[2]"),
    ]


def test_costs_are_those_of_the_kernels() -> None:
    x = sf.placeholder(("N", 8), name="x")
    step = sf.compile([x], ((x @ sf.ones(8, 4)).exp() * x.sum()).sum(dim=0))
    sizes = {"N": 5}
    drawing = sf.draw(step, sizes=sizes).drawing
    kernels = [n for n in drawing.nodes if n.kind == "kernel"]
    counted = work_of_program(step._executable, sizes)
    assert sum(int(n.flops) for n in kernels) == sum(k.flops * k.launches for k in counted) > 320
    product = next(n for n in kernels if n.label.startswith("matmul"))
    assert product.bytes == str(4 * (5 * 8 + 8 * 4 + 5 * 4))
    (unknown,) = (n for n in sf.draw(step).drawing.nodes if n.id == product.id)
    assert (unknown.bytes, unknown.flops) == ("48*N + 128", None)
    inside = [n for n in drawing.nodes if n.parent == product.id]
    assert all(n.bytes is None and n.flops is None for n in inside)
    with pytest.raises(ArgumentError, match=r"'M' is no size of what is drawn.* are N"):
        sf.draw(step, sizes={"M": 3})
