"""A drawing as SVG, without any program or package besides."""

from __future__ import annotations

from collections.abc import Iterator

from staticflow.drawing.layers import arrange
from staticflow.drawing.model import KINDS, Drawing, DrawnEdge, DrawnNode
from staticflow.drawing.places import Places, Point, place

__all__ = ["describe", "escape", "svg_of"]

CHARACTER = 6.7
"""The width of a character, in a monospaced font of 11 px."""
LINE = 15.0
MARGIN = 12.0
PADDING = 10.0
HEAD = 24.0
"""The height of the line over what is in an open group."""
_LONGEST = 30
PILLS = ("input", "variable", "parameter", "constant", "item", "leaf", "saved")
"""Kinds that are values rather than work: round boxes."""

_STYLE = """
.sf-drawing{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
--sf-ink:#1b1f24;--sf-faint:#57606a;--sf-edge:#8c959f;--sf-op:#f6f8fa;--sf-op-line:#afb8c1;
--sf-value:#ddf4ff;--sf-value-line:#54aeff;--sf-weight:#fff8c5;--sf-weight-line:#d4a72c;
--sf-group:#8c959f14;--sf-kernel:#2da44e;--sf-loop:#8250df;--sf-branch:#bf3989}
@media(prefers-color-scheme:dark){.sf-drawing{--sf-ink:#e6edf3;--sf-faint:#9198a1;
--sf-edge:#6e7681;--sf-op:#21262d;--sf-op-line:#444c56;--sf-value:#0c2d4d;--sf-value-line:#388bfd;
--sf-weight:#3a2d00;--sf-weight-line:#bb8009;--sf-group:#8c959f1f;--sf-kernel:#3fb950;
--sf-loop:#a371f7;--sf-branch:#f778ba}}
.sf-drawing text{fill:var(--sf-ink)}.sf-drawing .sf-type{fill:var(--sf-faint)}
.sf-drawing rect{fill:var(--sf-op);stroke:var(--sf-op-line)}
.sf-drawing path{fill:none;stroke:var(--sf-edge)}.sf-drawing marker path{fill:var(--sf-edge)}
.sf-input rect,.sf-parameter rect,.sf-item rect{fill:var(--sf-value);stroke:var(--sf-value-line)}
.sf-variable rect,.sf-leaf rect{fill:var(--sf-weight);stroke:var(--sf-weight-line)}
.sf-saved rect{stroke-dasharray:4 3}
.sf-kernel>rect{fill:var(--sf-group);stroke:var(--sf-kernel)}
.sf-loop>rect{fill:var(--sf-group);stroke:var(--sf-loop)}
.sf-branch>rect,.sf-region>rect{fill:var(--sf-group);stroke:var(--sf-branch)}
.sf-drawing .sf-output{stroke-width:2.5}
""".replace("\n", "")


def svg_of(drawing: Drawing, is_open: bool | None = None) -> str:
    """The drawing as SVG text, which stands by itself or in an HTML page, in light and dark. Groups
    are drawn open, with what is in them, or closed; by default open where all is at most 150 nodes.

    >>> import staticflow as sf
    >>> from staticflow.drawing.graphs import draw_graph
    >>> x = sf.placeholder((3,), name="x")
    >>> svg_of(draw_graph(sf.compile([x], x.exp()).graph)).count("<rect")
    2
    """
    if is_open is None:
        is_open = len(drawing.nodes) <= 150
    scene = _Scene(drawing, is_open)
    places, parts = scene.draw_group(None)
    width, height = places.width + 2 * MARGIN, places.height + 2 * MARGIN
    name = escape(f"{drawing.title}: {len(drawing.nodes)} nodes, {len(drawing.edges)} edges")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="sf-drawing" role="img" '
            f'aria-label="{name}" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="{-MARGIN:g} {-MARGIN:g} {width:.1f} {height:.1f}">',
            f"<title>{name}</title><style>{_STYLE}</style>",
            '<defs><marker id="sf-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" '
            'markerHeight="6" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>',
            *parts,
            "</svg>",
            "",
        ]
    )


def escape(text: str) -> str:
    """Text for XML and HTML: without the characters that mean something there, and without those
    that XML cannot have at all."""
    from html import escape as escape_html

    unknown = "\N{REPLACEMENT CHARACTER}"
    return escape_html("".join(c if c.isprintable() else unknown for c in text))


