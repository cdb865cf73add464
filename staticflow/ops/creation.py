"""Ops without tensor arguments: values that follow from sizes alone."""

from __future__ import annotations

from typing import Any

from staticflow.graph.dims import Size
from staticflow.graph.dtypes import DType
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.lowering import Generate

__all__ = ["full", "iota", "ones_like", "size_value", "zeros_like"]

full = Op(
    name="full",
    doc="A tensor of ``shape`` with ``value`` everywhere.",
    infer=lambda facts, *, shape, value, dtype: TensorType(dtype, shape),
    reference=lambda xp, *, shape, value, dtype: xp.full(shape, value, dtype=dtype.numpy),
    vjp=None,
    lowering=Generate(lambda k, index, lanes, *, shape, value, dtype: k.const(value, dtype, lanes)),
)


def zeros_like(x: Any) -> Any:
    """Zeros of the shape and dtype of ``x``, in its mode."""
    return full.beside(x, shape=x.shape, value=_number(0, x.dtype), dtype=x.dtype)


def ones_like(x: Any) -> Any:
    """Ones of the shape and dtype of ``x``, in its mode."""
    return full.beside(x, shape=x.shape, value=_number(1, x.dtype), dtype=x.dtype)


def _number(value: int, dtype: DType) -> bool | int | float:
    kinds: dict[str, type[bool] | type[int] | type[float]] = {"b": bool, "f": float}
    return kinds.get(dtype.kind, int)(value)


def _iota_infer(facts: Facts, *, shape: Shape, dim: int, dtype: DType) -> TensorType:
    return TensorType(dtype, shape)


def _iota_reference(xp: Any, *, shape: Any, dim: int, dtype: DType) -> Any:
    column = [1] * len(shape)
    column[dim] = shape[dim]
    return xp.broadcast_to(xp.arange(shape[dim], dtype=dtype.numpy).reshape(column), shape).copy()


iota = Op(
    name="iota",
    doc="A tensor of ``shape`` whose elements are their own index along ``dim``.",
    infer=_iota_infer,
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
    infer=lambda facts, *, size, dtype: TensorType(dtype, ()),
    reference=lambda xp, *, size, dtype: xp.asarray(size, dtype=dtype.numpy),
    vjp=None,
    lowering=Generate(_size_emit),
)
