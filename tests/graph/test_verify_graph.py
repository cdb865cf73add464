"""The rules of the graph IR that text cannot break; the others are in verify/*.sf."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_ops import OPS, M, N, constant_of, f32, node

from staticflow.errors import VerifyError
from staticflow.graph.graph import (
    Graph,
    new_param,
)
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node, constant
from staticflow.graph.verify import verify_graph


def refused(graph: Graph) -> str:
    with pytest.raises(VerifyError) as raised:
        verify_graph(graph)
    return str(raised.value)


def test_params_must_be_distinct_params() -> None:
    x = new_param(f32(3), "x")
    assert refused(Graph((x, x), (x,))).startswith("the param 'x' is there 2 times\n>> graph (%x")
    assert refused(Graph((constant_of(1),), ())).startswith(
        "the constant of type i64[] is no param"
    )


def test_every_param_is_declared() -> None:
    x, y = new_param(f32(N), "x"), new_param(f32(M), "y")
    graph = Graph((x, y), (x,), (), (f32(N),))
    assert refused(graph).startswith("1 types are declared for 2 params\n")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ([1], "a list"),
        (np.int64(3), "an int64"),
        ((1, (2, {3})), "a set"),
        (np.zeros(2), "an ndarray"),
        (object(), "an object"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_attributes_are_of_classes_that_have_text(value: Any, name: str) -> None:
    x = new_param(f32(3), "x")
    tagged = node("tagged", x, fine=1, tag=value)
    message = refused(Graph((x,), (tagged,)))
    assert message.startswith(f"the attribute tag of tagged holds {name}; made at {__file__}:")
    assert (
        f"fine=1, tag={'[1, [2, <set>]]' if name == 'a set' else f'<{name.split()[1]}>'}}}"
        in message
    )


def test_a_constant_has_a_value() -> None:
    broken = Node(constant, (), {"value": 3, "type": f32()}, f32())
    assert refused(Graph((), (broken,))).startswith("the constant has no value\n")


def test_the_fault_is_shown_with_its_lines_in_its_surroundings() -> None:
    x = new_param(f32(3), "x")
    chain = [x]
    for _ in range(20):
        chain.append(node("neg", chain[-1]))
    wrong = Node(OPS["neg"], (chain[-1],), {}, f32(4), here())
    tail = Node(OPS["neg"], (wrong,), {}, f32(4))
    head, *lines = refused(Graph((x,), (tail,))).splitlines()
    assert head == f"neg gives f32[3], not f32[4]; made at {format_locs(wrong.locs)}"
    assert [line[:18] for line in lines] == [
        "     %17: f32[3] =",
        "     %18: f32[3] =",
        "     %19: f32[3] =",
        ">>   %20: f32[4] =",
        "     %21: f32[4] =",
        "     return %21",
        "   }",
    ]


def test_long_lines_are_cut_in_messages() -> None:
    big = constant_of(np.zeros(1000, np.float32))
    wrong = Node(OPS["neg"], (big,), {}, f32(3))
    assert max(map(len, refused(Graph((), (wrong,))).splitlines())) < 170
