"""How far to go along a direction: a point that satisfies the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from staticflow.data_classes import dataclass

__all__ = ["Point", "strong_wolfe"]

DECREASE, CURVATURE = 1e-4, 0.9
"""By which part of what the slope promises the loss is to fall, and to which part the slope."""
MOST = 25
"""Evaluations."""
CLOSE = 1e-9
"""A bracket that is not wider along any parameter is not searched further."""


@dataclass(frozen=True, slots=True)
class Point:
    """The loss and its gradient, somewhere."""

    loss: float
    gradient: Any


@dataclass(frozen=True, slots=True)
class _Trial:
    """A point on the line: how far from its beginning, what is there, the slope."""

    length: float
    point: Point
    slope: float

    @property
    def loss(self) -> float:
        return self.point.loss


def strong_wolfe(
    at: Callable[[float], Point],
    begin: Point,
    direction: Any,
    length: float,
    slope: float,
    size: float,
) -> tuple[Point, float, int]:
    """A point along ``direction``, how far from ``begin`` it is, and how often ``at(length)`` was
    asked for it (Nocedal and Wright 2006, algorithms 3.5 and 3.6, with cubic interpolation, eq.
    3.59). ``length`` is tried first; ``slope`` is that at the beginning, ``size`` the largest
    element of the direction."""

    def try_length(length: float) -> _Trial:
        point = at(length)
        return _Trial(length, point, float((point.gradient * direction).sum()))

    def falls_enough(trial: _Trial) -> bool:
        return trial.loss <= begin.loss + DECREASE * trial.length * slope

    first = _Trial(0.0, begin, slope)
    last, now, count = first, try_length(length), 1
    while True:  # go further until a minimum must lie between two
        if not falls_enough(now) or (count > 1 and now.loss >= last.loss):
            low, high = (last, now) if last.loss <= now.loss else (now, last)
            break
        if abs(now.slope) <= -CURVATURE * slope:
            return now.point, now.length, count
        if now.slope >= 0:
            low, high = (last, now) if last.loss <= now.loss else (now, last)
            break
        if count >= MOST:
            low = first if first.loss <= now.loss else now
            return low.point, low.length, count
        nearest = now.length + 0.01 * (now.length - last.length)
        further = _minimum(last, now, nearest, now.length * 10)
        last, now, count = now, try_length(further), count + 1

    stuck = False
    while count < MOST and abs(high.length - low.length) * size >= CLOSE:
        near, far = sorted((low.length, high.length))
        length = _minimum(low, high, near, far)
        margin = 0.1 * (far - near)
        if min(far - length, length - near) < margin:  # hardly a smaller bracket
            if stuck or length >= far or length <= near:
                length = far - margin if abs(length - far) < abs(length - near) else near + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now, count = try_length(length), count + 1
        if not falls_enough(now) or now.loss >= low.loss:
            high = now
            if high.loss < low.loss:
                low, high = high, low
            continue
        if abs(now.slope) <= -CURVATURE * slope:
            return now.point, now.length, count
        if now.slope * (high.length - low.length) >= 0:
            high = low
        low = now
    return low.point, low.length, count


def _minimum(a: _Trial, b: _Trial, least: float, most: float) -> float:
    """Where the cubic through two points with these slopes is least, within bounds; in their middle
    if it has no minimum."""
    if a.length > b.length:
        a, b = b, a
    width = b.length - a.length
    if not width:
        return (least + most) / 2
    mean = a.slope + b.slope - 3 * (b.loss - a.loss) / width
    square = mean * mean - a.slope * b.slope
    if not 0 <= square < math.inf:
        return (least + most) / 2
    root = math.sqrt(square)
    divisor = b.slope - a.slope + 2 * root
    if not divisor:
        return (least + most) / 2
    return min(max(b.length - width * ((b.slope + root - mean) / divisor), least), most)
