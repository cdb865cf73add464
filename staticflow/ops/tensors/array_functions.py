"""NumPy's functions of arrays called on tensors and symbols: ``np.concatenate([x, y])`` is
``cat([x, y])``, on the tape or in the graph. (Its elementwise functions are in `ufuncs`.)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.errors import AutogradError, DTypeError
from staticflow.graph.dims import prod
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along import order
from staticflow.ops.along.cumulative import cumprod, cumsum, diff
from staticflow.ops.along.extremes import amax, amin
from staticflow.ops.basics import creation, expand, joining, view
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.axes import fliplr, flipud, movedim, permute
from staticflow.ops.indexing import data_dependent, roll_repeat
from staticflow.ops.indexing.gather_ops import take_along_dim
from staticflow.ops.matrices.contract import dot, matmul
from staticflow.ops.matrices.determinants import det
from staticflow.ops.matrices.einsum import einsum
from staticflow.ops.matrices.products import inner, kron, outer, tensordot
from staticflow.ops.matrices.solving import inv, solve, solve_matrices
from staticflow.ops.matrices.triangle import diag, tril, triu
from staticflow.ops.statistics.moments import vector_norm

__all__ = ["array_function"]

Function = Callable[..., Any]
_ARRAY = np.empty(0)


def array_function(
    self: Any, func: Function, types: Iterable[type], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """What NumPy asks when one of its functions of arrays meets a tensor.

    Where there is a counterpart that takes the same arguments, that; a function that NumPy says by
    a method, by that of the tensor; any other computes with the values, and gives arrays. Raises
    `AutogradError` for values with a history, `SymbolicError` for those of symbols, and
    `DTypeError` for a function that would write to a tensor.
    """
    counterpart = _COUNTERPARTS.get(func)
    if counterpart is not None and _takes(counterpart, args, kwargs):
        given = [_tensors(a, self) for a in args]
        return counterpart(*given, **{k: _tensors(v, self) for k, v in kwargs.items()})
    if func in _BY_METHOD:
        return np.ndarray.__array_function__(_ARRAY, func, (), args, kwargs)
    if func in _WRITING or hasattr(kwargs.get("out"), "__sf_mode__"):
        raise DTypeError(
            f"{shown_name(func)} cannot write to a tensor; use an in-place method of its own, or "
            f"give its values (x.detach().numpy() of an eager tensor), at {format_locs(here())}"
        )
    named = {k: _values(v, func) for k, v in kwargs.items()}
    return func(*(_values(a, func) for a in args), **named)


def shown_name(func: Function) -> str:
    """A function of NumPy as users call it."""
    return f"{func.__module__.replace('numpy', 'np', 1)}.{func.__name__}"


def _values(given: Any, func: Function) -> Any:
    """Tensors as arrays on their memory, also in lists and tuples."""
    if type(given) in (list, tuple):
        return type(given)(_values(g, func) for g in given)
    if not hasattr(given, "__sf_mode__"):
        return given
    if given.requires_grad and not given.__sf_mode__.rank:
        raise AutogradError(
            f"{shown_name(func)} computes with the values of a tensor that requires a gradient, "
            f"and what it gives would have no history; give it x.detach(), at {format_locs(here())}"
        )
    return np.asarray(given)


def _takes(counterpart: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(counterpart).bind(*args, **kwargs)
    except TypeError:
        return False
    return kwargs.get("out") is None and kwargs.get("order", "C") == "C"


def _tensors(given: Any, beside: Any) -> Any:
    """Arrays as tensors, also in lists and tuples."""
    if isinstance(given, np.ndarray):
        return cast.beside(beside, given, dtype=dtype_of(given.dtype))
    if type(given) in (list, tuple):
        return type(given)(_tensors(g, beside) for g in given)
    return given


# -- counterparts, with NumPy's arguments ---------------------------------------------------------


def _rows(arrays: Any) -> Any:
    """A tensor where NumPy takes several arrays: its rows."""
    return arrays.unbind(0) if hasattr(arrays, "__sf_mode__") else arrays


def _concatenate(arrays: Any, axis: int | None = 0) -> Any:
    arrays = _rows(arrays)
    arrays = [_tensors(np.asarray(a) if isinstance(a, list) else a, arrays[0]) for a in arrays]
    if axis is None:
        return joining.cat([view.ravel(a) for a in arrays])
    return joining.cat(arrays, axis)


def _dot(a: Any, b: Any) -> Any:
    if not (hasattr(a, "ndim") and hasattr(b, "ndim") and a.ndim and b.ndim):
        return a * b
    if a.ndim == b.ndim == 1:
        return dot(a, b)
    return matmul(a, b) if b.ndim <= 2 else tensordot(a, b, ([-1], [-2]))


def _einsum(subscripts: str, *operands: Any) -> Any:
    return einsum(subscripts, *operands)


def _extreme(pick: Function) -> Function:
    def extreme(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
        return pick(a, tuple(range(a.ndim)) if axis is None else axis, keepdims)

    return extreme


def _norm(x: Any, ord: None = None, axis: Any = None, keepdims: bool = False) -> Any:
    return vector_norm(x, 2, axis, keepdims)


def _ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    over = tuple(range(a.ndim)) if axis is None else axis
    return amax(a, over, keepdims) - amin(a, over, keepdims)


def _solve(a: Any, b: Any) -> Any:
    return solve(a, b) if b.ndim == 1 else solve_matrices(a, b)


def _sort(a: Any, axis: int | None = -1) -> Any:
    return order.sort(view.ravel(a), 0)[0] if axis is None else order.sort(a, axis)[0]


def _running(accumulate: Function) -> Function:
    return lambda a, axis=None: (
        accumulate(view.ravel(a), 0) if axis is None else accumulate(a, axis)
    )


def _argsort(a: Any, axis: int | None = -1) -> Any:
    return order.argsort(view.ravel(a), 0) if axis is None else order.argsort(a, axis)


def _take(a: Any, indices: Any, axis: int | None = None) -> Any:
    if axis is None:
        return view.ravel(a)[_as_index(indices)]
    return a[(slice(None),) * (axis % a.ndim) + (_as_index(indices),)]


def _as_index(indices: Any) -> Any:
    return indices if hasattr(indices, "__sf_mode__") else np.asarray(indices)


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return a.diagonal(offset, axis1, axis2).sum(-1)


def _transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    return permute(a, tuple(range(a.ndim))[::-1] if axes is None else tuple(axes))


_COUNTERPARTS: dict[Any, Function] = {
    # shapes
    np.reshape: lambda a, /, shape, order="C": view.reshape(a, shape),
    np.ravel: lambda a, order="C": view.ravel(a),
    np.transpose: _transpose,
    np.moveaxis: lambda a, source, destination: movedim(a, source, destination),
    np.expand_dims: lambda a, axis: view.unsqueeze(a, axis),
    np.broadcast_to: lambda array, shape: expand.broadcast_to(array, shape),
    np.flip: lambda m, axis=None: m.flip(tuple(range(m.ndim)) if axis is None else axis),
    np.flipud: lambda m: flipud(m),
    np.fliplr: lambda m: fliplr(m),
    np.roll: lambda a, shift, axis=None: roll_repeat.roll(a, shift, axis),
    np.size: lambda a: prod(a.shape),
    # several
    np.concatenate: _concatenate,
    np.stack: lambda arrays, axis=0: joining.stack(_rows(arrays), axis),
    np.vstack: lambda tup: joining.vstack(_rows(tup)),
    np.hstack: lambda tup: joining.hstack(_rows(tup)),
    np.dstack: lambda tup: joining.dstack(_rows(tup)),
    np.column_stack: lambda tup: joining.column_stack(_rows(tup)),
    np.tile: lambda A, reps: joining.tile(A, reps if isinstance(reps, list | tuple) else (reps,)),
    np.repeat: lambda a, repeats, axis=None: roll_repeat.repeat_interleave(a, repeats, axis),
    # products
    np.dot: _dot,
    np.inner: lambda a, b: inner(a, b),
    np.outer: lambda a, b: outer(view.ravel(a), view.ravel(b)),
    np.kron: lambda a, b: kron(a, b),
    np.tensordot: lambda a, b, axes=2: tensordot(a, b, axes),
    np.einsum: _einsum,
    np.linalg.inv: lambda a: inv(a),
    np.linalg.det: lambda a: det(a),
    np.linalg.solve: _solve,
    np.linalg.norm: _norm,
    # parts
    np.diag: lambda v, k=0: diag(v, k),
    np.diagonal: lambda a, offset=0, axis1=0, axis2=1: a.diagonal(offset, axis1, axis2),
    np.trace: _trace,
    np.tril: lambda m, k=0: tril(m, k),
    np.triu: lambda m, k=0: triu(m, k),
    np.take: _take,
    np.take_along_axis: lambda arr, indices, axis=-1: take_along_dim(arr, indices, axis),
    np.where: lambda condition, x, y, /: data_dependent.where(condition, x, y),
    # order and sums
    np.max: _extreme(amax),
    np.amax: _extreme(amax),
    np.min: _extreme(amin),
    np.amin: _extreme(amin),
    np.ptp: _ptp,
    np.sort: _sort,
    np.argsort: _argsort,
    np.cumsum: _running(cumsum),
    np.cumprod: _running(cumprod),
    np.diff: lambda a, n=1, axis=-1: diff(a, n, axis),
    # of the same kind
    np.zeros_like: lambda a: creation.zeros_like(a),
    np.ones_like: lambda a: creation.ones_like(a),
    np.full_like: lambda a, fill_value: creation.full_like(a, fill_value),
    np.nan_to_num: lambda x: x.nan_to_num(),
}

_BY_METHOD = frozenset({
    np.all, np.any, np.argmax, np.argmin, np.array_split,
    np.around, np.clip, np.cumprod, np.cumsum, np.dsplit, np.hsplit, np.isneginf, np.isposinf,
    np.mean, np.ndim, np.prod, np.round, np.shape, np.split, np.squeeze, np.std, np.sum,
    np.swapaxes, np.unstack, np.var, np.vsplit, np.linalg.diagonal, np.linalg.matmul,
    np.linalg.tensordot,
})  # fmt: skip
"""Functions that NumPy says by methods and operators, which mean the same on tensors."""

_WRITING = frozenset({np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask})
"""Functions that change their first argument."""
