"""In-place operations: new elements in the same memory, and what that does to histories."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from staticflow.eager.costs import LARGE
from staticflow.eager.device import is_writeable
from staticflow.eager.memory import Memory, note_exchange
from staticflow.eager.noted_programs import note_change
from staticflow.eager.numbers import number_beside
from staticflow.eager.overwrite import copy_into, overwrite
from staticflow.eager.saved import copy_if_on
from staticflow.eager.vertex import LEAF, TapeEntry, Vertex, make_entry, next_serial, save_values
from staticflow.eager.views import View, ViewStep
from staticflow.errors import AutogradError, DTypeError, ShapeError, SymbolicError
from staticflow.graph.called import name_the_function
from staticflow.graph.dtypes import BY_NUMPY
from staticflow.graph.locs import format_locs, here
from staticflow.graph.numbers import fitting
from staticflow.graph.op import Op
from staticflow.graph.types import TensorType
from staticflow.ops.basics.arithmetic import cast, where
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.expand import expand
from staticflow.ops.declaring.declare import per_arg
from staticflow.ops.declaring.foreign import refuses_foreign
from staticflow.ops.declaring.promote import is_number
from staticflow.ops.declaring.thread import autocasting, thread
from staticflow.ops.indexing.index_functions import fill
from staticflow.ops.symbols.symbol import Symbol

if TYPE_CHECKING:
    from staticflow.eager.tensor import Tensor

__all__ = [
    "assign", "copy_", "copy_saved", "fill_", "is_open", "is_recorded", "part_op", "refuse_change",
    "refuse_in_trace", "regenerate", "replay", "stand_for", "stored_at", "take_shape", "update",
    "whole_op", "zero_",
]  # fmt: skip


# -- views ----------------------------------------------------------------------------------------


def replay(x: Any, steps: Sequence[ViewStep]) -> Any:
    """``x`` after the view ops."""
    for op, attrs in steps:
        x = op(x, **attrs)
    return x


def regenerate(t: Tensor, view: View) -> None:
    """Give a view the history that follows from what its base has now."""
    view.seen = t._own_memory().version
    if t._vertex is LEAF or not view.leads_back or view.base._memory is not t._memory:
        return  # a leaf of its own, apart from the history of the base, or of the base's old data
    state = thread.state
    before = state.recording, state.tracing, state.noted
    try:
        state.recording, state.tracing, state.noted = True, False, None
        t._vertex = replay(view.base, view.steps)._vertex
    finally:
        state.recording, state.tracing, state.noted = before


def take_shape(x: Tensor, fn: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
    """Become the view ``fn(x, *args, **kwargs)`` of itself, as ``t_`` does: a view of a tensor
    apart, on the same memory, that has the history so far."""
    refuse_in_trace("an in-place change of the shape")
    if thread.state.recording and x.requires_grad:
        _refuse_recording(x)
    out: Tensor = fn(x, *args, **kwargs)
    if out is x:
        return x
    leaf = x._vertex is LEAF
    if x._view is x._vertex is None:  # nothing that it is a view of, and no history to go on with
        x._data = out._data
        note_exchange()
        x._bump()
        return x
    if x._view is None:
        old = x._wrap(x._data)
        old._memory, old._vertex = x._own_memory(), None if leaf else x._vertex
        out = fn(old, *args, **kwargs)
    x._data, x._view, x._vertex = out._data, out._view, LEAF if leaf else out._vertex
    note_exchange()
    x._bump()
    return x


# -- changes --------------------------------------------------------------------------------------


def update(x: Tensor, fn: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
    """What every in-place form is: ``x`` takes the elements of ``fn(x, *args, **kwargs)``, for
    which `autocast` casts nothing."""
    if thread.state.autocast is not None:
        with autocasting(None):
            return update(x, fn, args, kwargs)
    if x._data.size >= LARGE and _overwritten_at_once(x, fn, args, kwargs):
        return x
    since = next_serial()
    name = getattr(fn, "name", None) or fn.__name__
    return assign(x, fn(x, *args, **kwargs), since, what=f"{name}_")


def _overwritten_at_once(x: Tensor, fn: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """`overwrite`, where nothing is recorded and nothing is wrong."""
    state = thread.state
    others = [a for a in _flat((*args, *kwargs.values())) if hasattr(a, "__sf_mode__")]
    if (
        not (state.usual or state.noted is not None)
        or not is_open(x)
        or not all(type(a) is type(x) and type(a._data) is np.ndarray for a in others)
        or (state.recording and any(a.requires_grad for a in others))
    ):
        return False
    arrays = list(map(_array_of, args))
    named = {name: _array_of(a) for name, a in kwargs.items()}
    x._bump()
    done = overwrite(fn, x._data, arrays, named)
    if done is None:
        return _take_back_count(x)
    note_change(x, others, done)
    return True


def _flat(given: Iterable[Any]) -> Iterator[Any]:
    """Arguments, with the members of lists and tuples in their place."""
    for a in given:
        yield from a if type(a) in (list, tuple) else (a,)


def _array_of(a: Any) -> Any:
    """The array of a tensor, or a tuple of those; anything else as it is."""
    return tuple(map(_array_of, a)) if type(a) in (list, tuple) else getattr(a, "_data", a)


def _take_back_count(x: Tensor) -> bool:
    """False: what was counted is not done. Changes are counted before they are made, so that an
    interrupt leaves none that is not."""
    x._own_memory().version -= 1
    return False


def is_recorded(x: Tensor) -> bool:
    """Whether a change of the elements is to be recorded: they have a history, or are a part of
    what has one."""
    base = x if x._view is None else x._view.base
    return x._current_vertex() is not None or base._current_vertex() is not None


def copy_(x: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Take the elements of ``other``, broadcast and cast."""
    thread.state.note_more()
    if is_number(other):
        other = fitting(other, x.dtype, f"an assignment to {TensorType(x.dtype, x.shape)}")
    value = other if isinstance(other, Symbol) else x._of(other, x.dtype)
    if value.dtype is not x.dtype:
        if _copied_at_once(x, value):
            return x
        value = cast(value, dtype=x.dtype)
    if value.shape != x.shape:
        if _copied_at_once(x, value, spread=True):
            return x
        try:
            value = expand(value, x.shape)
        except ShapeError as error:
            name_the_function(error, "copy_")
            raise
    return assign(x, value, replaces=True, what="copy_")


