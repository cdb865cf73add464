"""The fast path of elementwise operations: one Python frame from the operator to NumPy.

Every such op of one or two operands has here a function of its own, made once, which is what
`Tensor` has as its method and operator. It takes the usual case: tensors of one dtype, or a tensor
beside a number that does not change it, nothing special going on in the thread. Everything else,
errors included, goes to the general path, `staticflow.eager.mode`, which gives the same.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

import numpy as np

from staticflow.eager.gpu import as_array
from staticflow.eager.kernels import LARGE, compute_of
from staticflow.eager.memory import Memory
from staticflow.eager.vertex import LEAF, EvenEntry, Shadow, TapeEntry, entered
from staticflow.graph.dtypes import BY_NUMPY, BY_PYTHON, bfloat16
from staticflow.graph.op import OUT, Op
from staticflow.ops.declare import PerElement
from staticflow.ops.lowering import Contract, Elementwise
from staticflow.ops.promote import usual_dtypes
from staticflow.ops.thread import thread

__all__ = ["fast_form", "number_beside"]

General = Callable[[Op, tuple[Any, ...]], Any]

_getframe = sys._getframe
_new = object.__new__
_array = np.ndarray
_BFLOAT16 = bfloat16.numpy
_NO_ATTRS: dict[str, Any] = {}


def fast_form(op: Op, tensor: type, general: General) -> Callable[..., Any] | None:
    """The function that applies ``op`` to tensors by the fast path; None if it has none."""
    even = type(op.lowering) is Elementwise
    if not (even or type(op.lowering) is Contract) or op.promote not in ("common", "float"):
        return None
    if even and op.vjp is not None and type(op.vjp) is not PerElement:
        return None
    _, *parameters = inspect.signature(op.reference).parameters.values()
    make = {1: _unary, 2: _binary}.get(len(parameters))
    attributes = any(p.kind is p.KEYWORD_ONLY for p in parameters)
    if make is None or attributes or (make is _binary and op.eager == "large"):
        return None
    apply = make(op, tensor, general)
    assert isinstance(apply, FunctionType)
    code = apply.__code__  # whose first variables are the arguments, by which callers name them
    names = *op.names[: len(parameters)], *code.co_varnames[len(parameters) :]
    apply.__code__ = code.replace(co_varnames=names)
    apply.__name__ = apply.__qualname__ = op.name
    apply.__doc__ = op.doc
    return apply


def _computes(op: Op) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What computes the op on small and on large arrays."""
    small, large = (partial(compute_of(op, is_large), np) for is_large in (False, True))
    return small if op.ufunc is None else getattr(np, op.ufunc), large


def _uses(op: Op, what: int, of: int) -> bool:
    """Whether the cotangent of argument ``of`` needs the value of ``what``."""
    return what in (op.saves if op.saves_for is None else op.saves_for[of])


def _number(value: Any, dtype: Any) -> Any:
    """A number as a 0-d array, which NumPy takes up faster. Raises `TypeError` if it would change
    the dtype."""
    if BY_PYTHON[type(value)].category > BY_NUMPY[dtype].category:
        raise TypeError("the number is of a higher category than the tensor")
    return thread.state.run(np.asarray, value, dtype)


_known_number = lru_cache(4096, typed=True)(_number)
_NUMBERS = frozenset(BY_PYTHON)


def number_beside(value: Any, dtype: Any) -> Any:
    """The number ``value`` as an array of NumPy's ``dtype``. Raises `TypeError` for what is none,
    or of a higher category."""
    if type(value) not in _NUMBERS:
        raise TypeError("no number")
    return _known_number(value, dtype) if value else _number(value, dtype)  # 0.0 is not -0.0


