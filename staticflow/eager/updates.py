"""Functions that give new values of tensors, as a step of an optimiser does: programs that put them
in the place of the old, apart from the tape (`ops.declaring.fused.in_place`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from staticflow.eager.in_place import is_recorded
from staticflow.eager.memory import Memory
from staticflow.eager.programs import UNMET, Programs, compile_function, kind_of
from staticflow.eager.vertex import user_frame
from staticflow.ops.declaring.thread import thread
from staticflow.runtime.executable import Executable

__all__ = ["in_place_form"]

_array = np.ndarray
_getframe = sys._getframe
Function = Callable[..., Any]


def in_place_form(fn: Function, count: int, by_element: bool) -> Callable[..., Callable[..., bool]]:
    """A function of tensors that many calls share, as the hyperparameters of an optimiser, which
    gives a function of the others, as a parameter, its gradient and its state. The latter computes
    ``fn(*others, *shared)`` by one compiled program, writes the results over the first ``count``
    of the others, and says True; False, with nothing done, where no program does it. ``by_element``
    says that elements do not depend on each other, so that all dims may be taken as one.
    """
    programs: Programs[Executable] = Programs()
    make = partial(compile_function, fn, updated=count)
    recent: dict[tuple[Any, int], Executable] = {}  # what took the last of a dtype and rank

    def search(arrays: Sequence[Any]) -> Executable | None:
        key: list[Hashable] = []
        for a in arrays:
            if type(a) is not _array or not a.flags.c_contiguous:
                return None
            key += a.dtype, a.shape
        call = tuple(key)
        program: Executable | None = programs.by_call.get(call, UNMET)
        if program is UNMET:
            program = programs.find((), make, tuple(map(kind_of, arrays)))
            programs.remember(call, program)
        return program

    def begin(*shared: Any) -> Callable[..., bool]:
        state = thread.state
        beside = [getattr(t, "_data", None) for t in shared]
        if not state.usual:
            return _decline
        recording = state.recording
        code, frame = user_frame(_getframe(1))
        changed = code, frame.f_lasti

        def store(*tensors: Any) -> bool:
            arrays: list[Any] = [getattr(t, "_data", None) for t in tensors]
            memories = [t._memory or t._own_memory() for t in tensors[:count]]
            if not all([type(m) is Memory for m in memories]):
                return False
            if recording and any(map(is_recorded, tensors[:count])):
                return False
            first = arrays[0]
            rank = first.ndim
            if by_element and rank > 1:
                shape, rank = first.shape, 1
                if not all([type(a) is _array and a.flags.c_contiguous for a in arrays]):
                    return False
                arrays = [a.reshape(-1) if a.shape == shape else a for a in arrays]
            kind = first.dtype, rank
            program = recent.get(kind)
            result = None if program is None else program.fast(*arrays, *beside)
            if result is None:  # not of this kind
                program = search([*arrays, *beside])
                if program is None:
                    return False
                result = program.fast(*arrays, *beside)
                if result is not None:
                    recent[kind] = program
            if result != ():
                return False
            for memory in memories:
                memory.version += 1
                memory.changed = changed
            return True

        return store

    return begin


def _decline(*_: Any) -> bool:
    return False
