"""Workload i: a transformer encoder block, a whole SGD step, one call a step.

B 8, T 128, D 256, 4 heads, FF 1024, gelu, no dropout, float32; loss = mean((y - target) ** 2),
lr 0.01.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from common import Contestant, main, size, threads, training

B, T, D, HEADS, FF = 8, 128, 256, 4, 1024
LR = 0.01
STEPS_CHECKED = 3


def data() -> list[Any]:
    """x, target and the parameters in PyTorch's order and layout: the same for all."""
    rng = np.random.default_rng(0)
    shapes = [
        (3 * D, D), (3 * D,), (D, D), (D,), (FF, D), (FF,), (D, FF), (D,), (D,), (D,), (D,), (D,),
    ]  # fmt: skip
    x, target = (rng.standard_normal((B, T, D), np.float32) for _ in range(2))
    values = [rng.uniform(-0.06, 0.06, s).astype(np.float32) for s in shapes]
    for scale in (8, 10):  # of the layer norms
        values[scale] += 1
    return [x, target, *values]


def torch_like(nn: Any) -> Any:
    """The layer of a module of PyTorch's names."""
    return nn.TransformerEncoderLayer(
        D, HEADS, FF, dropout=0.0, activation="gelu", batch_first=True
    )


def staticflow_model() -> tuple[Any, Any, Any, Any]:
    """x, the target, the layer and its optimiser."""
    import staticflow as sf

    x, target, *values = data()
    layer = torch_like(sf.nn)
    for p, value in zip(layer.parameters(), values, strict=True):
        p.detach()[...] = value
    return x, target, layer, sf.optim.SGD(layer.parameters(), lr=LR)


def staticflow_static() -> Contestant:
    """The compiled step; the batch is a `size`."""
    import staticflow as sf

    x, target, layer, optimiser = staticflow_model()
    batch = size("B", B)
    xs = sf.placeholder((batch, T, D), name="xs")
    ts = sf.placeholder((batch, T, D), name="ts")
    total = sf.nn.functional.mse_loss(layer(xs), ts)
    step = sf.compile([xs, ts], total, updates=optimiser.minimize(total))
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = step(x, target)

    return Contestant(
        run, lambda: [t.detach() for t in (loss, *layer.parameters())], step, (x, target)
    )


def staticflow_eager() -> Contestant:
    """Autograd."""
    import staticflow as sf

    *arrays, layer, optimiser = staticflow_model()
    x, target = map(sf.from_numpy, arrays)
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            optimiser.zero_grad()
            loss = sf.nn.functional.mse_loss(layer(x), target)
            loss.backward()
            optimiser.step()

    return Contestant(run, lambda: [t.detach() for t in (loss, *layer.parameters())])


def pytorch(compiled: bool) -> Contestant:
    """``nn.TransformerEncoderLayer``, as it is or by ``torch.compile``."""
    import torch

    torch.set_num_threads(threads())
    x, target, *values = map(torch.from_numpy, data())
    layer = torch_like(torch.nn)
    with torch.no_grad():
        for p, value in zip(layer.parameters(), values, strict=True):
            p.copy_(value)
    optimiser = torch.optim.SGD(layer.parameters(), lr=LR)
    model = torch.compile(layer) if compiled else layer
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            optimiser.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), target)
            loss.backward()
            optimiser.step()

    return Contestant(run, lambda: [t.detach() for t in (loss, *layer.parameters())])


def pytorch_whole_step() -> Contestant:
    """``torch.compile`` of the whole step, gradient and update included."""
    import torch

    torch.set_num_threads(threads())
    x, target, *values = map(torch.from_numpy, data())
    layer = torch_like(torch.nn)
    names = [name for name, _ in layer.named_parameters()]

    def objective(params: Any) -> Any:
        y = torch.func.functional_call(layer, dict(zip(names, params, strict=True)), (x,))
        return torch.nn.functional.mse_loss(y, target)

    @torch.compile
    def step(params: Any) -> Any:
        grads, loss = torch.func.grad_and_value(objective)(params)
        for p, g in zip(params, grads, strict=True):
            p.sub_(g, alpha=LR)
        return loss

    return training(lambda: step(values), lambda: values)


def jax_jit() -> Contestant:
    """``jit`` of the whole step, the weights donated."""
    import jax
    import jax.numpy as jnp

    x, target, *weights = map(jnp.asarray, data())

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        centred = x - mean
        return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift

    def objective(weights: Any, x: Any, target: Any) -> Any:
        w_in, b_in, w_out, b_out, w1, b1, w2, b2, g1, s1, g2, s2 = weights
        parts = jnp.split(x @ w_in.T + b_in, 3, -1)
        q, k, v = (p.reshape(B, T, HEADS, D // HEADS).transpose(0, 2, 1, 3) for p in parts)
        scores = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(D // HEADS), -1)
        mixed = (scores @ v).transpose(0, 2, 1, 3).reshape(B, T, D)
        x = norm(x + mixed @ w_out.T + b_out, g1, s1)
        fed = jax.nn.gelu(x @ w1.T + b1, approximate=False) @ w2.T + b2
        return jnp.square(norm(x + fed, g2, s2) - target).mean()

    @jax.jit(donate_argnums=0)
    def step(weights: Any, x: Any, target: Any) -> Any:
        total, grads = jax.value_and_grad(objective)(weights, x, target)
        return total, [w - LR * g for w, g in zip(weights, grads, strict=True)]

    loss = None

    def run(n: int) -> None:
        nonlocal loss, weights
        for _ in range(n):
            loss, weights = step(weights, x, target)
        jax.block_until_ready(weights)

    return Contestant(run, lambda: (loss, *weights))


if __name__ == "__main__":
    main(
        __doc__,
        {
            "transformer block, SGD step": {
                "PyTorch eager": lambda: pytorch(compiled=False),
                "staticflow static": staticflow_static,
                "staticflow eager": staticflow_eager,
                "torch.compile": lambda: pytorch(compiled=True),
                "torch.compile, whole step": pytorch_whole_step,
                "JAX jit": jax_jit,
            }
        },
        checked_runs=STEPS_CHECKED,
    )
