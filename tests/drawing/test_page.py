"""The page of a drawing: what is in the file, and what a browser makes of it."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from test_drawing import HOSTILE, nested

import staticflow as sf
from staticflow.drawing.graphs import draw_graph
from staticflow.drawing.layers import arrange, segments
from staticflow.drawing.model import Drawing, DrawnEdge, DrawnNode
from staticflow.drawing.page import page_of
from staticflow.drawing.places import place
from staticflow.drawing.stages import WRITTEN, Stage, find_changes

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def picture() -> Any:
    return sf.draw(nested())


def data_of(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script id="data" type="text/plain">(.*?)</script>', page)
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_the_page_has_every_stage(picture) -> None:
    data = data_of(picture.html())
    assert [s["name"] for s in data["stages"]] == [s.name for s in picture.stages]
    assert data["shown"] == len(picture.stages) - 1
    for found, stage in zip(data["stages"], picture.stages, strict=True):
        assert len(found["nodes"]) == len(stage.drawing.nodes)
        in_rows = [i for rows in found["rows"].values() for row in rows for i in row if i >= 0]
        assert sorted(in_rows) == sorted(n.id for n in stage.drawing.nodes)


def test_a_value_that_is_used_in_every_row_costs_its_uses_and_not_their_square() -> None:
    nodes, edges = range(2000), [(0, n) for n in range(2, 2000)] + [*pairwise(range(2000))]
    rows = arrange(nodes, edges)
    assert [row[0] for row in rows] == list(nodes)
    places = sum(map(len, segments(rows, edges).values()))
    assert places <= 102 * len(edges)  # in the square there are 2 million


def test_a_pass_says_what_it_changed() -> None:
    x = sf.placeholder((None,), name="x")
    picture = sf.draw(sf.compile([x], ((x * 1).exp() + 2).sum()))
    written, simpler = picture.stages[:2]
    assert (written.name, simpler.name) == (WRITTEN, "canonicalize")
    assert dict(simpler.counts) and not written.counts
    changes = find_changes(written.drawing, simpler.drawing)
    label = {n.id: n.label for n in simpler.drawing.nodes}
    gone = [n.label for n in written.drawing.nodes if n.id in changes.gone]
    assert gone == ["1.0", "mul"] and changes.new == ()
    assert [label[i] for i in changes.changed] == ["exp", "add", "sum"]
    unchanged = find_changes(written.drawing, written.drawing)
    assert (unchanged.new, unchanged.changed, unchanged.gone) == ((), (), ())


def test_rows_are_in_the_order_of_edges_and_boxes_do_not_overlap(picture) -> None:
    for size in (0, 1, 60):
        nodes = range(size)
        edges = [(i // 2, i) for i in range(1, size)] + [(0, i) for i in range(5, size, 7)]
        rows = arrange(nodes, edges)
        rank = {item: r for r, row in enumerate(rows) for item in row if item >= 0}
        assert sorted(rank) == list(nodes)
        assert all(rank[a] < rank[b] for a, b in edges)
        sizes = {n: (20.0 + n, 10.0) for n in nodes}
        places = place(rows, edges, sizes)
        for row in rows:
            items = [i for i in row if i >= 0]
            for a, b in pairwise(items):
                apart = places.middles[b][0] - places.middles[a][0]
                assert apart >= (sizes[a][0] + sizes[b][0]) / 2
        assert set(places.ways) == set(edges)


def large(count: int) -> Drawing:
    """As many nodes in a wide graph, without groups."""
    nodes = tuple(
        DrawnNode(i, "op", f"op{i % 7}", f"%{i}", "f32[x_0, 3]", i + 10) for i in range(count)
    )
    ends = [(max(0, i - 1 - i * i % 40), i) for i in range(1, count)]
    ends += [(i // 2, i) for i in range(1, count)]
    return Drawing("large", "graph", nodes, tuple(DrawnEdge(a, b, "f32[3]") for a, b in ends))


def test_5000_nodes_are_a_page_that_can_be_sent() -> None:
    page = page_of([Stage(WRITTEN, large(5000))], 0)
    assert len(page) < 2e6 and len(data_of(page)["stages"][0]["nodes"]) == 5000


def browse(page: Path, fragment: str) -> tuple[dict[str, str], str, list[str]]:
    """What the page says of itself once it is drawn, its document, and what the browser's console
    says of it."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium is installed, in which the page would be opened")
    command = [
        browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        "--virtual-time-budget=10000", "--window-size=380,800", "--dump-dom",
        f"{page.as_uri()}#{fragment}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    (body,) = re.findall(r"<body([^>]*)>", done.stdout)
    said = dict(re.findall(r'data-(\w+)="([^"]*)"', body))
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return said, done.stdout, console


def test_a_browser_draws_all_nodes_and_complains_of_nothing(tmp_path: Path) -> None:
    weight = sf.ones(3)
    weight.name = HOSTILE
    picture = sf.draw(nested())
    graph = sf.compile([], sf.symbol(weight).exp()).graph
    stages = [*picture.stages, Stage("hostile", draw_graph(graph, HOSTILE))]
    path = tmp_path / "page.html"
    path.write_text(page_of(stages, 0), "utf-8")
    said, document, console = browse(path, "pass=fuse&open=all&find=sum")
    assert console == []
    fused = picture.stages[-1].drawing
    assert said["ready"] == "yes" and said["boxes"] == str(len(fused.nodes))
    hits = [n for n in fused.nodes if "sum" in f"{n.label} {n.name}"]
    assert f">1 of {len(hits)}</output>" in document
    assert "after fuse" in document


def test_a_browser_draws_hostile_names_and_5000_nodes(tmp_path: Path) -> None:
    weight = sf.ones(3)
    weight.name = HOSTILE
    graph = sf.compile([], sf.symbol(weight).exp()).graph
    stages = [Stage("hostile", draw_graph(graph, HOSTILE)), Stage("large", large(5000))]
    path = tmp_path / "page.html"
    path.write_text(page_of(stages, 1), "utf-8")
    said, document, console = browse(path, "find=op3")
    assert console == [] and said["ready"] == "yes"
    assert said["boxes"] == "5000" and ">1 of 714</output>" in document
    assert "<b>" not in document and "&lt;/script&gt;&lt;b&gt;" in document
