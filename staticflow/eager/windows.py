"""Windows of signals: a row of weights, in the default or a given floating dtype."""

from __future__ import annotations

import math
from typing import Any

from staticflow.eager.creation import finish_tensor
from staticflow.eager.ranges import arange
from staticflow.graph.dtypes import dtype_of, float64, get_default_dtype
from staticflow.ops.elementwise.bessel import i0

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _angles(length: int, periodic: bool) -> Any:
    """How far around each index is, in float64."""
    whole = length if periodic else length - 1
    return arange(length, dtype=float64) * (2 * math.pi / max(whole, 1))


def _finish(x: Any, length: int, dtype: Any, device: Any, requires_grad: bool) -> Any:
    wanted = get_default_dtype() if dtype is None else dtype_of(dtype)
    x = x.new_ones(1) if length == 1 else x
    return finish_tensor(x.to(wanted), device, requires_grad)


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``0.5 - 0.5 cos(2 pi k / n)`` for k from 0 to before ``window_length``, where n is that, or 1
    less unless ``periodic``.

    >>> hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    x = 0.5 - _angles(window_length, periodic).cos() * 0.5
    return _finish(x, window_length, dtype, device, requires_grad)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``alpha - beta cos(2 pi k / n)``, as `hann_window`."""
    x = alpha - _angles(window_length, periodic).cos() * beta
    return _finish(x, window_length, dtype, device, requires_grad)


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)``, as `hann_window`."""
    angle = _angles(window_length, periodic)
    x = 0.42 - angle.cos() * 0.5 + (angle * 2).cos() * 0.08
    return _finish(x, window_length, dtype, device, requires_grad)


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``1 - |2 k / n - 1|``, as `hann_window`."""
    x = 1 - (_angles(window_length, periodic) / math.pi - 1).abs()
    return _finish(x, window_length, dtype, device, requires_grad)


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``i0(beta sqrt(1 - (2 k / n - 1) ** 2)) / i0(beta)`` for k from 0 to before
    ``window_length``, where n is that, or 1 less unless ``periodic`` (Kaiser and Schafer 1980, "On
    the use of the I0-sinh window for spectrum analysis").

    >>> kaiser_window(4, beta=2.0)
    tensor([0.4387, 0.8348, 1.0000, 0.8348])
    """
    whole = window_length if periodic else window_length - 1
    x = arange(window_length, dtype=float64) * (2 / max(whole, 1)) - 1
    x = i0(beta * (1 - x * x).clamp(0).sqrt()) / i0(x.new_tensor(float(beta)))
    return _finish(x, window_length, dtype, device, requires_grad)
