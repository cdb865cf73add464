"""How long compiling takes: with known sizes, with unknown ones, under `jit`; beside JAX.

Each program in a process of its own, with nothing on disk, from after the imports and a first small
program to the first results, gradients included. Then programs that grow, each ten times as large
as the one before, from their first line to machine code, in CPU seconds of all threads; those that
are not ready after ``--limit`` seconds are left out. In staticflow the sizes of the inputs and of
the chain are unknown.
"""

from __future__ import annotations

from functools import partial

from processes import Child, main_of_processes

OURS = """
import time
import staticflow as sf
F = sf.nn.functional
draw = lambda *shape: 0.1 * sf.randn(*shape)
def run(loss, shapes, weights, kind):
    arrays = [sf.randn(*shape) for shape in shapes]
    if kind == "jit":
        for w in weights:
            w.requires_grad_(True)
        sf.jit(loss)(*arrays, *weights).backward()
        return
    open_ = [tuple(None if kind == "open" else n for n in shape) for shape in shapes]
    xs = [sf.placeholder(shape, name=f"x{{i}}") for i, shape in enumerate(open_)]
    value = loss(*xs, *weights)
    sf.compile(xs, [value, *sf.grad(value, weights)])(*arrays)
tanh, exp, logsumexp = sf.tanh, sf.exp, lambda x: x.logsumexp(1)
def conv(x, w, width, d):
    return F.conv1d(x, w, padding=d * (width // 2), dilation=d)
def conv3(x, w):
    return F.conv3d(x, w, padding=1)
def pool3(x):
    return F.max_pool3d(x, 2)
def deconv3(x, w):
    return F.conv_transpose3d(x, w, stride=2)
def norm(x):
    return F.layer_norm(x, (x.shape[-1],))
relu = sf.relu
def softmax(x):
    return x.softmax(-1)
def swap(x):
    return x.transpose(-1, -2)
x = sf.randn(3, 3, requires_grad=True)
(x @ x).sum().backward()
run(lambda x, w: (x @ w).sum(), [(3, 3)], [draw(3, 3)], "known")
{program}
began = time.perf_counter()
run(loss, shapes, weights, {kind!r})
print(time.perf_counter() - began)
"""

JAX = """
import time
import jax, numpy as np
from jax import numpy as jnp
random = np.random.default_rng(0)
draw = lambda *shape: jnp.asarray(0.1 * random.standard_normal(shape), jnp.float32)
def run(loss, shapes, weights, kind):
    arrays = [draw(*shape) for shape in shapes]
    args = tuple(range(len(arrays), len(arrays) + len(weights)))
    jax.block_until_ready(jax.jit(jax.value_and_grad(loss, args))(*arrays, *weights))
tanh, exp, softmax = jnp.tanh, jnp.exp, jax.nn.softmax
def logsumexp(x):
    return jax.nn.logsumexp(x, 1)
def conv(x, w, width, d):
    pad = d * (width // 2)
    return jax.lax.conv_general_dilated(
        x, w, (1,), [(pad, pad)], rhs_dilation=(d,), dimension_numbers=("NCH", "OIH", "NCH"))
def conv3(x, w):
    return jax.lax.conv_general_dilated(
        x, w, (1, 1, 1), [(1, 1)] * 3, dimension_numbers=("NCDHW", "OIDHW", "NCDHW"))
def pool3(x):
    return jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 1, 2, 2, 2), (1, 1, 2, 2, 2), "VALID")
def deconv3(x, w):
    return jax.lax.conv_transpose(
        x, w, (2, 2, 2), "VALID", dimension_numbers=("NCDHW", "IODHW", "NCDHW"))
def norm(x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
relu = jax.nn.relu
def swap(x):
    return jnp.swapaxes(x, -1, -2)
run(lambda x, w: (x @ w).sum(), [(3, 3)], [draw(3, 3)], "known")
{program}
began = time.perf_counter()
run(loss, shapes, weights, {kind!r})
print(time.perf_counter() - began)
"""

PROGRAMS = {
    "a net of two layers": """
shapes, weights = [(16, 20), (16, 3)], [draw(20, 64), draw(64, 3)]
def loss(x, y, w, v):
    return ((tanh(x @ w) @ v - y) ** 2).mean()
""",
    "a mixture density layer": """
shapes, weights = [(16, 4), (16,)], [draw(4, 32), draw(32, 15)]
def loss(x, y, w, v):
    h = tanh(x @ w) @ v
    logits, mean, scale = h[:, :5], h[:, 5:10], h[:, 10:]
    parts = logits - 0.5 * ((y[:, None] - mean) / exp(scale)) ** 2 - scale
    return (logsumexp(logits) - logsumexp(parts)).mean()
""",
    "attention": """
shapes, weights = [(2, 10, 32)], [draw(32, 32), draw(32, 32), draw(32, 32)]
def loss(x, q, k, v):
    return ((softmax((x @ q) @ swap(x @ k)) @ (x @ v)) ** 2).mean()
""",
    "three gated dilated convolutions": """
shapes = [(4, 8, 50)]
weights = [w for _ in range(3) for w in (draw(16, 8, 3), draw(16, 8, 3), draw(8, 16, 1))]
def loss(x, *ws):
    for i in range(3):
        a, b, u = ws[3 * i : 3 * i + 3]
        x = x + conv(tanh(conv(x, a, 3, 2**i)) * tanh(conv(x, b, 3, 2**i)), u, 1, 1)
    return (x * x).mean()
""",
    "convolution, pooling, transposed convolution in 3-D": """
shapes, weights = [(2, 3, 8, 8, 8)], [draw(4, 3, 3, 3, 3), draw(4, 2, 2, 2, 2)]
def loss(x, w, v):
    return (deconv3(pool3(relu(conv3(x, w))), v) ** 2).mean()
""",
    "an encoder of two layers": """
shapes = [(4, 12, 32)]
weights = [w for _ in range(2) for w in (
    draw(32, 32), draw(32, 32), draw(32, 32), draw(32, 32), draw(32, 64), draw(64, 32))]
def loss(x, *ws):
    for i in range(2):
        q, k, v, out, up, down = ws[6 * i : 6 * i + 6]
        y = norm(x)
        x = x + softmax((y @ q) @ swap(y @ k)) @ (y @ v) @ out
        x = x + relu(norm(x) @ up) @ down
    return (x * x).mean()
""",
}

