"""What the benchmarks of a GPU share: the same lines in staticflow, PyTorch and JAX, on one device.

A run of a contestant makes its calls one after the other and then waits until the device has done
all of them. Operands and parameters are on the device from the beginning. Nobody rounds to TF32.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from common import Contestant, Maker

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others need memory, too

__all__ = ["DEVICE", "MODES", "contestant_of", "filled", "of_function", "of_training", "use_torch"]

DEVICE = ["cuda"]
"""The device: the tests of these scripts, which time nothing, put another one here."""

MODES = {
    "torch.compile": None,
    "torch.compile reduce-overhead": "reduce-overhead",
    "torch.compile max-autotune": "max-autotune",
}
"""The contestants that `torch.compile` makes, and the mode of each."""

Array = Any


def contestant_of(call: Callable[[], Any], wait: Callable[[], Any]) -> Contestant:
    """A contestant of a call, whose results are of the last one, as arrays of NumPy."""
    last: Any = None

    def run(n: int) -> None:
        nonlocal last
        for _ in range(n):
            last = call()
        wait()

    def result() -> list[Array]:
        values = last if isinstance(last, tuple) else (last,)
        return [_to_numpy(v) for v in values]

    return Contestant(run, result)


def _to_numpy(value: Any) -> Array:
    if hasattr(value, "detach"):
        return np.asarray(value.detach().cpu().numpy())
    return np.asarray(value)


def use_torch() -> tuple[Any, Callable[[], Any]]:
    """PyTorch, with float32 products and convolutions as exact as ours; and how to wait for it."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return torch, torch.cuda.synchronize if DEVICE[0] == "cuda" else lambda: None


def _use_staticflow() -> tuple[Any, Callable[[], Any]]:
    import staticflow as sf

    return sf, sf.cuda.synchronize if DEVICE[0] == "cuda" else lambda: None


# -- functions -------------------------------------------------------------------------------------


def of_function(
    fn: Callable[..., Any], arrays: Sequence[Array], of_jax: Callable[..., Any] | None = None
) -> dict[str, Maker]:
    """Contestants that call ``fn(names, *tensors)``, where ``names`` is staticflow or PyTorch; and
    ``of_jax(jax, *arrays)``."""
    makers: dict[str, Maker] = {
        "staticflow static": partial(_static, fn, arrays),
        "staticflow eager": partial(_eager, fn, arrays),
        "PyTorch eager": partial(_pytorch, fn, arrays),
    }
    for name, mode in MODES.items():
        makers[name] = partial(_torch_compile, fn, arrays, mode)
    if of_jax is not None:
        makers["JAX jit"] = partial(_jax, of_jax, arrays)
    return makers


def _static(fn: Callable[..., Any], arrays: Sequence[Array]) -> Contestant:
    sf, wait = _use_staticflow()
    inputs = [sf.placeholder(a.shape, str(a.dtype), name=f"x{i}") for i, a in enumerate(arrays)]
    program = sf.compile(inputs, fn(sf, *inputs), device=DEVICE[0])
    given = [sf.tensor(a, device=DEVICE[0]) for a in arrays]
    return contestant_of(lambda: program(*given), wait)


def _eager(fn: Callable[..., Any], arrays: Sequence[Array]) -> Contestant:
    sf, wait = _use_staticflow()
    given = [sf.tensor(a, device=DEVICE[0]) for a in arrays]
    return contestant_of(lambda: fn(sf, *given), wait)


def _pytorch(fn: Callable[..., Any], arrays: Sequence[Array]) -> Contestant:
    torch, wait = use_torch()
    given = [torch.tensor(a, device=DEVICE[0]) for a in arrays]
    return contestant_of(lambda: fn(torch, *given), wait)


def _torch_compile(fn: Callable[..., Any], arrays: Sequence[Array], mode: str | None) -> Contestant:
    torch, wait = use_torch()
    given = [torch.tensor(a, device=DEVICE[0]) for a in arrays]
    compiled = torch.compile(partial(fn, torch), mode=mode)
    return contestant_of(lambda: compiled(*given), wait)


