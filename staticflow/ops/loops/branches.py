"""Functions of which one is chosen as the program runs, held to one result and made regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from staticflow import pytree
from staticflow.data_classes import dataclass
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Dim
from staticflow.graph.graph import Graph, close, new_param
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node
from staticflow.graph.types import Facts
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import thread
from staticflow.ops.loops.branch_kinds import Result, result_of_other
from staticflow.ops.loops.carry import call, detach_unrecorded
from staticflow.ops.loops.inner_sizes import refuse_inner_sizes
from staticflow.ops.loops.leaves import tensor_of, tensors_of
from staticflow.ops.loops.loop import same_type
from staticflow.ops.loops.meets_symbol import refuse_late
from staticflow.ops.loops.region import Region, affect, close_over, trace, values_at_start
from staticflow.ops.symbols.symbol import Symbol, symbolic, to_node

__all__ = ["Branches"]

Select = Callable[[Sequence[Graph], Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Branches:
    """The functions ``fns`` of ``operands`` among which ``what`` chooses; users call them
    ``names``."""

    what: str
    names: Sequence[str]
    fns: Sequence[Callable[..., Any]]
    operands: Sequence[Any]

    def of(self, position: int) -> partial[Any]:
        """The function at a position, ready to be called."""
        return partial(call, self.what, self.names[position], self.fns[position], *self.operands)

    def call_alone(self, position: int) -> Any:
        """What a function gives that a Python number has chosen: the others play no part."""
        leaves, tree = pytree.flatten(self.of(position)())
        found = tensors_of(self.what, "result", tree, leaves)
        return detach_unrecorded(pytree.unflatten(tree, found))

    def run(self, chosen: int) -> Any:
        """What the chosen function gives of tensors, held to what the others would give."""
        state, mine = thread.state, self.of(chosen)
        sizes = state.sizes
        leaves, tree = pytree.flatten(mine())
        if symbolic(*leaves):
            refuse_late(self.what, self.names[chosen])
        if state.sizes != sizes:
            refuse_inner_sizes(self.what, lambda _: mine(), (), mine.args)
        rest = [i for i in range(len(self.fns)) if i != chosen]
        others = {i: result_of_other(self.of(i)) for i in rest}
        if all(o is not None and o.is_of(tree, leaves) for o in others.values()):
            return detach_unrecorded(pytree.unflatten(tree, eager.own(leaves)))
        own = Result.of(self.what, tree, leaves)
        for i, other in others.items():
            if other is not None and (own.has_numbers or own.beside(other) != other.beside(own)):
                others[i] = result_of_other(self.of(i), fresh=True)  # globals may be others now
        known = {i: o for i, o in {chosen: own, **others}.items() if o is not None}
        if len(known) == 1:
            found = [tensor_of(v) for v in leaves]
            return detach_unrecorded(pytree.unflatten(tree, eager.own(found)))
        agreed = self._agree({i: known[i] for i in sorted(known)})[chosen]
        values = [tensor_of(v, t.dtype) for v, t in zip(leaves, agreed.types, strict=True)]
        return detach_unrecorded(pytree.unflatten(tree, eager.own(values)))

    def write(self, select: Select) -> Any:
        """What the functions give as a part of the graph: ``select`` makes nodes of one region for
        each, which all take the same operands, and of these."""
        regions: list[Region] = []
        given: list[list[Any]] = []
        results: list[Result] = []
        for branch in map(self.of, range(len(self.fns))):
            _, result, began = trace(
                partial(_call, branch), [], what=f"{self.what}: a branch", users=(branch,)
            )
            leaves, tree = pytree.flatten(result)
            results.append(Result.of(self.what, tree, leaves))
            given.append(leaves)
            regions.append(close_over([], list(map(to_node, leaves)), began))
        agreed = self._agree(dict(enumerate(results)))
        regions = [_with_numbers(*e) for e in zip(regions, given, agreed.values(), strict=True)]
        outer = list(dict.fromkeys(n for r in regions for n in r.captured))
        changed = list(dict.fromkeys(v for r in regions for v in r.changed_states))
        states = list(dict.fromkeys((*changed, *(v for r in regions for v in r.states))))
        graphs = [_with_operands(r, outer, states, changed) for r in regions]
        values = select(graphs, [*map(Symbol, outer), *values_at_start(states)])
        split = len(regions[0].outputs)
        always = dict.fromkeys(v for r in regions for v, s in r.changed_states.items() if s.always)
        merged = affect(values[:split], dict(zip(changed, values[split:], strict=True)), always)
        return pytree.unflatten(results[0].tree, merged)

    def _agree(self, results: dict[int, Result]) -> dict[int, Result]:
        """The results with the numbers in the dtypes of what the others give, if all are alike."""
        agreed = {
            i: r.beside(*(o for j, o in results.items() if j != i)) for i, r in results.items()
        }
        first, *others = agreed
        for other in others:
            self._check(first, agreed[first], other, agreed[other])
        return agreed

    def _check(self, first: int, a: Result, second: int, b: Result) -> None:
        mine, theirs = self.names[first], self.names[second]
        both = "both" if len(self.fns) == 2 else "all"
        if a.tree != b.tree:
            raise ShapeError(
                f"{self.what}: {mine} gives {a.tree} and {theirs} gives {b.tree}; {both} must give "
                f"the same structure, at {format_locs(here())}"
            )
        wrong: list[str] = []
        error: type[DTypeError | ShapeError] = ShapeError
        for name, t, u in zip(pytree.paths(a.tree, "result"), a.types, b.types, strict=True):
            try:
                same_type(Facts(), u, t, "")
            except ShapeError:
                error = error if t.dtype is u.dtype else DTypeError
                wrong.append(f"{name} is {t} from {mine} and {u} from {theirs}")
        if wrong:
            raise error(
                f"{self.what}: {', '.join(wrong)}; {both} must give the same shapes and dtypes: "
                f"convert or reshape one of them, at {format_locs(here())}"
            )


def _call(branch: partial[Any], _: Any) -> Any:
    return branch()


def _with_numbers(region: Region, leaves: Sequence[Any], result: Result) -> Region:
    """The region with the numbers that it gives in the dtypes that they have in ``result``."""
    outputs = [
        out if t.dtype is out.tensor_type.dtype
        else to_node(v, t.dtype) if type(v) is not Dim
        else to_node(cast(Symbol(out), dtype=t.dtype))  # what binds it is inside
        for v, t, out in zip(leaves, result.types, region.outputs, strict=True)
    ]  # fmt: skip
    return replace(region, outputs=tuple(outputs))


def _with_operands(
    region: Region, outer: Sequence[Node], states: Sequence[Node], changed: Sequence[Node]
) -> Graph:
    """The branch as a graph that takes what any branch uses."""
    params = [region.captured.get(n) or new_param(n.tensor_type, "unused") for n in outer]
    starts = {
        v: region.states[v].start if v in region.states else new_param(v.tensor_type, "unused")
        for v in states
    }
    ends = [region.states[v].end if v in region.states else starts[v] for v in changed]
    return close((*params, *starts.values()), [*region.outputs, *ends])
