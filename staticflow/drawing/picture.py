"""Pictures: what can be drawn, and in which formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.drawing.costs import Costs
from staticflow.drawing.dot import dot_of
from staticflow.drawing.graphs import draw_graph
from staticflow.drawing.model import Drawing
from staticflow.drawing.page import page_of
from staticflow.drawing.stages import Stage, stages_of
from staticflow.drawing.svg import svg_of
from staticflow.drawing.tapes import draw_tape
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.articles import with_article
from staticflow.graph.graph import Graph, close
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import param, toposort
from staticflow.ops.symbols.effect import without_effects
from staticflow.ops.symbols.symbol import Symbol
from staticflow.static.compile import Program
from staticflow.static.jit import Jitted

__all__ = ["FORMATS", "Picture", "format_of", "is_drawable", "make_picture", "stages_to_draw"]


@dataclass(frozen=True, repr=False)
class Picture:
    """What ``sf.draw`` gives: drawings, of a program one for each pass that changed something.
    ``after`` names the one that is shown, by default the last."""

    stages: tuple[Stage, ...]
    after: str = ""

    @property
    def stage(self) -> Stage:
        """What is shown."""
        named = {stage.name: stage for stage in self.stages}
        return named.get(self.after, self.stages[-1])

    @property
    def drawing(self) -> Drawing:
        """The nodes and edges of what is shown, whose ``as_dict`` is the JSON."""
        return self.stage.drawing

    def svg(self, is_open: bool | None = None) -> str:
        """What is shown as SVG. Groups (kernels, loops, branches) are open or closed; by default
        open where all is at most 150 nodes."""
        return svg_of(self.drawing, is_open)

    def dot(self) -> str:
        """What is shown as text for Graphviz."""
        return dot_of(self.drawing)

    def json(self) -> str:
        """What is shown as the JSON that `staticflow.drawing.model` describes."""
        import json

        return json.dumps(self.drawing.as_dict(), indent=1, ensure_ascii=False) + "\n"

    def html(self) -> str:
        """A page to explore: zoom, search, groups that open, what each node is, a slider over the
        passes. One file, which asks the network for nothing."""
        return page_of(self.stages, self.stages.index(self.stage))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to ``path``, in the format that its ending says."""
        text = FORMATS[format_of(path)](self)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        drawing = self.drawing
        after = f", after {self.stage.name}" if len(self.stages) > 1 else ""
        nodes, edges = len(drawing.nodes), len(drawing.edges)
        return f"<picture of {with_article(drawing.kind)}: {nodes} nodes, {edges} edges{after}>"


def make_picture(
    thing: Any, after: str = "", sizes: Mapping[str, int] | None = None, title: str = ""
) -> Picture:
    """The picture of anything that can be drawn, under a ``title`` of its own unless one is given;
    raises as ``sf.draw`` does."""
    costs = Costs(sizes)
    stages = tuple(stages_to_draw(thing, costs))
    if wrong := costs.unmet():
        raise ArgumentError(
            f"draw: {wrong[0]!r} is no size of what is drawn; its unknown sizes are "
            f"{', '.join(sorted(costs.met)) or 'none'}{_where()}"
        )
    names = [stage.name for stage in stages]
    if after and after not in names:
        raise ArgumentError(
            f"draw: {after!r} is no pass that changed something; these did: "
            f"{', '.join(names)}{_where()}"
        )
    if title:
        stages = tuple(replace(s, drawing=replace(s.drawing, title=title)) for s in stages)
    return Picture(stages, after)


FORMATS: dict[str, Callable[[Picture], str]] = {
    ".html": Picture.html,
    ".svg": Picture.svg,
    ".dot": Picture.dot,
    ".json": Picture.json,
}
"""What makes the text of each format, by the ending of the file."""


def format_of(path: str | os.PathLike[str]) -> str:
    """The format that the ending of ``path`` says. Raises `ArgumentError` for another."""
    ending = os.path.splitext(path)[1].lower()
    if ending not in FORMATS:
        raise ArgumentError(
            f"draw: {os.fspath(path)!r} ends in none of {', '.join(FORMATS)}; name the file for "
            f"what it shall be{_where()}"
        )
    return ending


def _where() -> str:
    """The user's line for the end of a message; nothing where there is none, as in a tool."""
    locs = here()
    return f", at {format_locs(locs)}" if locs else ""


def is_drawable(thing: Any) -> bool:
    """Whether ``sf.draw`` draws one thing of this class."""
    return isinstance(thing, tuple(_DRAWN))


def stages_to_draw(thing: Any, costs: Costs) -> list[Stage]:
    """The drawings of anything that can be drawn; raises as `draw` does."""
    for kind, stages in _DRAWN.items():
        if isinstance(thing, kind):
            return stages(thing, costs)
    several = thing if isinstance(thing, list | tuple) else ()
    if several and all(isinstance(t, Tensor) for t in several):
        return _of_tensors(several, costs)
    if several and all(isinstance(s, Symbol) for s in several):
        return _of_symbols(several, costs)
    raise DTypeError(
        f"draw: {with_article(type(thing))} is no program, no jitted function, no graph, and "
        "neither symbols nor tensors that were recorded; compile it, or draw what it returns"
        f"{_where()}"
    )


def _of_jitted(jitted: Jitted, costs: Costs) -> list[Stage]:
    name = getattr(jitted, "__name__", "jit")
    if not jitted.programs:
        raise DTypeError(
            f"draw: {name} was not called yet, so that there is no graph; call it with the "
            f"arguments that it is for{_where()}"
        )
    return stages_of(jitted.programs[-1], name, costs)


def _of_tensors(tensors: Sequence[Tensor], _: Costs) -> list[Stage]:
    return [Stage("recorded", draw_tape(tensors))]


def _of_symbols(symbols: Sequence[Symbol], costs: Costs) -> list[Stage]:
    nodes = [without_effects(symbol.node) for symbol in symbols]
    params = [node for node in toposort(nodes) if node.op is param]
    return [Stage("written", draw_graph(close(params, nodes), costs=costs))]


_DRAWN: dict[type, Callable[[Any, Costs], list[Stage]]] = {
    Drawing: lambda drawing, _: [Stage("recorded", drawing)],
    Program: lambda program, costs: stages_of(program, "program", costs),
    Jitted: _of_jitted,
    Graph: lambda graph, costs: [Stage("graph", draw_graph(graph, costs=costs))],
    Tensor: lambda tensor, costs: _of_tensors([tensor], costs),
    Symbol: lambda symbol, costs: _of_symbols([symbol], costs),
}
