"""``python -m staticflow bench``: the project's own workloads beside the peers that are there."""

from __future__ import annotations

import argparse
from pathlib import Path

from staticflow.errors import ArgumentError
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
        save_results,
    )
    from staticflow.comparison.bench.workloads import (
        Run,
        choose_workloads,
        find_folder,
        find_workloads,
        run_workloads,
    )
    from staticflow.runtime.threads import get_num_threads

    known = find_workloads(find_folder(arguments.folder))
    chosen = choose_workloads(known, arguments.workloads)
    if arguments.list:
        print("\n".join(f"{w.letter}  {w.path.name:<22}{w.title}" for w in chosen))
        return 0
    before = None if arguments.against is None else load_results(arguments.against)
    if arguments.json is not None:
        _check_writable(arguments.json)
    threads = arguments.threads or tuple(dict.fromkeys((1, get_num_threads())))
    results = run_workloads(chosen, Run(threads, arguments.rounds, arguments.seconds))
    if arguments.json is not None:
        save_results(results, arguments.json)
    if before is not None:
        print(format_changes(find_changes(before, results), before.when))
    return 1 if results.failed else 0


def _check_writable(path: Path) -> None:
    try:
        path.open("a").close()
    except OSError as error:
        raise ArgumentError(
            f"the results cannot be written to {str(path)!r}: {error.strerror}"
        ) from None
