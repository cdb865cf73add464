"""Large arrays overwritten: an in-place operation as one program that writes where it reads.

The function that an in-place form stores is traced and compiled as an update of its first argument
(`staticflow.eager.programs`), so that no other array is written. What is not made of elementwise
work alone is left to the operations, and so are operands that overlap, or that do not lie in rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager.costs import BEYOND, LARGE, SPREAD
from staticflow.eager.numbers import as_array, is_apart
from staticflow.eager.powers import power_by
from staticflow.eager.programs import (
    NUMBER,
    UNMET,
    Kinds,
    Programs,
    close_over,
    compile_graph,
    fill,
    kind_of,
    mark,
    params_of,
    position,
    trace,
)
from staticflow.eager.rows import in_lines, in_order, in_rows, lies_apart, order_of
from staticflow.eager.turned import turn
from staticflow.graph.dtypes import BY_NUMPY, bfloat16
from staticflow.graph.graph import Graph, exactly
from staticflow.graph.node import constant, param, toposort
from staticflow.graph.rowmajor import copy_to, repeats_few
from staticflow.ops.basics.arithmetic import add, cast, clone, maximum, minimum, mul
from staticflow.ops.basics.axes import permute, permute_op
from staticflow.ops.basics.expand import expand
from staticflow.ops.declaring.lowering import Elementwise, Generate, LoopNest, View
from staticflow.ops.declaring.thread import thread
from staticflow.ops.elementwise import variants
from staticflow.ops.elementwise.maths import pow
from staticflow.ops.symbols.symbol import Symbol
from staticflow.runtime.aligned import aligned_empty
from staticflow.runtime.executable import Executable
from staticflow.runtime.once import once
from staticflow.runtime.threads import get_num_threads

__all__ = ["Overwriting", "add_into", "copy_into", "make_copy", "overwrite", "programs_of"]

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

_FUSED = (Elementwise, Generate, View)
_EVEN = frozenset((variants.add, variants.sub, variants.div, mul, maximum, minimum))
"""Functions that treat no number apart from others."""

_ITSELF = position(0)
_BESIDE = ((), ("alpha",))
"""The arguments by name of calls that native code repeats (`staticflow.eager.fast.change`)."""


# -- by a function -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Program:
    """What overwrites an array; arrays of as many dims as an ``order`` has are given with these in
    that, unless it is None."""

    executable: Executable
    order: tuple[int, ...] | None


@once
def programs_of(fn: Function) -> Programs[_Program]:
    """The programs that overwrite an array with ``fn`` of it. `Programs.latest` is the last that
    took arrays alone."""
    return Programs()


@dataclass(frozen=True, slots=True)
class Overwriting:
    """How `overwrite` put new elements into an array: the ``program`` that ran, the ``arrays`` that
    it took, the overwritten one first, and the indices of those that hold a number of Python's."""

    program: _Program
    arrays: Sequence[Array]
    numbers: Sequence[int]