def cut(text: str) -> str:
    """Text that fits into a box."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class _Scene:
    """A drawing as it is painted: nodes and edges by their group, and whether groups are open."""

    def __init__(self, drawing: Drawing, is_open: bool) -> None:
        self.is_open = is_open
        self.children = drawing.children()
        parents = {n.id: n.parent for n in drawing.nodes}
        self.edges: dict[int | None, list[DrawnEdge]] = {}
        for edge in drawing.edges:
            self.edges.setdefault(parents[edge.target], []).append(edge)

    def draw_group(self, group: int | None) -> tuple[Places, list[str]]:
        """The places in a group, and its elements with their left upper corner at (0, 0)."""
        nodes = self.children.get(group, [])
        edges = self.edges.get(group, [])
        inside = {n.id: self.draw_group(n.id) for n in nodes if self.opens(n)}
        sizes = {n.id: _size_of(n, inside[n.id][0] if n.id in inside else None) for n in nodes}
        ends = [(e.source, e.target) for e in edges]
        places = place(arrange([n.id for n in nodes], ends), ends, sizes)
        types = {(e.source, e.target): e.type for e in edges}
        parts = [_draw_edge(way, types[ends]) for ends, way in places.ways.items()]
        for node in nodes:
            contents = inside[node.id][1] if node.id in inside else None
            parts += self.draw_node(node, places.middles[node.id], sizes[node.id], contents)
        return places, parts

    def opens(self, node: DrawnNode) -> bool:
        """Whether a node is drawn with what is in it."""
        return self.is_open and node.id in self.children

    def draw_node(
        self, node: DrawnNode, middle: Point, size: Point, contents: list[str] | None
    ) -> Iterator[str]:
        """The elements of one node."""
        (x, y), (width, height) = middle, size
        left, top = x - width / 2, y - height / 2
        radius = height / 2 if node.kind in PILLS and contents is None else 4
        result = ' class="sf-output"' if node.outputs and node.parent is None else ""
        yield f'<g class="sf-{node.kind}"><title>{escape(describe(node))}</title>'
        yield (
            f'<rect{result} x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="{radius:g}"/>'
        )
        if contents is None:
            lines = text_lines(node)
            for i, line in enumerate(lines):
                base = y + LINE * (i - (len(lines) - 1) / 2) + 4
                faint = ' class="sf-type"' if i else ""
                yield (
                    f'<text{faint} x="{x:.1f}" y="{base:.1f}" text-anchor="middle">'
                    f"{escape(line)}</text>"
                )
        else:
            title = escape(cut(f"{node.kind} {node.label}"))
            yield f'<text x="{left + PADDING:.1f}" y="{top + LINE:.1f}">{title}</text>'
            yield f'<g transform="translate({left + PADDING:.1f} {top + HEAD:.1f})">'
            yield from contents
            yield "</g>"
        yield "</g>"


def text_lines(node: DrawnNode) -> list[str]:
    """What stands in the box of a node: its label and its type, of a value in one line."""
    if node.kind in PILLS:
        return [cut(f"{node.label} {node.type}")]
    return [cut(t) for t in (node.label, node.type) if t]


def describe(node: DrawnNode) -> str:
    """All that is known of a node, a line each."""
    rows = [
        f"{node.name} = {node.label}" if node.name else node.label,
        node.type,
        KINDS[node.kind],
        *(f"{name}: {value}" for name, value in node.attrs.items()),
        *(f"is {output}" for output in node.outputs),
        f"{node.bytes} bytes" if node.bytes else "",
        f"{node.flops} FLOPs" if node.flops else "",
        ", ".join(node.lines),
    ]
    return " | ".join(row for row in rows if row)


def _size_of(node: DrawnNode, inside: Places | None) -> Point:
    """The width and height of a node's box."""
    if inside is not None:
        title = len(cut(f"{node.kind} {node.label}")) * CHARACTER
        return max(inside.width, title) + 2 * PADDING, inside.height + HEAD + PADDING
    lines = text_lines(node)
    return max(map(len, lines), default=0) * CHARACTER + 16, LINE * len(lines) + 7


def _draw_edge(way: list[Point], type: str) -> str:
    (x, y), *rest = way
    path = f"M{x:.1f} {y:.1f}"
    for to_x, to_y in rest:
        middle = (y + to_y) / 2
        path += (
            f"L{to_x:.1f} {to_y:.1f}"
            if x == to_x
            else f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        )
        x, y = to_x, to_y
    return f'<path d="{path}" marker-end="url(#sf-arrow)"><title>{escape(type)}</title></path>'
