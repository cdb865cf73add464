"""Branches: one of two functions, chosen as the program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from staticflow import pytree
from staticflow.errors import DTypeError, ShapeError, SymbolicError
from staticflow.graph.dims import Dim
from staticflow.graph.graph import Graph, close, new_param
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node
from staticflow.graph.types import Facts
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import thread
from staticflow.ops.loops.branch_kinds import Result, result_of_other
from staticflow.ops.loops.carry import call, check_flag, detach_unrecorded
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.inner_sizes import refuse_inner_sizes
from staticflow.ops.loops.leaves import tensor_of, tensors_of
from staticflow.ops.loops.loop import same_type
from staticflow.ops.loops.meets_symbol import in_graph, refuse_late, write_first
from staticflow.ops.loops.region import (
    Region,
    affect,
    close_over,
    trace,
    trace_at_once,
    values_at_start,
)
from staticflow.ops.symbols.symbol import Symbol, symbolic, to_node

__all__ = ["cond"]


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any
) -> Any:
    """``true_fn(*operands)`` if ``pred``, a bool of no dims, is true, else ``false_fn(*operands)``.

    Both give the same structure, shapes and dtypes; a number is a tensor of no dims, in the dtype
    of what the other function gives in its place. On symbols this is a branch of the graph: only
    the chosen one runs, forward and backward, and either may use any outer value. On tensors the
    chosen function is called now. The other one is traced where its kinds of arguments were not
    met before, to hold it to the same result, and has no effect; a function that asks for values
    of tensors cannot be traced and is not held to it. What a function hands on is copied. For a
    Python bool the function is called, as in a Python ``if``.

    >>> import staticflow as sf
    >>> sf.cond(sf.tensor(True), lambda x: x + 1, lambda x: x - 1, sf.tensor(2.0))
    tensor(3.)
    """
    check_flag("cond: the condition", pred)
    for name, fn in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(fn):
            raise SymbolicError(
                f"cond: chooses between functions, as in cond(pred, lambda: x, lambda: -x), and "
                f"{name} is of type {type(fn).__name__}; sf.where chooses between values, at "
                f"{format_locs(here())}"
            )
    branches = [
        partial(call, "cond", "true_fn", true_fn, *operands),
        partial(call, "cond", "false_fn", false_fn, *operands),
    ]
    if isinstance(pred, bool):
        leaves, tree = pytree.flatten(branches[0 if pred else 1]())
        return detach_unrecorded(pytree.unflatten(tree, tensors_of("cond", "result", tree, leaves)))

    def write() -> Any:
        return _in_graph(to_node(pred), branches)

    if in_graph(pred, *(pytree.flatten(operands)[0] if operands else ())):
        return trace_at_once(write)
    written = write_first(write, true_fn, false_fn)
    return _now(bool(pred), branches) if written is None else written[0]


def _now(pred: bool, branches: Sequence[partial[Any]]) -> Any:
    """What the chosen branch gives, held to what the other one would give."""
    chosen = 0 if pred else 1
    state, mine = thread.state, branches[chosen]
    sizes = state.sizes
    leaves, tree = pytree.flatten(mine())
    if symbolic(*leaves):
        refuse_late("cond", ("true_fn", "false_fn")[chosen])
    if state.sizes != sizes:
        refuse_inner_sizes("cond", lambda _: mine(), (), mine.args)
    other = result_of_other(branches[1 - chosen])
    if other is not None and other.is_of(tree, leaves):
        return detach_unrecorded(pytree.unflatten(tree, eager.own(leaves)))
    own = Result.of(tree, leaves)
    if other is not None and (own.has_numbers or own.beside(other) != other.beside(own)):
        other = result_of_other(branches[1 - chosen], fresh=True)  # globals may be others now
    if other is None:
        return detach_unrecorded(pytree.unflatten(tree, eager.own([tensor_of(v) for v in leaves])))
    pair = (own.beside(other), other.beside(own))
    _check(*(pair if pred else reversed(pair)))
    values = [tensor_of(v, t.dtype) for v, t in zip(leaves, pair[0].types, strict=True)]
    return detach_unrecorded(pytree.unflatten(tree, eager.own(values)))


def _in_graph(pred: Node, branches: Sequence[partial[Any]]) -> Any:
    regions: list[Region] = []
    given: list[list[Any]] = []
    results: list[Result] = []
    for branch in branches:
        _, result, began = trace(partial(_call, branch), [], what="cond: a branch", users=(branch,))
        leaves, tree = pytree.flatten(result)
        results.append(Result.of(tree, leaves))
        given.append(leaves)
        regions.append(close_over([], list(map(to_node, leaves)), began))
    both = [a.beside(b) for a, b in zip(results, reversed(results), strict=True)]
    _check(*both)
    regions = [_with_numbers(*each) for each in zip(regions, given, both, strict=True)]
    outer = list(dict.fromkeys(n for r in regions for n in r.captured))
    changed = list(dict.fromkeys(v for r in regions for v in r.changed_states))
    states = list(dict.fromkeys((*changed, *(v for r in regions for v in r.states))))
    true, false = (_with_operands(r, outer, states, changed) for r in regions)
    values = cond_op(
        Symbol(pred), *map(Symbol, outer), *values_at_start(states), true=true, false=false
    )
    split = len(regions[0].outputs)
    always = dict.fromkeys(v for r in regions for v, s in r.changed_states.items() if s.always)
    merged = affect(values[:split], dict(zip(changed, values[split:], strict=True)), always)
    return pytree.unflatten(results[0].tree, merged)


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


def _check(true: Result, false: Result) -> None:
    if true.tree != false.tree:
        raise ShapeError(
            f"cond: true_fn gives {true.tree} and false_fn gives {false.tree}; both must give the "
            f"same structure, at {format_locs(here())}"
        )
    wrong: list[str] = []
    error: type[DTypeError | ShapeError] = ShapeError
    for name, a, b in zip(pytree.paths(true.tree, "result"), true.types, false.types, strict=True):
        try:
            same_type(Facts(), b, a, "")
        except ShapeError:
            error = error if a.dtype is b.dtype else DTypeError
            wrong.append(f"{name} is {a} from true_fn and {b} from false_fn")
    if wrong:
        raise error(
            f"cond: {', '.join(wrong)}; both must give the same shapes and dtypes: convert or "
            f"reshape one of them, at {format_locs(here())}"
        )


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
