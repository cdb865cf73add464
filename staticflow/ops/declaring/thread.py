"""What each thread is doing: tracing, recording, and with which settings.

One object for each thread, since an eager operation looks at all of it.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType
from staticflow.graph.locs import Locs

__all__ = ["Autocast", "State", "autocasting", "for_itself", "recording", "stabilizing", "thread"]


@dataclass(frozen=True, slots=True)
class Autocast:
    """What a block of ``autocast`` says: the ``dtype`` of the operations that are as good in few
    bits, and whether parameters that were cast to it are kept (``keeps``)."""

    dtype: DType
    keeps: bool = True


class State:
    """The switches of one thread.

    - ``tracing``: ops make nodes of a graph, also on eager tensors.
    - ``types_only``: the graph that is traced is asked for types, and never run.
    - ``recording``: eager operations are recorded for backward, and gradients flow through what is
      made in a graph.
    - ``inference``: eager results can never be recorded.
    - ``saved_hooks``: what packs and unpacks the tensors that are saved for backward, or None.
    - ``anomaly``: backward looks for NaN; None where detection is on without that.
    - ``autocast``: the `Autocast` by which operations cast what they are given, or None;
      ``autocast_dtype``: the dtype of the innermost block, or None; ``casts``: the parameters that
      were cast and are kept.
    - ``calls``: while a graph is written, the calls of modules in the outermost of them, or None.
    - ``examples``: while ``jit`` traces, what the sizes that the trace leaves open are in the call
      that it traces for, by their symbols.
    - ``guards``: while ``jit`` traces, what the trace depends on beside its arguments, or None.
    - ``noted``: the operations of the general path (the op, operands, attributes and what it gave),
      while somebody wants to know them, or None. Among them are draws (None, nothing, what draws,
      and the state), and None for each time that Python asked for the values of a tensor, or did
      what is no operation.
    - ``regions``: how many functions are being traced into regions, or by ``jit``, and ``left``:
      the marks of their effects that no result depends on.
    - ``within``: the numbers of the regions that are being traced, the outermost first; 0 is none.
    - ``roots``: which nodes are looked through for what binds a size, the inmost first.
    - ``quiet``: programs do not print.
    - ``stable``: what is differentiated in a graph is first said in a form that does not overflow.
    - ``sizes``: how many sizes have followed from the elements of eager tensors.
    - ``last_backward``: the user's line of the last backward.
    - ``owned``: what somebody has of the arrays of the backward that is going on, or None.
    - ``usual``: none of the rarer switches is on, so that the fast path may be taken; `settle` it
      after a change of ``tracing``, ``inference``, ``saved_hooks``, ``noted`` or ``autocast``.
    - ``run(fn, *args)``: calls ``fn`` where NumPy does not warn of overflow and the like. NumPy
      keeps that setting in a context variable, and to run in a ``context`` in which it is set costs
      a tenth of setting it.
    """

    __slots__ = (
        "anomaly",
        "autocast",
        "autocast_dtype",
        "calls",
        "casts",
        "context",
        "examples",
        "guards",
        "inference",
        "last_backward",
        "left",
        "noted",
        "owned",
        "quiet",
        "recording",
        "regions",
        "roots",
        "run",
        "saved_hooks",
        "sizes",
        "stable",
        "tracing",
        "types_only",
        "usual",
        "within",
    )  # fmt: skip

    run: Callable[..., Any]

    def __init__(self) -> None:
        self.tracing = self.types_only = self.inference = False
        self.anomaly: bool | None = False
        self.recording = self.usual = self.stable = True
        self.quiet, self.regions, self.sizes = False, 0, 0
        self.left: list[Any] = []
        self.roots: tuple[Any, ...] = ()
        self.within: tuple[int, ...] = (0,)
        self.saved_hooks: Any = None
        self.owned: Any = None
        self.autocast: Autocast | None = None
        self.autocast_dtype: DType | None = None
        self.casts: dict[Any, Any] = {}
        self.noted: list[Any] | None = None
        self.calls: list[Any] | None = None
        self.examples: dict[Any, int] = {}
        self.guards: dict[tuple[int, str], tuple[Any, str, Any]] | None = None
        self.last_backward: Locs = ()
        self.renew()

    def settle(self) -> None:
        """Work out ``usual``."""
        rare = self.tracing or self.inference or self.saved_hooks or self.autocast is not None
        self.usual = not rare and self.noted is None

    def note_more(self) -> None:
        """Note that a call does more than its operations say, as to warn, if anybody wants to
        know."""
        if self.noted is not None:
            self.noted.append(None)

    def note_values(self, tensor: Any) -> None:
        """Note that Python asks for the values of a tensor, if anybody wants to know."""
        self.note_more()
        if self.guards is not None:
            self.guards[id(tensor), "_values"] = (tensor, "_values", tensor._values)

    def renew(self) -> None:
        """Another context for `run`."""
        self.context = contextvars.Context()
        self.context.run(np.seterr, all="ignore")
        self.run = self.context.run

    def safely(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`run`, also from inside itself, where a finalizer may compute: a context cannot be
        entered twice."""
        try:
            return self.run(fn, *args, **kwargs)
        except RuntimeError as error:
            if "already entered" not in str(error):
                raise
        self.renew()
        return self.run(fn, *args, **kwargs)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.state = State()

    @property
    def active(self) -> bool:
        """Whether this thread is tracing."""
        return self.state.tracing


thread = _Thread()
"""``thread.state`` is the state of the thread that asks."""


@contextmanager
def stabilizing(wanted: bool) -> Iterator[None]:
    """A block in which graphs are differentiated in stable forms, or as they were written."""
    state = thread.state
    before = state.stable
    try:
        state.stable = wanted
        yield
    finally:
        state.stable = before


@contextmanager
def recording(wanted: bool) -> Iterator[None]:
    """A block in which operations are recorded, or are not."""
    state = thread.state
    before = state.recording
    try:
        state.recording = wanted
        yield
    finally:
        state.recording = before


@contextmanager
def autocasting(wanted: Autocast | None) -> Iterator[None]:
    """A block in which operations cast what they are given by ``wanted``, or, if it is None, take
    it as it is."""
    state = thread.state
    before = state.autocast, state.usual
    try:
        state.autocast = wanted
        state.settle()
        yield
    finally:
        state.autocast, state.usual = before


@contextmanager
def for_itself() -> Iterator[None]:
    """A block in which the library traces or rewrites for itself: whether the user's code is inside
    ``no_grad`` or ``autocast`` does not show in what it makes."""
    with autocasting(None), recording(True):
        yield
