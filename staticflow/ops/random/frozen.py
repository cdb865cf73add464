"""Draws that become a part of a graph, whose numbers are then the same in every call.

One rule holds for `sf.rand` and its kin: a draw inside a trace (a module on symbols, a function
under ``jit``, a body of a loop) or beside an unknown size is a part of the graph, and is drawn anew
in each call; any other is drawn when its line runs. ``x + sf.rand(2)`` on a placeholder is such a
line. That its numbers are frozen is most likely not meant, and so there is a warning where such a
tensor is captured. A tensor that was drawn carries no mark, since draws are native code: it is one
that has no name, captured for the first time, where a generator has drawn since the last node was
made, and whose numbers do not follow from each other as those of ``ones`` and ``arange`` do.
"""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any

from staticflow.graph.locs import outside, warn
from staticflow.graph.types import TensorType

__all__ = ["note_draws", "warn_of_draw", "watch_draws"]


class _Noted:
    """A generator, and where it stood when that was last noted."""

    __slots__ = ("generator", "position")

    def __init__(self, generator: Any) -> None:
        self.generator = weakref.ref(generator, self._drop)
        self.position: Any = None

    def _drop(self, _: Any) -> None:
        _generators.remove(self)


_generators: list[_Noted] = []


def watch_draws(generator: Any) -> None:
    """Have `note_draws` ask ``generator``, too, as long as there is one."""
    _generators.append(_Noted(generator))


def note_draws() -> bool:
    """Note where the generators stand. Whether one has drawn since this was called last."""
    drawn = False
    for noted in [*_generators]:
        generator = noted.generator()
        if generator is not None:
            (_, count), _ = position = generator.position()
            drawn = drawn or (count > 0 and noted.position != position)
            noted.position = position
    return drawn


def warn_of_draw(tensor: Any, is_symbol: Any) -> None:
    """Warn where ``tensor``, which a graph captures, was most likely drawn for this very place.

    ``is_symbol`` tells whether a value is a symbol: in a function of symbols a variable does not
    outlive the line that writes the graph.
    """
    if tensor.name or tensor.requires_grad or not note_draws():
        return
    frame = outside(sys._getframe(1))
    if frame is None or _is_even(tensor._data) or _stays(tensor, frame, is_symbol):
        return
    of = TensorType(tensor.dtype, tensor.shape)
    warn(
        f"a random tensor, {of}, was drawn as this line ran, and is the same in every call of the "
        "program that it becomes a part of; for new numbers in each call draw inside the forward "
        "of a Module or a function under sf.jit, and if it is meant to stay keep it in a variable "
        "outside (noise = sf.rand(2))"
    )


def _is_even(array: Any) -> bool:
    """Whether the elements begin as those of no draw do, each as far from the one before."""
    begin = array[tuple(slice(8) for _ in array.shape)].reshape(-1)[:8].astype("float64")
    return len(begin) > 2 and len({*(begin[1:] - begin[:-1]).tolist()}) == 1


def _stays(tensor: Any, frame: FrameType, is_symbol: Any) -> bool:
    """Whether the tensor is in a variable that may be changed between calls."""
    code, variables = frame.f_code, frame.f_locals
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if any(is_symbol(variables.get(name)) for name in arguments):
        return False
    return any(v is tensor for v in variables.values())
