"""Workload s: logistic regression by Newton's method, 8 iterations on 50,000 x 100, float32.

Each iteration makes the matrix of second derivatives and solves a system of 100 equations. A ridge
of 1e-3 keeps it well conditioned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Contestant, call_program, main, repeated, threads

ROWS, SIZE, ITERATIONS, RIDGE = 50_000, 100, 8, 1e-3


def data() -> tuple[Any, Any]:
    """Points, and 0 or 1 for each."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, SIZE))
    chance = 1 / (1 + np.exp(-x @ rng.standard_normal(SIZE) / SIZE**0.5))
    return x.astype(np.float32), (rng.uniform(size=ROWS) < chance).astype(np.float32)


def iterate(x: Any, y: Any, w: Any, ridge: Any, sigmoid: Any, solve: Any) -> Any:
    """One iteration, in what all libraries have alike."""
    p = sigmoid(x @ w)
    slope = x.T @ (p - y) / len(x) + RIDGE * w
    curvature = (x * (p * (1 - p))[:, None]).T @ x / len(x) + ridge
    return w - solve(curvature, slope)


def staticflow_static() -> Contestant:
    """A loop of the graph; the number of points is an unknown size."""
    import staticflow as sf

    arrays = data()
    x, y = sf.placeholder((None, SIZE), name="x"), sf.placeholder((None,), name="y")
    ridge = RIDGE * sf.eye(SIZE)

    def step(_: Any, w: Any) -> Any:
        p = (x @ w).sigmoid()
        slope = (x.T @ (p - y)) / x.shape[0] + RIDGE * w
        curvature = (x * (p * (1 - p))[:, None]).T @ x / x.shape[0] + ridge
        return w - sf.linalg.solve(curvature, slope)

    program = sf.compile([x, y], sf.fori_loop(0, ITERATIONS, step, sf.zeros(SIZE)))
    return call_program(program, *arrays)


def by_hand(library: Any, sigmoid: Any, solve: Any) -> Contestant:
    """A Python loop."""
    x, y = map(getattr(library, "from_numpy", library.asarray), data())
    ridge = RIDGE * library.eye(SIZE, dtype=library.float32)

    def call() -> Any:
        w = library.zeros(SIZE, dtype=library.float32)
        for _ in range(ITERATIONS):
            w = iterate(x, y, w, ridge, sigmoid, solve)
        return w

    return repeated(call)


def numpy_by_hand() -> Contestant:
    """A Python loop."""
    return by_hand(np, lambda z: 1 / (1 + np.exp(-z)), np.linalg.solve)


def staticflow_eager() -> Contestant:
    """A Python loop."""
    import staticflow as sf

    return by_hand(sf, sf.sigmoid, sf.linalg.solve)


def pytorch_eager() -> Contestant:
    """A Python loop."""
    import torch

    torch.set_num_threads(threads())
    return by_hand(torch, torch.sigmoid, torch.linalg.solve)


def jax_jit() -> Contestant:
    """``fori_loop``."""
    import jax
    import jax.numpy as jnp

    x, y = map(jnp.asarray, data())
    ridge = RIDGE * jnp.eye(SIZE)

    @jax.jit
    def program(x: Any, y: Any) -> Any:
        def step(_: Any, w: Any) -> Any:
            return iterate(x, y, w, ridge, jax.nn.sigmoid, jnp.linalg.solve)

        return jax.lax.fori_loop(0, ITERATIONS, step, jnp.zeros(SIZE))

    return repeated(lambda: program(x, y), jax.block_until_ready)


if __name__ == "__main__":
    main(
        __doc__,
        {
            "logistic regression by Newton": {
                "NumPy": numpy_by_hand,
                "staticflow static": staticflow_static,
                "staticflow eager": staticflow_eager,
                "PyTorch eager": pytorch_eager,
                "JAX jit": jax_jit,
            }
        },
        tolerance=1e-3,
    )
