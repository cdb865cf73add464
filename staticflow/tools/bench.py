"""``python -m staticflow bench``: the project's own workloads beside the peers that are there."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from staticflow.tools.numbers import positive_int, positive_number

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("workloads", nargs="*", help="letters, or names of scripts; all of them by default")
    add("--list", action="store_true", help="say which workloads there are, and run none")
    add("--threads", type=_threads, help="such as 1,2; one and all of them by default")
    add("--rounds", type=positive_int, default=15, help="turns of each contestant")
    add("--seconds", type=positive_number, default=0.1, help="of a turn")
    add("--json", type=Path, metavar="FILE", help="write what was measured there")
    add("--against", type=Path, metavar="FILE", help="say what changed since that was written")
    add("--folder", type=Path, help="the folder of the benchmarks")


def _threads(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(positive_int(word) for word in text.split(",")))


def run(arguments: argparse.Namespace) -> int:
    """Run the command; the exit status is 1 if a workload failed."""
    from staticflow.comparison.bench.results import (
        find_changes,
        format_changes,
        load_results,
        results_as_json,
    )
    from staticflow.comparison.bench.workloads import (
        Run,
        choose_workloads,
        find_folder,
        find_workloads,
        run_workloads,
    )
    from staticflow.comparison.output import Output
    from staticflow.runtime.threads import get_num_threads

    known = find_workloads(find_folder(arguments.folder))
    chosen = choose_workloads(known, arguments.workloads)
    if arguments.list:
        print("\n".join(f"{w.letter}  {w.path.name:<22}{w.title}" for w in chosen))
        return 0
    before = None if arguments.against is None else load_results(arguments.against)
    threads = arguments.threads or tuple(dict.fromkeys((1, get_num_threads())))
    how = Run(threads, arguments.rounds, arguments.seconds)
    with ExitStack() as outputs:
        file = None
        if arguments.json is not None:
            file = outputs.enter_context(Output(arguments.json, "the results"))
        results = run_workloads(chosen, how)
        if file is not None:
            file.write(results_as_json(results))
    for fault in results.failed:
        print(fault, file=sys.stderr)
    if before is not None:
        print(format_changes(find_changes(before, results), before.when))
    return 1 if results.failed else 0
