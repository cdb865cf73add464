"""GPU workload c: a loop that ends by a value, of some hundred iterations of a few operations."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Contestant, Maker, main
from gpu_contestants import DEVICE, MODES, contestant_of, of_function, use_torch


def goes_on(y: Any) -> Any:
    return (y * y).sum() > 1


def shrink(y: Any) -> Any:
    return y * 0.99 + y.flip(0) * 0.001


def loop(names: Any, x: Any) -> Any:
    """The loop by the operator of staticflow, or in Python, which reads the flag each time."""
    if names.__name__ == "staticflow":
        return names.while_loop(goes_on, shrink, x)
    while goes_on(x):
        x = shrink(x)
    return x


def compiled_iterations(x: Any, mode: str | None) -> Contestant:
    """The loop of Python over iterations that `torch.compile` has made."""
    torch, wait = use_torch()
    given = torch.tensor(x, device=DEVICE[0])

    @torch.compile(mode=mode)
    def iterate(y: Any) -> tuple[Any, Any]:
        y = shrink(y)
        return y, goes_on(y)

    def call() -> Any:
        y, flag = given, goes_on(given)
        while flag:
            y, flag = iterate(y.clone())
        return y.clone()

    return contestant_of(call, wait)


def of_jax(jax: Any, x: Any) -> Any:
    def body(y: Any) -> Any:
        return y * 0.99 + y[::-1] * 0.001

    return jax.lax.while_loop(goes_on, body, x)


def tables(size: int = 1024) -> dict[str, dict[str, Maker]]:
    """The table, of vectors of that size."""
    x = np.random.default_rng(0).standard_normal(size, np.float32)
    makers = of_function(loop, [x], of_jax)
    for name, mode in MODES.items():
        makers[name] = lambda mode=mode: compiled_iterations(x, mode)
    return {"a loop that ends by a value": makers}


if __name__ == "__main__":
    main(__doc__, tables(), tolerance=1e-3)
