"""What is done with the tensors that are saved for backward: hooks that pack and unpack them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.errors import AutogradError, DTypeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.thread import thread

__all__ = ["Packed", "save_on_cpu", "saved_tensors_hooks"]

Hook = Callable[[Any], Any]


class Packed:
    """A saved tensor as a pack hook has left it. Stands in the place of its array."""

    __slots__ = ("content", "dtype", "shape", "unpack_hook")

    def __init__(self, tensor: Any, hooks: saved_tensors_hooks) -> None:
        self.shape, self.dtype = tensor.shape, tensor.dtype
        self.unpack_hook = hooks.unpack_hook
        before = tensor._version
        self.content = _apart(hooks.pack_hook, tensor.detach())
        if tensor._version != before:
            raise AutogradError(
                "a saved tensor pack hook is modifying its input in place; return a new tensor, "
                f"at {format_locs(here())}"
            )

    def array(self) -> Any:
        """The values again."""
        tensor = _apart(self.unpack_hook, self.content)
        if not hasattr(tensor, "__sf_mode__"):
            raise DTypeError(
                "output of saved tensor unpack_hook expected to be a tensor but got result of "
                f"type {type(tensor).__name__}"
            )
        if tensor.shape != self.shape or tensor.dtype is not self.dtype:
            raise DTypeError(
                f"unpack_hook gave {tensor.dtype.name}{list(tensor.shape)} for what was "
                f"{self.dtype.name}{list(self.shape)}"
            )
        return tensor._data


def _apart(hook: Hook, x: Any) -> Any:
    """What a hook gives: unrecorded, and no hooks for what it does itself."""
    state = thread.state
    before = state.saved_hooks, state.recording, state.usual
    try:
        state.saved_hooks, state.recording = None, False
        state.settle()
        return hook(x)
    finally:
        state.saved_hooks, state.recording, state.usual = before


class saved_tensors_hooks:
    """A ``with`` block whose operations save ``pack_hook(tensor)`` for backward instead of the
    tensor; backward gets it again as ``unpack_hook(packed)``. The innermost block counts.

    >>> import staticflow as sf
    >>> x = sf.tensor([1.0, 2.0], requires_grad=True)
    >>> with saved_tensors_hooks(lambda t: t.half(), lambda h: h.float()):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pack_hook: Hook, unpack_hook: Hook) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._before: tuple[Any, ...] = ()

    def __enter__(self) -> None:
        state = thread.state
        self._before = state.saved_hooks, state.usual, self._before
        state.saved_hooks, state.usual = self, False

    def __exit__(self, *_: object) -> None:
        state = thread.state  # no call, between which and the next an error could come
        state.saved_hooks, state.usual, self._before = self._before


class save_on_cpu(saved_tensors_hooks):
    """A ``with`` block whose operations keep on the CPU what they save on a GPU for backward. With
    ``pin_memory`` that is page-locked memory, to and from which the GPU copies while the host goes
    on."""

    def __init__(self, pin_memory: bool = False) -> None:
        super().__init__(
            lambda t: (t.device, t.to("cpu", non_blocking=pin_memory)),
            lambda packed: packed[1].to(packed[0], non_blocking=pin_memory),
        )
