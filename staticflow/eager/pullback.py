"""Vjps of large arrays, compiled: what a cotangent computes on its way is then never stored.

A vjp is declared once, in ops, and op by op it is a pass over memory for each of them. On large
arrays it is traced on symbols of unknown sizes, as the static gradient traces it, and the
cotangents that take more than one computation become a program, kept by the kind of the operands
as the kernels of `staticflow.eager.kernels` are. The others (a product, a view) are left as they
are, and so is whatever is made of matrix products or loops, which are worth an operation of their
own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeGuard

import numpy as np

from staticflow.eager.costs import LARGE
from staticflow.eager.kernels import pattern, run
from staticflow.eager.numbers import as_array, number_dtype, numbers_among, taken
from staticflow.eager.programs import MOST_CALLS, UNMET, Programs, compiled
from staticflow.errors import DTypeError, ShapeError, VerifyError
from staticflow.graph.dims import fresh_sym
from staticflow.graph.dtypes import BY_NUMPY, BY_PYTHON, float32
from staticflow.graph.equalities import Equality, unify
from staticflow.graph.graph import attrs_key, close, new_param
from staticflow.graph.node import Node, constant, item, param, toposort
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType, types_of
from staticflow.ops.basics.expand import expand
from staticflow.ops.declaring.declare import PerElement
from staticflow.ops.declaring.lowering import Elementwise, Generate, LoopNest, Reduce, View
from staticflow.ops.declaring.thread import recording
from staticflow.ops.symbols.symbol import Symbol
from staticflow.runtime.executable import Executable

__all__ = ["may_compile", "pull"]

Array = np.ndarray[Any, Any]

_FUSED = (Elementwise, Generate, LoopNest, Reduce, View, type(None))
"""The lowerings of what such a program may compute; None: said in other ops."""

_UNKNOWN = -1
_NUMBERS = (0, 1, 2, 3)
"""Numbers that a vjp may treat apart, as in ``x ** 2``. Others reach the program as 0-d arrays, so
that one program serves all."""


@dataclass(frozen=True, slots=True)
class _Value:
    """What the program knows of a value that the vjp takes: a number; or an array of ``sizes``,
    which holds one element where it is ``stretched``, and none if only its ``shape`` is used."""

    dtype: Any
    sizes: tuple[int, ...] = ()
    stretched: tuple[int, ...] = ()
    is_shape: bool = False
    number: Any = None


@dataclass(frozen=True, slots=True)
class _Program:
    """What gives the cotangents of the arguments ``native``; the vjp gives ``rest`` op by op."""

    executable: Executable | None
    native: tuple[int, ...]
    rest: tuple[bool, ...] | None


_PLAIN = _Program(None, (), None)
"""In the place of a program where there is nothing to compile."""

_programs: Programs[_Program] = Programs()
"""Found by shapes, if the operands lie in order."""


def pull(
    op: Op, needs: Sequence[bool], ct: Any, out: Any, args: Sequence[Any], attrs: Mapping[str, Any]
) -> Sequence[Any] | None:
    """What ``op.vjp`` gives of these: arrays where it was compiled, else tensors. None if nothing
    is large or to be compiled. An argument or result may be a shadow, whose type alone is known."""
    if type(op.lowering) is View or type(op.lowering) not in _FUSED:
        return None
    if op.lowering is None and (op.decompose is None or any(map(callable, attrs.values()))):
        return None  # what stands on the tape only, and what calls a user's function
    several = type(out) is tuple
    cts = ct if several else (ct,)
    # (what chooses elements beside their indices moves cotangents, to the same bits)
    is_native = op.numpy == "slower" and not op.shapeless
    if not (several or is_native or _any_large(cts) or _any_large(args)):
        return None
    outs = [getattr(o, "_data", None) for o in (out if several else (out,))]
    given = [*(None if c is None else c._data for c in cts), *outs]
    kind, arrays = _in_order(given, args)
    first = next(c._data for c in cts if c is not None)
    # beside operands of no dims a 0-d operand would raise their dtype, as a number does not
    names = numbers_among(op, attrs, first.dtype) if first.ndim else ()
    known = {name: None if name in names else value for name, value in attrs.items()}
    if kind is not None:
        kind = op, len(cts), *needs, attrs_key(known), names, *kind
    program = UNMET if kind is None else _programs.by_call.get(kind, UNMET)
    if program is UNMET:
        arrays.clear()
        values = [None if a is None else _taken(a, arrays) for a in given]
        values += [_argument(a, first.dtype, arrays) for a in args]
        if not all(type(a) is np.ndarray for a in arrays):
            return None
        program = _program_of(op, len(cts), tuple(needs), values, known, names)
        if kind is not None:
            _programs.remember(kind, program)
    if program is None or program.executable is None:
        return None
    arrays += [as_array(attrs[name], first.dtype) for name in names]
    results = run(program.executable, arrays)
    if results is None:  # the operations say what is wrong
        return None
    pulled: list[Any] = [None] * len(args)
    if program.rest is not None:
        assert op.vjp is not None
        pulled = list(op.vjp(program.rest, ct, out, *args, **attrs))
    results = results if type(results) is tuple else (results,)
    for i, result in zip(program.native, results, strict=True):
        pulled[i] = result
    return pulled


def _in_order(given: Sequence[Array | None], args: Sequence[Any]) -> tuple[Any, list[Array]]:
    """What operands are that all lie in order, and what is handed over of them; else None."""
    kind: list[Any] = []
    arrays: list[Array] = []
    for a in given:
        if a is None:
            kind.append(None)
        elif _is_in_order(a):
            kind.append((a.dtype, a.shape))
            arrays.append(a)
        else:
            return None, arrays
    for a in args:
        data = getattr(a, "_data", None)
        if _is_in_order(data):
            kind.append((data.dtype, data.shape))
            arrays.append(data)
        elif data is None and type(a) not in BY_PYTHON:  # its shape only
            array = _shape_of(a.shape, a.dtype.numpy)
            kind.append((array.dtype, array.shape, "a shape"))
            arrays.append(array)
        else:
            return None, arrays
    return kind, arrays


def _is_in_order(a: Any) -> TypeGuard[Array]:
    return type(a) is np.ndarray and a.flags.c_contiguous


@functools.lru_cache(MOST_CALLS)
def _shape_of(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array of no elements that tells a program the shape of one that was not kept."""
    return np.empty((*shape, 0), dtype)


