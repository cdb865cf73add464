"""Workload b: y = tanh(a x + b) sigmoid(x) + exp(-x x) on 4 M float32, and d sum(y) / d x.

A chain of elementwise functions: what counts is that it is one pass over memory, and the speed of
the exponentials in it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from common import Contestant, call_program, main, repeated, threads

SIZE = 4 * 1024 * 1024
A, B = 1.5, -0.25
TOLERANCE = 1e-5


def data() -> Any:
    """x: the same for all."""
    return np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)


# -- the value ------------------------------------------------------------------------------------


def numpy_value() -> Contestant:
    x = data()
    y, s, t = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    a, b = np.float32(A), np.float32(B)

    def call() -> Any:
        np.multiply(x, a, out=y)
        np.add(y, b, out=y)
        np.tanh(y, out=y)
        numpy_sigmoid(x, s)
        np.multiply(y, s, out=y)
        numpy_bell(x, t)
        return np.add(y, t, out=y)

    return repeated(call)


def numpy_sigmoid(x: Any, out: Any) -> None:
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, np.float32(1), out=out)
    np.reciprocal(out, out=out)


def numpy_bell(x: Any, out: Any) -> None:
    np.multiply(x, x, out=out)
    np.negative(out, out=out)
    np.exp(out, out=out)


def staticflow_static_value() -> Contestant:
    import staticflow as sf

    array = data()
    x = sf.placeholder((None,), name="x")
    program = sf.compile([x], chain(x, sf))
    return call_program(program, array)


def staticflow_eager_value() -> Contestant:
    import staticflow as sf

    x = sf.from_numpy(data())
    return repeated(lambda: chain(x, sf))


def pytorch_value() -> Contestant:
    import torch

    torch.set_num_threads(threads())
    x = torch.from_numpy(data())

    def call() -> Any:
        y = (x * A).add_(B).tanh_().mul_(torch.sigmoid(x))
        return y.add_((x * x).neg_().exp_())

    return repeated(call)


def torch_compile_value() -> Contestant:
    import torch

    torch.set_num_threads(threads())
    x = torch.from_numpy(data())
    compiled = torch.compile(lambda x: chain(x, torch))
    return repeated(lambda: compiled(x))


def jax_value() -> Contestant:
    import jax

    x = jax.numpy.asarray(data())
    compiled = jax.jit(lambda x: chain(x, jax_names(jax)))
    return repeated(lambda: compiled(x), jax.block_until_ready)


# -- the gradient ---------------------------------------------------------------------------------


def numpy_gradient() -> Contestant:
    """s' = s (1 - s), tanh' = 1 - tanh^2: A (1 - t^2) s + t s (1 - s) - 2 x exp(-x x)."""
    x = data()
    t, s, g, u = (np.empty_like(x) for _ in range(4))
    one, two = np.float32(1), np.float32(2)

    def call() -> Any:
        np.multiply(x, np.float32(A), out=t)
        np.add(t, np.float32(B), out=t)
        np.tanh(t, out=t)
        numpy_sigmoid(x, s)
        np.multiply(t, t, out=g)
        np.subtract(one, g, out=g)
        np.multiply(g, np.float32(A), out=g)
        np.subtract(one, s, out=u)
        np.multiply(u, t, out=u)
        np.add(g, u, out=g)
        np.multiply(g, s, out=g)
        numpy_bell(x, u)
        np.multiply(u, x, out=u)
        np.multiply(u, two, out=u)
        return np.subtract(g, u, out=g)

    return repeated(call)


def staticflow_static_gradient() -> Contestant:
    import staticflow as sf

    array = data()
    x = sf.placeholder((None,), name="x")
    program = sf.compile([x], sf.grad(chain(x, sf).sum(), x))
    return call_program(program, array)


def staticflow_eager_gradient() -> Contestant:
    import staticflow as sf

    x = sf.from_numpy(data()).requires_grad_()
    return repeated(lambda: sf.grad(chain(x, sf).sum(), x))


def pytorch_gradient() -> Contestant:
    import torch

    torch.set_num_threads(threads())
    x = torch.from_numpy(data()).requires_grad_()
    return repeated(lambda: torch.autograd.grad(chain(x, torch).sum(), x)[0])


def torch_compile_gradient() -> Contestant:
    import torch

    torch.set_num_threads(threads())
    x = torch.from_numpy(data())
    compiled = torch.compile(torch.func.grad(lambda x: chain(x, torch).sum()))
    return repeated(lambda: compiled(x))


def jax_gradient() -> Contestant:
    import jax

    x = jax.numpy.asarray(data())
    compiled = jax.jit(jax.grad(lambda x: chain(x, jax_names(jax)).sum()))
    return repeated(lambda: compiled(x), jax.block_until_ready)


# -- the expression -------------------------------------------------------------------------------


def chain(x: Any, names: Any) -> Any:
    """The expression in the functions of a framework."""
    return names.tanh(A * x + B) * names.sigmoid(x) + names.exp(-(x * x))


def jax_names(jax: Any) -> SimpleNamespace:
    """JAX's functions under the others' names."""
    return SimpleNamespace(tanh=jax.numpy.tanh, exp=jax.numpy.exp, sigmoid=jax.nn.sigmoid)


if __name__ == "__main__":
    main(
        __doc__,
        {
            "fused chain": {
                "NumPy": numpy_value,
                "staticflow static": staticflow_static_value,
                "staticflow eager": staticflow_eager_value,
                "PyTorch eager": pytorch_value,
                "torch.compile": torch_compile_value,
                "JAX jit": jax_value,
            },
            "fused chain, gradient": {
                "NumPy": numpy_gradient,
                "staticflow static": staticflow_static_gradient,
                "staticflow eager": staticflow_eager_gradient,
                "PyTorch eager": pytorch_gradient,
                "torch.compile": torch_compile_gradient,
                "JAX jit": jax_gradient,
            },
        },
        tolerance=TOLERANCE,
    )
