"""New values of tensors put in their place, all by one program: a step of an optimiser.

The function is traced on symbols and compiled as an update of its first arguments, for a kind of
operands: dtypes, ranks and which sizes are 1; other sizes stay unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from staticflow.eager.in_place import is_open
from staticflow.eager.programs import MOST_KINDS, compiled
from staticflow.eager.vertex import users
from staticflow.errors import StaticflowError
from staticflow.graph.dims import fresh_sym
from staticflow.graph.dtypes import BY_NUMPY
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import close, new_param
from staticflow.graph.types import TensorType
from staticflow.ops.symbol import Symbol, to_node
from staticflow.ops.thread import recording, thread
from staticflow.ops.tracing import tracing
from staticflow.runtime.executable import Executable
from staticflow.runtime.once import compiling

__all__ = ["in_place_form"]

_MET = 1024
"""So many shapes find their program at once; then it begins anew."""
_UNMET: Any = object()
_getframe = sys._getframe
_array = np.ndarray


def in_place_form(fn: Callable[..., Any], count: int, by_element: bool) -> Callable[..., bool]:
    """See `staticflow.ops.fused.in_place`."""
    programs: dict[Hashable, Executable | None] = {}
    met: dict[Hashable, Executable | None] = {}  # by shapes

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
        program = met.get(place, _UNMET)  # which another thread may clear meanwhile
        if program is _UNMET:
            program = find(arrays)
            if len(met) >= _MET:
                met.clear()
            met[place] = program
        if program is None or program.fast(*arrays) != ():
            return False
        code, frame = users(_getframe(1))
        for t in tensors[:count]:
            memory = t._memory or t._own_memory()
            memory.version += 1
            memory.changed = code, frame.f_lasti
        return True

    def find(arrays: Sequence[Any]) -> Executable | None:
        kind = tuple([(a.dtype, *[n == 1 for n in a.shape]) for a in arrays])
        with compiling:
            if kind not in programs:
                if len(programs) >= MOST_KINDS:
                    programs.clear()
                programs[kind] = _made(fn, count, arrays)
            return programs[kind]

    return store


def _made(fn: Callable[..., Any], count: int, arrays: Sequence[Any]) -> Executable | None:
    """The program for operands of a kind; None if there is none."""
    sources = [object() for _ in range(count)]
    params = [
        new_param(
            TensorType(
                BY_NUMPY[a.dtype],
                tuple([1 if n == 1 else fresh_sym(f"x{i}_{d}") for d, n in enumerate(a.shape)]),
            ),
            f"x{i}",
            sources[i] if i < count else None,
        )
        for i, a in enumerate(arrays)
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
