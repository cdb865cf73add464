"""Every operation that PyTorch has too, one at a time: as a compiled program and eagerly, with and
without its gradient, of several sizes and layouts, and the ratios sorted, worst first.

What counts is what is far behind. The layouts are those in which an operation meets its arrays:
long rows, the columns of such (`x.t()`), many rows of three numbers, and, if asked for, every other
column (`x[:, ::2]`) and one row expanded. On one thread processor
time is taken, which other work on the machine changes little; on more the time that passes.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import settle_threads
from op_table import Array, Operation, Tensors, arrays_of, operations

SIZES = {"1e3": (10, 100), "1e4": (50, 200), "1e5": (100, 1000), "1e6": (1000, 1000)}
"""Rows and columns."""

LAYOUTS = ("rows", "columns", "threes", "stepped", "expanded")

MORE = {"expanded": ("full",)}
"""Further arrays that a layout is made by."""

MODES = ("static", "eager")

OFTEN = 120
"""Calls before small operations are timed: from the hundredth of a kind on kernels compute what
NumPy did so far."""

FIRST = 1200
"""Eager operations before any is timed: a process has the fast path behind a thousand of them."""


def static_run(operation: Operation, leaves: dict[str, Array], layout: str, wrt: Any) -> Any:
    """A call of the compiled program, and its results."""
    import staticflow as sf

    inputs = {n: sf.placeholder(a.shape, dtype=str(a.dtype), name=n) for n, a in leaves.items()}
    out = operation(sf, Tensors(sf, layout, inputs))
    outputs = [out]
    if wrt:
        ct = sf.from_numpy(_cotangent(out.shape)).to(out.dtype)
        outputs += sf.grad((out * ct).sum(), [inputs[n] for n in wrt])
    program = sf.compile([*inputs.values()], outputs)
    arguments = [sf.from_numpy(a) for a in leaves.values()]
    return lambda: program(*arguments)


@functools.lru_cache(4)
def _cotangent(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def eager_run(
    lib: Any, operation: Operation, leaves: dict[str, Array], layout: str, wrt: Any
) -> Any:
    """A call of the eager operation, and of its backward."""
    tensors = {n: lib.from_numpy(a.copy()) for n, a in leaves.items()}
    for n in wrt:
        tensors[n].requires_grad_()
    t = Tensors(lib, layout, tensors)
    ct: Any = None

    def run() -> Any:
        nonlocal ct
        out = operation(lib, t)
        if not wrt:
            return [out]
        for n in wrt:
            tensors[n].grad = None
        ct = lib.from_numpy(_cotangent(tuple(out.shape))).to(out.dtype) if ct is None else ct
        out.backward(ct)
        return [out.detach(), *(tensors[n].grad for n in wrt)]

    return run


def seconds_of(runs: dict[str, Any], clock: Callable[[], float], least: float, rounds: int) -> Any:
    """The least time of a call of each, which take turns."""
    counts = {}
    for name, run in runs.items():
        run()
        began = clock()
        run()
        once = max(clock() - began, 1e-6)
        for _ in range(OFTEN if once < least else 0):
            run()
        began = clock()
        run()
        counts[name] = max(1, int(least / max(clock() - began, 1e-6)))
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            began = clock()
            for _ in range(counts[name]):
                run()
            best[name] = min(best[name], (clock() - began) / counts[name])
    return best


def agree(ours: Any, theirs: Any) -> bool:
    """Whether results are the same but for rounding."""
    for a, b in zip(ours, theirs, strict=True):
        a, b = (np.asarray(r.detach().numpy(), np.float64) for r in (a, b))
        if a.shape != b.shape or not np.allclose(
            a, b, 1e-3, 1e-3 * (np.abs(b).max(initial=0) + 1e-6)
        ):
            return False
    return True


def rows_of(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What is measured, a row for each operation, size, layout, mode and way."""
    import torch

    import staticflow as sf

    torch.set_num_threads(options.threads)
    one = sf.ones(1)
    for _ in range(FIRST):
        one + one
    clock = time.process_time if options.threads == 1 else time.perf_counter
    for size in options.sizes:
        for layout in options.layouts:
            arrays = arrays_of(SIZES[size], layout, options.dtype)
            for name, (operation, uses, wrt) in operations().items():
                title = f"{name}, {size}, {layout}"
                if re.search(options.only, title) is None:
                    continue
                if layout != "rows" and not {"x", "y", "unit", "over1", "flags", "small"} & {*uses}:
                    continue
                leaves = {n: arrays[n] for n in (*uses, *MORE.get(layout, ()))}
                wrt = () if np.dtype(options.dtype).kind == "i" else wrt
                for way, of in {"forward": (), "and backward": wrt}.items():
                    if way == "and backward" and not of:
                        continue
                    try:
                        peer = eager_run(torch, operation, leaves, layout, of)
                        expected = peer()
                    except Exception as error:  # what PyTorch refuses is no peer
                        print(f"  left out: {title}, {way}: PyTorch: {error}"[:150])
                        continue
                    made = {
                        "static": lambda: static_run(operation, leaves, layout, of),  # noqa: B023
                        "eager": lambda: eager_run(sf, operation, leaves, layout, of),  # noqa: B023
                    }
                    runs = {"PyTorch": peer}
                    for mode in MODES:
                        if re.search(options.modes, mode) is None:
                            continue
                        try:
                            run = made[mode]()
                            if not agree(run(), expected):
                                print(f"  differs: {title}, {way}, {mode}")
                            runs[mode] = run
                        except Exception as error:
                            print(f"  fails: {title}, {way}, {mode}: {error}"[:200])
                    gc.collect()
                    best = seconds_of(runs, clock, options.seconds, options.rounds)
                    for mode in MODES:
                        if mode in best:
                            yield {
                                "title": title, "way": way, "mode": mode, "ours": best[mode],
                                "peer": best["PyTorch"], "ratio": best["PyTorch"] / best[mode],
                            }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--sizes", nargs="+", default=["1e3", "1e5", "1e6"], choices=SIZES)
    add("--layouts", nargs="+", default=["rows", "columns", "threes"], choices=LAYOUTS)
    add("--dtype", default="float32", help="of the real arrays")
    add("--only", default="", metavar="REGEX", help="titles: operation, size, layout")
    add("--modes", default="", metavar="REGEX", help="static or eager")
    add("--seconds", type=float, default=0.004, help="for a turn")
    add("--rounds", type=int, default=4)
    add("--threads", type=int, default=1)
    add("--worst", type=int, default=100, help="how many rows are printed")
    add("--json", type=Path, metavar="PATH")
    options = parser.parse_args()
    settle_threads(options.threads)
    rows = []
    for row in rows_of(options):
        rows.append(row)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    rows.sort(key=lambda row: row["ratio"])
    print(f"{'':<62}{'ours, us':>12}{'PyTorch, us':>12}  how many times as long PyTorch takes")
    for row in rows[: options.worst]:
        title = f"{row['title']}, {row['way']}, {row['mode']}"
        print(
            f"{title:<62}{row['ours'] * 1e6:>12.1f}{row['peer'] * 1e6:>12.1f}  {row['ratio']:.2f}"
        )


if __name__ == "__main__":
    main()
