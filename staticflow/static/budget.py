"""Programs are held to the budgets of memory that their loops ask for.

What counts is what a program allocates: its plan's peak (the arena, and what grows beside it) and
its outputs, not what it is given. Known sizes are held to the budget as the program is compiled,
unknown ones at each call before it runs, and what only the run can tell (the iterations of a loop
without end) as its memory grows, before that is more than the budget leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError, StaticflowError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size, Sym, prod
from staticflow.graph.graph import Graph
from staticflow.graph.locs import format_locs, here
from staticflow.ops.loops.budget import Budget, budgets_in
from staticflow.runtime.runnable import Runnable

__all__ = ["Held", "hold_to_budget"]


@dataclass(frozen=True, slots=True)
class Held:
    """Calls a program, ``portable``, that is held to a ``budget``. ``own`` are the bytes that the
    sizes of a call tell, ``grows`` whether there are others."""

    executable: Runnable
    portable: Callable[..., Any]
    arrays: Callable[..., Sequence[Any]]
    budget: Budget
    own: Size
    grows: bool

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run, if that takes no more memory than the budget. Raises `ArgumentError` else."""
        try:
            values = self.executable.bind(self.arrays(*args, **named))
        except StaticflowError:  # which the call words
            return self.portable(*args, **named)
        self.check(values)
        try:
            return self.portable(*args, **named)
        except MemoryError as error:
            if not self.grows:
                raise
            self._refuse(
                f"the run needs more, how much only its end would tell ({error}); give more, or "
                "bound the number of iterations"
            )

    def check(self, values: Mapping[Sym, int]) -> None:
        """Raise `ArgumentError` if a program of these sizes takes more than the budget; else leave
        what grows the rest of it."""
        plan = self.executable.plan
        bytes_ = plan.evaluate(self.own, values)
        if bytes_ > self.budget.bytes:
            used = sorted(plan.layout.expand(symbols_of(self.own)), key=Sym.sort_key)
            sizes = ", ".join(f"{s} is {values[s]}" for s in used)
            where = f", where {sizes}," if used else ""
            more = " beside what grows as it runs" if self.grows else ""
            smaller = (
                ", make the sizes smaller, or compile it for these sizes alone, which may take less"
                if used else ", or make the sizes smaller"
            )  # fmt: skip
            self._refuse(
                f"the least that the program can do with{where} is {bytes_} bytes{more}, its arena "
                f"and its outputs; give as many{smaller}"
            )
        if self.grows:  # what an earlier call left is not where this one needs it
            self.executable.free()
            self.executable.leave_room(self.budget.bytes - bytes_)

    def _refuse(self, why: str) -> NoReturn:
        b = self.budget
        raise ArgumentError(
            f"{b.what}: memory_budget={b.bytes} is too little: {why}; asked for at "
            f"{format_locs(b.locs)}, at {format_locs(here())}"
        ) from None


def hold_to_budget(
    graph: Graph,
    executable: Runnable,
    portable: Callable[..., Any],
    arrays: Callable[..., Sequence[Any]],
) -> Callable[..., Any]:
    """``portable``, the call of the program that ``graph`` became, or what holds it to the smallest
    budget of its loops; ``arrays`` gives what the executable takes of the arguments of a call.

    Raises `ArgumentError` if the program takes more at all sizes.
    """
    budget = min(budgets_in(graph), key=lambda b: b.bytes, default=None)
    if budget is None:
        return portable
    signature, plan = executable.signature, executable.plan
    outputs = (prod(t.shape) * t.dtype.itemsize for t in signature.outputs)
    given = {s for p in signature.params for d in p.type.sizes for s in symbols_of(d)}
    told = [size for size in outputs if symbols_of(size) <= given]
    own = plan.arena + sum(told, start=0)
    grows = bool(plan.routine.growing)
    held = Held(executable, portable, arrays, budget, own, grows)
    if isinstance(own, int):
        held.check({})
        return held if grows else portable
    return held
