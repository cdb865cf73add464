"""Native code that makes an object like another one."""

from __future__ import annotations

from typing import TypeVar

from staticflow.native.language import Object, Owned, Row, Type, hold, native, trust
from staticflow.runtime.object_layout import HEAD

__all__ = ["like"]

K = TypeVar("K", bound=Object)
OwnedAlike = Owned[K]

FIRST_SLOT = HEAD >> 3


@native
def like(example: K, size: int, without: int) -> Owned[K | None]:
    """A new object of the class of another and of its size, with what its slots hold but that at
    the offset ``without``; null with an error set."""
    cls = trust(example.type, Type, "classes that examples are of live as long as the process")
    new = cls.alloc(cls, 0)
    if new is None:
        return None
    slots = trust(example, Row[Object | None], "an object is its words")
    own = trust(new, Row[Owned[Object | None]], "an object is its words")
    left_out = without >> 3
    for i in range(FIRST_SLOT, size >> 3):
        value = slots[i]
        if value is not None and i != left_out:
            own[i] = hold(value)
    made: K = trust(new, OwnedAlike, "it is of the class of the example")
    return made
