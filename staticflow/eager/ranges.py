"""Making eager tensors of numbers in a row: ranges, indices, unit matrices."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.eager.creation import finish_tensor, full, generate
from staticflow.eager.tensor import Tensor
from staticflow.errors import ShapeError
from staticflow.graph.dims import Dim, Size, dim_max
from staticflow.graph.dtypes import DType, dtype_of, float64, get_default_dtype, int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.creation import iota
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.late import size_of
from staticflow.ops.declaring.sizes import as_size, as_sizes
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import Symbol, tracing_state
from staticflow.runtime.aligned import aligned_empty

__all__ = ["arange", "eye", "linspace", "logspace", "tril_indices", "triu_indices"]

_PIECE = 1 << 14
"""Numbers that are computed at a time."""


def _ramp(shape: Sequence[Size], dim: int) -> Any:
    return generate(iota, {"shape": tuple(shape), "dim": dim, "dtype": int64})


@by_shape
def eye(
    n: Size,
    m: Size | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """The unit matrix of n rows and m (or n) columns."""
    shape = as_sizes((n, n if m is None else m))
    if not tracing_state.active and all(type(size) is int and size >= 0 for size in shape):
        data = np.eye(*shape, dtype=dtype_of(dtype or get_default_dtype()).numpy)
        return finish_tensor(Tensor._wrap(data), device, requires_grad)
    unit = (_ramp(shape, 0) == _ramp(shape, 1)).to(dtype or get_default_dtype())
    return unit if isinstance(unit, Symbol) else finish_tensor(unit, device, requires_grad)


@by_shape
def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """The numbers from ``start`` (0 if one bound is given) to before ``end`` by ``step``; int64, or
    the default floating dtype where a bound is a float. Of an integer dtype ``start`` and ``step``
    lose their fractions first, and of int64 ``end`` does, too, as in PyTorch. Bounds may be
    symbolic sizes, or symbols: then only the run can tell the size.

    Raises `ShapeError` where ``step`` is 0 or leads away from ``end``.
    """
    lo, hi = (0, start) if end is None else (start, end)
    lo, hi, step = map(_bound, (lo, hi, step))
    if any(isinstance(v, Symbol) for v in (lo, hi, step)):
        return _symbolic_range(lo, hi, step, dtype)
    ints = all(isinstance(v, int | np.integer | Dim) for v in (lo, hi, step))
    wanted = dtype_of(dtype) if dtype is not None else int64 if ints else get_default_dtype()
    if wanted is int64 and not ints and all(np.isfinite(float(v)) for v in (lo, hi, step)):
        lo, hi, step, ints = int(lo), int(hi), int(step), True
    if any(isinstance(v, Dim) for v in (lo, hi, step)):
        count = dim_max((hi - lo + step - 1) // step, 0)
    elif step == 0 or not np.isfinite(float(hi) - float(lo)) or (hi - lo) / step < 0:
        raise ShapeError(
            f"arange: from {lo} to {hi} by {step}; the bounds must be finite and the step must "
            f"lead from the first to the second, at {format_locs(here())}"
        )
    else:
        count = -(-(hi - lo) // step) if ints else math.ceil((hi - lo) / step)
    if ints and not requires_grad:
        ramp = _ramp([count], 0)
        values = ramp if step == 1 and lo == 0 else ramp * step + lo
        return values.to(device, wanted)
    assert isinstance(count, int)
    if ints:
        values = (np.arange(count) * step + lo).astype(wanted.numpy)
    else:
        first, step = (lo, step) if wanted.is_floating else (int(lo), int(step))
        values = _space_evenly(count, float(first), float(step), wanted.numpy)
    return finish_tensor(Tensor._wrap(values), device, requires_grad)


def _space_evenly(count: int, start: float, step: float, dtype: Any) -> np.ndarray[Any, Any]:
    """``start + step * i`` for each ``i`` below ``count``, computed in float64, in pieces that stay
    in the cache."""
    out = aligned_empty((count,), dtype)
    numbers = np.arange(min(count, _PIECE), dtype=np.float64)
    room = np.empty_like(numbers)
    for first in range(0, count, _PIECE):
        part = out[first : first + _PIECE]
        values = room[: len(part)]
        np.add(numbers[: len(part)], first, out=values)
        if step != 1.0:
            values *= step
        if start:
            values += start
        part[...] = values
    return out


def _bound(given: Any) -> Any:
    """A bound or step as a number, if a tensor says it."""
    if not isinstance(given, Tensor):
        return given
    thread.state.sizes += 1
    return given.item()


def _symbolic_range(lo: Any, hi: Any, step: Any, dtype: Any) -> Any:
    """`arange` where one of the numbers at least is a symbol."""
    numbers = [v for v in (lo, hi, step) if isinstance(v, Symbol | float)]
    ints = not any(isinstance(v, float) or v.dtype.is_floating for v in numbers)
    wide = int64 if ints else float64
    lo, hi, step = (v.clone().to(wide) if isinstance(v, Symbol) else v for v in (lo, hi, step))
    there = (hi - lo) * step
    steps = -((lo - hi) // step) if ints else ((hi - lo) / step).ceil()
    # a step that leads away gives no size, also where it rounds to 0, and nor do 0 and NaN
    count = where(there < 0, steps.clamp(max=-1), steps)
    count = size_of(where((there == there) & (step != 0), count, -1).to(int64))
    values = _ramp([count], 0) * step + lo
    return values.to(dtype_of(dtype or (int64 if ints else get_default_dtype())))


@by_shape
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    endpoint: bool = True,
) -> Any:
    """``steps`` numbers evenly from ``start`` to ``end``, both included, or with ``endpoint=False``
    the last left out; of an integer dtype these lose their fractions first. Where one of the
    numbers is symbolic, so is the result.

    >>> linspace(0, 1, 4, endpoint=False)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    wanted = dtype_of(dtype or get_default_dtype())
    _check_steps("linspace", steps)
    if any(isinstance(v, Dim | Symbol) for v in (start, end, steps)):
        return _symbolic_spaces(start, end, steps, wanted, endpoint).to(wanted)
    lo, hi = _ends(start, end, wanted)
    parts = steps - 1 if endpoint else steps
    step = (hi - lo) / parts if parts > 0 else 0.0
    if step:
        values = _space_evenly(steps, lo, step, wanted.numpy)
        if endpoint:
            values[-1] = hi
    else:
        values = np.linspace(lo, hi, steps).astype(wanted.numpy)
    return finish_tensor(Tensor._wrap(values), device, requires_grad)


