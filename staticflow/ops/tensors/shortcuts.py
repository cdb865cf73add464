"""Functions that PyTorch has beside those that they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, combinations_with_replacement
from itertools import combinations as positions_of
from typing import Any

import numpy as np

from staticflow.errors import ArgumentError, ShapeError, SymbolicError
from staticflow.graph.dims import Dim, Size, same
from staticflow.graph.dtypes import bool_, float32, int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.cumulative import cumsum
from staticflow.ops.along.order import sort
from staticflow.ops.basics.arithmetic import cast, clamp, clone, floor_divide, where
from staticflow.ops.basics.creation import ones_like
from staticflow.ops.basics.joining import cat, meshgrid, stack
from staticflow.ops.basics.slicing import bounds
from staticflow.ops.basics.splitting import narrow, part_of
from staticflow.ops.basics.view import ravel, reshape
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim, sum_to
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.promote import is_number
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.declaring.sizes import as_size, needed_sizes_of, refuse_many
from staticflow.ops.elementwise.maths import exp2
from staticflow.ops.matrices.triangle import diag
from staticflow.ops.statistics.moments import vector_norm

__all__ = [
    "block_diag", "cartesian_prod", "clamp_max", "clamp_min", "combinations",
    "cumulative_trapezoid", "detach", "diagflat", "isreal", "ldexp", "msort", "narrow_copy",
    "positive", "renorm", "split_with_sizes", "sum_to_size", "trapezoid", "trapz", "vander",
]  # fmt: skip


def positive(input: Any) -> Any:
    """``input`` itself; not of bools."""
    if input.dtype is bool_:
        raise ArgumentError(f"positive: not defined for bool, at {format_locs(here())}")
    return input


def detach(input: Any) -> Any:
    """The values of ``input`` without history."""
    return input.detach()


@by_shape
def clamp_min(input: Any, min: Any) -> Any:
    """The larger of ``input`` and ``min``, a number or a tensor."""
    return clamp(input, min=min)


@by_shape
def clamp_max(input: Any, max: Any) -> Any:
    """The smaller of ``input`` and ``max``, a number or a tensor."""
    return clamp(input, max=max)


def isreal(input: Any) -> Any:
    """True everywhere: there are no complex tensors."""
    return ones_like(input, dtype=bool_)


@by_shape
def ldexp(input: Any, other: Any) -> Any:
    """``input * 2 ** other``; of a floating ``input`` and an integer exponent in the dtype of
    ``input``, and exact also where the power alone leaves its range.

    >>> import staticflow as sf
    >>> sf.ldexp(sf.tensor([1.0, 0.5]), sf.tensor([3, -1]))
    tensor([8.0000, 0.2500])
    """
    if is_number(other):
        other = input.new_full((), other, dtype=type(other))
    if not input.dtype.is_floating or other.dtype.is_floating:
        return input * exp2(other)
    wide = float32 if input.dtype.bits == 16 else input.dtype
    exponent = clamp(cast(other, dtype=int64), -2200, 2200)  # beyond, nothing is left
    third = floor_divide(exponent, 3)
    out = cast(input, dtype=wide)
    for part in (third, third, exponent - third * 2):
        out = out * exp2(cast(part, dtype=wide))
    return cast(out, dtype=input.dtype)


@by_shape
def narrow_copy(input: Any, dim: int, start: Size, length: Size) -> Any:
    """A copy of ``length`` elements along ``dim`` from ``start`` on."""
    return clone(narrow(input, dim, start, length))


@by_shape
def split_with_sizes(input: Any, split_sizes: Sequence[Size], dim: int = 0) -> tuple[Any, ...]:
    """``input`` in parts of these sizes along ``dim``."""
    parts: tuple[Any, ...] = input.split(list(split_sizes), dim)
    return parts


def sum_to_size(input: Any, *size: Any) -> Any:
    """``input`` summed over the dims that broadcasting from ``size`` had stretched.

    >>> import staticflow as sf
    >>> sf.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    shape = needed_sizes_of(size)
    have = input.shape[max(input.ndim - len(shape), 0) :]
    if len(have) < len(shape) or any(
        isinstance(a, int) and isinstance(b, int) and b not in (1, a)
        for a, b in zip(have, shape, strict=False)
    ):
        raise ShapeError(
            f"sum_to_size: a tensor of shape {list(shape)} does not broadcast to "
            f"{list(input.shape)}, at {format_locs(here())}"
        )
    for a, b in zip(have, shape, strict=True):
        if not same(b, 1):
            what = f"sum_to_size: the sizes of {list(input.shape)} and of {list(shape)}"
            input = require_equal(input, a, b, what)
    return sum_to(input, shape)


