"""Whether a tensor requires a gradient, and the one that backward has given it.

The functions here are methods of `Tensor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from staticflow.eager.hooks import warn_of_inner
from staticflow.eager.in_place import refuse_in_graph, refuse_in_trace
from staticflow.eager.inference import is_inference
from staticflow.eager.row_gradient import is_of_rows, to_dense
from staticflow.eager.vertex import LEAF
from staticflow.errors import AutogradError, DTypeError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.foreign import how_to_wrap
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.dependents import note_change

if TYPE_CHECKING:
    from staticflow.eager.tensor import Tensor

__all__ = ["delete_grad", "get_grad", "require", "requires_grad_", "set_grad"]


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Record operations on this leaf from now on, or no more.

    Raises `AutogradError` for what has a history, is no float or was made in inference mode,
    and `SymbolicError` for a change inside a trace, which no call of the program would make.
    """
    requires_grad = as_bool("requires_grad", requires_grad)
    if thread.state.tracing and self.is_leaf and requires_grad != self.requires_grad:
        refuse_in_graph(f"requires_grad_({requires_grad})", "call it before the trace")
    return require(self, requires_grad)


def require(self: Tensor, requires_grad: bool = True) -> Tensor:
    """`requires_grad_`, also of a tensor that was made inside a trace."""
    requires_grad = as_bool("requires_grad", requires_grad)
    if not self.is_leaf:
        if requires_grad:
            return self
        raise AutogradError(
            "requires_grad can be switched off on leaves only; use .detach() for a tensor "
            f"without history, at {format_locs(here())}"
        )
    if requires_grad and not self.dtype.is_floating:
        raise AutogradError(
            f"only floating tensors have gradients, not {self.dtype.name}; make it of a "
            f"floating dtype, as in dtype=sf.float32, at {format_locs(here())}"
        )
    if requires_grad and is_inference(self) and not thread.state.inference:
        raise AutogradError(
            "requires_grad_() of a tensor that was made in inference mode: nothing that it "
            f"takes part in can be recorded; use its .clone(), at {format_locs(here())}"
        )
    vertex = LEAF if requires_grad else None
    if vertex is not self._vertex:
        self._vertex = vertex
        note_change(self)
    return self


def get_grad(self: Tensor) -> Tensor | None:
    """The gradient that backward has added up, None before. Backward keeps that of leaves; a
    warning says so where another tensor is asked that `retain_grad` was not called on.

    Raises `SymbolicError` inside a trace, which would name what it is now in every call."""
    if thread.state.tracing:
        refuse_in_graph("the .grad", "give it to the function as an argument")
    if self._grad is None and not self.is_leaf:
        warn_of_inner(self)
    if is_of_rows(self._grad):
        self._grad = to_dense(self._grad)
    return self._grad


def set_grad(self: Tensor, value: Tensor | None) -> None:
    """Let ``value`` be the gradient. Raises `AutogradError` for one that is not as the tensor."""
    refuse_in_trace("an assignment to .grad", "make it before the trace")
    if value is not None:
        own, given = self._data, value._data if isinstance(value, eager.tensor) else None
        fits = given is not None and own.shape == given.shape and own.dtype is given.dtype
        if not fits or type(own) is not type(given) or value is self:
            _check_grad(self, value)
    self._grad = value


def delete_grad(self: Tensor) -> None:
    """Let there be no gradient, as before any backward."""
    self.grad = None


def _check_grad(x: Tensor, grad: Any) -> None:
    """Refuse what cannot be the gradient of ``x``."""
    if not isinstance(grad, eager.tensor):
        raise DTypeError(
            f"a gradient must be a tensor or None, not {with_article(type(grad))}; "
            f"{how_to_wrap(grad)}, at {format_locs(here())}"
        )
    wrong = (
        "a tensor cannot be its own gradient"
        if grad is x
        else f"its shape is {list(grad.shape)}, that of the tensor {list(x.shape)}"
        if grad.shape != x.shape
        else f"its dtype is {grad.dtype.name}, that of the tensor {x.dtype.name}"
        if grad.dtype is not x.dtype
        else f"it is on {grad.device}, the tensor on {x.device}"
        if grad.__sf_gpu__ != x.__sf_gpu__
        else None
    )
    if wrong:
        raise AutogradError(f"this gradient cannot be assigned: {wrong}, at {format_locs(here())}")
