"""The two graphs side by side: the tape of one eager step, and the optimised graph."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from staticflow.comparison.page.markup import Html, tag
from staticflow.comparison.record import Graphs
from staticflow.drawing.model import Drawing
from staticflow.drawing.svg import svg_of

__all__ = ["graph_pair"]

MOST_NODES = 300
"""How many nodes of a graph are drawn. A drawing has about 0.7 KiB for each, and below that
number a reader still finds a node."""

MOST_OPEN = 120
"""How many nodes a graph has that is drawn with what is in its kernels and loops."""

CAPTIONS = {
    "eager": "Define-by-run: the tape of one step",
    "static": "Define-then-run: the optimised graph",
}


def graph_pair(graphs: Graphs) -> Html | None:
    """Both graphs, each in a box that scrolls, or None if there is neither."""
    drawn = {"eager": graphs.eager, "static": graphs.static}
    figures = [graph_figure(mode, data) for mode, data in drawn.items() if data is not None]
    return tag("div", figures, class_="pair") if figures else None


def graph_figure(mode: str, data: dict[str, Any]) -> Html:
    """One graph, and in words how large it is and what is left out."""
    drawing = Drawing.from_dict(data)
    shown = shrink(drawing)
    words = size_words(drawing, shown)
    name = f"{CAPTIONS[mode]}. {words}"
    return tag(
        "figure",
        tag("figcaption", f"{CAPTIONS[mode]}. ", tag("span", words, class_="muted")),
        tag(
            "div",
            isolate(svg_of(shown), f"graph-{mode}"),
            class_=f"box graph edge-{mode}",
            tabindex=0,
            role="region",
            aria_label=name,
        ),
    )


def size_words(drawing: Drawing, shown: Drawing) -> str:
    """How many nodes there are, of what kinds, and how many are drawn."""
    counts: dict[str, int] = {}
    for node in drawing.nodes:
        counts[node.kind] = counts.get(node.kind, 0) + 1
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in sorted(counts.items(), key=lambda c: -c[1]))
    words = f"{len(drawing.nodes):,} nodes ({kinds}) and {len(drawing.edges):,} edges."
    outer = sum(node.parent is None for node in drawing.nodes)
    if len(shown.nodes) < len(drawing.nodes) and outer < len(drawing.nodes):
        words += f" Kernels and loops are drawn closed, which leaves {outer:,} nodes."
    if len(shown.nodes) < outer:
        left = outer - len(shown.nodes)
        words += f" Drawn are the first {len(shown.nodes):,}; {left:,} are left out."
    return words


def shrink(drawing: Drawing) -> Drawing:
    """The part of a graph that a page shows: all of a small one; of a larger one at most so many of
    the nodes outside of groups, and the edges between them."""
    if len(drawing.nodes) <= MOST_OPEN:
        return drawing
    outer = [node for node in drawing.nodes if node.parent is None]
    kept = {node.id for node in outer[:MOST_NODES]}
    return dataclasses.replace(
        drawing,
        nodes=tuple(node for node in drawing.nodes if node.id in kept),
        edges=tuple(e for e in drawing.edges if e.source in kept and e.target in kept),
    )


def isolate(svg: str, prefix: str) -> Html:
    """A drawing whose names are not those of another on the page."""
    svg = re.sub(r'\bid="([\w-]+)"', rf'id="{prefix}-\1"', svg)
    return Html(re.sub(r"url\(#([\w-]+)\)", rf"url(#{prefix}-\1)", svg))
