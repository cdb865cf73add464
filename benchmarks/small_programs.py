"""Workload t: what programs of a few tiny operations cost, and an optimiser of 1,000 parameters.

One operation and ten on 16 float32, called as a function; a step of Adam on 1,000 tensors of 16.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import Contestant, main, repeated, threads

SIZE, TENSORS = 16, 1000


def data() -> tuple[Any, Any]:
    """Two arrays."""
    x, y = np.random.default_rng(0).uniform(0.5, 1.5, (2, SIZE)).astype(np.float32)
    return x, y


def ten(x: Any, y: Any) -> Any:
    """Ten operations in what all have alike."""
    z = x * y + x
    z = z - 0.5 * y
    z = z * z + 1.0
    z = z / (x + 2.0)
    return z - y


def one(x: Any, y: Any) -> Any:
    """One operation."""
    return x + y


def ten_of_float32(x: Any, y: Any) -> Any:
    """The ten for a compiler to which a number of Python's is a float64."""
    z = x * y + x
    z = z - np.float32(0.5) * y
    z = z * z + np.float32(1.0)
    z = z / (x + np.float32(2.0))
    return z - y


Function = Callable[[Any, Any], Any]


def numpy_call(function: Function) -> Contestant:
    """Without compiling."""
    arrays = data()
    return repeated(lambda: function(*arrays))


def staticflow_jit(function: Function) -> Contestant:
    """``jit``."""
    import staticflow as sf

    x, y = map(sf.from_numpy, data())
    program = sf.jit(function)
    return repeated(lambda: program(x, y))


def staticflow_static(function: Function) -> Contestant:
    """``compile``."""
    import staticflow as sf

    arrays = data()
    x, y = (sf.placeholder((None,), name=n) for n in "xy")
    program = sf.compile([x, y], function(x, y))
    return repeated(lambda: program(*arrays), program=program, arguments=arrays)


def staticflow_eager(function: Function) -> Contestant:
    """One after the other."""
    import staticflow as sf

    x, y = map(sf.from_numpy, data())
    return repeated(lambda: function(x, y))


def pytorch_eager(function: Function) -> Contestant:
    """One after the other."""
    import torch

    torch.set_num_threads(threads())
    x, y = map(torch.from_numpy, data())
    return repeated(lambda: function(x, y))


def torch_compile(function: Function) -> Contestant:
    """``torch.compile``."""
    import torch

    torch.set_num_threads(threads())
    x, y = map(torch.from_numpy, data())
    program = torch.compile(function)
    return repeated(lambda: program(x, y))


def jax_jit(function: Function) -> Contestant:
    """``jit``."""
    import jax
    import jax.numpy as jnp

    x, y = map(jnp.asarray, data())
    program = jax.jit(function)
    return repeated(lambda: program(x, y), jax.block_until_ready)


def numba_loop(function: Function) -> Contestant:
    """``njit``, a loop whose body is the function, on float32 alone."""
    import numba

    each = numba.njit(ten_of_float32 if function is ten else function)

    @numba.njit
    def program(x: Any, y: Any) -> Any:
        found = np.empty_like(x)
        for i in range(len(x)):
            found[i] = each(x[i], y[i])
        return found

    arrays = data()
    return repeated(lambda: program(*arrays))


CALLS: dict[str, Callable[[Function], Contestant]] = {
    "NumPy": numpy_call,
    "staticflow jit": staticflow_jit,
    "staticflow static": staticflow_static,
    "staticflow eager": staticflow_eager,
    "PyTorch eager": pytorch_eager,
    "torch.compile": torch_compile,
    "JAX jit": jax_jit,
    "numba": numba_loop,
}


# -- Adam -----------------------------------------------------------------------------------------


def gradients() -> tuple[Any, Any]:
    """Parameters and their gradients."""
    p, g = np.random.default_rng(0).standard_normal((2, TENSORS, SIZE)).astype(np.float32)
    return p, g


def staticflow_static_adam() -> Contestant:
    """One program; the gradients are what the parameters are multiplied with."""
    import staticflow as sf

    values, slopes = gradients()
    parameters = [sf.nn.Parameter(v) for v in values]
    x = sf.placeholder((TENSORS, SIZE), name="x")
    rows = [x[i] for i in range(TENSORS)]
    total = sum((p * row).sum() for p, row in zip(parameters, rows, strict=True))
    step = sf.compile([x], None, updates=sf.optim.Adam(parameters, lr=1e-3).minimize(total))

    def run(n: int) -> None:
        for _ in range(n):
            step(slopes)

    return Contestant(run, lambda: [np.stack([p.detach().numpy() for p in parameters])])


def adam(library: Any, **options: Any) -> Contestant:
    """The optimiser of a library with PyTorch's names; the gradients stay."""
    values, slopes = gradients()
    parameters = [library.nn.Parameter(library.from_numpy(v)) for v in values]
    for p, g in zip(parameters, slopes, strict=True):
        p.grad = library.from_numpy(g)
    optimiser = library.optim.Adam(parameters, lr=1e-3, **options)

    def run(n: int) -> None:
        for _ in range(n):
            optimiser.step()

    return Contestant(run, lambda: [np.stack([p.detach().numpy() for p in parameters])])


def staticflow_eager_adam() -> Contestant:
    """``optim.Adam``."""
    import staticflow as sf

    return adam(sf)


def pytorch_adam(fused: bool) -> Contestant:
    """``optim.Adam``, all tensors in one call or some at a time."""
    import torch

    torch.set_num_threads(threads())
    return adam(torch, fused=fused)


def jax_adam() -> Contestant:
    """``jit`` of the step on a list of parameters, which are donated with their moments."""
    import jax
    import jax.numpy as jnp

    values, slopes = gradients()
    state = [(jnp.asarray(v), jnp.zeros(SIZE), jnp.zeros(SIZE)) for v in values]
    slopes, count = [jnp.asarray(g) for g in slopes], jnp.zeros(())

    @jax.jit(donate_argnums=(0, 1))
    def step(state: Any, count: Any, slopes: Any) -> Any:
        count = count + 1
        rate, scale = 1e-3 / (1 - 0.9**count), (1 - 0.999**count) ** -0.5
        new = []
        for (p, m, v), g in zip(state, slopes, strict=True):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            new.append((p - rate * m / (jnp.sqrt(v) * scale + 1e-8), m, v))
        return new, count

    def run(n: int) -> None:
        nonlocal state, count
        for _ in range(n):
            state, count = step(state, count, slopes)
        jax.block_until_ready(state)

    return Contestant(run, lambda: [np.stack([np.asarray(p) for p, _, _ in state])])


if __name__ == "__main__":
    main(
        __doc__,
        {
            "a program of x + y": {n: partial(make, one) for n, make in CALLS.items()},
            "a program of ten tiny operations": {
                n: partial(make, ten) for n, make in CALLS.items()
            },
            f"Adam on {TENSORS:,} tensors": {
                "staticflow eager": staticflow_eager_adam,
                "staticflow static": staticflow_static_adam,
                "PyTorch, for each": lambda: pytorch_adam(fused=False),
                "PyTorch, fused": lambda: pytorch_adam(fused=True),
                "JAX jit": jax_adam,
            },
        },
    )
