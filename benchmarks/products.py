"""Workload p: products of 200 shapes, from 1 to 2,048, in all layouts, of unknown sizes.

Squares, and shapes with one short side; a transposed factor lies by columns; float32, float64, and
batches. A table is about a kind of product, and its times are geometric means over the shapes: each
counts alike. The notes say of how many shapes staticflow is as fast as the best peer (to 2 %), and
which are furthest behind.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import import_libraries, options_of, other_programs, remarks, settle_threads, threads
from report import Report, is_ours, summarize

LAYOUTS = {"a @ b": "nn", "a @ b.T": "nt", "a.T @ b": "tn", "a.T @ b.T": "tt"}
SQUARES = (1, 16, 32, 64, 128, 256, 512, 1024)
LONG, SHORT = (256, 2048), (1, 3, 8, 32)
BATCHES = ((8, 16, 16, 16), (64, 16, 64, 16), (32, 64, 64, 64), (128, 8, 8, 8), (8, 256, 64, 256),
           (16, 1, 128, 128), (16, 128, 128, 1), (16, 128, 1, 128))  # fmt: skip
EQUAL = 0.98
TOLERANCE = 1e-4
Shape = tuple[int, ...]
Run = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """Products that one program makes: the layout of both factors, ``"n"`` by rows or ``"t"`` by
    columns, the dtype, and the shapes: rows, inner size and columns, behind those of a batch."""

    layout: str
    dtype: str
    shapes: tuple[Shape, ...]

    def factors(self, shape: Shape) -> tuple[Any, Any]:
        """Both as they lie in memory."""
        *batch, m, k, n = shape
        rng = np.random.default_rng(0)
        sides = [(m, k), (k, n)]
        lie = [s if how == "n" else s[::-1] for s, how in zip(sides, self.layout, strict=True)]
        a, b = (rng.standard_normal((*batch, *s)).astype(self.dtype) for s in lie)
        return a, b

    def turned(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Both as they are multiplied."""
        first, second = self.layout
        return (a if first == "n" else a.mT), (b if second == "n" else b.mT)


def kinds() -> dict[str, Kind]:
    """What is measured, by title."""
    squares = tuple((n, n, n) for n in SQUARES)
    thin = tuple(
        tuple(short if i == at else long for i in range(3))
        for long in LONG
        for short in SHORT
        for at in range(3)
        if long * long * short <= 2048 * 2048 * 8
    )
    found = {
        f"products {name}, float32": Kind(layout, "float32", squares + thin)
        for name, layout in LAYOUTS.items()
    }
    for name in ("a @ b", "a.T @ b"):
        found[f"products {name}, float64"] = Kind(LAYOUTS[name], "float64", squares + thin)
    for name in ("a @ b", "a @ b.T"):
        found[f"products {name}, batches, float32"] = Kind(LAYOUTS[name], "float32", BATCHES)
    return found


# -- contestants: what makes runs of a kind, from the factors -------------------------------------


def numpy_products(kind: Kind) -> Callable[[Any, Any], tuple[Run, Any]]:
    """``matmul`` into an array that is there."""

    def make(a: Any, b: Any) -> tuple[Run, Any]:
        x, y = kind.turned(a, b)
        out = x @ y

        def run(n: int) -> None:
            for _ in range(n):
                np.matmul(x, y, out=out)

        return run, out

    return make


def pytorch_products(kind: Kind) -> Callable[[Any, Any], tuple[Run, Any]]:
    """``matmul`` into a tensor that is there."""
    import torch

    torch.set_num_threads(threads())

    def make(a: Any, b: Any) -> tuple[Run, Any]:
        x, y = kind.turned(torch.from_numpy(a), torch.from_numpy(b))
        out = x @ y

        def run(n: int) -> None:
            for _ in range(n):
                torch.matmul(x, y, out=out)

        return run, out

    return make


