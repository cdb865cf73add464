"""Objects that count their references, for native functions that run as Python."""

from __future__ import annotations

from typing import Any

from staticflow.native.cpython import NONE
from staticflow.native.language import Object, drop

__all__ = ["Counted", "Items", "World"]


class Counted(Object):
    """An object that takes what is put into its slots, drops what was there before, and drops all
    of it when its last reference is dropped, once."""

    def __init__(self, **slots: Any) -> None:
        self.__dict__["references"] = 1
        super().__init__(**slots)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "references":
            assert self.references > 0, f"{self} was freed before"
            assert value >= 0
        before = self.__dict__.get(name)
        self.__dict__[name] = value
        if name == "references" and value == 0:
            for slot in self.held():
                drop(slot)
        elif isinstance(before, Counted):
            drop(before)

    def held(self) -> list[Any]:
        """What its slots hold."""
        return [value for value in self.__dict__.values() if isinstance(value, Counted)]


class Items(Counted):
    """A tuple."""

    def held(self) -> list[Any]:
        return [item for item in self.items if isinstance(item, Counted)]


class World:
    """External functions by their names, of which one call may fail; and all that they made."""

    def __init__(self, fails: int = -1) -> None:
        self.fails, self.calls = fails, 0
        self.made: list[Counted] = []

    def make(self, thing: Counted) -> Counted | None:
        """What an external function gives; null if this is the call that fails."""
        self.calls += 1
        if self.calls == self.fails + 1:
            return None
        self.made.append(thing)
        return thing

    def like(self, example: Any, size: int, without: int) -> Counted | None:
        """An object of nothing yet."""
        return self.make(Counted())

    def row(self, length: int) -> Counted | None:
        """A tuple of nothing yet."""
        return self.make(Items(items=[None] * length))

    def triple(self, *things: Any) -> Counted | None:
        """A tuple that takes three objects."""
        if None in things or (made := self.make(Items(items=[*things]))) is None:
            for thing in things:
                drop(thing)
            return None
        return made

    def get(self, *of: Any) -> Counted | None:
        """An attribute, an item, an int."""
        return self.make(Counted(of="an attribute"))

    def leaks(self) -> list[Counted]:
        """What is alive and reached from nowhere else."""
        return [thing for thing in self.made if thing.references and thing is not NONE]


def set_item(row: Any, place: int, item: Any) -> int:
    """``PyTuple_SetItem``."""
    row.items[place] = item
    return 0