def _unary(op: Op, tensor: type, general: General) -> Callable[[Any], Any]:
    small, large = _computes(op)
    dtypes = usual_dtypes(op)
    saves, saves_result, recordable = 0 in op.saves, OUT in op.saves, op.vjp is not None

    def apply(x: Any) -> Any:
        state = thread.state
        try:
            a, u = x._data, x._vertex
            compute = small if a.size < LARGE or type(a) is not _array else large
            usual = a.dtype in dtypes and state.plain
            data = state.run(compute, a) if usual else None
        except Exception:  # the general path does it, or says what is wrong
            data = None
        if data is None:
            return general(op, (x,))
        if type(data) is not _array:
            data = as_array(data)
        out: Any = _new(tensor)
        out._data = data
        out._memory = out._view = out._vertex = out._grad = out.name = out._hooks = None
        if not state.recording or not recordable:
            return out
        if x._view is not None:
            u = x._edge()
        if u is None:
            return out
        args: Any
        if saves:
            memory = x._memory or x._own_memory()
            args = ((a, memory, memory.version),)
        else:
            args = (None,)
        result = None
        if saves_result:
            memory = out._memory = Memory()
            result = data, memory, 0
        edges = (x if u is LEAF else u,)
        out._vertex = entered(EvenEntry, op, _NO_ATTRS, edges, args, result, _getframe(1))
        return out

    return apply


def _binary(op: Op, tensor: type, general: General) -> Callable[[Any, Any], Any]:
    small, large = _computes(op)
    dtypes = usual_dtypes(op)
    first_for_first, first_for_second = _uses(op, 0, 0), _uses(op, 0, 1)
    second_for_first, second_for_second = _uses(op, 1, 0), _uses(op, 1, 1)
    out_for_first, out_for_second = _uses(op, OUT, 0), _uses(op, OUT, 1)
    recordable, by_number = op.vjp is not None, op.ufunc is None
    even = type(op.lowering) is Elementwise

    def apply(x: Any, y: Any) -> Any:
        state = thread.state
        x_number, y_number = type(x) in _NUMBERS, type(y) in _NUMBERS
        u = v = None
        try:
            if not (x_number or y_number):
                a, b, u, v = x._data, y._data, x._vertex, y._vertex
                dtype = a.dtype
                usual = b.dtype is dtype and (even or type(a) is type(b) is _array)
            elif not even:
                return general(op, (x, y))
            elif y_number:
                a, u = x._data, x._vertex
                usual, dtype = True, a.dtype
                b = _known_number(y, dtype) if y else _number(y, dtype)
                if by_number and dtype is not _BFLOAT16:
                    b = y
            else:
                b, v = y._data, y._vertex
                usual, dtype = True, b.dtype
                a = _known_number(x, dtype) if x else _number(x, dtype)
                if by_number and dtype is not _BFLOAT16:
                    a = x
            usual = usual and dtype in dtypes and state.plain
            compute = small if (b if x_number else a).size < LARGE else large
            data = state.run(compute, a, b) if usual else None
        except Exception:  # the general path does it, or says what is wrong
            data = None
        if data is None:
            return general(op, (x, y))
        if type(data) is not _array:
            data = as_array(data)
        out: Any = _new(tensor)
        out._data = data
        out._memory = out._view = out._vertex = out._grad = out.name = out._hooks = None
        if not state.recording or not recordable:
            return out
        if not x_number and x._view is not None:
            u = x._edge()
        if not y_number and y._view is not None:
            v = y._edge()
        if u is None and v is None:
            return out
        kind: type[TapeEntry] = EvenEntry
        first = second = None
        if x_number:
            first = x
        elif (first_for_first and u is not None) or (first_for_second and v is not None):
            memory = x._memory or x._own_memory()
            first = a, memory, memory.version
        if y_number:
            second = y
        elif (second_for_first and u is not None) or (second_for_second and v is not None):
            memory = y._memory or y._own_memory()
            second = b, memory, memory.version
        if not (x_number or y_number or (even and a.shape == b.shape)):
            kind, shape = TapeEntry, data.shape
            first = first or (None if a.shape == shape else Shadow(x))
            second = second or (None if b.shape == shape else Shadow(y))
        result = None
        if (out_for_first and u is not None) or (out_for_second and v is not None):
            memory = out._memory = Memory()
            result = data, memory, 0
        edges = x if u is LEAF else u, y if v is LEAF else v
        args = first, second
        out._vertex = entered(kind, op, _NO_ATTRS, edges, args, result, _getframe(1))
        return out

    return apply
