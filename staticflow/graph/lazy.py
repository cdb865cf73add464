"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["lazy"]

T = TypeVar("T")


class lazy(Generic[T]):
    """A method without arguments as an attribute, kept once it is computed. Two threads may compute
    it at a time; both get the value that was there first.

    It takes no lock. `functools.cached_property` of CPython 3.11 has one for all instances, which a
    thread that compiles would wait for while its holder waits to compile.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make, self.name = make, make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(self.name, self.make(instance))
        return value

    def keep(self, instance: object, value: T) -> None:
        """Have ``value``, which is known already, for what would be computed."""
        instance.__dict__.setdefault(self.name, value)
