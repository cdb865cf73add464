"""What a view op gives, as a tensor on the memory of another, recorded if it is to be."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from staticflow.eager.gpu import shares_memory
from staticflow.eager.memory import Memory, View
from staticflow.eager.saved import SavedType
from staticflow.eager.vertex import LEAF, TapeEntry, make_entry
from staticflow.graph.op import Op
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import thread

__all__ = ["is_view", "wrap_view"]

_new = object.__new__
_array = np.ndarray
_getframe = sys._getframe


def wrap_view(x: Any, data: Any, op: Op, attrs: Mapping[str, Any]) -> Any:
    """The tensor on ``data``, which is part of the memory of ``x``, that the view ``op`` gave.

    `staticflow.eager.fast.view.wrap_view` is its twin of native code, which holds and drops each
    reference, and leaves to this whatever a user has put into slots."""
    memory = x._memory or x._own_memory()
    out = _new(eager.tensor)
    out._data = data
    out._memory = memory
    out._view = out._vertex = out._grad = out.name = out._hooks = None
    if type(memory) is not Memory:
        return out  # in inference mode nobody asks of what it is a view
    before = x._view
    recording = thread.state.recording
    version = memory.version
    out._view = View(x if before is None else before.base, before, (op, attrs), version, recording)
    if not recording or op.vjp is None:
        return out
    u = x._vertex if before is None or before.seen == version else x._current_vertex()
    if u is not None:
        edges = (x if u is LEAF else u,)
        out._vertex = make_entry(TapeEntry, op, attrs, edges, (SavedType(x),), None, _getframe(2))
    return out


def is_view(data: Any, of: Any) -> bool:
    """Whether an array is on the memory of another: mostly NumPy says so by ``base``."""
    base = data.base
    if base is None:
        return data is of
    return base is of or base is of.base or shares_memory(data, of)
