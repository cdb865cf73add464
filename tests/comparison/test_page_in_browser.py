"""The page of a comparison in a real browser: the console, the widths, the keyboard, dark and paper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Browser, needs_chromium, open_browser
from made_up_comparisons import RECORDS

from staticflow.comparison.page import write_page

pytest.importorskip("matplotlib")
pytestmark = needs_chromium

WIDTHS = (380, 800, 1280)

WIDER = """[...document.querySelectorAll("body *")].filter((e) => {
  const outer = e.closest(".box");
  return (!outer || outer === e) && !e.matches(".skip") &&
    e.getBoundingClientRect().right > innerWidth + 0.5;
}).map((e) => e.outerHTML.slice(0, 80))"""
SMALL = """[...document.querySelectorAll(".chart text")].filter((e) => {
  const box = e.getBoundingClientRect();
  return box.height > 0 && box.height < 9;
}).length"""
FOCUS = """(() => {
  const e = document.activeElement;
  const kind = e.tagName.toLowerCase() + (e.className ? "." + e.className.split(" ")[0] : "");
  return [kind, e.matches(":focus-visible") && getComputedStyle(e).outlineStyle !== "none"];
})()"""
ORDER = """[...document.querySelectorAll("#kernels tbody tr")].map((r) => r.cells[2].textContent)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each page is written once."""
    return tmp_path_factory.mktemp("pages")


def url_of(folder: Path, name: str) -> str:
    path = folder / f"{name}.html"
    if not path.exists():
        write_page(RECORDS[name], path)
    return path.as_uri()


@pytest.mark.parametrize("name", ["full", "many", "awkward", "nothing"])
def test_no_error_no_request_no_overflow(browser: Browser, folder: Path, name: str) -> None:
    url = url_of(folder, name)
    for width in WIDTHS:
        browser.visit(url, width, color_scheme="dark" if width == 800 else "light")
        assert browser.errors == []
        assert browser.requests == [url]
        assert browser.run("document.documentElement.scrollWidth") <= width, browser.run(WIDER)
        assert browser.run(WIDER) == []
        assert browser.run(SMALL) == 0, "letters of a chart cannot be read"
    assert browser.run("document.querySelector('h1').textContent").endswith("MadeUpNet")


def test_an_error_and_a_request_are_noticed(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<img src='none.png'><script>console.error('e'); missing()</script>"
                    "<div style='width:2000px'>wide</div>")  # fmt: skip
    browser.visit(page.as_uri(), 380)
    assert len(browser.errors) >= 2 and len(browser.requests) == 2
    assert browser.run("document.documentElement.scrollWidth") > 380
    assert browser.run(WIDER) != []


def test_the_record_can_be_read_and_loaded(browser: Browser, folder: Path) -> None:
    browser.visit(url_of(folder, "awkward"))
    text = browser.run("document.getElementById('record').textContent")
    assert json.loads(text) == json.loads(json.dumps(RECORDS["awkward"].as_dict()))
    assert browser.run("document.getElementById('download').hidden") is False


def test_the_keyboard_reaches_everything(browser: Browser, folder: Path) -> None:
    browser.visit(url_of(folder, "full"))
    reached: list[tuple[str, bool]] = []
    for _ in range(80):
        browser.press("Tab")
        reached.append(tuple(browser.run(FOCUS)))
        if reached[-1][0] == "body":
            break
    kinds = [kind for kind, _ in reached]
    assert kinds[0] == "a.skip"
    boxes = browser.run(
        "[...document.querySelectorAll('.box')].filter(e => e.checkVisibility()).length"
    )
    assert sum(kind == "div.box" for kind in kinds) == boxes > 8
    assert {"a", "summary", "button"} <= set(kinds)
    assert all(seen for kind, seen in reached if kind != "body"), "a focus cannot be seen"


def test_a_table_is_sorted_by_the_keyboard(browser: Browser, folder: Path) -> None:
    browser.visit(url_of(folder, "many"))
    browser.run("document.querySelectorAll('#kernels th button')[2].focus()")
    browser.press("Enter")
    descending = browser.run(ORDER)
    browser.press("Enter")
    ascending = browser.run(ORDER)

    def shares(cells: list[str]) -> list[float]:
        return [float(cell.split(" ")[0]) for cell in cells if cell != "–"]

    assert shares(descending) == sorted(shares(descending), reverse=True)
    assert shares(ascending) == sorted(shares(ascending)) != shares(descending)
    unknown = descending.count("–")
    assert unknown and descending[-unknown:] == ascending[-unknown:] == ["–"] * unknown
    assert browser.run("document.querySelectorAll('#kernels th')[2].ariaSort") == "ascending"


def test_dark_and_light_differ_and_both_are_honoured(browser: Browser, folder: Path) -> None:
    grounds = {}
    for scheme in ("light", "dark"):
        browser.visit(url_of(folder, "full"), color_scheme=scheme)
        grounds[scheme] = browser.run("getComputedStyle(document.body).backgroundColor")
        lines = browser.run(
            "[...document.querySelectorAll('#chart-curve .wide path')].map("
            "e => getComputedStyle(e).stroke).filter((c, i, all) => all.indexOf(c) === i)"
        )
        assert grounds[scheme] not in lines
        assert not any(" 254, " in line for line in lines), "a colour was not replaced"
    assert grounds == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}


def test_it_can_be_printed(browser: Browser, folder: Path) -> None:
    browser.visit(url_of(folder, "full"), color_scheme="dark")
    printed = browser.print_pdf()
    assert printed.startswith(b"%PDF") and 3 <= printed.count(b"/Type /Page\n") <= 20
