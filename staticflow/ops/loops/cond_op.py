"""The op that runs one of two regions, chosen by a bool as the program runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import bool_
from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.declaring.lowering import Region as RegionLowering
from staticflow.ops.loops.loop import assume_inside, same_type
from staticflow.ops.symbols.flow import flow_through
from staticflow.ops.symbols.gradient import pullback, pushforward
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["cond_op"]


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
    branches = [_pull(branch, given, wanted) for branch in (true, false)]
    values = cond_op(
        Symbol(to_node(pred)), *args, *(cts[i] for i in given), true=branches[0], false=branches[1]
    )
    found = dict(zip(wanted, values, strict=True))
    return [None, *(found.get(i) for i in range(len(args)))]


def _pull(branch: Graph, given: Sequence[int], wanted: Sequence[int]) -> Graph:
    """The graph from the operands of ``branch`` and the cotangents of the ``given`` outputs to
    those of the ``wanted`` operands."""
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
    pushed = [_push(branch, moving) for branch in (true, false)]
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


def _flows(true: Graph, false: Graph) -> list[set[int]]:
    """Behind the condition come the operands of the branches."""
    either = zip(flow_through(true), flow_through(false), strict=True)
    return [{1 + i for i in a | b} for a, b in either]


@dataclass(frozen=True, slots=True)
class _Pushed:
    """A branch, the params for tangents of its operands, and the tangents of its outputs."""

    branch: Graph
    seeds: Sequence[Node]
    tangents: Sequence[Any]

    def graph(self, wanted: Sequence[int]) -> Graph:
        """The graph from operands and tangents to the tangents of the ``wanted`` outputs."""
        outs = [
            zeros_like(Symbol(self.branch.outputs[i])) if self.tangents[i] is None
            else self.tangents[i]
            for i in wanted
        ]  # fmt: skip
        params = (*self.branch.params, *self.seeds)
        return close(params, [o.node for o in outs], self.branch.equalities)


def _push(branch: Graph, moving: Sequence[int]) -> _Pushed:
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
    flows=_flows,
    lowering=RegionLowering(),
    grad_name="CondBackward",
)
