"""Rules of parts: what is cut, joined, turned or put among zeros, and undone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.graph.dims import is_provably_ge, same, same_shape
from staticflow.ops.basics.axes import flip_op, permute_op
from staticflow.ops.basics.joining import cat_op, stack_op
from staticflow.ops.basics.slicing import embed_op, select_op, slice_op, slice_scatter_op
from staticflow.ops.indexing.roll_repeat import roll_op
from staticflow.ops.matrices.triangle import diag_embed_op, diagonal_op
from staticflow.ops.symbols.pattern import Many, Pattern, Rule, attr, rule
from staticflow.ops.symbols.symbol import Symbol
from staticflow.ops.windows.border import border_op

__all__ = ["INVERSES"]


def _slice(x: Any) -> Any:
    return slice_op(x, start=attr("start"), size=attr("size"), step=attr("step"))


def _flip_flip(x: Any, a: tuple[int, ...], b: tuple[int, ...]) -> Any:
    dims = tuple(sorted({*a} ^ {*b}))
    return flip_op(x, dims=dims) if dims else x


def _slice_flip(x: Any, turned: tuple[int, ...], start: Any, size: Any, step: Any) -> Any:
    """The part of a turned tensor, taken before it is turned."""
    if not all(is_provably_ge(size[d], 1) for d in turned):
        return None
    begin = [*start]
    for d in turned:
        begin[d] = x.__sf_shape__[d] - 1 - (start[d] + (size[d] - 1) * step[d])
    if not all(is_provably_ge(begin[d], 0) for d in turned):
        return None
    return flip_op(slice_op(x, start=tuple(begin), size=size, step=step), dims=turned)


def _select_flip(x: Any, turned: tuple[int, ...], dim: int, index: Any) -> Any:
    if dim in turned:
        index = x.__sf_shape__[dim] - 1 - index
        if not is_provably_ge(index, 0):
            return None
    rest = tuple(d - (d > dim) for d in turned if d != dim)
    row = select_op(x, dim=dim, index=index)
    return flip_op(row, dims=rest) if rest else row


def _slice_border(
    x: Any, before: Any, after: Any, mode: str, start: Any, size: Any, step: Any
) -> Any:
    """The part of a tensor with a border that has none of the border."""
    begin, lead = [*start], x.ndim - len(before)
    for d, own in enumerate(before, lead):
        begin[d] = start[d] - own
        end = begin[d] + (size[d] - 1) * step[d] + 1
        inside = is_provably_ge(begin[d], 0) and is_provably_ge(x.__sf_shape__[d], end)
        if not inside or not is_provably_ge(size[d], 1):
            return None
    return slice_op(x, start=tuple(begin), size=size, step=step)


def _slice_slice(x: Any, a: Any, size: Any, by: Any, b: Any, own: Any, step: Any) -> Any:
    steps = tuple(p * q for p, q in zip(by, step, strict=True))
    start = _start_of_both(a, b, by, own, steps, x.__sf_shape__)
    return None if start is None else slice_op(x, start=start, size=own, step=steps)


def _start_of_both(
    outer: Any, inner: Any, by: Any, sizes: Any, steps: Any, whole: Any
) -> tuple[Any, ...] | None:
    """Where in ``whole`` the part begins that begins at ``inner`` in steps of ``by`` from ``outer``
    on; None where it may be empty and that place outside, as of ``x[::3][1:]`` of two elements."""
    found = []
    for a, b, s, n, step, size in zip(outer, inner, by, sizes, steps, whole, strict=True):
        start: Any = a + b * s if n != 0 else 0
        end = start + (n - 1) * step + 1
        within = is_provably_ge(size, start) and is_provably_ge(size, end)
        if n != 0 and s != 1 and not is_provably_ge(n, 1) and not within:
            return None
        found.append(start)
    return tuple(found)


def _slice_cat(xs: Sequence[Any], dim: int, start: Any, size: Any, step: Any) -> Any:
    """The part of a joined tensor that lies within one of what was joined."""
    at: Any = 0
    end = start[dim] + (size[dim] - 1) * step[dim] + 1
    for x in xs:
        behind = at + x.__sf_shape__[dim]
        if is_provably_ge(start[dim], at) and is_provably_ge(behind, end):
            if not is_provably_ge(size[dim], 1):
                return None
            begin = tuple(s - at if d == dim else s for d, s in enumerate(start))
            return slice_op(x, start=begin, size=size, step=step)
        at = behind
    return None


def _slice_embed(x: Any, shape: Any, a: Any, by: Any, b: Any, size: Any, step: Any) -> Any:
    fits = same_shape(a, b) and same_shape(size, x.__sf_shape__)
    return (
        x
        if fits and all(p == q or s == 1 for p, q, s in zip(by, step, size, strict=True))
        else None
    )


def _cat_parts(xs: Sequence[Any], dim: int) -> Any:
    """Slices of one tensor, each of which begins where the one before ends, are one slice."""
    nodes = [x.node for x in xs]
    if len(xs) < 2 or any(n.op is not slice_op or n.args[0] is not nodes[0].args[0] for n in nodes):
        return None
    first, at = nodes[0].attrs, nodes[0].attrs["start"][dim]
    for n in nodes:
        others = all(
            same(n.attrs[key][d], first[key][d])
            for key in ("start", "size") for d in range(len(first["start"])) if d != dim
        )  # fmt: skip
        if not others or n.attrs["step"] != (1,) * len(n.attrs["step"]):
            return None
        if not same(n.attrs["start"][dim], at):
            return None
        at = at + n.attrs["size"][dim]
    size = tuple(at - first["start"][dim] if d == dim else s for d, s in enumerate(first["size"]))
    source = Symbol(nodes[0].args[0])
    return slice_op(source, start=first["start"], size=size, step=(1,) * source.ndim)


def _cat_cat(xs: Sequence[Any], dim: int) -> Any:
    """What is joined along the dim is joined at once."""
    found: list[Any] = []
    for x in xs:
        inner = x.node.op is cat_op and x.node.attrs["dim"] == dim
        found += _args(x) if inner else [x]
    if len(found) == 1:
        return found[0]
    return cat_op(*found, dim=dim) if len(found) > len(xs) else None


def _embed_embed(x: Any, a: Any, by: Any, shape: Any, b: Any, step: Any, inner: Any) -> Any:
    steps = tuple(p * q for p, q in zip(by, step, strict=True))
    start = _start_of_both(b, a, step, x.__sf_shape__, steps, shape)
    return None if start is None else embed_op(x, shape=shape, start=start, step=steps)


def _select_cat(xs: Sequence[Any], joined: int, dim: int, index: Any) -> Any:
    """A row of a joined tensor is one of the tensor that it lies in."""
    if joined != dim:
        return None
    at: Any = 0
    for x in xs:
        behind = at + x.__sf_shape__[dim]
        if is_provably_ge(index, at) and is_provably_ge(behind, index + 1):
            return select_op(x, dim=dim, index=index - at)
        at = behind
    return None


def _stack_selects(xs: Sequence[Any], dim: int) -> Any:
    """The rows of one tensor, stacked one after the other, are a part of it."""
    first = xs[0].node
    if len(xs) < 2 or first.op is not select_op:
        return None
    start, along = first.attrs["index"], first.attrs["dim"]
    for i, x in enumerate(xs):
        n = x.node
        if n.op is not select_op or n.args[0] is not first.args[0] or n.attrs["dim"] != along:
            return None
        if not same(n.attrs["index"], start + i):
            return None
    source = Symbol(first.args[0])
    shape = source.__sf_shape__
    rows = slice_op(
        source,
        start=tuple(start if d == along else 0 for d in range(source.ndim)),
        size=tuple(len(xs) if d == along else n for d, n in enumerate(shape)),
        step=(1,) * source.ndim,
    )
    order = [d for d in range(source.ndim) if d != along]
    order.insert(dim, along)
    return permute_op(rows, dims=tuple(order))


def _slice_scatter(x: Any, y: Any, a: Any, by: Any, b: Any, size: Any, step: Any) -> Any:
    fits = same_shape(a, b) and same_shape(size, y.__sf_shape__) and by == step
    return y if fits else None


def _args(x: Any) -> list[Any]:
    return [Symbol(a) for a in x.node.args]


def _join_of(op: Any, dim: str) -> Pattern:
    return Pattern(op, (Many("xs"),), {"dim": attr(dim)})


INVERSES: tuple[Rule, ...] = (
    rule(
        "flip_flip", "what is turned twice stands as it stood",
        lambda x: flip_op(flip_op(x, dims=attr("a")), dims=attr("b")),
        lambda x, a, b: _flip_flip(x, a, b),
    ),
    rule(
        "slice_flip", "a part is taken before it is turned",
        lambda x: _slice(flip_op(x, dims=attr("turned"))), lambda x, **of: _slice_flip(x, **of),
    ),
    rule(
        "select_flip", "a row is taken before the rest is turned",
        lambda x: select_op(
            flip_op(x, dims=attr("turned")), dim=attr("dim"), index=attr("index")
        ),
        lambda x, **of: _select_flip(x, **of),
    ),
    rule(
        "slice_border", "what is within a border has none of it",
        lambda x: _slice(
            border_op(x, before=attr("before"), after=attr("after"), mode=attr("mode"))
        ),
        lambda x, **of: _slice_border(x, **of),
    ),
    rule(
        "diagonal_of_diag", "the diagonal of what was put on the diagonal",
        lambda x: diagonal_op(
            diag_embed_op(
                x, shape=attr("shape"), offset=attr("offset"), dim1=attr("a"), dim2=attr("b")
            ),
            offset=attr("offset"), dim1=attr("a"), dim2=attr("b"),
        ),
        lambda x, **of: x,
    ),
    rule(
        "slice_slice", "a part of a part is a part",
        lambda x: slice_op(
            slice_op(x, start=attr("a"), size=attr("size"), step=attr("by")),
            start=attr("b"), size=attr("own"), step=attr("step"),
        ),
        lambda x, **of: _slice_slice(x, **of),
    ),
    rule(
        "slice_cat", "a part of one of those that were joined",
        lambda: _slice(_join_of(cat_op, "dim")), lambda **of: _slice_cat(**of),
    ),
    rule(
        "select_stack", "one of those that were stacked",
        lambda: select_op(_join_of(stack_op, "at"), dim=attr("dim"), index=attr("index")),
        lambda xs, at, dim, index: (
            xs[index] if at == dim and isinstance(index, int) and index < len(xs) else None
        ),
    ),
    rule(
        "slice_embed", "what was put among zeros is taken out again",
        lambda x: slice_op(
            embed_op(x, shape=attr("shape"), start=attr("a"), step=attr("by")),
            start=attr("b"), size=attr("size"), step=attr("step"),
        ),
        lambda x, **of: _slice_embed(x, **of),
    ),
    rule(
        "embed_embed", "zeros around zeros are zeros around",
        lambda x: embed_op(
            embed_op(x, shape=attr("inner"), start=attr("a"), step=attr("by")),
            shape=attr("shape"), start=attr("b"), step=attr("step"),
        ),
        lambda x, **of: _embed_embed(x, **of),
    ),
    rule(
        "slice_scattered", "what was put into another tensor is taken out again",
        lambda x, y: slice_op(
            slice_scatter_op(x, y, start=attr("a"), step=attr("by")),
            start=attr("b"), size=attr("size"), step=attr("step"),
        ),
        lambda x, y, **of: _slice_scatter(x, y, **of),
    ),
    rule(
        "select_cat", "a row of one of those that were joined",
        lambda: select_op(_join_of(cat_op, "joined"), dim=attr("dim"), index=attr("index")),
        lambda xs, **of: _select_cat(xs, **of),
    ),
    rule(
        "stack_selects", "the rows of a tensor, one after the other, are a part of it",
        lambda: _join_of(stack_op, "dim"), lambda xs, dim: _stack_selects(xs, dim),
    ),
    rule(
        "roll_roll", "moved on by a, then by b, is moved on by a + b",
        lambda x: roll_op(
            roll_op(x, shift=attr("a"), dim=attr("dim")), shift=attr("b"), dim=attr("dim")
        ),
        lambda x, a, b, dim: roll_op(x, shift=a + b, dim=dim),
    ),
    rule(
        "roll_none", "moved on by nothing",
        lambda x: roll_op(x, shift=attr("shift"), dim=attr("dim")),
        lambda x, shift, dim: x if same(shift, 0) else None,
    ),
    rule(
        "cat_parts", "the parts of a tensor, one behind the other, are a part of it",
        lambda: _join_of(cat_op, "dim"), lambda xs, dim: _cat_parts(xs, dim),
    ),
    rule(
        "cat_cat", "(a, b), c joined are a, b, c joined",
        lambda: _join_of(cat_op, "dim"), lambda xs, dim: _cat_cat(xs, dim),
    ),
)  # fmt: skip
"""Rules that keep every bit."""
