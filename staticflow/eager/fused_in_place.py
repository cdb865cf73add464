"""New values of tensors put in their place, all by one program: a step of an optimiser.

The function is traced on symbols and compiled as an update of its first arguments, for a kind of
operands: dtypes, ranks and which sizes are 1; other sizes stay unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from staticflow.eager.in_place import is_open
from staticflow.eager.programs import UNMET, ArrayKind, Programs, compiled, kind_of
from staticflow.eager.vertex import users
from staticflow.errors import StaticflowError
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import close
from staticflow.ops.declaring.thread import recording, thread
from staticflow.ops.declaring.tracing import tracing
from staticflow.ops.symbols.symbol import Symbol, to_node
from staticflow.runtime.executable import Executable

__all__ = ["in_place_form"]

_getframe = sys._getframe
_array = np.ndarray


def in_place_form(fn: Callable[..., Any], count: int, by_element: bool) -> Callable[..., bool]:
    """A function that puts what ``fn`` gives of its tensors into the first ``count`` of them by one
    program, and says whether it did; ``by_element``: those of one shape may be taken as vectors."""
    programs: Programs[Executable] = Programs()

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
        place = tuple(key)
        program = programs.by_call.get(place, UNMET)
        if program is UNMET:
            kinds = tuple(map(kind_of, arrays))
            program = programs.find((kinds, partial(_compiled, fn, count, kinds)))
            programs.remember(place, program)
        if program is None or program.fast(*arrays) != ():
            return False
        code, frame = users(_getframe(1))
        for t in tensors[:count]:
            memory = t._memory or t._own_memory()
            memory.version += 1
            memory.changed = code, frame.f_lasti
        return True

    return store


def _compiled(fn: Callable[..., Any], count: int, kinds: Sequence[ArrayKind]) -> Executable | None:
    """The program for operands of these kinds; None if there is none."""
    sources = [object() for _ in range(count)]
    params = [
        kind.param(f"x{i}", sources[i] if i < count else None) for i, kind in enumerate(kinds)
    ]
    try:
        with tracing(), recording(True):
            values = [to_node(v) for v in fn(*map(Symbol, params))]
        equalities = [
            Equality(a, b, "a new value is of the shape of the old", ())
            for p, v in zip(params, values, strict=False)
            for a, b in zip(v.tensor_type.shape, p.tensor_type.shape, strict=True)
        ]
        return compiled(close(params, values, equalities), sources)
    except StaticflowError:
        return None