def _any_large(values: Sequence[Any]) -> bool:
    for v in values:
        data = getattr(v, "_data", None)
        if data is not None:
            if data.size >= LARGE:
                return True
        elif v is not None and type(v) not in BY_PYTHON and math.prod(v.shape) >= LARGE:
            return True
    return False


@functools.cache
def may_compile(op: Op) -> bool:
    """Whether the vjp of an elementwise op, whose partials could run on arrays as they stand, is
    more than one computation for some argument."""
    value = _Value(float32.numpy, (_UNKNOWN,))
    assert isinstance(op.vjp, PerElement)
    arguments = [value] * len(op.vjp.partials)
    _, pulled, _ = _traced(op, 1, (True,) * len(arguments), [value, value, *arguments], {})
    return any(y is not None and _is_worth_it(y.node) for y in pulled)


def _is_large(a: Any) -> Any:
    return type(a) not in BY_PYTHON and a.numel() >= LARGE


def _taken(array: Array, arrays: list[Array]) -> _Value:
    """Hand an array over, without what repeats in it, and then what tells its shape."""
    # (an array of no elements may have any strides)
    steps = zip(array.shape, array.strides, strict=True) if array.size else ()
    stretched = tuple(d for d, (n, s) in enumerate(steps) if s == 0 and n > 1)
    value = _Value(array.dtype, array.shape, stretched)
    if stretched:
        part = tuple(slice(1) if d in stretched else slice(None) for d in range(array.ndim))
        arrays.append(array[part])
        array = _shape_of(array.shape, array.dtype)
    arrays.append(array)
    return value


def _argument(a: Any, dtype: Any, arrays: list[Array]) -> _Value:
    """Hand an argument over: an array; what tells the shape of one that was not kept; a number."""
    if type(a) in BY_PYTHON:
        if a in _NUMBERS and math.copysign(1, a) > 0:  # not -0.0
            return _Value(dtype, number=a)
        return _taken(np.asarray(a, dtype), arrays)
    if hasattr(a, "_data"):
        return _taken(a._data, arrays)
    arrays.append(_shape_of(a.shape, a.dtype.numpy))
    return _Value(a.dtype.numpy, a.shape, is_shape=True)


