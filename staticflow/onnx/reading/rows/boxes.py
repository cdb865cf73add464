"""NonMaxSuppression: the best of boxes that overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticflow.eager.creation import full
from staticflow.eager.ranges import arange
from staticflow.errors import ShapeError
from staticflow.graph.dtypes import bool_, int64
from staticflow.graph.locs import format_locs, here
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.ops.along.cumulative import cumsum
from staticflow.ops.along.order import argsort
from staticflow.ops.basics.arithmetic import (
    eq,
    gt,
    le,
    logical_and,
    logical_not,
    maximum,
    minimum,
    mul,
)  # fmt: skip
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.joining import stack
from staticflow.ops.basics.reduce import any
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.elementwise.variants import add, div, sub
from staticflow.ops.indexing.data_dependent import nonzero, where
from staticflow.ops.indexing.gather_ops import gather
from staticflow.ops.loops.scan import scan

__all__ = ["BOXES"]


def _ends(boxes: Any, center: int) -> Any:
    """The low and high ends of boxes (..., 4) along both axes, as (4, ...)."""
    a, b, c, d = (boxes[..., i] for i in range(4))
    if center:  # x, y, width, height
        half, tall = div(c, 2), div(d, 2)
        return stack([sub(a, half), add(a, half), sub(b, tall), add(b, tall)])
    return stack([minimum(b, d), maximum(b, d), minimum(a, c), maximum(a, c)])


def _overlaps(box: Any, others: Any, bound: Any) -> Any:
    """Whether ``others`` share more than ``bound`` of their union with ``box``, both (4, ...)."""
    width = sub(minimum(box[1], others[1]), maximum(box[0], others[0]))
    height = sub(minimum(box[3], others[3]), maximum(box[2], others[2]))
    shared = mul(width, height)
    areas = [mul(sub(b[1], b[0]), sub(b[3], b[2])) for b in (box, others)]
    touch = logical_and(gt(width, 0), gt(height, 0))
    return logical_and(touch, gt(div(shared, sub(add(*areas), shared)), bound))


def _non_max_suppression(
    boxes: Any, scores: Any, most: Any = None, iou_threshold: Any = None,
    score_threshold: Any = None, *, center_point_box: int = 0,
) -> Any:  # fmt: skip
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[-1] != 4:
        raise ShapeError(
            "boxes are (batch, number, 4) and scores (batch, classes, number), not "
            f"{list(boxes.shape)} and {list(scores.shape)}, at {format_locs(here())}"
        )
    if most is None:
        return full((0, 3), 0, dtype=int64)
    bound = 0.0 if iou_threshold is None else reshape(iou_threshold, ())
    order = argsort(scores, -1, True, True)  # the best first, of equal ones the first
    ranks = arange(scores.shape[-1])
    batch = reshape(arange(boxes.shape[0]), (-1, 1, 1))
    ordered = _ends(boxes, center_point_box)[:, batch, order]  # (4, batch, classes, number)
    best = gather(scores, -1, order)
    allowed = (
        full(tuple(scores.shape), True, dtype=bool_) if score_threshold is None
        else gt(best, reshape(score_threshold, ()))
    )  # fmt: skip

    def choose(kept: Any, row_: tuple[Any, Any, Any]) -> Any:
        rank, box, may = row_
        lost = any(logical_and(kept, _overlaps(unsqueeze(box, -1), ordered, bound)), -1)
        chosen = logical_and(may, logical_not(lost))
        return where(eq(ranks, rank), unsqueeze(chosen, -1), kept), ()

    begin = full(tuple(scores.shape), False, dtype=bool_)
    rows = (ranks, movedim(ordered, -1, 0), movedim(allowed, -1, 0))
    kept, _ = scan(choose, begin, rows)
    kept = logical_and(kept, le(cumsum(cast(kept, int64), -1), reshape(most, ())))
    b, c, rank = nonzero(kept, as_tuple=True)
    return stack([b, c, order[b, c, rank]], 1)


BOXES: Mapping[str, Row] = {"NonMaxSuppression": row(_non_max_suppression)}
"""The row of each of these, by its name."""
