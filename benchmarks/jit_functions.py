"""How long a person waits for `jit` and for JAX: the first call of ordinary functions, with their
gradients where they are losses, and the first call with another size.

Each in a process of its own with nothing on disk, from after the imports to the results, in CPU
seconds of all threads, those that compile included. The functions are written as one who comes to
either library would write them.

``python benchmarks/jit_functions.py [--rounds N]``
"""

from __future__ import annotations

from functools import partial
from textwrap import dedent

from processes import Child, main_of_processes

__all__ = ["FUNCTIONS", "tables"]

OURS = """
import time
import staticflow as sf
import staticflow.runtime.drafting
from staticflow.nn import functional as F
draw = lambda *shape: 0.1 * sf.randn(*shape)
weight = lambda *shape: draw(*shape).requires_grad_(True)
classes = lambda most, *shape: sf.randint(0, most, shape)
def program():
    jitted = sf.jit(f)
    if not IS_LOSS:
        return jitted
    def step(*args):
        loss = jitted(*args)
        loss.backward()
        return loss
    return step
"""

JAX = """
import time
import jax, numpy as np
from jax import lax, numpy as jnp
random = np.random.default_rng(0)
draw = lambda *shape: jnp.asarray(0.1 * random.standard_normal(shape), jnp.float32)
weight = draw
classes = lambda most, *shape: jnp.asarray(random.integers(0, most, shape))
relu, softmax, sigmoid = jax.nn.relu, jax.nn.softmax, jax.nn.sigmoid
def cross_entropy(x, t):
    return -jnp.take_along_axis(jax.nn.log_softmax(x), t[:, None], 1).mean()
def program():
    if not IS_LOSS:
        return jax.jit(f)
    first, last = IS_LOSS, len(inputs(SIZE))
    return jax.jit(jax.value_and_grad(f, tuple(range(first, last))))
"""

CALLS = """
IS_LOSS, SIZE = {is_loss}, {size}
{inputs}
{function}
call, taken = program(), []
for size in (SIZE, SIZE + 3)[: 1 + {other}]:
    given = inputs(size)
    began = time.process_time()
    {result}
    taken.append(time.process_time() - began)
print(taken[-1])
"""


class Function:
    """A function: the size that changes, how many of its inputs come before those that a gradient
    is asked for (0: it is no loss), its inputs, and its text for both libraries."""

    def __init__(self, size: int, before: int, inputs: str, ours: str, jax: str) -> None:
        self.size, self.before = size, before
        self.inputs = f"inputs = lambda n: ({inputs})"
        self.ours, self.jax = dedent(ours), dedent(jax)


