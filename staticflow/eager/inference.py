"""Inference mode: results that can never be recorded, and need no count of their changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from staticflow.eager.grad_mode import decorate
from staticflow.eager.memory import Memory
from staticflow.errors import AutogradError
from staticflow.graph.locs import Locs, format_locs, here
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import thread

__all__ = [
    "InferenceMemory", "inference_mode", "is_inference", "is_inference_mode_enabled",
    "unrecordable",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


class InferenceMemory(Memory):
    """The memory of tensors that were made in inference mode."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.changed = None, 0
        self.made: Locs = here()

    @property
    def version(self) -> int:
        """There is none outside of inference mode: who asks wants to record."""
        if thread.state.inference:
            return 0
        raise AutogradError(
            f"a tensor that was made in inference mode, at {format_locs(self.made)}, cannot be "
            "saved for backward or be changed in place outside of it; use its .clone(), or "
            f"sf.no_grad() instead of sf.inference_mode(), at {format_locs(here())}"
        )

    @version.setter
    def version(self, value: int) -> None:
        pass


def unrecordable(out: Any) -> Any:
    """The new tensor ``out``, or several, marked as made in inference mode; views of other tensors
    stay what these are."""
    for t in out if type(out) is tuple else (out,):
        if t._memory is None:
            t._memory = InferenceMemory()
    return out


def is_inference(self: Any) -> bool:
    """Whether the tensor was made in inference mode."""
    return type(self._memory) is InferenceMemory


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return thread.state.inference


class inference_mode:
    """A ``with`` block or decorator whose operations are not recorded, and whose results never will
    be: they can take no part in anything that saves them for backward. ``inference_mode(False)``
    ends it for a block.

    >>> import staticflow as sf
    >>> with sf.inference_mode():
    ...     y = sf.ones(2) * 2
    >>> y.is_inference(), y.requires_grad
    (True, False)
    """

    def __new__(cls, mode: Any = True) -> Any:
        """``@inference_mode`` without parentheses decorates, too."""
        return cls()(mode) if callable(mode) else super().__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        self._mode = as_bool("inference_mode: 'mode'", mode)
        self._before: tuple[Any, ...] = ()

    def __enter__(self) -> None:
        state = thread.state
        self._before = state.inference, state.recording, state.usual, self._before
        state.inference, state.recording = self._mode, not self._mode
        state.settle()

    def __exit__(self, *_: object) -> None:
        state = thread.state  # no call, between which and the next an error could come
        state.inference, state.recording, state.usual, self._before = self._before

    def __call__(self, fn: F) -> F:
        """The function in inference mode."""
        return decorate(fn, lambda: type(self)(self._mode))
