"""What a user has done to gradients on their way: hooks, and gradients of inner tensors.

The functions here are methods of `Tensor`.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from staticflow.eager.in_place import refuse_in_trace
from staticflow.errors import AutogradError, DTypeError, ShapeError
from staticflow.graph.locs import format_locs, here, warn
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.dependents import note_change

__all__ = [
    "Hooks", "RemovableHandle", "lend", "register_hook", "register_post_accumulate_grad_hook",
    "retain_grad", "retains_grad", "show", "warn_of_inner",
]  # fmt: skip

Hook = Callable[[Any], Any]

_numbers = itertools.count()


class _Table(dict[int, Hook]):
    """Hooks by the numbers of their handles, in order of registration."""


class RemovableHandle:
    """What takes a hook away again: by `remove`, or at the end of a ``with`` block."""

    def __init__(self, table: _Table, hook: Hook, of: weakref.ref[Any]) -> None:
        self.id = next(_numbers)
        self._table, self._of = weakref.ref(table), of
        table[self.id] = hook

    def remove(self) -> None:
        """Take the hook away; again is fine."""
        table = self._table()
        if table is not None:
            table.pop(self.id, None)
        tensor = self._of()
        if tensor is not None:
            note_change(tensor)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Hooks:
    """What the gradient of one tensor goes through: called with it by the walk back, before it is
    used or added to ``.grad``."""

    __slots__ = ("after", "before", "retained")

    def __init__(self) -> None:
        self.before = _Table()
        self.after = _Table()  # of a leaf: called once ``.grad`` has it
        self.retained: weakref.ref[Any] | None = None  # whose ``.grad`` is to have it, too

    def __call__(self, ct: Any) -> Any:
        """The gradient that the hooks make of ``ct``."""
        for hook in tuple(self.before.values()):
            new = hook(ct)
            ct = lend(ct if new is None else _check_new(new, ct, hook))
        tensor = None if self.retained is None else self.retained()
        if tensor is not None:
            tensor.grad = ct.clone() if tensor.grad is None else tensor.grad + ct
        return ct

    def call_after(self, leaf: Any) -> None:
        """Call what waits for the gradient to be in ``leaf.grad``."""
        for hook in tuple(self.after.values()):
            hook(leaf)


def lend(ct: Any) -> Any:
    """``ct`` as the walk goes on with it, which may not take its memory for a ``.grad``, since the
    user's code may hold it."""
    show([ct])
    return type(ct)._on_tape(ct._data.view(), ct._own_memory(), ct._current_vertex())


def show(cts: Iterable[Any]) -> None:
    """Note that the user's code gets cotangents to see (those that are not None)."""
    owned = thread.state.owned
    if owned is not None:
        for ct in cts:
            if ct is not None:
                owned.mark(ct._data)


def _check_new(new: Any, ct: Any, hook: Hook) -> Any:
    name = getattr(hook, "__qualname__", repr(hook))
    if not hasattr(new, "__sf_mode__"):
        raise DTypeError(
            f"hook {name} gave {type(new).__name__}; a hook gives the new gradient, a tensor, or "
            f"None to leave it, at {format_locs(here())}"
        )
    if new.shape != ct.shape:
        raise ShapeError(
            f"hook {name} has changed the size of the gradient from {list(ct.shape)} to "
            f"{list(new.shape)}, at {format_locs(here())}"
        )
    return new.to(ct.dtype)


def _hooks_of(self: Any, wanted: str) -> Hooks:
    """The hooks of a tensor: its vertex has them, or itself if it is a leaf."""
    edge = self._current_vertex()
    if edge is None:
        raise AutogradError(
            f"{wanted} of a tensor that does not require a gradient: nothing would ever come; "
            f"requires_grad_() it first, at {format_locs(here())}"
        )
    name = "hooks" if edge.serial else "_hooks"
    found = getattr(edge, name)
    if found is None:
        found = Hooks()
        setattr(edge, name, found)
    hooks: Hooks = found
    return hooks


def _register(self: Any, fn: str, table: Callable[[Hooks], _Table], hook: Hook) -> RemovableHandle:
    refuse_in_trace(fn, "register the hook before the trace")
    handle = RemovableHandle(table(_hooks_of(self, fn)), hook, weakref.ref(self))
    note_change(self)
    return handle


def register_hook(self: Any, hook: Hook) -> RemovableHandle:
    """Call ``hook(gradient)`` whenever the gradient of this tensor has been computed. What it
    gives, if not None, takes the gradient's place. Hooks run in the order of their registration.

    Gives a handle whose ``remove()`` takes the hook away.

    >>> import staticflow as sf
    >>> x = sf.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda g: g * 10)
    >>> x.sum().backward()
    >>> x.grad
    tensor([10., 10.])
    """
    return _register(self, "register_hook", lambda h: h.before, hook)


def register_post_accumulate_grad_hook(self: Any, hook: Hook) -> RemovableHandle:
    """Call ``hook(tensor)`` whenever a gradient has been added to the ``.grad`` of this leaf."""
    if not self.is_leaf:
        raise AutogradError(
            "post accumulate grad hooks cannot be registered on non-leaf tensors, which have no "
            f"grad to add to; use register_hook, at {format_locs(here())}"
        )
    return _register(self, "register_post_accumulate_grad_hook", lambda h: h.after, hook)


def retain_grad(self: Any) -> None:
    """Let backward fill ``.grad`` of this tensor as if it were a leaf. It has the gradient that the
    other hooks have made of it."""
    hooks = _hooks_of(self, "retain_grad")
    if not self.is_leaf:
        hooks.retained = weakref.ref(self)


def warn_of_inner(self: Any) -> None:
    """Say that no gradient is kept of ``self``, which is no leaf, unless `retain_grad` was asked of
    it."""
    if not retains_grad(self):
        of = TensorType(self.dtype, self.shape)
        warn(
            f"the gradient of {of}, which is no leaf, is not kept; call retain_grad() on it before "
            "backward"
        )


def retains_grad(self: Any) -> bool:
    """Whether this is no leaf and `retain_grad` was asked of it."""
    if self.is_leaf or self._current_vertex().hooks is None:
        return False
    retained = self._current_vertex().hooks.retained
    return retained is not None and retained() is self
