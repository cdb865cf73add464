"""Ops that run eagerly as the very kernel that the compiler makes of them.

Which ops, and on which arrays, is said by `Op.eager`. A kernel is compiled when an op first meets
operands of a kind: dtypes, ranks, which sizes are 1 (of an op that is `Op.batched`: all sizes but
the batch), and the op's attributes. Other sizes stay unknown, so that the next batch does not
compile anew.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import inf
from operator import methodcaller
from typing import Any

import numpy as np

from staticflow.eager.numbers import as_array, numbers_among, with_operands
from staticflow.eager.overwrite import copied, put
from staticflow.eager.products import large_linear, large_matmul
from staticflow.eager.programs import LARGE, MOST_KINDS, SPREAD, compiled, compiling
from staticflow.errors import DTypeError, IndexRangeError, ShapeError
from staticflow.graph.dims import Size, fresh_sym
from staticflow.graph.dtypes import BY_NUMPY, BY_PYTHON, bfloat16, float16, float32, float64
from staticflow.graph.graph import attrs_key, close, new_param
from staticflow.graph.node import item, make_node
from staticflow.graph.op import Op
from staticflow.graph.rowmajor import row_major
from staticflow.graph.types import TensorType
from staticflow.ops.arithmetic import cast, clone, mul
from staticflow.ops.contract import linear_op, matmul_op
from staticflow.ops.creation import full
from staticflow.ops.declare import elementwise
from staticflow.ops.lowering import Elementwise
from staticflow.ops.maths import pow, reciprocal
from staticflow.ops.order import FEW, topk_op
from staticflow.ops.reduce import sum_op
from staticflow.ops.view import contiguous_op
from staticflow.runtime.aligned import aligned_empty
from staticflow.runtime.executable import Executable

__all__ = [
    "SMALL",
    "bound",
    "by_numpy",
    "compute_of",
    "kernel_of",
    "latest_kernel",
    "pattern",
    "pays_often",
    "run",
]

Array = np.ndarray[Any, Any]

SMALL = 1 << 12
"""Elements up to which an array is as soon copied as made."""

_MET = 1024
"""So many shapes find the kernel of an op at once; then it begins anew."""


@functools.cache
def compute_of(op: Op, is_large: bool) -> Callable[..., Any]:
    """What computes ``op`` eagerly on small or on large arrays, called as `Op.reference` is."""
    alone = (_ALONE if is_large else _ALONE_SMALL).get(op)
    if alone is not None:
        return alone
    if op.eager == "native" or (op.eager in ("large", "exact") and is_large):
        return _native(op)
    if op.eager == "flat":
        return _flat(op)
    make = _ON_LARGE.get(op.eager) if is_large else None
    return op.reference if make is None else make(op)


def _flat(op: Op) -> Callable[..., Any]:
    """An op whose second argument may be taken as a vector, so that all shapes share a kernel."""
    native = _native(op)

    def compute(xp: Any, first: Any, like: Any, *rest: Any, **attrs: Any) -> Any:
        return native(xp, first, like.reshape(-1), *rest, **attrs).reshape(like.shape)

    return compute


def _spread(op: Op) -> Callable[..., Any]:
    """An op of which NumPy computes the same bits: a kernel where that pays for threads and needs
    no copies, and of floats of 16 bits, which NumPy takes one by one, always."""
    native = _native(op)
    even = type(op.lowering) is Elementwise

    def compute(xp: Any, *operands: Any, **attrs: Any) -> Any:
        arrays = [a for a in operands if isinstance(a, np.ndarray)]
        if arrays[-1].dtype in _NARROW:
            pays = True
        elif even:
            whole = all([a.flags.c_contiguous for a in arrays]) or _order(arrays) is not None
            pays = whole and np.broadcast(*arrays).size >= SPREAD
        else:
            pays = max([a.size for a in arrays]) >= SPREAD
        return (native if pays else op.reference)(xp, *operands, **attrs)

    return compute


_NARROW = frozenset(d.numpy for d in (float16, bfloat16))
_WIDE = frozenset(d.numpy for d in (float32, float64))


def _strided(op: Op) -> Callable[..., Any]:
    """An op along a dim, which NumPy is slow at where that is not the last."""
    native = _native(op)

    def compute(xp: Any, x: Any, *, dim: int, **attrs: Any) -> Any:
        return (native if dim < x.ndim - 1 else op.reference)(xp, x, dim=dim, **attrs)

    return compute


_ON_LARGE = {"spread": _spread, "strided": _strided}


_CUBE = elementwise(
    "cube", "``x ** 3``.", lambda xp, x: x * x * x, lambda k, x: k.mul(k.mul(x, x), x)
)
_ROOT = elementwise(  # the square root but at -inf and -0.0
    "root", "``x ** 0.5``.", lambda xp, x: pow.reference(xp, x, 0.5),
    lambda k, x: k.select(k.compare("eq", x, -inf), inf, k.apply("abs", k.apply("sqrt", x))),
)  # fmt: skip
_INVERSE_ROOT = elementwise(  # likewise
    "inverse_root", "``x ** -0.5``.", lambda xp, x: pow.reference(xp, x, -0.5),
    lambda k, x: k.select(k.compare("eq", x, -inf), 0.0, k.abs(k.rsqrt(x))),
)  # fmt: skip
_POWERS = {3: _CUBE, 0.5: _ROOT, -0.5: _INVERSE_ROOT, -1: reciprocal}
_ROUNDED_ONCE = (0.5, -1)  # which floats of 16 bits are after every step


def _small_pow(xp: Any, x: Any, y: Any) -> Any:
    if isinstance(y, int | float) and y in _POWERS and xp is np and x.dtype in _WIDE:
        return _native(_POWERS[y])(xp, x)
    return pow.reference(xp, x, y)


def _pow(xp: Any, x: Any, y: Any) -> Any:
    dtype = (x if hasattr(x, "dtype") else y).dtype
    if xp is not np or dtype.kind in "biu":
        return pow.reference(xp, x, y)
    if type(y) is np.ndarray and not y.ndim and dtype in _NARROW:
        y = y.item()  # as numbers beside bfloat16 come
    if isinstance(y, int | float):
        if y == 2:
            return compute_of(mul, True)(xp, x, x)  # which is what the power is
        if y in _POWERS and (y in _ROUNDED_ONCE or dtype in _WIDE):
            return _native(_POWERS[y])(xp, x)
    return _native(pow)(xp, x, y)


def _full(xp: Any, *, shape: Any, value: Any, dtype: Any) -> Any:
    if xp is not np or value == 0 or math.prod(shape) < SPREAD:
        return full.reference(xp, shape=shape, value=value, dtype=dtype)
    out = aligned_empty(shape, dtype.numpy)
    put(out, np.asarray(value, dtype.numpy))
    return out


def _clone(xp: Any, x: Any) -> Any:
    if type(x) is np.ndarray and (x.flags.c_contiguous or 0 in x.strides):
        return copied(x)
    return clone.reference(xp, x)


def _contiguous(xp: Any, x: Any) -> Any:
    repeats = type(x) is np.ndarray and 0 in x.strides
    return copied(x) if repeats else contiguous_op.reference(xp, x)


def _topk(xp: Any, x: Any, *, k: int, **attrs: Any) -> Any:
    compute = _native(topk_op) if k <= FEW else topk_op.reference
    return compute(xp, x, k=k, **attrs)


def _matmul(xp: Any, x: Any, y: Any) -> Any:
    if xp is np and x.shape[-1] == 1 == y.shape[-2] and x.dtype.kind == "f":
        return compute_of(mul, True)(xp, x, y)  # each element is one product, and there is no sum
    product = large_matmul(x, y) if xp is np else None
    return matmul_op.reference(xp, x, y) if product is None else product


def _linear(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    result = large_linear(x, weight, bias) if xp is np else None
    return linear_op.reference(xp, x, weight, bias) if result is None else result


_ALONE: dict[Op, Callable[..., Any]] = {
    pow: _pow, full: _full, clone: _clone, contiguous_op: _contiguous, topk_op: _topk,
    matmul_op: _matmul, linear_op: _linear,
}  # fmt: skip
"""Ops that others compute, or a program for all sizes and values, or what an attribute says."""

_ALONE_SMALL: dict[Op, Callable[..., Any]] = {pow: _small_pow}
"""Likewise on small arrays."""


def bound(op: Op, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Callable[..., Any] | None:
    """What computes ``op`` of arrays like these alone, if that is more than `compute_of` to call:
    a kernel, or what fills an array; a small one is as soon copied."""
    if not arrays:
        fill = functools.partial(compute_of(op, True), np, **attrs)
        made = fill()
        return made.copy if made.size < SMALL else fill
    as_kernel = op.eager == "flat" or _runs_as_kernel(op, arrays)
    if as_kernel and all(map(_is_in_order, arrays)):
        return kernel_of(op, arrays, attrs)
    return None


def by_numpy(op: Op, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Callable[..., Any] | None:
    """The one function of NumPy that `Op.reference` comes to on arrays like these."""
    if op is cast:
        return methodcaller("astype", attrs["dtype"].numpy)
    if op is sum_op and arrays[0].dtype not in _NARROW:
        return functools.partial(np.add.reduce, axis=attrs["dims"], keepdims=attrs["keepdim"])
    return None


_KERNEL_FROM = {"native": 0, "large": LARGE, "exact": LARGE, "spread": SPREAD}
"""Elements from which on an op runs as its kernel, by what its `Op.eager` says."""


def _runs_as_kernel(op: Op, arrays: Sequence[Any]) -> bool:
    size = max(a.size for a in arrays if isinstance(a, np.ndarray))
    least = _KERNEL_FROM.get(op.eager)
    return least is not None and size >= least and (size < LARGE or op not in _ALONE)


def pays_often(op: Op, arrays: Sequence[Any]) -> bool:
    """Whether `kernel_of` computes ``op`` of small arrays faster than NumPy and to the same bits,
    so that it may where calls come often."""
    if not arrays or op in _ALONE_SMALL or (op.eager == "spread" and op.ufunc is not None):
        return False  # what fills an array is copied, and a call of a ufunc costs nothing
    most = _PAYS.get(op.eager, 0)
    return all(_is_in_order(a) and a.size < most for a in arrays if type(a) not in BY_PYTHON)


_PAYS = {"exact": LARGE, "spread": LARGE, "strided": 1 << 9, "few": 1 << 8}
"""Elements up to which kernels that NumPy gives the bits of pay; of those along a dim NumPy takes
some at a time."""


def kernel_of(op: Op, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Callable[..., Any]:
    """The kernel for arrays and numbers like these, called as `Op.reference` is, without attributes
    and the module."""
    arrays = _arrays(operands, 1 if op.promote == "tail" else 0)
    names = numbers_among(op, attrs, arrays[-1].dtype)
    further = [as_array(attrs[name], arrays[-1].dtype) for name in names]
    rest = {name: value for name, value in attrs.items() if name not in names}
    native = _native(with_operands(op, names)) if names else _native(op)
    fast = native.kernel([*arrays, *further], rest).fast
    if op.ufunc is None:  # whose numbers arrive as they are
        numbers = {i: a for i, a in enumerate(arrays) if a is not operands[i]}
        if numbers:
            return lambda *given: fast(*[numbers.get(i, a) for i, a in enumerate(given)], *further)
    return (lambda *arrays: fast(*arrays, *further)) if further else fast


def _is_in_order(a: Any) -> bool:
    return isinstance(a, np.ndarray) and a.flags.c_contiguous


class _Native:
    """The compiled kernels of an op, by the kind of the operands."""

    def __init__(self, op: Op) -> None:
        self._op = op
        self._kernels: dict[Hashable, Executable] = {}
        self._met: dict[Hashable, Executable] = {}  # by shapes, for operands that lie in order
        self.latest = ctypes.py_object()  # the native entry of the last that needed no attributes

    def __call__(self, xp: Any, *operands: Any, **attrs: Any) -> Any:
        """The op, as its reference is called."""
        op = self._op
        if xp is not np:
            return op.reference(xp, *operands, **attrs)
        if attrs:
            names = numbers_among(op, attrs, operands[-1].dtype)
            if names:
                rest = {name: value for name, value in attrs.items() if name not in names}
                numbers = (as_array(attrs[name], operands[-1].dtype) for name in names)
                return _native(with_operands(op, names))(np, *operands, *numbers, **rest)
        if not all([type(a) is np.ndarray for a in operands]):
            operands = _arrays(operands, 1 if op.promote == "tail" else 0)
        given = [(a.dtype, a.shape, a.flags.c_contiguous) for a in operands]
        key = (*given, attrs_key(attrs)) if attrs else tuple(given)
        kernel = self._met.get(key)
        results = None if kernel is None else kernel.fast(*operands)
        if results is None or type(results) is int:
            return self._of_any(operands, attrs, key)
        self._note(kernel, attrs)
        return results

    def _of_any(self, operands: Sequence[Array], attrs: Mapping[str, Any], key: Any) -> Any:
        op = self._op
        if all([a.flags.c_contiguous for a in operands]):
            kernel = self.kernel(operands, attrs)
            if len(self._met) >= _MET:
                self._met.clear()
            self._met[key] = kernel
            self._note(kernel, attrs)
            results = run(kernel, operands)
        else:
            results = self._of_turned(operands, attrs)
        if results is None:
            # a run that failed says at which line of the first call; the reference says it of this
            return op.reference(np, *operands, **attrs)
        return results

    def _note(self, kernel: Executable | None, attrs: Mapping[str, Any]) -> None:
        if kernel is not None and not attrs:
            self.latest.value = kernel.fast

    def _of_turned(self, operands: Sequence[Array], attrs: Mapping[str, Any]) -> Any:
        """Of operands that lie in one other order: work by element, and reductions over ``dims``,
        take them in that order, which needs no copies. None if the run failed."""
        reduces = "dims" in attrs and "keepdim" in attrs
        suits = reduces or type(self._op.lowering) is Elementwise
        order = _order(operands) if suits else None
        if order is None:
            return run(self.kernel(operands, attrs), operands)
        arrays = [a.transpose(order) if a.ndim else a for a in operands]
        if reduces:
            dims = attrs["dims"]
            attrs = {**attrs, "dims": tuple([i for i, d in enumerate(order) if d in dims])}
            if not attrs["keepdim"]:
                order = [d for d in order if d not in dims]
        results = run(self.kernel(arrays, attrs), arrays)
        return None if results is None else results.transpose(np.argsort(order))

    def kernel(self, arrays: Sequence[Array], attrs: Mapping[str, Any]) -> Executable:
        """The kernel for arrays of these kinds, compiled if there is none yet."""
        op, kernels = self._op, self._kernels
        shapes = (pattern(op, i, a.shape) for i, a in enumerate(arrays))
        kind = (*((a.dtype, s) for a, s in zip(arrays, shapes, strict=True)), attrs_key(attrs))
        kernel = _find(kernels, kind, arrays)
        if kernel is None:
            with compiling:
                kernel = _find(kernels, kind, arrays)
                if kernel is None:
                    known, kernel = _compiled(op, arrays, attrs)
                    if len(kernels) >= MOST_KINDS:
                        kernels.clear()
                        self._met.clear()
                    kernels[_exact(kind, arrays) if known else kind] = kernel
        return kernel


_native = functools.cache(_Native)


def latest_kernel(op: Op) -> Any:
    """What holds the native entry of the kernel that computed ``op`` last; None if not its kernel
    alone computes it of large arrays."""
    return None if op in _ALONE or op.eager not in _KERNEL_FROM else _native(op).latest


def _order(arrays: Sequence[Array]) -> Sequence[int] | None:
    """The order of dims in which all arrays lie in memory, if that is not the one they have: what
    is computed by element then needs no copies, and its result lies as they do."""
    turned = next((a for a in arrays if not a.flags.c_contiguous), None)
    if turned is None:
        return None
    order = tuple(np.argsort(turned.strides, kind="stable")[::-1].tolist())
    whole = (
        not a.ndim or (a.ndim == turned.ndim and a.transpose(order).flags.c_contiguous)
        for a in arrays
    )
    return order if all(whole) else None


def run(program: Executable, arrays: Sequence[Array]) -> Any:
    """What the program gives of ``arrays``, one array or a tuple of them; None if it failed."""
    result = program.fast(*arrays)
    if result is None and not all(a.flags.c_contiguous for a in arrays):
        arrays = [a if a.flags.c_contiguous else row_major(a) for a in arrays]
        result = program.fast(*arrays)
    if result is None:  # not as the native entry takes them
        try:
            results = program(arrays)
        except IndexRangeError:
            return None
        return results[0] if len(results) == 1 else tuple(results)
    return None if type(result) is int else result


def _exact(kind: Hashable, arrays: Sequence[Array]) -> Hashable:
    return (kind, *(a.shape for a in arrays))


def _find(
    kernels: Mapping[Hashable, Executable], kind: Hashable, arrays: Sequence[Array]
) -> Executable | None:
    return kernels.get(kind) or kernels.get(_exact(kind, arrays))


def pattern(op: Op, i: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of argument ``i`` that the kernel knows: those of 1, which broadcast, and of a
    batched op all but the batch. 0 stands for the others."""
    if not op.batched:
        return tuple([int(n == 1) for n in shape])
    return (int(shape[0] == 1), *shape[1:]) if i in op.batched else shape


