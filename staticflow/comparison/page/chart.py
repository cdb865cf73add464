"""A chart: a drawing of matplotlib as SVG inside the page, its finding in words, and its numbers.

Every chart is drawn twice, for a screen and for a phone, and the style sheet shows one. Its colours
are variables of the style sheet, so that they follow a dark screen and a printer; its letters are
text, which can be selected, found and read aloud.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any
from xml.etree import ElementTree

from staticflow.comparison.page.markup import Content, Html, clean, tag
from staticflow.data_classes import dataclass
from staticflow.errors import StaticflowError

__all__ = ["COLOURS", "Canvas", "Chart", "MissingReportError", "chart", "check_report", "legend"]

WIDE, NARROW = 720, 340  # pixels

NAMES = (
    "ink", "muted", "line", "paper", "static", "eager", "peer",
    "import", "model", "trace", "optimise", "generate", "load", "first_step", "warm_up", "other",
)  # fmt: skip
COLOURS = {name: f"#{i + 1:02x}fe{i + 1:02x}" for i, name in enumerate(NAMES)}
"""By the name of a variable of the style sheet, the colour that stands for it while drawing."""
VARIABLES = {colour: f"var(--{name.replace('_', '-')})" for name, colour in COLOURS.items()}

SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "staticflow",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "axes.edgecolor": COLOURS["line"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.titlelocation": "left",
    "axes.titlecolor": COLOURS["ink"],
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": COLOURS["line"],
    "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["line"],
    "ytick.color": COLOURS["line"],
    "xtick.labelcolor": COLOURS["muted"],
    "ytick.labelcolor": COLOURS["muted"],
    "lines.solid_capstyle": "round",
}
SIZES = {
    WIDE: {"font.size": 12, "axes.titlesize": 13, "axes.labelsize": 12},
    NARROW: {"font.size": 11, "axes.titlesize": 12, "axes.labelsize": 11},
}

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"


class MissingReportError(StaticflowError, ImportError):
    """The package that draws the charts of a page is not installed."""


@dataclass(frozen=True, slots=True)
class Canvas:
    """What a chart is drawn on: a figure of matplotlib, whether it is for a phone, and its width
    in pixels."""

    figure: Any
    narrow: bool
    width: int

    def axes(self, panels: int = 1, **options: Any) -> list[Any]:
        """Panels beside each other on a screen, and below each other on a phone."""
        shape = (panels, 1) if self.narrow else (1, panels)
        return list(self.figure.subplots(*shape, squeeze=False, **options).flat)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of a report: ``title`` is its finding in a sentence, ``description`` what it shows,
    ``draw`` puts it on a canvas, ``heights`` are those of the wide and the narrow drawing in
    pixels, and ``numbers`` a table of what is drawn."""

    name: str
    title: str
    description: str
    draw: Callable[[Canvas], None]
    heights: tuple[int, int]
    numbers: Content = None
    legend: Content = None


def chart(of: Chart) -> Html:
    """A figure with both drawings, the finding above them, and the numbers to unfold."""
    drawings = [
        tag("div", render(of, width, height), class_=f"chart {kind}")
        for width, height, kind in zip((WIDE, NARROW), of.heights, ("wide", "narrow"), strict=True)
    ]
    numbers = of.numbers and tag("details", tag("summary", "The numbers of this chart"), of.numbers)
    caption = tag("figcaption", of.title)
    return tag("figure", caption, of.legend, drawings, numbers, id=f"chart-{of.name}")


def legend(entries: Iterable[tuple[str, str]]) -> Html:
    """Names of colours of the style sheet, each with what it stands for."""
    return tag(
        "ul",
        (tag("li", tag("i", class_=f"key fill-{name}"), text) for name, text in entries),
        class_="legend",
        aria_hidden="true",
    )


def check_report() -> None:
    """Find out, before the work, whether a page can be drawn.

    Raises `MissingReportError` where matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingReportError(
            "matplotlib, which draws the charts of a page, is not installed; install it with "
            'pip install "staticflow[report]"'
        ) from error


def render(of: Chart, width: int, height: int) -> Html:
    """The drawing of that size in pixels, as an SVG element.

    Raises `MissingReportError` where matplotlib is not installed.
    """
    check_report()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # A name may have letters that matplotlib has no measures for; the browser has them.
    settings: Any = {**SETTINGS, **SIZES[width]}
    with warnings.catch_warnings(), rc_context(settings):
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
        of.draw(Canvas(figure, width == NARROW, width))
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return inline(written.getvalue(), of, f"{of.name}-{width}")


def inline(svg: str, of: Chart, prefix: str) -> Html:
    """A file of matplotlib as an element of a page: without what concerns files, with names that
    are its own, colours of the style sheet, and words for those who do not see it."""
    root = ElementTree.fromstring(svg)
    links = re.compile(r"url\(#(\w+)\)")
    used = {name for e in root.iter() for v in e.attrib.values() for name in links.findall(v)}
    used |= {e.attrib[LINK][1:] for e in root.iter() if LINK in e.attrib}
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag in (f"{SVG}metadata", f"{SVG}style")]:
            parent.remove(child)
    for e in root.iter():
        e.tag = e.tag.removeprefix(SVG)
        name, link = e.attrib.pop("id", None), e.attrib.pop(LINK, None)
        for key, value in e.attrib.items():
            e.set(key, links.sub(rf"url(#{prefix}-\1)", restyle(value)))
        if name in used:
            e.set("id", f"{prefix}-{name}")
        if link is not None:
            e.set("href", f"#{prefix}-{link[1:]}")
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"{prefix}-title {prefix}-words"}
    for place, (kind, name, text) in enumerate(
        [("title", "title", of.title), ("desc", "words", of.description)]
    ):
        words = ElementTree.Element(kind, {"id": f"{prefix}-{name}"})
        words.text = clean(text)
        root.insert(place, words)
    return Html(ElementTree.tostring(root, encoding="unicode"))


def restyle(value: str) -> str:
    """An attribute with the style sheet's colours, and its font but for size and weight."""
    value = re.sub(
        r"font: (?:(\d+) )?([\d.]+)px [^;]*",
        lambda m: f"font-size: {m[2]}px" + (f"; font-weight: {m[1]}" if m[1] else ""),
        value,
    )
    return re.sub(r"#[0-9a-f]{6}", lambda m: VARIABLES.get(m[0], m[0]), value)