def assign(
    x: Tensor,
    value: Any,
    since: int | None = None,
    replaces: bool = False,
    what: str = "an in-place operation",
) -> Tensor:
    """Take the elements of ``value``, and its history where operations are recorded.

    What was recorded ``since`` (a serial number; the last operation unless given) was recorded to
    compute ``value``, and may have kept what is overwritten. A value that ``replaces`` was not
    computed from the old elements: those get a gradient of zeros. Errors call it ``what``.
    """
    thread.state.note_more()
    if _copied_at_once(x, value):
        return x
    if isinstance(value, Symbol):
        refuse_in_graph(what, _OF_SYMBOL)
    refuse_in_trace(what)
    if value.dtype.category > x.dtype.category:
        raise DTypeError(
            f"{what} cannot put {value.dtype.name} into a tensor of "
            f"{x.dtype.name}; compute out of place (y = y + x), at {format_locs(here())}"
        )
    if value.dtype is not x.dtype:
        value = cast(value, dtype=x.dtype)
    if value.__sf_gpu__ != x.__sf_gpu__:
        value = value.to(x.device)
    if value.shape != x.shape:
        raise ShapeError(
            f"{what} cannot change the shape {list(x.shape)} to "
            f"{list(value.shape)}, at {format_locs(here())}"
        )
    _refuse_memory(x, value)
    edge = value._current_vertex()
    recorded = thread.state.recording and (edge is not None or is_recorded(x))
    if recorded:
        _refuse_recording(x, what)
    x._bump()  # before anything is done, so that an interrupt leaves no change that is not counted
    if recorded:
        _take_history(x, value, edge, since, replaces)
    copy_into(x._data, value._data)
    return x


def _copied_at_once(x: Tensor, value: Any, spread: bool = False) -> bool:
    """Copy the elements (to ``spread``: or the one to all numbers) where nothing is recorded and
    nothing is wrong; False if it is otherwise."""
    a, b = x._data, getattr(value, "_data", None)
    if (
        type(b) is not np.ndarray
        or (a.dtype is not b.dtype and not _casts_at_once(a, b))
        or (a.shape != b.shape and not (spread and b.shape == ()))
        or (thread.state.recording and value._current_vertex() is not None)
        or not is_open(x)
    ):
        return False
    x._bump()
    copy_into(a, b)
    return True


def _casts_at_once(a: Any, b: Any) -> bool:
    """Whether floats of another width are cast as they are copied, by a program."""
    floats = BY_NUMPY[a.dtype].is_floating and BY_NUMPY[b.dtype].is_floating
    return floats and a.size >= LARGE and a.shape == b.shape


