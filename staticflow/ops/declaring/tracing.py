"""Whether ops on eager tensors alone run now or make nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from staticflow.errors import SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.thread import for_itself, thread

__all__ = [
    "Guard", "collect_guards", "computing", "computing_apart", "depends_on", "is_traced",
    "knowing_examples", "may_be_differentiated",
    "tracing", "tracing_region", "tracing_state",
]  # fmt: skip

Guard = tuple[Any, str, Any]
"""An object, the name of an attribute, and the value that it had."""


_numbers = itertools.count(1)

tracing_state = thread
"""``tracing_state.active``: whether this thread is inside `tracing`."""


@contextmanager
def tracing() -> Iterator[None]:
    """A block in which every op makes a node, also one on eager tensors alone.

    Without it ``w.t()`` of a parameter runs at once, and a graph that takes the result captures
    what ``w`` was then, with no way back to ``w`` for a gradient.
    """
    state = thread.state
    before = state.tracing, state.usual
    try:
        state.tracing, state.usual = True, False
        yield
    finally:
        state.tracing, state.usual = before


@contextmanager
def computing() -> Iterator[None]:
    """A block inside of `tracing` in which ops on eager tensors alone run now: for what a trace
    computes of numbers that no call changes, and whose values it asks for."""
    state = thread.state
    before = state.tracing
    try:
        state.tracing = False
        yield
    finally:
        state.tracing = before


@contextmanager
def computing_apart() -> Iterator[None]:
    """A block that computes now as if nothing were around it: no trace, ``inference_mode``,
    ``no_grad`` or ``autocast``. It is for what is made once, whoever makes it first."""
    state = thread.state
    before = state.inference, state.noted, state.saved_hooks
    try:
        state.inference, state.noted, state.saved_hooks = False, None, None
        with for_itself(), computing():
            state.settle()
            yield
    finally:
        state.inference, state.noted, state.saved_hooks = before
        state.settle()


@contextmanager
def knowing_examples(sizes: Mapping[Any, int]) -> Iterator[None]:
    """A block in which the symbols of a trace are known to have ``sizes`` in the first call, for
    what is made once and for all in it."""
    state = thread.state
    before = state.examples
    try:
        state.examples = {**before, **sizes}
        yield
    finally:
        state.examples = before


@contextmanager
def tracing_region(inside: bool = True) -> Iterator[None]:
    """`tracing` a function whose effects count also where its results do not depend on them; as a
    part of what is around it where it is not ``inside`` a region of its own.

    Raises `SymbolicError` where the function leaves the recording of operations switched: it would
    be so from the first call on, and not from the second.
    """
    state = thread.state
    if state.regions == 0:
        state.left.clear()  # of a trace that failed
    before = state.regions, state.within
    mode = state.recording, state.inference
    try:
        state.regions += 1
        if inside:
            state.within = (*state.within, next(_numbers))
        with tracing():
            yield
        if (state.recording, state.inference) != mode:
            raise SymbolicError(
                "a function that is traced leaves the recording of gradients switched (by "
                "sf.set_grad_enabled, called and not undone), which only its first run would do; "
                f"write with sf.set_grad_enabled(...): around what it is for, at "
                f"{format_locs(here())}"
            )
    finally:
        state.regions, state.within = before
        state.recording, state.inference = mode
        state.settle()


def is_traced(x: Any) -> bool:
    """Whether an op on ``x`` makes a node."""
    return bool(tracing_state.active or x.__sf_mode__.rank)


def may_be_differentiated(x: Any) -> bool:
    """Whether a derivative by ``x`` may be asked for: in a graph, and where it is recorded."""
    return is_traced(x) or (thread.state.recording and bool(x.requires_grad))


@contextmanager
def collect_guards() -> Iterator[dict[Any, Guard]]:
    """A trace, and what it depends on beside its arguments as `depends_on` tells."""
    state = thread.state
    before = state.guards
    try:
        state.guards = {}
        with tracing_region():
            yield state.guards
    finally:
        state.guards = before


def depends_on(obj: Any, name: str) -> None:
    """Another value of the attribute ``name`` of ``obj`` would give another trace."""
    guards = thread.state.guards
    if guards is not None:
        guards[id(obj), name] = (obj, name, getattr(obj, name))
