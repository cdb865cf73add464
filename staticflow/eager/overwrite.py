"""Large arrays overwritten: an in-place operation as one program that writes where it reads.

The function that an in-place form stores is traced on symbols of unknown sizes and compiled as an
update of its first argument, so that no other array is written. One program serves all operands of
a kind, as the kernels of `staticflow.eager.kernels` do. What is not made of elementwise work alone
is left to the operations, and so are operands that overlap, or that do not lie in rows.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.eager.costs import BEYOND, LARGE, SPREAD
from staticflow.eager.numbers import as_array, taken
from staticflow.eager.programs import UNMET, ArrayKind, Programs, compiled, kind_of
from staticflow.eager.rows import in_lines, in_order, in_rows, lies_apart
from staticflow.errors import StaticflowError
from staticflow.graph.dims import same
from staticflow.graph.dtypes import BY_NUMPY, bfloat16
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import attrs_key, close
from staticflow.graph.node import Node, constant, param, toposort
from staticflow.ops.basics.arithmetic import cast, clone, maximum, minimum, mul
from staticflow.ops.basics.expand import expand
from staticflow.ops.declaring.lowering import Elementwise, Generate, LoopNest, View
from staticflow.ops.declaring.thread import recording
from staticflow.ops.elementwise import variants
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.decompose import decompose
from staticflow.runtime.aligned import aligned_empty
from staticflow.runtime.executable import Executable
from staticflow.runtime.once import once
from staticflow.runtime.threads import get_num_threads

__all__ = ["copied", "latest_program", "overwritten", "put"]

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

_ARRAYS = (np.ndarray, np.generic)
_FUSED = (Elementwise, Generate, View)
_APART = (0.0, 1.0, 2.0, 3.0)
"""Numbers that a function may treat apart. Others reach the program as 0-d arrays."""

_EVEN = frozenset((variants.add, variants.sub, variants.div, mul, maximum, minimum))
"""Functions that treat no number apart."""

_BFLOAT16 = bfloat16.numpy
_TARGET = object()
"""The source of the param that a program updates."""

_ITSELF: Any = object()
"""In the place of an operand that is the array that is overwritten."""

_programs: Programs[Executable] = Programs()


def overwritten(
    fn: Function, x: Array, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> bool:
    """Put ``fn(x, *args, **kwargs)``, a function of ops, into ``x``. False, with nothing done, if
    ``x`` is not large or there is no program for it. Tensors are given as their arrays, and several
    as a tuple of these."""
    if x.size < LARGE or type(x) is not np.ndarray:
        return False
    dtype = x.dtype
    floating = BY_NUMPY[dtype].is_floating
    even = fn in _EVEN
    arrays = [x]
    given: dict[str | int, Any] = dict(enumerate(args))
    if kwargs:
        given.update(kwargs)
    key: list[Hashable] = [fn, dtype, x.shape, x.strides]
    for name, a in given.items():
        if floating and _is_operand(a, even):
            a = given[name] = as_array(a, dtype)
        if a is x:
            key.append(name)
        elif type(a) is np.ndarray:
            key.append((name, a.dtype, a.shape, a.strides))
            arrays.append(a)
        elif type(a) is tuple and a and all(type(part) is np.ndarray for part in a):
            key.append((name, *((part.dtype, part.shape, part.strides) for part in a)))
            arrays += a
        else:
            key.append((name, type(a), repr(a) if type(a) is float else a))
    call = tuple(key)
    try:
        program = _programs.by_call.get(call, UNMET)
    except TypeError:  # an operand that has no hash
        return False
    if program is UNMET:
        program = _find(fn, x, given)
        _programs.remember(call, program)
    if program is None or program.fast(*arrays) != ():
        return False
    if len(arrays) == 1 + len(given) and (not kwargs or [*kwargs] == ["alpha"]):
        latest_program(fn).value = program.fast
    return True


@once
def latest_program(fn: Function) -> Any:
    """What holds the native entry of the program that overwrote an array with ``fn`` of it and
    other arrays last."""
    return ctypes.py_object()


def put(target: Array, source: Array) -> None:
    """Copy ``source``, broadcast and cast, into ``target``. A large one is copied on all threads,
    and in strips where it is transposed."""
    alone = get_num_threads() == 1 and source.dtype == target.dtype and in_rows(source)
    alone = alone and (source.ndim > 0 or target.size < BEYOND)
    if target.size < SPREAD or alone or not _put_at_once(target, source):
        if target.dtype == source.dtype == _BFLOAT16:  # which NumPy moves one by one
            target, source = target.view(np.uint16), source.view(np.uint16)
        np.copyto(target, source)  # of one thread as fast, and on a GPU too


def copied(array: Array) -> Array:
    """A copy in row-major order."""
    large = array.size >= SPREAD
    out = (aligned_empty if large else np.empty)(array.shape, array.dtype)
    put(out, array)
    return out


def _put_at_once(target: Array, source: Array) -> bool:
    if type(target) is not np.ndarray or type(source) is not np.ndarray:
        return False
    if 0 in source.strides:  # then one of what repeats
        steps = zip(source.shape, source.strides, strict=True)
        source = source[tuple([slice(1) if s == 0 and n > 1 else slice(None) for n, s in steps])]
    alike = source.size == 1 or (source.shape == target.shape and in_order(source))
    if alike and in_order(target):  # whatever the dims
        return overwritten(_like, target.reshape(-1), (source.reshape(-1),))
    return overwritten(_like, target, (source,))


def _like(x: Any, value: Any) -> Any:
    # a clone, since a program copies what is nothing but that on one thread
    return clone(expand(_cast(value, x), x.shape))


def _cast(value: Any, x: Any) -> Any:
    return value if value.dtype is x.dtype else cast(value, dtype=x.dtype)


def _is_operand(a: Any, even: bool) -> bool:
    """Whether ``a`` is a number that reaches the program as an array: none that may be treated
    apart, or any for a function that is ``even``."""
    if type(a) is float:
        return even or a not in _APART or math.copysign(1, a) < 0  # -0.0
    return even and type(a) is int


def _find(fn: Function, x: Array, given: Mapping[str | int, Any]) -> Executable | None:
    """The program for such operands, made if there is none yet; None if there can be none."""
    values = (v for a in given.values() for v in (a if type(a) is tuple else (a,)))
    arrays = [a for a in values if isinstance(a, _ARRAYS)]
    if not (lies_apart(x) and in_rows(x) and all(map(in_lines, arrays))):
        return None

    def known(a: Any) -> Any:
        if type(a) is tuple:
            return tuple(map(known, a))
        if a is x:
            return _ITSELF
        return kind_of(a) if isinstance(a, np.ndarray) else a

    operands = {str(name): known(a) for name, a in given.items()}
    target = kind_of(x)
    kind = fn, target, attrs_key(operands)
    return _programs.find((kind, lambda: _compiled(fn, target, operands)))


@recording(True)
def _compiled(fn: Function, x: ArrayKind, operands: Mapping[str, Any]) -> Executable | None:
    target = x.param("x", _TARGET)
    params = [target]

    def argument(name: str, value: Any) -> Any:
        if type(value) is tuple:
            return tuple(argument(f"{name}_{i}", v) for i, v in enumerate(value))
        if value is _ITSELF:
            return Symbol(target)
        if type(value) is not ArrayKind:
            return value
        params.append(value.param(f"y{name}"))
        return Symbol(params[-1])

    given = {name: argument(name, value) for name, value in operands.items()}
    args = [a for name, a in given.items() if name.isdigit()]
    kwargs = {name: a for name, a in given.items() if not name.isdigit()}
    try:
        value = fn(Symbol(target), *args, **kwargs)
        if value.dtype.category > BY_NUMPY[x.dtype].category or value.ndim != len(x.sizes):
            return None
        (node,) = taken([_cast(value, Symbol(target)).node])
        sizes = zip(target.tensor_type.shape, value.node.tensor_type.shape, strict=True)
        equalities = [Equality(a, b, "it keeps the shape", ()) for a, b in sizes if not same(a, b)]
        graph = decompose(close(params, [node], equalities), Counter())
        return compiled(graph, [_TARGET]) if _stays_in_place(*graph.outputs) else None
    except (StaticflowError, TypeError):
        return None  # the operations say what is wrong


def _stays_in_place(node: Node) -> bool:
    """Whether a value is computed by element, or is the target with some elements replaced."""
    lowering = node.op.lowering
    updates = isinstance(lowering, LoopNest) and lowering.updates
    if updates and node.args[0].attrs.get("source") is not _TARGET:
        return False
    rest = toposort(node.args[1:] if updates else [node])
    return node.op is not param and all(
        type(n.op.lowering) in _FUSED or n.op in _GIVEN for n in rest
    )


_GIVEN = (param, constant)
