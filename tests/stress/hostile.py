"""What a stress test gives to native code, and what happens meanwhile: values whose methods change
tensors that are at work, and the *mischief* itself.

Nothing here does what NumPy or CPython do not survive themselves, as an array that changes its shape
while NumPy reads it.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from stress_pool import SLOT_VALUES, Derived, Empty, Pool, arrays, slots_of

import staticflow as sf
from staticflow.eager.inference import InferenceMemory
from staticflow.eager.memory import Memory
from staticflow.eager.vertex import Output, PerElementEntry, TapeEntry
from staticflow.eager.views import View

__all__ = ["Mischief", "sets_context"]


_SET_CONTEXT = {
    np.errstate.__enter__.__code__.co_filename,
    np.printoptions.__wrapped__.__code__.co_filename,  # type: ignore[attr-defined]
}


def sets_context(frame: Any) -> bool:
    """Whether NumPy may be setting a context variable in this frame. CPython 3.11 collects garbage
    in the midst of that, and goes on in memory that is free if another is set meanwhile."""
    too_old = sys.version_info < (3, 12)
    return too_old and frame is not None and frame.f_code.co_filename in _SET_CONTEXT


_HOLDERS = frozenset((Memory, InferenceMemory, View, TapeEntry, PerElementEntry, Output))
"""Classes of what a tensor holds."""


def _inside(program: Any) -> list[Any]:
    """A compiled program, and what of the runtime it leads to."""
    found = [program]
    for thing in found:
        known = {id(o) for o in found}
        found += [o for o in gc.get_referents(thing) if id(o) not in known and _is_of_program(o)]
    return [thing for thing in found if slots_of(thing)]


def _is_of_program(thing: Any) -> bool:
    of = type(thing).__module__
    return of.startswith(("staticflow.runtime", "staticflow.static")) or type(thing) in _BETWEEN


_BETWEEN = (dict, tuple, type(len))


class Mischief:
    """Changes what is at work. It is struck by the methods of hostile values, by finalizers, by the
    garbage collector, by signals, by functions that trace, and by other threads."""

    def __init__(self, pool: Pool, programs: Sequence[Any] = ()) -> None:
        self.pool, self.chance = pool, pool.chance
        self.inside = [o for p in programs for o in _inside(p)]
        self.depth = 0
        self.values: list[Callable[[], Any]] = [
            lambda: Index(self), lambda: Number(self), lambda: Truth(self), lambda: ArrayLike(self),
            lambda: Interface(self), lambda: Capsule(self), lambda: Items(self, [1, 2]),
            lambda: Equal(self), lambda: Attributes(self), lambda: Text("mean"), lambda: Whole(1),
        ]  # fmt: skip

    def strike(self) -> None:
        """Do one of them; now and then raise an error."""
        if self.depth >= 2:
            return
        self.depth += 1
        try:
            self.chance.choice(self.DEEDS)(self)
        except (ZeroDivisionError, KeyboardInterrupt):
            raise
        except SystemError:
            raise
        except Exception:
            pass
        finally:
            self.depth -= 1

    def value(self) -> Any:
        """Something whose methods strike."""
        return self.chance.choice(self.values)()

    # -- deeds -------------------------------------------------------------------------------

    def give_data(self) -> None:
        """Another memory, perhaps of another shape and dtype."""
        self.pool.pick().data = self.chance.choice([self.pool.pick(), self.pool.make()])

    def give_array(self) -> None:
        """Another array, past the count of changes."""
        self.pool.pick()._data = self.chance.choice(arrays())

    def write_slot(self) -> None:
        """Anything into any slot of a tensor, or of what it holds; but not of such a value itself,
        of which views could be made that are views of themselves, without an end."""
        thing = self._inside()
        if any(thing is value for value in SLOT_VALUES):
            return
        setattr(thing, self.chance.choice(slots_of(thing)), self.chance.choice(SLOT_VALUES))

    def delete_slot(self) -> None:
        """A slot that holds nothing any more."""
        thing = self._inside()
        delattr(thing, self.chance.choice(slots_of(thing)))

    def _inside(self) -> Any:
        if self.inside and self.chance.random() < 0.2:
            return self.chance.choice(self.inside)
        x = self.pool.pick()
        inside = [getattr(x, s, x) for s in ("_memory", "_view", "_vertex")]
        return self.chance.choice([x, x, *(o for o in inside if type(o) in _HOLDERS)])

    def forget(self) -> None:
        """A tensor that nobody holds any more, and another that takes its memory."""
        self.pool.tensors.clear()
        for _ in range(4):
            self.pool.add(self.pool.make())

    def grow(self) -> None:
        self.pool.pick().resize_(self.chance.choice([(1,), (3, 3), (4, 5), (0,)]))

    def change(self) -> None:
        self.pool.pick().add_(1.0)

    def compute(self) -> None:
        x = self.pool.pick()
        self.pool.add((x.t() * 2.0).sum(0))

    def differentiate(self) -> None:
        self.pool.pick().sum().backward()

    def require(self) -> None:
        self.pool.pick().requires_grad_(self.chance.random() < 0.5)

    def collect(self) -> None:
        gc.collect(self.chance.randrange(3))

    def give_class(self) -> None:
        self.pool.pick().__class__ = self.chance.choice([Empty, sf.Tensor, Derived])

    def leave_garbage(self) -> None:
        """A cycle with a tensor and a finalizer in it."""
        cycle: list[Any] = [Finalized(self), self.pool.pick()]
        cycle.append(cycle)

    def draw(self) -> None:
        self.pool.generator.state.data = self.chance.choice(
            [sf.tensor([1, 2]), sf.tensor([1, 2]), sf.tensor(1), sf.ones(3)]
        )

    def fail(self) -> None:
        raise ZeroDivisionError

    DEEDS = (
        give_data, give_data, give_data, give_array, write_slot, write_slot, delete_slot, forget,
        grow, change, compute, differentiate, require, collect, give_class, leave_garbage, draw,
        fail,
    )  # fmt: skip


# -- values -------------------------------------------------------------------------------------


class _Hostile:
    def __init__(self, mischief: Mischief) -> None:
        self.mischief = mischief

    def strike(self) -> None:
        self.mischief.strike()


class Index(_Hostile):
    """Looks like an int."""

    def __index__(self) -> int:
        self.strike()
        return self.mischief.chance.choice([0, 1, -1, 2])

    __int__ = __index__


class Number(_Hostile):
    """Looks like a float."""

    def __float__(self) -> float:
        self.strike()
        return 1.5


class Truth(_Hostile):
    """Looks like a bool."""

    def __bool__(self) -> bool:
        self.strike()
        return self.mischief.chance.random() < 0.5

    def __len__(self) -> int:
        self.strike()
        return 2


class ArrayLike(_Hostile):
    """NumPy makes an array of it."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.strike()
        return np.ones((3, 3), dtype or np.float32)


