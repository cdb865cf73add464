"""Functions whose way from arguments to ops is remembered.

What `staticflow.ops.by_shape` marks, and the basic part of subscripts, is asked once for each
choice of shapes, dtypes and further arguments which ops it comes to, on which of its tensors and of
what earlier ops gave. The next call of the kind runs these at once. What comes to anything else is
called anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from types import NoneType
from typing import Any

import numpy as np

from staticflow.eager.mode import EAGER
from staticflow.graph.dtypes import BY_PYTHON, DType
from staticflow.graph.op import Op
from staticflow.ops.foreign import refuses_foreign
from staticflow.ops.lowering import View
from staticflow.ops.thread import thread

__all__ = ["remembered", "remembered_of_several"]

MOST = 4096
"""So many kinds of calls of one function are remembered, those of last."""

MOST_STEPS = 64
"""Calls of more ops than that are not remembered."""

_array = np.ndarray
_UNKNOWN: Any = object()
_TENSOR, _TENSORS = object(), object()
_PLAIN = frozenset((int, float, bool, str, NoneType, DType))

Noted = Sequence[tuple[Op, Sequence[Any], Mapping[str, Any], Any]]


class Step:
    """One op of a call: which values it takes, by place, and what gives its result of them.

    ``place`` is that of the one value, or ``pick`` takes them from the row of values.
    """

    __slots__ = ("attrs", "compute", "is_view", "pick", "place")

    def __init__(self, op: Op, attrs: Mapping[str, Any], places: Sequence[int]) -> None:
        self.attrs = attrs
        self.is_view = type(op.lowering) is View
        self.place = places[0]
        self.pick = itemgetter(*places) if len(places) > 1 else None
        self.compute = EAGER.fast.get(op) or partial(EAGER.general, op)


class Known:
    """What is known of one kind of call: its ``steps`` (None: it is to be called anew), the
    ``numbers`` among their operands, which of all values is the result, or which are, and the types
    inside of its tuples."""

    __slots__ = ("inner", "numbers", "result", "steps")

    def __init__(self) -> None:
        self.steps: Sequence[Step] | None = _UNKNOWN
        self.numbers: Sequence[Any] = ()
        self.result: Any = 0
        self.inner: Sequence[type] = ()


def remembered(
    fn: Callable[..., Any], key_of: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """The form of ``fn``, whose first argument alone is a tensor, for eager tensors. ``key_of``
    makes its further arguments hashable, or raises `TypeError` where they are not such that shape
    and dtype say the rest."""
    place, fn = _places(), refuses_foreign(fn)

    def apply(x: Any = None, /, *args: Any, **kwargs: Any) -> Any:
        try:
            a = x._data
            given = args if key_of is None else (key_of(*args),)
            known = place(a.shape, a.dtype, *given, **kwargs)
        except (AttributeError, TypeError):  # no tensor; a list as an argument
            return fn(*args, **kwargs) if x is None else fn(x, *args, **kwargs)
        steps = known.steps
        if steps is None or type(a) is not _array or not thread.state.plain:
            return fn(x, *args, **kwargs)
        if steps is _UNKNOWN:
            return _first(
                fn, known, [x], (x, *args), kwargs, () if key_of else _inner(args, kwargs)
            )
        if known.inner and known.inner != _inner(args, kwargs):
            return fn(x, *args, **kwargs)
        values = [x]
        if known.numbers:
            values += known.numbers
        if _replayed(steps, values):
            return known.result(values)
        return fn(x, *args, **kwargs)

    return apply


def remembered_of_several(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The form of ``fn``, which takes several tensors, also by name or in one list, for eager
    tensors."""
    place, fn = _places(), refuses_foreign(fn)

    def apply(*args: Any, **kwargs: Any) -> Any:
        values: list[Any] = []
        try:
            key = [_key(a, values) for a in args]
            known = place(*key, **{k: _key(a, values) for k, a in kwargs.items()})
        except TypeError:
            return fn(*args, **kwargs)
        steps = known.steps
        if steps is None or not thread.state.plain:
            return fn(*args, **kwargs)
        if steps is _UNKNOWN:
            return _first(fn, known, values, args, kwargs, ())
        if known.numbers:
            values += known.numbers
        if _replayed(steps, values):
            return known.result(values)
        return fn(*args, **kwargs)

    return apply