def msort(input: Any) -> Any:
    """The elements in ascending order along the first dim."""
    return sort(input, 0).values


def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """``input`` with every slice along ``dim`` whose ``p``-norm is above ``maxnorm`` scaled down to
    that.

    >>> import staticflow as sf
    >>> sf.renorm(sf.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    at = normalize_dim(dim, input.ndim, "renorm")
    if input.ndim < 2:
        raise ShapeError(
            f"renorm: takes 2 dims at least, not {input.ndim}, at {format_locs(here())}"
        )
    if not (p > 0 and maxnorm >= 0):
        raise ArgumentError(
            f"renorm: p is {p} and maxnorm {maxnorm}; p must be above 0, and maxnorm 0 or more, "
            f"at {format_locs(here())}"
        )
    others = tuple(d for d in range(input.ndim) if d != at)
    norms = vector_norm(input, p, dim=others, keepdim=True)
    return input * where(norms > maxnorm, maxnorm / (norms + 1e-7), ones_like(norms))


# -- integrals ----------------------------------------------------------------------------------


def _trapezoids(name: str, y: Any, x: Any, dx: Any, dim: int) -> tuple[Any, int]:
    at = normalize_dim(dim, y.ndim, name)

    def sides(v: Any, dim: int) -> list[Any]:
        cuts = [bounds(cut, v.shape[dim]) for cut in (slice(1, None), slice(None, -1))]
        return [part_of(v, dim, cut.start, cut.size) for cut in cuts]

    right, left = sides(y, at)
    sums = right + left
    if x is None:
        return sums * (dx / 2), at
    along = x if x.ndim > 1 else reshape(x, (*x.shape, *(1,) * (y.ndim - at - 1)))
    axis = along.ndim - (y.ndim - at)
    after, before = sides(along, axis)
    return sums * (after - before) / 2, at


def trapezoid(y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Any:
    """The integral along ``dim`` by the trapezoidal rule, of values ``y`` at positions ``x``, or
    ``dx`` apart.

    >>> import staticflow as sf
    >>> sf.trapezoid(sf.tensor([1.0, 2.0, 4.0]))
    tensor(4.5000)
    """
    return _integral(y, x, dx, normalize_dim(dim, y.ndim, "trapezoid"))


@fused("SumBackward1", only_large=True)
def _integral(y: Any, x: Any, dx: Any, dim: int) -> Any:
    parts, at = _trapezoids("trapezoid", y, x, dx, dim)
    return parts.sum(at)


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Any:
    """The integrals up to each position but the first, as `trapezoid`."""
    parts, at = _trapezoids("cumulative_trapezoid", y, x, dx, dim)
    return cumsum(parts, at)


trapz = trapezoid

# -- matrices -----------------------------------------------------------------------------------


@by_shape
def diagflat(input: Any, offset: int = 0) -> Any:
    """A matrix with the elements of ``input`` on its diagonal."""
    return diag(ravel(input), offset)


def block_diag(*tensors: Any) -> Any:
    """The matrices (vectors are rows) along the diagonal of one, zeros elsewhere.

    >>> import staticflow as sf
    >>> sf.block_diag(sf.tensor([[1, 2]]), sf.tensor([[3]]))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    for x in tensors:
        if x.ndim > 2:
            raise ShapeError(
                f"block_diag: takes matrices, not shape {list(x.shape)}, at {format_locs(here())}"
            )
    blocks = [x if x.ndim == 2 else reshape(x, (1, -1)) for x in tensors]
    widths = [0, *accumulate(block.shape[1] for block in blocks)]
    rows = []
    for block, before, through in zip(blocks, widths, widths[1:], strict=False):
        sides = [_zeros(block, block.shape[0], n) for n in (before, widths[-1] - through)]
        rows.append(cat([sides[0], block, sides[1]], 1))
    return cat(rows, 0)


