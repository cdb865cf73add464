"""The values that parameters start from. All fill a tensor in place, outside the tape, and return
it; the draws follow ``sf.manual_seed`` or a ``generator``.

>>> import staticflow as sf
>>> zeros_(sf.ones(2))
tensor([0., 0.])
>>> xavier_uniform_(sf.empty(30, 50)).abs().max().item() <= (6 / 80) ** 0.5
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.elementwise.special import erfinv
from staticflow.ops.random.sampling import gives_back, rand, randn

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_",
    "normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]  # fmt: skip


def _fill(tensor: Any, values: Any) -> Any:
    tensor.detach()[...] = values
    return tensor


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Draws from the uniform distribution on [a, b)."""
    if a > b:
        raise ArgumentError(
            f"uniform_: draws lie from {a} to {b}; the first must not be larger, "
            f"at {format_locs(here())}"
        )
    draw = rand(*tensor.shape, dtype=tensor.dtype, generator=generator)
    return _fill(tensor, draw * (b - a) + a)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Draws from the normal distribution."""
    draw = randn(*tensor.shape, dtype=tensor.dtype, generator=generator)
    return _fill(tensor, draw * std + mean)


def trunc_normal_(
    tensor: Any,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Any:
    """Draws from the normal distribution of which those outside [a, b] are left out."""
    low, high = (0.5 * (1 + math.erf((x - mean) / (std * math.sqrt(2)))) for x in (a, b))
    if not low < high:
        raise ArgumentError(
            f"trunc_normal_: no draw of N({mean}, {std}) lies in [{a}, {b}]"
            f", at {format_locs(here())}"
        )
    # the inverse of the distribution function, of its values between those of a and b
    draw = rand(*tensor.shape, dtype="float64", generator=generator)
    inner = erfinv(2 * (low + (high - low) * draw) - 1)
    return _fill(tensor, (mean + std * math.sqrt(2) * inner).clamp(a, b))


def constant_(tensor: Any, val: float) -> Any:
    """``val`` everywhere."""
    return _fill(tensor, val)


def zeros_(tensor: Any) -> Any:
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Any) -> Any:
    """Ones."""
    return constant_(tensor, 1.0)


def eye_(tensor: Any) -> Any:
    """The unit matrix, also in a matrix that is not square."""
    _check_ndim(tensor, "eye_", 2, 2)
    return _fill(tensor, np.eye(*tensor.shape))


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """The convolution weight (out, in, *kernel), of 3 to 5 dims, that gives each group's inputs
    back: ones at the kernel's middle."""
    _check_ndim(tensor, "dirac_", 3, 5)
    out, channels = tensor.shape[:2]
    if out % groups:
        raise ShapeError(
            f"dirac_: {out} outputs do not fall into {groups} groups, at {format_locs(here())}"
        )
    values = np.zeros(tensor.shape)
    middle = tuple(n // 2 for n in tensor.shape[2:])
    each = out // groups
    for row in range(out):
        if row % each < channels:
            values[(row, row % each, *middle)] = 1.0
    return _fill(tensor, values)


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """A matrix of normal draws of which the part ``sparsity`` of each column, chosen at random, is
    0 (Martens 2010, "Deep learning via Hessian-free optimization")."""
    _check_ndim(tensor, "sparse_", 2, 2)
    rows, columns = tensor.shape
    order = rand(rows, columns, generator=generator).numpy().argsort(axis=0)
    keep = order.argsort(axis=0) >= math.ceil(sparsity * rows)
    return _fill(tensor, randn(rows, columns, dtype=tensor.dtype, generator=generator) * std * keep)


def orthogonal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """A (semi-)orthogonal matrix times ``gain``; dims after the first count as one (Saxe et al.
    2013, "Exact solutions to the nonlinear dynamics of learning in deep linear networks")."""
    _check_ndim(tensor, "orthogonal_", 2)
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    draw = randn(rows, columns, dtype="float64", generator=generator).numpy()
    q, r = np.linalg.qr(draw if rows >= columns else draw.T)
    q *= np.sign(np.diag(r))  # a unique, and so uniformly distributed, q
    return _fill(tensor, gain * (q if rows >= columns else q.T).reshape(tensor.shape))


# -- by the number of inputs and outputs --------------------------------------------------------

_GAINS: dict[str, Callable[[float], float]] = {
    **dict.fromkeys(("linear", "sigmoid"), lambda _: 1.0),
    **{f"conv{t}{n}d": lambda _: 1.0 for t in ("", "_transpose") for n in (1, 2, 3)},
    "tanh": lambda _: 5 / 3,
    "relu": lambda _: math.sqrt(2),
    "leaky_relu": lambda slope: math.sqrt(2 / (1 + slope**2)),
    "selu": lambda _: 3 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a layer before this nonlinearity is scaled, so that activations keep
    their variance; ``param`` is the slope of "leaky_relu", 0.01 by default.

    >>> calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity not in _GAINS:
        raise ArgumentError(
            f"calculate_gain: {nonlinearity!r} is none of {', '.join(map(str, _GAINS))}"
            f", at {format_locs(here())}"
        )
    return _GAINS[nonlinearity](0.01 if param is None else param)


def _calculate_fan_in_and_fan_out(tensor: Any, name: str = "fan_in and fan_out") -> tuple[int, int]:
    """The inputs and outputs of a weight (out, in, *kernel). It has PyTorch's name, by which
    layers of many programs call it."""
    _check_ndim(tensor, name, 2)
    kernel = math.prod(tensor.shape[2:])
    return tensor.shape[1] * kernel, tensor.shape[0] * kernel


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform with the standard deviation ``gain * sqrt(2 / (fan_in + fan_out))`` (Glorot and
    Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks")."""
    bound = gain * math.sqrt(6 / sum(_calculate_fan_in_and_fan_out(tensor, "xavier_uniform_")))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal with the standard deviation ``gain * sqrt(2 / (fan_in + fan_out))``."""
    fans = _calculate_fan_in_and_fan_out(tensor, "xavier_normal_")
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(fans)), generator)


def _kaiming_std(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    inputs, outputs = _calculate_fan_in_and_fan_out(tensor, "kaiming")
    fans = {"fan_in": inputs, "fan_out": outputs}
    if mode not in fans:
        raise ArgumentError(
            f'kaiming: the mode is "fan_in" or "fan_out", not {mode!r}, at {format_locs(here())}'
        )
    gain = calculate_gain(nonlinearity, a)
    return gain / math.sqrt(fans[mode]) if fans[mode] else 0.0


def kaiming_uniform_(
    tensor: Any,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Uniform with the standard deviation ``gain / sqrt(fan)`` (He et al. 2015, "Delving deep into
    rectifiers"); ``a`` is the slope of the leaky ReLU that follows."""
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Normal with the standard deviation ``gain / sqrt(fan)``."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _check_ndim(tensor: Any, name: str, least: int, most: int | None = None) -> None:
    if tensor.ndim < least or (most is not None and tensor.ndim > most):
        wanted = f"{least} dims" if most == least else f"{least} dims or more"
        if most not in (None, least):
            wanted = f"{least} to {most} dims"
        raise ShapeError(
            f"{name}: takes a tensor of {wanted}, not of shape {list(tensor.shape)}"
            f", at {format_locs(here())}"
        )


refuses_foreign_in(globals(), gives_back)
