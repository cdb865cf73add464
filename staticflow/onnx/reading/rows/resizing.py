"""Resizing: each element of a result is a sum of a few of the operand, along one dim after the
other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from staticflow.eager.creation import full
from staticflow.eager.ranges import arange
from staticflow.errors import ShapeError
from staticflow.graph.dtypes import float32, float64, int64
from staticflow.graph.locs import format_locs, here
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.reading.rows.shapes import axis_of
from staticflow.ops.basics.arithmetic import clamp, ge, gt, le, logical_and, logical_or, lt, mul
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.view import reshape
from staticflow.ops.elementwise.maths import abs, ceil, floor
from staticflow.ops.elementwise.variants import add, div, sub
from staticflow.ops.indexing.data_dependent import where
from staticflow.ops.indexing.index_functions import index_select

__all__ = ["RESIZING"]

_NEAREST: Mapping[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda at: ceil(sub(at, 0.5)),
    "round_prefer_ceil": lambda at: floor(add(at, 0.5)),
    "floor": floor,
    "ceil": ceil,
}
"""The element that is nearest to a position, by what the standard calls it."""


def _refuse(what: str) -> ShapeError:
    return ShapeError(f"{what}, at {format_locs(here())}")


def _position(
    count: Any, size: Any, scale: Any, mode: str, roi: tuple[float, float] | None
) -> tuple[Any, Any]:
    """Where the elements of the result lie in the operand, and which lie outside of what is cut out
    (None where nothing is)."""
    x = arange(count, dtype=float64)
    length = count if scale is None else scale * size
    by = div_sizes(count, size) if scale is None else scale
    if mode == "half_pixel":
        return sub(div(add(x, 0.5), by), 0.5), None
    if mode == "pytorch_half_pixel":
        if _is(length, 1):
            return zeros_like(x) - 0.5, None
        return sub(div(add(x, 0.5), by), 0.5), None
    if mode == "half_pixel_symmetric":
        offset = (1 - div_sizes(count, length)) * div_sizes(size, 2)
        return add(sub(div(add(x, 0.5), by), 0.5), offset), None
    if mode == "asymmetric":
        return div(x, by), None
    if mode == "align_corners":
        return (zeros_like(x) if _is(length, 1) else div(mul(x, size - 1), length - 1)), None
    if mode == "tf_crop_and_resize":
        if roi is None:
            raise _refuse("what is cut out, roi, must be given")
        first, last = roi
        wide = (last - first) * (size - 1)
        at = zeros_like(x) + wide / 2 if _is(length, 1) else div(mul(x, wide), length - 1)
        at = add(at, first * (size - 1))
        return at, logical_or(lt(at, 0), gt(at, size - 1))
    raise _refuse(f"the positions {mode!r} are not known")


def _is(value: Any, number: int) -> bool:
    return isinstance(value, int | float) and value == number


def div_sizes(a: Any, b: Any) -> Any:
    """A quotient of sizes and numbers, one of which may be unknown."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a / b if b else math.nan
    return a / b


def _cubic(a: float) -> Callable[[Any], Any]:
    """Keys' kernel, of Cubic Convolution Interpolation for Digital Image Processing (1981)."""

    def weight(x: Any) -> Any:
        x = abs(x)
        near = add(mul(mul(sub(mul(x, a + 2), a + 3), x), x), 1)
        far = sub(mul(add(mul(sub(mul(x, a), 5 * a), x), 8 * a), x), 4 * a)
        return where(le(x, 1), near, where(lt(x, 2), far, zeros_like(x)))

    return weight


def _linear(x: Any) -> Any:
    return clamp(sub(1, abs(x)), 0, 1)


def _along(
    x: Any, dim: int, count: Any, scale: Any, *, mode: str, how: str, nearest: str, a: float,
    outside: bool, antialias: bool, roi: tuple[float, float] | None, fill: float,
) -> Any:  # fmt: skip
    """One dim resized to ``count`` elements."""
    size = x.shape[dim]
    at, beyond = _position(count, size, scale, how, roi)
    dtype = x.dtype
    if mode == "nearest":
        if nearest not in _NEAREST:
            raise _refuse(f"the nearest element by {nearest!r} is not known")
        index = clamp(cast(_NEAREST[nearest](at), int64), 0, size - 1)
        found = index_select(x, dim, index)
    else:
        narrow = 1.0
        if antialias:
            if not isinstance(scale, int | float):
                scale = div_sizes(count, size)
            if not isinstance(scale, int | float):
                raise _refuse("a filter against aliasing of unknown sizes is not resized by")
            narrow = min(float(scale), 1.0)
        found = _weigh_along(x, dim, at, size, mode, a, narrow, outside)
    if beyond is not None:
        shape = [1] * x.ndim
        shape[dim] = count
        found = where(reshape(beyond, tuple(shape)), full((), fill, dtype=found.dtype), found)
    return cast(found, dtype)