@by_shape
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``steps`` powers of ``base``, whose exponents go evenly from ``start`` to ``end``; of an
    integer dtype these lose their fractions first."""
    wanted = dtype_of(dtype or get_default_dtype())
    _check_steps("logspace", steps)
    if any(isinstance(v, Dim | Symbol) for v in (start, end, steps)):
        return (float(base) ** _symbolic_spaces(start, end, steps, wanted)).to(wanted)
    values = np.float64(base) ** np.linspace(*_ends(start, end, wanted), steps)
    return finish_tensor(Tensor._wrap(values.astype(wanted.numpy)), device, requires_grad)


def _symbolic_spaces(start: Any, end: Any, steps: Any, dtype: DType, endpoint: bool = True) -> Any:
    """What `linspace` gives where one of the numbers at least is a size or a symbol, in float64."""
    count = as_size(steps)
    lo, hi = (_end(v, dtype) for v in (start, end))
    if not endpoint:
        return lo + _ramp([count], 0).to(float64) * ((hi - lo) / dim_max(count, 1))
    last = dim_max(count - 1, 1)
    ramp = _ramp([count], 0).to(float64)
    return where(ramp == last, hi, lo + ramp * ((hi - lo) / last))


def _end(number: Any, dtype: DType) -> Any:
    """One end of a range, a symbol in float64, cut to a whole number for an integer dtype."""
    symbol = full((), number, dtype=float64)
    return symbol if dtype.is_floating else symbol.trunc()


def _ends(start: Any, end: Any, dtype: DType) -> tuple[float, float]:
    """The ends of a range as numbers of ``dtype``, which an integer dtype cuts to whole ones."""
    lo, hi = float(start), float(end)
    return (lo, hi) if dtype.is_floating else (float(int(lo)), float(int(hi)))


def _check_steps(what: str, steps: Any) -> None:
    if isinstance(steps, int) and steps < 0:
        raise ShapeError(f"{what}: {steps} steps; give 0 or more, at {format_locs(here())}")


@by_shape
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = int64, device: Any = None
) -> Tensor:
    """The row and column numbers, in two rows, of the elements of a matrix on and below the
    diagonal that lies ``offset`` above the main one."""
    return _triangle(np.tril_indices, "tril_indices", row, col, offset, dtype, device)


@by_shape
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = int64, device: Any = None
) -> Tensor:
    """The row and column numbers, in two rows, of the elements of a matrix on and above the
    diagonal that lies ``offset`` above the main one."""
    return _triangle(np.triu_indices, "triu_indices", row, col, offset, dtype, device)


def _triangle(
    find: Any, name: str, row: Any, col: Any, offset: Any, dtype: Any, device: Any
) -> Tensor:
    row, col, offset = map(as_size, (row, col, offset))
    for what, size in (("row", row), ("col", col)):
        if not 0 <= size <= sys.maxsize:  # which NumPy takes for another
            raise ShapeError(
                f"{name}: {what} must be from 0 to {sys.maxsize}, not {size}, "
                f"at {format_locs(here())}"
            )
    offset = min(max(offset, -row), col)  # NumPy counts with 64 bits
    indices = np.stack(find(row, offset, col)).astype(dtype_of(dtype).numpy)
    return finish_tensor(Tensor._wrap(indices), device, requires_grad=False)
