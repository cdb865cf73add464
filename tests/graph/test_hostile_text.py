"""Texts of graphs whose numbers somebody has changed: refused, or a graph that can run."""

from __future__ import annotations

import random
import re

import pytest
from opinfo import ROWS
from opinfo.modes import arrays_of, graph_of
from slices import daily, today

from staticflow.errors import ParseError, StaticflowError, VerifyError
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.parser import parse_graph
from staticflow.graph.printer import store_graph
from staticflow.graph.verify import verify_graph
from staticflow.ops import OPS

NUMBERS = ("-1", "0", "1", "3", "100000", str(2**63 - 1), str(10**20))
"""What a number of an attribute is changed to. None makes a run long."""

SPOTS = 4
"""Numbers of a text that are changed."""

A_DAY = 60


def spots_of(text: str) -> list[tuple[int, int]]:
    """Where the numbers of attributes are."""
    attrs = (m.span() for m in re.finditer(r"\{(?!$)[^\n]*\}", text))
    return [
        (first + m.start(), first + m.end())
        for first, last in attrs
        for m in re.finditer(r"(?<![\w.%\"-])-?\d+(?![\w.])", text[first:last])
    ]


@pytest.mark.parametrize("name", daily(sorted(OPS), A_DAY, "hostile text"))
def test_changed_numbers_are_refused_or_run(name: str) -> None:
    info = ROWS[name]
    chance = random.Random(f"{today()} {name}")
    samples = list(info.samples(info.dtypes[0], False))
    sample = chance.choice(samples)
    stored = store_graph(graph_of(info, sample))
    spots = spots_of(stored.text)
    for first, last in chance.sample(spots, min(SPOTS, len(spots))):
        for number in NUMBERS:
            text = stored.text[:first] + number + stored.text[last:]
            try:
                graph = verify_graph(parse_graph(text, OPS, stored.arrays))
            except (ParseError, VerifyError):
                continue
            try:
                interpret_graph(graph, arrays_of(sample))
            except (StaticflowError, MemoryError):
                continue


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("slice(%x) {start=[2], size=[3], step=[-1]}", "the step along dim 0"),
        ("slice(%x) {start=[2], size=[3], step=[0]}", "the step along dim 0"),
        ("slice(%x) {start=[-1], size=[3], step=[1]}", "the first position in dim 0"),
        ("as_strided(%x) {shape=[3], stride=[-1], offset=4}", "an offset or stride"),
        ("as_strided(%x) {shape=[3], stride=[1], offset=-1}", "an offset or stride"),
        ("cumsum(%x) {dim=2.5, reverse=false}", "the attribute dim of cumsum"),
        ("full() {shape=[-5], value=0, dtype=f32}", "the attribute shape of full"),
        ("cumsum(%x) {dim=1, reverse=false}", "the attribute dim of cumsum is 1, of 1 dims"),
        ("flip(%x) {dims=[0, 0]}", "the attribute dims of flip"),
        ("roll(%x) {shift=9223372036854775807, dim=0}", "the attribute shift of roll"),
    ],
)
def test_a_number_that_reaches_outside_is_refused(text: str, why: str) -> None:
    size = 3 if "[3]" in text else 5
    graph = parse_graph(f"graph (%x: f32[5]) {{ %0: f32[{size}] = {text} return %0 }}", OPS)
    with pytest.raises(VerifyError, match=re.escape(why)):
        verify_graph(graph)