def _zeros(x: Any, rows: Size, columns: Size) -> Any:
    return x.new_zeros((rows, columns))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The powers of each element of a vector as a row, ``N`` of them (as many as elements unless
    given), descending unless ``increasing``.

    >>> import staticflow as sf
    >>> sf.vander(sf.tensor([1, 2, 3]), 2)
    tensor([[1, 1],
            [2, 1],
            [3, 1]])
    """
    if x.ndim != 1:
        raise ShapeError(
            f"vander: takes a vector, not shape {list(x.shape)}, at {format_locs(here())}"
        )
    count = x.shape[0] if N is None else N
    if isinstance(count, Dim):
        raise SymbolicError(
            f"vander: the number of powers, {count}, is known only when the program runs; give N, "
            f"at {format_locs(here())}"
        )
    refuse_many("vander", count, "powers")
    x = x if x.dtype.is_floating else cast(x, dtype=int64)
    powers = range(count) if increasing else range(count - 1, -1, -1)
    return stack([x**i for i in powers], 1) if count else x.new_zeros((x.shape[0], 0))


# -- combinations -------------------------------------------------------------------------------


def _check_vector(name: str, x: Any) -> None:
    if x.ndim != 1:
        raise ShapeError(
            f"{name}: takes vectors, not shape {list(x.shape)}; flatten it, as by x.ravel(), "
            f"at {format_locs(here())}"
        )


def cartesian_prod(*tensors: Any) -> Any:
    """Every choice of one element of each vector, as rows.

    >>> import staticflow as sf
    >>> sf.cartesian_prod(sf.tensor([1, 2]), sf.tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    for x in tensors:
        _check_vector("cartesian_prod", x)
    if len(tensors) == 1:
        return tensors[0]
    return stack([ravel(x) for x in meshgrid(*tensors)], 1)


_MOST_CHOSEN = 1 << 28
"""So many elements `combinations` gives at most: it lists them one by one, 20 million a second."""


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """Every choice of ``r`` elements of a vector, in their order, as rows. The number of elements
    must be known.

    >>> import staticflow as sf
    >>> sf.combinations(sf.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    _check_vector("combinations", input)
    size = input.shape[0]
    if not isinstance(size, int):
        raise SymbolicError(
            f"combinations: the number of elements, {size}, is known only when the program runs, "
            f"at {format_locs(here())}"
        )
    r = as_size(r)
    if r < 0:
        raise ArgumentError(
            f"combinations: r is {r}; it must not be negative, at {format_locs(here())}"
        )
    _refuse_many_rows(size, r, with_replacement)
    choose = combinations_with_replacement if with_replacement else positions_of
    rows = list(choose(range(size), r))
    return input[np.array(rows, np.int64).reshape(len(rows), r)]


def _refuse_many_rows(size: int, r: int, with_replacement: bool) -> None:
    """Raise `ArgumentError` for more choices than can be listed."""
    of = max(size + r - 1, 0) if with_replacement else size
    rows = 1 if r <= of else 0
    for i in range(min(r, of - r)):  # of which the i-th gives 2**i at least
        rows = rows * (of - i) // (i + 1)
        if rows * r > _MOST_CHOSEN:
            break
    if max(rows, 1) * r > _MOST_CHOSEN:
        raise ArgumentError(
            f"combinations: the choices of {r} among {size} elements have more than "
            f"{_MOST_CHOSEN} elements in all, at {format_locs(here())}"
        )
