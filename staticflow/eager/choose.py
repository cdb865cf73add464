"""Which way an op is computed eagerly: as the very kernel that the compiler makes of it, by NumPy,
or by another op.

Which ops run as kernels, and on which arrays, `staticflow.eager.costs` says.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from operator import methodcaller
from typing import Any

import numpy as np

from staticflow.eager.costs import (
    BETWEEN,
    CALLS,
    FEW_IN_ROW,
    HALVES,
    LARGE,
    LONG,
    LONG_BOOLS,
    LONG_NARROW,
    ROW,
    SMALL,
    SPREAD,
    kernel_from,
    often_below,
)
from staticflow.eager.kernels import NETWORKS, KernelCall, kernels_of, prepare
from staticflow.eager.overwrite import copy_into, make_copy
from staticflow.eager.powers import power_by
from staticflow.eager.products import linear_pays, product_pays
from staticflow.eager.rows import in_known_rows, in_order, in_rows, order_of
from staticflow.eager.work import joint_work, work_by_rows
from staticflow.graph.dtypes import BY_PYTHON, DType, bfloat16, float16, float32, float64
from staticflow.graph.op import NumPy, Op, takes
from staticflow.ops.along.order import FEW, NETWORK, SHORT, sort_op, topk_op
from staticflow.ops.along.ranks import kthvalue_op, median_dim_op
from staticflow.ops.basics.arithmetic import add, cast, clone, mul
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.reduce import all_op, any_op, count_op, sum_op
from staticflow.ops.basics.slicing import embed_op
from staticflow.ops.basics.view import contiguous_op
from staticflow.ops.declaring.lowering import Elementwise
from staticflow.ops.elementwise.maths import pow
from staticflow.ops.indexing.index_ops import index_op, index_select_op, take_op
from staticflow.ops.matrices.contract import linear_op, matmul_op
from staticflow.ops.matrices.products import addmm_op, baddbmm_op
from staticflow.runtime.aligned import aligned_empty
from staticflow.runtime.threads import get_num_threads

__all__ = [
    "are_halves", "bound", "broadcasts", "by_numpy", "compute_of", "is_even", "kernel_of",
    "latest_kernel", "pays_often", "reduces", "takes_halves",
]  # fmt: skip

Array = np.ndarray[Any, Any]


@functools.cache
def compute_of(op: Op, is_large: bool) -> Callable[..., Any]:
    """What computes ``op`` eagerly on small or on large arrays, called as `Op.reference` is."""
    alone = (_ALONE if is_large else _ALONE_SMALL).get(op)
    if alone is not None:
        return alone
    if op.shapeless:
        return _flat(op)
    make = _ON_LARGE.get(op.numpy) if is_large else None
    if make is not None:
        return make(op)
    return kernels_of(op) if kernel_from(op) <= (LARGE if is_large else 0) else op.reference


def _flat(op: Op) -> Callable[..., Any]:
    """An op whose second argument may be taken as a vector, so that all shapes share a kernel."""
    native = kernels_of(op)

    def compute(xp: Any, first: Any, like: Any, *rest: Any, **attrs: Any) -> Any:
        return native(xp, first, like.reshape(-1), *rest, **attrs).reshape(like.shape)

    return compute


def _spread(op: Op) -> Callable[..., Any]:
    """An op of which NumPy computes the same bits: a kernel where that pays for threads and needs
    no copies, sooner where operands broadcast, at which NumPy is slow; and of floats of 16 bits,
    which NumPy takes one by one, always."""
    native = kernels_of(op)

    def compute(xp: Any, *operands: Any, **attrs: Any) -> Any:
        arrays = [a for a in operands if isinstance(a, np.ndarray)]
        return (native if _spread_pays(op, arrays) else op.reference)(xp, *operands, **attrs)

    return compute


def _spread_pays(op: Op, arrays: Sequence[Array]) -> bool:
    """Whether a kernel computes an op of which NumPy gives the same bits."""
    if arrays[-1].dtype in _HALVES:
        return True
    if is_even(op):
        whole = all(map(in_known_rows, arrays)) or order_of(arrays) is not None
        return whole and _joint_size(arrays) >= LARGE
    return max([a.size for a in arrays]) >= LARGE


def _joint_size(arrays: Sequence[Array]) -> int:
    """The elements that arrays have together, more where NumPy is slow as they broadcast."""
    size = np.broadcast(*arrays).size
    if len(arrays) == 2 and any([1 < a.size < size for a in arrays]):
        a, b = arrays
        return joint_work(a.shape, a.ndim, b.shape, b.ndim, True)
    return size


_HALVES = frozenset(d.numpy for d in (float16, bfloat16))
_WIDE = frozenset(d.numpy for d in (float32, float64))


def _by_rows(op: Op) -> Callable[..., Any]:
    """An op along a dim, which NumPy is slow at where neighbours along it lie apart, unless only a
    few lie between, where it has few elements, and of floats of 16 bits."""
    native = kernels_of(op)

    def compute(xp: Any, x: Any, *, dim: int, **attrs: Any) -> Any:
        by_kernel = _finds_by_kernel(x, dim)
        return (native if by_kernel else op.reference)(xp, x, dim=dim, **attrs)

    return compute


def _finds_by_kernel(x: Array, dim: int) -> bool:
    """Whether a kernel is faster than NumPy to go along ``dim`` for one element of each row: of
    floats of 16 bits, of which NumPy compares one after the other, 80 times."""
    is_near = 0 <= x.strides[dim] // x.itemsize <= BETWEEN
    return x.shape[dim] < FEW_IN_ROW or not is_near or x.dtype in _HALVES


_ON_LARGE: Mapping[NumPy, Callable[[Op], Callable[..., Any]]] = {
    "alone": _spread, "rows": _by_rows,
}  # fmt: skip


def _small_pow(xp: Any, x: Any, y: Any) -> Any:
    if isinstance(y, int | float) and xp is np and (y != 2 or x.dtype in _HALVES):
        by_one = power_by(y, x.dtype)
        if by_one is not None:
            return kernels_of(by_one)(xp, x)
    return pow.reference(xp, x, y)


def _pow(xp: Any, x: Any, y: Any) -> Any:
    dtype = (x if hasattr(x, "dtype") else y).dtype
    if xp is not np or dtype.kind in "biu":
        return pow.reference(xp, x, y)
    if type(y) is np.ndarray and not y.ndim and dtype in _HALVES:
        y = y.item()  # as numbers beside bfloat16 come
    if isinstance(y, int | float) and y == 2:  # which is what the power is, and kept on disk
        return compute_of(mul, True)(xp, x, x)
    by_one = power_by(y, dtype)
    if by_one is not None:
        return kernels_of(by_one)(xp, x)
    return kernels_of(pow)(xp, x, y)


def _full(xp: Any, *, shape: Any, value: Any, dtype: Any) -> Any:
    at_once = _is_zero_at_once(value=value)
    if xp is not np or at_once or math.prod(shape) < LARGE:
        return full.reference(xp, shape=shape, value=value, dtype=dtype)
    out = aligned_empty(shape, dtype.numpy)
    copy_into(out, np.asarray(value, dtype.numpy))
    return out


def _is_zero_at_once(value: Any, **_: Any) -> bool:
    """Whether memory is best taken as it comes from the system."""
    return bool(value == 0) and get_num_threads() == 1


def _fill_row(shape: Sequence[int], value: Any, dtype: DType) -> KernelCall:
    """How a kernel fills a large array, as a row of copies of one number."""
    row = np.broadcast_to(np.asarray(value, dtype.numpy), (math.prod(shape),))
    kernel = kernels_of(clone).kernel([row], {})
    return KernelCall(kernel.fast, further=(row,), flat=True)


_COPIES = frozenset((clone, contiguous_op))


def _is_copied_by_kernel(x: Any) -> bool:
    """Whether a kernel copies an array: a large one in rows, as NumPy takes 1.1 to 4 times as long,
    most where all elements of a row are one, or every other is copied."""
    return isinstance(x, np.ndarray) and x.size >= LARGE and in_known_rows(x)


def _copy_rows(x: Array) -> KernelCall:
    """The kernel that makes a row-major copy of arrays that lie in rows like this one."""
    return KernelCall(kernels_of(clone).kernel([x], {}).fast)


def _clone(xp: Any, x: Any) -> Any:
    if type(x) is np.ndarray and (x.flags.c_contiguous or 0 in x.strides):
        return make_copy(x)
    if _spreads(x):
        order = order_of([x])
        if order is not None:  # which it keeps
            return make_copy(x.transpose(order)).transpose(np.argsort(order))
    return clone.reference(xp, x)


def _contiguous(xp: Any, x: Any) -> Any:
    at_once = (type(x) is np.ndarray and 0 in x.strides) or _spreads(x)
    return make_copy(x) if at_once else contiguous_op.reference(xp, x)


def _spreads(x: Any) -> bool:
    """Whether an array is copied by several threads."""
    return type(x) is np.ndarray and x.size >= LARGE and get_num_threads() > 1


def _truth(op: Op) -> Callable[..., Any]:
    """A reduction of bools: to one number NumPy is faster, while threads do not pay."""
    native = kernels_of(op)

    def compute(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
        to_one = len(dims) == x.ndim and x.size < SPREAD
        return (op.reference if to_one else native)(xp, x, dims=dims, keepdim=keepdim)

    return compute


def _sort_by_length(op: Op) -> Callable[..., Any]:
    """An op that looks for an order: NumPy is faster along rows of middle length."""
    native = kernels_of(op)

    def compute(xp: Any, x: Any, *, dim: int, **attrs: Any) -> Any:
        by_kernel = _orders_by_kernel(op, x, dim, attrs.get("k", 0))
        return (native if by_kernel else op.reference)(xp, x, dim=dim, **attrs)

    return compute


def _orders_by_kernel(op: Op, x: Array, dim: int, k: int) -> bool:
    """Whether the kernel of an op that looks for an order, perhaps for ``k`` elements or the one of
    rank ``k``, is as fast along ``dim`` as NumPy, which takes four times as long for floats of 16
    bits."""
    n = x.shape[dim]
    if op in _RANKS or n <= NETWORK or n >= LONG or x.dtype in _HALVES:
        return True
    if op is sort_op:  # which NumPy does of more elements by keys, as fast
        if n >= LONG_NARROW:
            return bool(x.itemsize <= 4)
        if n >= LONG_BOOLS:
            return bool(x.dtype.kind == "b")
        return n <= SHORT and x.size < SMALL
    if op is topk_op and k <= FEW and k * k <= n:  # of which few are among the first meanwhile
        return True
    return n >= ROW and x.size < CALLS


_RANKS = frozenset((kthvalue_op, median_dim_op))


def _pick_rows(op: Op) -> Callable[..., Any]:
    """Rows of an array that indices say; of one that lies otherwise all would be copied before."""
    native = kernels_of(op)

    def compute(xp: Any, x: Any, *indices: Any, **attrs: Any) -> Any:
        pays = in_rows(x) or x.size >= SPREAD
        return (native if pays else op.reference)(xp, x, *indices, **attrs)

    return compute


def _matmul(xp: Any, x: Any, y: Any) -> Any:
    if xp is np and x.shape[-1] == 1 == y.shape[-2] and x.dtype.kind == "f":
        return compute_of(mul, True)(xp, x, y)  # each element is one product, and there is no sum
    pays = xp is np and product_pays(x, y)
    return (kernels_of(matmul_op) if pays else matmul_op.reference)(xp, x, y)


def _product_and_sum(op: Op) -> Callable[..., Any]:
    """An op that scales a product of matrices and adds to it: where the product is a kernel's, and
    the sum has its shape, one after the other."""

    def compute(xp: Any, c: Any, x: Any, y: Any, *, alpha: Any, beta: Any) -> Any:
        fits = xp is np and x.shape[-1] == y.shape[-2]
        if not (fits and product_pays(x, y) and _stretches(c.shape, (*x.shape[:-1], y.shape[-1]))):
            return op.reference(xp, c, x, y, alpha=alpha, beta=beta)
        scale, plus = compute_of(mul, True), compute_of(add, True)
        out = _matmul(xp, x, y)
        out = out if alpha == 1 else scale(xp, out, out.dtype.type(alpha))
        if beta == 0:
            return out
        return plus(xp, out, c if beta == 1 else scale(xp, c, c.dtype.type(beta)))

    return compute


def _stretches(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether an array of a shape broadcasts to another one."""
    last = to[len(to) - len(shape) :]
    return len(shape) <= len(to) and all(m in (1, n) for m, n in zip(shape, last, strict=True))


