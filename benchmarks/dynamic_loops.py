"""Workload f: loops whose number of iterations depends on the data.

Newton's method and Collatz's sequence on one number, about 1,000 iterations; the gradient through a
loop of 50 and of 10,000 iterations, with no bound given; and the rows of a recurrence until it has
come close to its limit, some 9,000.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import Contestant, call_program, main, repeated, threads

START, DAMPING, CLOSE = 10.0, 0.02, 1e-9
COLLATZ = 989_345_275_647
FEW, MANY, SLOPE = 50, 10_000, 0.98
DECAY, LIMIT, MOST = 0.999, 999.9, 1_000_000


# -- Newton's method with small steps: the root of x * x - 2 ------------------------------------


def numpy_newton() -> Contestant:
    """Python numbers."""

    def root() -> Any:
        x = START
        while abs(x * x - 2.0) > CLOSE:
            x = x - DAMPING * (x * x - 2.0) / (2.0 * x)
        return np.float64(x)

    return repeated(root)


def staticflow_newton() -> Contestant:
    """``while_loop``, compiled."""
    import staticflow as sf

    start = sf.placeholder((), "float64", name="start")
    root = sf.while_loop(
        lambda x: (x * x - 2.0).abs() > CLOSE,
        lambda x: x - DAMPING * (x * x - 2.0) / (2.0 * x),
        start,
    )
    program, given = sf.compile([start], root), np.asarray(START)
    return call_program(program, given)


def numba_newton() -> Contestant:
    """``njit``."""
    import numba

    @numba.njit
    def root(x: float) -> float:
        while abs(x * x - 2.0) > CLOSE:
            x = x - DAMPING * (x * x - 2.0) / (2.0 * x)
        return x

    return repeated(lambda: root(START))


def jax_newton() -> Contestant:
    """``lax.while_loop``."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    root = jax.jit(
        lambda start: jax.lax.while_loop(
            lambda x: jnp.abs(x * x - 2.0) > CLOSE,
            lambda x: x - DAMPING * (x * x - 2.0) / (2.0 * x),
            start,
        )
    )
    given = jnp.asarray(START)
    return repeated(lambda: root(given), jax.block_until_ready)


# -- Collatz's sequence ---------------------------------------------------------------------------


def _collatz(n: int) -> int:
    count = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


def numpy_collatz() -> Contestant:
    """Python numbers."""
    return repeated(lambda: np.int64(_collatz(COLLATZ)))


def staticflow_collatz() -> Contestant:
    """``while_loop``, compiled."""
    import staticflow as sf

    start = sf.placeholder((), "int64", name="start")
    _, count = sf.while_loop(
        lambda n, count: n != 1,
        lambda n, count: (sf.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1),
        (start, 0),
    )
    program, given = sf.compile([start], count), np.asarray(COLLATZ)
    return call_program(program, given)


def numba_collatz() -> Contestant:
    """``njit``."""
    import numba

    count: Callable[[int], int] = numba.njit(_collatz)
    return repeated(lambda: count(COLLATZ))


