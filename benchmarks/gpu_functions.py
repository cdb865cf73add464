"""GPU workload a: functions of arrays that a GPU has: elementwise, rows, products, attention.

What is elementwise reads and writes as many bytes as a copy does, which is the first table. Softmax
and layer norm are of 2^24 elements in rows of 1,024 to 16,384.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Maker, main
from gpu_contestants import DEVICE, contestant_of, of_function

FULL = 1 << 26
"""Elements of float32 in 256 MiB."""


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def copy(names: Any, x: Any) -> Any:
    return x.clone()


def elementwise(names: Any, x: Any) -> Any:
    return names.sigmoid(x) * x + 0.5


def softmax(names: Any, x: Any) -> Any:
    return names.softmax(x, -1)


def layer_norm(names: Any, x: Any, weight: Any, bias: Any) -> Any:
    return names.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias)


def dense(names: Any, x: Any, w: Any, b: Any) -> Any:
    return names.nn.functional.gelu(x @ w + b)


def attention(names: Any, q: Any, k: Any, v: Any) -> Any:
    return names.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def tiny(names: Any, x: Any) -> Any:
    for i in range(25):
        x = names.tanh(x) + x.flip(0) * (0.5 + i / 100)
    return x


def jax_layer_norm(jax: Any, x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return centred * scale * weight + bias


def jax_attention(jax: Any, q: Any, k: Any, v: Any) -> Any:
    turned = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    return jax.nn.dot_product_attention(*turned, is_causal=True).transpose(0, 2, 1, 3)


def jax_tiny(jax: Any, x: Any) -> Any:
    for i in range(25):
        x = jax.numpy.tanh(x) + x[::-1] * (0.5 + i / 100)
    return x


def copied_by_cupy(x: Any) -> Maker:
    """The copy of the driver."""

    def make() -> Any:
        import cupy

        source = cupy.asarray(x)
        target = cupy.empty_like(source)

        def call() -> Any:
            target.data.copy_from_device_async(source.data, source.nbytes)
            return target

        made = contestant_of(call, cupy.cuda.Device().synchronize)
        return type(made)(made.run, lambda: [cupy.asnumpy(target)])

    return make


def tables(full: int = FULL) -> dict[str, dict[str, Maker]]:
    """The tables, of which the largest arrays have so many elements."""
    x = normal(full)
    copies = of_function(copy, [x], lambda jax, x: jax.numpy.copy(x))
    if DEVICE[0] == "cuda":
        copies["cupy, of device to device"] = copied_by_cupy(x)
    found = {
        "a copy of 256 MiB": copies,
        "elementwise on 256 MiB": of_function(
            elementwise, [x], lambda jax, x: jax.nn.sigmoid(x) * x + 0.5
        ),
    }
    for columns in (1024, 4096, 16384):
        columns = min(columns, full // 64)
        rows = normal(full // 4 // columns, columns)
        found[f"softmax of rows of {columns}"] = of_function(
            softmax, [rows], lambda jax, x: jax.nn.softmax(x, -1)
        )
        given = [rows, normal(columns, seed=1), normal(columns, seed=2)]
        found[f"layer norm of rows of {columns}"] = of_function(layer_norm, given, jax_layer_norm)
    n = max(64, round(full**0.5) // 4)
    found[f"gelu(x w + b), {n} cubed"] = of_function(
        dense,
        [normal(n, n), normal(n, n, seed=1) / np.float32(n**0.5), normal(n, seed=2)],
        lambda jax, x, w, b: jax.nn.gelu(x @ w + b, approximate=False),
    )
    places = max(32, round(full**0.5) // 8)
    heads = [normal(4, 8, places, 64, seed=s) for s in range(3)]
    found[f"causal attention over {places} places"] = of_function(attention, heads, jax_attention)
    found["50 tiny operations"] = of_function(tiny, [normal(1000)], jax_tiny)
    return found


if __name__ == "__main__":
    main(__doc__, tables(), tolerance=1e-3)
