"""Values with a derivative of the user's own, as parts of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.graph import Graph, substitute_nodes
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.loops.loop import assume_inside, same_type
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["custom_op", "once_op"]


def _infer(
    facts: Facts, *args: TensorType, results: int, own: tuple[int, ...], backward: Graph
) -> tuple[TensorType, ...]:
    ys, xs, captured = _parts(args, results, backward)
    given = (*ys, *(ys[j] for j in own), *captured)
    if len(given) != len(backward.params) or not all(y.dtype.is_floating for y in ys):
        raise DTypeError("its parts do not fit its backward")
    for position, (a, b) in enumerate(zip(given, backward.params, strict=True)):
        same_type(facts, a, b.tensor_type, f"operand {position} of the backward")
    for position, (a, b) in enumerate(zip(xs, backward.outputs, strict=True)):
        if a.ndim != b.tensor_type.ndim:
            raise ShapeError(f"the gradient of {a} is {b.type}")
        same_type(facts, b.tensor_type, a, f"gradient {position}")
    assume_inside(facts, backward)
    return tuple(ys)


def _parts(args: Sequence[Any], results: int, backward: Graph) -> tuple[Any, Any, Any]:
    """The computed values, what they are differentiated by, and what the backward uses besides."""
    last = results + len(backward.outputs)
    return args[:results], args[results:last], args[last:]


def _vjp(
    needs: Sequence[bool],
    cts: Sequence[Any],
    out: Any,
    *args: Any,
    results: int,
    own: tuple[int, ...],
    backward: Graph,
) -> list[Any]:
    """The backward, written in ops as it is, in the place of the derivatives of the values."""
    ys, _, captured = _parts(args, results, backward)
    seeds = [zeros_like(y) if ct is None else ct for ct, y in zip(cts, ys, strict=True)]
    given = [to_node(v) for v in (*seeds, *(out[j] for j in own), *captured)]
    found = substitute_nodes(backward.outputs, dict(zip(backward.params, given, strict=True)))
    return [None] * len(ys) + [Symbol(n) for n in found] + [None] * len(captured)


custom_op = Op(
    name="custom",
    doc="The first ``results`` arguments, whose derivative by the following ones, as many as the "
    "region ``backward`` gives, is that region: of the cotangents, the results with the numbers "
    "``own``, and the other arguments.",
    infer=_infer,
    reference=lambda xp, *args, results, own, backward: tuple(args[:results]),
    vjp=_vjp,
    flows=lambda results, own, backward: [
        range(results, results + len(backward.outputs)) for _ in range(results)
    ],
    decompose=lambda *args, results, own, backward: tuple(args[:results]),
    grad_name="CustomBackward",
)

once_op = Op(
    name="once_differentiable",
    doc="The value, which cannot be differentiated.",
    infer=lambda facts, x: x,
    reference=lambda xp, x: x,
    vjp=None,
    decompose=lambda x: x,
)