def _weigh_along(
    x: Any, dim: int, at: Any, size: Any, mode: str, a: float, narrow: float, outside: bool
) -> Any:
    reach = 1 if mode == "linear" else 2
    weigh = _linear if mode == "linear" else _cubic(a)
    wide = x if x.dtype.is_floating else cast(x, float32)
    first = math.floor(-reach / narrow) + 1
    base = sub(ceil(at), 1)
    part = sub(at, base)  # in (0, 1]
    weights, places = [], []
    for i in range(first, 2 - first):
        place = add(base, i)
        weight = weigh(mul(sub(i, part), narrow))
        if outside:
            inside = logical_and(ge(place, 0), le(place, size - 1))
            weight = where(inside, weight, zeros_like(weight))
        weights.append(weight)
        places.append(clamp(cast(place, int64), 0, size - 1))
    if outside or narrow < 1:
        total = weights[0]
        for weight in weights[1:]:
            total = add(total, weight)
        weights = [div(weight, total) for weight in weights]
    shape = [1] * x.ndim
    shape[dim] = -1
    found: Any = None
    for weight, place in zip(weights, places, strict=True):
        term = mul(index_select(wide, dim, place), reshape(cast(weight, wide.dtype), tuple(shape)))
        found = term if found is None else add(found, term)
    return found


def _scale_size(size: Any, scale: float) -> Any:
    """The whole part of a size times a number, exactly."""
    exact = Fraction(scale)
    return size * exact.numerator // exact.denominator


def _resize(
    x: Any, *, roi: Any = None, scales: Any = None, sizes: Any = None, mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel", nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    antialias: int = 0, axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Any:  # fmt: skip
    if mode not in ("nearest", "linear", "cubic"):
        raise _refuse(f"the mode {mode!r} is none of nearest, linear, cubic")
    dims = list(range(x.ndim)) if axes is None else [axis_of(d, x.ndim) for d in axes]
    given = scales if scales is not None and len(scales) else sizes
    if given is None or len(given) != len(dims):
        raise _refuse(f"{len(dims)} scales or sizes must be given for the dims {dims}")
    by_scale = given is scales
    plan = []
    kept = _kept_aspect(x, dims, sizes, keep_aspect_ratio_policy) if not by_scale else None
    for i, (d, value) in enumerate(zip(dims, given, strict=True)):
        part = None if roi is None or not len(roi) else (roi[i], roi[i + len(dims)])
        scale = float(value) if by_scale else None
        if by_scale and not (isinstance(value, int | float) and 0 < value < 1e9):
            raise _refuse(f"the scale {value} is no number above 0")
        size = x.shape[d]
        cut = coordinate_transformation_mode == "tf_crop_and_resize" and part is not None
        if by_scale:
            assert scale is not None
            length = size * (part[1] - part[0]) if cut and part is not None else size
            count = math.floor(length * scale) if cut else _scale_size(size, scale)
        else:
            count, scale = (value, None) if kept is None else (kept[1][i], kept[0])
        plan.append((d, count, scale, part))
    for d, count, scale, part in plan:
        same = type(count) is int and type(x.shape[d]) is int and count == x.shape[d]
        plain = same and (scale is None or scale == 1)
        if plain and coordinate_transformation_mode != "tf_crop_and_resize":
            continue
        x = _along(
            x, d, count, scale, mode=mode, how=coordinate_transformation_mode,
            nearest=nearest_mode, a=cubic_coeff_a, outside=bool(exclude_outside),
            antialias=bool(antialias), roi=part, fill=extrapolation_value,
        )  # fmt: skip
    return x


def _kept_aspect(x: Any, dims: Sequence[int], sizes: Any, policy: str) -> Any:
    """The scale of all dims and their sizes where the aspect is kept; None where it is not."""
    if policy == "stretch":
        return None
    if policy not in ("not_larger", "not_smaller"):
        raise _refuse(f"keep_aspect_ratio_policy is {policy!r}, which is not known")
    own = [x.shape[d] for d in dims]
    if not all(type(n) is int for n in (*own, *sizes)):
        raise _refuse("the aspect of unknown sizes is not kept")
    scale = (min if policy == "not_larger" else max)(m / n for n, m in zip(own, sizes, strict=True))
    return scale, [math.floor(scale * n + 0.5) for n in own]


def _upsample(x: Any, *, scales: Any, mode: str = "nearest") -> Any:
    return _resize(
        x, scales=scales, mode=mode, coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )  # fmt: skip


RESIZING: Mapping[str, Row] = {
    "Resize": row(_resize, static="roi scales sizes", since=11),
    "Resize before 11": row(_upsample, static="scales"),
    "Upsample": row(_upsample, static="scales", since=7),
}
"""Rows by operator."""
