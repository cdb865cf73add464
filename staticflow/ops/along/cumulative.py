"""Running sums, products and extremes along a dim."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import inf
from typing import Any

import numpy as np

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import dim_max, dim_min
from staticflow.graph.dtypes import bool_, float64, int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.along.extremes import Chosen, scatter_vjp
from staticflow.ops.along.recurrence import (
    cut_rows,
    goes_in_chunks,
    recurrence_op,
    running,
    same_type,
    shift_op,
    walk,
    walk_in_chunks,
)
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.reduce import (
    along,
    longest,
    narrow_as,
    summable,
    wide,
    widen,
)
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.declaring.array_modules import accumulate
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim, per_arg, strict
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.lowering import LoopNest
from staticflow.ops.declaring.numpy_names import numpy_names
from staticflow.ops.elementwise.maths import exp

__all__ = [
    "cummax", "cummin", "cumprod", "cumsum", "diff", "logcumsumexp",
]  # fmt: skip


# -- sums and products ----------------------------------------------------------------------------


_MOST_PARTS = 512
"""Parts of a row: behind the last a thread or block adds up what all others have come to."""


_sums = running(0.0, lambda k, total, x: k.add(total, x), exact=True)


def _cumsum_emit(nest: Any) -> None:
    """In order; of few long rows each part is added up first, and then gone through from what the
    parts before it have come to."""
    k, dim = nest.k, nest.attrs["dim"]
    parts = cut_rows(nest, dim, _MOST_PARTS)
    if parts is None:
        _sums.emit(nest)
        return
    dtype, n = longest(nest.out_type(0).dtype), parts.shape[dim]
    zero = k.const(0.0 if dtype.is_floating else 0, dtype)

    def position(j: Any) -> Any:
        return n - 1 - j if nest.attrs["reverse"] else j

    def element(at: Any, j: Any) -> Any:
        return k.cast(nest.load(0, at(position(j))), dtype)

    def go_on(total: Any, at: Any, start: Any, length: Any) -> None:
        """Add up elements to a total, and store what it is behind each."""
        with k.loop("j", length) as j:
            k.set(total, k.add(total, element(at, start + j)))
            nest.store(0, at(position(start + j)), total)

    if parts.is_cut != 1:
        with parts.each_whole() as at:
            go_on(k.var(zero), at, 0, n)
    sums = nest.scratch(dtype, parts.room)
    with parts.each() as (row, part, at, start, length):
        total = k.var(zero)
        with k.loop("j", length) as j:
            k.accumulate(total, "add", element(at, start + j))
        k.store(sums, parts.place(row, part), k.freeze(total))
    with parts.each() as (row, part, at, start, length):
        total = k.var(zero)
        with k.loop("before", part) as before:
            k.accumulate(total, "add", k.load(sums, parts.place(row, before)))
        go_on(total, at, start, length)


cumsum_op: Op = Op(
    name="cumsum",
    doc="The sum of the elements up to each along ``dim``, with ``reverse`` from each on.",
    infer=same_type,
    reference=lambda xp, x, *, dim, reverse: walk(
        xp, lambda x: xp.cumsum(x, axis=0), dim, reverse, x, exact=True
    ),
    vjp=per_arg(lambda ct, out, x, *, dim, reverse: cumsum_op(ct, dim=dim, reverse=not reverse)),
    lowering=LoopNest(_cumsum_emit),
    kinds="iuf",
    numpy="slower",
    grad_name="CumsumBackward0",
)


def _cumprod_vjp(ct: Any, out: Any, x: Any, *, dim: int, reverse: bool) -> Any:
    # d/dx[j] = (the product before j) * sum over i >= j of ct[i] * (the product between j and i):
    # no division, so that zeros are no exception
    before = shift_op(out, dim=dim, fill=1.0, reverse=reverse)
    next_x = shift_op(x, dim=dim, fill=0.0, reverse=not reverse)
    return before * recurrence_op(ct, next_x, dim=dim, reverse=not reverse)


_products = running(1.0, lambda k, total, x: k.mul(total, x), exact=True)


def _cumprod_emit(nest: Any) -> None:
    """In order, or in chunks, behind each of which the product is that ahead of it times that of
    the chunk, where no product on the way leaves the normal numbers. Of finite elements a 0, which
    may be of products too small to be told from it, stays 0. Else a chunk is gone through element
    by element, as products in another order may overflow, or be no number, where those in order do
    not."""
    k, dim = nest.k, nest.attrs["dim"]
    dtype = longest(nest.out_type(0).dtype)
    if not dtype.is_floating or not goes_in_chunks(nest, dim):
        _products.emit(nest)
        return
    limits = np.finfo(dtype.numpy)
    tiny, largest = float(limits.tiny), float(limits.max)
    one, infinite = k.const(1.0, dtype), k.const(inf, dtype)

    def element(at: Any) -> Any:
        return k.cast(nest.load(0, at), dtype)

    def step(state: list[Any], at: Any, j: Any) -> None:
        k.set(state[0], k.mul(state[0], element(at)))

    def absorb(own: list[Any], at: Any, j: Any) -> None:
        whole, least, most, sign = own
        x = element(at)
        k.set(whole, k.mul(whole, x))
        size = k.apply("abs", whole)
        k.set(least, k.apply("min", least, size))
        k.set(most, k.apply("max", most, size))
        k.set(sign, k.add(k.mul(sign, k.apply("copysign", one, x)), k.sub(x, x)))

    def combine(state: list[Any], found: list[Any], again: Callable[[], None]) -> None:
        whole, least, most, sign = found  # no number where an element is not finite
        size = k.apply("abs", state[0])
        stays = k.apply("and", k.compare("eq", size, 0.0), k.isfinite(sign))
        tests = [k.isfinite(whole)]
        tests += [k.compare("ge", x, tiny) for x in (least, k.mul(least, size))]
        tests += [k.compare("le", x, largest) for x in (most, k.mul(most, size))]
        is_normal = reduce(partial(k.apply, "and"), tests)
        factor = k.select(is_normal, whole, sign)
        k.choose(
            k.apply("or", is_normal, stays),
            lambda: k.set(state[0], k.mul(state[0], factor)),
            again,
        )

    walk_in_chunks(
        nest, dim, [one], step, lambda state, at: nest.store(0, at, state[0]),
        [one, infinite, k.const(0.0, dtype), one], absorb, combine,
    )  # fmt: skip


cumprod_op: Op = Op(
    name="cumprod",
    doc="The product of the elements up to each along ``dim``, with ``reverse`` from each on.",
    infer=same_type,
    reference=lambda xp, x, *, dim, reverse: walk(
        xp, lambda x: xp.cumprod(x, axis=0), dim, reverse, x, exact=True
    ),
    vjp=per_arg(_cumprod_vjp),
    lowering=LoopNest(_cumprod_emit),
    kinds="iuf",
    numpy="slower",
    grad_name="CumprodBackward0",
)


def _logcumsumexp_emit(nest: Any) -> None:
    """The largest element so far and the sum of ``exp(x - largest)``, scaled where another becomes
    the largest (Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018).
    Where the largest is infinite or NaN it is the result."""
    k, dim, shape = nest.k, nest.attrs["dim"], nest.in_shape(0)
    dtype = wide(nest.out_type(0).dtype)
    start = k.const(-inf, dtype), k.const(0.0, float64)

    def share(x: Any, largest: Any) -> Any:
        power = k.exp(k.sub(x, largest))
        return k.cast(k.select(k.compare("eq", x, largest), 1.0, power), float64)

    def step(state: Sequence[Any], at: Any, j: Any = 0) -> None:
        largest, total = state
        x = k.cast(nest.load(0, at), dtype)
        new = k.maximum(largest, x)
        k.set(total, k.add(k.mul(total, share(largest, new)), share(x, new)))
        k.set(largest, new)

    def store(state: Sequence[Any], at: Any) -> None:
        largest, total = state
        found = k.add(largest, k.log(k.cast(total, dtype)))
        nest.store(0, at, k.select(k.isfinite(largest), found, largest))

    def combine(state: Sequence[Any], found: Sequence[Any], again: Any) -> None:
        largest, total = state
        new = k.maximum(largest, found[0])
        own, others = (k.mul(t, share(m, new)) for m, t in (state, found))
        k.set(total, k.add(own, others))
        k.set(largest, new)

    if goes_in_chunks(nest, dim):
        walk_in_chunks(nest, dim, start, step, store, start, step, combine)
        return
    with nest.rows(shape, dim) as at:
        state = [k.var(x) for x in start]
        with k.loop("j", shape[dim]) as j:
            step(state, at(j))
            store(state, at(j))


def _logcumsumexp_infer(facts: Facts, x: TensorType, *, dim: int) -> TensorType:
    if not x.dtype.is_floating:
        raise DTypeError(f"not defined for {x.dtype.name}; cast to a floating dtype")
    return x


def _logcumsumexp_reference(xp: Any, x: Any, *, dim: int) -> Any:
    return walk(xp, lambda x: accumulate(xp, "logaddexp", x), dim, False, x, exact=True)


def _logcumsumexp_vjp(ct: Any, out: Any, x: Any, *, dim: int) -> Any:
    # sum over i >= j of ct[i] exp(x[j] - out[i]) = exp(x[j] - out[j]) h[j] with
    # h[j] = ct[j] + exp(out[j] - out[j + 1]) h[j + 1], whose exponents are not positive; h grows
    # with the length, beyond what 16 bits hold
    wide_x, wide_out = widen(x), widen(out)
    beyond = shift_op(wide_out, dim=dim, fill=inf, reverse=True)
    ratio = _exp_of_difference(wide_out, beyond)
    h = recurrence_op(widen(ct), ratio, dim=dim, reverse=True)
    return narrow_as(_exp_of_difference(wide_x, wide_out) * h, x)


def _exp_of_difference(a: Any, b: Any) -> Any:
    """``exp(a - b)``; 1 where they are equal, infinite ones too."""
    return exp(where(a == b, 0.0, a - b))


logcumsumexp_op = Op(
    name="logcumsumexp",
    doc="``log(sum(exp(x)))`` of the elements up to each along ``dim``.",
    infer=_logcumsumexp_infer,
    reference=strict(_logcumsumexp_infer, _logcumsumexp_reference),
    vjp=per_arg(_logcumsumexp_vjp),
    lowering=LoopNest(_logcumsumexp_emit),
    grad_name="LogcumsumexpBackward0",
    numpy="slower",
)


@by_shape
@numpy_names
def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The running sums along ``dim``. Bools and integers are summed in int64 unless ``dtype`` says
    otherwise; 16-bit floats in float32.

    >>> import staticflow as sf
    >>> sf.cumsum(sf.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([1., 3., 6.])
    """
    return along(cumsum_op, summable(input, dtype), dim, reverse=False)


