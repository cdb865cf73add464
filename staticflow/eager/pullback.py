"""Vjps of large arrays, compiled: what a cotangent computes on its way is then never stored.

A vjp is declared once, in ops, and op by op it is a pass over memory for each of them. On large
arrays it is traced on symbols of unknown sizes, as the static gradient traces it, and the
cotangents that take more than one computation become a program (`staticflow.eager.programs`). The
others (a product, a view) are left as they are, and so is whatever is made of matrix products or
loops, which are worth an operation of their own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager.costs import LARGE
from staticflow.eager.kernels import sizes_known
from staticflow.eager.noted_programs import run_noted
from staticflow.eager.numbers import as_array, is_apart, number_dtype, numbers_among
from staticflow.eager.programs import MOST_CALLS, UNMET, ArrayKind, Programs, compile_graph
from staticflow.eager.rows import order_of
from staticflow.eager.turned import turn
from staticflow.errors import AutogradError
from staticflow.graph.dtypes import BY_PYTHON, float32
from staticflow.graph.equalities import Equality, unify
from staticflow.graph.graph import attrs_key, close, new_param
from staticflow.graph.locs import using
from staticflow.graph.node import Node, constant, item, param, toposort
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType, types_of
from staticflow.ops.basics.axes import permute
from staticflow.ops.basics.expand import expand
from staticflow.ops.declaring.declare import PerElement
from staticflow.ops.declaring.lowering import (
    Checked,
    Elementwise,
    Generate,
    LoopNest,
    Reduce,
    View,
)
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.symbols.symbol import Symbol
from staticflow.runtime.executable import Executable
from staticflow.runtime.once import once

__all__ = ["may_compile", "programs_of", "pull_by_program", "when_compiled"]

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]

_FUSED = (Checked, Elementwise, Generate, LoopNest, Reduce, View, type(None))
"""The lowerings of what such a program may compute; None: said in other ops."""


# -- a call --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Value:
    """What the program knows of a value that the vjp takes: a number; or an array of ``sizes`` (0:
    unknown), which holds one element where it is ``stretched``, and none if only its ``shape`` is
    used. One that is ``turned`` is given with its dims in the order of the vjp. An array of no dims
    that ``is_number`` is one."""

    dtype: Any
    sizes: tuple[int, ...] = ()
    stretched: tuple[int, ...] = ()
    is_shape: bool = False
    number: Any = None
    turned: bool = False
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class _Program:
    """What gives the cotangents of the arguments ``native``, if any; the vjp gives ``rest`` op by
    op."""

    executable: Executable | None = None
    native: tuple[int, ...] = ()
    rest: tuple[bool, ...] | None = None


@once
def programs_of(op: Op) -> Programs[_Program]:
    """The programs of the vjp of an op."""
    return Programs()


def when_compiled(op: Op) -> Literal["never", "large", "always"]:
    """The arrays for which the vjp of an op of one result may be a program: none, as of a view and
    of what stands on the tape only; ``large`` ones; or all."""
    if type(op.lowering) is View or type(op.lowering) not in _FUSED:
        return "never"
    if op.lowering is None and op.decompose is None:
        return "never"
    # (what chooses elements beside their indices moves cotangents, to the same bits)
    return "always" if op.numpy == "slower" and not op.shapeless else "large"


def pull_by_program(
    op: Op, needs: Sequence[bool], ct: Any, out: Any, args: Sequence[Any], attrs: Mapping[str, Any]
) -> Sequence[Any] | None:
    """What ``op.vjp`` gives of these: arrays where it was compiled and no ops are noted, else
    tensors. None if nothing is large or to be compiled. Of an argument or result a `SavedType` may
    be all that is known."""
    when = when_compiled(op)
    if when == "never" or (op.lowering is None and any(map(callable, attrs.values()))):
        return None  # (a user's function is called)
    several = type(out) is tuple
    cts = ct if several else (ct,)
    whole = not (_any_large(cts) or _any_large(args))  # small ones are copied, if they lie apart
    if whole and not several and when != "always":
        return None
    first = next(c._data for c in cts if c is not None)
    known: list[Array] = []
    arrays: list[Array] = []
    results = (*cts, *(out if several else (out,)))
    order = None if whole else _order_of((*results, *args))
    values = _hand_over(results, args, first.dtype, known, arrays, order, whole)
    if values is None:
        return None
    # beside operands of no dims a 0-d operand would raise their dtype, as a number does not
    names = numbers_among(op, attrs, first.dtype) if first.ndim else ()
    constants = {name: None if name in names else value for name, value in attrs.items()}
    call = (len(cts), *needs, attrs_key(constants), names, order, *values)
    programs = programs_of(op)
    program = programs.by_call.get(call, UNMET)
    if program is UNMET:
        vjp = _Vjp(op, len(cts), tuple(needs), constants, names, order)
        program = programs.remember(call, _find(vjp, values))
    if program is None or program.executable is None:
        return None
    known += [as_array(attrs[name], first.dtype) for name in names]
    found = run_noted(program.executable, known, arrays, (*results, *args))
    if found is None:
        return None
    pulled: list[Any] = [None] * len(args)
    if program.rest is not None:
        assert op.vjp is not None
        pulled = list(op.vjp(program.rest, ct, out, *args, **attrs))
    found = found if type(found) is tuple else (found,)
    for i, result in zip(program.native, found, strict=True):
        pulled[i] = result if order is None else _turn_back(result, order)
    return pulled


def _order_of(values: Sequence[Any]) -> Order | None:
    """The order of dims in which all arrays of values lie, if that is not the one they have."""
    arrays = [a for v in values if type(a := getattr(v, "_data", None)) is np.ndarray]
    return None if all([a.flags.c_contiguous for a in arrays]) else order_of(arrays)


def _turn_back(result: Array, order: Order) -> Array:
    return result.transpose(np.argsort(order)) if result.ndim == len(order) else result


def _any_large(values: Sequence[Any]) -> bool:
    for v in values:
        data = getattr(v, "_data", None)
        if data is not None:
            if data.size >= LARGE:
                return True
        elif v is not None and type(v) not in BY_PYTHON and math.prod(v.shape) >= LARGE:
            return True
    return False


def _hand_over(
    results: Sequence[Any],
    args: Sequence[Any],
    dtype: Any,
    known: list[Array],
    arrays: list[Array],
    order: Order | None,
    whole: bool,
) -> list[Any] | None:
    """What a program is to know of the cotangents and results, and of the arguments: the fields of
    a `_Value` of each, or None. What is handed over of them goes to ``arrays``, and to ``known``
    what all calls of the kind have alike: numbers, and what tells shapes. Arrays that are given
    ``whole`` are taken as row-major. None if some are no arrays of NumPy."""
    values: list[Any] = []
    count = len(results)
    for i, v in enumerate((*results, *args)):
        data = getattr(v, "_data", None)
        if data is None:
            values.append(None if i < count else _describe(v, dtype, known))
        elif type(data) is not np.ndarray:
            return None
        elif whole or data.flags.c_contiguous:
            values.append((data.dtype, data.shape))
            arrays.append(data)
        elif order and (turned := _row_major_in(data, order)) is not None:
            values.append((data.dtype, data.shape, (), False, None, True))
            arrays.append(turned)
        else:
            values.append(_without_repeats(data, known, arrays))
    return values


def _row_major_in(array: Array, order: Order) -> Array | None:
    """An array with its dims in an order; None unless it is row-major then."""
    part = array.transpose(order) if array.ndim == len(order) else array
    return part if part.flags.c_contiguous else None


def _describe(a: Any, dtype: Any, known: list[Array]) -> Any:
    """Hand over an argument that was not kept as what tells its shape, and a number, unless it is a
    constant of the program, as an array of no dims."""
    if type(a) not in BY_PYTHON:
        array = _shape_of(a.shape, a.dtype.numpy)
        known.append(array)
        return array.dtype, a.shape, (), True
    if is_apart(a):
        return dtype, (), (), False, a
    known.append(np.asarray(a, dtype))
    return dtype, (), (), False, None, False, True


def _without_repeats(array: Array, known: list[Array], arrays: list[Array]) -> Any:
    """Hand an array over, without what repeats in it, and then what tells its shape."""
    # (an array of no elements may have any strides)
    steps = zip(array.shape, array.strides, strict=True) if array.size else ()
    stretched = tuple(d for d, (n, s) in enumerate(steps) if s == 0 and n > 1)
    if stretched:
        part = tuple(slice(1) if d in stretched else slice(None) for d in range(array.ndim))
        arrays.append(array[part])
        known.append(_shape_of(array.shape, array.dtype))
    else:
        arrays.append(array)
    return array.dtype, array.shape, stretched


@functools.lru_cache(MOST_CALLS)
def _shape_of(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array of no elements that tells a program the shape of one that was not kept."""
    return np.empty((*shape, 0), dtype)


