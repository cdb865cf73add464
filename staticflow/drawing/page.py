"""A page to explore drawings in: one HTML file that asks the network for nothing."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from staticflow.drawing.layers import arrange
from staticflow.drawing.model import KINDS, Drawing
from staticflow.drawing.stages import Changes, Stage, find_changes
from staticflow.drawing.svg import escape

__all__ = ["page_of"]


def page_of(stages: Sequence[Stage], shown: int) -> str:
    """The text of a page with a slider over ``stages``, which begins at stage ``shown``.

    The drawings are in it as JSON, compressed, and so nothing that a user named is ever HTML. What
    stands in which row is found here; coordinates, which depend on the groups that are open, in the
    browser.
    """
    data = {
        "kinds": KINDS,
        "shown": shown,
        "stages": [
            _data_of(stage, find_changes(before.drawing, stage.drawing) if before else None)
            for before, stage in zip((None, *stages), stages, strict=False)
        ],
    }
    text = json.dumps(data, separators=(",", ":"))
    folder = files("staticflow.drawing")
    page = (folder / "page.html").read_text("utf-8")
    for mark, content in (
        ("@title@", escape(stages[shown].drawing.title)),
        ("@style@", (folder / "page.css").read_text("utf-8").strip()),
        ("@script@", (folder / "page.js").read_text("utf-8").strip()),
        ("@data@", base64.b64encode(zlib.compress(text.encode(), 9)).decode()),
    ):
        page = page.replace(mark, content)
    return page


def _data_of(stage: Stage, changes: Changes | None) -> dict[str, Any]:
    """What the page has of a stage: edges as source, target, source, target, and the rows of each
    group by its number, those outside of any under the empty text."""
    drawing = stage.drawing
    return {
        "name": stage.name,
        "counts": stage.counts,
        "nodes": drawing.as_dict()["nodes"],
        "edges": [end for e in drawing.edges for end in (e.source, e.target)],
        "rows": _rows_of(drawing),
        "new": changes.new if changes else (),
        "changed": changes.changed if changes else (),
        "gone": changes.gone if changes else (),
    }


def _rows_of(drawing: Drawing) -> dict[str, list[list[int]]]:
    parents = {n.id: n.parent for n in drawing.nodes}
    edges: dict[int | None, list[tuple[int, int]]] = {}
    for edge in drawing.edges:
        edges.setdefault(parents[edge.target], []).append((edge.source, edge.target))
    return {
        "" if group is None else str(group): arrange([n.id for n in nodes], edges.get(group, []))
        for group, nodes in drawing.children().items()
    }
