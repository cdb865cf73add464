"""Workload r: gravity among 64 bodies, and conjugate gradients, both with a gradient.

500 leapfrog steps in 3 coordinates, and the gradient of the energy after 50 of them by the first
velocities; a system of 500 equations in 60 rounds, and the gradient of the solution's sum by the
right side, which is another solution: that of ones.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from common import Contestant, call_program, main, repeated, threads

BODIES, STEPS, FEW, DT, SOFT = 64, 500, 50, 1e-3, 1e-2
SIZE, ROUNDS = 500, 60


def bodies() -> tuple[Any, Any]:
    """Positions and velocities; every mass is 1 / 64."""
    x, v = np.random.default_rng(0).standard_normal((2, BODIES, 3))
    return x.astype(np.float32), (0.1 * v).astype(np.float32)


def system() -> tuple[Any, Any]:
    """A positive definite matrix and a right side, in float64."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((SIZE, SIZE)) / SIZE**0.5
    return q @ q.T + np.eye(SIZE), rng.standard_normal(SIZE)


# -- bodies ---------------------------------------------------------------------------------------


def pull(x: Any) -> Any:
    """The accelerations, in what NumPy, JAX, PyTorch and staticflow have alike."""
    apart = x[None, :, :] - x[:, None, :]
    inverse = 1 / ((apart * apart).sum(-1) + SOFT) ** 0.5
    return (apart * (inverse * inverse * inverse)[:, :, None]).sum(1) / BODIES


def leap(x: Any, v: Any) -> tuple[Any, Any]:
    """One step: half a kick, a drift, half a kick."""
    half = v + 0.5 * DT * pull(x)
    x = x + DT * half
    return x, half + 0.5 * DT * pull(x)


def energy(x: Any, v: Any) -> Any:
    """The energy of motion, and of places."""
    apart = x[None, :, :] - x[:, None, :]
    distance = ((apart * apart).sum(-1) + SOFT) ** 0.5
    return 0.5 * (v * v).sum() / BODIES - 0.5 * (1 / distance).sum() / BODIES**2


def numpy_bodies() -> Contestant:
    """A Python loop."""
    start = bodies()

    def call() -> Any:
        x, v = start
        for _ in range(STEPS):
            x, v = leap(x, v)
        return x, v

    return repeated(call)


def staticflow_bodies() -> Contestant:
    """A loop of the graph."""
    import staticflow as sf

    arrays = bodies()
    x, v = (sf.placeholder((BODIES, 3), name=n) for n in "xv")
    found = sf.fori_loop(0, STEPS, lambda _, c: leap(*c), (x, v))
    return call_program(sf.compile([x, v], tuple(found)), *arrays)


def numba_bodies() -> Contestant:
    """Loops."""
    import numba

    @numba.njit(fastmath=True)
    def accelerate(x: Any, a: Any) -> None:
        for i in range(BODIES):
            ax = ay = az = np.float32(0)
            for j in range(BODIES):
                dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                near = dx * dx + dy * dy + dz * dz + np.float32(SOFT)
                pulled = np.float32(1) / (near * np.sqrt(near))
                ax += dx * pulled
                ay += dy * pulled
                az += dz * pulled
            a[i, 0], a[i, 1], a[i, 2] = ax, ay, az

    @numba.njit(fastmath=True)
    def run(x: Any, v: Any) -> Any:
        x, v, a = x.copy(), v.copy(), np.empty_like(x)
        kick = np.float32(0.5 * DT / BODIES)
        accelerate(x, a)
        for _ in range(STEPS):
            v += kick * a
            x += np.float32(DT) * v
            accelerate(x, a)
            v += kick * a
        return x, v

    arrays = bodies()
    return repeated(lambda: run(*arrays))


def jax_bodies() -> Contestant:
    """``fori_loop``."""
    import jax
    import jax.numpy as jnp

    x, v = map(jnp.asarray, bodies())
    program = jax.jit(lambda x, v: jax.lax.fori_loop(0, STEPS, lambda _, c: leap(*c), (x, v)))
    return repeated(lambda: program(x, v), jax.block_until_ready)


def staticflow_energy() -> Contestant:
    """``grad`` of a loop."""
    import staticflow as sf

    arrays = bodies()
    x, v = (sf.placeholder((BODIES, 3), name=n) for n in "xv")
    last = sf.fori_loop(0, FEW, lambda _, c: leap(*c), (x, v))
    return call_program(sf.compile([x, v], sf.grad(energy(*last), v)), *arrays)


def pytorch_energy() -> Contestant:
    """Autograd through a Python loop."""
    import torch

    torch.set_num_threads(threads())
    x, v = map(torch.from_numpy, bodies())
    v.requires_grad_()

    def call() -> Any:
        state = x, v
        for _ in range(FEW):
            state = leap(*state)
        return torch.autograd.grad(energy(*state), v)[0]

    return repeated(call)


def jax_energy() -> Contestant:
    """``grad`` of a scan."""
    import jax
    import jax.numpy as jnp

    x, v = map(jnp.asarray, bodies())

    def energy_of(v: Any, x: Any) -> Any:
        last, _ = jax.lax.scan(lambda c, _: (leap(*c), None), (x, v), length=FEW)
        return energy(*last)

    program = jax.jit(jax.grad(energy_of))
    return repeated(lambda: program(v, x), jax.block_until_ready)


