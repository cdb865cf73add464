"""The page: its sections in their order, and all that makes it one file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from staticflow.comparison.page.ablation import ablation_chart
from staticflow.comparison.page.chart import Chart, chart
from staticflow.comparison.page.facts import (
    agreement_table,
    compilation_table,
    kernel_table,
    machine_list,
    pass_table,
    peer_table,
    roofline_table,
    scaling_table,
    score_table,
)
from staticflow.comparison.page.findings import agreement_sentence
from staticflow.comparison.page.graphs import graph_pair
from staticflow.comparison.page.markup import Content, Html, clean, json_script, tag
from staticflow.comparison.page.memory import buffer_tables, memory_chart
from staticflow.comparison.page.summary import summary
from staticflow.comparison.page.sweep import fit_section, map_chart
from staticflow.comparison.page.timing import cost_chart, curve_chart, loss_chart, step_chart
from staticflow.comparison.record import Agreement, Comparison

__all__ = ["render_page", "write_page"]

MOST_BYTES = 2_000_000
"""How long a page may be. In a longer one, the record stands without its longest lists."""

MOST_NOTES = 50
"""So many notes are shown."""


def write_page(comparison: Comparison, path: str | Path) -> None:
    """Write the page of a comparison to a file, in UTF-8.

    Raises `MissingReportError` where matplotlib is not installed.
    """
    Path(path).write_text(render_page(comparison), encoding="utf-8")


def render_page(comparison: Comparison) -> str:
    """The page of a comparison: one HTML document of at most 2 MB that loads nothing.

    It reads on a phone, on paper and on a dark screen, and without its script. Raises
    `MissingReportError` where matplotlib is not installed.
    """
    sections = list(build_sections(comparison))
    body = [
        tag("a", "Skip to the findings", href="#findings", class_="skip"),
        tag("header", summary(comparison)),
        tag("nav", [link(name, title) for name, title, _ in sections], aria_label="Sections"),
        tag("main", [section(*s) for s in sections], id="findings", tabindex=-1),
    ]
    shown = "".join(body)
    script = read_asset("page.js")
    record = embed_record(comparison, MOST_BYTES - len(shown.encode()) - len(script) - 20_000)
    page = tag(
        "html",
        tag("head", build_head(f"{comparison.model.name}: static and eager", script)),
        tag("body", Html(shown), record, tag("script", Html(script))),
        lang="en",
    )
    return f"<!doctype html>\n{page}\n"


def read_asset(name: str) -> str:
    """The text of a file beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def build_head(title: str, script: str) -> Iterator[Html]:
    """What stands in the head. The policy lets the browser load nothing, and run nothing but this
    script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    styles = "style-src 'unsafe-inline'; img-src data:"
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; {styles}"
    yield tag("meta", charset="utf-8")
    yield Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">')
    yield tag("meta", name="viewport", content="width=device-width, initial-scale=1")
    yield tag("meta", name="color-scheme", content="light dark")
    yield tag("title", title)
    yield tag("link", rel="icon", href="data:,")
    yield tag("style", Html(read_asset("page.css")))


def link(name: str, title: str) -> Html:
    """A link to a section."""
    return tag("a", title, href=f"#{name}")


def section(name: str, title: str, content: Content) -> Html:
    """A section with its head."""
    return tag("section", tag("h2", title), content, id=name)


def some_notes(notes: Sequence[str]) -> list[str]:
    """The first notes, and how many more there are."""
    left = len(notes) - MOST_NOTES
    return [*notes[:MOST_NOTES], *([f"{left:,} more notes"] if left > 0 else [])]


def figure(of: Chart | None) -> Html | None:
    """A chart, if there is one."""
    return None if of is None else chart(of)


def build_sections(comparison: Comparison) -> Iterator[tuple[str, str, Content]]:
    """The sections that have something to say: a name, a title and the content of each."""
    for name, title, content in all_sections(comparison):
        kept = [c for c in content if c]
        if kept:
            yield name, title, kept


def all_sections(comparison: Comparison) -> Iterator[tuple[str, str, list[Content]]]:
    """All sections in their order, with what there is of each."""
    of, memory = comparison, comparison.memory
    modes = {"eager": of.eager} | ({} if of.static is None else {"static": of.static})
    yield "time", "Time, all costs counted", [figure(curve_chart(of))]
    yield "costs", "What comes before", [figure(cost_chart(of)), fold_passes(of)]
    yield "step", "A steady step", [
        figure(step_chart(of)), peer_table(of.peers), roofline_table(modes)
    ]  # fmt: skip
    yield "agreement", "Agreement", [
        *agreement_words(of.agreement), figure(loss_chart(of)), score_table(modes)
    ]  # fmt: skip
    yield "memory", "Memory of a step", [figure(memory_chart(memory)), *buffer_tables(memory)]
    yield "kernels", "Kernels by source line", [kernel_table(of.kernels)]
    yield "graphs", "The two graphs", [graph_pair(of.graphs)]
    yield "ablation", "What each pass is worth", [
        figure(ablation_chart(of.ablation)), idle_passes(of.no_effect)
    ]  # fmt: skip
    if of.sweep is not None:
        yield "map", "Which mode wins where", [figure(map_chart(of.sweep)), *fit_section(of.sweep)]
    yield "processes", "Several processes", [scaling_table(of.scaling)]
    yield "compilations", "Compilations", [compilation_table(of.compilations)]
    yield "method", "How this was measured", [
        of.notes and tag("ul", [tag("li", note) for note in some_notes(of.notes)]), machine_list(of)
    ]  # fmt: skip


def idle_passes(names: tuple[str, ...]) -> Html | None:
    """The passes that change nothing in this program."""
    if not names:
        return None
    return tag("p", f"Without these passes the program is the same: {', '.join(names)}.")


def fold_passes(comparison: Comparison) -> Html | None:
    """The times of the passes, to unfold."""
    passes = pass_table(comparison.static)
    return passes and tag("details", tag("summary", "The passes of the optimiser"), passes)


def agreement_words(agreement: Agreement | None) -> list[Content]:
    """How far the modes are apart, and all that was tried to tell them apart."""
    if agreement is None:
        return []
    runs = [
        f"{mode}: two runs gave {'the same bits' if same else 'different bits'}"
        for mode, same in agreement.deterministic.items()
    ] + [
        f"{mode}: one thread and all of them gave {'the same bits' if same else 'different bits'}"
        for mode, same in agreement.same_on_threads.items()
    ]
    points = [f"Gradient check: {agreement.gradcheck}", *runs, *agreement.on_purpose]
    return [
        tag("p", f"Verdict: {agreement.verdict.rstrip('.')}. {agreement_sentence(agreement)}"),
        agreement_table(agreement),
        tag("ul", [tag("li", point) for point in points]),
    ]


def embed_record(comparison: Comparison, room: int) -> Html:
    """The record as JSON at the end of the page, and the button by which the script offers it.
    Where it is longer than there is room, in bytes, it is without its longest lists, as many of
    them as must be, and says which."""
    record = comparison.as_dict()
    script = json_script("record", record)
    gone: list[str] = []
    for name, leave_out in _LONG.items():
        if len(script.encode()) <= room:
            break
        gone.append(name)
        leave_out(record)
        script = json_script("record", record)
    words = "The whole record stands at the end of this file as JSON."
    if gone:
        words = (
            f"The record stands at the end of this file as JSON, without the {', '.join(gone)}: "
            "too large for a page; --json writes all of it."
        )
    name = f"{clean(comparison.model.name)}.json"
    button = tag("button", "Download the record", type="button", id="download", hidden=True,
                 data_name=name)  # fmt: skip
    return tag("footer", tag("p", words), button, script)


def _without_timelines(record: dict[str, Any]) -> None:
    for memory in record["memory"].values():
        memory["timeline"] = []


def _without_losses(record: dict[str, Any]) -> None:
    for mode in filter(None, (record["eager"], record["static"])):
        mode["losses"] = []


_LONG: dict[str, Callable[[dict[str, Any]], None]] = {
    "graphs": lambda record: record.update(graphs={"eager": None, "static": None}),
    "memory of each operation": _without_timelines,
    "losses": _without_losses,
    "kernels": lambda record: record.update(kernels=[]),
    "notes": lambda record: record.update(notes=[]),
}
"""What grows with a model or its steps, in the order in which a record does without it."""
