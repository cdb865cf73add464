"""Workload c: softmax with cross-entropy and layer norm, values and gradients.

On 4096 x 1000 and 4096 x 768 float32. Reductions along rows and what follows from them: what counts
is how often memory is gone through, and for the softmax the speed of the exponentials.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Contestant, call_program, main, repeated, threads

ROWS = 4096
CLASSES, FEATURES = 1000, 768
EPS = 1e-5


def scores() -> tuple[Any, Any]:
    """The scores and the classes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, CLASSES)).astype(np.float32)
    return x, rng.integers(0, CLASSES, ROWS)


def features() -> tuple[Any, Any, Any, Any]:
    """x, the weight, the bias, and the cotangent of the result."""
    rng = np.random.default_rng(0)
    x, ct = rng.standard_normal((2, ROWS, FEATURES)).astype(np.float32)
    weight, bias = rng.standard_normal((2, FEATURES)).astype(np.float32)
    return x, weight, bias, ct


# -- softmax and cross-entropy --------------------------------------------------------------------


def numpy_cross_entropy() -> Contestant:
    x, classes = scores()
    rows = np.arange(len(x))
    e = np.empty_like(x)

    def call() -> Any:
        m = x.max(1, keepdims=True)
        np.subtract(x, m, out=e)
        chosen = e[rows, classes]
        np.exp(e, out=e)
        total = e.sum(1, keepdims=True)
        loss = (np.log(total[:, 0]) - chosen).mean()
        np.multiply(e, np.float32(1 / len(x)) / total, out=e)
        e[rows, classes] -= np.float32(1 / len(x))
        return loss, e

    return repeated(call)


def staticflow_static_cross_entropy() -> Contestant:
    import staticflow as sf

    arrays = scores()
    x = sf.placeholder((None, CLASSES), name="x")
    classes = sf.placeholder((None,), "int64", name="classes")
    loss = sf.nn.functional.cross_entropy(x, classes)
    program = sf.compile([x, classes], (loss, sf.grad(loss, [x])[0]))
    return call_program(program, *arrays)


def _step_cross_entropy(names: Any, x: Any, classes: Any) -> Any:
    """The same lines for staticflow's eager mode and for PyTorch."""
    x = x.detach().requires_grad_()
    loss = names.nn.functional.cross_entropy(x, classes)
    loss.backward()
    return loss.detach(), x.grad


def staticflow_eager_cross_entropy() -> Contestant:
    import staticflow as sf

    x, classes = map(sf.from_numpy, scores())
    return repeated(lambda: _step_cross_entropy(sf, x, classes))


def pytorch_cross_entropy() -> Contestant:
    import torch

    torch.set_num_threads(threads())
    x, classes = map(torch.from_numpy, scores())
    return repeated(lambda: _step_cross_entropy(torch, x, classes))


def torch_compile_cross_entropy() -> Contestant:
    import torch

    torch.set_num_threads(threads())
    x, classes = map(torch.from_numpy, scores())
    x.requires_grad_()
    compiled = torch.compile(torch.nn.functional.cross_entropy)

    def call() -> Any:
        x.grad = None
        loss = compiled(x, classes)
        loss.backward()
        return loss.detach(), x.grad

    return repeated(call)


def jax_cross_entropy() -> Contestant:
    import jax

    jnp = jax.numpy
    x, classes = map(jnp.asarray, scores())

    def loss_of(x: Any) -> Any:
        chosen = jnp.take_along_axis(x, classes[:, None], 1)[:, 0]
        return (jax.nn.logsumexp(x, 1) - chosen).mean()

    compiled = jax.jit(jax.value_and_grad(loss_of))
    return repeated(lambda: compiled(x), jax.block_until_ready)


# -- layer norm -----------------------------------------------------------------------------------


def numpy_layer_norm() -> Contestant:
    x, weight, bias, ct = features()

    def call() -> Any:
        centred = x - x.mean(1, keepdims=True)
        scale = 1 / np.sqrt((centred * centred).mean(1, keepdims=True) + np.float32(EPS))
        normal = centred * scale
        g = ct * weight
        inner = (g * normal).mean(1, keepdims=True)
        to_x = (g - g.mean(1, keepdims=True) - normal * inner) * scale
        return normal * weight + bias, to_x, (ct * normal).sum(0), ct.sum(0)

    return repeated(call)


def staticflow_static_layer_norm() -> Contestant:
    import staticflow as sf

    arrays = features()
    x = sf.placeholder((None, FEATURES), name="x")
    weight, bias = (sf.placeholder((FEATURES,), name=n) for n in ("weight", "bias"))
    ct = sf.placeholder((None, FEATURES), name="ct")
    y = sf.nn.functional.layer_norm(x, (FEATURES,), weight, bias, EPS)
    found = sf.grad(y, [x, weight, bias], cotangents=ct)
    program = sf.compile([x, weight, bias, ct], (y, *found))
    return call_program(program, *arrays)


def _step_layer_norm(names: Any, x: Any, weight: Any, bias: Any, ct: Any) -> Any:
    leaves = [v.detach().requires_grad_() for v in (x, weight, bias)]
    y = names.nn.functional.layer_norm(leaves[0], (FEATURES,), leaves[1], leaves[2], EPS)
    y.backward(ct)
    return y.detach(), *(v.grad for v in leaves)


def staticflow_eager_layer_norm() -> Contestant:
    import staticflow as sf

    tensors = [sf.from_numpy(a) for a in features()]
    return repeated(lambda: _step_layer_norm(sf, *tensors))


def pytorch_layer_norm() -> Contestant:
    import torch

    torch.set_num_threads(threads())
    tensors = [torch.from_numpy(a) for a in features()]
    return repeated(lambda: _step_layer_norm(torch, *tensors))


def torch_compile_layer_norm() -> Contestant:
    import torch

    torch.set_num_threads(threads())
    *leaves, ct = (torch.from_numpy(a) for a in features())
    for v in leaves:
        v.requires_grad_()
    compiled = torch.compile(lambda x, w, b: torch.nn.functional.layer_norm(x, (FEATURES,), w, b))

    def call() -> Any:
        for v in leaves:
            v.grad = None
        y = compiled(*leaves)
        y.backward(ct)
        return y.detach(), *(v.grad for v in leaves)

    return repeated(call)


def jax_layer_norm() -> Contestant:
    import jax

    jnp = jax.numpy
    *inputs, ct = map(jnp.asarray, features())

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        centred = x - x.mean(1, keepdims=True)
        scale = jax.lax.rsqrt((centred * centred).mean(1, keepdims=True) + EPS)
        return centred * scale * weight + bias

    def both(ct: Any, *inputs: Any) -> Any:
        y, back = jax.vjp(layer_norm, *inputs)
        return y, *back(ct)

    compiled = jax.jit(both)
    return repeated(lambda: compiled(ct, *inputs), jax.block_until_ready)


if __name__ == "__main__":
    main(
        __doc__,
        {
            "softmax and cross-entropy": {
                "NumPy": numpy_cross_entropy,
                "staticflow static": staticflow_static_cross_entropy,
                "staticflow eager": staticflow_eager_cross_entropy,
                "PyTorch eager": pytorch_cross_entropy,
                "torch.compile": torch_compile_cross_entropy,
                "JAX jit": jax_cross_entropy,
            },
            "layer norm": {
                "NumPy": numpy_layer_norm,
                "staticflow static": staticflow_static_layer_norm,
                "staticflow eager": staticflow_eager_layer_norm,
                "PyTorch eager": pytorch_layer_norm,
                "torch.compile": torch_compile_layer_norm,
                "JAX jit": jax_layer_norm,
            },
        },
    )
