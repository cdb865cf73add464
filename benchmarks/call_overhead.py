"""Workload j: what a call costs.

A compiled ``x + x`` on 16 float32 in a NumPy array, a
fresh tensor out; beside it the eager ``x + x`` of each framework.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from common import Contestant, main, threads


def data() -> Any:
    """x: the same for all."""
    return np.arange(16, dtype=np.float32)


def doubled(
    call: Callable[[Any], Any], x: Any, wait: Callable[[Any], Any] = lambda y: y
) -> Contestant:
    """A contestant that calls with x."""
    last = None

    def run(n: int) -> None:
        nonlocal last
        for _ in range(n):
            last = call(x)
        wait(last)

    return Contestant(run, lambda: (last,))


def staticflow_static() -> Contestant:
    import staticflow as sf

    x = sf.placeholder((None,), name="x")
    return doubled(sf.compile([x], x + x), data())


def staticflow_eager() -> Contestant:
    import staticflow as sf

    return doubled(lambda x: x + x, sf.from_numpy(data()))


def pytorch_eager() -> Contestant:
    import torch

    torch.set_num_threads(threads())
    return doubled(lambda x: x + x, torch.from_numpy(data()))


def torch_compile() -> Contestant:
    import torch

    torch.set_num_threads(threads())
    return doubled(torch.compile(lambda x: x + x), torch.from_numpy(data()))


def jax_jit() -> Contestant:
    import jax

    return doubled(jax.jit(lambda x: x + x), jax.numpy.asarray(data()), jax.block_until_ready)


if __name__ == "__main__":
    main(
        __doc__,
        {
            "a call: x + x of 16 float32": {
                "staticflow eager": staticflow_eager,
                "staticflow static": staticflow_static,
                "PyTorch eager": pytorch_eager,
                "torch.compile": torch_compile,
                "JAX jit": jax_jit,
            }
        },
    )
