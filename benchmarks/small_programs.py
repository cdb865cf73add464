"""Workload t: what a program of ten tiny operations costs, and an optimiser of 200 parameters.

Ten operations on 16 float32, called as a function; a step of Adam on 200 tensors of 16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Contestant, main, repeated, threads

SIZE, TENSORS = 16, 200


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


def numpy_ten() -> Contestant:
    """Without compiling."""
    arrays = data()
    return repeated(lambda: ten(*arrays))


def staticflow_ten() -> Contestant:
    """``jit``."""
    import staticflow as sf

    x, y = map(sf.from_numpy, data())
    program = sf.jit(ten)
    return repeated(lambda: program(x, y))


def staticflow_compiled_ten() -> Contestant:
    """``compile``."""
    import staticflow as sf

    arrays = data()
    x, y = (sf.placeholder((None,), name=n) for n in "xy")
    program = sf.compile([x, y], ten(x, y))
    return repeated(lambda: program(*arrays), program=program, arguments=arrays)


def staticflow_eager_ten() -> Contestant:
    """One after the other."""
    import staticflow as sf

    x, y = map(sf.from_numpy, data())
    return repeated(lambda: ten(x, y))


def pytorch_ten() -> Contestant:
    """One after the other."""
    import torch

    torch.set_num_threads(threads())
    x, y = map(torch.from_numpy, data())
    return repeated(lambda: ten(x, y))


def torch_compile_ten() -> Contestant:
    """``torch.compile``."""
    import torch

    torch.set_num_threads(threads())
    x, y = map(torch.from_numpy, data())
    program = torch.compile(ten)
    return repeated(lambda: program(x, y))


def jax_ten() -> Contestant:
    """``jit``."""
    import jax
    import jax.numpy as jnp

    x, y = map(jnp.asarray, data())
    program = jax.jit(ten)
    return repeated(lambda: program(x, y), jax.block_until_ready)


def numba_ten() -> Contestant:
    """``njit``, a loop."""
    import numba

    @numba.njit
    def program(x: Any, y: Any) -> Any:
        found = np.empty_like(x)
        for i in range(len(x)):
            z = x[i] * y[i] + x[i]
            z = z - np.float32(0.5) * y[i]
            z = z * z + np.float32(1)
            found[i] = z / (x[i] + np.float32(2)) - y[i]
        return found

    arrays = data()
    return repeated(lambda: program(*arrays))


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


if __name__ == "__main__":
    main(
        __doc__,
        {
            "a program of ten tiny operations": {
                "NumPy": numpy_ten,
                "staticflow jit": staticflow_ten,
                "staticflow static": staticflow_compiled_ten,
                "staticflow eager": staticflow_eager_ten,
                "PyTorch eager": pytorch_ten,
                "torch.compile": torch_compile_ten,
                "JAX jit": jax_ten,
                "numba": numba_ten,
            },
            "Adam on 200 tensors": {
                "staticflow eager": staticflow_eager_adam,
                "staticflow static": staticflow_static_adam,
                "PyTorch, for each": lambda: pytorch_adam(fused=False),
                "PyTorch, fused": lambda: pytorch_adam(fused=True),
            },
        },
    )
