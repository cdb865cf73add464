"""Sequences of tensors, which are Python lists of known length, and what may be there or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from staticflow.errors import ShapeError
from staticflow.graph.dims import Dim
from staticflow.graph.locs import format_locs, here
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.reading.rows.shapes import axis_of
from staticflow.onnx.reading.values import Known, Value, as_tensor, integers, one, read
from staticflow.ops.basics.joining import cat, stack
from staticflow.ops.basics.splitting import part_of
from staticflow.ops.basics.view import squeeze
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["SEQUENCES"]


def _place(sequence: list[Any], position: Value, more: int = 0) -> int:
    at = integers(one(read(position)), "a position in a sequence")[0]
    count = len(sequence) + more
    if not -count <= at < count:
        raise ShapeError(
            f"position {at} is none of a sequence of {len(sequence)}, at {format_locs(here())}"
        )
    return at % count


def _insert(sequence: list[Any], tensor: Value, position: Value = None) -> Any:
    at = len(sequence) if position is None else _place(sequence, position, 1)
    return [*sequence[:at], tensor, *sequence[at:]]


def _erase(sequence: list[Any], position: Value = None) -> Any:
    at = len(sequence) - 1 if position is None else _place(sequence, position)
    return [*sequence[:at], *sequence[at + 1 :]]


def _tensors(sequence: list[Any]) -> list[Any]:
    symbolic = any(isinstance(v, Symbol) for v in sequence)
    return [as_tensor(v, symbolic) for v in sequence]


def _concat(sequence: list[Any], *, axis: int, new_axis: int = 0) -> Any:
    parts = _tensors(sequence)
    return stack(parts, axis) if new_axis else cat(parts, axis_of(axis, parts[0].ndim))


def _split(x: Any, split: Value = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    x = as_tensor(x, False)
    axis = axis_of(axis, x.ndim)
    size = x.shape[axis]
    if isinstance(size, Dim):
        raise ShapeError(
            f"a sequence has a known number of parts, and dim {axis} of {list(x.shape)} is "
            f"unknown, at {format_locs(here())}"
        )
    given = 1 if split is None else read(split)
    if isinstance(given, list):
        sizes = integers(given, "the sizes of the parts")
    else:
        part = max(integers(given, "the size of the parts")[0], 1)
        sizes = [min(part, size - a) for a in range(0, size, part)]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    parts = [part_of(x, axis, a, n) for a, n in zip(starts, sizes, strict=True)]
    return parts if keepdims or split is not None else [squeeze(p, axis) for p in parts]


def _map(*values: Value, body: Any) -> Any:
    count = len(values[0])
    rows = [body(*(v[i] if isinstance(v, list) else v for v in values)) for i in range(count)]
    columns = tuple(list(column) for column in zip(*rows, strict=True))
    return columns or tuple([] for _ in body.plan.outputs)


SEQUENCES: Mapping[str, Row] = {
    "ConcatFromSequence": row(_concat, whole=True),
    "Optional": row(lambda x=None: x, whole=True, ignored="type"),
    "OptionalGetElement": row(lambda x: x, whole=True),
    "OptionalHasElement": row(lambda x=None: Known(np.asarray(x is not None)), whole=True),
    "SequenceAt": row(lambda s, position: s[_place(s, position)], whole=True, static="position"),
    "SequenceConstruct": row(lambda *xs: list(xs), whole=True),
    "SequenceEmpty": row(lambda: [], whole=True, ignored="dtype"),
    "SequenceErase": row(_erase, whole=True, static="position"),
    "SequenceInsert": row(_insert, whole=True, static="position"),
    "SequenceLength": row(lambda s: Known(np.asarray(len(s), np.int64)), whole=True),
    "SequenceMap": row(_map, whole=True),
    "SplitToSequence": row(_split, whole=True, static="split"),
}
"""Rows by operator."""
