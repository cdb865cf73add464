"""Where rows of boxes stand: coordinates, given which box is how large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from staticflow.data_classes import dataclass
from staticflow.drawing.layers import Edge, Rows, segments

__all__ = ["Places", "place"]

GAP = 14.0
"""Between boxes of a row."""
BEND_WIDTH = 6.0
ROW_GAP = 30.0
_SWEEPS = 6
_BEND_WEIGHT, _END_WEIGHT = 3.0, 0.05
"""How much a bend counts beside a box, so that long edges are straight, and how much a box that is
not between others, so that weights stand aside of a chain and do not shift it."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Places:
    """The middle of each box, the points that each edge goes through, and the size of all. The
    left upper corner is at (0, 0)."""

    middles: Mapping[int, Point]
    ways: Mapping[Edge, list[Point]]
    width: float
    height: float


def place(rows: Rows, edges: Sequence[Edge], sizes: Mapping[int, Point]) -> Places:
    """The places of rows of boxes whose widths and heights are ``sizes``."""
    ways = segments(rows, dict.fromkeys(edges))
    xs = _across(rows, ways, sizes)
    ys, tops, height = _down(rows, sizes)
    left = min((xs[r, i] - _width(i, sizes) / 2 for r, i in xs), default=0.0)
    right = max((xs[r, i] + _width(i, sizes) / 2 for r, i in xs), default=0.0)
    middles = {i: (xs[r, i] - left, ys[r]) for r, i in xs if i >= 0}
    points: dict[Edge, list[Point]] = {}
    for edge, way in ways.items():
        (first, source), *between, (last, target) = way
        start, end = xs[first, source] - left, xs[last, target] - left
        found = [(start, ys[first] + sizes[source][1] / 2), (start, 2 * ys[first] - tops[first])]
        for r, bend in between:
            x = xs[r, bend] - left
            found += [(x, tops[r]), (x, 2 * ys[r] - tops[r])]
        found += [(end, tops[last]), (end, ys[last] - sizes[target][1] / 2)]
        points[edge] = list(dict.fromkeys(found))
    return Places(middles, points, right - left, height)


def _width(item: int, sizes: Mapping[int, Point]) -> float:
    return sizes[item][0] if item >= 0 else BEND_WIDTH


def _down(rows: Rows, sizes: Mapping[int, Point]) -> tuple[list[float], list[float], float]:
    """The middles and the tops of the rows, and the height of all."""
    ys, tops, y = [], [], 0.0
    for row in rows:
        height = max((sizes[i][1] for i in row if i >= 0), default=0.0)
        tops.append(y)
        ys.append(y + height / 2)
        y += height + ROW_GAP
    return ys, tops, max(y - ROW_GAP, 0.0)


def _across(
    rows: Rows, ways: Mapping[Edge, list[tuple[int, int]]], sizes: Mapping[int, Point]
) -> dict[tuple[int, int], float]:
    """The middle of each item, as near as can be to the mean of its neighbours, by turns above and
    below. Neighbours that lead no further do not count beside others that do."""
    above: dict[tuple[int, int], list[tuple[int, int]]] = {}
    below: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for way in ways.values():
        for a, b in pairwise(way):
            below.setdefault(a, []).append(b)
            above.setdefault(b, []).append(a)
    weights = [
        [
            _BEND_WEIGHT if i < 0 else 1.0 if (r, i) in above and (r, i) in below else _END_WEIGHT
            for i in row
        ]
        for r, row in enumerate(rows)
    ]
    xs: dict[tuple[int, int], float] = {}
    for r, row in enumerate(rows):
        _keep_apart(r, row, [0.0] * len(row), weights[r], sizes, xs)
    for sweep in range(_SWEEPS):
        near = below if sweep % 2 else above
        for r in reversed(range(len(rows))) if sweep % 2 else range(len(rows)):
            wanted = []
            for item in rows[r]:
                others = near.get((r, item)) or [(r, item)]
                others = [o for o in others if o in near] or others
                wanted.append(sum(xs[o] for o in others) / len(others))
            _keep_apart(r, rows[r], wanted, weights[r], sizes, xs)
    return xs


def _keep_apart(
    r: int,
    row: Sequence[int],
    wanted: Sequence[float],
    weights: Sequence[float],
    sizes: Mapping[int, Point],
    xs: dict[tuple[int, int], float],
) -> None:
    """Put the items of row ``r`` into ``xs`` in their order, without overlap, so that the sum of
    the squares of their distances from where they are ``wanted``, by ``weights``, is least.

    Without the room that each takes up, that is isotonic regression: neighbours in the wrong order
    meet at their mean (R. Barlow et al., "Statistical Inference under Order Restrictions", 1972).
    """
    offsets, offset = [], 0.0
    for i, item in enumerate(row):
        if i:
            offset += (_width(row[i - 1], sizes) + _width(item, sizes)) / 2 + GAP
        offsets.append(offset)
    blocks: list[tuple[float, float, int]] = []  # the mean, its weight, how many items
    for goal, off, weight in zip(wanted, offsets, weights, strict=True):
        mean, count = goal - off, 1
        while blocks and blocks[-1][0] >= mean:
            other, more, items = blocks.pop()
            mean = (mean * weight + other * more) / (weight + more)
            weight, count = weight + more, count + items
        blocks.append((mean, weight, count))
    at = 0
    for mean, _, count in blocks:
        for _ in range(count):
            xs[r, row[at]] = mean + offsets[at]
            at += 1
