"""Clipping of gradients, parameters as one vector or made from others, sequences of any lengths.

After an eager backward the gradients are changed in place. For a static step they are a mapping
that goes through `clip_grad_norm` or `clip_grad_value` on its way to the optimiser:

>>> import staticflow as sf
>>> w = sf.nn.Parameter([0.0])
>>> opt = sf.optim.SGD([w], lr=1.0)
>>> x = sf.placeholder((1,), name="x")
>>> loss = (x * w).sum()
>>> grads, norm = clip_grad_norm(opt.gradients(loss), max_norm=2.0)
>>> step = sf.compile([x], [loss, norm], updates=opt.updates(grads))
>>> step(sf.tensor([8.0]))[1].item(), round(w.item(), 5)
(8.0, -2.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from staticflow.errors import AutogradError, DTypeError, ShapeError
from staticflow.graph.articles import with_article
from staticflow.graph.dims import prod, same
from staticflow.graph.locs import format_locs, here
from staticflow.nn.parameter import tensor
from staticflow.nn.utils import parametrizations, parametrize, rnn
from staticflow.nn.utils.older_names import (
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    weight_norm,
)
from staticflow.ops.along.extremes import amax
from staticflow.ops.basics.arithmetic import maximum
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import ravel
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.elementwise.maths import abs, sqrt

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value", "clip_grad_value_",
    "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector", "parametrizations",
    "parametrize", "remove_spectral_norm", "remove_weight_norm", "rnn", "spectral_norm",
    "vector_to_parameters", "weight_norm",
]  # fmt: skip


def get_total_norm(
    tensors: Sequence[Any], norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:  # fmt: skip
    """The norm of all elements of all ``tensors`` together: the root of the sum of their
    ``norm_type``-th powers, the largest for infinity. In float32 for 16-bit floats; 0 of none.
    `AutogradError` with ``error_if_nonfinite`` if it is infinite or NaN. ``foreach`` is taken, and
    changes nothing."""
    norm = _norm_of([t.float() if t.dtype.itemsize == 2 else t for t in tensors], norm_type)
    if error_if_nonfinite and not math.isfinite(norm.item()):
        raise AutogradError(
            f"the norm of the gradients is {norm.item()}, at {format_locs(here())}; to go on with "
            "it nevertheless set error_if_nonfinite=False"
        )
    return norm


def _norm_of(tensors: Sequence[Any], norm_type: float) -> Any:
    if not tensors:
        return tensor(0.0)
    if norm_type == math.inf:
        largest = [amax(abs(t)) for t in tensors if not _is_empty(t)]
        return _largest(largest) if largest else tensors[0].sum()
    if norm_type == 2:
        return sqrt(_total((t * t).sum() for t in tensors))
    return _total((abs(t) ** norm_type).sum() for t in tensors) ** (1 / norm_type)


def _is_empty(t: Any) -> bool:
    return any(same(n, 0) for n in t.shape)


def _total(parts: Iterable[Any]) -> Any:
    first, *rest = parts
    for part in rest:
        first = first + part
    return first


def _largest(parts: Sequence[Any]) -> Any:
    first, *rest = parts
    for part in rest:
        first = maximum(first, part)
    return first


def _scale(norm: Any, max_norm: float) -> Any:
    """What a gradient of this ``norm`` is multiplied by; never more than 1."""
    return (max_norm / (norm + 1e-6)).clamp(max=1.0)


def clip_grad_norm(
    grads: Mapping[Any, Any], max_norm: float, norm_type: float = 2.0
) -> tuple[dict[Any, Any], Any]:
    """Gradients by parameter scaled to a norm of at most ``max_norm`` together, and the norm that
    they had. New tensors or symbols: what `Optimizer.updates` takes."""
    norm = get_total_norm(list(grads.values()), norm_type)
    scale = _scale(norm, max_norm)
    return {p: (g * scale).to(g.dtype) for p, g in grads.items()}, norm


def clip_grad_value(grads: Mapping[Any, Any], clip_value: float) -> dict[Any, Any]:
    """Gradients by parameter clamped to ``-clip_value`` and ``clip_value``: what
    `Optimizer.updates` takes."""
    return {p: g.clamp(-clip_value, clip_value) for p, g in grads.items()}


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:  # fmt: skip
    """Scale the ``.grad`` of the parameters, in place, to a norm of at most ``max_norm`` together.
    Returns the norm that they had; `AutogradError` with ``error_if_nonfinite`` if that is infinite
    or NaN. ``foreach`` is taken, and changes nothing."""
    grads = _gradients(parameters)
    norm = get_total_norm(grads, norm_type, error_if_nonfinite)
    _scale_in_place(grads, max_norm, norm)
    return norm


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None
) -> None:
    """Scale the ``.grad`` of the parameters, in place, as `clip_grad_norm_` does where their norm
    together is ``total_norm``, a tensor. ``foreach`` is taken, and changes nothing."""
    _scale_in_place(_gradients(parameters), max_norm, total_norm)


def _scale_in_place(grads: Iterable[Any], max_norm: float, norm: Any) -> None:
    scale = _scale(norm, max_norm)
    for g in grads:
        g.mul_(scale.to(g.dtype))


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp the ``.grad`` of the parameters, in place, to ``-clip_value`` and ``clip_value``.
    ``foreach`` is taken, and changes nothing."""
    for g in _gradients(parameters):
        g.clamp_(-clip_value, clip_value)


def _gradients(parameters: Any) -> list[Any]:
    """The gradients that there are, on their own memory."""
    if hasattr(parameters, "parameters"):
        raise DTypeError(
            f"the gradients of {with_article(type(parameters))} are those of its parameters; give "
            f"model.parameters(), at {format_locs(here())}"
        )
    each = [parameters] if hasattr(parameters, "grad") else parameters
    return [p.grad.detach() for p in each if p.grad is not None]


# -- parameters as one vector ---------------------------------------------------------------------


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """The elements of all parameters in one vector, on the tape."""
    return cat([ravel(p) for p in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Put the elements of a vector into the parameters, in place.

    Raises `ShapeError` if there are not as many.
    """
    each = list(parameters)
    counts = [prod(p.shape) for p in each]
    if vec.shape != (sum(counts),):
        raise ShapeError(
            f"vector_to_parameters: {prod(vec.shape)} elements for parameters of {sum(counts)}, "
            f"at {format_locs(here())}"
        )
    for p, part in zip(each, vec.detach().split(counts), strict=True):
        p.detach().copy_(part.reshape(p.shape))


refuses_foreign_in(globals())