def _arrays(operands: Sequence[Any], first: int) -> tuple[Array, ...]:
    """The operands with numbers as 0-d arrays; those from ``first`` on are all of one dtype."""
    arrays = (a for a in operands[first:] if isinstance(a, np.ndarray))
    dtype = next((a.dtype for a in arrays), None)
    return tuple(
        a if isinstance(a, np.ndarray) else np.asarray(a, dtype if i >= first else None)
        for i, a in enumerate(operands)
    )


def _compiled(op: Op, arrays: Sequence[Array], attrs: Any) -> tuple[bool, Executable]:
    """The kernel, with sizes unknown unless the type rule of the op wants to know them."""
    unknown = [
        [n or fresh_sym(f"x{i}_{d}") for d, n in enumerate(pattern(op, i, a.shape))]
        for i, a in enumerate(arrays)
    ]
    try:
        return False, _with_sizes(op, arrays, unknown, attrs)
    except (ShapeError, DTypeError):
        return True, _with_sizes(op, arrays, [a.shape for a in arrays], attrs)


def _with_sizes(
    op: Op, arrays: Sequence[Array], shapes: Sequence[Sequence[Size]], attrs: Any
) -> Executable:
    params = tuple(
        new_param(TensorType(BY_NUMPY[a.dtype], tuple(shape)), f"x{i}")
        for i, (a, shape) in enumerate(zip(arrays, shapes, strict=True))
    )
    node = make_node(op, params, attrs, ())
    outputs = [node]
    if isinstance(node.type, tuple):
        outputs = [make_node(item, (node,), {"index": i}, ()) for i in range(len(node.type))]
    return compiled(close(params, outputs))