# -- its program ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Vjp:
    """The vjp of an op as calls want it: with so many ``results``, for the arguments that
    ``needs`` marks, with ``attrs``, of which ``numbers`` are operands; what is turned, and the
    cotangents of as many dims, have these in an ``order``."""

    op: Op
    results: int
    needs: tuple[bool, ...]
    attrs: Mapping[str, Any]
    numbers: tuple[str, ...] = ()
    order: Order | None = None


@functools.cache
def may_compile(op: Op) -> bool:
    """Whether the vjp of an elementwise op, whose partials could run on arrays as they stand, is
    more than one computation for some argument."""
    value = _Value(float32.numpy, (0,))
    assert isinstance(op.vjp, PerElement)
    count = len(op.vjp.partials)
    _, pulled, _ = _trace(_Vjp(op, 1, (True,) * count, {}), [value] * (2 + count))
    return any(y is not None and _is_worth_it(y.node) for y in pulled)


def _find(vjp: _Vjp, fields: Sequence[Any]) -> _Program | None:
    """The program for values of these fields; None if there is none."""
    values = tuple([None if f is None else _Value(*f) for f in fields])
    arguments = 2 * vjp.results
    unsized = tuple(
        [
            v and replace(v, sizes=sizes_known(vjp.op, i - arguments, v.sizes))
            for i, v in enumerate(values)
        ]
    )
    known = vjp.results, vjp.needs, attrs_key(vjp.attrs), vjp.numbers, vjp.order
    return programs_of(vjp.op).find(known, functools.partial(_compile, vjp), unsized, values)


