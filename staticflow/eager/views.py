"""Views: how a tensor on the memory of another came from it, and what a view op gives."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow.eager.device import shares_memory
from staticflow.eager.memory import Memory
from staticflow.eager.saved import SavedType
from staticflow.eager.vertex import LEAF, TapeEntry, make_entry
from staticflow.graph.op import Op
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import thread

if TYPE_CHECKING:
    from staticflow.eager.tensor import Tensor

__all__ = ["View", "ViewStep", "is_view", "wrap_view"]

_new = object.__new__
_array = np.ndarray
_getframe = sys._getframe


ViewStep = tuple[Op, Mapping[str, Any]]
"""A view op with its attributes."""


class View:
    """How a tensor is a view of ``base``, which is none: by the last ``step``, from the view
    ``before`` it or from the base itself.

    A recorded change of the base or of one of its views gives all of them another history. A view
    finds out when its version is not the one that it has ``seen``, and works its history out anew.
    ``recorded`` says whether it was taken where operations are recorded.
    """

    __slots__ = ("_base", "before", "recorded", "seen", "step")

    def __init__(
        self, base: Tensor, before: View | None, step: ViewStep, seen: int, recorded: bool
    ) -> None:
        self._base = base
        self.before = before
        self.step = step
        self.seen = seen
        self.recorded = recorded

    @property
    def base(self) -> Tensor:
        """The tensor with the history; one that changed its own shape became a view of that."""
        base = self._base
        return base if base._view is None else base._view.base

    @property
    def leads_back(self) -> bool:
        """Whether it, and every view on the way to the base, was recorded."""
        view: View | None = self
        while view is not None and view.recorded:
            view = view.before
        return view is None

    @property
    def steps(self) -> tuple[ViewStep, ...]:
        """All steps from the base on."""
        steps = []
        view: View | None = self
        while view is not None:
            steps.append(view.step)
            view = view.before
        return tuple(reversed(steps))


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
