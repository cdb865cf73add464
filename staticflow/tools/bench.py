"""``python -m staticflow bench``: the project's own workloads beside the peers that are there.

With ``--device cuda`` those are run that measure a GPU.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from staticflow.errors import ArgumentError, DeviceError
from staticflow.tools.numbers import positive_int, positive_number

if TYPE_CHECKING:
    from staticflow.comparison.bench.workloads import Run

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("workloads", nargs="*", help="letters, or names of scripts; all of them by default")
    add("--list", action="store_true", help="say which workloads there are, and run none")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="what is measured; cpu")
    add("--threads", type=_threads, help="such as 1,2; one and all of them by default")
    add("--rounds", type=positive_int, help="turns of each contestant; 15")
    add("--seconds", type=positive_number, help="of a turn; 0.1")
    add("--most", type=positive_number, help="seconds of a table: beyond, fewer rounds; 60")
    add("--limit", type=positive_number, help="seconds for a contestant to be ready; 120")
    add("--quick", action="store_true", help="a look: 5 rounds of 0.03 s, at most 10 s a table")
    add("--json", type=Path, metavar="FILE", help="write what was measured there")
    add("--add", action="store_true", help="keep what FILE has of what is not measured now")
    add("--against", type=Path, metavar="FILE", help="say what changed since that was written")
    add("--folder", type=Path, help="the folder of the benchmarks")


def _threads(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(positive_int(word) for word in text.split(",")))


def run(arguments: argparse.Namespace) -> int:
    """Run the command; the exit status is 1 if a workload failed."""
    from staticflow.comparison.bench.results import (
        find_changes,
        format_changes,
        join_results,
        load_results,
        refuse_another_machine,
        results_as_json,
    )
    from staticflow.comparison.bench.workloads import (
        choose_workloads,
        find_folder,
        find_workloads,
        run_workloads,
    )
    from staticflow.comparison.output import Output
    from staticflow.measure.machine import machine
    from staticflow.runtime.threads import get_num_threads

    on_gpu = arguments.device == "cuda"
    known = find_workloads(find_folder(arguments.folder), on_gpu=on_gpu)
    chosen = choose_workloads(known, arguments.workloads)
    if arguments.list:
        print("\n".join(f"{w.letter}  {w.path.name:<22}{w.title}" for w in chosen))
        return 0
    gpu = _gpu_name() if on_gpu else None
    before = None if arguments.against is None else load_results(arguments.against)
    kept = None
    if arguments.add:
        if arguments.json is None:
            raise ArgumentError("--add adds to results that are there: name them, --json FILE")
        kept = load_results(arguments.json)
        here = machine(measure=False)
        refuse_another_machine(kept, here if gpu is None else replace(here, processor=gpu))
    usual = (get_num_threads(),) if on_gpu else (1, get_num_threads())
    how = replace(_run_of(arguments, arguments.threads or tuple(dict.fromkeys(usual))), gpu=gpu)
    with ExitStack() as outputs:
        file = None
        if arguments.json is not None:
            file = outputs.enter_context(Output(arguments.json, "the results"))
        expected = {} if before is None else before.took
        results = run_workloads(chosen, how, _say, _say_progress, expected)
        if file is not None:
            file.write(results_as_json(join_results(kept, results) if kept else results))
    for fault in results.failed:
        print(fault, file=sys.stderr)
    if before is not None:
        print(format_changes(find_changes(before, results), before.when))
    return 1 if results.failed else 0


def _gpu_name() -> str:
    """What the GPU calls itself. Raises `DeviceError`, which says what is missing, without one."""
    from staticflow.eager.cuda import get_device_name
    from staticflow.eager.device import why_unavailable

    why = why_unavailable()
    if why:
        raise DeviceError(f"bench --device cuda: there is no GPU to measure: {why}")
    return get_device_name()


def _run_of(arguments: argparse.Namespace, threads: tuple[int, ...]) -> Run:
    """How the scripts measure, as was asked, or else as usual or in a quick look."""
    from staticflow.comparison.bench.workloads import QUICK, USUAL

    usual = QUICK if arguments.quick else USUAL
    given = {name: getattr(arguments, name) for name in ("rounds", "seconds", "most", "limit")}
    asked = {name: value for name, value in given.items() if value is not None}
    return replace(usual, threads=threads, **asked)


def _say(text: str) -> None:
    print(text, flush=True)


def _say_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
