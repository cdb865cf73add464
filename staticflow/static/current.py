"""Whether a program is still what its graph was written by."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from staticflow.eager.tensor import Tensor
from staticflow.errors import AutogradError, SymbolicError
from staticflow.graph.locs import Locs, format_locs, here

__all__ = ["Facts"]


class Facts:
    """What a graph was written by, beside the elements of the tensors that it names.

    - A program that updates a tensor which requires a gradient is a step of training: whether each
      of its tensors requires one, and their hooks, are as they were.
    - The modules that were called hold the same tensors under the same names.
    """

    def __init__(self, tensors: Iterable[Tensor], updated: Iterable[Tensor]) -> None:
        trains = any(t.requires_grad for t in updated)
        self._marks = [(t, _marks(t)) for t in tensors] if trains else []
        self._replaced: list[tuple[weakref.ref[Any], str, Tensor, Locs]] = []

    def note_replaced(self, module: Any, name: str, tensor: Tensor) -> None:
        """Look from now on whether ``module`` holds ``tensor`` as ``name`` again."""
        self._replaced.append((weakref.ref(module), name, tensor, here()))

    def replaced(self) -> tuple[str, Locs] | None:
        """The name of a module's tensor that was replaced, and the lines where the graph took it;
        None if nothing was replaced."""
        for ref, name, tensor, locs in self._replaced:
            module = ref()
            if module is not None and vars(module).get(name) is not tensor:
                return f"{type(module).__name__}.{name}", locs
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
        found = self.replaced()
        if found is not None:
            raise SymbolicError(
                f"{found[0]} was replaced by another tensor, at {format_locs(found[1])}, and this "
                f"program, compiled at {format_locs(made)}, has the one before; compile it anew, "
                f"or copy the new elements into it in sf.no_grad(), at {format_locs(here())}"
            )


def _marks(t: Tensor) -> tuple[Any, ...]:
    hooks = t._hooks
    own = () if hooks is None else (*hooks.before.values(), *hooks.after.values())
    return t.requires_grad, own
