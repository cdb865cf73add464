"""Workload o: attention alone, 8 heads of 64, forward and backward, causal and not.

From 64 to 2,048 places; the lengths are an unknown size of staticflow's program.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from common import Contestant, Maker, call_program, main, repeated, threads

HEADS, SIZE = 8, 64
LENGTHS = (64, 512, 2048)


def data(length: int) -> list[Any]:
    """Queries, keys, values and the cotangent of the result, (1, HEADS, length, SIZE)."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((1, HEADS, length, SIZE), np.float32) for _ in range(4)]


def staticflow_static(length: int, causal: bool) -> Contestant:
    """One program for all lengths."""
    import staticflow as sf

    q, k, v, ct = (sf.placeholder((1, HEADS, "T", SIZE), name=n) for n in ("q", "k", "v", "ct"))
    out = sf.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    program = sf.compile([q, k, v, ct], (out, *sf.grad(out, [q, k, v], cotangents=ct)))
    return call_program(program, *data(length))


def by_autograd(library: Any, length: int, causal: bool) -> Contestant:
    """The function of the library, and backward."""
    *inputs, ct = map(library.from_numpy, data(length))
    leaves = [a.requires_grad_() for a in inputs]

    def call() -> Any:
        for leaf in leaves:
            leaf.grad = None
        out = library.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
        out.backward(ct)
        return out.detach(), *(leaf.grad for leaf in leaves)

    return repeated(call)


def staticflow_eager(length: int, causal: bool) -> Contestant:
    """Autograd."""
    import staticflow as sf

    return by_autograd(sf, length, causal)


def pytorch_fused(length: int, causal: bool) -> Contestant:
    """PyTorch's own kernel, which never has all weights at once."""
    import torch

    torch.set_num_threads(threads())
    return by_autograd(torch, length, causal)


def jax_jit(length: int, causal: bool) -> Contestant:
    """``jax.nn.dot_product_attention``, whose heads stand behind the places."""
    import jax
    import jax.numpy as jnp

    *inputs, ct = (jnp.asarray(a) for a in data(length))

    def attend(*inputs: Any) -> Any:
        q, k, v = (a.transpose(0, 2, 1, 3) for a in inputs)
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal).transpose(0, 2, 1, 3)

    @jax.jit
    def both(ct: Any, *inputs: Any) -> Any:
        out, back = jax.vjp(attend, *inputs)
        return out, *back(ct)

    return repeated(lambda: both(ct, *inputs), jax.block_until_ready)


CONTESTANTS = {
    "PyTorch fused": pytorch_fused,
    "staticflow static": staticflow_static,
    "staticflow eager": staticflow_eager,
    "JAX jit": jax_jit,
}


def tables() -> dict[str, dict[str, Maker]]:
    """A table for each length, causal or not."""
    return {
        f"attention over {length:,} places{', causal' if causal else ''}": {
            name: partial(make, length, causal) for name, make in CONTESTANTS.items()
        }
        for causal in (False, True)
        for length in LENGTHS
    }


if __name__ == "__main__":
    main(__doc__, tables(), tolerance=1e-3)