def staticflow_products(kind: Kind) -> Callable[[Any, Any], tuple[Run, Any]]:
    """One program for all shapes."""
    import staticflow as sf

    dims = len(kind.shapes[0]) - 3
    batch = tuple(f"b{i}" for i in range(dims))
    p, q = (sf.placeholder((*batch, None, None), kind.dtype, name=name) for name in "ab")
    x, y = kind.turned(p, q)
    program = sf.compile([p, q], x @ y)

    def make(a: Any, b: Any) -> tuple[Run, Any]:
        def run(n: int) -> None:
            for _ in range(n):
                program(a, b)

        return run, program(a, b)

    return make


CONTESTANTS = {
    "NumPy": numpy_products,
    "staticflow static": staticflow_products,
    "PyTorch": pytorch_products,
}

# -- the sweep ------------------------------------------------------------------------------------


def measure(
    kind: Kind, makers: Mapping[str, Any], rounds: int, seconds: float
) -> Iterator[tuple[Shape, dict[str, list[float]]]]:
    """The seconds of each contestant and round, shape by shape; all are checked first."""
    from staticflow.measure.statistics import time_in_turns

    for shape in kind.shapes:
        a, b = kind.factors(shape)
        runs: dict[str, Run] = {}
        expected: Any = None
        for name, make in makers.items():
            runs[name], found = make(a, b)
            found = np.asarray(found, np.float64)
            expected = found if expected is None else expected
            error = np.max(np.abs(found - expected)) / np.max(np.abs(expected))
            if not error <= TOLERANCE:
                raise SystemExit(f"{name} disagrees in the product {shape}: error {error:.1e}")
        yield shape, time_in_turns(runs, rounds, seconds, threads=threads())


def means(samples: Sequence[Mapping[str, list[float]]]) -> dict[str, list[float]]:
    """The geometric means over shapes, by contestant and round."""
    return {
        name: [float(v) for v in np.exp(np.mean(np.log([s[name] for s in samples]), axis=0))]
        for name in samples[0]
    }


def notes_about(shapes: Sequence[Shape], samples: Sequence[Mapping[str, list[float]]]) -> list[str]:
    """Of how many shapes staticflow is as fast as the best peer, and which are furthest behind."""
    ratios = {}
    for shape, seconds in zip(shapes, samples, strict=True):
        median = {name: float(np.median(s)) for name, s in seconds.items()}
        peers = [m for name, m in median.items() if not is_ours(name)]
        ours = [m for name, m in median.items() if is_ours(name)]
        if peers and ours:
            ratios[shape] = min(peers) / min(ours)
    if not ratios:
        return []
    fine = sum(ratio >= EQUAL for ratio in ratios.values())
    worst = sorted(ratios, key=lambda s: ratios[s])[:3]
    named = ", ".join(f"{' x '.join(map(str, s))} at {ratios[s]:.2f}" for s in worst)
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    return [
        f"as fast as the best peer of each shape, or faster: {fine} of {len(ratios)} shapes",
        f"the best peer of each shape takes {mean:.2f} times as long in the geometric mean",
        f"the furthest behind: {named}",
    ]


def run_table(title: str, kind: Kind, options: argparse.Namespace, report: Report) -> None:
    """Measure a kind of products."""
    print(f"{title}; threads: {options.threads}")
    left_out, makers = [], {}
    for name, prepare in CONTESTANTS.items():
        if options.only in name or name == "NumPy":
            try:
                makers[name] = prepare(kind)
            except ImportError as error:
                left_out.append(f"{name} ({error})")
    rounds, seconds = min(options.rounds, 7), options.seconds / 10
    samples, others = [], other_programs()
    try:
        for shape, found in measure(kind, makers, rounds, seconds):
            samples.append(found)
            print(f"  {shape}", flush=True)
    except SystemExit as fault:
        report.fail(title, str(fault))
        return
    found = means(samples)
    firsts = {name: times[0] for name, times in found.items()}
    notes = [*notes_about(kind.shapes, samples), *remarks(others)]
    report.add(title, summarize(found, firsts), left_out, notes=notes)


if __name__ == "__main__":
    given = options_of(__doc__)
    settle_threads(given.threads)
    import_libraries(Path(sys.argv[0]))
    whole = Report(given.threads, given.json)
    for heading, each in kinds().items():
        run_table(heading, each, given, whole)
    whole.end()
