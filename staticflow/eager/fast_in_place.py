"""The fast path of in-place operations that are ufuncs: NumPy, or on large arrays a program, puts
the result where it belongs, if nothing of it is recorded. All else goes to
`staticflow.eager.inplace`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from staticflow.eager.fast import number_beside
from staticflow.eager.inplace import is_recorded
from staticflow.eager.memory import Memory
from staticflow.eager.overwrite import overwritten
from staticflow.eager.programs import SPREAD
from staticflow.eager.vertex import users
from staticflow.graph.op import Op
from staticflow.ops import variants
from staticflow.ops.promote import usual_dtypes
from staticflow.ops.thread import thread

__all__ = ["in_place_form"]

_array = np.ndarray
_getframe = sys._getframe
_ALPHA = {"alpha"}


def in_place_form(op: Op, general: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place method of ``op``, which is a ufunc; ``general`` does what is not usual."""
    ufunc = getattr(np, op.ufunc or "")
    dtypes = usual_dtypes(op)
    binary = ufunc.nin == 2
    scales = getattr(general, "changes", None) in (variants.add, variants.sub)

    def apply(x: Any, *args: Any, **kwargs: Any) -> Any:
        state = thread.state
        memory = x._memory
        done = False
        try:
            a = x._data
            dtype = a.dtype
            usual = (
                dtype in dtypes
                and state.plain
                and (not kwargs or (scales and kwargs.keys() == _ALPHA and a.size < SPREAD))
                and type(a) is _array
                and (memory is None or type(memory) is Memory)
                and 0 not in a.strides
            )
            recorded = x._vertex is not None or (x._view is not None and is_recorded(x))
            free = not (state.recording and recorded)
            if binary:
                (y,) = args
                if hasattr(y, "_vertex"):
                    b = y._data
                    usual = usual and b.dtype is dtype and type(b) is _array
                    free = free and (not state.recording or y._edge() is None)
                    if kwargs and usual:
                        b = state.run(np.multiply, b, number_beside(kwargs["alpha"], dtype))
                elif kwargs:
                    usual = False
                else:
                    b = number_beside(y, dtype)
                if usual and free:
                    if a.size < SPREAD or not overwritten(op, a, (b,)):
                        state.run(ufunc, a, b, a)
                    done = True
            elif usual and free and not args:
                if a.size < SPREAD or not overwritten(op, a):
                    state.run(ufunc, a, a)
                done = True
        except Exception:  # the general way does it, or says what is wrong
            done = False
        if not done:
            return general(x, *args, **kwargs)
        if memory is None:
            memory = x._memory = Memory()
        memory.version += 1
        code, frame = users(_getframe(1))
        memory.changed = code, frame.f_lasti
        return x

    apply.__name__ = apply.__qualname__ = general.__name__
    apply.__doc__ = general.__doc__
    return apply
