"""A drawing as DOT, the language of Graphviz: groups are clusters."""

from __future__ import annotations

from collections.abc import Iterator

from staticflow.drawing.flow import single_edges
from staticflow.drawing.model import Drawing, DrawnNode

__all__ = ["dot_of"]

_SHAPES = {
    "input": "ellipse", "variable": "ellipse", "parameter": "ellipse", "leaf": "ellipse",
    "constant": "plaintext", "item": "plaintext", "saved": "note",
}  # fmt: skip


def dot_of(drawing: Drawing) -> str:
    """The drawing as the text of a DOT file, as ``dot -Tpdf`` reads it. What flows into a group
    leads to the parameters in it that stand for it, and what flows out comes from its results.

    >>> from staticflow.drawing.graphs import draw_graph
    >>> from staticflow.graph.parser import parse_graph
    >>> from staticflow.ops import OPS
    >>> text = "graph (%x: f32[3]) { %0: f32[3] = exp(%x) return %0 }"
    >>> print(dot_of(draw_graph(parse_graph(text, OPS), "step")), end="")
    digraph "step" {
      node [shape=box, fontname="monospace", fontsize=10];
      n0 [label="x\\nf32[3]", shape=ellipse];
      n1 [label="exp\\nf32[3]", peripheries=2];
      n0 -> n1;
    }
    """
    children = drawing.children()
    lines = [
        f"digraph {_quote(drawing.title)} {{",
        '  node [shape=box, fontname="monospace", fontsize=10];',
        *_group(children, None, "  "),
        *(f"  n{source} -> n{target};" for source, target in single_edges(drawing)),
        "}",
        "",
    ]
    return "\n".join(lines)


def _group(
    children: dict[int | None, list[DrawnNode]], group: int | None, indent: str
) -> Iterator[str]:
    for node in children.get(group, ()):
        if node.id not in children:
            yield f"{indent}n{node.id} [{', '.join(_attributes(node))}];"
            continue
        yield f"{indent}subgraph cluster_{node.id} {{"
        yield f"{indent}  label={_quote(f'{node.kind} {node.label}')}; fontname=monospace;"
        yield from _group(children, node.id, indent + "  ")
        yield f"{indent}}}"


def _attributes(node: DrawnNode) -> Iterator[str]:
    text = _quote(f"{node.label}\n{node.type}" if node.type else node.label)
    yield f"label={text}"
    if node.kind in _SHAPES:
        yield f"shape={_SHAPES[node.kind]}"
    if node.outputs:
        yield "peripheries=2"
    if node.lines:
        yield f"tooltip={_quote(', '.join(node.lines))}"


def _quote(text: str) -> str:
    shown = "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    shown = shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{shown}"'
