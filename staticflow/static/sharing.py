"""Results of a jitted function that share memory: with an argument, with a tensor that it closes
over, or with another result.

What the function gives back of its arguments (one of them, or views of it) is no result of the
program: it is taken of the caller's tensor when the program has run, as the function itself takes
it; so is what it gives back of a tensor that it closes over. A change in place of the one shows in
the other, as it does eagerly, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from staticflow.graph.binding import Sizes
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim
from staticflow.ops.aliasing import Alias, Detached, Perhaps
from staticflow.ops.reach import can_reach
from staticflow.ops.symbol import Symbol
from staticflow.ops.thread import recording, thread

__all__ = ["Shared", "plan_results", "put_together"]


@dataclass(frozen=True, slots=True)
class _Step:
    """A view, with attributes that may be unknown sizes; gradients flow through a ``recorded``
    one."""

    fn: Callable[..., Any]
    attrs: Mapping[str, Any]
    recorded: bool

    def __call__(self, x: Any, sizes: Sizes) -> Any:
        with recording(thread.state.recording and self.recorded):
            return self.fn(x, **{k: _with_numbers(v, sizes) for k, v in self.attrs.items()})

    @property
    def sizes(self) -> Iterator[Dim]:
        """The unknown sizes that it needs."""
        for value in self.attrs.values():
            every = value if isinstance(value, tuple) else (value,)
            yield from (v for v in every if isinstance(v, Dim))


def _with_numbers(value: Any, sizes: Sizes) -> Any:
    """An attribute of a view with the numbers of its sizes."""
    if isinstance(value, tuple):
        return tuple(_with_numbers(v, sizes) for v in value)
    return sizes.number(value) if isinstance(value, Dim) else value


@dataclass(frozen=True, slots=True)
class Shared:
    """A result that is what ``steps`` take of the argument at ``place``; or of the result there,
    where ``of_result``; or of ``tensor``, if that is one."""

    place: int
    of_result: bool
    steps: tuple[_Step, ...]
    tensor: Any = None


def _detach(x: Any) -> Any:
    return x.detach()


def _steps_to_root(x: Any) -> tuple[Any, list[_Step]]:
    """What ``x`` has the memory of, and the views from there to ``x``."""
    steps: list[_Step] = []
    view = getattr(x, "_alias", None)
    while view is not None:
        part: Any = view
        while isinstance(part, Alias):
            steps.append(_Step(part.op, part.attrs, part.recorded))
            part = part.base
        if isinstance(view, Detached):
            steps.append(_Step(_detach, {}, True))
        elif isinstance(view, Perhaps):
            steps.append(_Step(view.fn, view.attrs, True))
        x = view.root
        view = getattr(x, "_alias", None)
    return x, steps[::-1]


def plan_results(
    fn: Any, leaves: Sequence[Any], arguments: Sequence[Symbol]
) -> tuple[Shared | None, ...]:
    """For each of the ``leaves`` of what ``fn`` gives how it shares memory; None where it is
    computed.

    A view of which the sizes do not follow from those of the ``arguments`` is computed.
    """
    known = frozenset(s for a in arguments for n in a.__sf_shape__ for s in symbols_of(n))
    places = {id(a): i for i, a in enumerate(arguments)}
    results: dict[int, int] = {}
    for i, v in enumerate(leaves):
        results.setdefault(id(v), i)
    found: list[Shared | None] = []
    roots = [_steps_to_root(v) if isinstance(v, Symbol) else (v, []) for v in leaves]
    tensors = [root for root, _ in roots if hasattr(root, "_vertex")]
    held = {id(t): t for t in can_reach(fn, tensors)}
    for i, (v, (root, steps)) in enumerate(zip(leaves, roots, strict=True)):
        shared = None
        if id(root) in held:
            shared = Shared(0, False, tuple(steps), root)
        elif id(root) in places:
            shared = Shared(places[id(root)], False, tuple(steps))
        elif isinstance(v, Symbol) and results[id(v)] < i:
            shared = Shared(results[id(v)], True, ())
        elif results.get(id(root), i) != i:
            shared = Shared(results[id(root)], True, tuple(steps))
        if shared and any(symbols_of(n) - known for step in shared.steps for n in step.sizes):
            shared = None
        found.append(shared)
    return tuple(found)


def put_together(
    plan: Sequence[Shared | None],
    arguments: Sequence[Symbol],
    given: Sequence[Any],
    computed: Iterator[Any],
) -> list[Any]:
    """The results by their ``plan``, of the arguments that were ``given`` and of what the program
    has ``computed``."""
    sizes = Sizes()
    for symbol, x in zip(arguments, given, strict=True):
        sizes.bind(symbol.node.tensor_type, x, "an argument")
    results = [next(computed) if shared is None else None for shared in plan]
    for of_result in (False, True):
        for i, shared in enumerate(plan):
            if shared is not None and shared.of_result is of_result:
                x = results[shared.place] if of_result else shared.tensor
                x = given[shared.place] if x is None else x
                for step in shared.steps:
                    x = step(x, sizes)
                results[i] = x
    return results
