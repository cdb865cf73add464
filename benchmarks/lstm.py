"""Workload e: an LSTM, forward, backward and SGD, one call a step.

T 50, B 32, I 64, H 128, and T 200, B 1, I 32, H 32; float32; loss = mean(outputs ** 2), lr 0.01.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import Contestant, main, size, threads

SIZES = [(50, 32, 64, 128), (200, 1, 32, 32)]  # T, B, I, H
LR = 0.01
STEPS_CHECKED = 3
Sizes = tuple[int, int, int, int]


def data(sizes: Sizes) -> list[Any]:
    """x and the parameters in PyTorch's layout: the same for all."""
    length, batch, inputs, hidden = sizes
    rng = np.random.default_rng(0)
    shapes = [(4 * hidden, inputs), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,)]
    x = rng.standard_normal((length, batch, inputs), np.float32)
    bound = hidden**-0.5
    return [x, *(rng.uniform(-bound, bound, s).astype(np.float32) for s in shapes)]


def staticflow_model(sizes: Sizes) -> tuple[Any, Any, Any]:
    """x, the layer and its optimiser."""
    import staticflow as sf

    x, *values = data(sizes)
    layer = sf.nn.LSTM(*sizes[2:])
    for p, value in zip(layer.parameters(), values, strict=True):
        p.detach()[...] = value
    return x, layer, sf.optim.SGD(layer.parameters(), lr=LR)


def staticflow_static(sizes: Sizes) -> Contestant:
    """The compiled step; length and batch are each a `size`."""
    import staticflow as sf

    x, layer, optimiser = staticflow_model(sizes)
    xs = sf.placeholder((size("T", sizes[0]), size("B", sizes[1]), sizes[2]), name="xs")
    total = layer(xs)[0].square().mean()
    step = sf.compile([xs], total, updates=optimiser.minimize(total))
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = step(x)

    return Contestant(run, lambda: [t.detach() for t in (loss, *layer.parameters())], step, (x,))


def staticflow_eager(sizes: Sizes) -> Contestant:
    """Autograd; the loop over time is one program."""
    import staticflow as sf

    array, layer, optimiser = staticflow_model(sizes)
    x = sf.from_numpy(array)
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            optimiser.zero_grad()
            loss = layer(x)[0].square().mean()
            loss.backward()
            optimiser.step()

    return Contestant(run, lambda: [t.detach() for t in (loss, *layer.parameters())])


def pytorch_eager(sizes: Sizes) -> Contestant:
    """``nn.LSTM``, whose loop over time is native."""
    import torch

    torch.set_num_threads(threads())
    x, *values = map(torch.from_numpy, data(sizes))
    layer = torch.nn.LSTM(*sizes[2:])
    with torch.no_grad():
        for p, value in zip(layer.parameters(), values, strict=True):
            p.copy_(value)
    optimiser = torch.optim.SGD(layer.parameters(), lr=LR)
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            optimiser.zero_grad()
            loss = layer(x)[0].square().mean()
            loss.backward()
            optimiser.step()

    return Contestant(run, lambda: [t.detach() for t in (loss, *layer.parameters())])


def jax_jit(sizes: Sizes, unroll: int = 1) -> Contestant:
    """``jit`` of the whole step with ``scan``, the input's product outside, the weights donated."""
    import jax
    import jax.numpy as jnp

    x, *weights = map(jnp.asarray, data(sizes))
    start = jnp.zeros((2, sizes[1], sizes[3]), jnp.float32)

    def objective(weights: Any, x: Any) -> Any:
        w, u, b, c = weights

        def one(state: Any, row: Any) -> Any:
            i, f, g, o = jnp.split(row + state[0] @ u.T, 4, -1)
            cell = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return jnp.stack([hidden, cell]), hidden

        return jnp.square(jax.lax.scan(one, start, x @ w.T + (b + c), unroll=unroll)[1]).mean()

    @jax.jit(donate_argnums=0)
    def step(weights: Any, x: Any) -> Any:
        total, grads = jax.value_and_grad(objective)(weights, x)
        return total, [w - LR * g for w, g in zip(weights, grads, strict=True)]

    loss = None

    def run(n: int) -> None:
        nonlocal loss, weights
        for _ in range(n):
            loss, weights = step(weights, x)
        jax.block_until_ready(weights)

    return Contestant(run, lambda: (loss, *weights))


CONTESTANTS: dict[str, Callable[[Sizes], Contestant]] = {
    "PyTorch nn.LSTM": pytorch_eager,
    "staticflow static": staticflow_static,
    "staticflow eager": staticflow_eager,
    "JAX scan": jax_jit,
    "JAX scan, unroll 5": partial(jax_jit, unroll=5),
}

if __name__ == "__main__":
    main(
        __doc__,
        {
            "LSTM T {} B {} I {} H {}, SGD step".format(*sizes): {
                name: partial(make, sizes) for name, make in CONTESTANTS.items()
            }
            for sizes in SIZES
        },
        checked_runs=STEPS_CHECKED,
    )