def is_open(x: Tensor) -> bool:
    """Whether the elements may be overwritten with what has no history, and that is all."""
    memory = x._memory or x._own_memory()
    a = x._data
    state = thread.state
    return (
        type(a) is np.ndarray
        and 0 not in a.strides
        and type(memory) is Memory
        and a.flags.writeable
        and not state.tracing
        and not (state.recording and is_recorded(x))
    )


_OF_SYMBOL = (
    "change sf.symbol(x), which is that tensor in the graph, and go on with it; a tensor that each "
    "call should change is given its new value in updates= of sf.compile"
)
_INSTEAD = "compute the new value, give it back, and pass it in updates= of sf.compile"


def refuse_in_trace(what: str, instead: str = _INSTEAD) -> None:
    """Refuse a change of a tensor inside a trace, where it would be made once, as the graph is
    written, and never by a call."""
    if thread.state.tracing:
        refuse_in_graph(what, instead)


def refuse_in_graph(what: str, instead: str = _INSTEAD) -> NoReturn:
    """Refuse the operation ``what``, which would change a tensor where a graph is written."""
    raise SymbolicError(
        f"{what} of a tensor cannot be part of a graph, which is traced and not run here; "
        f"{instead}, at {format_locs(here())}"
    )


def stored_at(x: Tensor, numbers: Any, value: Any) -> bool:
    """Put a number or a tensor where ``numbers``, what NumPy selects by, says, if nothing is to be
    recorded, cast or refused; False, with nothing done, if it is otherwise."""
    if not is_open(x):
        return False
    a = x._data
    try:
        if not hasattr(value, "_vertex"):
            b = number_beside(value, a.dtype)
        elif thread.state.recording and value._current_vertex() is not None:
            return False
        else:
            b = value._data
            if type(b) is not np.ndarray or b.dtype is not a.dtype:
                return False
            if b.size == 1:  # of whatever dims, which NumPy is not to put at one element
                b = b.reshape(())
    except (TypeError, ValueError, OverflowError):
        return False
    thread.state.note_more()
    x._bump()
    try:
        if numbers is ...:
            copy_into(a, b)
        else:
            a[numbers] = b
    except (IndexError, TypeError, ValueError):
        return _take_back_count(x)
    return True


_fill = refuses_foreign(fill)


def fill_(x: Tensor, value: Any) -> Tensor:
    """`fill` in place."""
    if thread.state.usual and is_number(value) and stored_at(x, ..., value):
        return x
    return update(x, _fill, (value,), {})


def zero_(x: Tensor) -> Tensor:
    """0 everywhere, in place."""
    if thread.state.usual and stored_at(x, ..., False):
        return x
    if x._data.size >= LARGE and _overwritten_at_once(x, _fill, (0,), {}):
        return x
    return assign(x, fill(x, 0), what="zero_")


def refuse_change(x: Tensor, has_history: bool, what: str) -> None:
    """Raise what a change of all of ``x`` to other elements, with a history of their own or
    without, is refused with."""
    _refuse_memory(x, None)
    if thread.state.recording and (has_history or is_recorded(x)):
        _refuse_recording(x, what)


def _refuse_memory(x: Tensor, value: Tensor | None) -> None:
    x._own_memory().version  # noqa: B018  asking is refused outside of inference mode
    data = x._data
    if data.size and 0 in data.strides and not _is_alike(data, value):
        raise AutogradError(
            f"an in-place operation on a tensor of shape {list(x.shape)} that was expanded: "
            "several of its elements are one place in memory; change a clone, or the tensor that "
            f"it was expanded from, at {format_locs(here())}"
        )
    if not is_writeable(data):
        raise AutogradError(
            f"the memory of this tensor is read-only; change a clone, at {format_locs(here())}"
        )


def _is_alike(data: Any, value: Tensor | None) -> bool:
    """Whether ``value`` (None: elements that all differ) has one element for each place of ``data``
    that several elements are in."""
    strides = data.shape if value is None else value._data.strides
    dims = zip(data.shape, data.strides, strides, strict=True)
    return all(own or size == 1 or not given for size, own, given in dims)


