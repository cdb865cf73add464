"""A function with a backward of its own as part of a graph: both are traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import AutogradError
from staticflow.graph.graph import close
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import stop_gradient
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.declaring.declare import sum_to
from staticflow.ops.declaring.thread import recording
from staticflow.ops.loops.custom import custom_op, once_op
from staticflow.ops.loops.region import close_over, trace
from staticflow.ops.symbols.symbol import Symbol, to_node, tracing

__all__ = ["apply_traced", "refuse_twice"]


def apply_traced(function: Any, ctx: Any, args: tuple[Any, ...]) -> Any:
    """What a `Function` gives of symbols: the outputs of its forward, with its backward for a
    derivative. Cotangents are always materialized, since none is known to be missing."""
    inputs = {i: Symbol(to_node(a)) for i, a in enumerate(args) if hasattr(a, "__sf_mode__")}
    real = {i: x for i, x in inputs.items() if x.dtype.is_floating}
    ctx.needs_input_grad = tuple(i in real for i in range(len(args)))
    with tracing(), recording(False):
        outputs = function.run(ctx, args)
    single = not isinstance(outputs, tuple)
    given = (outputs,) if single else outputs
    apart = set(map(id, ctx.non_differentiable))
    values = {i: Symbol(to_node(o)) for i, o in enumerate(given) if hasattr(o, "__sf_mode__")}
    live = [i for i, y in values.items() if y.dtype.is_floating and id(given[i]) not in apart]
    blanks = [values.get(i) for i in range(len(given))]
    found = dict(zip(live, _custom(function, ctx, len(args), real, blanks, live), strict=True))
    results = []
    for i, o in enumerate(given):
        y = found.get(i, stop_gradient(values[i]) if i in values else o)
        if isinstance(o, Symbol) and any(o is d for d in ctx.dirty):
            o.node = y.node  # the handle that was changed in place is the result
            y = o
        results.append(y)
    return results[0] if single else tuple(results)


def _custom(
    function: Any,
    ctx: Any,
    count: int,
    real: dict[int, Symbol],
    outputs: Sequence[Symbol | None],
    live: Sequence[int],
) -> Any:
    """The outputs with the numbers ``live``, of a function of ``count`` arguments, with their
    derivatives by the ``real`` ones replaced."""
    if not live:
        return ()
    ys = [to_node(outputs[i]) for i in live]
    names: list[int] = []

    def backward(cts: list[Symbol]) -> list[Symbol]:
        every = [None if y is None else zeros_like(y) for y in outputs]
        for i, ct in zip(live, cts, strict=True):
            every[i] = ct
        grads = function.backward(ctx, *every)
        grads = grads if isinstance(grads, tuple | list) else (grads,)
        if len(grads) < count or any(g is not None for g in grads[count:]):
            raise AutogradError(
                f"function {function.__name__}Backward returned an incorrect number of gradients "
                f"(expected {count}, got {len(grads)}), at {format_locs(here())}"
            )
        names.extend(i for i in real if grads[i] is not None)
        return [_fit(grads[i], real[i]) for i in names]

    own, grads, began = trace(backward, [y.tensor_type for y in ys], "ct")
    region = close_over(own, [g.node for g in grads], began)
    results = {y: j for j, y in reversed(list(enumerate(ys)))}
    inside = [n for n in region.captured if n in results]
    outside = [n for n in region.captured if n not in results]
    params = (*region.own, *(region.captured[n] for n in (*inside, *outside)))
    return custom_op(
        *map(Symbol, ys),
        *(real[i] for i in names),
        *map(Symbol, outside),
        results=len(ys),
        own=tuple(results[n] for n in inside),
        backward=close(params, region.outputs),
    )


def _fit(g: Any, x: Symbol) -> Symbol:
    """A gradient in the shape and dtype of its argument."""
    fitted: Symbol = sum_to(Symbol(to_node(g)), x.__sf_shape__).to(x.dtype)
    return fitted


def refuse_twice(found: Any) -> Any:
    """The gradients that a backward gave of symbols, not to be differentiated again."""
    if not isinstance(found, tuple | list):
        return once_op(found)
    return tuple(g if g is None else once_op(g) for g in found)
