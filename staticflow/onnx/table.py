"""The row of each op: its own, or what its declaration says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from staticflow.graph.op import Op
from staticflow.onnx.compositions import COMPOSED
from staticflow.onnx.rows.along import ALONG, write_reduction
from staticflow.onnx.rows.elementwise import ELEMENTWISE
from staticflow.onnx.rows.indexing import INDEXING
from staticflow.onnx.rows.loops import write_cond, write_scan, write_while
from staticflow.onnx.rows.matrices import MATRICES
from staticflow.onnx.rows.row import Row
from staticflow.onnx.rows.views import VIEWS, write_view
from staticflow.onnx.rows.windows import WINDOWS
from staticflow.ops import OPS
from staticflow.ops.along.ordered_collectives import COLLECTIVES
from staticflow.ops.declaring.lowering import Elementwise, Reduce, View

__all__ = ["REGIONS", "Way", "composition_of", "row_of", "way_of", "why_refused"]

_ROWS: dict[Op, Row] = {**ELEMENTWISE, **VIEWS, **ALONG, **MATRICES, **INDEXING, **WINDOWS}


_FACTORS = "no operator factors matrices or solves equations"
_ALONE = "a model is run by one process"
_TYPES = "no operator takes it of these types and with these options"
REASONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "cholesky",
            "eigh",
            "eigvalsh",
            "least_squares",
            "lu",
            "matrix_exp",
            "qr",
            "row_order",
            "slogdet",
            "solve",
            "solve_lower",
            "solve_upper",
            "svd",
            "svdvals",
        ),
        _FACTORS,
    ),
    **dict.fromkeys((op.name for op in COLLECTIVES), _ALONE),
    "gcd": "Euclid's algorithm is a loop for each element",
    "lcm": "Euclid's algorithm is a loop for each element",
    "print": "a model says nothing but its results",
}
"""Why ops have no form in ONNX; of others single calls are refused, by `_TYPES`."""

REGIONS = {OPS["scan"]: write_scan, OPS["while"]: write_while, OPS["cond"]: write_cond}
"""Ops that hold regions."""

Way = Literal["operator", "declaration", "composed", "refused"]
"""How an op is exported: by a row of its own; by what its declaration says of single elements, of
what it combines, or of where elements stand; by the ops that it is composed of; or not at all."""


def row_of(op: Op) -> Row | None:
    """The row of an op; None where it is composed of others, refused, or elementwise."""
    if op in _ROWS:
        return _ROWS[op]
    if isinstance(op.lowering, Reduce):
        return write_reduction
    return write_view if isinstance(op.lowering, View) else None


def way_of(op: Op) -> Way:
    """How an op is exported."""
    if op.name in REASONS:
        return "refused"
    if op in _ROWS or op in REGIONS:
        return "operator"
    if isinstance(op.lowering, Elementwise | Reduce | View):
        return "declaration"
    return "refused" if composition_of(op) is None else "composed"


def why_refused(op: Op) -> str:
    """Why an op has no form in ONNX."""
    return REASONS.get(op.name, _TYPES)


def composition_of(op: Op) -> Callable[..., Any] | None:
    """What says an op in others; None where nothing does."""
    return COMPOSED.get(op, op.decompose)