def _refuse_recording(x: Tensor, what: str = "an in-place operation") -> None:
    view = x._view
    leaf = x._vertex is LEAF
    if leaf or (view is not None and view.base._vertex is LEAF):
        of = f"{'a leaf' if leaf else 'a view of a leaf'}, {x.dtype.name}{list(x.shape)},"
        raise AutogradError(
            f"{what} on {of} that requires a gradient would be lost to it; "
            f"wrap the update in sf.no_grad(), or compute out of place, at {format_locs(here())}"
        )
    if view is not None and not view.leads_back:
        raise AutogradError(
            f"{what} is to be recorded on a view that was taken in sf.no_grad(), "
            "and so has no part in the history of its base; take the view outside, or change it "
            f"inside, at {format_locs(here())}"
        )


def stand_for(x: Tensor, vertex: Vertex) -> None:
    """Let ``x``, which was changed in place outside of the tape, stand where ``vertex`` does."""
    _refuse_recording(x)
    value = x.detach()
    value._vertex = vertex
    _take_history(x, value, vertex, vertex.serial, replaces=False)


def _take_history(
    x: Tensor, value: Tensor, edge: Vertex, since: int | None, replaces: bool
) -> None:
    """Let ``x``, and through its base all its views, stand where the new elements came from: at
    the vertex ``edge``, if they have a history."""
    memory = x._own_memory()
    if edge is not None:
        _keep_before_change(edge, memory, edge.serial if since is None else since)
    view = x._view
    target = x if view is None else view.base
    if view is None and edge is not None and edge.serial and not replaces:
        x._vertex = edge
        return
    op, attrs = (whole_op, {}) if view is None else (part_op, {"steps": view.steps})
    edges = target._current_vertex(), edge
    kept = save_values(op, (target, value), attrs, edges, target)
    target._vertex = make_entry(TapeEntry, op, attrs, edges, *kept, sys._getframe(1))


def _keep_before_change(vertex: Vertex, memory: Memory, since: int) -> None:
    stack = [vertex]
    while stack:
        v = stack.pop()
        if v is not None and v.serial and v.serial >= since:
            stack.extend(v.edges)
            if isinstance(v, TapeEntry):
                v.copy_before_change(memory)


def copy_saved(changes: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Copy what the tape has saved of tensors that are about to take new values, as far as the
    histories of these lead to it and it was not changed since: so a way back stays open."""
    versions = {id(memory): memory.version for memory in (t._own_memory() for t, _ in changes)}

    def copy_of(kept: Any) -> Any:
        if isinstance(kept, tuple) and versions.get(id(kept[1])) == kept[2]:
            return copy_if_on(kept, kept[1])
        return kept

    # before the last change of all tensors nothing was saved of what they hold
    places = [t._current_vertex() for t, _ in changes]
    since = min((1 if v is None else v.serial for v in places), default=1)
    stack = [v._current_vertex() for _, v in changes]
    seen = set()
    while stack:
        vertex = stack.pop()
        if vertex is None or vertex.serial < since or vertex in seen:
            continue
        seen.add(vertex)
        stack.extend(vertex.edges)
        if isinstance(vertex, TapeEntry):
            vertex.args = vertex.args and [copy_of(a) for a in vertex.args]
            if isinstance(vertex.result, tuple):
                vertex.result = copy_of(vertex.result)


def _hole(x: Any, steps: Sequence[ViewStep]) -> Any:
    """Where in ``x`` the elements are that the view steps lead to, as bools beside it."""
    shape = x.shape
    numbers = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    for op, attrs in steps:
        numbers = op.reference(np, numbers, **attrs)
    hole = np.zeros(shape, bool)
    hole.reshape(-1)[numbers.reshape(-1)] = True
    gpu = getattr(x, "__sf_gpu__", None)  # a symbol, as the vjp is traced, has none
    return hole if gpu is None else x._of(hole).to(gpu)


def _unwritten(*_: Any, **__: Any) -> Any:
    raise AssertionError("an in-place operation is run by assign")


whole_op = Op(
    name="copy_",
    doc="``value`` in the memory of ``x``.",
    infer=lambda facts, x, value: x,
    reference=_unwritten,
    vjp=per_arg(lambda ct, out, x, value: zeros_like(ct), lambda ct, out, x, value: ct),
    grad_name="CopyBackwards",
)

part_op = Op(
    name="copy_slices",
    doc="``x`` with ``value`` in the elements that the view ``steps`` lead to.",
    infer=lambda facts, x, value, *, steps: x,
    reference=_unwritten,
    vjp=per_arg(
        lambda ct, out, x, value, *, steps: where(_hole(ct, steps), 0.0, ct),
        lambda ct, out, x, value, *, steps: replay(ct, steps),
    ),
    grad_name="CopySlices",
)
