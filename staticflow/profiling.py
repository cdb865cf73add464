"""``profile``: where the time of a block of eager code goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from staticflow.autograd.function import FunctionNode
from staticflow.errors import ProfileError
from staticflow.graph.locs import format_locs, here
from staticflow.optim.optimizer import Optimizer
from staticflow.static.compile import Program
from staticflow.static.jit import Jitted

if TYPE_CHECKING:
    from staticflow.measure.operations import Extra
    from staticflow.measure.profile import Profile
    from staticflow.measure.program_calls import Programs
    from staticflow.measure.recorder import Recording

__all__ = ["profile"]


class profile:
    """A ``with`` block in which every operation of the eager mode is written down, forward and
    backward, of all threads: when it ran, for how long, what it allocated, and the user's line.
    Steps of optimisers are operations, too, and so are calls of compiled programs, which show the
    kernels that ran inside: such a program is compiled once more as it is first called there, with
    readings of a clock, and does to its tensors what it always does.

    With ``work=True`` the floating-point operations of each and the bytes that it reads and writes
    at least are counted as those of programs are (`Program.work`), behind the block, a few
    milliseconds for each kind of operation and shapes.

    Behind the block ``result`` is the `Profile`; ``print(prof)`` shows the largest rows, and
    ``prof.export("trace.json")`` writes what Perfetto opens. Given a ``path``, the block itself
    writes it as it ends. Results are the same bits as without a profile.

    Raises `ProfileError` as the block begins if the ``path`` cannot be written, or if a profile is
    going on already, in any thread.

    >>> import staticflow as sf
    >>> w = sf.ones(100, requires_grad=True)
    >>> with sf.profile() as prof:
    ...     (w * w).sum().backward()
    >>> sorted({row.name for row in prof.result.rows if row.kind == "forward"})
    ['mul', 'sum']
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, work: bool = False) -> None:
        if not isinstance(path, str | os.PathLike | None):
            raise ProfileError(
                f"profile: the path is {type(path).__name__}; write the code to be profiled into "
                f"the block, with sf.profile() as prof: ..., at {format_locs(here())}"
            )
        self._path, self._counts_work = path, work
        self._recording: Recording | None = None
        self._result: Profile | None = None
        self._stack = ExitStack()

    def __enter__(self) -> profile:
        from staticflow.measure.operations import record_operations

        if self._path is not None:
            _refuse_unwritable(self._path)
        self._recording = self._stack.enter_context(
            record_operations([*_extras()], _programs(), self._counts_work)
        )
        return self

    def __exit__(self, *_: object) -> None:
        from staticflow.measure.block import profile_of
        from staticflow.measure.hooks import find_hook_costs, run_hooked

        recording, self._recording = self._recording, None
        assert recording is not None  # as the block has begun
        recording.end = perf_counter_ns()
        with self._stack:
            hooked = run_hooked(recording)
        self._result = profile_of(recording, find_hook_costs(hooked))
        if self._path is not None:
            self._result.export(self._path)

    @property
    def result(self) -> Profile:
        """What was found. Raises `ProfileError` before the block has ended."""
        if self._result is None:
            raise ProfileError(
                "profile: the block has not ended; ask for its profile behind it, "
                f"at {format_locs(here())}"
            )
        return self._result

    def table(self) -> str:
        """The largest rows, in 80 columns."""
        return self.result.table()

    def export(self, path: str | os.PathLike[str], *others: Profile) -> None:
        """Write a trace as `Profile.export` does, with ``others`` on the same axis of time."""
        self.result.export(path, *others)

    def __str__(self) -> str:
        return repr(self) if self._result is None else self.table()

    def __repr__(self) -> str:
        return "<profile of a block>" if self._result is None else repr(self._result)


def _refuse_unwritable(path: str | os.PathLike[str]) -> None:
    try:
        with open(path, "a"):
            pass
    except OSError as error:
        raise ProfileError(
            f"profile: {path!s} cannot be written ({error.strerror}); name a file in a folder "
            f"that there is, at {format_locs(here())}"
        ) from None


def _extras() -> Iterator[Extra]:
    """What is an operation besides those of tensors."""
    from staticflow.measure.called import OfStep
    from staticflow.measure.operations import Extra

    yield Extra(Jitted, "__call__", "program", _jitted_name)
    yield Extra(FunctionNode, "pull", "backward")
    for cls in (Optimizer, *_below(Optimizer)):
        if "step" in vars(cls):
            yield Extra(cls, "step", "update", _step_name, OfStep())


def _programs() -> Programs:
    """What programs are, and how they are read."""
    from staticflow.measure.called import OfProgram
    from staticflow.measure.clock import find_clock
    from staticflow.measure.program_calls import Programs
    from staticflow.static.twin import read_in_place

    return Programs(Program, _program_name, OfProgram(), read_in_place if find_clock() else None)


def _below(cls: Any) -> Iterator[Any]:
    for derived in cls.__subclasses__():
        yield derived
        yield from _below(derived)


def _program_name(program: Any) -> str:
    return f"program({', '.join(program._names)})"


def _jitted_name(jitted: Any, *_: Any) -> str:
    return f"jit of {getattr(jitted, '__name__', 'a function')}"


def _step_name(optimizer: Any, *_: Any) -> str:
    return f"{type(optimizer).__name__}.step"
