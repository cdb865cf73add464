"""Inputs that a caller gives away: a result lies in their memory, and nobody is to use them again.

What was given away is remembered as long as its array lives, so that a program that is given it
once more says so. Other uses cannot be seen: they find the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError
from staticflow.graph.locs import Locs, format_locs, here
from staticflow.graph.node import Node
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["Donations", "read_donate"]

Array = np.ndarray[Any, Any]

_given_away: WeakValueDictionary[int, Array] = WeakValueDictionary()
"""Arrays whose memory holds the result of a program, by their ids."""


def read_donate(donate: Any, names: Sequence[str], inputs: Sequence[Node]) -> frozenset[int]:
    """The numbers of the inputs that ``donate`` names, each by its name or its placeholder."""
    if donate is None:
        return frozenset()
    listed = [donate] if isinstance(donate, str | Symbol) else donate
    if not isinstance(listed, Iterable):
        raise _wrong(f"takes inputs, each by its name or its placeholder, not {donate!r}")
    found = set()
    for one in listed:
        if isinstance(one, Symbol) and one.node in inputs:
            found.add(inputs.index(one.node))
        elif isinstance(one, str) and one in names:
            found.add(names.index(one))
        else:
            shown = one if isinstance(one, str | Symbol) else repr(one)
            raise _wrong(f"{shown} is no input; the inputs are {', '.join(names) or 'none'}")
    return frozenset(found)


def _wrong(what: str) -> ArgumentError:
    return ArgumentError(f"compile: donate: {what}, at {format_locs(here())}")


@dataclass(frozen=True, slots=True)
class Donations:
    """The ``pairs`` of an output and the input in whose memory it lies, by their numbers, of a
    program that was compiled at the lines ``made``; ``names`` are those of the inputs. A call that
    ``keeps`` what it is given, as one that is measured, writes over copies."""

    pairs: tuple[tuple[int, int], ...]
    names: tuple[str, ...]
    made: Locs
    keeps: bool = False

    def take(self, arguments: Sequence[Any], arrays: Sequence[Array]) -> list[Array]:
        """The arrays of the inputs that a call works on. Raises `ArgumentError` if one of them was
        given away before, or cannot be."""
        self._check(arguments, arrays)
        over = {i for _, i in self.pairs if self.keeps}
        return [a.copy() if i in over else a for i, a in enumerate(arrays)]

    def _check(self, arguments: Sequence[Any], arrays: Sequence[Array]) -> None:
        for name, array in zip(self.names, arrays, strict=True):
            if _given_away.get(id(array)) is array:
                raise self._refuse(
                    f"the input {name} was donated to an earlier call, whose result lies in its "
                    "memory; give that result, or a copy that was made before"
                )
        for _, i in self.pairs:
            argument, name = arguments[i], self.names[i]
            if isinstance(argument, Tensor) and argument.requires_grad:
                raise self._refuse(
                    f"the input {name} is donated, and requires a gradient, which needs its value; "
                    f"give {name}.detach().clone()"
                )
            if not arrays[i].flags.writeable:
                raise self._refuse(
                    f"the input {name} is donated, but its memory is read-only; give a copy"
                )

    def give(
        self, arguments: Sequence[Any], arrays: Sequence[Array], results: Sequence[Array]
    ) -> list[Array]:
        """The outputs: those that have memory of their own, ``results``, with those between that
        lie in inputs. These are remembered as given away."""
        found = list(results)
        for output, i in sorted(self.pairs):
            found.insert(output, arrays[i].view())
            if self.keeps:
                continue
            _given_away[id(arrays[i])] = arrays[i]
            argument = arguments[i]
            if isinstance(argument, Tensor):  # a backward that has saved it finds it changed
                memory = argument._memory or argument._own_memory()
                memory.version += 1
                memory.locs = self.made
        return found

    def _refuse(self, what: str) -> ArgumentError:
        return ArgumentError(
            f"{what}; the program was compiled at {format_locs(self.made)}, called at "
            f"{format_locs(here())}"
        )
