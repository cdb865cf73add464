"""Functions of one tensor whose way from arguments to ops is remembered.

What `staticflow.ops.by_shape` marks, and the basic part of subscripts, is asked once for each
shape, dtype and choice of further arguments which ops it comes to, one on what the other gives, or
each on the tensor itself for several results. The next call of the kind goes to NumPy at once. What
comes to other than that is called anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from staticflow.eager.kernels import compute_of
from staticflow.eager.made import computed, is_view, viewed
from staticflow.eager.programs import LARGE
from staticflow.eager.vertex import Shadow
from staticflow.graph.op import Op
from staticflow.ops.lowering import View
from staticflow.ops.slicing import select_op, slice_op
from staticflow.ops.thread import thread

__all__ = ["remembered"]

MOST = 4096
"""So many kinds of calls of one function are remembered, those of last."""

MOST_PARTS = 64
"""More results than that of one call are not remembered."""

_array = np.ndarray
_UNKNOWN: Any = object()


class Step:
    """One op of a call: its attributes, what computes it of the array, whether as a view, and what
    an entry on the tape keeps (None: the value)."""

    __slots__ = ("args", "attrs", "compute", "gives_view", "op")

    def __init__(self, op: Op, attrs: Mapping[str, Any], x: Any) -> None:
        self.op, self.attrs = op, attrs
        self.compute = partial(compute_of(op, x._data.size >= LARGE), np, **attrs)
        self.gives_view = type(op.lowering) is View
        self.args = None if 0 in op.saves else (Shadow(x),)


class Known:
    """What is known of one kind of call: its steps (None: it is to be called anew; no steps: ``x``
    itself), whether each of them gives one of ``several`` results, and the types inside of its
    tuples."""

    __slots__ = ("inner", "several", "steps")

    def __init__(self) -> None:
        self.steps: Sequence[Step] | None = _UNKNOWN
        self.several = False
        self.inner: Sequence[type] = ()


def remembered(
    fn: Callable[..., Any], key_of: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """The form of ``fn`` for eager tensors. ``key_of`` makes its further arguments hashable, or
    raises `TypeError` where they are not such that shape and dtype say the rest."""

    @lru_cache(MOST, typed=True)  # since 1, 1.0 and True are equal
    def place(*key: Any, **named: Any) -> Known:
        return Known()

    def apply(x: Any = None, /, *args: Any, **kwargs: Any) -> Any:
        try:
            a = x._data
            given = args if key_of is None else (key_of(*args),)
            known = place(a.shape, a.dtype, *given, **kwargs)
        except (AttributeError, TypeError):  # no tensor; a list as an argument
            return fn(*args, **kwargs) if x is None else fn(x, *args, **kwargs)
        steps = known.steps
        state = thread.state
        if steps is None or not state.plain or type(a) is not _array:
            return fn(x, *args, **kwargs)
        if steps is _UNKNOWN:
            return first(x, known, args, kwargs)
        if known.inner and known.inner != _inner(args, kwargs):
            return fn(x, *args, **kwargs)
        if known.several:
            return tuple([viewed(x, s.compute(a), s.op, s.attrs, s.args) for s in steps])
        out = x
        for step in steps:
            a = out._data
            try:
                data = state.run(step.compute, a)
            except Exception:  # that the function words
                return fn(x, *args, **kwargs)
            if not step.gives_view:
                out = computed(out, a, data, step.op, step.attrs, step.args)
            elif is_view(data, a):
                out = viewed(out, data, step.op, step.attrs, step.args)
            else:  # the strides did not allow one
                return fn(x, *args, **kwargs)
        return out

    def first(x: Any, known: Known, args: Any, kwargs: Any) -> Any:
        """Call the function, and remember what it came to."""
        state = thread.state
        noted = state.noted = []
        state.settle()
        try:
            out = fn(x, *args, **kwargs)
        finally:
            state.noted = None
            state.settle()
        known.inner = () if key_of else _inner(args, kwargs)
        known.several = type(out) is tuple
        known.steps = (_parts if known.several else _chain)(x, noted, out)
        return out

    return apply


def _inner(args: Any, kwargs: Any) -> Sequence[type]:
    """The types of what stands in tuples among the arguments."""
    return [type(v) for a in (*args, *kwargs.values()) if type(a) is tuple for v in a]


def _parts(
    x: Any, noted: Sequence[tuple[Op, Any, Mapping[str, Any], Any]], out: tuple[Any, ...]
) -> Sequence[Step] | None:
    """The operations of which each made one of the results of ``x``, if all are slices, which are
    views whatever the strides."""
    if len(noted) != len(out) or len(out) > MOST_PARTS:
        return None
    steps = []
    for (op, operands, attrs, result), part in zip(noted, out, strict=True):
        if operands[0] is not x or result is not part or op not in (slice_op, select_op):
            return None
        steps.append(Step(op, attrs, x))
    return steps


def _chain(
    x: Any, noted: Sequence[tuple[Op, Any, Mapping[str, Any], Any]], out: Any
) -> Sequence[Step] | None:
    """The operations that lead from ``x`` to ``out``, if each is of the result of the last."""
    steps = []
    for op, operands, attrs, result in noted:
        if len(operands) != 1 or operands[0] is not x or type(result) is tuple:
            return None
        steps.append(Step(op, attrs, x))
        x = result
    return steps if x is out else None
