"""Eager operations on large arrays: one million elements, one operation at a time.

What counts is that each is one pass over memory at its speed, and the matrix product near the peak.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import Contestant, main, threads

SIZE = 1024 * 1024
COLUMNS = 1024
TOLERANCE = 1e-4

Operation = Callable[[Any, Any], Any]
"""Of a library with PyTorch's names and the tensors of `data`."""

OPERATIONS: dict[str, Operation] = {
    "x + y": lambda lib, t: t["x"] + t["y"],
    "2.5 x": lambda lib, t: t["x"] * 2.5,
    "x.add_(y)": lambda lib, t: t["z"].add_(t["y"]),
    "x > y": lambda lib, t: t["x"] > t["y"],
    "where": lambda lib, t: lib.where(t["b"], t["x"], t["y"]),
    "exp": lambda lib, t: t["x"].exp(),
    "log": lambda lib, t: t["y"].log(),
    "tanh": lambda lib, t: t["x"].tanh(),
    "sigmoid": lambda lib, t: t["x"].sigmoid(),
    "relu": lambda lib, t: t["x"].relu(),
    "exp of float64": lambda lib, t: t["d"].exp(),
    "i + i of int64": lambda lib, t: t["i"] + t["i"],
    "sum": lambda lib, t: t["x"].sum(),
    "sum of rows": lambda lib, t: t["x"].sum(1),
    "sum of columns": lambda lib, t: t["x"].sum(0),
    "max of rows": lambda lib, t: t["x"].amax(1),
    "sum of int64": lambda lib, t: t["i"].sum(),
    "softmax of rows": lambda lib, t: t["x"].softmax(1),
    "x @ y": lambda lib, t: t["x"][:512] @ t["y"].t(),
}


def data() -> dict[str, Any]:
    """Matrices of SIZE elements: the same for all."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((SIZE // COLUMNS, COLUMNS)).astype(np.float32)
    y = (rng.random(x.shape) + 0.5).astype(np.float32)
    z = np.zeros_like(x)
    return {"x": x, "y": y, "z": z, "b": x > y, "i": (y * 10).astype(int), "d": x.astype(float)}


def contestant(lib: Any, operation: str) -> Contestant:
    """An operation in a library that has PyTorch's names."""
    tensors = {name: lib.from_numpy(array) for name, array in data().items()}
    compute = OPERATIONS[operation]
    last: Any = None

    def run(n: int) -> None:
        nonlocal last
        for _ in range(n):
            last = compute(lib, tensors)

    return Contestant(run, lambda: (last.numpy(),))


def staticflow_eager(operation: str) -> Contestant:
    import staticflow as sf

    return contestant(sf, operation)


def pytorch_eager(operation: str) -> Contestant:
    import torch

    torch.set_num_threads(threads())
    return contestant(torch, operation)


def tables() -> dict[str, Any]:
    """A table for each operation."""
    return {
        f"{name}, a million elements": {
            "staticflow eager": partial(staticflow_eager, name),
            "PyTorch eager": partial(pytorch_eager, name),
        }
        for name in OPERATIONS
    }


if __name__ == "__main__":
    main(__doc__, tables(), tolerance=TOLERANCE)
