"""What the passes did: a row for each that did something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from staticflow.graph.graph import Graph, regions_of
from staticflow.measure.lines import lines_in_words
from staticflow.measure.tables import cut, fold_lines, table
from staticflow.measure.units import seconds_in_words
from staticflow.passes.cluster import cluster
from staticflow.passes.pipeline import PassReport

__all__ = ["count_nodes", "ledger", "summarise_passes"]


def count_nodes(graph: Graph) -> int:
    """The nodes of a graph and of the loops and branches in it; a cluster is one."""
    inner = (r for n in graph.nodes if n.op is not cluster for r in regions_of(n))
    return len(graph.nodes) + sum(map(count_nodes, inner))


def did_something(report: PassReport) -> bool:
    """Whether a pass changed the graph."""
    return bool(report.counts) or count_nodes(report.before) != count_nodes(report.after)


def summarise_passes(reports: Sequence[PassReport]) -> Iterator[str]:
    """In a few words, from how many nodes to how many, and which passes did something how often."""
    if not reports:
        yield "none"
        return
    first, last = count_nodes(reports[0].before), count_nodes(reports[-1].after)
    yield f"{first} to {last} nodes"
    for report in filter(did_something, reports):
        yield f"{report.name} {report.counts.total()}" if report.counts else report.name


def ledger(reports: Sequence[PassReport]) -> list[str]:
    """A row for each pass that did something: the nodes before and after it, its seconds, and under
    it how often each of its rules fired, at which lines."""
    rows = [["pass", "nodes", "time", "rule", "fired", "from"]]
    for report in filter(did_something, reports):
        nodes = f"{count_nodes(report.before)} -> {count_nodes(report.after)}"
        head = [report.name, nodes, seconds_in_words(report.seconds)]
        fired = sorted(report.counts.items(), key=lambda item: (-item[1], item[0]))
        for rule, times in fired or [("", 0)]:
            locs = report.counts.lines.get(rule, {})
            where = lines_in_words(tuple(locs)) if locs else ""
            rows.append(
                [
                    *head,
                    cut(rule.removeprefix(f"{report.name} "), 30),
                    str(times) if times else "",
                    where,
                ]
            )
            head = ["", "", ""]
    quiet = [r.name for r in reports if not did_something(r)]
    seconds = seconds_in_words(sum(r.seconds for r in reports if r.name in quiet))
    lines = table(rows, "<<><><")
    if quiet:
        lines += fold_lines(f"nothing to do, in {seconds}: {', '.join(quiet)}")
    return lines
