"""Workload d: LeNet on 64 x 1 x 32 x 32, a whole SGD step.

Two 5x5 convolutions (6 and 16 channels) with ReLU and 2x2 maxima, then 400-120-84-10 with ReLU;
cross-entropy, lr 0.05; float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Contestant, main, size, threads

N, CLASSES = 64, 10
LR = 0.05
STEPS_CHECKED = 3
SHAPES = (
    (6, 1, 5, 5), (6,), (16, 6, 5, 5), (16,),
    (120, 400), (120,), (84, 120), (84,), (10, 84), (10,),
)  # fmt: skip


def data() -> tuple[Any, Any, list[Any]]:
    """Images, classes and parameters: the same for all."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 1, 32, 32)).astype(np.float32)
    target = rng.integers(0, CLASSES, N)
    params = []
    for shape in SHAPES:
        bound = 1 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 0.1
        params.append(rng.uniform(-bound, bound, shape).astype(np.float32))
    return x, target, params


def _scores(F: Any, x: Any, params: Any) -> Any:
    """The network in the functions that PyTorch and staticflow have alike."""
    c1, b1, c2, b2, w3, b3, w4, b4, w5, b5 = params
    x = F.max_pool2d(F.relu(F.conv2d(x, c1, b1)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, c2, b2)), 2)
    x = F.relu(F.linear(x.reshape(x.shape[0], 400), w3, b3))
    return F.linear(F.relu(F.linear(x, w4, b4)), w5, b5)


def staticflow_static() -> Contestant:
    """The compiled step; the batch is a `size`."""
    import staticflow as sf

    F = sf.nn.functional
    x, target, arrays = data()
    params = [sf.nn.Parameter(a) for a in arrays]
    batch = size("N", len(x))
    xs = sf.placeholder((batch, 1, 32, 32), name="x")
    ts = sf.placeholder((batch,), "int64", name="target")
    total = F.cross_entropy(_scores(F, xs, params), ts)
    grads = sf.grad(total, params)
    updates = {p: p - LR * g for p, g in zip(params, grads, strict=True)}
    step = sf.compile([xs, ts], total, updates=updates)
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = step(x, target)

    return Contestant(run, lambda: (loss, *(p.detach() for p in params)), step, (x, target))


def staticflow_eager() -> Contestant:
    """Autograd, updates in place."""
    import staticflow as sf

    F = sf.nn.functional
    x, target, arrays = data()
    xs, ts = sf.from_numpy(x), sf.from_numpy(target)
    params = [sf.nn.Parameter(a) for a in arrays]
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = F.cross_entropy(_scores(F, xs, params), ts)
            loss.backward()
            with sf.no_grad():
                for p in params:
                    p -= LR * p.grad
                    p.grad = None

    return Contestant(run, lambda: [t.detach() for t in (loss, *params)])


def pytorch_eager() -> Contestant:
    """Autograd, updates in place."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(threads())
    x, target, arrays = data()
    xs, ts = torch.from_numpy(x), torch.from_numpy(target)
    params = [torch.from_numpy(a).requires_grad_() for a in arrays]
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = F.cross_entropy(_scores(F, xs, params), ts)
            loss.backward()
            with torch.no_grad():
                for p in params:
                    p.sub_(p.grad, alpha=LR)
                    p.grad = None

    return Contestant(run, lambda: [t.detach() for t in (loss, *params)])


def pytorch_compiled() -> Contestant:
    """``torch.compile`` of the whole step, gradient and update included."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(threads())
    x, target, arrays = data()
    xs, ts = torch.from_numpy(x), torch.from_numpy(target)
    params = [torch.from_numpy(a) for a in arrays]

    def objective(params: Any) -> Any:
        return F.cross_entropy(_scores(F, xs, params), ts)

    @torch.compile
    def step(params: Any) -> Any:
        grads, total = torch.func.grad_and_value(objective)(params)
        for p, g in zip(params, grads, strict=True):
            p.sub_(g, alpha=LR)
        return total

    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = step(params)

    return Contestant(run, lambda: (loss, *params))


def jax_jit() -> Contestant:
    """``jit`` of the whole step, the parameters donated."""
    import jax
    import jax.numpy as jnp

    x, target, arrays = data()
    params, xs, ts = [jnp.asarray(a) for a in arrays], jnp.asarray(x), jnp.asarray(target)

    def conv(x: Any, w: Any, b: Any) -> Any:
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "VALID")
        return jax.nn.relu(y + b[:, None, None])

    def pool(x: Any) -> Any:
        window = (1, 1, 2, 2)
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")

    def objective(params: Any, x: Any, target: Any) -> Any:
        c1, b1, c2, b2, w3, b3, w4, b4, w5, b5 = params
        x = pool(conv(pool(conv(x, c1, b1)), c2, b2)).reshape(N, 400)
        x = jax.nn.relu(x @ w3.T + b3)
        x = jax.nn.relu(x @ w4.T + b4) @ w5.T + b5
        return -jax.nn.log_softmax(x)[jnp.arange(N), target].mean()

    @jax.jit(donate_argnums=0)
    def step(params: Any, x: Any, target: Any) -> Any:
        total, grads = jax.value_and_grad(objective)(params, x, target)
        return total, [p - LR * g for p, g in zip(params, grads, strict=True)]

    loss = None

    def run(n: int) -> None:
        nonlocal loss, params
        for _ in range(n):
            loss, params = step(params, xs, ts)
        jax.block_until_ready(params)

    return Contestant(run, lambda: (loss, *params))


if __name__ == "__main__":
    main(
        __doc__,
        {
            "LeNet, SGD step": {
                "PyTorch eager": pytorch_eager,
                "staticflow static": staticflow_static,
                "staticflow eager": staticflow_eager,
                "torch.compile": pytorch_compiled,
                "JAX jit": jax_jit,
            }
        },
        checked_runs=STEPS_CHECKED,
        tolerance=1e-3,
    )