class Interface(_Hostile):
    """NumPy takes its memory."""

    @property
    def __array_interface__(self) -> Any:
        self.strike()
        return np.ones((3, 3), np.float32).__array_interface__ | {"data": np.ones(9, "f4")}


class Capsule(_Hostile):
    """Lends its memory by DLPack."""

    def __dlpack__(self, **given: Any) -> Any:
        self.strike()
        return np.ones((3, 3), np.float32).__dlpack__()

    def __dlpack_device__(self) -> Any:
        self.strike()
        return (1, 0)


class Items(list):  # type: ignore[type-arg]
    """A list that changes while it is read."""

    def __init__(self, mischief: Mischief, items: list[Any]) -> None:
        super().__init__(items)
        self.mischief = mischief

    def __iter__(self) -> Any:
        self.mischief.strike()
        return super().__iter__()

    def __getitem__(self, at: Any) -> Any:
        self.mischief.strike()
        return super().__getitem__(at)


class Equal(_Hostile):
    """Equal to everything, or not."""

    def __eq__(self, other: object) -> bool:
        self.strike()
        return True

    def __hash__(self) -> int:
        self.strike()
        return 1


class Attributes:
    """Has every attribute, until it is asked."""

    def __init__(self, mischief: Mischief) -> None:
        object.__setattr__(self, "mischief", mischief)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.mischief.strike()
        return self


class Text(str):
    """A string that is none quite."""


class Whole(int):
    """An int that is none quite."""

    def __add__(self, other: Any) -> Any:
        return NotImplemented


class Finalized(_Hostile):
    """Strikes as it is freed."""

    def __del__(self) -> None:
        if sets_context(sys._getframe(1)):
            return
        with contextlib.suppress(ZeroDivisionError, KeyboardInterrupt):
            self.strike()