@by_shape
@numpy_names
def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The running products along ``dim``, in the dtypes of `cumsum`. The gradient is right where
    elements are 0, too.

    >>> import staticflow as sf
    >>> sf.cumprod(sf.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([1., 2., 6.])
    """
    return along(cumprod_op, summable(input, dtype), dim, reverse=False)


@by_shape
@numpy_names
def logcumsumexp(input: Any, dim: int) -> Any:
    """``log(cumsum(exp(x), dim))`` of a floating tensor, without overflow."""
    return along(logcumsumexp_op, input, dim)


# -- extremes -------------------------------------------------------------------------------------


def _extreme_emit(wins: str) -> Callable[[Any], None]:
    """The last of equal extremes; a NaN beats every number. Along rows another extreme is rare, and
    a branch, which is foreseen, is not waited for; lanes of columns choose."""

    def emit(nest: Any) -> None:
        k, dim = nest.k, nest.attrs["dim"]
        shape, dtype = nest.in_shape(0), nest.out_type(0).dtype
        any_value = k.cast(k.const(0, int64), dtype)

        def is_better(value: Any, best: Any) -> Any:
            better = k.compare(wins, value, best)
            return k.apply("or", better, k.isnan(value)) if dtype.is_floating else better

        def step(state: Sequence[Any], at: Any, j: Any, *, alone: bool = False) -> None:
            best, position = state
            here, value = k.index_value(j), nest.load(0, at)
            is_first = k.compare("eq", here, 0) if alone else k.compare("lt", position, 0)
            better = k.apply("or", is_better(value, best), is_first)
            if dim == len(shape) - 1:
                with k.when(better):
                    k.set(best, value)
                    k.set(position, here)
            else:
                k.set(best, k.select(better, value, best))
                k.set(position, k.select(better, here, position))

        def store(state: Sequence[Any], at: Any) -> None:
            for i, value in enumerate(state):
                nest.store(i, at, value)

        def combine(state: Sequence[Any], found: Sequence[Any], again: Any) -> None:
            is_first = k.compare("lt", state[1], 0)
            with k.when(k.apply("or", is_better(found[0], state[0]), is_first)):
                for mine, other in zip(state, found, strict=True):
                    k.set(mine, other)

        if goes_in_chunks(nest, dim):
            start = any_value, k.const(-1, int64)
            walk_in_chunks(nest, dim, start, step, store, start, step, combine)
            return
        with nest.rows(shape, dim) as at:
            state = k.var(any_value), k.var(k.const(0, int64))
            with k.loop("j", shape[dim]) as j:
                step(state, at(j), j, alone=True)
                store(state, at(j))

    return emit


def _extreme_reference(wins: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def reference(xp: Any, x: Any, *, dim: int) -> tuple[Any, Any]:
        values = xp.moveaxis(x, dim, 0).copy()
        column = xp.arange(len(values)).reshape(-1, *(1 for _ in values.shape[1:]))
        positions = xp.broadcast_to(column, values.shape).copy()
        step = 1
        while step < len(values):  # each knows of the ``step`` before it, then of twice as many
            own = values[step:]
            better = wins(own, values[:-step]) | (own != own)
            values, positions = (
                xp.concatenate([a[:step], xp.where(better, a[step:], a[:-step])])
                for a in (values, positions)
            )
            step *= 2
        return xp.moveaxis(values, 0, dim), xp.moveaxis(positions, 0, dim)

    return reference


def _extreme_op(name: str, which: str, wins: str, compare: Callable[[Any, Any], Any]) -> Op:
    return Op(
        name=name,
        doc=f"The {which} of the elements up to each along ``dim``, and its index: the last of "
        "equal ones; a NaN if there is one.",
        infer=lambda facts, x, *, dim: (x, TensorType(int64, x.shape)),
        reference=_extreme_reference(compare),
        vjp=scatter_vjp,
        lowering=LoopNest(_extreme_emit(wins)),
        grad_name=f"{name.title()}Backward0",
        numpy="slower",
    )


cummax_op = _extreme_op("cummax", "largest", "ge", operator.ge)
cummin_op = _extreme_op("cummin", "smallest", "le", operator.le)


@by_shape
@numpy_names
def cummax(input: Any, dim: int) -> Chosen:
    """The running largest elements along ``dim`` and their indices (int64), as the named tuple
    (values, indices). Of equal elements the last counts; from a NaN on there is NaN.

    >>> import staticflow as sf
    >>> sf.cummax(sf.tensor([1.0, 3.0, 2.0]), dim=0).values
    tensor([1., 3., 3.])
    """
    return Chosen(*along(cummax_op, input, dim))


@by_shape
@numpy_names
def cummin(input: Any, dim: int) -> Chosen:
    """The running smallest elements along ``dim``, as `cummax`."""
    return Chosen(*along(cummin_op, input, dim))


# -- differences -----------------------------------------------------------------------------------


_MOST_DIFFERENCES = 16
"""Along a dim of unknown size, whose terms are in each other as deep."""


@by_shape
@numpy_names
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours along ``dim``, taken ``n`` times; ``prepend`` and ``append``
    are joined to ``input`` before, unless ``n`` is 0, which gives ``input``. Of bools, whether
    neighbours differ.

    >>> import staticflow as sf
    >>> sf.diff(sf.tensor([1.0, 4.0, 9.0]))
    tensor([3., 5.])
    """
    if input.ndim == 0:
        raise ShapeError(f"diff: takes a tensor of at least 1 dim, at {format_locs(here())}")
    if n < 0:
        raise ShapeError(f"diff: n must not be negative, not {n}, at {format_locs(here())}")
    at = normalize_dim(dim, input.ndim, "diff")
    parts = [v for v in (prepend, input, append) if v is not None] if n else [input]
    input = cat(parts, at) if len(parts) > 1 else input
    size = input.shape[at]
    if isinstance(size, int):  # after so many there are none, and that is that
        n = min(n, size)
    elif n > _MOST_DIFFERENCES:
        raise ShapeError(
            f"diff: n is {n}, and of a dim of unknown size no more than {_MOST_DIFFERENCES} "
            f"differences are taken; give the size of dim {at} in the placeholder's shape, "
            f"at {format_locs(here())}"
        )
    return _differences(input, n, at) if n else input.clone()


@fused("SubBackward0", only_large=True)
def _differences(input: Any, n: int, at: int) -> Any:
    for _ in range(n):
        rest = dim_max(input.shape[at] - 1, 0)
        first = dim_min(input.shape[at], 1)
        later, earlier = narrow(input, at, first, rest), narrow(input, at, 0, rest)
        input = later != earlier if input.dtype is bool_ else later - earlier
    return input
