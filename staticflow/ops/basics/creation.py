"""Ops without tensor arguments: values that follow from sizes alone.

Where only the run can tell a size, they take a tie for it (see `staticflow.ops.declaring.late`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dims import Dim, Size
from staticflow.graph.dtypes import DType, dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.memory_formats import require_rows
from staticflow.graph.numbers import fitting
from staticflow.graph.op import Op
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.lowering import Generate
from staticflow.ops.declaring.sizes import as_shape, is_symbolic, sizes_of

__all__ = [
    "empty_like",
    "full",
    "full_like",
    "full_of_symbol",
    "iota",
    "new_empty",
    "new_full",
    "new_ones",
    "new_zeros",
    "ones_like",
    "size_value",
    "zeros_like",
]  # fmt: skip


def _full_reference(xp: Any, *ties: Any, shape: Any, value: Any, dtype: DType) -> Any:
    if value == 0 and copysign(1.0, value) > 0:  # which the system has at hand
        return xp.zeros(shape, dtype.numpy)
    return xp.full(shape, value, dtype=dtype.numpy)


full = Op(
    name="full",
    doc="A tensor of ``shape`` with ``value`` everywhere.",
    infer=lambda facts, *ties, shape, value, dtype: TensorType(dtype, shape),
    reference=_full_reference,
    vjp=None,
    lowering=Generate(lambda k, index, lanes, *, shape, value, dtype: k.const(value, dtype, lanes)),
    numpy="alone",
    exact=True,
)


@by_shape
def full_like(
    input: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """``fill_value`` everywhere, in the shape and mode of ``input``, and unless given in its dtype
    and on its device. A ``memory_format`` is None, `preserve_format` or `contiguous_format`: new
    tensors are in row-major order.
    """
    require_rows("full_like", memory_format)
    return new_full(
        input, input.shape, fill_value, dtype=dtype, device=device, requires_grad=requires_grad
    )


@by_shape
def zeros_like(
    input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:  # fmt: skip
    """Zeros of the shape and dtype of ``input``, in its mode; the options are `full_like`'s."""
    require_rows("zeros_like", memory_format)
    return full_like(input, 0, dtype=dtype, device=device, requires_grad=requires_grad)


@by_shape
def ones_like(
    input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:  # fmt: skip
    """Ones of the shape and dtype of ``input``, in its mode; the options are `full_like`'s."""
    require_rows("ones_like", memory_format)
    return full_like(input, 1, dtype=dtype, device=device, requires_grad=requires_grad)


@by_shape
def empty_like(
    input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:  # fmt: skip
    """A tensor like ``input`` whose values nobody needs: zeros, so that programs repeat."""
    require_rows("empty_like", memory_format)
    return full_like(input, 0, dtype=dtype, device=device, requires_grad=requires_grad)


@by_shape
def new_full(
    x: Any,
    size: Sequence[Size],
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """A tensor of ``size`` filled with ``fill_value``, in the mode, dtype and device of ``x``."""
    wanted = x.dtype if dtype is None else dtype_of(dtype)
    shape = as_shape(size)
    if isinstance(fill_value, Dim):
        fill_value = size_value.beside(x, size=fill_value, dtype=wanted)
    if is_symbolic(fill_value):
        out = full_of_symbol(fill_value, shape, wanted)
    else:
        value = fitting(fill_value, wanted, "full")
        out = full.beside(x, shape=shape, value=value, dtype=wanted)
    if device is not None:
        out = out.to(device=device)
    return out.requires_grad_() if requires_grad else out


def full_of_symbol(number: Any, shape: Shape, dtype: DType) -> Any:
    """A symbol of no dims everywhere, without its history, as that of a Python number. Raises
    `ShapeError` for one that has dims."""
    if number.ndim:
        raise ShapeError(
            f"full: the value must be a number or 0-d, not of shape {list(number.shape)}, at "
            f"{format_locs(here())}"
        )
    return number.detach().to(dtype).expand(shape).clone()


@by_shape
def new_zeros(x: Any, *sizes: Any, size: Sequence[Size] | None = None, **options: Any) -> Any:
    """Zeros of ``sizes`` (numbers or one tuple), in the mode, dtype and device of ``x``."""
    return new_full(x, sizes_of(sizes, size), 0, **options)


@by_shape
def new_ones(x: Any, *sizes: Any, size: Sequence[Size] | None = None, **options: Any) -> Any:
    """Ones of ``sizes`` (numbers or one tuple), in the mode, dtype and device of ``x``."""
    return new_full(x, sizes_of(sizes, size), 1, **options)


@by_shape
def new_empty(x: Any, *size: Any, **options: Any) -> Any:
    """A tensor of ``size`` whose values nobody needs: zeros, so that programs repeat."""
    return new_zeros(x, *size, **options)


def _iota_reference(xp: Any, *ties: Any, shape: Any, dim: int, dtype: DType) -> Any:
    column = [1] * len(shape)
    column[dim] = shape[dim]
    ramp = xp.arange(shape[dim], dtype=dtype.numpy).reshape(column)
    return ramp if ramp.shape == tuple(shape) else xp.broadcast_to(ramp, shape).copy()


iota = Op(
    name="iota",
    doc="A tensor of ``shape`` whose elements are their own index along ``dim``.",
    infer=lambda facts, *ties, shape, dim, dtype: TensorType(dtype, shape),
    reference=_iota_reference,
    vjp=None,
    lowering=Generate(
        lambda k, index, lanes, *, shape, dim, dtype: k.cast(
            k.index_value(index[dim], lanes), dtype
        )
    ),
)


def _size_emit(k: Any, index: Any, lanes: int, *, size: Size, dtype: DType) -> Any:
    return k.cast(k.index_value(size, lanes), dtype)


size_value = Op(
    name="size",
    doc="A size as a 0-d tensor.",
    infer=lambda facts, *ties, size, dtype: TensorType(dtype, ()),
    reference=lambda xp, *ties, size, dtype: xp.asarray(size, dtype=dtype.numpy),
    vjp=None,
    lowering=Generate(_size_emit),
)