def _program_of(
    op: Op,
    results: int,
    needs: tuple[bool, ...],
    values: Sequence[_Value | None],
    attrs: Mapping[str, Any],
    numbers: Sequence[str] = (),
) -> _Program | None:
    """The program for such operands, made if there is none yet."""
    first = 2 * results  # of the arguments
    unsized = tuple(_unsized(op, i - first, v) for i, v in enumerate(values))
    known = op, results, needs, attrs_key(attrs), numbers
    return _programs.find(
        *(
            ((*known, given), partial(_compiled, op, results, needs, given, attrs, numbers))
            for given in (unsized, tuple(values))
        )
    )


def _unsized(op: Op, i: int, v: _Value | None) -> _Value | None:
    """The value without the sizes that a program for argument ``i`` need not know."""
    if v is None or not v.sizes:
        return v
    known = pattern(op, i, v.sizes)
    return replace(v, sizes=tuple(n or _UNKNOWN for n in known))


def _compiled(
    op: Op,
    results: int,
    needs: tuple[bool, ...],
    values: Sequence[_Value | None],
    attrs: Mapping[str, Any],
    numbers: Sequence[str] = (),
) -> _Program | None:
    """The program; None if the op wants to know the sizes."""
    try:
        params, pulled, equalities = _traced(op, results, needs, values, attrs, numbers)
        fused = [i for i, y in enumerate(pulled) if y is not None and _is_worth_it(y.node)]
        if not fused:
            return _PLAIN
        graph = close(params, taken([pulled[i].node for i in fused]), equalities)
        executable = compiled(graph)
    except VerifyError:  # the vjp uses a value that was not kept, which the operations refuse
        return None
    except (ShapeError, DTypeError):
        return None
    rest = tuple(need and i not in fused for i, need in enumerate(needs))
    return _Program(executable, tuple(fused), rest if any(rest) else None)


@recording(True)
def _traced(
    op: Op,
    results: int,
    needs: tuple[bool, ...],
    values: Sequence[_Value | None],
    attrs: Mapping[str, Any],
    numbers: Sequence[str] = (),
) -> tuple[list[Node], Sequence[Any], list[Equality]]:
    """The params, one for each array and then for each of the ``numbers`` among the attributes; the
    cotangents as symbols; and what is assumed of sizes."""
    outs, args = values[results : 2 * results], values[2 * results :]
    facts = Facts()
    types = [_type(a) for a in args]
    any_numbers = {**attrs, **dict.fromkeys(numbers, 1.0)}
    op.infer(facts, *types, **any_numbers)
    assumed = [Equality(f.a, f.b, f.reason, ()) for f in facts.assumptions]
    equal, equalities = unify(assumed)
    types = [t.substitute(equal) for t in types]
    given = types_of(op.infer(Facts(), *types, **any_numbers))
    params: list[Node] = []

    def symbol(value: _Value | None, type: TensorType) -> Any:
        if value is None:  # not kept: only its type may be used
            return Symbol(new_param(type, "unkept"))
        if value.number is not None:
            return value.number
        array: Any = None
        if not value.is_shape:
            shape = [1 if d in value.stretched else n for d, n in enumerate(type.shape)]
            array = new_param(TensorType(type.dtype, tuple(shape)), f"x{len(params)}")
            params.append(array)
        if value.is_shape or value.stretched:
            params.append(new_param(TensorType(type.dtype, (*type.shape, 0)), f"x{len(params)}"))
        return expand(Symbol(array), type.shape) if array else Symbol(new_param(type, "unkept"))

    cts = [v and symbol(v, t) for v, t in zip(values[:results], given, strict=True)]
    out = tuple(map(symbol, outs, given))
    operands = list(map(symbol, args, types))
    for name in numbers:
        number = TensorType(number_dtype(types[-1].dtype.numpy), ())
        params.append(new_param(number, f"x{len(params)}"))
        attrs = {**attrs, name: Symbol(params[-1])}
    assert op.vjp is not None
    if results > 1:
        return params, op.vjp(needs, cts, out, *operands, **attrs), equalities
    return params, op.vjp(needs, cts[0], out[0], *operands, **attrs), equalities


def _type(v: Any) -> TensorType:
    shape = tuple(fresh_sym(f"n{d}") if n == _UNKNOWN else n for d, n in enumerate(v.sizes))
    return TensorType(BY_NUMPY[v.dtype], shape)


def _is_worth_it(y: Node) -> bool:
    """Whether ``y`` takes more than one computation, and none that is one by itself."""
    nodes = [n for n in toposort([y]) if n.op not in (param, constant, item)]
    computed = [n for n in nodes if type(n.op.lowering) is not View]
    return len(computed) > 1 and all(type(n.op.lowering) in _FUSED for n in nodes)
