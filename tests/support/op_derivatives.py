"""The derivatives of an op at one sample, eagerly, and against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from opinfo.core import Array, OpInfo, Sample, values
from opinfo.modes import STOPS, arrays_of, call, weights

import staticflow as sf
from staticflow.eager.tensor import Tensor
from staticflow.graph.dtypes import float64
from staticflow.ops import OPS

differentiable_names = [n for n, op in OPS.items() if op.vjp]


STEP = 1e-6


def is_real(array: Array) -> bool:
    return bool(array.dtype == np.float64)


def weighted(outs: Sequence[Any]) -> Any:
    """One number that depends on every element of every output."""
    real = [o for o in outs if o.dtype.is_floating]
    parts = [(o * w).sum() for o, w in zip(real, weights(real, 5), strict=True)]
    return sum(parts[1:], parts[0])


def loss_at(info: OpInfo, sample: Sample, arrays: Sequence[Array]) -> float:
    with sf.no_grad():
        return float(weighted(call(info, sample, [sf.from_numpy(a) for a in arrays])))


def leaves_at(arrays: Sequence[Array]) -> list[Tensor]:
    return [sf.tensor(a, requires_grad=is_real(a)) for a in arrays]


def gradients(
    info: OpInfo, sample: Sample, handles: Sequence[Any], create_graph: bool = False
) -> tuple[list[Any], list[Any]]:
    """The arguments that are differentiable, of tensors or symbols, and their gradients; None where
    nothing depends."""
    real = [h for h in handles if h.dtype.is_floating]
    loss = weighted(call(info, sample, handles))
    if isinstance(loss, Tensor) and not loss.requires_grad:
        return real, [None] * len(real)
    return real, sf.grad(loss, real, allow_unused=True, create_graph=create_graph)


def or_zeros(gradient: Any, like: Any) -> Array:
    return np.zeros(like.shape) if gradient is None else gradient.detach().numpy()


def numerical_gradient(fn: Callable[[], float], array: Array) -> Array:
    """Central differences of ``fn``, which reads ``array``."""
    out = np.zeros(array.shape)
    for at in np.ndindex(array.shape):
        before = array[at]
        array[at] = before + STEP
        above = fn()
        array[at] = before - STEP
        out[at] = (above - fn()) / (2 * STEP)
        array[at] = before
    return out


def own_arrays(sample: Sample) -> list[Array]:
    return [np.array(a) for a in arrays_of(sample)]


def check_gradient(info: OpInfo, sample: Sample, what: str) -> None:
    arrays = own_arrays(sample)
    real = [a for a in arrays if is_real(a)]
    _, found = gradients(info, sample, leaves_at(arrays))
    for array, gradient in zip(real, found, strict=True):
        if info.op.name in STOPS:
            assert gradient is None, what
            continue
        wanted = numerical_gradient(lambda: loss_at(info, sample, arrays), array)
        analytic = or_zeros(gradient, array)
        assert analytic.dtype == np.float64, what
        np.testing.assert_allclose(analytic, wanted, 1e-5, 1e-7, err_msg=what)


def slope_of(info: OpInfo, sample: Sample, handles: Sequence[Any]) -> tuple[list[Any], Any]:
    """The gradient in one direction, as a number that can be differentiated again."""
    real, first = gradients(info, sample, handles, create_graph=True)
    known = [g for g in first if g is not None]
    parts = [(g * w).sum() for g, w in zip(known, weights(known, 9), strict=True)]
    return real, sum(parts[1:], parts[0]) if parts else sf.tensor(0.0)


def second_gradients(info: OpInfo, sample: Sample, arrays: Sequence[Array]) -> list[Any]:
    """The eager gradients of the slope."""
    real, slope = slope_of(info, sample, leaves_at(arrays))
    if not slope.requires_grad:
        return [None] * len(real)
    return list(sf.grad(slope, real, allow_unused=True))


def check_second_derivative(info: OpInfo, sample: Sample, what: str) -> None:
    arrays = own_arrays(sample)
    moves = [values(a.shape, float64, -1, 1, seed=3) for a in arrays if is_real(a)]
    second = second_gradients(info, sample, arrays)
    analytic = sum(np.sum(or_zeros(g, u) * u) for g, u in zip(second, moves, strict=True))
    slopes = []
    for sign in (1, -1):
        rest = iter(moves)
        moved = [a + sign * STEP * next(rest) if is_real(a) else a for a in arrays]
        slopes.append(slope_of(info, sample, leaves_at(moved))[1].item())
    wanted = (slopes[0] - slopes[1]) / (2 * STEP)
    np.testing.assert_allclose(analytic, wanted, 1e-4, 1e-6, err_msg=f"second {what}")