def _linear(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    by_kernel = xp is np and linear_pays(x, weight, bias)
    if not by_kernel and (xp is not np or bias.dtype not in _WIDE):
        return linear_op.reference(xp, x, weight, bias)
    rows = x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    compute = functools.partial(kernels_of(linear_op), np) if by_kernel else _add_to_product
    out = compute(rows, weight, bias)
    return out if x.ndim == 2 else out.reshape(*x.shape[:-1], len(weight))


def _add_to_product(x: Array, weight: Array, bias: Array) -> Array:
    """``x @ weight.T + bias`` of a little weight, or of few rows. NumPy is slow to add a bias to
    many short rows: to 1000 of 16 it takes 6.7 microseconds, longer than for their product with few
    columns. The kernel does both in 4, and reads the columns of the weight as rows."""
    columns, inner = weight.shape
    if 1 < columns <= ROW and len(x) * columns >= SMALL:
        turned = np.ascontiguousarray(weight.T)
        by_kernel: Array = kernels_of(addmm_op)(np, bias, x, turned, alpha=1, beta=1)
        return by_kernel
    out: Array = (np.multiply if inner == 1 == x.shape[-1] else np.matmul)(x, weight.T)
    out += bias
    return out


def _embed(xp: Any, x: Any, *, shape: Any, start: Any, step: Any) -> Any:
    """Not as a kernel, of which there would be one for each part of a tensor."""
    if xp is not np:
        return embed_op.reference(xp, x, shape=shape, start=start, step=step)
    out = aligned_empty(shape, x.dtype)
    ends = [a + (n - 1) * s + 1 for a, n, s in zip(start, x.shape, step, strict=True)]
    inside = tuple(map(slice, start, ends, step))
    if any(s != 1 for s in step):
        copy_into(out, np.zeros((), x.dtype))
    for d, (a, b) in enumerate(zip(start, ends, strict=True)):
        for part in (slice(0, a), slice(b, None)):  # what lies outside, each element once
            out[(*inside[:d], part)] = 0
    copy_into(out[inside], x)
    return out


_ALONE: dict[Op, Callable[..., Any]] = {
    pow: _pow, full: _full, clone: _clone, contiguous_op: _contiguous,
    matmul_op: _matmul, linear_op: _linear, embed_op: _embed,
    **{op: _product_and_sum(op) for op in (addmm_op, baddbmm_op)},
    **{op: _truth(op) for op in (all_op, any_op, count_op)},
    **{op: _sort_by_length(op) for op in NETWORKS},
    **{op: _pick_rows(op) for op in (index_op, index_select_op, take_op)},
}  # fmt: skip
"""Ops that others compute, or a program for all sizes and values, or what an attribute says."""

_ALONE_SMALL: dict[Op, Callable[..., Any]] = {
    pow: _small_pow, matmul_op: _matmul, linear_op: _linear,
    **{op: _ALONE[op] for op in (addmm_op, baddbmm_op)},
}  # fmt: skip
"""Likewise on small arrays."""


def bound(
    op: Op, arrays: Sequence[Any], attrs: Mapping[str, Any], results: Sequence[Array]
) -> Callable[..., Any] | KernelCall | None:
    """What computes ``op`` of arrays like these alone, with ``results`` that lie like these, if
    that is more than `compute_of` to call: a kernel, or what fills an array; a small one is as soon
    copied."""
    if not arrays:
        if op is full and math.prod(attrs["shape"]) >= LARGE and not _is_zero_at_once(**attrs):
            return _fill_row(**attrs)
        fill = functools.partial(compute_of(op, True), np, **attrs)
        made = fill()
        return made.copy if made.size < SMALL else fill
    if op in _COPIES and _is_copied_by_kernel(arrays[0]) and all(map(in_order, results)):
        return _copy_rows(arrays[0])
    if op.shapeless or _runs_as_kernel(op, arrays) or _is_product_of_kernel(op, arrays):
        return kernel_of(op, arrays, attrs, results)
    if op is pow and type(arrays[0]) is np.ndarray and arrays[0].size >= LARGE:
        by_one = power_by(arrays[1], arrays[0].dtype)
        call = None if by_one is None else kernel_of(by_one, arrays[:1], {}, results)
        return None if call is None else replace(call, takes=1)
    return None


def by_numpy(op: Op, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Callable[..., Any] | None:
    """What `Op.reference` comes to on arrays like these, a function of NumPy or two."""
    if op is cast:
        return methodcaller("astype", attrs["dtype"].numpy)
    if op is matmul_op and arrays[0].dtype in _WIDE:
        if arrays[0].shape[-1] != 1:
            return np.matmul
        large = _joint_size(arrays) >= LARGE
        return functools.partial(compute_of(mul, True), np) if large else np.multiply
    if op is linear_op and arrays[0].dtype in _WIDE and arrays[0].ndim == 2:
        return _add_to_product
    if op is sum_op and arrays[0].dtype not in _HALVES:
        dtype = None if arrays[0].dtype.kind == "f" else arrays[0].dtype  # NumPy's are wider
        return functools.partial(
            np.add.reduce, axis=attrs["dims"], keepdims=attrs["keepdim"], dtype=dtype
        )
    return None


@functools.cache
def broadcasts(op: Op) -> bool:
    """Whether an op goes through operands of one dtype by element; numbers may be among them."""
    return type(op.lowering) is Elementwise and op.promote != "none"


@functools.cache
def is_even(op: Op) -> bool:
    """Whether an op goes through arrays by element as fast in NumPy as in a kernel, on one thread,
    and takes no copies of them there however they lie."""
    return op.numpy == "alone" and op not in _ALONE and type(op.lowering) is Elementwise


@functools.cache
def reduces(op: Op) -> bool:
    """Whether an op reduces dims, and so goes along rows."""
    _, _, attrs = takes(op)
    return attrs is not None and attrs >= {"dims", "keepdim"}


@functools.cache
def takes_halves(op: Op) -> bool:
    """Whether the kernel of an op takes `HALVES` floats of 16 bits as it takes large arrays."""
    return op.numpy in ("small", "alone") and op not in _ALONE and not op.shapeless


def are_halves(arrays: Sequence[Any]) -> bool:
    """Whether there are so many floats of 16 bits that NumPy is slow at them."""
    return any([type(a) is np.ndarray and a.size >= HALVES and a.dtype in _HALVES for a in arrays])


def _runs_as_kernel(op: Op, arrays: Sequence[Any]) -> bool:
    if takes_halves(op) and are_halves(arrays):
        return True
    size = max(a.size for a in arrays if isinstance(a, np.ndarray))
    if is_even(op):
        return _spread_pays(op, [a for a in arrays if isinstance(a, np.ndarray)])
    if reduces(op):
        size = work_by_rows(arrays[0].shape, arrays[0].ndim)
    return size >= kernel_from(op) and (size < LARGE or op not in _ALONE)


def _is_product_of_kernel(op: Op, arrays: Sequence[Any]) -> bool:
    """Whether this is a product of matrices for which the kernel pays; `linear` of rows in more
    dims comes to one of matrices."""
    if op is matmul_op:
        return product_pays(*arrays)
    return op is linear_op and arrays[0].ndim == 2 and linear_pays(*arrays)


def pays_often(op: Op, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> bool:
    """Whether `kernel_of` computes ``op`` of small arrays faster than NumPy and to the same bits,
    so that it may where calls come often."""
    if not arrays or (op in _ALONE_SMALL and not _is_power_of_arrays(op, arrays)):
        return False  # what fills an array is copied
    if op in NETWORKS:
        return _orders_by_kernel(op, arrays[0], attrs["dim"], attrs.get("k", 0))
    if op.numpy == "rows" and _finds_by_kernel(arrays[0], attrs["dim"]):
        return True
    most = often_below(op)
    return all(a.size < most for a in arrays if type(a) not in BY_PYTHON)


def kernel_of(
    op: Op, operands: Sequence[Any], attrs: Mapping[str, Any], results: Sequence[Array]
) -> KernelCall | None:
    """How a kernel computes arrays and numbers like these, which are not read; None if it takes
    copies of arrays, and a ufunc none, or if what it gives does not lie as ``results`` do."""
    arrays, names, rest = prepare(op, operands, attrs)
    may_copy = op.numpy == "slower" or op.ufunc is None  # at which NumPy makes several passes
    call = kernels_of(op).entry(arrays, names, rest, results, may_copy)
    if call is None:
        return None
    # (those of a ufunc arrive as arrays)
    bare = {} if op.ufunc else {i: arrays[i] for i, a in enumerate(operands) if arrays[i] is not a}
    return replace(call, instead=bare, further=arrays[len(operands) :])


def _is_power_of_arrays(op: Op, arrays: Sequence[Any]) -> bool:
    """Whether this is a power whose exponents are an array: NumPy takes 4 microseconds for it on
    few elements, since it is asked twice whether one of them is special."""
    return op is pow and BY_PYTHON.keys().isdisjoint(map(type, arrays))


def latest_kernel(op: Op) -> Any:
    """What holds the native entry of the kernel that computed ``op`` last; None if not its kernel
    alone computes it of large arrays."""
    only_kernel = op not in _ALONE and not op.shapeless and kernel_from(op) < inf
    return kernels_of(op).latest if only_kernel else None
