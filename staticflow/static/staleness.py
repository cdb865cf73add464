"""Whether a program is still what its graph was written by."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from staticflow.eager.tensor import Tensor
from staticflow.errors import AutogradError, SymbolicError
from staticflow.graph.locs import Locs, format_locs, here
from staticflow.ops.symbols.calls import ModuleCall

__all__ = ["Facts"]


class Facts:
    """What a graph was written by, beside the elements of the tensors that it names.

    - A program that updates a tensor which requires a gradient is a step of training: whether each
      of its tensors requires one, and their hooks, are as they were.
    - The modules that were called hold the same tensors and modules under the same names, have the
      same hooks, and those that compute otherwise in training are, or are not, training.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        updated: Iterable[Tensor],
        calls: Sequence[ModuleCall] = (),
    ) -> None:
        trains = any(t.requires_grad for t in updated)
        self._marks = [(t, _marks(t)) for t in tensors] if trains else []
        self._calls = calls
        self._modes = _modes(calls)
        self._replaced: list[tuple[weakref.ref[Any], str, Any, Locs]] = []
        self._others: list[tuple[weakref.ref[Any], str, Any]] = []
        self._dtypes = [(t, t.dtype) for t in tensors]

    @property
    def must_look(self) -> bool:
        """Whether each call must look: who takes the hook of a module away tells nobody."""
        return any(call.hooks for call in self._calls)

    def note_replaced(self, module: Any, name: str, before: Any) -> None:
        """Look from now on whether ``module`` has ``before``, or None, as ``name`` again."""
        self._replaced.append((weakref.ref(module), name, before, here()))

    def note_other(self, module: Any, name: str, before: Any) -> None:
        """Look from now on whether ``module`` has ``before`` as ``name`` again."""
        self._others.append((weakref.ref(module), name, before))

    def has_others(self) -> bool:
        """Whether a module that was called has another number or function, or a tensor another
        dtype."""
        found = ((ref(), name, before) for ref, name, before in self._others)
        return any(
            module is not None and not _is_same(vars(module).get(name), before)
            for module, name, before in found
        ) or any(t.dtype is not dtype for t, dtype in self._dtypes)

    def find_replaced(self) -> tuple[str, Locs] | None:
        """A sentence about the tensor or module that was replaced since the program was written,
        and the lines that used it; None if nothing was replaced."""
        for ref, name, before, locs in self._replaced:
            module = ref()
            if module is not None and (now := vars(module).get(name)) is not before:
                kind = (
                    "tensor" if hasattr(now if before is None else before, "_vertex") else "module"
                )
                change = (
                    f"is a further {kind}"
                    if before is None
                    else "was taken away"
                    if now is None
                    else f"was replaced by another {kind}"
                )
                return f"{type(module).__name__}.{name} {change}", locs
        return None

    def is_outdated(self) -> bool:
        """Whether a module is in another mode now, or has other hooks."""
        return self._other_mode() is not None or self._other_hooks() is not None

    def _other_mode(self) -> tuple[Any, ModuleCall] | None:
        for call in self._modes:
            module = call.module()
            if module is not None and bool(module.training) != call.training:
                return module, call
        return None

    def _other_hooks(self) -> tuple[Any, ModuleCall] | None:
        for call in self._calls:
            module = call.module()
            if module is not None and module._hooks_now != call.hooks:
                return module, call
        return None

    def check(self, made: Locs) -> None:
        """Raise `AutogradError` or `SymbolicError` if something has changed since the program was
        ``made``."""
        for t, before in self._marks:
            now = _marks(t)
            called = f"{t.name or 'a tensor'}, {t.dtype.name}{list(t.shape)},"
            if now[0] != before[0]:
                change = "now requires a gradient" if now[0] else "requires no gradient any more"
                raise AutogradError(
                    f"{called} {change}, as it did {'not ' if now[0] else ''}when this step of "
                    f"training was compiled, at {format_locs(made)}; compile it anew, or undo that "
                    f"by requires_grad_({before[0]}), at {format_locs(here())}"
                )
            if now != before:
                raise AutogradError(
                    f"{called} has other hooks than when this step of training was compiled, at "
                    f"{format_locs(made)}; compile it anew, at {format_locs(here())}"
                )
        found = self.find_replaced()
        if found is not None:
            raise SymbolicError(
                f"{found[0]}, at {format_locs(found[1])}, and this program, compiled at "
                f"{format_locs(made)}, has what was there before; compile it anew (or copy the "
                "elements of a new tensor into the old one, in sf.no_grad()), "
                f"at {format_locs(here())}"
            )
        self._check_calls(made)

    def _check_calls(self, made: Locs) -> None:
        other = self._other_mode()
        if other is not None:
            module, call = other
            now, then, back = _MODES[not call.training], _MODES[bool(call.training)], call.training
            raise SymbolicError(
                f"{type(module).__name__} is in {now} mode, and it was in {then} mode when this "
                f"program was written, at {format_locs(call.locs)}, and compiled, at "
                f"{format_locs(made)}; call {'train' if back else 'eval'}() of the model before, "
                f"or compile a program for each mode, at {format_locs(here())}"
            )
        other = self._other_hooks()
        if other is not None:
            module, call = other
            raise SymbolicError(
                f"{type(module).__name__} has other hooks than when this program was written, at "
                f"{format_locs(call.locs)}, and compiled, at {format_locs(made)}; compile it anew, "
                f"at {format_locs(here())}"
            )


_MODES = ("evaluation", "training")


def _modes(calls: Sequence[ModuleCall]) -> list[ModuleCall]:
    """The calls of modules that must be in one mode: a program may have been written in both."""
    found: dict[int, set[bool | None]] = {}
    asking = [call for call in calls if call.training is not None]
    for call in asking:
        found.setdefault(id(call.module()), set()).add(call.training)
    return [call for call in asking if len(found[id(call.module())]) == 1]


def _is_same(now: Any, before: Any) -> bool:
    is_number = isinstance(before, bool | int | float | str) and type(now) is type(before)
    return now is before or (is_number and bool(now == before))


def _marks(t: Tensor) -> tuple[Any, ...]:
    hooks = t._hooks
    own = () if hooks is None else (*hooks.before.values(), *hooks.after.values())
    return t.requires_grad, own
