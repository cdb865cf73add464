"""The operands of ops and functions inside `autocast`, in the dtypes that these compute in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from staticflow.graph.dtypes import DType, float32, float64, promote
from staticflow.graph.locs import is_rewriting
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import cast as cast_op
from staticflow.ops.declaring.autocast_classes import CLASSES, AutocastClass
from staticflow.ops.declaring.foreign import UNWORDED
from staticflow.ops.declaring.promote import is_weak
from staticflow.ops.declaring.thread import Autocast, thread

__all__ = ["apply_cast", "autocasts_now", "by_autocast", "cast_operands"]

F = TypeVar("F", bound=Callable[..., Any])


def autocasts_now() -> bool:
    """Whether an operation is to be cast for: what a pass or a derivative writes is not."""
    return thread.state.autocast is not None and not is_rewriting()


def apply_cast(
    apply: Callable[[Op, Sequence[Any], Mapping[str, Any]], Any],
    op: Op,
    args: Sequence[Any],
    attrs: Mapping[str, Any],
) -> Any:
    """``apply(op, args, attrs)`` outside `autocast`, of operands as it wants them."""
    kind = CLASSES.get(op.name, "given")
    state = thread.state
    before, usual = state.autocast, state.usual
    assert before is not None
    try:
        state.autocast = None
        state.settle()
        return apply(op, args if kind == "given" else cast_operands(kind, args, before), attrs)
    finally:
        state.autocast, state.usual = before, usual


def by_autocast(fn: F) -> F:
    """A function that inside `autocast` gets its operands as `CLASSES` says by its name, and calls
    its ops outside of it."""
    kind = CLASSES[fn.__name__]

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        state = thread.state
        before, usual = state.autocast, state.usual
        if before is None:
            return fn(*args, **kwargs)
        try:
            state.autocast = None
            state.settle()
            if kind != "given":
                count = len(args)
                found = cast_operands(kind, [*args, *kwargs.values()], before)
                return fn(*found[:count], **dict(zip(kwargs, found[count:], strict=True)))
            return fn(*args, **kwargs)
        finally:
            state.autocast, state.usual = before, usual

    UNWORDED.add(call)
    return cast("F", call)


def cast_operands(kind: AutocastClass, args: Sequence[Any], by: Autocast) -> list[Any]:
    """Arguments, with the floating tensors and symbols among them, and in tuples and lists of them,
    in the dtype that a ``kind`` of ops wants of an `Autocast`. The rest, and float64, stays."""
    tensors = list(_tensors(args))
    dtypes = [x.dtype for x in tensors if _is_cast(x)]
    if not dtypes:
        return list(args)
    dtype = {"lower": by.dtype, "float32": float32}.get(kind) or promote(dtypes)
    mode = max((x.__sf_mode__ for x in tensors), key=lambda m: m.rank)

    def change(x: Any) -> Any:
        if type(x) in (tuple, list):
            return type(x)(map(change, x))
        if not (_is_tensor(x) and _is_cast(x)) or x.dtype is dtype:
            return x
        return _cast_to(x, dtype, mode, by)

    return list(map(change, args))


def _tensors(args: Sequence[Any]) -> Iterator[Any]:
    for x in args:
        if type(x) in (tuple, list):
            yield from _tensors(x)
        elif _is_tensor(x):
            yield x


def _is_tensor(x: Any) -> bool:
    return hasattr(x, "__sf_mode__") and hasattr(x, "dtype")


def _is_cast(x: Any) -> bool:
    return x.dtype.is_floating and x.dtype is not float64 and not is_weak(x)


def _cast_to(x: Any, dtype: DType, mode: Any, by: Autocast) -> Any:
    """``x`` in another dtype. Of a parameter the result is kept, until the outermost block ends,
    the parameter is changed, or what is recorded is another matter."""
    state = thread.state
    attrs = {"dtype": dtype}
    is_kept = by.keeps and dtype is by.dtype and not state.tracing and mode.rank == 0
    if not (is_kept and x.requires_grad and x.is_leaf and x._view is None):
        return mode.apply(cast_op, (x,), attrs)
    key = id(x), dtype, state.recording, state.inference
    array, version, out, _ = state.casts.get(key) or (None,) * 4
    if array is not x._data or version != x._version:
        out = mode.apply(cast_op, (x,), attrs)
        state.casts[key] = x._data, x._version, out, x
    return out
