"""Workload s: an embedding of 50,000 rows of 64 numbers, trained on 512 of them a step.

The mean of the squared distances of the rows to targets, SGD with lr 10; a step touches few rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Contestant, main, threads

ROWS, SIZE, BATCH = 50_000, 64, 512
LR = 10.0
STEPS_CHECKED = 3


def data() -> tuple[Any, Any, Any]:
    """The rows, which of them are trained, some twice, and what they are to be."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((ROWS, SIZE)).astype(np.float32)
    which = rng.integers(0, ROWS, BATCH)
    which[:8] = which[8:16]
    return table, which, rng.standard_normal((BATCH, SIZE)).astype(np.float32)


def numpy_rows() -> Contestant:
    """The gradient written out, subtracted row by row."""
    table, which, targets = data()
    loss = np.float32(0)

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            apart = table[which] - targets
            loss = np.square(apart).mean()
            np.subtract.at(table, which, np.float32(2 * LR / apart.size) * apart)

    return Contestant(run, lambda: (loss, table))


def staticflow_model() -> tuple[Any, Any, Any, Any]:
    """The indices, the targets, the layer and its optimiser."""
    import staticflow as sf

    table, which, targets = data()
    layer = sf.nn.Embedding(ROWS, SIZE)
    layer.weight.detach()[...] = table
    return which, targets, layer, sf.optim.SGD(layer.parameters(), lr=LR)


def staticflow_static() -> Contestant:
    """``minimize``; the batch is an unknown size."""
    import staticflow as sf

    which, targets, layer, optimiser = staticflow_model()
    i = sf.placeholder(("N",), "int64", name="i")
    t = sf.placeholder(("N", SIZE), name="t")
    total = sf.nn.functional.mse_loss(layer(i), t)
    step = sf.compile([i, t], total, updates=optimiser.minimize(total))
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = step(which, targets)

    return Contestant(run, lambda: (loss, layer.weight.detach()), step, (which, targets))


def staticflow_eager() -> Contestant:
    """Autograd."""
    import staticflow as sf

    *arrays, layer, optimiser = staticflow_model()
    which, targets = map(sf.from_numpy, arrays)
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            optimiser.zero_grad()
            loss = sf.nn.functional.mse_loss(layer(which), targets)
            loss.backward()
            optimiser.step()

    return Contestant(run, lambda: (loss.detach(), layer.weight.detach()))


def pytorch_sparse() -> Contestant:
    """A layer whose gradient is sparse."""
    import torch

    torch.set_num_threads(threads())
    table, which, targets = map(torch.from_numpy, data())
    layer = torch.nn.Embedding.from_pretrained(table, freeze=False, sparse=True)
    optimiser = torch.optim.SGD(layer.parameters(), lr=LR)
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            optimiser.zero_grad()
            loss = torch.nn.functional.mse_loss(layer(which), targets)
            loss.backward()
            optimiser.step()

    return Contestant(run, lambda: (loss.detach(), layer.weight.detach()))


def jax_rows() -> Contestant:
    """The gradient by the rows alone, added where they are; the table is donated."""
    import jax
    import jax.numpy as jnp

    table, which, targets = map(jnp.asarray, data())

    @jax.jit(donate_argnums=0)
    def step(table: Any, which: Any, targets: Any) -> Any:
        loss, slope = jax.value_and_grad(lambda rows: jnp.square(rows - targets).mean())(
            table[which]
        )
        return loss, table.at[which].add(-LR * slope)

    loss = None

    def run(n: int) -> None:
        nonlocal loss, table
        for _ in range(n):
            loss, table = step(table, which, targets)
        jax.block_until_ready(table)

    return Contestant(run, lambda: (loss, table))


if __name__ == "__main__":
    main(
        __doc__,
        {
            "embedding of 50,000 rows, 512 a step": {
                "NumPy": numpy_rows,
                "staticflow static": staticflow_static,
                "staticflow eager": staticflow_eager,
                "PyTorch, sparse": pytorch_sparse,
                "JAX, rows": jax_rows,
            }
        },
        checked_runs=STEPS_CHECKED,
    )
