"""Workload a: a two-layer network, a whole SGD step, one call a step and 500 steps in one call.

N 64, D_in 1000, H 100, D_out 10, float32; loss = sum((relu(x w1) w2 - y) ** 2), lr 1e-6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Contestant, call_program, main, size, threads

N, D_IN, H, D_OUT = 64, 1000, 100, 10
LR = 1e-6
STEPS_CHECKED = 5
STEPS = 500
"""Of one call."""


def data() -> list[Any]:
    """x, y, w1, w2: the same for all."""
    rng = np.random.default_rng(0)
    shapes = [(N, D_IN), (N, D_OUT), (D_IN, H), (H, D_OUT)]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def numpy_by_hand() -> Contestant:
    """Every intermediate in a buffer of its own; lr is folded into the smallest matrix."""
    x, y, w1, w2 = data()
    h, grad_h = np.empty((N, H), np.float32), np.empty((N, H), np.float32)
    alive = np.empty((N, H), bool)
    d = np.empty((N, D_OUT), np.float32)
    grad1, grad2 = np.empty_like(w1), np.empty_like(w2)
    loss = 0.0

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            np.matmul(x, w1, out=h)
            np.greater(h, 0, out=alive)
            np.maximum(h, 0, out=h)
            np.matmul(h, w2, out=d)
            np.subtract(d, y, out=d)
            loss = np.vdot(d, d)
            np.multiply(d, np.float32(2 * LR), out=d)
            np.matmul(h.T, d, out=grad2)
            np.matmul(d, w2.T, out=grad_h)
            np.multiply(grad_h, alive, out=grad_h)
            np.matmul(x.T, grad_h, out=grad1)
            np.subtract(w1, grad1, out=w1)
            np.subtract(w2, grad2, out=w2)

    return Contestant(run, lambda: (loss, w1, w2))


def staticflow_static() -> Contestant:
    """The compiled step; the batch is a `size`."""
    import staticflow as sf

    x, y, *weights = data()
    w1, w2 = map(sf.from_numpy, weights)
    batch = size("N", N)
    xs = sf.placeholder((batch, D_IN), name="x")
    ys = sf.placeholder((batch, D_OUT), name="y")
    total = (xs.mm(w1).clamp(min=0).mm(w2) - ys).pow(2).sum()
    g1, g2 = sf.grad(total, [w1, w2])
    step = sf.compile([xs, ys], total, updates={w1: w1 - LR * g1, w2: w2 - LR * g2})
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = step(x, y)

    return Contestant(run, lambda: (loss, w1, w2), step, (x, y))


def staticflow_eager() -> Contestant:
    """Autograd, updates in place."""
    import staticflow as sf

    x, y, w1, w2 = map(sf.from_numpy, data())
    weights = [w1.requires_grad_(), w2.requires_grad_()]
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
            loss.backward()
            with sf.no_grad():
                for w in weights:
                    w.sub_(w.grad, alpha=LR)
                    w.grad = None

    return Contestant(run, lambda: [t.detach() for t in (loss, w1, w2)])


def pytorch_eager() -> Contestant:
    """Autograd, updates in place."""
    import torch

    torch.set_num_threads(threads())
    x, y, w1, w2 = map(torch.from_numpy, data())
    weights = [w1.requires_grad_(), w2.requires_grad_()]
    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = (x.mm(w1).clamp(min=0).mm(w2) - y).square().sum()
            loss.backward()
            with torch.no_grad():
                for w in weights:
                    w.sub_(w.grad, alpha=LR)
                    w.grad = None

    return Contestant(run, lambda: [t.detach() for t in (loss, w1, w2)])


def pytorch_compiled() -> Contestant:
    """``torch.compile`` of the whole step, gradient and update included."""
    import torch

    torch.set_num_threads(threads())
    x, y, w1, w2 = map(torch.from_numpy, data())

    def objective(w1: Any, w2: Any) -> Any:
        return (x.mm(w1).clamp(min=0).mm(w2) - y).square().sum()

    @torch.compile
    def step(w1: Any, w2: Any) -> Any:
        (g1, g2), total = torch.func.grad_and_value(objective, argnums=(0, 1))(w1, w2)
        w1.sub_(g1, alpha=LR)
        w2.sub_(g2, alpha=LR)
        return total

    loss = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = step(w1, w2)

    return Contestant(run, lambda: (loss, w1, w2))


def jax_jit() -> Contestant:
    """``jit`` of the whole step, the weights donated."""
    import jax
    import jax.numpy as jnp

    x, y, *weights = map(jnp.asarray, data())

    def objective(weights: Any, x: Any, y: Any) -> Any:
        w1, w2 = weights
        return jnp.square(jnp.maximum(x @ w1, 0) @ w2 - y).sum()

    @jax.jit(donate_argnums=0)
    def step(weights: Any, x: Any, y: Any) -> Any:
        total, grads = jax.value_and_grad(objective)(weights, x, y)
        return total, [w - LR * g for w, g in zip(weights, grads, strict=True)]

    loss = None

    def run(n: int) -> None:
        nonlocal loss, weights
        for _ in range(n):
            loss, weights = step(weights, x, y)
        jax.block_until_ready(weights)

    return Contestant(run, lambda: (loss, *weights))


# -- many steps in one call: the weights agree, while the loss goes to 0 ---------------------------


def many_numpy() -> Contestant:
    """The step by hand, as often."""
    one = numpy_by_hand()
    return Contestant(lambda n: one.run(n * STEPS), lambda: one.result()[1:])


def staticflow_loop() -> Contestant:
    """A loop of the graph, whose carries are the weights; they are variables of the program."""
    import staticflow as sf

    x, y, *weights = data()
    w1, w2 = map(sf.from_numpy, weights)
    xs = sf.placeholder(("N", D_IN), name="x")
    ys = sf.placeholder(("N", D_OUT), name="y")

    def step(_: Any, carry: Any) -> Any:
        v1, v2, _ = carry
        total = (xs.mm(v1).clamp(min=0).mm(v2) - ys).pow(2).sum()
        g1, g2 = sf.grad(total, [v1, v2])
        return v1 - LR * g1, v2 - LR * g2, total

    last1, last2, total = sf.fori_loop(0, STEPS, step, (w1, w2, sf.zeros(())))
    program = sf.compile([xs, ys], total, updates={w1: last1, w2: last2})
    call = call_program(program, x, y)
    return Contestant(call.run, lambda: (w1, w2), program, (x, y))


def jax_loop() -> Contestant:
    """``fori_loop``, the weights donated."""
    import jax
    import jax.numpy as jnp

    x, y, *weights = map(jnp.asarray, data())

    def objective(weights: Any, x: Any, y: Any) -> Any:
        w1, w2 = weights
        return jnp.square(jnp.maximum(x @ w1, 0) @ w2 - y).sum()

    @jax.jit(donate_argnums=0)
    def steps(weights: Any, x: Any, y: Any) -> Any:
        def step(_: Any, carry: Any) -> Any:
            total, grads = jax.value_and_grad(objective)(carry[1], x, y)
            return total, [w - LR * g for w, g in zip(carry[1], grads, strict=True)]

        return jax.lax.fori_loop(0, STEPS, step, (jnp.float32(0), weights))

    def run(n: int) -> None:
        nonlocal weights
        for _ in range(n):
            _, weights = steps(weights, x, y)
        jax.block_until_ready(weights)

    return Contestant(run, lambda: weights)


def pytorch_loop() -> Contestant:
    """The loop operator of PyTorch, compiled, with the gradient by hand, of which it has none."""
    import torch
    from torch._higher_order_ops.while_loop import while_loop

    torch.set_num_threads(threads())
    x, y, w1, w2 = map(torch.from_numpy, data())

    def step(i: Any, w1: Any, w2: Any, _: Any) -> Any:
        h = x.mm(w1)
        alive = h.clamp(min=0)
        d = alive.mm(w2) - y
        scaled = d * (2 * LR)
        to_h = scaled.mm(w2.t()) * (h > 0)
        return i + 1, w1 - x.t().mm(to_h), w2 - alive.t().mm(scaled), d.square().sum()

    @torch.compile
    def steps(w1: Any, w2: Any) -> Any:
        start = torch.zeros((), dtype=torch.int64), w1, w2, torch.zeros(())
        return while_loop(lambda i, *_: i < STEPS, step, start)

    def run(n: int) -> None:
        nonlocal w1, w2
        for _ in range(n):
            _, w1, w2, _ = steps(w1, w2)

    return Contestant(run, lambda: (w1, w2))


if __name__ == "__main__":
    main(
        __doc__,
        {
            "two-layer net, SGD step": {
                "NumPy": numpy_by_hand,
                "staticflow static": staticflow_static,
                "staticflow eager": staticflow_eager,
                "PyTorch eager": pytorch_eager,
                "torch.compile": pytorch_compiled,
                "JAX jit": jax_jit,
            },
            f"two-layer net, {STEPS} SGD steps in one call": {
                "NumPy": many_numpy,
                "staticflow static": staticflow_loop,
                "torch.compile, loop": pytorch_loop,
                "JAX fori_loop": jax_loop,
            },
        },
        checked_runs=STEPS_CHECKED,
    )
