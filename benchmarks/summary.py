"""The stored results in tables: what `python -m staticflow bench --json` measured, put into the
page that shows it.

``python benchmarks/summary.py`` writes the part between the marks of benchmarks/README.md from
benchmarks/results/latest.json. No number there is written by hand.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from staticflow.comparison.bench.results import Results, Table, Timing, load_results
from staticflow.measure.units import bytes_in_words, ratio_in_words, seconds_in_words

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results" / "latest.json"
PAGE = FOLDER / "README.md"
MARK, END = "<!-- results -->", "<!-- end of results -->"
UNITS = {"s": seconds_in_words, "B": bytes_in_words}


def is_eager(name: str) -> bool:
    """Whether a contestant of ours computes each operation at once."""
    return name.startswith("staticflow eager")


def is_eager_peer(name: str) -> bool:
    """Whether a contestant is PyTorch as it is written, without its compiler."""
    return name.startswith("PyTorch")


def compared(table: Table, eager: bool) -> tuple[Timing, str, str] | None:
    """Our fastest contestant of a mode, the fastest peer of it (of the static mode: of all), and
    how many times as long that takes; None if one of them is not there."""
    rows = table.contestants
    ours = [n for n in rows if n.startswith("staticflow") and is_eager(n) == eager]
    peers = [n for n in rows if not n.startswith("staticflow")]
    if eager:
        peers = [n for n in peers if is_eager_peer(n)]
    if not ours or not peers:
        return None
    row = min((rows[n] for n in ours), key=lambda row: row.run.median)
    peer = min(peers, key=lambda n: rows[n].run.median)
    ratio = ratio_in_words(rows[peer].run.median / row.run.median)
    if peer == table.best_peer:  # beside which it was measured, round by round
        ratio = f"{ratio_in_words(row.ratio.median)} ({row.ratio.low:.2f} to {row.ratio.high:.2f})"
    return row, peer, ratio


def cells(table: Table | None, eager: bool) -> list[str]:
    """Our time, the best peer and its time, and the ratio; blank if not measured."""
    found = None if table is None else compared(table, eager)
    if table is None or found is None:
        return ["", "", ""]
    words, (row, peer, ratio) = UNITS[table.unit], found
    return [words(row.run.median), f"{peer} {words(table.contestants[peer].run.median)}", ratio]


def table_of(results: Results, eager: bool) -> str:
    """A Markdown table of a mode: a row for each measurement, with columns for each number of
    threads."""
    counts = [m.threads for m in results.machines]
    rows: dict[tuple[str, str], dict[int, Table]] = {}
    for table in results.tables:
        if compared(table, eager):
            rows.setdefault((table.workload, table.title), {})[table.threads] = table
    mode = "eager" if eager else "static"
    lines = [["", "workload"]]
    for count in counts:
        threads = "1 thread" if count == 1 else f"{count} threads"
        lines[0] += [f"{mode}, {threads}", "best peer", "ratio (95 %)"]
    lines.append(["---"] * len(lines[0]))
    for (letter, title), by_threads in rows.items():
        shown = [cell for count in counts for cell in cells(by_threads.get(count), eager)]
        lines.append([letter, title, *shown])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def behind(results: Results) -> str:
    """The measurements of the static mode in which a peer is faster, the worst first."""
    found = sorted(
        (row.ratio.median, f"{table.title} on {table.threads} ({ratio_in_words(row.ratio.median)})")
        for table in results.tables
        if (at := compared(table, eager=False)) and (row := at[0]).ratio.median < 1
    )
    return f"Behind the best peer, the worst first: {'; '.join(text for _, text in found)}."


def block(results: Results) -> str:
    """What stands between the marks."""
    machine = results.machines[0]
    packages = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    days = sorted({table.when[:10] for table in results.tables if table.when})
    return (
        f"Measured on {machine.processor}, {' and '.join(days)}; {packages}. A ratio is how many "
        "times as long the best peer takes, or as much memory it holds; of the eager mode the best "
        f"peer is PyTorch's.\n\n{behind(results)}\n\n"
        f"{table_of(results, eager=False)}\n\n{table_of(results, eager=True)}"
    )


def render(results: Results) -> str:
    """The page as it should be."""
    text = PAGE.read_text()
    before, mark, rest = text.partition(MARK)
    _, end, after = rest.partition(END)
    assert mark and end, f"{PAGE.name} must have the marks {MARK} and {END}"
    return f"{before}{MARK}\n{block(results)}\n{END}{after}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(load_results(RESULTS)))
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
