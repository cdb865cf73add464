"""One row for every op: samples, expectations, failures. ``tests/test_ops.py`` goes through them."""

from __future__ import annotations

from opinfo import arithmetic, contract, creation, indexing, maths, reduce, scan, softmax, view
from opinfo.core import OpInfo

__all__ = ["ROWS"]

_TABLES = (arithmetic, maths, creation, reduce, view, contract, indexing, softmax, scan)

ROWS: dict[str, OpInfo] = {row.op.name: row for table in _TABLES for row in table.ROWS}
"""The row of each op, by the op's name."""
