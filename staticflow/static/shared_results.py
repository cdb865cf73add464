"""Results of a jitted function that share memory: with an argument, with a tensor that it closes
over, or with another result.

What the function gives back of its arguments (one of them, or views of it) is no result of the
program: it is taken of the caller's tensor when the program has run, as the function itself takes
it; so is what it gives back of a tensor that it closes over. A change in place of the one shows in
the other, as it does eagerly, and nothing is copied. Parts of one value that may overlap are taken
of that value, which is then a result of the program that nobody else sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.binding import Sizes
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, Sym, is_provably_ge
from staticflow.ops.basics.slicing import select_op, slice_op
from staticflow.ops.declaring.thread import recording, thread
from staticflow.ops.loops.reachable import can_reach
from staticflow.ops.symbols.symbol import Symbol
from staticflow.ops.tensors.symbol_views import Alias, Detached, Perhaps

__all__ = ["Shared", "plan_results", "put_together"]


@dataclass(frozen=True, slots=True)
class _Step:
    """A view, with attributes that may be unknown sizes; gradients flow through a ``recorded``
    one. ``at`` are the integers by which it selects, each a symbol or tensor, and in a plan the
    position of the result that is the integer, or a tensor."""

    fn: Callable[..., Any]
    attrs: Mapping[str, Any]
    recorded: bool
    at: tuple[Any, ...] = ()

    def __call__(self, x: Any, sizes: Sizes, results: Sequence[Any]) -> Any:
        attrs = {k: _with_numbers(v, sizes) for k, v in self.attrs.items()}
        with recording(thread.state.recording and self.recorded):
            if not self.at:
                return self.fn(x, **attrs)
            at = [int(results[k] if type(k) is int else k) for k in self.at]
            for dim, index in sorted(zip(attrs["dims"], at, strict=True), reverse=True):
                x = x.select(dim, index)
            return x

    @property
    def sizes(self) -> Iterator[Dim]:
        """The unknown sizes that it needs."""
        return _sizes_in(tuple(self.attrs.values()))


def _sizes_in(value: Any) -> Iterator[Dim]:
    if isinstance(value, tuple):
        for part in value:
            yield from _sizes_in(part)
    elif isinstance(value, Dim):
        yield value


def _with_numbers(value: Any, sizes: Sizes) -> Any:
    """An attribute of a view with the numbers of its sizes."""
    if isinstance(value, tuple):
        return tuple(_with_numbers(v, sizes) for v in value)
    return sizes.number(value) if isinstance(value, Dim) else value


@dataclass(frozen=True, slots=True)
class Shared:
    """A result that is what ``steps`` take of the argument at ``position``; or of the result there,
    where ``of_result``, which is behind the last one if nobody else sees it; or of ``tensor``, if
    that is one."""

    position: int
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
            steps.append(_Step(part.op, part.attrs, part.recorded, part.at))
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
) -> tuple[tuple[Shared | None, ...], list[Symbol]]:
    """For each of the ``leaves`` of what ``fn`` gives how it shares memory, None where it is
    computed; and what is computed beside: for those that overlap the whole, and the integers by
    which views select.

    A view of which the sizes do not follow from those of the ``arguments`` is computed.
    """
    known = frozenset(s for a in arguments for n in a.__sf_shape__ for s in symbols_of(n))
    positions = {id(a): i for i, a in enumerate(arguments)}
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
        elif id(root) in positions:
            shared = Shared(positions[id(root)], False, tuple(steps))
        elif isinstance(v, Symbol) and results[id(v)] < i:
            shared = Shared(results[id(v)], True, ())
        elif results.get(id(root), i) != i:
            shared = Shared(results[id(root)], True, tuple(steps))
        if shared and not _is_known(shared.steps, known):
            shared = None
        found.append(shared)
    beside = _share_wholes(found, roots, known)
    plan = [shared and _with_positions(shared, len(found), beside) for shared in found]
    return tuple(plan), beside


def _with_positions(shared: Shared, first: int, beside: list[Symbol]) -> Shared:
    """``shared``, its views selecting by what is computed ``beside`` the results, from position
    ``first`` on, which becomes more."""

    def position(k: Any) -> Any:
        if not isinstance(k, Symbol):
            return k
        beside.append(k)
        return first + len(beside) - 1

    steps = (replace(s, at=tuple(map(position, s.at))) for s in shared.steps)
    return replace(shared, steps=tuple(steps))


def _is_known(steps: Sequence[_Step], known: frozenset[Sym]) -> bool:
    return all(symbols_of(n) <= known for step in steps for n in step.sizes)


def _share_wholes(
    found: list[Shared | None], roots: Sequence[tuple[Any, list[_Step]]], known: frozenset[Sym]
) -> list[Symbol]:
    """Let what is computed and may overlap be taken of the whole, which is given."""
    parts: dict[int, list[int]] = {}
    for i, (root, steps) in enumerate(roots):
        if found[i] is None and steps and isinstance(root, Symbol) and _is_known(steps, known):
            parts.setdefault(id(root), []).append(i)
    wholes: list[Symbol] = []
    for positions in parts.values():
        if _may_overlap([_ranges(roots[i][1][0]) for i in positions]):
            for i in positions:
                found[i] = Shared(len(found) + len(wholes), True, tuple(roots[i][1]))
            wholes.append(roots[positions[0]][0])
    return wholes


_Ranges = dict[int, tuple[Size, Size]]

_FEW = 32
"""Views of one value that are compared in pairs."""


def _may_overlap(views: Sequence[_Ranges]) -> bool:
    """Whether two of the ``views`` of one value may have an element in common."""
    if any(_follow_each_other(views, d) for d in views[0]):
        return False
    if len(views) > _FEW:
        return True
    return not all(_are_apart(a, b) for a, b in combinations(views, 2))


def _follow_each_other(views: Sequence[_Ranges], dim: int) -> bool:
    """Whether each of the ``views`` ends along ``dim``, at a known position, before another
    begins."""
    ranges = [v[dim] for v in views if dim in v]
    if len(ranges) < len(views) or any(isinstance(n, Dim) for r in ranges for n in r):
        return False
    ranges.sort()
    return all(a[1] <= b[0] for a, b in pairwise(ranges))


def _are_apart(a: _Ranges, b: _Ranges) -> bool:
    return any(
        is_provably_ge(b[d][0], a[d][1]) or is_provably_ge(a[d][0], b[d][1])
        for d in a.keys() & b.keys()
    )


def _ranges(step: _Step) -> _Ranges:
    """In which dims a view begins and ends where."""
    at = step.attrs
    if step.fn is select_op:
        return {at["dim"]: (at["index"], at["index"] + 1)}
    if step.fn is slice_op:
        each = zip(at["start"], at["size"], at["step"], strict=True)
        return {d: (start, start + n * by) for d, (start, n, by) in enumerate(each)}
    return {}


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
    results += [next(computed) for _ in range(len(plan), 1 + max(map(_last, plan), default=0))]
    for of_result in (False, True):
        for i, shared in enumerate(plan):
            if shared is not None and shared.of_result is of_result:
                x = results[shared.position] if of_result else shared.tensor
                x = given[shared.position] if x is None else x
                for step in shared.steps:
                    x = step(x, sizes, results)
                results[i] = x
    return results[: len(plan)]


def _last(shared: Shared | None) -> int:
    """The last position of a result that ``shared`` is taken of."""
    if shared is None:
        return 0
    numbers = (k for step in shared.steps for k in step.at if type(k) is int)
    return max((shared.position if shared.of_result else 0, *numbers))
