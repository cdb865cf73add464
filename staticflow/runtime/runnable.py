"""A compiled program as its caller sees it, whichever device it runs on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from staticflow.codegen.lower.refusals import read_code
from staticflow.codegen.statuses import NO_MEMORY, NO_ROOM, SIZES_DIFFER
from staticflow.errors import LinAlgError, RankError, ShapeError
from staticflow.graph.articles import with_article
from staticflow.graph.binding import Sizes, bind_arguments, check_equalities
from staticflow.graph.called import named_call
from staticflow.graph.device import device
from staticflow.graph.dims import Sym
from staticflow.graph.locs import format_locs
from staticflow.runtime.sealed import Sealed

if TYPE_CHECKING:
    from staticflow.codegen.program.routine import Ask, Routine
    from staticflow.runtime.draft import Draft, Signature
    from staticflow.runtime.plan import Plan

__all__ = ["Runnable", "run_reference"]


class Runnable(Sealed):
    """A program that can be called, on arrays of the device that it was compiled for, and the
    ``draft`` that it was compiled of, which is made when it is first asked for."""

    fast: Callable[..., Any]
    """Takes the inputs, each an array or a box; gives the output, or a tuple where there is not
    one; an int for `fail`; or None if the call is one for `__call__`."""

    optimised: float
    generated: float
    """When all passes had run, and all text was made, on `time.perf_counter`."""

    def __init__(self, draft: Callable[[], Draft], stamps: tuple[float, float]) -> None:
        self._draft = draft
        self.optimised, self.generated = stamps

    @property
    def draft(self) -> Draft:
        """What the code was compiled of."""
        return self._draft()

    @property
    def program(self) -> Routine:
        """The routine."""
        return self._draft().routine

    @property
    def plan(self) -> Plan:
        """The memory plan."""
        return self._draft().plan

    @property
    def signature(self) -> Signature:
        """The arguments that the program takes, and the results that it gives."""
        return self._draft().signature

    @property
    @abstractmethod
    def where(self) -> device:
        """The device that it runs on."""

    # -- the call ------------------------------------------------------------------------------

    @abstractmethod
    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Run on ``arrays``, of the params' shapes and dtypes; updated ones are changed in place.

        Raises `ShapeError` or `DTypeError` if an array is not what its param wants, before
        anything runs, and `MemoryError` if there is not memory enough.
        """

    def boxing(self, portable: Callable[..., Any], example: object) -> Callable[..., Any]:
        """``portable``, or native code that gives what that does, in an object like ``example``."""
        return portable

    def in_rows(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """What `fast` may take where it declined ``arrays``."""
        return arrays

    def bind(self, arrays: Sequence[Any]) -> dict[Sym, int]:
        """The unknown sizes, from the shapes of ``arrays``, all checked."""
        params = self.signature.params
        sizes = Sizes()
        bind_arguments([p.name for p in params], [p.type for p in params], arrays, sizes)
        check_equalities(self.signature.equalities, sizes)
        return sizes.values

    @abstractmethod
    def to_host(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays of a call as those of NumPy."""

    # -- memory --------------------------------------------------------------------------------

    @abstractmethod
    def free(self) -> None:
        """Free the memory that the calls so far have left."""

    @abstractmethod
    def leave_room(self, bytes_: int) -> None:
        """Let the buffers that grow have no more than ``bytes_``, from the next run on."""

    @property
    @abstractmethod
    def held_bytes(self) -> int:
        """The bytes of the arena and of the growing buffers that stay from call to call."""

    # -- what it is ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def kernel_count(self) -> int:
        """How many different kernels there are."""

    def launches_in_words(self, values: Mapping[str, int]) -> Sequence[str]:
        """How a call is launched on a GPU where the unknown sizes have these values: one line, then
        what else the host does. Nothing on the CPU."""
        return ()

    @abstractmethod
    def sources(self) -> Mapping[str, Callable[[], str]]:
        """What gives its text, by the name of the language."""

    # -- errors --------------------------------------------------------------------------------

    @abstractmethod
    def iterations(self, loop: int) -> int:
        """How many iterations of a loop were done when a run in it failed."""

    def fail(self, status: int) -> NoReturn:
        """Raise what a status of a run means."""
        if status == NO_MEMORY:
            raise MemoryError(f"no memory for the program's {self.plan.peak_in_words} bytes")
        site, code = divmod(status, 256)
        member, error, why = read_code(code)
        failure = self.program.failures[site - 1 + member * (code not in (NO_ROOM, SIZES_DIFFER))]
        where = format_locs(failure.locs) + "".join(
            f", in iteration {self.iterations(number)} of the {op} at {format_locs(locs)}"
            for number, op, locs in reversed(failure.loops)
        )
        if code == NO_ROOM:
            raise MemoryError(
                f"no memory for {with_article(failure.what)}, at {where}; nothing was updated"
            )
        if code == SIZES_DIFFER:
            what = named_call(failure.what, failure.locs)
            raise ShapeError(f"{what}, at {where}; nothing was updated")
        what = named_call(f"{failure.what}{why}", failure.locs)
        raise error(f"{what}, at {where}; nothing was updated")


def run_reference(step: Ask, xp: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    """What the op of a step gives for these ``values``, arrays of the module ``xp``. Its errors say
    that nothing was updated: what a program updates waits for all that may fail."""
    try:
        with np.errstate(all="ignore"):
            given = step.op.reference(xp, *values, **step.attrs)
    except (LinAlgError, RankError) as error:
        operands = ", ".join(str(t) for t in step.types[: len(step.values)])
        what = named_call(f"{step.op.name}({operands}): {error}", step.locs)
        where = format_locs(step.locs)
        raise type(error)(f"{what}, at {where}; nothing was updated") from None
    return given if isinstance(given, tuple) else (given,)
