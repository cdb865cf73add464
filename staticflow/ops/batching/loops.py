"""Rules of loops and branches.

What a loop carries is batched where it begins so or an iteration makes it so. A loop whose
condition differs from row to row goes on until it is false for all, and rows for which it is false
stay as they are. A branch whose condition differs from row to row is computed both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.errors import SymbolicError
from staticflow.graph.graph import Graph, regions_of
from staticflow.graph.locs import format_locs
from staticflow.graph.node import Node
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.reduce import any_op
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.batching.row import Row, Value, add_ones, stretch
from staticflow.ops.loops.cond import cond
from staticflow.ops.loops.loop import Loop
from staticflow.ops.loops.scan import scan
from staticflow.ops.loops.while_loop import while_loop
from staticflow.ops.random.draws import integers_op, normal_op, random_bits, uniform_op

__all__ = ["DRAWS", "cond_rule", "draws_within", "scan_rule", "while_rule"]

DRAWS = frozenset((random_bits, uniform_op, normal_op, integers_op))
"""The ops that draw random numbers."""


def draws_within(node: Node) -> bool:
    """Whether a node draws, or a region of it does."""
    if node.op in DRAWS:
        return True
    return any(draws_within(n) for region in regions_of(node) for n in region.nodes)


def _which_batched(body: Graph, given: Sequence[bool], different: bool) -> list[bool]:
    """Which outputs of a region are batched where some of its params are."""
    found = dict(zip(body.params, given, strict=True))
    for node in body.nodes[len(body.params) :]:
        found[node] = any(found[a] for a in node.args) or (different and draws_within(node))
    return [found[o] for o in body.outputs]


def _body_flags(row: Row, loop: Loop) -> tuple[list[bool], list[bool]]:
    """Which carries and which ys of a loop are batched."""
    carries, rest = row.flags[: loop.carries], row.flags[loop.carries :]
    different = row.walk.randomness == "different"
    while True:
        found = _which_batched(loop.body, [*carries, *rest], different)
        grown = [a or b for a, b in zip(carries, found, strict=False)]
        if grown == carries:
            return carries, found[loop.carries :]
        carries = grown


def _as_flagged(value: Value, is_batched: bool, row: Row) -> Any:
    return stretch(value, row.size) if is_batched else value.data


def scan_rule(row: Row) -> Any:
    """A scan over rows that have the batch behind the iterations."""
    loop = Loop.of(row.node)
    carry_flags, y_flags = _body_flags(row, loop)
    begin, rows, rest = loop.operands(row.values)
    init = tuple(_as_flagged(v, f, row) for v, f in zip(begin, carry_flags, strict=True))
    xs = tuple(movedim(v.data, 1, 0) if v.is_batched else v.data for v in rows)
    length = loop.iterations
    xs = tuple(x if x.__sf_shape__[0] == length else narrow(x, 0, 0, length) for x in xs)

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        values = [
            *(Value(c, f) for c, f in zip(carry, carry_flags, strict=True)),
            *(Value(a, v.is_batched) for a, v in zip(x or (), rows, strict=True)),
            *rest,
        ]
        found = row.walk.run(loop.body, values)
        outs = [
            _as_flagged(v, f, row) for v, f in zip(found, (*carry_flags, *y_flags), strict=True)
        ]
        return tuple(outs[: loop.carries]), tuple(outs[loop.carries :])

    last, ys = scan(step, init, xs or None, length=length, reverse=loop.reverse)
    return [
        *(Value(c, f) for c, f in zip(last, carry_flags, strict=True)),
        *(Value(movedim(y, 0, 1) if f else y, f) for y, f in zip(ys, y_flags, strict=True)),
    ]


def while_rule(row: Row) -> Any:
    """A loop that goes on while any row does."""
    loop = Loop.of(row.node)
    if loop.xs or len(loop.body.outputs) > loop.carries or loop.length is not None:
        raise SymbolicError(
            "vmap: a while_loop that keeps something of every iteration, as its derivative and a "
            "scan with until do, has no rule where the iterations differ from row to row; use "
            "fori_loop or scan with a length, differentiate outside of vmap, or use sf.map, at "
            f"{format_locs(row.node.locs)}"
        )
    flags, _ = _body_flags(row, loop)
    begin, _, rest = loop.operands(row.values)
    if flags[0]:
        flags = [True] * len(flags)
    init = tuple(_as_flagged(v, f, row) for v, f in zip(begin, flags, strict=True))

    def goes_on(going: Any, *_: Any) -> Any:
        return any_op(going, dims=(0,), keepdim=False) if flags[0] else going

    def iterate(*carry: Any) -> Any:
        values = [*(Value(c, f) for c, f in zip(carry, flags, strict=True)), *rest]
        found = row.walk.run(loop.body, values)
        after = [_as_flagged(v, f, row) for v, f in zip(found, flags, strict=True)]
        if not flags[0]:
            return tuple(after)
        going = carry[0]
        return tuple(
            where(add_ones(going, new.ndim - 1), new, old)
            for new, old in zip(after, carry, strict=True)
        )

    last = while_loop(goes_on, iterate, init)
    return [Value(c, f) for c, f in zip(last, flags, strict=True)]


def cond_rule(row: Row) -> Any:
    """A branch, or where the condition differs from row to row a choice from both."""
    pred, *operands = row.values
    true, false = row.attrs["true"], row.attrs["false"]
    if pred.is_batched:
        both = (row.walk.run(branch, operands) for branch in (true, false))
        return [Value(_choose(pred.data, a, b), True) for a, b in zip(*both, strict=True)]
    different = row.walk.randomness == "different"
    given = [v.is_batched for v in operands]
    either = zip(*(_which_batched(b, given, different) for b in (true, false)), strict=True)
    flags = [a or b for a, b in either]

    def branch(region: Graph) -> Callable[[], Any]:
        def run() -> tuple[Any, ...]:
            found = row.walk.run(region, operands)
            return tuple(_as_flagged(v, f, row) for v, f in zip(found, flags, strict=True))

        return run

    chosen = cond(pred.data, branch(true), branch(false))
    return [Value(y, f) for y, f in zip(chosen, flags, strict=True)]


def _choose(pred: Any, a: Value, b: Value) -> Any:
    return where(add_ones(pred, a.data.ndim - a.is_batched), a.data, b.data)
