"""Workload j: what an eager operation costs.

A chain of 1,000 dependent operations on 16
float32, not recorded, recorded, and recorded with its backward.

*Mixed* is a product, a sum, a function, and two operations with numbers in turn; *products* has
products of two tensors alone, which PyTorch is best at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import Contestant, main, threads

OPERATIONS = 1000
SIZE = 16


def data() -> tuple[Any, ...]:
    """Where the chain begins, what it multiplies with, what it adds: the same for all. Near 0 and
    1, so that gradients stay in range."""
    rng = np.random.default_rng(0)
    ends = ((-0.01, 0.01), (0.998, 1.0), (-0.001, 0.001))
    return tuple(rng.uniform(*e, SIZE).astype(np.float32) for e in ends)


def mixed(y: Any, w: Any, v: Any) -> Any:
    """OPERATIONS operations of several kinds."""
    for _ in range(OPERATIONS // 5):
        y = y * w
        y = y + v
        y = y.tanh()
        y = y - 0.0001
        y = y * 1.001
    return y


def products(y: Any, w: Any, v: Any) -> Any:
    """OPERATIONS products."""
    for _ in range(OPERATIONS):
        y = y * w
    return y


CHAINS = {"mixed": mixed, "products": products}


def contestant(tensor: Callable[[Any], Any], kind: str, mode: str) -> Contestant:
    """A chain in a library that has PyTorch's names."""
    chain = CHAINS[kind]
    x, w, v = map(tensor, data())
    x.requires_grad_(mode != "not recorded")
    last: Any = None

    def run(n: int) -> None:
        nonlocal last
        for _ in range(n):
            last = chain(x, w, v)
            if mode == "with backward":
                x.grad = None
                last.sum().backward()

    def result() -> Any:
        found = x.grad if mode == "with backward" else last.detach()
        return (found.numpy(),)

    return Contestant(run, result)


def staticflow_eager(kind: str, mode: str) -> Contestant:
    import staticflow as sf

    return contestant(sf.from_numpy, kind, mode)


def pytorch_eager(kind: str, mode: str) -> Contestant:
    import torch

    torch.set_num_threads(threads())
    return contestant(torch.from_numpy, kind, mode)


def tables() -> dict[str, Any]:
    """A table for each kind of chain and each mode."""
    return {
        f"1,000 operations, {kind}, {mode}": {
            "staticflow eager": partial(staticflow_eager, kind, mode),
            "PyTorch eager": partial(pytorch_eager, kind, mode),
        }
        for kind in CHAINS
        for mode in ("not recorded", "recorded", "with backward")
    }


if __name__ == "__main__":
    main(__doc__, tables())
