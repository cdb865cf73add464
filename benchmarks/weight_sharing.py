"""Workload g: a hidden layer that is repeated one to four times with the same weights.

The count is drawn anew each step; a whole training step of the net, one program for all counts
where that can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from common import Contestant, main, threads

N, D_IN, H, D_OUT = 64, 1000, 100, 10
LR = 1e-6
STEPS_CHECKED = 20


def data() -> list[Any]:
    """Inputs, targets and three weights."""
    rng = np.random.default_rng(0)
    shapes = ((N, D_IN), (N, D_OUT), (D_IN, H), (H, H), (H, D_OUT))
    scales = (1, 1, D_IN**-0.5, H**-0.5, H**-0.5)
    return [
        (rng.standard_normal(s) * c).astype(np.float32) for s, c in zip(shapes, scales, strict=True)
    ]


def counts() -> Iterator[int]:
    """How often the layer is repeated, step by step."""
    rng = np.random.default_rng(1)
    while True:
        yield from rng.integers(1, 5, 1000).tolist()


def numpy_by_hand() -> Contestant:
    """The gradient written out."""
    x, y, w1, w2, w3 = data()
    draw, loss = counts(), np.float32(0)

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            hidden = [np.maximum(x @ w1, 0)]
            for _ in range(next(draw)):
                hidden.append(np.maximum(hidden[-1] @ w2, 0))
            error = hidden[-1] @ w3 - y
            loss = np.square(error).sum()
            back = 2 * error
            g3 = hidden[-1].T @ back
            back = back @ w3.T
            g2 = np.zeros_like(w2)
            while len(hidden) > 1:
                back = back * (hidden.pop() > 0)
                g2 += hidden[-1].T @ back
                back = back @ w2.T
            g1 = x.T @ (back * (hidden[0] > 0))
            for w, g in ((w1, g1), (w2, g2), (w3, g3)):
                w -= LR * g

    return Contestant(run, lambda: (loss, w1, w2, w3))


def staticflow_static() -> Contestant:
    """One program: a loop whose number of iterations is an input."""
    import staticflow as sf

    x, y, *arrays = data()
    weights = [sf.from_numpy(w).requires_grad_() for w in arrays]
    w1, w2, w3 = map(sf.symbol, weights)
    repeats = sf.placeholder((), "int64", name="repeats")
    sx, sy = (sf.placeholder(a.shape, name=n) for a, n in ((x, "x"), (y, "y")))
    h = sf.fori_loop(0, repeats, lambda i, h: (h @ w2).relu(), (sx @ w1).relu())
    total = (h @ w3 - sy).pow(2).sum()
    grads = sf.grad(total, [w1, w2, w3])
    updates = [(w, s - LR * g) for w, s, g in zip(weights, (w1, w2, w3), grads, strict=True)]
    step, draw, loss = sf.compile([repeats, sx, sy], total, updates=updates), counts(), None
    given = [np.asarray(k) for k in range(5)]

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = step(given[next(draw)], x, y)

    return Contestant(run, lambda: [t.detach() for t in (loss, *weights)])


def staticflow_eager() -> Contestant:
    """A Python loop."""
    import staticflow as sf

    x, y, *weights = map(sf.from_numpy, data())
    for w in weights:
        w.requires_grad_()
    w1, w2, w3 = weights
    draw, loss = counts(), None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            h = x.mm(w1).clamp(min=0)
            for _ in range(next(draw)):
                h = h.mm(w2).clamp(min=0)
            loss = (h.mm(w3) - y).pow(2).sum()
            loss.backward()
            with sf.no_grad():
                for w in weights:
                    w -= LR * w.grad
                    w.grad = None

    return Contestant(run, lambda: [t.detach() for t in (loss, *weights)])


def pytorch_eager() -> Contestant:
    """A Python loop."""
    import torch

    torch.set_num_threads(threads())
    x, y, *weights = map(torch.from_numpy, data())
    for w in weights:
        w.requires_grad_()
    w1, w2, w3 = weights
    draw, loss = counts(), None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            h = x.mm(w1).clamp(min=0)
            for _ in range(next(draw)):
                h = h.mm(w2).clamp(min=0)
            loss = (h.mm(w3) - y).square().sum()
            loss.backward()
            with torch.no_grad():
                for w in weights:
                    w.sub_(w.grad, alpha=LR)
                    w.grad = None

    return Contestant(run, lambda: [t.detach() for t in (loss, *weights)])


def _jax(one_program: bool) -> Contestant:
    import jax
    import jax.numpy as jnp

    x, y, *weights = map(jnp.asarray, data())

    def objective(weights: Any, repeats: Any) -> Any:
        w1, w2, w3 = weights
        h = jnp.maximum(x @ w1, 0)

        def repeated(times: int) -> Any:
            def branch(h: Any) -> Any:
                for _ in range(times):
                    h = jnp.maximum(h @ w2, 0)
                return h

            return branch

        if one_program:
            h = jax.lax.switch(repeats - 1, [repeated(k) for k in range(1, 5)], h)
        else:
            h = repeated(repeats)(h)
        return jnp.square(h @ w3 - y).sum()

    def plain(weights: Any, repeats: Any) -> Any:
        total, grads = jax.value_and_grad(objective)(weights, repeats)
        return total, [w - LR * g for w, g in zip(weights, grads, strict=True)]

    step = jax.jit(plain, donate_argnums=0, static_argnums=() if one_program else 1)
    draw, loss = counts(), None

    def run(n: int) -> None:
        nonlocal loss, weights
        for _ in range(n):
            loss, weights = step(weights, next(draw))
        jax.block_until_ready(weights)

    return Contestant(run, lambda: (loss, *weights))


def jax_traces() -> Contestant:
    """One trace for each count."""
    return _jax(one_program=False)


def jax_switch() -> Contestant:
    """One program with a branch for each count."""
    return _jax(one_program=True)


if __name__ == "__main__":
    main(
        __doc__,
        {
            "shared hidden layer, 1 to 4 times, SGD step": {
                "NumPy": numpy_by_hand,
                "staticflow static": staticflow_static,
                "staticflow eager": staticflow_eager,
                "PyTorch eager": pytorch_eager,
                "JAX, a trace a count": jax_traces,
                "JAX, one program": jax_switch,
            }
        },
        checked_runs=STEPS_CHECKED,
    )
