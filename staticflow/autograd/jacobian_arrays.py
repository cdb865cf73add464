"""Jacobians as arrays: by finite differences, by backward and by tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from staticflow.autograd.functional import pull as pull_in_graph
from staticflow.eager import tape
from staticflow.eager.creation import from_numpy
from staticflow.eager.device import move
from staticflow.eager.tensor import Tensor
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.symbols.symbol import Symbol

__all__ = [
    "as_tuple",
    "by_backward",
    "by_differences",
    "by_tangents",
    "difference_along",
    "gradient_of",
    "pull",
    "real_outputs",
    "tensor_like",
    "values",
]  # fmt: skip

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def as_tuple(x: Any) -> tuple[Any, ...]:
    """What a tuple or list has; ``x`` alone."""
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def real_outputs(outs: Any) -> list[Any]:
    """The floating tensors, or symbols, among ``outs``, one value or a tuple of them."""
    return [y for y in as_tuple(outs) if hasattr(y, "__sf_mode__") and y.dtype.is_floating]


def by_differences(func: Function, args: Sequence[Any], x: Tensor, k: int, eps: float) -> Array:
    """The Jacobian of output ``k`` by ``x``, a row for each element of ``x``, by differences."""
    rows = []
    for i in range(x.numel()):
        step = np.zeros(x.shape)
        step.flat[i] = 1
        rows.append(difference_along(func, args, x, k, step, eps).ravel())
    return np.array(rows)


def difference_along(
    func: Function, args: Sequence[Any], x: Tensor, k: int, direction: Array, eps: float
) -> Array:
    """How output ``k`` moves where ``x`` moves along ``direction``, by differences."""
    memory = x.detach().cpu().numpy()  # that of ``x``, but for one on a GPU
    before = memory.copy()

    def put(value: Any) -> None:
        memory[...] = value
        if x.is_cuda:
            x._data[...] = move(memory, x.device)

    sides = []
    try:
        for step in (eps, -eps):
            put(before + step * direction)
            sides.append(values(real_outputs(func(*args))[k]))
    finally:
        put(before)
    return np.asarray((sides[0] - sides[1]) / (2 * eps))


def values(y: Tensor) -> Array:
    """What ``y`` has, in float64, apart from its memory."""
    return np.array(y.detach().cpu().numpy(), np.float64)


def tensor_like(values: Array, x: Tensor) -> Tensor:
    """A tensor of ``values`` in the dtype and on the device of ``x``."""
    found: Tensor = from_numpy(np.asarray(values, x.dtype.numpy)).to(x.device)
    return found


def by_backward(y: Tensor, x: Tensor) -> Array:
    """The Jacobian by backward: a column for each element of ``y``."""
    columns = []
    for i in range(y.numel()):
        ct = np.zeros(y.shape)
        ct.flat[i] = 1
        columns.append(gradient_of(y, x, ct).ravel())
    return np.array(columns, np.float64).reshape(y.numel(), x.numel()).T


def gradient_of(y: Tensor, x: Tensor, ct: Array) -> Array:
    """The gradient by ``x`` for the cotangent ``ct`` of ``y``."""
    (g,) = pull([y], [x], [tensor_like(ct, y)])
    return np.zeros(x.shape) if g is None else values(g)


def by_tangents(along: Function, xs: Sequence[Tensor], pair: tuple[int, int]) -> Array:
    """The Jacobian of one output by one input, the numbers of the ``pair``, by tangents: a row for
    each element of the input."""
    k, j = pair
    rows = []
    for i in range(xs[j].numel()):
        moves = [zeros_like(t).detach() for t in xs]
        step = np.zeros(xs[j].shape)
        step.flat[i] = 1
        moves[j] = tensor_like(step, xs[j])
        rows.append(values(along(*moves)[k]).ravel())
    return np.array(rows)


def pull(
    outs: Sequence[Any], xs: Sequence[Any], cts: Sequence[Any], create_graph: bool = False
) -> list[Any]:
    """The cotangents of ``xs`` where outputs have ``cts``, of which some may be None; None where an
    input is not reached."""
    if any(isinstance(y, Symbol) for y in outs):  # in a batch
        return pull_in_graph(outs, xs, cts, create_graph)
    roots = [(y, ct) for y, ct in zip(outs, cts, strict=True) if y.requires_grad and ct is not None]
    if not roots:
        return [None] * len(xs)
    ys, seeds = zip(*roots, strict=True)
    return tape.grad(ys, xs, seeds, create_graph, retain_graph=True)
