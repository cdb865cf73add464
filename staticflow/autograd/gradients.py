"""``backward`` and ``grad`` of several outputs at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.eager import tape
from staticflow.errors import ArgumentError, AutogradError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.joining import stack
from staticflow.static.grad import grad as any_grad

__all__ = ["backward", "grad"]


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of ``tensors`` (one or several) to the ``.grad`` of the leaves that they
    came from, or of ``inputs`` alone: ``Tensor.backward`` for several at once.

    ``grad_tensors`` has a cotangent for each of them, None for a single number.
    """
    outs = _list(tensors)
    cts = [None] * len(outs) if grad_tensors is None else _list(grad_tensors)
    if len(cts) != len(outs):
        raise ArgumentError(
            f"backward: {len(cts)} grad_tensors for {len(outs)} tensors, at {format_locs(here())}"
        )
    tape.backward(outs, cts, retain_graph, create_graph, inputs)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool | None = None,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of ``outputs`` by ``inputs`` (each one or several), as a tuple: ``sf.grad``
    under PyTorch's argument names. Nobody's ``.grad`` is touched, so ``only_inputs`` can be True
    alone. ``create_graph`` is that of `sf.grad`: gradients in a graph may be differentiated in turn
    unless it is False.

    An input that is not reached is an `AutogradError`, None with ``allow_unused``, zeros with
    ``materialize_grads``. With ``is_grads_batched`` each of ``grad_outputs`` has several cotangents
    along its first dim, and each gradient one for each of them.

    >>> import staticflow as sf
    >>> x = sf.tensor(3.0, requires_grad=True)
    >>> grad(x * x, x)
    (tensor(6.),)
    """
    if not only_inputs:
        raise ArgumentError(
            "grad: only_inputs=False would touch .grad of others; call backward for that"
            f", at {format_locs(here())}"
        )
    if is_grads_batched:
        rows = list(zip(*(g.unbind(0) for g in _list(grad_outputs)), strict=True))
        each = [
            grad(
                outputs,
                inputs,
                list(row),
                retain_graph or last < len(rows),
                create_graph,
                allow_unused=allow_unused,
                materialize_grads=materialize_grads,
            )
            for last, row in enumerate(rows, 1)
        ]
        return tuple(None if g[0] is None else stack(g) for g in zip(*each, strict=True))
    wrt = _list(inputs)
    if not wrt:
        raise AutogradError(f"grad: there are no inputs, at {format_locs(here())}")
    cts = None if grad_outputs is None else _list(grad_outputs)
    found: Sequence[Any] = any_grad(
        _list(outputs),
        wrt,
        cts,
        allow_unused=bool(allow_unused) or materialize_grads,
        create_graph=create_graph,
        retain_graph=retain_graph,
    )
    if materialize_grads:
        found = [zeros_like(w) if g is None else g for g, w in zip(found, wrt, strict=True)]
    return tuple(found)


def _list(x: Any) -> list[Any]:
    return list(x) if isinstance(x, list | tuple) else [x]
