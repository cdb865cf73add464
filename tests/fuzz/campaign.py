"""Random graphs, one for each seed, run in every way; what differs is reduced and saved.

``python tests/fuzz/campaign.py FIRST COUNT [FOLDER]`` runs so many of them, prints a line for each
that differs, writes it into the folder as a text test, and gives 1 if there was any. The folder
``tests/fuzz/found`` is run by the suite.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from graph_judge import Case, Difference, case_of, find_difference, print_case  # noqa: E402
from random_programs import draw_program, draw_step  # noqa: E402
from reduce_graph import reduce_case  # noqa: E402

from staticflow.errors import ShapeError  # noqa: E402

__all__ = ["FOUND", "draw_case", "look_at", "text_of"]

FOUND = Path(__file__).parent / "found"


def draw_case(seed: int) -> Case | None:
    """The case of a seed, if what it assumes of its sizes can be."""
    chance = random.Random(seed)
    drawn = draw_step(chance) if chance.random() < 0.2 else draw_program(chance)
    try:
        return case_of(drawn, chance)
    except ShapeError:
        return None


def text_of(case: Case, difference: Difference, seed: int) -> str:
    """The text test of a case that differs."""
    command, graph = print_case(case)
    what = " ".join(difference.what.split())[:200]
    return f"# Seed {seed}: {difference.kind}: {what}\nRUN: {command}\n{graph}EXPECT:\nthey agree\n"


_LONGEST = 30
"""Seconds that a smaller case may take: a loop whose condition is left out has no end."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """A block that ends with `TimeoutError` after so many seconds, on the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def look_at(seed: int) -> str | None:
    """The text test of the reduced case of a seed, if it differs."""
    case = draw_case(seed)
    found = None if case is None else find_difference(case)
    if case is None or found is None:
        return None
    kind = found.kind

    def fails(smaller: Case) -> bool:
        try:
            with limited(_LONGEST):
                return found.is_like(find_difference(smaller, kind))
        except Exception:  # a candidate that is no program
            return False

    smallest = reduce_case(case, fails)
    return text_of(smallest, find_difference(smallest, kind) or found, seed)


def main(first: int, count: int, folder: Path) -> int:
    """Look at so many seeds."""
    status = 0
    for seed in range(first, first + count):
        print(f"seed {seed}", file=sys.stderr, flush=True)  # the last one, should it crash
        text = look_at(seed)
        if text is not None:
            status = 1
            folder.mkdir(exist_ok=True)
            (folder / f"seed_{seed}.sf").write_text(text)
            print(text.splitlines()[0], flush=True)
    return status


if __name__ == "__main__":
    where = Path(sys.argv[3]) if len(sys.argv) > 3 else FOUND
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), where))
