"""A backward that is not written in ops, and so has no derivative of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from staticflow.autograd.traced import refuse_twice
from staticflow.eager.grad_mode import no_grad
from staticflow.eager.tensor import Tensor
from staticflow.eager.vertex import Vertex, next_serial
from staticflow.errors import AutogradError
from staticflow.graph.locs import format_locs
from staticflow.ops.declaring.foreign import refuses_foreign
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import Symbol

if TYPE_CHECKING:
    from staticflow.autograd.function import FunctionNode

__all__ = ["once_differentiable"]


@refuses_foreign
def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for a ``backward`` that is not written in ops: what it gives cannot be
    differentiated again, and says so where somebody tries.

    >>> import staticflow as sf
    >>> class Cube(sf.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, ct):
    ...         return ct * 3 * ctx.saved_tensors[0] ** 2
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *cts: Any) -> Any:
        if any(isinstance(c, Symbol) for c in cts):
            return refuse_twice(fn(ctx, *cts))
        with no_grad():
            found = fn(ctx, *cts)
        edges = tuple(c._current_vertex() for c in cts if isinstance(c, Tensor))
        if not thread.state.recording or not any(e is not None for e in edges):
            return found
        refusal = _Refusal(ctx._node(), edges)
        single = not isinstance(found, tuple | list)
        results = tuple(_refusing(g, refusal) for g in ([found] if single else found))
        return results[0] if single else results

    return wrapper


def _refusing(g: Any, refusal: _Refusal) -> Any:
    if isinstance(g, Tensor):
        g = g.detach()
        g._vertex = refusal
    return g


class _Refusal:
    """The vertex of a gradient that cannot be differentiated."""

    hooks: Any = None

    def name(self) -> str:
        """The name that ``grad_fn`` prints."""
        return "Error"

    def __init__(self, node: FunctionNode, edges: tuple[Vertex | None, ...]) -> None:
        self.node, self.edges = node, edges
        self.locs = node.locs
        self.serial = next_serial()

    def pull(self, ct: Any, edges: Sequence[Vertex | None], keep: bool) -> Sequence[Any]:
        """Raise `AutogradError`."""
        raise AutogradError(
            f"{self.node.what}: trying to differentiate twice a function that was marked with "
            f"@once_differentiable, applied at {format_locs(self.locs)}; write its backward in "
            "staticflow's own operations and take the mark away"
        )

    def __repr__(self) -> str:
        return f"<{self.name()}>"
