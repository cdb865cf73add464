"""The page of a comparison, without a browser: what it says, that nothing of a user becomes markup,
its size, its colours."""

from __future__ import annotations

import builtins
import json
import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest
from made_up_comparisons import FULL, MANY, NOTHING, RECORDS, near

from staticflow.comparison.page import MissingReportError, render_page, write_page
from staticflow.comparison.page.ablation import ablation_sentence
from staticflow.comparison.page.document import read_asset
from staticflow.comparison.page.findings import (
    break_even_sentence,
    speed_sentence,
    spread_ratio,
    step_ratio,
)
from staticflow.comparison.page.memory import memory_sentence
from staticflow.comparison.page.sweep import STRONGEST, map_sentence, predict, shade
from staticflow.comparison.page.tables import table
from staticflow.comparison.record import BreakEven, Spread

pytest.importorskip("matplotlib")

VOID = {"meta", "link", "br", "col"}


@cache
def page_of(name: str) -> str:
    """The page of a made-up record, drawn once for all tests."""
    return render_page(RECORDS[name])


class Outline(HTMLParser):
    """The elements of a page. Every one that opens must close, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.data: dict[str, str] = {}
        self.feed(page)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        kind = self.open[-1] if self.open else ""
        if kind in ("script", "style"):
            name = self.elements[-1][1].get("id") or kind
            self.data[name] = self.data.get(name, "") + data
        else:
            self.words.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_is_a_sound_page(name: str) -> None:
    page = page_of(name)
    assert len(page.encode()) <= 2_000_000
    outline = Outline(page)
    ids = [a["id"] for _, a in outline.elements if "id" in a]
    assert len(ids) == len(set(ids)), "an id stands twice"
    for _, attrs in outline.elements:
        for key in ("href", "aria-labelledby"):
            for target in (attrs.get(key) or "").split():
                assert target.lstrip("#") in ids or target == "data:,", target
        for used in re.findall(r"url\(#([\w-]+)\)", " ".join(filter(None, attrs.values()))):
            assert used in ids
        assert not {"src", "onclick", "onload", "onerror"} & attrs.keys()
    assert "http" not in re.sub(
        r'xmlns="http://www.w3.org/2000/svg"|http-equiv', "", page_of("nan")
    )
    for svg in outline.named("svg"):
        assert svg["role"] == "img" and (svg.get("aria-labelledby") or svg.get("aria-label"))


@pytest.mark.parametrize("name", RECORDS)
def test_the_record_inside_is_the_record(name: str) -> None:
    inside = json.loads(Outline(page_of(name)).data["record"])
    expected = RECORDS[name].as_dict()
    if RECORDS[name] is MANY:  # not all of it fits
        expected["graphs"] = {"eager": None, "static": None}
        expected["eager"]["losses"] = []
        for memory in expected["memory"].values():
            memory["timeline"] = []
    assert inside == json.loads(json.dumps(expected))


def test_of_a_record_that_is_too_large_the_page_says_what_is_left_out() -> None:
    page = page_of("many")
    assert "without the graphs, memory of each operation, losses: too large for a page" in page
    assert "10 more notes" in page and page_of("full").count("more notes") == 0
    long = table("Numbers", ["n"], [(str(n),) for n in range(1200)])
    assert "Numbers, the first 1000 of 1,200" in long and long.count("<tr>") == 1001
    assert "2,000 of the steps are drawn" in page


def test_no_name_becomes_markup() -> None:
    outline = Outline(page_of("awkward"))
    scripts = outline.named("script")
    assert [s.get("type") for s in scripts] == ["application/json", None]
    assert outline.data["script"] == read_asset("page.js")
    assert not any("alert" in (k + (v or "")) for _, a in outline.elements for k, v in a.items()
                   if k not in ("aria-label", "data-key", "data-name", "title"))  # fmt: skip
    text = "".join(outline.words)
    assert "<script>alert('x')</script>&\"'`$\\frac{1}{2}$� 模型 🙂 MadeUpNet" in text
    assert "\x07" not in page_of("awkward")


def test_the_first_screen_answers() -> None:
    page = page_of("full")
    first = "".join(Outline(page[: page.index("<nav")] + "</body></html>").words)
    for words in (
        "A static step is 3.12 times as fast as an eager one. Compiling has paid after 1,052 steps",
        "2.88 to 3.38 ×",
        "step 403",
        "95 % interval 990 to 1,120",
        "they agree",
        "9.0e-07 of the largest magnitude, where 1.0e-05 is allowed",
        "3.72 MiB",
        "the plan predicted 1.19 MiB",
    ):
        assert words in first


@pytest.mark.parametrize(
    ("name", "words", "missing"),
    [
        ("refused", "made_up.py:14: if x.sum() &gt; 0: asks a symbol", "chart-curve"),
        ("refused", "This model cannot be a graph; only the eager mode was measured.", "ablation"),
        ("nan", "Both modes have a NaN from step 4 on", ">they agree<"),
        ("nan", "NaN in both", ">they agree<"),
        ("nan", "the static mode never makes up for what compiling costs", "step 1,052"),
        ("nothing", "It was interrupted in: warming up.", "<svg"),
        ("nothing", "not measured", ">they agree<"),
        ("many", "5,000 nodes (4,998 op, 2 input)", "chart-map"),
        ("many", "Drawn are the first 300; 4,700 are left out.", "chart-map"),
    ],
)
def test_what_cannot_be_shown_is_said(name: str, words: str, missing: str) -> None:
    page = page_of(name).split('<script type="application/json"')[0]
    assert words in page
    assert missing not in page.split("</style>")[1]


def test_sentences_follow_the_intervals() -> None:
    ratio = step_ratio(FULL)
    assert ratio is not None and ratio.winner == "static"
    assert spread_ratio(near(1.0, 0.1), near(1.05, 0.1)).winner is None
    assert spread_ratio(near(1.0), near(2.0)).winner == "eager"
    assert spread_ratio(near(1.0), Spread(0.0, 0.0, 0.0, 1)).winner is None  # nothing can be said
    assert speed_sentence(NOTHING) == "It was not measured how long a step takes in both modes."
    assert "from step 1,052 on (95 % interval 990 to 1,120)" in break_even_sentence(
        FULL.break_even["cold"], "cold"
    )
    assert "never" in break_even_sentence(BreakEven(None, None, None), "cold")
    assert "990 to never" in break_even_sentence(BreakEven(1052, 990, None), "cold")
    assert "not measured" in break_even_sentence(None, "warm")
    assert memory_sentence(FULL.memory).endswith("3.12 × the 1.19 MiB of the static one.")
    order = sorted(FULL.ablation, key=lambda row: -row.ratio)
    assert "Without fuse a step takes 2.41 times as long; of 5 passes, 3" in ablation_sentence(
        order
    )
    assert FULL.sweep is not None and FULL.sweep.fit is not None
    assert "Static is faster at 15 of 16 settings" in map_sentence(FULL.sweep)
    assert predict(FULL.sweep.fit, FULL.sweep.points[0]) == "static"


def test_without_matplotlib_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    original = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingReportError, match=r'pip install "staticflow\[report\]"') as error:
        write_page(FULL, tmp_path / "page.html")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "page.html").exists()


def variables(scheme: str) -> dict[str, str]:
    """The colours of the style sheet in the light or the dark scheme."""
    light, dark = re.findall(r":root \{(.*?)\}", read_asset("page.css"), re.DOTALL)[:2]
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})\b", light))
    return found | (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})\b", dark)) if scheme == "dark" else {}
    )


def channels(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def contrast(a: list[float], b: list[float]) -> float:
    """The ratio of luminances of WCAG 2.2, from 1 to 21."""

    def luminance(colour: list[float]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(a), luminance(b)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(scheme: str) -> None:
    """Text has 4.5 on whatever it stands, and what is drawn has 3, as WCAG 2.2 asks at level AA."""
    colours = {name: channels(value) for name, value in variables(scheme).items()}
    for text in ("ink", "muted", "static", "eager", "good", "bad", "link"):
        for ground in ("paper", "raised"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["paper"], colours["link"]) >= 4.5  # the button
    drawn = ("static", "eager", "peer", "import", "model", "trace", "optimise", "generate", "load",
             "first-step", "warm-up", "other")  # fmt: skip
    for name in drawn:
        assert contrast(colours[name], colours["paper"]) >= 3, name
    for mode in ("static", "eager"):  # the strongest cells of the map, under its numbers
        cell = [
            STRONGEST * m + (1 - STRONGEST) * p
            for m, p in zip(colours[mode], colours["paper"], strict=True)
        ]
        assert contrast(colours["ink"], cell) >= 4.5, mode
    assert shade(1e9)[1] == shade(1e-9)[1] == STRONGEST
    assert shade(float("nan"))[0] == "muted"


@pytest.mark.parametrize("span", [1.05, 1.5, 3.0, 9.0, 50.0, 99.0, 101.0, 1e5])
@pytest.mark.parametrize("low", [1.1, 3.2, 6.0])
def test_a_logarithmic_axis_has_two_marks_at_least(low: float, span: float) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from staticflow.comparison.page.axes import seconds_axis

    axes = Figure().subplots()
    axes.set(yscale="log")
    axes.plot([1, 2], [low, low * span])
    seconds_axis(axes.yaxis)
    bottom, top = axes.get_ylim()
    shown = [m for m in axes.yaxis.get_majorticklocs() if bottom <= m <= top]
    assert 2 <= len(shown) <= 9