GROWING = """
import time
import numpy as np
import staticflow as sf
random = np.random.default_rng(0)
draw = lambda *shape: sf.from_numpy(0.1 * random.standard_normal(shape).astype("f"))
sf.compile([x := sf.placeholder((None,), name="x")], x + 1)
began = time.process_time()
{program}
print(time.process_time() - began)
"""

GROWING_JAX = """
import time
import jax, numpy as np
from jax import numpy as jnp
random = np.random.default_rng(0)
draw = lambda *shape: jnp.asarray(0.1 * random.standard_normal(shape), jnp.float32)
jax.jit(lambda x: x + 1).lower(draw(3)).compile()
began = time.process_time()
{program}
print(time.process_time() - began)
"""

CHAIN = """
x = sf.placeholder((None,), name="x")
y = x
for i in range({size}):
    y = (y * 1.0001).sin() if i % 2 else y + x
sf.compile([x], y)
"""

CHAIN_JAX = """
def chain(x):
    y = x
    for i in range({size}):
        y = jnp.sin(y * 1.0001) if i % 2 else y + x
    return y
jax.jit(chain).lower(draw(8)).compile()
"""

ADAM = """
tensors = [sf.nn.Parameter(draw(8, 8)) for _ in range({size})]
x = sf.placeholder((4, 8), name="x")
loss = sum(((x @ w) ** 2).mean() for w in tensors)
sf.compile([x], loss, updates=sf.optim.Adam(tensors, lr=1e-3).minimize(loss))
"""

ADAM_JAX = """
def step(x, ws, ms, vs, t):
    loss = lambda ws: sum(((x @ w) ** 2).mean() for w in ws)
    value, gs = jax.value_and_grad(loss)(ws)
    t = t + 1
    ms = [m + 0.1 * (g - m) for m, g in zip(ms, gs)]
    vs = [0.999 * v + 0.001 * (g * g) for v, g in zip(vs, gs)]
    first, root = 1 - 0.9**t, (1 - 0.999**t) ** 0.5
    ws = [w - 1e-3 * root / first * m / (jnp.sqrt(v) + 1e-8 * root)
          for w, m, v in zip(ws, ms, vs)]
    return value, ws, ms, vs, t
ws, ms, vs = ([draw(8, 8) for _ in range({size})] for _ in range(3))
jax.jit(step, donate_argnums=(1, 2, 3)).lower(draw(4, 8), ws, ms, vs, jnp.float32(0)).compile()
"""

LAYERS = """
weights = [draw(8, 8) for _ in range({size})]
x = sf.placeholder((4, 8), name="x")
y = x
for w in weights:
    y = (y @ w).tanh()
sf.compile([x], [y.sum(), *sf.grad(y.sum(), weights)])
"""

LAYERS_JAX = """
def loss(ws, x):
    for w in ws:
        x = jnp.tanh(x @ w)
    return x.sum()
ws = [draw(8, 8) for _ in range({size})]
jax.jit(jax.value_and_grad(loss)).lower(ws, draw(4, 8)).compile()
"""

INPUTS = """
xs = [sf.placeholder((None,), name=f"x{{i}}") for i in range({size})]
y = xs[0]
for x in xs[1:]:
    y = y * 1.5 + x.sum()
sf.compile(xs, y)
"""

INPUTS_JAX = """
def total(xs):
    y = xs[0]
    for x in xs[1:]:
        y = y * 1.5 + x.sum()
    return y
jax.jit(total).lower([draw(8) for _ in range({size})]).compile()
"""


GROWTH = {
    ("a chain of operations", CHAIN, CHAIN_JAX): (100, 1_000, 10_000, 100_000),
    ("Adam on many tensors", ADAM, ADAM_JAX): (10, 100, 1_000),
    ("the gradient of many layers", LAYERS, LAYERS_JAX): (10, 100, 1_000),
    ("many inputs", INPUTS, INPUTS_JAX): (10, 100, 1_000),
}
"""Programs that grow, and by how much: what compiling them takes is to be a straight line."""


def child(text: str, **parts: str) -> tuple[str, dict[str, str]]:
    """A program with its ``parts``, and nothing on disk."""
    return text.format(**parts), {"STATICFLOW_CACHE_DIR": ""}


def tables() -> dict[str, dict[str, Child]]:
    """A table for each program, and one for each kind that grows."""
    found: dict[str, dict[str, Child]] = {}
    for title, program in PROGRAMS.items():
        kinds = {f"staticflow, {k} sizes": k for k in ("known", "open")} | {"staticflow jit": "jit"}
        mine = {n: partial(child, OURS, program=program, kind=k) for n, k in kinds.items()}
        found[title] = {**mine, "JAX jit": partial(child, JAX, program=program, kind="")}
    for (title, ours, jax), sizes in GROWTH.items():
        for size in sizes:
            found[f"{title}: {size:,} (CPU seconds)"] = {
                "staticflow": partial(child, GROWING, program=ours.format(size=size)),
                "JAX jit": partial(child, GROWING_JAX, program=jax.format(size=size)),
            }
    return found


if __name__ == "__main__":
    main_of_processes(__doc__, tables(), most=5)
