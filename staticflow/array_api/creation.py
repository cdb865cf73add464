"""Arrays made of sizes, bounds and data, by the names of the array API."""

from __future__ import annotations

from typing import Any

from staticflow.eager import creation, ranges
from staticflow.eager.creation import asarray, from_dlpack
from staticflow.graph.dtypes import get_default_dtype, int64
from staticflow.ops.basics import creation as like
from staticflow.ops.basics import joining
from staticflow.ops.declaring.sizes import as_sizes
from staticflow.ops.matrices import triangle

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros, in the default floating dtype unless ``dtype`` says another."""
    return creation.full(as_sizes(shape), 0, dtype=dtype or get_default_dtype(), device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones, in the default floating dtype unless ``dtype`` says another."""
    return creation.full(as_sizes(shape), 1, dtype=dtype or get_default_dtype(), device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array whose values nobody needs yet: zeros, so that programs repeat."""
    return zeros(shape, dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of ``shape`` of the number ``fill_value``, in its default dtype unless ``dtype``
    says another."""
    return creation.full(as_sizes(shape), fill_value, dtype=dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros in the shape, dtype and on the device of ``x``."""
    return like.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones in the shape, dtype and on the device of ``x``."""
    return like.ones_like(x, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """An array like ``x`` whose values nobody needs yet: zeros."""
    return like.zeros_like(x, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """The number ``fill_value`` in the shape, dtype and on the device of ``x``."""
    return like.full_like(x, fill_value, dtype=dtype, device=device)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Any:
    """The numbers from ``start`` (0 if ``stop`` is None) to before ``stop`` by ``step``: none where
    ``step`` leads away from ``stop``."""
    low, high = (0, start) if stop is None else (start, stop)
    if all(isinstance(v, int | float) for v in (low, high, step)) and (high - low) * step < 0:
        ints = all(isinstance(v, int) for v in (low, high, step))
        return zeros((0,), dtype=dtype or (int64 if ints else get_default_dtype()), device=device)
    return ranges.arange(low, high, step, dtype=dtype, device=device)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Any:
    """``num`` numbers evenly from ``start`` to ``stop``, which is the last of them, or with
    ``endpoint=False`` would be the next."""
    return ranges.linspace(start, stop, num, dtype=dtype, device=device, endpoint=endpoint)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """A matrix with ones on the diagonal that lies ``k`` above the main one, and zeros."""
    columns = n_rows if n_cols is None else n_cols
    if k == 0:
        return ranges.eye(n_rows, columns, dtype=dtype, device=device)
    rows = ranges.arange(n_rows, device=device).unsqueeze(1)
    k = max(-n_rows, min(k, columns))
    on = rows + k == ranges.arange(columns, device=device)
    return on.to(dtype or get_default_dtype())


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Any, ...]:
    """The coordinates of the points of a grid, an array for each of the vectors ``arrays``; with
    ``indexing="xy"`` the first of them runs along the columns, with "ij" along the rows."""
    return tuple(joining.meshgrid(*arrays, indexing=indexing)) if arrays else ()


def tril(x: Any, /, *, k: int = 0) -> Any:
    """Matrices with zeros above the diagonal that lies ``k`` above the main one."""
    return triangle.tril(x, k)


def triu(x: Any, /, *, k: int = 0) -> Any:
    """Matrices with zeros below the diagonal that lies ``k`` above the main one."""
    return triangle.triu(x, k)
