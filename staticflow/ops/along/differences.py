"""Derivatives of functions of which values on a grid are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.dtypes import float32
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.declaring.promote import is_number

__all__ = ["gradient"]


def gradient(
    input: Any,
    *,
    spacing: Any = 1,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Any, ...]:
    """The partial derivatives of a function whose values on a grid are ``input``, along each
    ``dim`` (all of them unless given): central differences of second order, and at the edges those
    of ``edge_order`` 1 or 2 (Fornberg 1988, "Generation of finite difference formulas on
    arbitrarily spaced grids").

    ``spacing`` is the distance of two points, a number or one for each dim (1 if None), or the
    coordinates of the points, a vector for each dim. Raises `ShapeError` where a dim has not
    ``edge_order + 1`` points.

    >>> import staticflow as sf
    >>> sf.gradient(sf.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    if edge_order not in (1, 2):
        raise ArgumentError(
            f"gradient: the edge_order is {edge_order!r}; it must be 1 or 2, "
            f"at {format_locs(here())}"
        )
    named = range(input.ndim) if dim is None else dim if isinstance(dim, Sequence) else (dim,)
    dims = [normalize_dim(d, input.ndim, "gradient") for d in named]
    if len(set(dims)) < len(dims):
        raise ArgumentError(
            f"gradient: dim={dim!r} names a dim twice; it must name each once, "
            f"at {format_locs(here())}"
        )
    spacing = 1 if spacing is None else spacing
    several = isinstance(spacing, Sequence)
    spacings = list(spacing) if several else [spacing] * len(dims)
    alone = is_number(spacing) or getattr(spacing, "ndim", None) == 0
    if len(spacings) != len(dims) or (not several and not alone):
        raise ArgumentError(
            f"gradient: spacing is a number, or one number or vector for each of {len(dims)} "
            f"dims, not {spacing!r}, at {format_locs(here())}"
        )
    return tuple(
        _along(input, d, _steps(s, input, d), edge_order)
        for d, s in zip(dims, spacings, strict=True)
    )


def _steps(spacing: Any, x: Any, dim: int) -> Any:
    """The distances of neighbouring points along ``dim``: a number, or a tensor that broadcasts."""
    n = x.shape[dim]
    if is_number(spacing) or spacing.ndim == 0:
        return spacing
    if spacing.ndim != 1 or (
        isinstance(n, int) and isinstance(spacing.shape[0], int) and spacing.shape[0] != n
    ):
        raise ShapeError(
            f"gradient: the coordinates along dim {dim} have the shape {list(spacing.shape)}; "
            f"there must be {n}, at {format_locs(here())}"
        )
    steps = narrow(spacing, 0, 1, n - 1) - narrow(spacing, 0, 0, n - 1)
    return reshape(steps, (n - 1, *(1,) * (x.ndim - 1 - dim)))


def _along(x: Any, dim: int, steps: Any, edge_order: int) -> Any:
    n = x.shape[dim]
    if isinstance(n, int) and n <= edge_order:
        raise ShapeError(
            f"gradient: dim {dim} of shape {list(x.shape)} has {n} points; edge_order="
            f"{edge_order} takes {edge_order + 1} or more, at {format_locs(here())}"
        )
    x = x if x.dtype.is_floating else cast(x, dtype=float32)

    def part(of: Any, first: Any, count: Any) -> Any:
        """Slopes or steps from ``first`` on, counted from the end if negative."""
        if is_number(of) or of.ndim == 0:
            return of
        axis = dim if of.ndim == x.ndim else 0
        return narrow(of, axis, first if first >= 0 else n - 1 + first, count)

    slopes = (narrow(x, dim, 1, n - 1) - narrow(x, dim, 0, n - 1)) / steps
    before, after = part(steps, 0, n - 2), part(steps, 1, n - 2)
    inner = (part(slopes, 0, n - 2) * after + part(slopes, 1, n - 2) * before) / (before + after)
    ends = []
    for edge, beside in ((0, 1), (-1, -2)):
        slope = part(slopes, edge, 1)
        if edge_order == 2:  # the slope of the parabola through three points
            own, other = part(steps, edge, 1), part(steps, beside, 1)
            slope = slope + (slope - part(slopes, beside, 1)) * own / (own + other)
        ends.append(slope)
    return cat([ends[0], inner, ends[1]], dim)
