"""Workload m: the convolutions of both nets one by one, on 32 images.

Forward, the gradient by the input and that by the weight, each alone; image sizes known. A table is
about one direction and one net; its times are geometric means over the shapes: each counts alike.
The notes give the GFLOP/s of each shape beside those of the best peer.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import import_libraries, options_of, other_programs, remarks, settle_threads, threads
from image_nets import PAIRS, SIDE, WIDTHS
from products import means
from report import Report, is_ours, summarize

BATCH = 32
TOLERANCE = 1e-3
DIRECTIONS = ("forward", "gradient by the input", "gradient by the weight")
Run = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Shape:
    """A convolution of ``a`` channels to ``b`` with square windows, on square images padded so that
    a stride of 1 keeps their ``side``."""

    side: int
    a: int
    b: int
    window: int
    stride: int = 1
    groups: int = 1

    def __str__(self) -> str:
        """The shape, as a note names it."""
        kind = "depthwise" if self.groups > 1 else f"to {self.b}"
        by = f" by {self.stride}" if self.stride > 1 else ""
        return f"{self.a} {kind}, {self.side} x {self.side}, {self.window} x {self.window}{by}"

    @property
    def out_side(self) -> int:
        """The side of the images that come out."""
        return -(-self.side // self.stride)

    @property
    def operations(self) -> int:
        """Multiplications and additions of one direction."""
        per = self.a // self.groups * self.window**2
        return 2 * BATCH * self.b * self.out_side**2 * per

    def arrays(self) -> tuple[Any, Any, Any]:
        """The images, the weight, and a cotangent of the result."""
        rng = np.random.default_rng(0)
        x = (BATCH, self.a, self.side, self.side)
        w = (self.b, self.a // self.groups, self.window, self.window)
        y = (BATCH, self.b, self.out_side, self.out_side)
        x, w, y = (rng.standard_normal(s).astype(np.float32) for s in (x, w, y))
        return x, w, y

    @property
    def options(self) -> dict[str, int]:
        """What a convolution takes beside its operands."""
        return {"stride": self.stride, "padding": self.window // 2, "groups": self.groups}


def residual_shapes() -> list[Shape]:
    """Those of the residual net, each once."""
    shapes, before, side = [Shape(SIDE, 3, WIDTHS[0], 3)], WIDTHS[0], SIDE
    for width in WIDTHS:
        if width != before:
            shapes += [Shape(side, before, width, 3, 2), Shape(side, before, width, 1, 2)]
            side //= 2
        shapes.append(Shape(side, width, width, 3))
        before = width
    return shapes


def depthwise_shapes() -> list[Shape]:
    """Those of the depthwise-separable net, each once."""
    shapes, side = [Shape(SIDE, 3, PAIRS[0][0], 3)], SIDE
    for a, b, stride in PAIRS:
        shapes.append(Shape(side, a, a, 3, stride, groups=a))
        side //= stride
        shapes.append(Shape(side, a, b, 1))
    return shapes


# -- contestants: what makes runs of a shape in a direction ----------------------------------------


def pytorch(shape: Shape, direction: str) -> tuple[Run, Any]:
    """Its operations for convolutions and for their gradients."""
    import torch

    torch.set_num_threads(threads())
    x, w, y = map(torch.from_numpy, shape.arrays())
    per = (shape.options["stride"],) * 2, (shape.options["padding"],) * 2, (1, 1)
    mask = [d == direction for d in DIRECTIONS[1:]]

    def call() -> Any:
        if direction == "forward":
            return torch.conv2d(x, w, None, *per, shape.groups)
        backward = torch.ops.aten.convolution_backward
        found = backward(y, x, w, None, *per, False, (0, 0), shape.groups, [*mask, False])
        return found[mask.index(True)]

    def run(n: int) -> None:
        for _ in range(n):
            call()

    return run, call()


def staticflow_static(shape: Shape, direction: str) -> tuple[Run, Any]:
    """A compiled program of one convolution."""
    import staticflow as sf

    arrays = shape.arrays()
    x, w, y = (
        sf.placeholder(a.shape, "float32", name=n) for n, a in zip("xwy", arrays, strict=True)
    )
    out = sf.nn.functional.conv2d(x, w, **shape.options)
    given = [x, w]
    if direction != "forward":
        at = DIRECTIONS.index(direction) - 1
        (out,) = sf.grad((out * y).sum(), [given[at]])
        given = [given[1 - at], y]
        arrays = (arrays[1 - at], arrays[2])
    program = sf.compile(given, out)
    operands = arrays[: len(given)]

    def run(n: int) -> None:
        for _ in range(n):
            program(*operands)

    return run, program(*operands)


CONTESTANTS = {"PyTorch": pytorch, "staticflow static": staticflow_static}


# -- the sweep ------------------------------------------------------------------------------------


def checked_runs(shape: Shape, direction: str, makers: Mapping[str, Any]) -> dict[str, Run]:
    """The runs of each contestant, which agree on the result."""
    runs: dict[str, Run] = {}
    expected: Any = None
    for name, make in makers.items():
        runs[name], found = make(shape, direction)
        found = np.asarray(found, np.float64)
        expected = found if expected is None else expected
        error = np.max(np.abs(found - expected)) / np.max(np.abs(expected))
        if not error <= TOLERANCE:
            raise SystemExit(f"{name} disagrees in {shape}, {direction}: error {error:.1e}")
    return runs


def notes_about(shapes: Sequence[Shape], samples: Sequence[Mapping[str, list[float]]]) -> list[str]:
    """The rates of staticflow and of the best peer."""
    notes = []
    for shape, seconds in zip(shapes, samples, strict=True):
        rates = {n: shape.operations / float(np.median(s)) / 1e9 for n, s in seconds.items()}
        ours = max((r for n, r in rates.items() if is_ours(n)), default=math.nan)
        peers = max((r for n, r in rates.items() if not is_ours(n)), default=math.nan)
        notes.append(f"{shape}: {ours:.1f} GFLOP/s beside {peers:.1f}")
    return notes


def run_table(
    title: str, shapes: Sequence[Shape], direction: str, options: argparse.Namespace, report: Report
) -> None:
    """Measure a net's shapes in a direction."""
    from staticflow.measure.statistics import time_in_turns

    print(f"{title}; threads: {options.threads}")
    left_out, makers = [], {}
    for name, make in CONTESTANTS.items():
        if options.only in name or name == "PyTorch":
            try:
                if not is_ours(name):
                    __import__("torch")
                makers[name] = make
            except ImportError as error:
                left_out.append(f"{name} ({error})")
    rounds, seconds = min(options.rounds, 7), options.seconds / 10
    samples, others = [], other_programs()
    try:
        for shape in shapes:
            runs = checked_runs(shape, direction, makers)
            samples.append(time_in_turns(runs, rounds, seconds, threads=threads()))
    except SystemExit as fault:
        report.fail(title, str(fault))
        return
    found = means(samples)
    firsts = {name: times[0] for name, times in found.items()}
    notes = [*notes_about(shapes, samples), *remarks(others)]
    report.add(title, summarize(found, firsts), left_out, notes=notes)


if __name__ == "__main__":
    given = options_of(__doc__)
    settle_threads(given.threads)
    import_libraries(Path(sys.argv[0]))
    whole = Report(given.threads, given.json)
    for net, own in (("residual", residual_shapes()), ("depthwise", depthwise_shapes())):
        for way in DIRECTIONS:
            run_table(f"convolutions of the {net} net, {way}", own, way, given, whole)
    whole.end()
