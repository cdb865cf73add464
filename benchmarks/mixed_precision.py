"""What `autocast` gains or costs: a training step of a net of three linear layers, in both modes,
in float32 and inside of blocks of bfloat16 and float16, with the bytes that a compiled step plans.

It is processor time on one thread, the least of a few turns that the contestants take by turns.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy reads it

import numpy as np

import staticflow as sf
from staticflow import nn
from staticflow.nn import functional as F

SIZES = ((16, 32), (128, 512))
DTYPES = ("float32", "bfloat16", "float16")


def contestants(rows: int, width: int, dtype: str) -> tuple[dict[str, Callable[[], Any]], Any]:
    """A step of each mode, and the bytes of the compiled one's plan."""
    sf.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )
    opt = sf.optim.SGD(model.parameters(), lr=1e-3)
    x, y = sf.randn(rows, width), sf.tensor(np.arange(rows) % 10)
    is_cast = dtype != "float32"
    block = sf.autocast("cpu", dtype if is_cast else None, enabled=is_cast)

    def eager() -> None:
        opt.zero_grad()
        with block:
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()

    symbol = sf.placeholder((rows, width))
    with block:
        loss = F.cross_entropy(model(symbol), y)
    step = sf.compile([symbol], loss, updates=opt.minimize(loss))
    return {"eager": eager, "static": lambda: step(x)}, step.plan.peak


def seconds(run: Callable[[], Any], times: int) -> float:
    """Processor seconds of one run."""
    began = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - began) / times


def main() -> None:
    """Print a row for each size and dtype."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    sf.set_num_threads(1)
    print("rows x width, dtype: eager, static, bytes of the static plan")
    for rows, width in SIZES:
        made = {dtype: contestants(rows, width, dtype) for dtype in DTYPES}
        times = 50 if width < 100 else 2
        best: dict[tuple[str, str], float] = {}
        for _ in range(rounds + 1):  # the first warms up
            for dtype, (modes, _) in made.items():
                for mode, run in modes.items():
                    took = seconds(run, times)
                    best[dtype, mode] = min(best.get((dtype, mode), took), took)
        for dtype, (_, peak) in made.items():
            eager, static = (1e3 * best[dtype, mode] for mode in ("eager", "static"))
            print(f"{rows} x {width}, {dtype}: {eager:.3f} ms, {static:.3f} ms, {peak:,}")


if __name__ == "__main__":
    main()