def jax_collatz() -> Contestant:
    """``lax.while_loop``."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def count(start: Any) -> Any:
        return jax.lax.while_loop(
            lambda c: c[0] != 1,
            lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1),
            (start, jnp.zeros((), jnp.int64)),
        )[1]

    program, given = jax.jit(count), jnp.asarray(COLLATZ)
    return repeated(lambda: program(given), jax.block_until_ready)


# -- the gradient through a loop ------------------------------------------------------------------


def numpy_gradient(iterations: int = FEW) -> Contestant:
    """By hand: the slopes of all iterations multiplied."""

    def gradient() -> Any:
        h, slope = 0.5, 1.0
        for _ in range(iterations):
            slope = slope * SLOPE * np.cos(h * SLOPE) + 1.0
            h = np.sin(h * SLOPE) + 0.5
        return np.float64(slope)

    return repeated(gradient)


def _by_steps(x: Any, iterations: int, sin: Callable[[Any], Any]) -> Any:
    h, i = x, 0
    while i < iterations:
        h, i = sin(h * SLOPE) + x, i + 1
    return h


def staticflow_gradient(iterations: int = FEW) -> Contestant:
    """``grad`` of a ``while_loop``."""
    import staticflow as sf

    x = sf.placeholder((), "float64", name="x")
    n = sf.placeholder((), "int64", name="n")
    _, h = sf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, (h * SLOPE).sin() + x), (0, x))
    program = sf.compile([x, n], sf.grad(h, x))
    given = np.asarray(0.5), np.asarray(iterations)
    return call_program(program, *given)


def numba_gradient(iterations: int = FEW) -> Contestant:
    """``njit``, by hand: the values are kept in an array that is grown."""
    import numba

    @numba.njit
    def gradient(x: float, iterations: int) -> float:
        kept = np.empty(64)
        h, i = x, 0
        while i < iterations:
            if i == len(kept):
                grown = np.empty(2 * i)
                grown[:i] = kept
                kept = grown
            kept[i] = h
            h, i = np.sin(h * SLOPE) + x, i + 1
        slope, total = 1.0, 0.0
        for j in range(i - 1, -1, -1):
            total += slope
            slope *= SLOPE * np.cos(kept[j] * SLOPE)
        return total + slope

    return repeated(lambda: gradient(0.5, iterations))


def staticflow_eager_gradient(iterations: int = FEW) -> Contestant:
    """A Python loop on eager tensors."""
    import staticflow as sf

    def gradient() -> Any:
        x = sf.tensor(0.5, dtype="float64", requires_grad=True)
        _by_steps(x, iterations, sf.sin).backward()
        return x.grad

    return repeated(gradient)


def pytorch_gradient(iterations: int = FEW) -> Contestant:
    """A Python loop on eager tensors."""
    import torch

    torch.set_num_threads(threads())

    def gradient() -> Any:
        x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
        _by_steps(x, iterations, torch.sin).backward()
        return x.grad

    return repeated(gradient)


def jax_gradient() -> Contestant:
    """JAX has no reverse mode through a ``while_loop``; this is told the largest number of
    iterations, 64, and masks those behind the last."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def last(x: Any, iterations: Any) -> Any:
        def step(h: Any, i: Any) -> Any:
            return jnp.where(i < iterations, jnp.sin(h * SLOPE) + x, h), None

        return jax.lax.scan(step, x, jnp.arange(64))[0]

    program = jax.jit(jax.grad(last))
    given = jnp.asarray(0.5), jnp.asarray(FEW)
    return repeated(lambda: program(*given), jax.block_until_ready)


# -- rows up to an end ----------------------------------------------------------------------------


def numpy_rows() -> Contestant:
    """Python numbers, in a list."""

    def rows() -> Any:
        found, c = [], 1.0
        while len(found) < MOST and c <= LIMIT:
            found.append(c)
            c = c * DECAY + 1.0
        return np.array(found)

    return repeated(rows)


def staticflow_rows() -> Contestant:
    """``scan`` with ``until``."""
    import staticflow as sf

    x = sf.placeholder((), "float64", name="x")
    _, rows = sf.scan(
        lambda c, _: (c * DECAY + x, c), x, length=MOST, until=lambda c, row: c > LIMIT * x
    )
    program, given = sf.compile([x], rows), np.asarray(1.0)
    return call_program(program, given)


def numba_rows() -> Contestant:
    """``njit``, with an array that is grown."""
    import numba

    @numba.njit
    def rows(x: float) -> Any:
        found, count, c = np.empty(64), 0, x
        while count < MOST and c <= LIMIT * x:
            if count == len(found):
                grown = np.empty(2 * count)
                grown[:count] = found
                found = grown
            found[count] = c
            count += 1
            c = c * DECAY + x
        return found[:count]

    return repeated(lambda: rows(1.0))


if __name__ == "__main__":
    main(
        __doc__,
        {
            "Newton, 1,250 iterations": {
                "Python": numpy_newton,
                "staticflow static": staticflow_newton,
                "numba": numba_newton,
                "JAX jit": jax_newton,
            },
            "Collatz, 1,350 iterations": {
                "Python": numpy_collatz,
                "staticflow static": staticflow_collatz,
                "numba": numba_collatz,
                "JAX jit": jax_collatz,
            },
            "gradient through 50 iterations": {
                "NumPy": numpy_gradient,
                "staticflow static": staticflow_gradient,
                "staticflow eager": staticflow_eager_gradient,
                "numba, by hand": numba_gradient,
                "PyTorch eager": pytorch_gradient,
                "JAX jit, bound 64": jax_gradient,
            },
            "gradient through 10,000 iterations": {
                "NumPy": partial(numpy_gradient, MANY),
                "staticflow static": partial(staticflow_gradient, MANY),
                "numba, by hand": partial(numba_gradient, MANY),
            },
            "rows up to an end, 9,205 iterations": {
                "Python": numpy_rows,
                "staticflow static": staticflow_rows,
                "numba": numba_rows,
            },
        },
    )