# -- conjugate gradients --------------------------------------------------------------------------


def conjugate(a: Any, b: Any, loop: Any) -> Any:
    """The solution of a x = b, after so many rounds of a ``loop``."""

    def step(_: Any, state: Any) -> Any:
        x, r, p, rr = state
        ap = a @ p
        alpha = rr / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        new = r @ r
        return x, r, r + (new / rr) * p, new

    return loop(0, ROUNDS, step, (0 * b, b, b, b @ b))[0]


def python_loop(first: int, last: int, step: Any, state: Any) -> Any:
    """A loop of Python."""
    for i in range(first, last):
        state = step(i, state)
    return state


def numpy_solve() -> Contestant:
    """A Python loop; the gradient by another solution: of the right side it is that of ones."""
    a, b = system()

    def call() -> Any:
        x = conjugate(a, b, python_loop)
        to_b = conjugate(a, np.ones_like(b), python_loop)
        return x, to_b

    return repeated(call)


def staticflow_solve() -> Contestant:
    """Two solutions, as NumPy does."""
    import staticflow as sf

    arrays = system()
    a = sf.placeholder((SIZE, SIZE), "float64", name="a")
    b = sf.placeholder((SIZE,), "float64", name="b")
    x, to_b = (conjugate(a, c, sf.fori_loop) for c in (b, 0 * b + 1))
    return call_program(sf.compile([a, b], (x, to_b)), *arrays)


def jax_solve() -> Contestant:
    """Two solutions, as NumPy does."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    a, b = map(jnp.asarray, system())
    program = jax.jit(
        lambda a, b: tuple(conjugate(a, c, jax.lax.fori_loop) for c in (b, jnp.ones_like(b)))
    )
    return repeated(lambda: program(a, b), jax.block_until_ready)


def staticflow_through() -> Contestant:
    """``grad`` through the loop, whose carries are kept."""
    import staticflow as sf

    arrays = system()
    a = sf.placeholder((SIZE, SIZE), "float64", name="a")
    b = sf.placeholder((SIZE,), "float64", name="b")
    x = conjugate(a, b, sf.fori_loop)
    return call_program(sf.compile([a, b], (x, *sf.grad(x.sum(), [b]))), *arrays)


def jax_through() -> Contestant:
    """``grad`` through a scan."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    a, b = map(jnp.asarray, system())

    def scan(first: int, last: int, step: Any, state: Any) -> Any:
        return jax.lax.scan(lambda c, _: (step(0, c), None), state, length=last - first)[0]

    def total_of(b: Any, a: Any) -> Any:
        x = conjugate(a, b, scan)
        return x.sum(), x

    gradient = jax.value_and_grad(total_of, has_aux=True)

    @jax.jit
    def program(a: Any, b: Any) -> Any:
        (_, x), to_b = gradient(b, a)
        return x, to_b

    return repeated(lambda: program(a, b), jax.block_until_ready)


def pytorch_through() -> Contestant:
    """Autograd through a Python loop."""
    return through_eager("torch")


def staticflow_eager_through() -> Contestant:
    """Autograd through a Python loop."""
    return through_eager("staticflow")


def through_eager(name: str) -> Contestant:
    """The gradient of a Python loop, by the library of that name."""
    library = importlib.import_module(name)
    if name == "torch":
        library.set_num_threads(threads())
    a, b = map(library.from_numpy, system())
    b.requires_grad_()

    def call() -> Any:
        b.grad = None
        x = conjugate(a, b, python_loop)
        x.sum().backward()
        return x.detach(), b.grad

    return repeated(call)


def scipy_solve() -> Contestant:
    """``scipy.sparse.linalg.cg`` on the dense matrix."""
    from scipy.sparse.linalg import cg

    a, b = system()
    return repeated(
        lambda: tuple(cg(a, c, rtol=0, atol=0, maxiter=ROUNDS)[0] for c in (b, np.ones_like(b)))
    )


if __name__ == "__main__":
    main(
        __doc__,
        {
            "64 bodies, 500 leapfrog steps": {
                "NumPy": numpy_bodies,
                "staticflow static": staticflow_bodies,
                "numba": numba_bodies,
                "JAX jit": jax_bodies,
            },
            "gradient of the energy after 50 steps": {
                "PyTorch eager": pytorch_energy,
                "staticflow static": staticflow_energy,
                "JAX jit": jax_energy,
            },
            "conjugate gradients and the gradient by the right side": {
                "NumPy": numpy_solve,
                "staticflow static": staticflow_solve,
                "SciPy": scipy_solve,
                "JAX jit": jax_solve,
            },
            "the same, the gradient through the loop": {
                "NumPy, two solutions": numpy_solve,
                "staticflow static": staticflow_through,
                "staticflow eager": staticflow_eager_through,
                "PyTorch eager": pytorch_through,
                "JAX jit": jax_through,
            },
        },
        tolerance=1e-3,
    )
