"""New values of tensors put in their place, all by one program: a step of an optimiser."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from staticflow.eager.in_place import is_open
from staticflow.eager.programs import UNMET, Programs, compile_function, kind_of
from staticflow.eager.vertex import user_frame
from staticflow.ops.declaring.thread import thread
from staticflow.runtime.executable import Executable

__all__ = ["in_place_form"]

_getframe = sys._getframe
_array = np.ndarray


def in_place_form(fn: Callable[..., Any], count: int, by_element: bool) -> Callable[..., bool]:
    """A function that puts what ``fn`` gives of its tensors into the first ``count`` of them by one
    program, and says whether it did; ``by_element``: those of one shape may be taken as vectors."""
    programs: Programs[Executable] = Programs()
    make = partial(compile_function, fn, updated=count)

    def store(*tensors: Any) -> bool:
        if not thread.state.plain:
            return False
        arrays: list[Any] = [getattr(t, "_data", None) for t in tensors]
        key: list[Hashable] = []
        for a in arrays:
            if type(a) is not _array or not a.flags.c_contiguous:
                return False
            key += a.dtype, a.shape
        if not all(map(is_open, tensors[:count])):
            return False
        shape = arrays[0].shape
        if by_element and shape:
            arrays = [a.reshape(-1) if a.shape == shape else a for a in arrays]
        call = tuple(key)
        program = programs.by_call.get(call, UNMET)
        if program is UNMET:
            program = programs.find((), make, tuple(map(kind_of, arrays)))
            programs.remember(call, program)
        if program is None or program.fast(*arrays) != ():
            return False
        code, frame = user_frame(_getframe(1))
        for t in tensors[:count]:
            memory = t._memory or t._own_memory()
            memory.version += 1
            memory.changed = code, frame.f_lasti
        return True

    return store
