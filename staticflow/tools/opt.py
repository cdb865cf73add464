"""``python -m staticflow opt``: passes over a graph that is text."""

from __future__ import annotations

import argparse
from pathlib import Path

from staticflow.tools.numbers import natural_int, size_of

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("file", metavar="FILE.sf", help="a graph as text, as print(graph) shows it; - is the "
        "standard input")  # fmt: skip
    add("--passes", metavar="A,B", help="the passes that run, in this order; all by default")
    add("--numerics", choices=("exact", "strict", "fast"), default="strict",
        help="what passes may do, if all of them run")  # fmt: skip
    add("--diff", action="store_true", help="what is different, instead of the graph")
    add("--dump", metavar="DIR", type=Path, help="write the graph after every pass into a folder "
        "of its own in DIR")  # fmt: skip
    add("--bisect", action="store_true", help="name the first rewrite that changes a result, on "
        "random arrays; the status is 1 if there is one")  # fmt: skip
    add("--size", metavar="NAME=N", action="append", type=size_of, default=[], help="the value of "
        "an unknown size, for --bisect; 3 by default")  # fmt: skip
    add("--seed", metavar="N", type=natural_int, default=0, help="of the arrays of --bisect")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from staticflow.comparison.stages import bisect_text, diff_graphs, read_graph, run_passes

    graph = read_graph(arguments.file)
    if arguments.bisect:
        found = bisect_text(
            graph, arguments.passes, arguments.numerics, dict(arguments.size), arguments.seed
        )
        print(found or "no pass changes a result")
        return 1 if found else 0
    after = run_passes(graph, arguments.passes, arguments.numerics, arguments.dump)
    print(diff_graphs(graph, after, arguments.file) if arguments.diff else str(after), end="")
    return 0
