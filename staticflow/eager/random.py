"""Generators of random numbers: their state, and the one that draws take by default."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import active_count, get_ident
from typing import Any

import numpy as np

from staticflow.eager.tensor import Tensor
from staticflow.errors import DTypeError, SymbolicError
from staticflow.graph.device import device as Device
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.foreign import refuses_foreign_in_classes
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import thread
from staticflow.ops.declaring.tracing import tracing_state
from staticflow.ops.random.frozen import watch_draws
from staticflow.ops.random.sampling import default_source
from staticflow.ops.symbols.effect import effect, read
from staticflow.ops.symbols.symbol import symbolic
from staticflow.runtime.once import compiling

__all__ = [
    "Generator", "GeneratorState", "default_generator", "fork_rng", "get_rng_state",
    "initial_seed", "manual_seed", "seed", "set_rng_state",
]  # fmt: skip

DEFAULT_SEED = 0
_NEXT = np.array([0, 1])
"""What a draw adds to (seed, count)."""
_drawing = compiling
"""Held while a state is read and changed. It is the lock of all that compiles, since a change may
have to be compiled first: of two locks two threads could each hold one."""


class GeneratorState(Tensor):
    """The two numbers that a generator counts on, seed and count. They stay on the CPU: a program
    on a GPU copies them in each call."""

    __slots__ = ()

    def __init__(self, numbers: Sequence[int]) -> None:
        self._start(np.array(numbers, np.int64))
        self.name = "generator"


class Generator:
    """A seeded source of random numbers, for the ``generator=`` of the functions that draw.

    The numbers of its k-th draw are a function of the seed and of k, in both modes. A graph that
    draws holds the generator by reference: each call of the program goes on where the last draw,
    of whichever mode, has stopped. Threads may share one.

    >>> import staticflow as sf
    >>> g = Generator().manual_seed(7)
    >>> sf.rand(2, generator=g).tolist() == sf.rand(2, generator=g.manual_seed(7)).tolist()
    True
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = Device(device)
        self.state = GeneratorState([DEFAULT_SEED, 0])
        self._last: tuple[int, int] | None = None
        """The thread of the last draw that Python made, and the count behind it."""
        watch_draws(self)

    def draw(self, *beside: Any) -> Any:
        """The state for one draw; a symbol inside a trace, or beside a symbol or unknown size."""
        with _drawing:
            if tracing_state.active or symbolic(*beside):
                state = read(self.state, *beside) + _NEXT
                return effect(state, self.state, state)
        state = self._draw_now()
        noted = thread.state.noted
        if noted is not None:
            noted.append((None, (), (), self.state, state))  # which native code draws from
        return state

    def _draw_now(self) -> Tensor:
        """`draw` of an eager tensor."""
        with _drawing:
            data = self.state._data
            after = data + _NEXT  # new, so that later draws leave it as it is
            data[...] = after  # no call lies between, so that native draws come before or after
            self.state._own_memory().version += 1
            self._last = get_ident(), int(after[1])
        return Tensor._wrap(after)

    def position(self) -> tuple[list[int], int]:
        """The seed, the count and the version of the state, for `go_back`."""
        with _drawing:
            return self.state._data.tolist(), self.state._version

    def go_back(self, position: tuple[list[int], int]) -> None:
        """Stand where a draw that failed began, unless another thread has drawn meanwhile."""
        numbers, version = position
        with _drawing:
            alone = active_count() == 1
            if alone or self._last == (get_ident(), int(self.state._data[1])):
                self.state._data[...] = numbers
                self.state._own_memory().version = version

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of ``seed`` (modulo 2**64) anew; returns the generator. Raises
        `SymbolicError` inside a trace, whose draws are made by each call."""
        _refuse_in_trace("manual_seed")
        wrapped = (int(seed) + 2**63) % 2**64 - 2**63
        with _drawing:
            self.state.copy_(Tensor._wrap(np.array([wrapped, 0], np.int64)))
        return self

    def seed(self) -> int:
        """Start the stream of a seed from the operating system; returns the seed."""
        chosen = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(chosen)
        return chosen

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return int(self.state[0].item()) % 2**64

    def get_state(self) -> Tensor:
        """A copy of the state, an int64 tensor (seed, count): where the stream has got to."""
        with _drawing:
            return Tensor._wrap(self.state._data.copy())

    def set_state(self, state: Tensor) -> None:
        """Go on from a state that `get_state` gave. Raises `DTypeError` for anything else, and
        `SymbolicError` inside a trace."""
        _refuse_in_trace("set_state")
        if state.dtype is not int64 or state.shape != (2,):
            raise DTypeError(
                "set_state: the state of a generator is an int64 tensor of 2 elements, not "
                f"{state.dtype.name} of shape {list(state.shape)}, at {format_locs(here())}"
            )
        with _drawing:
            self.state.copy_(state)

    def __getstate__(self) -> tuple[str, list[int]]:
        return str(self.device), self.get_state().tolist()

    def __setstate__(self, kept: tuple[str, list[int]]) -> None:
        Generator.__init__(self, kept[0])
        self.state.copy_(Tensor._wrap(np.array(kept[1])))

    def __repr__(self) -> str:
        return f"<Generator seed={self.initial_seed()} count={int(self.state[1].item())}>"


def _refuse_in_trace(what: str) -> None:
    if tracing_state.active:
        raise SymbolicError(
            f"{what}: a graph draws from its generators whenever it is called, and a seed that is "
            "set as it is traced would be set once and for all; set it before the call, "
            f"at {format_locs(here())}"
        )


refuses_foreign_in_classes(Generator, but=("draw",))

default_generator = Generator()
"""The generator of draws that name none: one for the process."""

default_source.append(default_generator)


def manual_seed(seed: int) -> Generator:
    """Seed the default generator; returns it."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the operating system; returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator, for `set_rng_state`."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the default generator to a state of before."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(enabled: bool = True) -> Iterator[None]:
    """A block after which the default generator stands where it stood before.

    >>> import staticflow as sf
    >>> with fork_rng():
    ...     a = sf.rand(3)
    >>> bool((sf.rand(3) == a).all())
    True
    """
    enabled = as_bool("fork_rng: 'enabled'", enabled)
    before = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(before)
