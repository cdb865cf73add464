"""How long compiling each op takes, with a size that is unknown and with the same size known.

Processor time of all threads, from the graph to machine code in memory, with nothing of the program
on disk; what all programs share, as tiles of products of unknown sizes, is there. Both kinds in
turns, and of each the least of ``--rounds``.

``python benchmarks/compile_ops.py [NAME ...] [--rounds N]``, in the repository: the ops, their
samples and the size that is open are those of the tests. With ``--examples`` it is the training
steps of the examples that are compiled, with the sizes of their batches known and unknown.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

from staticflow import Tensor
from staticflow.runtime import build, native
from staticflow.runtime.recipe import Recipe
from staticflow.static.compile import box_type

__all__ = ["main", "measure", "measure_example"]

ROOT = Path(__file__).parents[1]

SIZE = 23
"""Small enough that a program of known sizes has neither parts that threads share nor stores past
the caches; in one of 20,011 there are such."""

GOAL = 1.3
"""How many times as long an unknown size may take."""


def measure(name: str, rounds: int, size: int) -> tuple[float, float]:
    """Seconds for an op with known sizes, one of them ``size``, and with that one unknown."""
    from tests.codegen import test_open_code as table

    info = table.ROWS[name]
    sample = info.sized(info.dtypes[0], size)

    def recipe(unknown: int | None) -> Recipe:
        graph: Recipe = table.recipe_of_graph(table.graph_of(info, sample, unknown=unknown))
        return graph

    return _least(rounds, partial(recipe, None), partial(recipe, size))


def measure_example(name: str, rounds: int) -> tuple[float, float]:
    """Seconds for the training step of an example with known sizes, and with unknown ones."""
    from code_amount import recipe_of
    from plan_memory import example_job, with_known_sizes

    from staticflow.comparison.contest import static_contestant

    job = example_job(name)
    known, opened = (
        partial(recipe_of, partial(static_contestant, j)) for j in (with_known_sizes(job), job)
    )
    return _least(rounds, known, opened)


def _least(
    rounds: int, known: Callable[[], Recipe], opened: Callable[[], Recipe]
) -> tuple[float, float]:
    """The least seconds that the programs of two kinds of recipes take, which are made in turns."""
    box = box_type(Tensor, "_data")
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for make, times in zip((known, opened), taken, strict=True):
            recipe = make()
            gc.collect()
            began = time.process_time()
            build.build(recipe, box)
            # the first makes what all programs share
            times += [time.process_time() - began] if number else []
    return min(taken[0]), min(taken[1])


def main(names: list[str], rounds: int, size: int, examples: bool = False) -> None:
    """Print a row for each op or example, the worst first, and what they come to."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "support")]
    from tests.codegen import test_open_code as table

    rows = []
    with (
        mock.patch.object(build, "code_cache", lambda: None),
        mock.patch.object(native, "code_cache", lambda: None),
    ):
        for name in names or (table.EXAMPLES if examples else table.OPS):
            try:
                found = measure_example(name, rounds) if examples else measure(name, rounds, size)
                rows.append((name, *found))
            except Exception as error:
                print(f"left out: {name} ({type(error).__name__})")
    rows.sort(key=lambda row: -row[2] / row[1])
    print("name                      known ms  unknown ms  times")
    for name, known, opened in rows:
        print(f"{name:24} {known * 1e3:9.1f} {opened * 1e3:11.1f} {opened / known:6.2f}")
    times = [opened / known for _, known, opened in rows]
    together = sum(row[2] for row in rows) / sum(row[1] for row in rows)
    above = sum(t > GOAL for t in times)
    print(
        f"median {statistics.median(times):.2f}, all together {together:.2f}, "
        f"above {GOAL}: {above} of {len(rows)}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=SIZE, help="the size that is open in one kind")
    parser.add_argument("--examples", action="store_true", help="the examples, not the ops")
    given = parser.parse_args()
    main(given.names, given.rounds, given.size, given.examples)
