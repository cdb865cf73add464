"""The operations of the eager mode, written down as they run: by whom, for which line, how long.

While `record_operations` is on, what stands for the operations of tensors (their methods, the
forms of ops, the steps of backward) are functions of this module around those that were there. The
fast path is taken as ever, and computes the same bits. Off, nothing is asked on the way of an
operation, since there is nothing to ask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter_ns
from types import MethodDescriptorType
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.eager import tape
from staticflow.eager.fused import FusedEntry
from staticflow.eager.mode import EAGER
from staticflow.eager.tensor import Tensor
from staticflow.eager.vertex import PerElementEntry, TapeEntry
from staticflow.graph.op import Op
from staticflow.measure.operation_work import (
    IN_GRAPHS,
    Applied,
    Attribute,
    Method,
    describe_call,
    describe_pull,
)
from staticflow.measure.program_calls import ProgramCalls, Programs
from staticflow.measure.recorder import Recorder, Recording
from staticflow.ops.declaring.by_shape import BY_SHAPE
from staticflow.ops.declaring.fused import FUSED
from staticflow.runtime.counting import count_allocations

__all__ = ["Extra", "record_operations"]

Function = Callable[..., Any]


# -- what is exchanged ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Extra:
    """A method that is an operation, too, or a step of backward: of ``cls``, by its name;
    ``label`` names it by its arguments."""

    cls: type
    method: str
    kind: str
    label: Callable[..., str] | None = None
    in_ops: Any = None
    """What says by what its work is counted, a `Described`; None: by the operations inside."""


class _Functions(dict[Op, Function]):
    """What `EagerMode.apply` calls of an op."""

    def __init__(self, recorder: Recorder, functions: Mapping[Op, Function]) -> None:
        super().__init__()
        self.recorder, self.functions = recorder, functions

    def get(self, op: Op, default: Any = None) -> Any:
        """The function of an op, or its general path, with a recorder around."""
        if op not in self:
            function = self.functions.get(op) or partial(EAGER.general, op)
            self[op] = self.recorder.around(function, op.name, in_ops=Applied(op))
        return self[op]


Exchange = tuple[Any, str, Any, Any]
"""An object, an attribute of it, the value that it had and another."""


def _exchanges(recorder: Recorder, extras: Sequence[Extra]) -> Iterator[Exchange]:
    """All that is exchanged for what writes down."""
    around = recorder.around
    functions = EAGER.prepare()
    yield EAGER, "forms", functions, _Functions(recorder, functions)
    forms = getattr(Tensor, "__sf_forms__", {})
    timed = {op: around(form, op.name, in_ops=IN_GRAPHS.get(op, op)) for op, form in forms.items()}
    yield Tensor, "__sf_forms__", forms, timed
    for name, member in [*vars(Tensor).items()]:
        if type(member) is MethodDescriptorType:
            yield Tensor, name, member, around(member, member.__name__, in_ops=Method(name))
        elif isinstance(member, property) and type(member.fget) is MethodDescriptorType:
            getter = around(member.fget, name, in_ops=Attribute(name))
            yield Tensor, name, member, property(getter)
    for name in ("__getitem__", "__setitem__"):
        member = vars(Tensor)[name]
        if type(member) is not MethodDescriptorType:
            yield Tensor, name, member, around(member, name.strip("_"), in_ops=Method(name))
    for marked in BY_SHAPE.values():
        name, written = marked.written.__name__, marked.written
        yield marked, "form", marked.form, around(marked.form, name, in_ops=written)
    for function in FUSED:
        if function.form is not None:
            name = function.written.__name__.strip("_")
            form = around(function.form, name, in_ops=function.written)
            yield function, "form", function.form, form
    for name in ("backward", "grad"):
        walk = getattr(tape, name)
        yield tape, name, walk, around(walk, name, "backward")
    yield tape.WALK, "form", tape.WALK.form, None
    for cls in (TapeEntry, PerElementEntry, FusedEntry):
        yield cls, "pull", cls.pull, recorder.around_pull(cls.pull)
    for extra in extras:
        yield extra.cls, extra.method, vars(extra.cls)[extra.method], _around_extra(recorder, extra)


def _around_extra(recorder: Recorder, extra: Extra) -> Any:
    member = vars(extra.cls)[extra.method]
    if extra.label is None:
        return recorder.around_pull(member)
    return recorder.around(member, extra.label, extra.kind, extra.in_ops)


@contextmanager
def record_operations(
    extras: Sequence[Extra] = (), programs: Programs | None = None, counts_work: bool = False
) -> Iterator[Recording]:
    """Write down, in a block, the operations of the eager mode in all threads, and the memory that
    is allocated. ``extras`` are methods that are operations, too, and so are calls of ``programs``,
    inside of which a clock is read. With ``counts_work`` each has what its work is counted by.

    Raises `ProfileError` inside another such block. A function that is first called inside, of
    those that run as one program, is written down as the operations that it calls.
    """
    with count_allocations() as allocations:
        recording = Recording(threading.get_ident(), allocations, counts_work)
        describing = (describe_call, describe_pull) if counts_work else ()
        recorder = Recorder(recording, *describing)
        exchanges = [*_exchanges(recorder, extras)]
        if programs is not None:
            calls = recording.programs = ProgramCalls(recorder, programs)
            exchanges.append((programs.cls, "__call__", calls.own, calls))
        try:
            for holder, name, _, other in exchanges:
                setattr(holder, name, other)
            recording.start = perf_counter_ns()
            yield recording
        finally:
            recording.end = recording.end or perf_counter_ns()
            _put_back(exchanges)


def _put_back(exchanges: Sequence[Exchange]) -> None:
    """Let all be as it was, also where the user stops that in its middle."""
    try:
        for holder, name, before, _ in exchanges:
            setattr(holder, name, before)
    except KeyboardInterrupt:
        _put_back(exchanges)
        raise
