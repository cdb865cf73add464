"""Workload h: a recurrent net on 50 different (batch, length) shapes in a row, with gradients.

Forward and backward: a first pass, with whatever compiling that takes, and later ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Contestant, eager_libraries, main

INPUTS, HIDDEN, SHAPES = 16, 64, 50


def data() -> tuple[list[Any], list[Any]]:
    """The weights, and inputs with time first."""
    rng = np.random.default_rng(0)
    weights = [
        (rng.standard_normal(s) * HIDDEN**-0.5).astype(np.float32)
        for s in ((INPUTS, HIDDEN), (HIDDEN, HIDDEN))
    ]
    sizes = zip(rng.integers(5, 101, SHAPES), rng.integers(1, 33, SHAPES), strict=True)
    return weights, [rng.standard_normal((t, b, INPUTS)).astype(np.float32) for t, b in sizes]


def _passes(gradient_of: Any, wait: Any = lambda g: g) -> Contestant:
    """All shapes in a row; the gradients of the last."""
    batches: list[Any] = data()[1]
    last: Any = None

    def run(n: int) -> None:
        nonlocal last
        for _ in range(n):
            for x in batches:
                last = gradient_of(x)
            wait(last)

    return Contestant(run, lambda: last)


def numpy_by_hand() -> Contestant:
    """Back-propagation through time written out."""
    (w, u), _ = data()

    def gradient(x: Any) -> Any:
        hs = [np.zeros((x.shape[1], HIDDEN), np.float32)]
        for row in x @ w:
            hs.append(np.tanh(row + hs[-1] @ u))
        back = 2 * hs[-1]
        deltas = np.empty((len(x), *back.shape), np.float32)
        for t in reversed(range(len(x))):
            deltas[t] = back * (1 - hs[t + 1] ** 2)
            back = deltas[t] @ u.T
        flat = deltas.reshape(-1, HIDDEN)
        before = np.stack(hs[:-1]).reshape(-1, HIDDEN)
        return x.reshape(-1, INPUTS).T @ flat, before.T @ flat

    return _passes(gradient)


def staticflow_static() -> Contestant:
    """One program, both sizes unknown."""
    import staticflow as sf

    (w, u), _ = data()
    sw, su = (sf.placeholder(a.shape, name=n) for a, n in ((w, "w"), (u, "u")))
    x = sf.placeholder((None, None, INPUTS), name="x")
    start = (x[:1, :, :1] * 0).sum(0) + sf.zeros(1, HIDDEN)
    last, _ = sf.scan(lambda h, r: ((r @ sw + h @ su).tanh(), None), start, x)
    program = sf.compile([x, sw, su], sf.grad(last.pow(2).sum(), [sw, su]))
    return _passes(lambda x: program(x, w, u))


def loop(library: Any) -> Contestant:
    """A Python loop."""
    w, u = (library.from_numpy(a).requires_grad_() for a in data()[0])

    def gradient(x: Any) -> Any:
        h = library.zeros(x.shape[1], HIDDEN)
        for row in library.from_numpy(x):
            h = (row @ w + h @ u).tanh()
        return library.autograd.grad(h.pow(2).sum(), [w, u])

    return _passes(gradient)


def layer(library: Any) -> Contestant:
    """``nn.RNN``."""
    (w, u), _ = data()
    net = library.nn.RNN(INPUTS, HIDDEN, bias=False)
    with library.no_grad():
        net.weight_ih_l0.copy_(library.from_numpy(w.T))
        net.weight_hh_l0.copy_(library.from_numpy(u.T))
    weights = [net.weight_ih_l0, net.weight_hh_l0]

    def gradient(x: Any) -> Any:
        _, h = net(library.from_numpy(x))
        return [g.T for g in library.autograd.grad(h.square().sum(), weights)]

    return _passes(gradient)


def jax_padded() -> Contestant:
    """One trace: everything padded to the longest and widest."""
    import jax
    import jax.numpy as jnp

    weights, batches = data()
    most = tuple(max(x.shape[axis] for x in batches) for axis in (0, 1))
    weights = [jnp.asarray(a) for a in weights]

    def objective(weights: Any, x: Any, steps: Any) -> Any:
        w, u = weights

        def step(h: Any, at: Any) -> Any:
            t, row = at
            return jnp.where(t < steps, jnp.tanh(row + h @ u), h), None

        start = jnp.zeros((most[1], HIDDEN), jnp.float32)
        h, _ = jax.lax.scan(step, start, (jnp.arange(most[0]), x @ w))
        return jnp.square(h).sum()

    gradient = jax.jit(jax.grad(objective))

    def one(x: Any) -> Any:
        padded = np.zeros((*most, INPUTS), np.float32)
        padded[: x.shape[0], : x.shape[1]] = x  # rows of zeros stay zeros
        return gradient(weights, padded, x.shape[0])

    return _passes(one, jax.block_until_ready)


def jax_traces() -> Contestant:
    """A trace for each shape."""
    import jax
    import jax.numpy as jnp

    weights = [jnp.asarray(a) for a in data()[0]]

    @jax.jit
    def gradient(weights: Any, x: Any) -> Any:
        def objective(weights: Any) -> Any:
            w, u = weights
            start = jnp.zeros((x.shape[1], HIDDEN), jnp.float32)
            h, _ = jax.lax.scan(lambda h, r: (jnp.tanh(r + h @ u), None), start, x @ w)
            return jnp.square(h).sum()

        return jax.grad(objective)(weights)

    return _passes(lambda x: gradient(weights, x), jax.block_until_ready)


if __name__ == "__main__":
    main(
        __doc__,
        {
            "RNN, 50 shapes, forward and backward": {
                "NumPy": numpy_by_hand,
                "staticflow static": staticflow_static,
                **eager_libraries(loop),
                **{f"{name}, nn.RNN": m for name, m in eager_libraries(layer).items()},
                "JAX, padded": jax_padded,
                "JAX, 50 traces": jax_traces,
            }
        },
        tolerance=1e-3,
    )
