"""What the calls of a stress test work on: tensors of many kinds, programs, and what does not belong
into their slots."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import staticflow as sf
from staticflow.eager.random import default_generator

__all__ = [
    "SLOT_VALUES", "Derived", "Empty", "Lively", "Pool", "Refusing", "Slotted", "arrays",
    "new_programs", "programs", "slots_of",
]  # fmt: skip


class Derived(sf.Tensor):
    """A tensor of a class of one's own."""


class Empty(sf.Tensor):
    """A tensor of a class without slots of its own, which may be assigned to tensors."""

    __slots__ = ()


def arrays() -> list[Any]:
    return [
        np.ones(3), np.ones((3, 3), ">f4"), np.ones((3, 3), object), np.zeros((0, 3), np.float32),
        np.ones((3, 3), np.float32), np.ones((2, 5), np.int64), np.float32(2), np.ma.ones((3, 3)),
        np.ones(70_000, np.float32), np.ones((3, 3), np.float32)[::-1, 1:],
    ]  # fmt: skip


def _slot_values() -> list[Any]:
    """What has no place in a private slot."""
    x = sf.ones(3, 3)
    part = (sf.ones(3, 3, requires_grad=True) * 2.0).t()
    return [
        None, 5, 2**70, "text", 1.5, (), [1], {}, object(), object, sf.Tensor, x, x._data, part,
        part._view, part._memory, part._vertex, (sf.ones(2, 3) * 1.0).requires_grad_().max(0)[0],
        object.__new__(sf.Tensor), object.__new__(type(part._view)), lambda *_: None, True,
        object.__new__(type(part._memory)), object.__new__(type(part._vertex)), *arrays()[:5],
    ]  # fmt: skip


SLOT_VALUES = _slot_values()


def slots_of(thing: Any) -> list[str]:
    """The slots of an object and of its classes, and what is in its dict."""
    slots = [s for c in type(thing).__mro__ for s in vars(c).get("__slots__", ())]
    return [s for s in [*slots, *getattr(thing, "__dict__", {})] if s != "__weakref__"]


class Slotted(sf.Tensor):
    """A tensor of a class with slots of its own, one of them named as one that it has."""

    __slots__ = ("_more", "_view")


class Lively(sf.Tensor):
    """A tensor whose private attributes are not what its slots hold."""

    @property
    def _memory(self) -> Any:
        return None

    def __getattribute__(self, name: str) -> Any:
        return None if name == "_vertex" else super().__getattribute__(name)


class Refusing(sf.Tensor):
    """A tensor that has, sets and deletes no attribute."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise ZeroDivisionError(name)

    __delattr__ = __getattr__


class Pool:
    """The tensors that calls take, which all change, and a bystander that nothing changes."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.bystander = sf.full((4,), 7.0)
        self.bystander.add_(0.0)
        self.generator = default_generator
        sf.Generator.__init__(self.generator)
        self.tensors: list[Any] = []
        for _ in range(8):
            self.add(self.make())

    def add(self, x: Any) -> None:
        """Take a tensor in, for one that goes if there are many."""
        if len(self.tensors) >= 12:
            with contextlib.suppress(IndexError):  # another thread forgets them meanwhile
                self.tensors.pop(self.chance.randrange(12))
        self.tensors.append(x)

    def pick(self) -> Any:
        """One of the tensors."""
        return self.chance.choice(self.tensors or [sf.ones(3, 3)])

    def make(self) -> Any:
        """A tensor of one kind or another."""
        return self.chance.choice(_MAKERS)()

    def is_well(self) -> bool:
        """Whether the bystander is as it was."""
        x = self.bystander
        return bool(x._version == 1 and x.tolist() == [7.0] * 4 and x._view is x._vertex is None)


def _leaf(*shape: int) -> Any:
    return sf.ones(*shape, requires_grad=True)


def _of_class(cls: Any) -> Any:
    """A tensor of a class that does not run what makes others."""
    x = object.__new__(cls)
    for slot in ("_data", "_memory", "_vertex", "_grad", "_hooks", "name"):
        getattr(sf.Tensor, slot).__set__(x, getattr(sf.ones(3, 3), slot))
    return x


def _in_inference_mode() -> Any:
    with sf.inference_mode():
        return sf.ones(3, 3) * 2.0


_MAKERS: tuple[Callable[[], Any], ...] = (
    lambda: sf.ones(3, 3), lambda: sf.ones(3, 3), lambda: sf.ones(3), lambda: sf.tensor(2.0),
    lambda: sf.rand(2, 3, 4), lambda: sf.arange(12).view(3, 4), lambda: sf.ones(3, 3) > 0,
    lambda: _leaf(3, 3), lambda: _leaf(3, 3), lambda: _leaf(3, 3) * 2.0, lambda: _leaf(3),
    lambda: (_leaf(3, 3) * 2.0).t(), lambda: (_leaf(3, 3) * 1.0).t().reshape(9)[1:4],
    lambda: sf.ones(3, 3).t(), lambda: sf.ones(3, 3)[1:], lambda: sf.ones(1, 3).expand(3, 3),
    lambda: sf.ones(3, 3, dtype="bfloat16"), lambda: sf.ones(3, 3, dtype="float64"),
    lambda: sf.ones(0, 3), lambda: sf.ones(70_000), lambda: _leaf(300, 300), _in_inference_mode,
    lambda: sf.ones(600_000), lambda: Derived([[1.0, 2.0, 3.0]] * 3),
    lambda: Empty([[1.0, 2.0, 3.0]] * 3).requires_grad_(), lambda: (_leaf(3, 3) * 1.0).max(0)[0],
    lambda: object.__new__(sf.Tensor), lambda: Slotted([[1.0, 2.0, 3.0]] * 3),
    lambda: _of_class(Slotted), lambda: _of_class(Lively), lambda: _of_class(Refusing),
)  # fmt: skip


@functools.cache
def programs() -> tuple[Any, Any, Any]:
    """Those that all trials share."""
    return new_programs()


def new_programs() -> tuple[Any, Any, Any]:
    """A program that updates a variable, one that does not, and the variable."""
    w = sf.zeros(3, 3)
    x = sf.placeholder((None, 3), name="x")
    step = sf.compile([x], [(x @ w).sum(), x + 1.0], updates={w: w + x.sum(0)})
    return step, sf.compile([x], (x * 2.0).sum()), w