def overwrite(
    fn: Function, x: Array, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Overwriting | None:
    """Put ``fn(x, *args, **kwargs)``, a function of ops, into ``x``. None, with nothing done, if
    ``x`` is not large or there is no program for it. Tensors are given as their arrays, and several
    as a tuple of these."""
    if x.size < LARGE or type(x) is not np.ndarray:
        return None
    dtype = x.dtype
    if fn is pow and len(args) == 1 and not kwargs:
        by_one = power_by(args[0], dtype)
        if by_one is not None:
            fn, args = by_one, ()
    floating = BY_NUMPY[dtype].is_floating
    even = fn in _EVEN
    names = tuple(kwargs) if kwargs else ()
    values: list[Any] = [*args, *kwargs.values()] if kwargs else [*args]
    arrays = [x]
    numbers: list[int] = []
    key: list[Any] = [names, dtype, x.shape, x.strides]
    for i, a in enumerate(values):
        if floating and (even or not is_apart(a) if type(a) is float else even and type(a) is int):
            numbers.append(len(arrays))
            arrays.append(as_array(a, dtype))
            values[i] = NUMBER
            key.append(NUMBER)
        elif a is x:
            values[i] = _ITSELF
            key.append(_ITSELF)
        elif type(a) is np.ndarray:
            key += a.dtype, a.shape, a.strides
            arrays.append(a)
        elif type(a) is tuple and a and all([type(part) is np.ndarray for part in a]):
            key.append(tuple([(part.dtype, part.shape, part.strides) for part in a]))
            arrays += a
        else:
            key += type(a), repr(a) if type(a) is float else a
    programs, call = programs_of(fn), tuple(key)
    try:
        program = programs.by_call.get(call, UNMET)
    except TypeError:  # an operand that has no hash
        return None
    if program is UNMET:
        program = programs.remember(call, _find(fn, arrays, values, names))
    if program is None:
        return None
    entry = program.executable.fast
    if program.order is not None:
        done = entry(*_turn(arrays, program.order)) == ()
        return Overwriting(program, arrays, numbers) if done else None
    if entry(*arrays) != ():
        return None
    if len(arrays) == 1 + len(values) and names in _BESIDE and fn is not pow:
        programs.latest.value = entry
    return Overwriting(program, arrays, numbers)


def _turn(arrays: Sequence[Array], order: tuple[int, ...]) -> list[Array]:
    """Arrays, those of as many dims as an order has with their dims in that."""
    return [a.transpose(order) if a.ndim == len(order) else a for a in arrays]


def _find(
    fn: Function, arrays: Sequence[Array], values: Sequence[Any], names: tuple[str, ...]
) -> _Program | None:
    """The program for arguments of these ``values``, the last by ``names``; None if there is none,
    as where arrays do not lie so that it may write there, or read. Arrays that all lie in another
    order of their dims are taken in that, and so is what the function gives."""
    order = order_of(arrays)
    x, *others = arrays if order is None else _turn(arrays, order)
    lie_well = lies_apart(x) and in_rows(x) and (order is not None or all(map(in_lines, others)))
    if not lie_well or any(isinstance(a, np.generic) for a in values):
        return None
    marked = mark(values, lambda a: type(a) is np.ndarray, first=1)
    make = partial(_compile, fn, marked, names, order)
    known = names, exactly(marked), order
    return programs_of(fn).find(known, make, tuple(map(kind_of, (x, *others))))


def _compile(
    fn: Function,
    marked: tuple[Any, ...],
    names: tuple[str, ...],
    order: tuple[int, ...] | None,
    kinds: Kinds,
) -> _Program | None:
    first = len(marked) - len(names)  # of those by name

    def call(*operands: Symbol) -> Any:
        if order is not None:
            back = tuple(np.argsort(order).tolist())
            operands = tuple([permute(s, back) if s.ndim == len(order) else s for s in operands])
        values = fill(marked, operands)
        named = dict(zip(names, values[first:], strict=True))
        found = fn(operands[0], *values[:first], **named)
        return found if order is None else turn(found, order)

    from staticflow.passes.decompose import decompose  # imported where something is compiled
    from staticflow.passes.rewrite import Counts

    params = params_of(kinds, updated=1)
    (node,), _ = trace(call, params)
    value, target = Symbol(node), Symbol(params[0])
    if value.dtype.category > target.dtype.category or value.ndim != target.ndim:
        return None
    graph = decompose(close_over(params, [_cast(value, target).node]), Counts())
    if not _stays_in_place(graph):
        return None
    return _Program(compile_graph(graph), order)


def _stays_in_place(graph: Graph) -> bool:
    """Whether the new value is computed by element, or is the old one with some elements
    replaced."""
    (value,) = graph.outputs
    lowering = value.op.lowering
    updates = isinstance(lowering, LoopNest) and lowering.updates
    if updates and value.args[0] is not graph.params[0]:
        return False
    rest = toposort(value.args[1:] if updates else [value])
    return value.op not in (param, permute_op) and all(
        type(n.op.lowering) in _FUSED or n.op in (param, constant) for n in rest
    )


def _cast(value: Any, x: Any) -> Any:
    return value if value.dtype is x.dtype else cast(value, dtype=x.dtype)


def add_into(total: Array, more: Array) -> None:
    """Add an array to another of its shape and dtype, in place."""
    if total.size < SPREAD or not overwrite(add, total, (more,)):
        thread.state.run(np.add, total, more, total)


# -- by a copy -----------------------------------------------------------------------------------


def copy_into(target: Array, source: Array) -> None:
    """Copy ``source``, broadcast and cast, into ``target``. A very large one is copied on all
    threads, and a large one in strips where it is transposed; one whose elements come a few times
    each so many times, which takes a sixth of the time: a million float32, each twice, 0.6
    milliseconds."""
    alone = target.size < SPREAD or get_num_threads() == 1
    alike = source.strides == target.strides and source.shape == target.shape
    alone = alone and source.dtype == target.dtype and (alike or in_rows(source))
    alone = alone and (source.ndim > 0 or target.size < BEYOND)
    alone = alone or target.size < LARGE or repeats_few(target, source)
    if alone or not _copy_by_program(target, source):
        if target.dtype == source.dtype == _BFLOAT16:  # which NumPy moves one by one
            target, source = target.view(np.uint16), source.view(np.uint16)
        copy_to(target, source)  # of one thread as fast, and on a GPU too


def make_copy(array: Array) -> Array:
    """A copy in row-major order."""
    large = array.size >= LARGE  # then its memory is kept for the next one
    out = (aligned_empty if large else np.empty)(array.shape, array.dtype)
    copy_into(out, array)
    return out


_BFLOAT16 = bfloat16.numpy


def _copy_by_program(target: Array, source: Array) -> bool:
    if type(target) is not np.ndarray or type(source) is not np.ndarray:
        return False
    if 0 in source.strides:  # then one of what repeats
        steps = zip(source.shape, source.strides, strict=True)
        source = source[tuple([slice(1) if s == 0 and n > 1 else slice(None) for n, s in steps])]
    alike = source.size == 1 or (source.shape == target.shape and in_order(source))
    if alike and in_order(target):  # whatever the dims
        return overwrite(_spread, target.reshape(-1), (source.reshape(-1),)) is not None
    return overwrite(_spread, target, (source,)) is not None


def _spread(x: Any, value: Any) -> Any:
    """``value`` in the shape and dtype of ``x``."""
    # a clone, since a program copies what is nothing but that on one thread
    return clone(expand(_cast(value, x), x.shape))
