"""The committed reports, and what the pages say of them: nothing there is written by hand."""

from __future__ import annotations

import runpy
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import staticflow as sf
from staticflow.measure.units import seconds_in_words

FOLDER = Path(__file__).parents[2] / "examples" / "reports"
SUMMARY = runpy.run_path(str(FOLDER / "summary.py"))


def test_the_pages_show_the_reports_that_are_there() -> None:
    """If not: ``python examples/reports/summary.py``."""
    for path, text in SUMMARY["render"](SUMMARY["load_reports"]()).items():
        assert path.read_text() == text, f"{path.name} is not what the reports say"


def test_the_page_of_the_benchmarks_shows_the_results_that_are_there() -> None:
    """If not: ``python benchmarks/summary.py``."""
    summary = runpy.run_path(str(FOLDER.parents[1] / "benchmarks" / "summary.py"))
    results = summary["load_results"](summary["RESULTS"])
    assert summary["PAGE"].read_text() == summary["render"](results)
    text = summary["block"](results)
    assert all(table.title in text for table in results.tables)


def _report() -> Any:
    net = sf.nn.Linear(3, 2)
    inputs = ("f32[N=4, 3]",)
    found = sf.compare(net, inputs, loss="mse", optimizer="sgd", steps=5, quick=True)
    return found.as_dict()


def test_a_table_has_what_was_measured_and_says_what_was_not() -> None:
    report = _report()
    rows = SUMMARY["table"](SUMMARY["SHORT"], [report]).splitlines()
    assert len(rows) == 3 and len({row.count("|") for row in rows}) == 1
    assert seconds_in_words(report["eager"]["step"]["median"]) in rows[2]
    assert "not measured" in rows[2]  # in a quick comparison nothing breaks even
    report["break_even"]["cold"] = {"step": 1234, "low": 1000, "high": None}
    assert "1,234" in SUMMARY["table"](SUMMARY["SHORT"], [report])
    assert "1,234 (1,000 to never)" in SUMMARY["sideways"](SUMMARY["LONG"], [report])


def test_the_picture_is_an_svg_with_both_modes_in_it() -> None:
    slow, fast = (_report() for _ in range(2))
    fast["static"]["step"] = dict.fromkeys(("median", "low", "high"), 1e-7) | {"count": 5}
    fast["eager"]["step"] = dict.fromkeys(("median", "low", "high"), 1e-3) | {"count": 5}
    root = ET.fromstring(SUMMARY["picture"]([slow, fast]))
    marks = [e for e in root.iter() if e.get("class") in ("eager", "static")]
    spots = [float(e.get("cx") or e.get("x") or 0) for e in marks if not e.tag.endswith("tspan")]
    assert len(spots) == 4 and spots[2] > spots[3], "what takes longer is further right"
    assert "10,000 ×" in "".join(root.itertext())
