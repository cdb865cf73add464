"""Loops and branches: If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.eager.creation import full
from staticflow.eager.ranges import arange
from staticflow.errors import ShapeError, SymbolicError
from staticflow.graph.dims import Dim, closed_size
from staticflow.graph.dtypes import bool_, int64
from staticflow.graph.locs import format_locs, here
from staticflow.onnx.reading.plan import GraphPlan
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.reading.rows.shapes import axis_of
from staticflow.onnx.reading.values import Known, Value, as_tensor, one, read
from staticflow.ops.basics.arithmetic import logical_and, logical_not, lt
from staticflow.ops.basics.axes import flip, movedim
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.joining import stack
from staticflow.ops.basics.view import of_size, reshape
from staticflow.ops.elementwise.variants import add
from staticflow.ops.indexing.data_dependent import where
from staticflow.ops.loops.cond import cond as cond_of
from staticflow.ops.loops.scan import scan
from staticflow.ops.loops.while_loop import while_loop
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["LOOPS"]

_ENDLESS = 1 << 31
"""A loop of so many iterations is taken to end by its condition."""


def _truth(value: Value) -> Any:
    """A condition as a bool where it is known, or a symbol of no dims."""
    if isinstance(value, Symbol):
        return reshape(value, ())
    return bool(one(read(value)))


def _if(pred: Value, *, then_branch: Any, else_branch: Any) -> Any:
    chosen = _truth(pred)
    if not isinstance(chosen, Symbol):
        return tuple((then_branch if chosen else else_branch)())
    return cond_of(
        chosen, lambda: tuple(then_branch.tensors()), lambda: tuple(else_branch.tensors())
    )


# -- Loop ------------------------------------------------------------------------------------------


def _loop(*begin: Value, M: Value = None, cond: Value = None, body: Any) -> Any:
    go = True if cond is None else _truth(cond)
    most = None if M is None else one(read(M))
    if not body.symbolic:
        return _loop_now(begin, most, go, body)
    if any(isinstance(v, list) or v is None for v in begin):
        raise SymbolicError(
            "a loop that carries a sequence is no part of a graph, whose carries are tensors; run "
            f"it eagerly, at {format_locs(here())}"
        )
    first = [as_tensor(v, True) for v in begin]
    number = len(body.plan.outputs) - 1 - len(first)
    if isinstance(most, int) and most >= _ENDLESS:
        most = None
    if go is True and most is not None and _goes_on(body.plan):
        return _count_loop(first, most, body)
    if number == 0:
        return _while(first, most, go, body)
    if most is None:
        raise SymbolicError(
            "a loop that stacks what it computes, and has no bound on its iterations, is no part "
            f"of a graph; give it a trip count, or run it eagerly, at {format_locs(here())}"
        )
    if isinstance(go, Symbol) or go is False:
        none = full((), 0, dtype=int64)
        most = where(go, most, none) if isinstance(go, Symbol) else 0
    return _count_loop(first, most, body, until=True)


def _loop_now(begin: Sequence[Value], most: int | None, go: Any, body: Any) -> Any:
    """The iterations one after the other, whose values may change their shapes."""
    carries, rows, i = list(begin), [], 0
    while (most is None or i < most) and go:
        outs = body(Known(np.asarray(i, np.int64)), Known(np.asarray(True)), *carries)
        go = _truth(outs[0])
        carries = outs[1 : 1 + len(begin)]
        rows.append([as_tensor(v, False) for v in outs[1 + len(begin) :]])
        i += 1
    specs = body.plan.outputs[1 + len(begin) :]
    if rows:
        stacked = [stack(list(column)) for column in zip(*rows, strict=True)]
    else:
        stacked = [_nothing(spec) for spec in specs]
    return (*carries, *stacked)


def _nothing(spec: Any) -> Any:
    """No rows of what a loop stacks."""
    if spec.dtype is None or spec.shape is None or not all(type(d) is int for d in spec.shape):
        raise ShapeError(
            f"a loop makes no iteration, and the file does not say the shape of {spec.name!r}, "
            f"which it stacks, at {format_locs(here())}"
        )
    return full((0, *spec.shape), 0, dtype=spec.dtype)


def _goes_on(plan: GraphPlan) -> bool:
    """Whether the condition that a body gives is the one that it takes, or true."""
    makers = {name: node for node in plan.nodes for name in node.outputs}
    name = plan.outputs[0].name
    while name in makers and makers[name].row in ("Identity", "Cast") and makers[name].given:
        name = makers[name].given[0] or ""
    if name in plan.constants:
        return bool(np.all(plan.constants[name]))
    return len(plan.inputs) > 1 and name == plan.inputs[1].name


def _count_loop(first: Sequence[Any], most: Any, body: Any, until: bool = False) -> Any:
    """A loop whose number of iterations is known before it, or has that bound."""
    count = len(first)
    stacked = body.plan.outputs[1 + count :]

    def step(carry: tuple[Any, ...], i: Any) -> Any:
        outs = body.tensors(i, Known(np.asarray(True)), *carry)
        ys = _as_declared(outs[1 + count :], stacked, body, (i, None, *carry))
        return _as_before(outs[1 : 1 + count], carry), (*ys, outs[0]) if until else ys

    def over(carry: Any, ys: Any) -> Any:
        return logical_not(reshape(ys[-1], ()))

    end, ys = scan(step, tuple(first), arange(most), until=over if until else None)
    return (*end, *(ys[:-1] if until else ys))


def _as_before(values: Sequence[Any], carry: Sequence[Any]) -> tuple[Any, ...]:
    """What a body gives, of the sizes that it got, which the run checks where they are unknown."""
    return tuple(
        _of_shape(v, c.shape) if v.ndim == c.ndim else v for v, c in zip(values, carry, strict=True)
    )


def _as_declared(
    values: Sequence[Any], specs: Sequence[Any], body: Any, given: Sequence[Any]
) -> tuple[Any, ...]:
    """What a body gives, of the sizes that the file says: numbers, and names that inputs of the
    body, which are ``given``, have, too."""
    names: dict[str, Any] = {}
    for spec, value in zip(body.inputs, given, strict=False):
        for declared, size in zip(spec.shape or (), getattr(value, "shape", ()), strict=False):
            if isinstance(declared, str):
                names[declared] = size
    found = []
    for value, spec in zip(values, specs, strict=True):
        if spec.shape is not None and len(spec.shape) == value.ndim:
            sizes = [names.get(d) if isinstance(d, str) else d for d in spec.shape]
            value = _of_shape(value, sizes)
        found.append(value)
    return tuple(found)


def _of_shape(value: Any, shape: Sequence[Any]) -> Any:
    for d, size in enumerate(shape):
        if size is not None and type(value.shape[d]) is not int:
            value = of_size(value, d, closed_size(size))
    return value


def _while(first: Sequence[Any], most: Any, go: Any, body: Any) -> Any:
    """A loop that asks before each iteration, and stacks nothing."""
    flag = go if isinstance(go, Symbol) else full((), bool(go), dtype=bool_)
    start = full((), 0, dtype=int64)

    def asks(i: Any, go_on: Any, *_: Any) -> Any:
        return go_on if most is None else logical_and(go_on, lt(i, most))

    def step(i: Any, go_on: Any, *carry: Any) -> Any:
        outs = body.tensors(i, go_on, *carry)
        go_on = cast(reshape(outs[0], ()), bool_)
        return (add(i, 1), go_on, *_as_before(outs[1:], carry))

    return tuple(while_loop(asks, step, (start, flag, *first))[2:])


# -- Scan ------------------------------------------------------------------------------------------


def _scan(
    *values: Any, body: Any, num_scan_inputs: int, scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    count = len(values) - num_scan_inputs
    if num_scan_inputs < 1 or count < 0:
        raise ShapeError(
            f"{num_scan_inputs} of {len(values)} inputs are scanned over; there must be one at "
            f"least, at {format_locs(here())}"
        )
    begin, xs = values[:count], list(values[count:])
    ways = list(scan_input_directions or [0] * len(xs))
    axes = list(scan_input_axes or [0] * len(xs))
    if len(ways) != len(xs) or len(axes) != len(xs):
        raise ShapeError(
            f"{len(axes)} axes and {len(ways)} directions for {len(xs)} inputs that are scanned "
            f"over, at {format_locs(here())}"
        )
    xs = [movedim(x, axis_of(a, x.ndim), 0) if a else x for x, a in zip(xs, axes, strict=True)]
    back = all(ways)
    if not back:
        xs = [flip(x, (0,)) if way else x for x, way in zip(xs, ways, strict=True)]

    def step(carry: tuple[Any, ...], rows: tuple[Any, ...]) -> Any:
        outs = body.tensors(*carry, *rows)
        ys = _as_declared(outs[count:], body.plan.outputs[count:], body, (*carry, *rows))
        return _as_before(outs[:count], carry), ys

    end, ys = scan(step, tuple(begin), tuple(xs), reverse=back)
    outward = list(scan_output_directions or [0] * len(ys))
    places = list(scan_output_axes or [0] * len(ys))
    found = []
    for y, way, axis in zip(ys, outward, places, strict=True):
        y = flip(y, (0,)) if bool(way) != back else y
        found.append(movedim(y, 0, axis_of(axis, y.ndim)) if axis else y)
    return (*end, *found)


def _scan_of_batches(
    lengths: Any, *values: Any, body: Any, num_scan_inputs: int,
    directions: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """Scan as it was: over the second dim, for each row of a batch."""
    if lengths is not None:
        raise ShapeError(f"lengths of sequences are not read, at {format_locs(here())}")
    batch = values[0].shape[0]
    if isinstance(batch, Dim):
        raise SymbolicError(
            "the number of rows in the batch of a Scan of opset 8 must be known, at "
            f"{format_locs(here())}"
        )
    runs = [
        _scan(
            *(v[b] for v in values), body=body, num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
        )
        for b in range(batch)
    ]  # fmt: skip
    return tuple(stack(list(column)) for column in zip(*runs, strict=True))


LOOPS: Mapping[str, Row] = {
    "If": row(_if, whole=True),
    "Loop": row(_loop, whole=True),
    "Scan": row(_scan, since=9),
    "Scan before 9": row(_scan_of_batches),
}
"""Rows by operator."""
