"""One row for every op: samples, expectations, failures. ``tests/test_ops.py`` goes through them."""

from __future__ import annotations

from opinfo import (
    activation,
    advanced,
    arithmetic,
    bits,
    border,
    compare,
    contract,
    convolution,
    creation,
    cumulative,
    custom,
    factors,
    floats,
    indexing,
    joining,
    losses,
    maths,
    moments,
    normalization,
    order,
    pairs,
    pooling,
    random,
    reduce,
    scan,
    softmax,
    solving,
    special,
    strided,
    triangle,
    trig,
    view,
)  # fmt: skip
from opinfo.core import OpInfo

__all__ = ["ROWS"]

_TABLES = (
    arithmetic,
    maths,
    trig,
    special,
    bits,
    compare,
    pairs,
    activation,
    random,
    creation,
    reduce,
    cumulative,
    moments,
    order,
    view,
    strided,
    joining,
    contract,
    factors,
    floats,
    indexing,
    advanced,
    triangle,
    softmax,
    solving,
    losses,
    scan,
    convolution,
    custom,
    pooling,
    border,
    normalization,
)

ROWS: dict[str, OpInfo] = {row.op.name: row for table in _TABLES for row in table.ROWS}
"""The row of each op, by the op's name."""