def _places() -> Callable[..., Known]:
    @lru_cache(MOST, typed=True)  # since 1, 1.0 and True are equal
    def place(*key: Any, **named: Any) -> Known:
        return Known()

    return place


def _key(argument: Any, tensors: list[Any]) -> Any:
    """What an argument is to a function that looks at shapes and dtypes; a tensor is appended to
    ``tensors``. Raises `TypeError` for one that shape and dtype do not say all of."""
    kind = type(argument)
    if kind in _PLAIN:
        return argument if argument or kind is not float else (kind, str(argument))  # 0.0, -0.0
    array = getattr(argument, "_data", None)
    if type(array) is _array:
        tensors.append(argument)
        return _TENSOR, array.shape, array.dtype
    if kind is list or kind is tuple:
        return _TENSORS, *[(type(a), _key(a, tensors)) for a in argument]
    raise TypeError(f"{kind.__name__} has no key")


def _inner(args: Any, kwargs: Any) -> Sequence[type]:
    """The types of what stands in tuples among the arguments."""
    return [type(v) for a in (*args, *kwargs.values()) if type(a) is tuple for v in a]


def _replayed(steps: Sequence[Step], values: list[Any]) -> bool:
    """Append what each step gives to ``values``; whether all went well."""
    try:
        for step in steps:
            x = (values[step.place],) if step.pick is None else step.pick(values)
            out = step.compute(x, step.attrs)
            if type(out) is tuple:
                values += out
                continue
            if step.is_view and out._view is None:
                return False  # the strides did not allow one
            values.append(out)
    except Exception:  # which the function words
        return False
    return True


def _first(
    fn: Callable[..., Any],
    known: Known,
    tensors: list[Any],
    args: Any,
    kwargs: Any,
    inner: Sequence[type],
) -> Any:
    """Call the function, and remember what it came to."""
    if len({*map(id, tensors)}) < len(tensors):  # whose part in it cannot be told apart
        return fn(*args, **kwargs)
    if any(a is float for a in (*args, *kwargs.values())):  # as a dtype, which is a setting
        return fn(*args, **kwargs)
    state = thread.state
    noted: list[Any] = []
    state.noted = noted
    state.settle()
    try:
        out = fn(*args, **kwargs)
    finally:
        state.noted = None
        state.settle()
    known.inner = inner
    known.steps = _steps(known, tensors, noted, out)
    return out


def _steps(known: Known, tensors: Sequence[Any], noted: Noted, out: Any) -> Sequence[Step] | None:
    """The ops that lead from ``tensors`` to ``out``; None if not all that they take is known."""
    if len(noted) > MOST_STEPS:
        return None
    integers = any(_takes_integers(operands) for _, operands, *_ in noted)
    if integers and any(op.promote == "float" for op, *_ in noted):
        return None  # which float they become is a setting
    numbers = [a for _, operands, _, _ in noted for a in operands if type(a) in BY_PYTHON]
    places = {id(v): i for i, v in enumerate([*tensors, *numbers])}
    count = len(tensors) + len(numbers)
    steps = []
    for op, operands, attrs, result in noted:
        if not operands or not places.keys() >= set(map(id, operands)):
            return None
        steps.append(Step(op, attrs, [places[id(a)] for a in operands]))
        for r in result if type(result) is tuple else (result,):
            places[id(r)] = count
            count += 1
    results = out if type(out) is tuple else (out,)
    if not places.keys() >= set(map(id, results)):
        return None
    known.numbers = numbers
    at = [places[id(r)] for r in results]
    one = at[0] if at else 0
    known.result = itemgetter(one) if type(out) is not tuple else _all_at(at)
    return steps


def _takes_integers(operands: Sequence[Any]) -> bool:
    return any(type(a) not in BY_PYTHON and not a.dtype.is_floating for a in operands)


def _all_at(at: Sequence[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    return lambda values: tuple([values[i] for i in at])
