"""Rules of reductions: of a reduction, of what is stretched, filled, joined or put among zeros."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from staticflow.graph.dims import Size, is_provably_ge, prod, same
from staticflow.graph.op import Op
from staticflow.ops.along.cumulative import cumsum_op
from staticflow.ops.along.extremes import amax_op, amin_op
from staticflow.ops.along.multiplication import prod_op
from staticflow.ops.basics.arithmetic import logical_and, logical_or, maximum, minimum, mul
from staticflow.ops.basics.axes import flip_op
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.joining import cat_op, stack_op
from staticflow.ops.basics.reduce import (
    all_op,
    any_op,
    mean_op,
    narrow_as,
    reduced_shape,
    sum_op,
    widen,
)
from staticflow.ops.basics.slicing import embed_op, select_op
from staticflow.ops.basics.view import reshape
from staticflow.ops.statistics.moments import vector_norm_op
from staticflow.ops.symbols.pattern import Many, Pattern, Rule, attr, rule
from staticflow.ops.symbols.symbol import STATIC
from staticflow.passes.powers import number_in

__all__ = ["REDUCTIONS", "SUMS_OF_PARTS"]

_MOST_PARTS = 4
"""Joined tensors that are reduced one by one, each by a kernel of its own."""

Dims = tuple[int, ...]


def _same_dims(x: Any, a: Dims, b: Dims, keepdim: bool) -> Dims:
    """The dims of ``x`` that two reductions one after the other take away."""
    if keepdim:
        return tuple(sorted({*a, *b}))
    left = [d for d in range(x.ndim) if d not in a]
    return tuple(sorted({*a, *(left[d] for d in b)}))


def _merge_extremes(op: Op) -> Any:
    """The replacement for an extreme of extremes; of unknown sizes it would assume what was not
    said, that their product is not 0."""

    def replace(x: Any, a: Dims, b: Dims, keepdim: bool) -> Any:
        dims = _same_dims(x, a, b, keepdim)
        known = all(isinstance(x.__sf_shape__[d], int) for d in dims)
        return op(x, dims=dims, keepdim=keepdim) if known else None

    return replace


def _twice(op: Op) -> Rule:
    return rule(
        f"{op.name}_{op.name}",
        f"{op.name} over some dims, then over others, is {op.name} over all of them",
        lambda x: op(
            op(x, dims=attr("a"), keepdim=attr("keepdim")), dims=attr("b"), keepdim=attr("keepdim")
        ),
        _merge_extremes(op) if op in (amax_op, amin_op) else
        lambda x, a, b, keepdim: (
            None if op is mean_op and not x.dtype.is_floating  # each is rounded to a whole number
            else op(x, dims=_same_dims(x, a, b, keepdim), keepdim=keepdim)
        ),
    )  # fmt: skip


# -- of what is stretched ------------------------------------------------------------------------


def _split_dims(x: Any, shape: Sequence[Size], dims: Dims) -> tuple[Dims, Any]:
    """The reduced ``dims`` of ``x`` stretched to ``shape`` along which all elements are one, and
    ``x`` with a dim of size 1 for each that it lacks."""
    whole = reshape(x, ((1,) * (len(shape) - x.ndim) + tuple(x.__sf_shape__)))
    own = whole.__sf_shape__
    return tuple(d for d in dims if same(own[d], 1) and not same(shape[d], 1)), whole


def _of_expand(op: Op, finish: Callable[[Any, Size], Any]) -> Callable[..., Any]:
    """The replacement for ``op`` of an expanded tensor: ``op`` of that, and ``finish`` with how
    often each element is met. Of nothing there is no element to meet."""

    def replace(x: Any, shape: Any, dims: Dims, keepdim: bool) -> Any:
        again, whole = _split_dims(x, shape, dims)
        if not again or not all(is_provably_ge(shape[d], 1) for d in again):
            return None
        rest = tuple(d for d in dims if d not in again)
        part = op(whole, dims=rest, keepdim=True) if rest else whole
        out = finish(part, prod(shape[d] for d in again))
        kept = [*shape]
        for d in dims:
            kept[d] = 1
        if any(not same(a, b) for a, b in zip(out.__sf_shape__, kept, strict=True)):
            out = expand_op(out, shape=tuple(kept))
        return out if keepdim else reshape(out, reduced_shape(shape, dims, False))

    return replace


def _multiply(x: Any, count: Size) -> Any:
    """``x`` so many times, in the dtype in which it would have been summed."""
    return narrow_as(widen(x) * count, x)


def _reduction(op: Op, inner: Any) -> Any:
    return op(inner, dims=attr("dims"), keepdim=attr("keepdim"))


def _expansion(x: Any) -> Any:
    return expand_op(x, shape=attr("shape"))


# -- of what is joined ---------------------------------------------------------------------------


def _of_cat(op: Op, combine: Any, some: bool) -> Callable[..., Any]:
    """The replacement for ``op`` of joined tensors: of each, and those combined or joined.
    ``some``: of none there is no ``op``."""

    def replace(xs: Sequence[Any], dim: int, dims: Dims, keepdim: bool) -> Any:
        if not _few(xs) or not dims:
            return None
        if dim in dims:
            if some and not all(is_provably_ge(x.__sf_shape__[dim], 1) for x in xs):
                return None
            return reduce(combine, (op(x, dims=dims, keepdim=keepdim) for x in xs))
        at = dim if keepdim else dim - sum(d < dim for d in dims)
        return cat_op(*(op(x, dims=dims, keepdim=keepdim) for x in xs), dim=at)

    return replace


def _few(xs: Sequence[Any]) -> bool:
    return len(xs) <= _MOST_PARTS


def _any_cat() -> Pattern:
    return Pattern(cat_op, (Many("xs"),), {"dim": attr("dim")})


def _of_parts(op: Op, combine: Any, some: bool = False) -> Rule:
    return rule(
        f"{op.name}_cat", f"{op.name} of joined tensors is made of that of each",
        lambda: _reduction(op, _any_cat()), _of_cat(op, combine, some),
    )  # fmt: skip


def _of_stack(op: Op, combine: Any) -> Callable[..., Any]:
    """The replacement for ``op`` of stacked tensors: of each, and those combined or stacked."""

    def replace(xs: Sequence[Any], dim: int, dims: Dims, keepdim: bool) -> Any:
        if not _few(xs) or not dims:
            return None
        own = tuple(d - (d > dim) for d in dims if d != dim)
        parts = [op(x, dims=own, keepdim=keepdim) if own else x for x in xs]
        if dim not in dims:
            return stack_op(*parts, dim=dim if keepdim else dim - sum(d < dim for d in dims))
        out = reduce(combine, parts)
        shape = [*out.__sf_shape__]
        return reshape(out, (*shape[:dim], 1, *shape[dim:])) if keepdim else out

    return replace


def _any_stack() -> Pattern:
    return Pattern(stack_op, (Many("xs"),), {"dim": attr("dim")})


def _of_stacked(op: Op, combine: Any) -> Rule:
    return rule(
        f"{op.name}_stack", f"{op.name} of stacked tensors is made of that of each",
        lambda: _reduction(op, _any_stack()), _of_stack(op, combine),
    )  # fmt: skip


def _extreme_of_expand(op: Op) -> Rule:
    return rule(
        f"{op.name}_expand", f"{op.name} of one thing again and again is {op.name} of it",
        lambda x: _reduction(op, _expansion(x)), _of_expand(op, lambda x, _: x),
    )  # fmt: skip


def _extreme_of_flip(op: Op) -> Rule:
    return rule(
        f"{op.name}_flip", f"{op.name} in another order is {op.name}",
        lambda x: _reduction(op, flip_op(x, dims=attr("turned"))),
        lambda x, turned, dims, keepdim: (
            op(x, dims=dims, keepdim=keepdim) if {*turned} <= {*dims} else None
        ),
    )  # fmt: skip


REDUCTIONS: tuple[Rule, ...] = (
    *map(_twice, (amax_op, amin_op, all_op, any_op)),
    *map(_extreme_of_expand, (amax_op, amin_op, all_op, any_op)),
    *map(_extreme_of_flip, (all_op, any_op)),
    _of_parts(amax_op, maximum, True),
    _of_parts(amin_op, minimum, True),
    _of_parts(all_op, logical_and),
    _of_parts(any_op, logical_or),
    _of_stacked(amax_op, maximum),
    _of_stacked(amin_op, minimum),
    _of_stacked(all_op, logical_and),
    _of_stacked(any_op, logical_or),
)
"""Rules that keep every bit."""


def _sum_of_full(shape: Any, value: Any, dtype: Any, dims: Dims, keepdim: bool) -> Any:
    count = prod(shape[d] for d in dims)
    one = STATIC.apply(
        full, (), {"shape": reduced_shape(shape, dims, keepdim), "value": value, "dtype": dtype}
    )
    return _multiply(one, count) if is_provably_ge(count, 1) else None


def _sum_of_embed(x: Any, shape: Any, start: Any, step: Any, dims: Dims, keepdim: bool) -> Any:
    """The sum of what was put among zeros; dims that are not summed over keep their zeros."""
    total = sum_op(x, dims=dims, keepdim=keepdim)

    def remaining(of: Sequence[Any], instead: Any) -> tuple[Any, ...]:
        return tuple(
            instead if d in dims else v for d, v in enumerate(of) if keepdim or d not in dims
        )

    size = remaining(shape, 1)
    if all(same(a, b) for a, b in zip(size, total.__sf_shape__, strict=True)):
        return total
    return embed_op(total, shape=size, start=remaining(start, 0), step=remaining(step, 1))


def _last_of_cumsum(x: Any, dim: int, reverse: bool, at: int, index: Size) -> Any:
    last = 0 if reverse else x.__sf_shape__[dim] - 1
    return sum_op(x, dims=(dim,), keepdim=False) if at == dim and same(index, last) else None


def _of_scaled(op: Op) -> Rule:
    def replace(x: Any, c: Any, dims: Dims, keepdim: bool) -> Any:
        """A factor that makes no element smaller: the sum is out of range where it would have
        been."""
        number = None if c.ndim else number_in(c)
        fits = x.dtype.is_floating and x.dtype.bits >= 32 and c.dtype is x.dtype
        if not fits or number is None or not 1 <= operator.abs(number) <= 2.0**100:
            return None
        return op(x, dims=dims, keepdim=keepdim) * number

    return rule(
        f"{op.name}_scaled", f"{op.name} c x = c {op.name} x for a number c that is 1 at least",
        lambda x, c: _reduction(op, mul(x, c)), replace,
    )  # fmt: skip


def _joined_mean(joined: Any, dims: Dims, keepdim: bool) -> Any:
    """A mean as the sum of joined tensors, which is made of that of each."""
    count = prod(joined.__sf_shape__[d] for d in dims)
    fits = joined.dtype.is_floating and joined.dtype.bits >= 32
    if not fits or not is_provably_ge(count, 1):
        return None
    return sum_op(joined, dims=dims, keepdim=keepdim) / count


def _norm_squared(x: Any) -> Any:
    norm = vector_norm_op(x, ord=2.0, dims=attr("dims"), keepdim=attr("keepdim"))
    return mul(norm, norm)


SUMS_OF_PARTS: tuple[Rule, ...] = (
    _twice(sum_op),
    rule(
        "square_of_norm", "norm(x) norm(x) = sum x x", _norm_squared,
        lambda x, dims, keepdim: (
            sum_op(x * x, dims=dims, keepdim=keepdim) if x.dtype.bits >= 32 else None
        ),
    ),
    rule(
        "sum_expand", "a sum of one thing again and again is a multiple of it",
        lambda x: _reduction(sum_op, _expansion(x)), _of_expand(sum_op, _multiply),
    ),
    rule(
        "sum_full", "a sum of n times c is n c",
        lambda: _reduction(
            sum_op,
            Pattern(full, (), {name: attr(name) for name in ("shape", "value", "dtype")}),
        ),
        lambda **of: _sum_of_full(**of),
    ),
    _of_parts(sum_op, operator.add),
    _of_stacked(sum_op, operator.add),
    *map(_twice, (prod_op, mean_op)),
    _of_parts(prod_op, operator.mul),
    _of_stacked(prod_op, operator.mul),
    rule(
        "mean_cat", "a mean of joined tensors is their sum over their number",
        lambda: _reduction(mean_op, _any_cat()),
        lambda xs, dim, **of: _joined_mean(cat_op(*xs, dim=dim), **of) if _few(xs) else None,
    ),
    rule(
        "mean_stack", "a mean of stacked tensors is their sum over their number",
        lambda: _reduction(mean_op, _any_stack()),
        lambda xs, dim, **of: _joined_mean(stack_op(*xs, dim=dim), **of) if _few(xs) else None,
    ),
    _of_scaled(mean_op),
    rule(
        "sum_embed", "zeros add nothing",
        lambda x: _reduction(
            sum_op, embed_op(x, shape=attr("shape"), start=attr("start"), step=attr("step"))
        ),
        lambda x, **of: _sum_of_embed(x, **of),
    ),
    rule(
        "sum_flip", "a sum in another order",
        lambda x: _reduction(sum_op, flip_op(x, dims=attr("turned"))),
        lambda x, turned, dims, keepdim: (
            sum_op(x, dims=dims, keepdim=keepdim) if {*turned} <= {*dims} else None
        ),
    ),
    _of_scaled(sum_op),
    rule(
        "last_of_cumsum", "the last of the running sums is the sum",
        lambda x: select_op(
            cumsum_op(x, dim=attr("dim"), reverse=attr("reverse")),
            dim=attr("at"), index=attr("index"),
        ),
        lambda x, **of: _last_of_cumsum(x, **of),
    ),
)  # fmt: skip
"""Rules that put sums into another order."""
