"""Branches: one of two functions, chosen as the program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from staticflow import pytree
from staticflow.errors import DTypeError, ShapeError, SymbolicError
from staticflow.graph.dtypes import bool_
from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.carry import check_flag, in_graph, node_as
from staticflow.ops.creation import zeros_like
from staticflow.ops.gradient import pullback, pushforward
from staticflow.ops.loop import assume_inside, same_type
from staticflow.ops.lowering import Region as RegionLowering
from staticflow.ops.region import Region, affect, begun, close_over, trace
from staticflow.ops.symbol import Symbol, to_node

__all__ = ["cond", "cond_op"]


def _infer(
    facts: Facts, pred: TensorType, *args: TensorType, true: Graph, false: Graph
) -> tuple[TensorType, ...]:
    if pred != TensorType(bool_, ()):
        raise DTypeError(f"the condition is {pred}; it must be a bool of no dims")
    for branch in (true, false):
        if len(args) != len(branch.params):
            raise ShapeError(f"a branch takes {len(branch.params)} values, {len(args)} are given")
        for position, (given, inner) in enumerate(zip(args, branch.params, strict=True)):
            same_type(facts, given, inner.tensor_type, f"operand {position}")
        assume_inside(facts, branch)
    outs = tuple(o.tensor_type for o in true.outputs)
    for position, (a, b) in enumerate(zip(outs, false.outputs, strict=True)):
        same_type(facts, b.tensor_type, a, f"output {position} of the second branch")
    return outs


def _reference(xp: Any, pred: Any, *args: Any, true: Any, false: Any) -> tuple[Any, ...]:
    return tuple((true if pred else false)(*args))


def _vjp(
    needs: Sequence[bool],
    cts: Sequence[Any],
    out: Any,
    pred: Any,
    *args: Any,
    true: Graph,
    false: Graph,
) -> list[Any]:
    """A branch between the pullbacks of the two, each of which computes its branch again."""
    args = tuple(
        Symbol(to_node(a, p.tensor_type.dtype)) for a, p in zip(args, true.params, strict=True)
    )
    given = [i for i, ct in enumerate(cts) if ct is not None]
    wanted = [
        i for i, p in enumerate(true.params) if needs[1 + i] and p.tensor_type.dtype.is_floating
    ]
    branches = [_pulled(branch, given, wanted) for branch in (true, false)]
    values = cond_op(
        Symbol(to_node(pred)), *args, *(cts[i] for i in given), true=branches[0], false=branches[1]
    )
    found = dict(zip(wanted, values, strict=True))
    return [None, *(found.get(i) for i in range(len(args)))]


def _pulled(branch: Graph, given: Sequence[int], wanted: Sequence[int]) -> Graph:
    """From the operands of ``branch`` and the cotangents of the ``given`` outputs to those of the
    ``wanted`` operands."""
    params = [new_param(p.tensor_type, p.attrs["name"], locs=p.locs) for p in branch.params]
    outs = substitute_nodes(branch.outputs, dict(zip(branch.params, params, strict=True)))
    cts = [new_param(outs[i].tensor_type, "ct") for i in given]
    handles = [Symbol(params[i]) for i in wanted]
    found = pullback([Symbol(outs[i]) for i in given], list(map(Symbol, cts)), handles)
    results = [
        zeros_like(h).node if g is None else g.node for h, g in zip(handles, found, strict=True)
    ]
    return close((*params, *cts), results, branch.equalities)


def _jvp(
    tangents: Sequence[Any], out: Any, pred: Any, *args: Any, true: Graph, false: Graph
) -> list[Any]:
    """A branch between the tangents of the two, each of which computes its branch again; the pass
    ``merge`` makes the branch that was there one with this."""
    args = tuple(
        Symbol(to_node(a, p.tensor_type.dtype)) for a, p in zip(args, true.params, strict=True)
    )
    moving = [i for i, t in enumerate(tangents[1:]) if t is not None]
    pushed = [_pushed(branch, moving) for branch in (true, false)]
    changed = [i for i, both in enumerate(zip(*(p.tangents for p in pushed), strict=True))
               if any(t is not None for t in both)]  # fmt: skip
    if not changed:
        return [None] * len(true.outputs)
    branches = [p.graph(changed) for p in pushed]
    values = cond_op(
        Symbol(to_node(pred)), *args, *(tangents[1 + i] for i in moving),
        true=branches[0], false=branches[1],
    )  # fmt: skip
    found = dict(zip(changed, values, strict=True))
    return [found.get(i) for i in range(len(true.outputs))]


@dataclass(frozen=True, slots=True)
class _Pushed:
    """A branch, the params for tangents of its operands, and the tangents of its outputs."""

    branch: Graph
    seeds: Sequence[Node]
    tangents: Sequence[Any]

    def graph(self, wanted: Sequence[int]) -> Graph:
        """From operands and tangents to the tangents of the ``wanted`` outputs."""
        outs = [
            zeros_like(Symbol(self.branch.outputs[i])) if self.tangents[i] is None
            else self.tangents[i]
            for i in wanted
        ]  # fmt: skip
        params = (*self.branch.params, *self.seeds)
        return close(params, [o.node for o in outs], self.branch.equalities)


def _pushed(branch: Graph, moving: Sequence[int]) -> _Pushed:
    seeds = [new_param(branch.params[i].tensor_type, "tangent") for i in moving]
    tangents = pushforward(
        list(map(Symbol, branch.outputs)),
        [Symbol(branch.params[i]) for i in moving],
        list(map(Symbol, seeds)),
    )
    return _Pushed(branch, seeds, tangents)


cond_op = Op(
    name="cond",
    doc="What one of two regions gives, chosen by a bool as the program runs.",
    infer=_infer,
    reference=_reference,
    vjp=_vjp,
    jvp=_jvp,
    lowering=RegionLowering(),
    grad_name="CondBackward",
)


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any
) -> Any:
    """``true_fn(*operands)`` if ``pred``, a bool of no dims, is true, else ``false_fn(*operands)``.

    Both give the same structure, shapes and dtypes. On symbols this is a branch of the graph: only
    the chosen one runs, forward and backward, and either may use any outer value. On tensors, and
    for a Python bool, the function is called now.

    >>> import staticflow as sf
    >>> sf.cond(sf.tensor(True), lambda x: x + 1, lambda x: x - 1, sf.tensor(2.0))
    tensor(3.)
    """
    check_flag("cond: the condition", pred)
    for fn in (true_fn, false_fn):
        if not callable(fn):
            raise SymbolicError(
                f"cond: chooses between functions, as in cond(pred, lambda: x, lambda: -x), not "
                f"{type(fn).__name__}; sf.where chooses between values, at {format_locs(here())}"
            )
    known = isinstance(pred, bool)
    if known or not in_graph(pred, *pytree.flatten(operands)[0]):
        return (true_fn if pred else false_fn)(*operands)
    return _in_graph(to_node(pred), [true_fn, false_fn], operands)


def _called(fn: Callable[..., Any], operands: tuple[Any, ...], _: Any) -> Any:
    return fn(*operands)


def _in_graph(pred: Node, fns: Sequence[Callable[..., Any]], operands: tuple[Any, ...]) -> Any:
    regions: list[Region] = []
    trees: list[pytree.TreeDef] = []
    for fn in fns:
        _, result, began = trace(partial(_called, fn, operands), [])
        leaves, tree = pytree.flatten(result)
        regions.append(close_over([], _promoted(leaves, regions), began))
        trees.append(tree)
    _check_branches(trees, regions)
    outer = list(dict.fromkeys(n for r in regions for n in r.captured))
    changed = list(dict.fromkeys(v for r in regions for v in r.changed))
    states = list(dict.fromkeys((*changed, *(v for r in regions for v in r.states))))
    true, false = (_with_operands(r, outer, states, changed) for r in regions)
    values = cond_op(Symbol(pred), *map(Symbol, outer), *begun(states), true=true, false=false)
    split = len(regions[0].outputs)
    always = dict.fromkeys(v for r in regions for v, s in r.changed.items() if s.always)
    results = affect(values[:split], dict(zip(changed, values[split:], strict=True)), always)
    return pytree.unflatten(trees[0], results)


def _promoted(leaves: Sequence[Any], before: Sequence[Region]) -> list[Node]:
    """The nodes of what a branch gives; numbers take the dtype that the first branch gave."""
    like = [n.tensor_type.dtype for n in before[0].outputs] if before else []
    dtypes = like if len(like) == len(leaves) else [None] * len(leaves)
    return [node_as(v, d) for v, d in zip(leaves, dtypes, strict=True)]


def _check_branches(trees: Sequence[pytree.TreeDef], regions: Sequence[Region]) -> None:
    if trees[0] != trees[1]:
        raise ShapeError(
            f"cond: true_fn gives {trees[0]} and false_fn gives {trees[1]}; both must give the "
            f"same structure, at {format_locs(here())}"
        )
    wrong: list[str] = []
    error: type[DTypeError | ShapeError] = ShapeError
    types = ([o.tensor_type for o in r.outputs] for r in regions)
    for name, a, b in zip(pytree.paths(trees[0], "result"), *types, strict=True):
        try:
            same_type(Facts(), b, a, "")
        except ShapeError:
            error = error if a.dtype is b.dtype else DTypeError
            wrong.append(f"{name} is {a} from true_fn and {b} from false_fn")
    if wrong:
        raise error(f"cond: {', '.join(wrong)}; both must agree, at {format_locs(here())}")


def _with_operands(
    region: Region, outer: Sequence[Node], states: Sequence[Node], changed: Sequence[Node]
) -> Graph:
    """The branch as a graph that takes what either branch uses."""
    params = [region.captured.get(n) or new_param(n.tensor_type, "unused") for n in outer]
    starts = {
        v: region.states[v].start if v in region.states else new_param(v.tensor_type, "unused")
        for v in states
    }
    ends = [region.states[v].end if v in region.states else starts[v] for v in changed]
    return close((*params, *starts.values()), [*region.outputs, *ends])