def _compile(vjp: _Vjp, values: Sequence[_Value | None]) -> _Program:
    params, pulled, equalities = _trace(vjp, values)
    fused = [i for i, y in enumerate(pulled) if y is not None and _is_worth_it(y.node)]
    if not fused:
        return _Program()
    given = [pulled[i] if vjp.order is None else turn(pulled[i], vjp.order) for i in fused]
    outputs = [y.node for y in given]
    if any(n.op is param and n not in params for n in toposort(outputs)):
        raise AutogradError(f"the vjp of {vjp.op.name} uses a value that was not kept")
    graph = close(params, outputs, equalities)
    executable = compile_graph(graph)
    rest = tuple(need and i not in fused for i, need in enumerate(vjp.needs))
    return _Program(executable, tuple(fused), rest if any(rest) else None)


@for_itself()
def _trace(
    vjp: _Vjp, values: Sequence[_Value | None]
) -> tuple[list[Node], Sequence[Any], list[Equality]]:
    """The params, those of what all calls of the kind have alike, the numbers among the attributes
    last of them, and then those of arrays; the cotangents as symbols; and what is assumed of
    sizes."""
    op, results, attrs = vjp.op, vjp.results, dict(vjp.attrs)
    outs, args = values[results : 2 * results], values[2 * results :]
    facts = Facts()
    types = [ArrayKind(a.dtype, a.sizes).type("n") for a in args if a]
    any_numbers = {**attrs, **dict.fromkeys(vjp.numbers, 1.0)}
    op.infer(facts, *types, **any_numbers)
    assumed = [Equality(f.a, f.b, f.reason, ()) for f in facts.assumptions]
    equal, equalities = unify(assumed)
    types = [t.substitute(equal) for t in types]
    given = types_of(op.infer(Facts(), *types, **any_numbers))
    known: list[Node] = []
    arrays: list[Node] = []

    def add_param(type: TensorType, params: list[Node] = arrays) -> Symbol:
        params.append(new_param(type, f"x{len(known) + len(arrays)}"))
        return Symbol(params[-1])

    def symbol(value: _Value | None, type: TensorType) -> Any:
        if value is None or value.is_shape:
            if value is not None:
                add_param(TensorType(type.dtype, (*type.shape, 0)), known)
            return Symbol(new_param(type, "unkept"))  # whose type alone may be used
        if value.number is not None:
            return value.number
        if value.turned:
            assert vjp.order is not None
            as_it_lies = TensorType(type.dtype, tuple(type.shape[d] for d in vjp.order))
            back = [vjp.order.index(d) for d in range(type.ndim)]
            return permute(add_param(as_it_lies), back)
        shape = [1 if d in value.stretched else n for d, n in enumerate(type.shape)]
        kind = known if value.is_number else arrays
        array = add_param(TensorType(type.dtype, tuple(shape)), kind)
        if value.stretched:
            add_param(TensorType(type.dtype, (*type.shape, 0)), known)
        with using(()):
            return expand(array, type.shape)

    cts = [v and symbol(v, t) for v, t in zip(values[:results], given, strict=True)]
    out = tuple(map(symbol, outs, given))
    operands = list(map(symbol, args, types))
    for name in vjp.numbers:
        attrs[name] = add_param(TensorType(number_dtype(types[-1].dtype.numpy), ()), known)
    assert op.vjp is not None
    ct, result = (cts, out) if results > 1 else (cts[0], out[0])
    with using(()):  # which takes the place of the operation: no view in it has a history
        return known + arrays, op.vjp(vjp.needs, ct, result, *operands, **attrs), equalities


def _is_worth_it(y: Node) -> bool:
    """Whether ``y`` takes more than one computation, and none that is one by itself."""
    nodes = [n for n in toposort([y]) if n.op not in (param, constant, item)]
    computed = [n for n in nodes if type(n.op.lowering) is not View]
    return len(computed) > 1 and all(type(n.op.lowering) in _FUSED for n in nodes)
