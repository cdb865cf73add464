"""What the passes did: a row for each that did something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from staticflow.graph.graph import Graph, regions_of
from staticflow.measure.lines import lines_in_words
from staticflow.measure.stages import StageCosts
from staticflow.measure.tables import WIDTH, cut, fold_lines, table
from staticflow.measure.units import bytes_in_words, flops_in_words, seconds_in_words
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


def ledger(
    reports: Sequence[PassReport], costs: Sequence[tuple[StageCosts, StageCosts]]
) -> list[str]:
    """A row for each pass that did something: before and after it the nodes, and the kernels that
    would run if it were the last to improve the graph, with their bytes and FLOPs; its seconds; and
    under it how often each of its rules fired, at which lines. ``costs`` are those before
    and after each of the ``reports``."""
    rows = [["pass", "nodes", "kernels", "bytes", "FLOPs", "time"]]
    rules: list[list[str]] = [[]]
    for report, (was, now) in zip(reports, costs, strict=True):
        if not did_something(report):
            continue
        rows.append(
            [
                report.name,
                _change(str(count_nodes(report.before)), str(count_nodes(report.after))),
                _change(str(was.kernels), str(now.kernels)),
                _change(bytes_in_words(was.bytes), bytes_in_words(now.bytes)),
                _change(_flops(was.flops), _flops(now.flops)),
                seconds_in_words(report.seconds),
            ]
        )
        rules.append([*_rules(report)])
    lines = []
    for row, inside in zip(table(rows, "<<<<<>"), rules, strict=True):
        lines += [row, *inside]
    quiet = [r.name for r in reports if not did_something(r)]
    seconds = seconds_in_words(sum(r.seconds for r in reports if r.name in quiet))
    if quiet:
        lines += fold_lines(f"nothing to do, in {seconds}: {', '.join(quiet)}")
    return lines


def _rules(report: PassReport) -> Iterator[str]:
    """A line for each rule that fired, those that fired most first."""
    for rule, times in sorted(report.counts.items(), key=lambda item: (-item[1], item[0])):
        locs = report.counts.lines.get(rule, {})
        where = f" at {lines_in_words(tuple(locs))}" if locs else ""
        yield cut(f"    {rule.removeprefix(f'{report.name} ')} {times}{where}", WIDTH)


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _flops(number: int) -> str:
    return flops_in_words(number).removesuffix("FLOP").strip()
