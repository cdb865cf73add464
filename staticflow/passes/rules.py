"""The rewrite rules, in named sets. Each is given with the identity that it stands on.

A rule makes code better or simpler, never the other way round, so that applying them ends.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from staticflow.graph.dims import prod, same, same_shape
from staticflow.graph.node import constant
from staticflow.ops.along.collectives import shard_op
from staticflow.ops.along.extremes import supremum_op
from staticflow.ops.basics.arithmetic import (
    add,
    cast,
    eq,
    keep_history,
    minimum,
    mul,
    neg,
    stop_gradient,
    sub,
    where,
)
from staticflow.ops.basics.axes import (
    permute,
    permute_op,
    reverse_dims,
    swap,
    t_op,
    transpose_op,
)
from staticflow.ops.basics.creation import full, zeros_like
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.reduce import sum_op
from staticflow.ops.basics.slicing import embed_op, select_op, slice_op
from staticflow.ops.basics.view import reshape, reshape_op, squeeze_op, unsqueeze_op, with_ones
from staticflow.ops.elementwise.activation import logsigmoid
from staticflow.ops.elementwise.maths import (
    exp,
    isinf,
    log,
    pow,
    reciprocal,
    sigmoid,
    sqrt,
)
from staticflow.ops.indexing.gather_ops import scatter_add_op
from staticflow.ops.indexing.index_ops import index_put_op
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.pattern import Pattern, Rule, attr, rule
from staticflow.ops.symbols.symbol import STATIC, Symbol
from staticflow.passes.algebra import ALGEBRA
from staticflow.passes.inverses import INVERSES
from staticflow.passes.powers import NUMBERS, POWERS, PRODUCTS
from staticflow.passes.reductions import REDUCTIONS, SUMS_OF_PARTS
from staticflow.passes.row_indices import ROW_INDICES
from staticflow.passes.selecting_products import SELECTING

__all__ = ["CANONICAL", "FAST", "PARTS", "REORDER"]


def _compose(inner: tuple[Any, ...], outer: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(inner[d] for d in outer)


def _without(dims: tuple[int, ...], position: int) -> tuple[int, ...]:
    """The permutation of the other dims, where one of them is taken out."""
    rest = (*dims[:position], *dims[position + 1 :])
    return tuple(d - (d > dims[position]) for d in rest)


def _whole(x: Any, start: Any, size: Any, step: Any) -> Any:
    return x if size == x.__sf_shape__ and all(s == 0 for s in start) else None


_FILLED = Pattern(full, (), {"shape": attr("_"), "value": attr("value"), "dtype": attr("dtype")})
_CONSTANT = Pattern(constant, (), {"value": attr("literal"), "type": attr("own")})


def _spread(shape: Any, literal: Any, own: Any) -> Any:
    """A constant of one element in all of ``shape``; None for one of several."""
    return _fill(shape, literal.array.item(), own.dtype) if literal.array.size == 1 else None


def _root(x: Any) -> Any:
    """The square root, infinite at -inf, as the power is."""
    return where(x == -np.inf, np.inf, sqrt(x))


def _fill(shape: Any, value: Any, dtype: Any, _: Any = None) -> Any:
    return STATIC.apply(full, (), {"shape": shape, "value": value, "dtype": dtype})


def _fill_cast(shape: Any, value: Any, before: Any, dtype: Any) -> Any:
    if not dtype.is_floating:
        return None
    with np.errstate(all="ignore"):  # through both dtypes, as the element that the cast reads
        return _fill(shape, float(np.asarray(value, before.numpy).astype(dtype.numpy)), dtype)


def _negate_product(w: Any, zero: Any, c: Any, v: Any) -> Any:
    """What is added where ``c v`` is taken away; None for a factor that has dims, and where ``v``
    is not put among zeros of the size of ``w``."""
    among = zero.node.type == w.node.type and zero.node.op is full and zero.node.attrs["value"] == 0
    return -(c * v) if among and c.ndim == 0 and c.dtype is v.dtype else None


def _put_rows(w: Any, zero: Any, c: Any, v: Any, i: Any, dims: Any) -> Any:
    less = _negate_product(w, zero, c, v)
    return less if less is None else index_put_op(w, less, i, dims=dims, accumulate=True)


def _scatter_rows(w: Any, zero: Any, c: Any, v: Any, i: Any, dim: Any) -> Any:
    less = _negate_product(w, zero, c, v)
    return less if less is None else scatter_add_op(w, i, less, dim=dim)


CANONICAL: tuple[Rule, ...] = (
    # arithmetic with the neutral element; -0.0 is the neutral element of + on floats
    rule("mul_one", "x * 1 = x", lambda x: mul(x, 1), lambda x: x),
    rule("div_one", "x / 1 = x", lambda x: x / 1, lambda x: x),
    rule("sub_zero", "x - 0 = x", lambda x: sub(x, 0), lambda x: x),
    rule("add_minus_zero", "x + -0.0 = x", lambda x: add(x, -0.0), lambda x: x),
    rule(
        "add_zero_integer", "x + 0 = x where there is no -0.0", lambda x: add(x, 0),
        lambda x: None if x.dtype.is_floating else x,
    ),
    rule("neg_neg", "--x = x", lambda x: neg(neg(x)), lambda x: x),
    rule("mul_minus_one", "x * -1 = -x", lambda x: mul(x, -1), lambda x: -x),
    rule("sub_neg", "x - (-y) = x + y", lambda x, y: sub(x, -y), lambda x, y: x + y),
    rule("add_neg", "x + (-y) = x - y", lambda x, y: add(x, -y), lambda x, y: x - y),
    # powers that are cheaper otherwise, and rounded the same or better
    rule("pow_one", "x ** 1 = x", lambda x: pow(x, 1), lambda x: x),
    rule("pow_two", "x ** 2 = x x", lambda x: pow(x, 2), lambda x: x * x),
    rule(
        "pow_minus_one", "x ** -1 = 1 / x", lambda x: pow(x, -1),
        lambda x: reciprocal(x) if x.dtype.is_floating else None,
    ),
    rule(
        "pow_half", "x ** 0.5 = sqrt(x + 0.0), but at -inf", lambda x: pow(x, 0.5),
        lambda x: _root(x + 0.0),  # 0.0 of -0.0, as the power gives
    ),
    # selection
    rule("where_same", "c ? x : x = x", lambda c, x: where(c, x, x), lambda c, x: x),
    rule("stop_gradient", "it only stops gradients", lambda x: stop_gradient(x), lambda x: x),
    rule(
        "shard", "it only says what a mesh splits", lambda x: shard_op(x, spec=attr("spec")),
        lambda x, spec: x,
    ),
    rule(
        "keep_history", "it only says where gradients go", lambda x, y: keep_history(x, y),
        lambda x, y: y,
    ),
    rule(
        "cast_same", "a cast to the own dtype", lambda x: cast(x, dtype=attr("dtype")),
        lambda x, dtype: x if x.dtype is dtype else None,
    ),
    # views that are said as one of a few
    rule(
        "squeeze_reshape", "dims of size 1 left out are another shape",
        lambda x: squeeze_op(x, dims=attr("dims")),
        lambda x, dims: reshape(x, tuple(d for i, d in enumerate(x.shape) if i not in dims)),
    ),
    rule(
        "unsqueeze_reshape", "dims of size 1 put in are another shape",
        lambda x: unsqueeze_op(x, dims=attr("dims")),
        lambda x, dims: reshape(x, with_ones(x.shape, dims, 1)),
    ),
    rule(
        "transpose_permute", "an exchange of two dims is a permutation",
        lambda x: transpose_op(x, dim0=attr("a"), dim1=attr("b")),
        lambda x, a, b: permute(x, swap(range(x.ndim), a, b)),
    ),
    rule("t_permute", "x.T reverses the dims", lambda x: t_op(x), lambda x: reverse_dims(x)),
    # views of views
    rule(
        "reshape_reshape", "only the last shape counts",
        lambda x: reshape_op(reshape_op(x, shape=attr("_")), shape=attr("shape")),
        lambda x, _, shape: reshape(x, shape),
    ),
    rule(
        "reshape_same", "a reshape to the own shape", lambda x: reshape_op(x, shape=attr("shape")),
        lambda x, shape: x if x.__sf_shape__ == shape else None,
    ),
    rule(
        "permute_permute", "permutations compose",
        lambda x: permute_op(permute_op(x, dims=attr("inner")), dims=attr("outer")),
        lambda x, inner, outer: permute(x, _compose(inner, outer)),
    ),
    rule(
        "select_permute", "a row is taken before the other dims change places",
        lambda x: select_op(permute_op(x, dims=attr("dims")), dim=attr("dim"), index=attr("index")),
        lambda x, dims, dim, index: permute(
            select_op(x, dim=dims[dim], index=index), _without(dims, dim)
        ),
    ),
    rule(
        "permute_embed", "a part changes the order of its dims before it is put among zeros",
        lambda x: permute_op(
            embed_op(x, shape=attr("shape"), start=attr("start"), step=attr("step")),
            dims=attr("dims"),
        ),
        lambda x, dims, **where: embed_op(
            permute(x, dims), **{name: _compose(of, dims) for name, of in where.items()}
        ),
    ),
    rule(
        "permute_same", "the identity permutation", lambda x: permute_op(x, dims=attr("dims")),
        lambda x, dims: x if dims == tuple(range(x.ndim)) else None,
    ),
    rule(
        "expand_same", "nothing to stretch", lambda x: expand_op(x, shape=attr("shape")),
        lambda x, shape: x if x.__sf_shape__ == shape else None,
    ),
    rule(
        "slice_whole", "a slice of everything",
        lambda x: slice_op(x, start=attr("start"), size=attr("size"), step=attr("step")), _whole,
    ),
    rule(
        "select_of_one", "the only row is the tensor without that dim",
        lambda x: select_op(x, dim=attr("dim"), index=0),
        lambda x, dim: (
            squeeze_op(x, dims=(dim,)) if same(x.__sf_shape__[dim], 1) else None
        ),
    ),
    rule(
        "embed_same", "a part that is all of the tensor",
        lambda x: embed_op(x, shape=attr("shape"), start=attr("start"), step=attr("step")),
        lambda x, shape, start, step: x if same_shape(x.__sf_shape__, shape) else None,
    ),
    # a filled tensor stays one under views, and a 0-d one is a constant
    rule(
        "full_scalar", "one number",
        lambda: Pattern(full, (), {"shape": (), "value": attr("value"), "dtype": attr("dtype")}),
        lambda value, dtype: Symbol(constant_node(value, dtype)),
    ),
    rule(
        "reshape_full", "the same number everywhere",
        lambda: reshape_op(_FILLED, shape=attr("shape")), lambda **a: _fill(**a),
    ),
    rule(
        "expand_full", "the same number everywhere",
        lambda: expand_op(_FILLED, shape=attr("shape")), lambda **a: _fill(**a),
    ),
    rule(
        "reshape_constant", "the same number everywhere",
        lambda: reshape_op(_CONSTANT, shape=attr("shape")), lambda **a: _spread(**a),
    ),
    rule(
        "expand_constant", "the same number everywhere",
        lambda: expand_op(_CONSTANT, shape=attr("shape")), lambda **a: _spread(**a),
    ),
    rule(
        "cast_full", "the number in the other dtype",
        lambda: cast(
            Pattern(
                full, (), {"shape": attr("shape"), "value": attr("value"), "dtype": attr("before")}
            ),
            dtype=attr("dtype"),
        ),
        lambda **a: _fill_cast(**a),
    ),
    rule(
        "sum_of_one", "a sum over dims of size 1 only drops them",
        lambda x: sum_op(x, dims=attr("dims"), keepdim=attr("keepdim")),
        lambda x, dims, keepdim: _drop(x, dims, keepdim),
    ),
    *ALGEBRA,
    *ROW_INDICES,
    *NUMBERS,
    *REDUCTIONS,
    *INVERSES,
)  # fmt: skip
"""Rules that keep every IEEE result."""


def _drop(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    if prod(x.__sf_shape__[d] for d in dims) != 1:
        return None
    if keepdim:
        return x
    return reshape(x, tuple(s for i, s in enumerate(x.shape) if i not in dims))


def _peak_of(x: Any, dims: Any) -> Any:
    return supremum_op(x, dims=dims, keepdim=True)


def _peak(x: Any) -> Any:
    return _peak_of(x, attr("dims"))


def _finite(m: Any) -> Any:
    return where(isinf(m), 0.0, m)


def _finite_peak(x: Any) -> Any:
    return _finite(_peak(x))


def _sum_rows(e: Any) -> Any:
    return sum_op(e, dims=attr("dims"), keepdim=True)


def _over_sum(e: Any, dims: tuple[int, ...]) -> Any:
    return e * reciprocal(sum_op(e, dims=dims, keepdim=True))


def _share_of_sum(x: Any, dims: tuple[int, ...]) -> Any:
    """The exponential of ``x`` over the sum of all. Beside an infinite element, of which it is NaN,
    it is nothing; there another one may overflow, and infinity times nothing is no number."""
    e = exp(x - _finite(_peak_of(x, dims)))
    capped = where(eq(x, math.inf), math.nan, minimum(e, 1.0))
    return capped * reciprocal(sum_op(e, dims=dims, keepdim=True))


PARTS: tuple[Rule, ...] = (
    # an exponential that was summed is divided by the sum, not computed again from a logarithm
    # whose rounding the exponential magnifies
    rule(
        "exp_of_logsumexp", "exp(x - (log s + m)) = exp(x - m) / s, s = sum exp(x - m), m = max x",
        lambda x: exp(x - (log(_sum_rows(exp(x - _finite_peak(x)))) + _finite_peak(x))),
        _share_of_sum,
    ),
    rule(
        "exp_of_log_softmax", "exp(x - m - log s) = exp(x - m) / s, s = sum exp(x - m), m = max x",
        lambda x: exp(x - _peak(x) - log(_sum_rows(exp(x - _peak(x))))),
        lambda x, dims: _over_sum(exp(x - _peak_of(x, dims)), dims),
    ),
    # what is right to differentiate takes two functions more to compute
    rule(
        "exp_of_logsigmoid", "exp log sigmoid(x) = sigmoid(x)",
        lambda x: exp(logsigmoid(x)), lambda x: sigmoid(x),
    ),
)  # fmt: skip

FAST: tuple[Rule, ...] = (
    # wrong only for signed zeros, infinities, NaN or in the last bits
    rule("add_zero", "x + 0 = x", lambda x: add(x, 0.0), lambda x: x),
    rule("mul_zero", "x * 0 = 0", lambda x: mul(x, 0.0), lambda x: zeros_like(x)),
    rule("finite_root", "x ** 0.5 = sqrt(x)", lambda x: _root(x), lambda x: sqrt(x)),
    rule("square_of_sqrt", "sqrt(x) ** 2 = x", lambda x: mul(sqrt(x), sqrt(x)), lambda x: x),
    *POWERS,
    *SELECTING,
)
"""Rules for fast numerics."""

REORDER: tuple[Rule, ...] = (
    *SUMS_OF_PARTS,
    *PRODUCTS,
    # the step of an embedding, which touches few rows: also where c is infinite or NaN the others
    # stay, as in PyTorch with a sparse gradient
    rule(
        "put_rows", "w - c s = w with -c v added at i, where s is v at i and 0 elsewhere",
        lambda w, zero, c, v, i: sub(
            w, mul(c, index_put_op(zero, v, i, dims=attr("dims"), accumulate=True))
        ),
        _put_rows,
    ),
    rule(
        "scatter_rows", "w - c s = w with -c v added at i, where s is v at i and 0 elsewhere",
        lambda w, zero, c, v, i: sub(
            w, mul(c, scatter_add_op(zero, i, v, dim=attr("dim")))
        ),
        _scatter_rows,
    ),
)  # fmt: skip
"""Rules that put products and sums into another order."""