FUNCTIONS = {
    "MLP": Function(
        64, 2,
        "draw(n, 20), draw(n, 3), weight(20, 64), weight(64), weight(64, 3), weight(3)",
        """
        def f(x, y, a, b, c, d):
            return ((sf.relu(x @ a + b) @ c + d - y) ** 2).mean()
        """,
        """
        def f(x, y, a, b, c, d):
            return ((relu(x @ a + b) @ c + d - y) ** 2).mean()
        """,
    ),
    "convolutional net": Function(
        8, 2,
        "draw(n, 1, 28, 28), classes(10, n), weight(8, 1, 3, 3), weight(16, 8, 3, 3), "
        "weight(784, 10), weight(10)",
        """
        def f(x, t, a, b, c, d):
            h = F.max_pool2d(sf.relu(F.conv2d(x, a, padding=1)), 2)
            h = F.max_pool2d(sf.relu(F.conv2d(h, b, padding=1)), 2)
            return F.cross_entropy(h.reshape(h.shape[0], -1) @ c + d, t)
        """,
        """
        def pool(x):
            two = (1, 1, 2, 2)
            return lax.reduce_window(x, -jnp.inf, lax.max, two, two, "VALID")
        def conv(x, w):
            lie = ("NCHW", "OIHW", "NCHW")
            return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=lie)
        def f(x, t, a, b, c, d):
            h = pool(relu(conv(pool(relu(conv(x, a))), b)))
            return cross_entropy(h.reshape(h.shape[0], -1) @ c + d, t)
        """,
    ),
    "attention block": Function(
        4, 1,
        "draw(n, 16, 32), weight(32, 32), weight(32, 32), weight(32, 32), weight(32, 32), "
        "weight(32)",
        """
        def heads(z):
            return z.reshape(z.shape[0], z.shape[1], 4, 8).transpose(1, 2)
        def f(x, q, k, v, o, g):
            h = F.layer_norm(x, (32,), g)
            s = (heads(h @ q) @ heads(h @ k).transpose(-1, -2) / 8**0.5).softmax(-1)
            y = (s @ heads(h @ v)).transpose(1, 2).reshape(x.shape)
            return ((x + y @ o) ** 2).mean()
        """,
        """
        def heads(z):
            return z.reshape(z.shape[0], z.shape[1], 4, 8).transpose(0, 2, 1, 3)
        def f(x, q, k, v, o, g):
            mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
            h = (x - mean) / jnp.sqrt(var + 1e-5) * g
            s = softmax(heads(h @ q) @ heads(h @ k).transpose(0, 1, 3, 2) / 8**0.5)
            y = (s @ heads(h @ v)).transpose(0, 2, 1, 3).reshape(x.shape)
            return ((x + y @ o) ** 2).mean()
        """,
    ),
    "LSTM": Function(
        20, 1,
        "draw(n, 8, 10), weight(10, 64), weight(16, 64), weight(64)",
        """
        def f(x, w, u, b):
            def step(carry, x):
                h, c = carry
                i, f, g, o = (x @ w + h @ u + b).chunk(4, 1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                return (h, c), h
            start = sf.zeros(x.shape[1], 16)
            return (sf.scan(step, (start, start), x)[1] ** 2).mean()
        """,
        """
        def f(x, w, u, b):
            def step(carry, x):
                h, c = carry
                i, f, g, o = jnp.split(x @ w + h @ u + b, 4, 1)
                c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
                h = sigmoid(o) * jnp.tanh(c)
                return (h, c), h
            start = jnp.zeros((x.shape[1], 16))
            return (lax.scan(step, (start, start), x)[1] ** 2).mean()
        """,
    ),
    "layer norm": Function(
        32, 1,
        "draw(n, 100), weight(100), weight(100)",
        """
        def f(x, g, b):
            m = x.mean(-1, keepdim=True)
            v = ((x - m) ** 2).mean(-1, keepdim=True)
            return (((x - m) / (v + 1e-5).sqrt() * g + b) ** 2).sum()
        """,
        """
        def f(x, g, b):
            m = x.mean(-1, keepdims=True)
            v = ((x - m) ** 2).mean(-1, keepdims=True)
            return (((x - m) / jnp.sqrt(v + 1e-5) * g + b) ** 2).sum()
        """,
    ),
    "mixture density": Function(
        16, 2,
        "draw(n, 4), draw(n), weight(4, 32), weight(32, 15)",
        """
        def f(x, y, w, v):
            h = sf.tanh(x @ w) @ v
            logits, mean, scale = h[:, :5], h[:, 5:10], h[:, 10:]
            parts = logits - 0.5 * ((y[:, None] - mean) / sf.exp(scale)) ** 2 - scale
            return (logits.logsumexp(1) - parts.logsumexp(1)).mean()
        """,
        """
        def f(x, y, w, v):
            h = jnp.tanh(x @ w) @ v
            logits, mean, scale = h[:, :5], h[:, 5:10], h[:, 10:]
            parts = logits - 0.5 * ((y[:, None] - mean) / jnp.exp(scale)) ** 2 - scale
            return (jax.nn.logsumexp(logits, 1) - jax.nn.logsumexp(parts, 1)).mean()
        """,
    ),
    "variational autoencoder": Function(
        32, 2,
        "draw(n, 50), draw(n, 4), weight(50, 30), weight(30, 8), weight(4, 30), weight(30, 50)",
        """
        def f(x, e, a, b, c, d):
            m, s = (sf.tanh(x @ a) @ b).chunk(2, 1)
            z = m + sf.exp(0.5 * s) * e
            r = sf.sigmoid(sf.tanh(z @ c) @ d)
            far = -0.5 * (1 + s - m**2 - sf.exp(s)).sum(1).mean()
            return ((r - x) ** 2).sum(1).mean() + far
        """,
        """
        def f(x, e, a, b, c, d):
            m, s = jnp.split(jnp.tanh(x @ a) @ b, 2, 1)
            z = m + jnp.exp(0.5 * s) * e
            r = sigmoid(jnp.tanh(z @ c) @ d)
            far = -0.5 * (1 + s - m**2 - jnp.exp(s)).sum(1).mean()
            return ((r - x) ** 2).sum(1).mean() + far
        """,
    ),
    "embedding": Function(
        16, 2,
        "classes(100, n, 5), classes(10, n), weight(100, 12), weight(12, 10)",
        """
        def f(i, t, e, w):
            return F.cross_entropy(e[i].mean(1) @ w, t)
        """,
        """
        def f(i, t, e, w):
            return cross_entropy(e[i].mean(1) @ w, t)
        """,
    ),
    "Gaussian process": Function(
        40, 2,
        "draw(n, 3), draw(n), weight() + 0.5, weight() + 0.3",
        """
        def f(x, y, scale, noise):
            d = ((x[:, None] - x[None]) ** 2).sum(-1)
            k = sf.exp(-0.5 * d / scale**2) + (noise**2 + 1e-4) * sf.eye(x.shape[0])
            l = sf.linalg.cholesky(k)
            a = sf.linalg.solve_triangular(l, y[:, None], upper=False)
            return 0.5 * (a**2).sum() + l.diagonal().log().sum()
        """,
        """
        def f(x, y, scale, noise):
            d = ((x[:, None] - x[None]) ** 2).sum(-1)
            k = jnp.exp(-0.5 * d / scale**2) + (noise**2 + 1e-4) * jnp.eye(x.shape[0])
            l = jnp.linalg.cholesky(k)
            a = jax.scipy.linalg.solve_triangular(l, y[:, None], lower=True)
            return 0.5 * (a**2).sum() + jnp.log(jnp.diagonal(l)).sum()
        """,
    ),
    "step of k-means": Function(
        500, 0,
        "draw(n, 6), draw(8, 6)",
        """
        def f(x, c):
            d = ((x[:, None] - c[None]) ** 2).sum(-1)
            hot = F.one_hot(d.argmin(1), c.shape[0]).float()
            return hot.T @ x / hot.sum(0).clamp(min=1)[:, None], d.amin(1).mean()
        """,
        """
        def f(x, c):
            d = ((x[:, None] - c[None]) ** 2).sum(-1)
            hot = jax.nn.one_hot(d.argmin(1), c.shape[0])
            return hot.T @ x / jnp.maximum(hot.sum(0), 1)[:, None], d.min(1).mean()
        """,
    ),
    "Kalman filter": Function(
        50, 0,
        "draw(n, 2), draw(4, 4), draw(2, 4)",
        """
        def f(zs, a, h):
            def step(carry, z):
                x, p = carry
                x, p = a @ x, a @ p @ a.T + 0.1 * sf.eye(4)
                k = sf.linalg.solve(h @ p @ h.T + 0.1 * sf.eye(2), h @ p).T
                x, p = x + k @ (z - h @ x), p - k @ h @ p
                return (x, p), x
            return sf.scan(step, (sf.zeros(4), sf.eye(4)), zs)[1]
        """,
        """
        def f(zs, a, h):
            def step(carry, z):
                x, p = carry
                x, p = a @ x, a @ p @ a.T + 0.1 * jnp.eye(4)
                k = jnp.linalg.solve(h @ p @ h.T + 0.1 * jnp.eye(2), h @ p).T
                x, p = x + k @ (z - h @ x), p - k @ h @ p
                return (x, p), x
            return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), zs)[1]
        """,
    ),
    "Runge-Kutta": Function(
        100, 0,
        "draw(n, 2),",
        """
        def f(y):
            def rate(y):
                u, v = y[:, 0], y[:, 1]
                return sf.stack([v, (1 - u * u) * v - u], 1)
            def body(i, y):
                a = rate(y)
                b = rate(y + 0.005 * a)
                c = rate(y + 0.005 * b)
                return y + 0.01 / 6 * (a + 2 * b + 2 * c + rate(y + 0.01 * c))
            return sf.fori_loop(0, 200, body, y)
        """,
        """
        def f(y):
            def rate(y):
                u, v = y[:, 0], y[:, 1]
                return jnp.stack([v, (1 - u * u) * v - u], 1)
            def body(i, y):
                a = rate(y)
                b = rate(y + 0.005 * a)
                c = rate(y + 0.005 * b)
                return y + 0.01 / 6 * (a + 2 * b + 2 * c + rate(y + 0.01 * c))
            return lax.fori_loop(0, 200, body, y)
        """,
    ),
    "principal components": Function(
        60, 0,
        "draw(n, 10),",
        """
        def f(x):
            x = x - x.mean(0)
            u, s, vt = sf.linalg.svd(x, full_matrices=False)
            return x @ vt[:3].T, s**2 / (s**2).sum()
        """,
        """
        def f(x):
            x = x - x.mean(0)
            u, s, vt = jnp.linalg.svd(x, full_matrices=False)
            return x @ vt[:3].T, s**2 / (s**2).sum()
        """,
    ),
    "sorted rows and the five largest": Function(
        30, 0, "draw(n, 50),",
        "f = lambda x: (x.sort(-1)[0], *x.topk(5, -1))",
        "f = lambda x: (jnp.sort(x, -1), *lax.top_k(x, 5))",
    ),
    "elementwise": Function(
        1000, 0, "draw(n),",
        "f = lambda x: F.gelu(x) * sf.sin(x) + sf.exp(-x * x)",
        "f = lambda x: jax.nn.gelu(x, approximate=False) * jnp.sin(x) + jnp.exp(-x * x)",
    ),
    "product": Function(30, 0, "draw(n, 50),", "f = lambda x: x @ x.T", "f = lambda x: x @ x.T"),
}  # fmt: skip
"""The functions that are timed, by what they are."""


def child(
    text: str, function: str, result: str, own: Function, other: bool
) -> tuple[str, dict[str, str]]:
    """The program that calls a function, with an ``other`` size too if that is what is timed."""
    calls = CALLS.format(
        is_loss=own.before, size=own.size, inputs=own.inputs, function=function, result=result,
        other=int(other),
    )  # fmt: skip
    return text + calls, {"STATICFLOW_CACHE_DIR": ""}


def tables() -> dict[str, dict[str, Child]]:
    """Two tables for each function: its first call, and that of another size."""
    return {
        f"{title}, {kind} (CPU seconds)": {
            "staticflow jit": partial(child, OURS, own.ours, "call(*given)", own, other),
            "JAX jit": partial(
                child, JAX, own.jax, "jax.block_until_ready(call(*given))", own, other
            ),
        }
        for title, own in FUNCTIONS.items()
        for kind, other in (("first call", False), ("another size", True))
    }


if __name__ == "__main__":
    main_of_processes(__doc__, tables(), most=3)