def _jax(of_jax: Callable[..., Any], arrays: Sequence[Array]) -> Contestant:
    import jax

    if jax.default_backend() != ("gpu" if DEVICE[0] == "cuda" else "cpu"):
        raise ImportError(f"this JAX is one for the {jax.default_backend()}")
    jax.config.update("jax_default_matmul_precision", "highest")
    given = [jax.numpy.asarray(a) for a in arrays]
    compiled = jax.jit(partial(of_jax, jax))
    last: list[Any] = [None]

    def call() -> Any:
        last[0] = compiled(*given)
        return last[0]

    return contestant_of(call, lambda: jax.block_until_ready(last[0]))


# -- steps of training -----------------------------------------------------------------------------

Make = Callable[[Any], Any]
"""Makes a module of the names of PyTorch's ``nn``."""
Loss = Callable[..., Any]
"""``loss(names, net, *batch)``."""


def filled(shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Values of parameters: the same for all contestants."""
    rng = np.random.default_rng(7)
    return [rng.uniform(-0.05, 0.05, shape).astype(np.float32) for shape in shapes]


def of_training(make: Make, loss: Loss, batch: Sequence[Array], lr: float) -> dict[str, Maker]:
    """Contestants that make a step of SGD; each gives its loss and the first parameter."""
    given = make, loss, batch, lr
    makers: dict[str, Maker] = {
        "staticflow static": partial(_static_step, *given),
        "staticflow eager": partial(_eager_step, *given),
        "PyTorch eager": partial(_torch_step, *given, lambda torch, fn: fn),
    }
    for name, mode in MODES.items():
        makers[name] = partial(
            _torch_step, *given, lambda torch, fn, mode=mode: torch.compile(fn, mode=mode)
        )
    return makers


def _of_staticflow(make: Make, lr: float) -> tuple[Any, Any, Any, Callable[[], Any]]:
    sf, wait = _use_staticflow()
    net = make(sf.nn)
    parameters = [*net.parameters()]
    for p, value in zip(parameters, filled([p.shape for p in parameters]), strict=True):
        p.detach()[...] = value
    net = net.to(DEVICE[0])
    return sf, net, sf.optim.SGD(net.parameters(), lr=lr), wait


def _static_step(make: Make, loss: Loss, batch: Sequence[Array], lr: float) -> Contestant:
    sf, net, optimiser, wait = _of_staticflow(make, lr)
    inputs = [sf.placeholder(a.shape, str(a.dtype), name=f"x{i}") for i, a in enumerate(batch)]
    total = loss(sf, net, *inputs)
    step = sf.compile(inputs, total, updates=optimiser.minimize(total), device=DEVICE[0])
    given = [sf.tensor(a, device=DEVICE[0]) for a in batch]
    first = next(iter(net.parameters()))
    return contestant_of(lambda: (step(*given), first), wait)


def _eager_step(make: Make, loss: Loss, batch: Sequence[Array], lr: float) -> Contestant:
    sf, net, optimiser, wait = _of_staticflow(make, lr)
    given = [sf.tensor(a, device=DEVICE[0]) for a in batch]
    return contestant_of(partial(_step, partial(loss, sf, net), net, optimiser, given), wait)


def _step(loss: Callable[..., Any], net: Any, optimiser: Any, given: Sequence[Any]) -> Any:
    optimiser.zero_grad()
    total = loss(*given)
    total.backward()
    optimiser.step()
    return total, next(iter(net.parameters()))


def _torch_step(
    make: Make,
    loss: Loss,
    batch: Sequence[Array],
    lr: float,
    wrap: Callable[[Any, Callable[..., Any]], Callable[..., Any]],
) -> Contestant:
    torch, wait = use_torch()
    net = make(torch.nn)
    parameters = [*net.parameters()]
    with torch.no_grad():
        for p, value in zip(parameters, filled([tuple(p.shape) for p in parameters]), strict=True):
            p.copy_(torch.from_numpy(value))
    net = net.to(DEVICE[0])
    optimiser = torch.optim.SGD(net.parameters(), lr=lr)
    given = [torch.tensor(a, device=DEVICE[0]) for a in batch]
    objective = wrap(torch, partial(loss, torch, net))
    return contestant_of(partial(_step, objective, net, optimiser, given), wait)
