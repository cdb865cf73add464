"""Rules that follow from how an op is declared, and those that only rename attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticflow.graph.dims import Size, prod
from staticflow.graph.graph import new_param
from staticflow.graph.locs import here
from staticflow.ops.basics.axes import permute_op, transpose_op
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.view import reshape_op, unsqueeze_op
from staticflow.ops.batching.row import Row, add_ones
from staticflow.ops.declaring.tracing import tracing
from staticflow.ops.symbols.symbol import Symbol

__all__ = [
    "align", "as_it_is", "expand_rule", "fill_rule", "permute_rule", "product_of_elements",
    "repeat_rule", "transpose_rule", "whole", "write_out",
]  # fmt: skip

_DIMS = ("dim", "dims", "dim0", "dim1", "dim2")
"""Attributes that name dims."""

_FRONT: Mapping[str, Size | str | None] = {
    "shape": None,
    "size": None,
    "spec": "",
    "start": 0,
    "step": 1,
}
"""Attributes that may have an entry for each dim, with that of the dim of rows, where None is the
number of rows."""


def align(row: Row) -> Any:
    """An op that broadcasts: dims of 1 behind the batch where a row has fewer dims than others."""
    rank = max(map(row.ndim, range(len(row.values))))
    return row.op(*(row.align(i, rank) for i in range(len(row.values))), **row.attrs)


def as_it_is(row: Row) -> Any:
    """An op that takes any number of dims in front."""
    return row.op(*row.wholes, **row.attrs)


def _shift(value: Any) -> Any:
    return tuple(d + 1 for d in value) if isinstance(value, tuple) else value + 1


def _attr_of_rows(name: str, value: Any, size: Size) -> Any:
    """An attribute of a row as one of ``size`` rows: dims are one further on, and what has an
    entry for each dim gets one for that of the rows."""
    if name in _DIMS:
        return _shift(value)
    if name in _FRONT and isinstance(value, tuple):
        first = _FRONT[name]
        return (size if first is None else first, *value)
    return value


def whole(row: Row) -> Any:
    """An op on dims that attributes name or have entries for."""
    attrs = {name: _attr_of_rows(name, v, row.size) for name, v in row.attrs.items()}
    if "dim" in attrs and not any(map(row.ndim, range(len(row.values)))):
        return _as_vectors(row, attrs)
    return row.op(*row.wholes, **attrs)


def _as_vectors(row: Row, attrs: dict[str, Any]) -> Any:
    """An op along a dim, of rows that have none, which it takes for vectors of one."""
    if row.op.name == "stack":
        return row.op(*row.wholes, **attrs)
    found = row.op(*(unsqueeze_op(x, dims=(1,)) for x in row.wholes), **attrs)
    if isinstance(found, tuple):
        return tuple(reshape_op(y, shape=(row.size,)) for y in found)
    return reshape_op(found, shape=(row.size,))


def product_of_elements(row: Row) -> Any:
    """A product over one dim, or of all elements, which the op has a derivative for."""
    dims, x = row.attrs["dims"], row.args[0]
    if len(dims) == 1:
        return whole(row)
    flat = reshape_op(x, shape=(row.size, prod(x.__sf_shape__[1:])))
    found = row.op(flat, dims=(1,), keepdim=False)
    return reshape_op(found, shape=(row.size, *row.node.tensor_type.shape))


def fill_rule(row: Row) -> Any:
    """A number for each row is broadcast with the tensor that it fills, which has the shape."""
    rank = row.node.tensor_type.ndim
    x = add_ones(row.whole(2), rank - row.ndim(2))
    return row.op(row.align(0, rank), row.align(1, rank), x)


def permute_rule(row: Row) -> Any:
    """The dim of the batch stays in front."""
    return permute_op(row.args[0], dims=(0, *_shift(row.attrs["dims"])))


def transpose_rule(row: Row) -> Any:
    """The transposes of matrices."""
    return transpose_op(row.args[0], dim0=1, dim1=2)


def expand_rule(row: Row) -> Any:
    """New dims stand behind that of the batch."""
    shape: tuple[Size, ...] = row.attrs["shape"]
    return expand_op(row.align(0, len(shape)), shape=(row.size, *shape))


def repeat_rule(row: Row) -> Any:
    """New dims stand behind that of the batch, which is not repeated."""
    sizes = row.attrs["sizes"]
    return row.op(row.align(0, len(sizes)), sizes=(1, *sizes))


def write_out(row: Row) -> Any:
    """An op that is other ops, each of them batched."""
    assert row.op.decompose is not None
    own = [new_param(a.tensor_type, "x", locs=here()) for a in row.node.args]
    with tracing():
        found = row.op.decompose(*map(Symbol, own), **row.attrs)
    several = isinstance(found, tuple)
    nodes = [y.node for y in (found if several else (found,))]
    return row.walk.outputs(nodes, dict(zip(own, row.values, strict=True)))
