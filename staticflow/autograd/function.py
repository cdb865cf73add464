"""Functions with a backward of their own."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.autograd.once import once_differentiable
from staticflow.autograd.traced import apply_traced
from staticflow.eager.grad_mode import no_grad
from staticflow.eager.hooks import lend, show
from staticflow.eager.in_place import stand_for
from staticflow.eager.saved import SavedType, load_value, save_value
from staticflow.eager.tensor import Tensor
from staticflow.eager.vertex import WALKED_AGAIN, Output, Vertex, functions_of, next_serial
from staticflow.errors import AutogradError, DTypeError, ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.declaring.declare import sum_to
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["Function", "FunctionCtx", "LinearMap", "once_differentiable"]


class FunctionCtx:
    """What ``forward`` and ``backward`` of a `Function` share. Anything may be stored in it as an
    attribute; tensors that backward needs go through `save_for_backward`, which sees to it that
    they are freed and that changes in place are noticed.

    ``needs_input_grad`` says of each argument whether a gradient of it is wanted.
    """

    needs_input_grad: tuple[bool, ...]
    _node: weakref.ref[FunctionNode] | None = None  # which holds this

    def __init__(self) -> None:
        self.to_save: tuple[Any, ...] = ()
        self.dirty: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for backward, where `saved_tensors` has them. Called once, in
        ``forward`` or ``setup_context``; arguments and results of the function keep their position
        on the tape, so that backward can be differentiated again.
        """
        for i, t in enumerate(tensors):
            if t is not None and not hasattr(t, "__sf_mode__"):
                raise DTypeError(
                    f"save_for_backward can only save tensors, but argument {i} is of type "
                    f"{type(t).__name__}; keep it as an attribute of ctx, at {format_locs(here())}"
                )
        self.to_save = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which arguments were changed in place. Each must be given back as a result."""
        self.dirty = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which results have no gradient. ``backward`` still takes zeros for them."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` is given zeros (True, as at first) or None for results that no
        gradient reaches."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given. Raises `AutogradError` where one of them was changed
        in place since, and after they were freed."""
        node = None if self._node is None else self._node()
        return self.to_save if node is None else node.saved_values()


class FunctionNode:
    """The vertex that an application of a `Function` leaves on the tape. What it is asked for and
    does not have, it asks its context: ``y.grad_fn.saved_tensors``."""

    __slots__ = (
        "__weakref__", "_arguments", "_results", "_saved", "_single", "ctx", "edges", "function",
        "hooks", "locs", "serial",
    )  # fmt: skip

    def __init__(
        self,
        function: type[Function],
        ctx: FunctionCtx,
        args: Sequence[Any],
        edges: tuple[Vertex | None, ...],
    ) -> None:
        self.function, self.ctx, self.edges = function, ctx, edges
        self.hooks: Any = None
        self.locs = here()
        self.serial = 0
        self._arguments = [SavedType(a) if isinstance(a, Tensor) else None for a in args]
        self._results: list[SavedType | None] = []
        self._saved: list[Any] | None = []
        self._single = True

    # -- on the tape --------------------------------------------------------------------------

    def record(self, args: Sequence[Any], outputs: Any) -> Any:
        """The results that ``outputs`` of ``forward`` become, on the tape."""
        ctx = self.ctx
        self._single = not isinstance(outputs, tuple)
        self.serial = next_serial()
        given = (outputs,) if self._single else outputs
        self._check_dirty(args, given)
        results = [self._attach(o, i, args) for i, o in enumerate(given)]
        positions = {id(o): -1 - i for i, o in enumerate(given)}
        for i, a in enumerate(args):
            positions.setdefault(id(a), i)
        self._saved = [
            None if t is None else _keep_with_position(t, positions.get(id(t))) for t in ctx.to_save
        ]
        self._results = [SavedType(r) if isinstance(r, Tensor) else None for r in results]
        ctx.to_save = ctx.dirty = ctx.non_differentiable = ()
        ctx._node = weakref.ref(self)
        return results[0] if self._single else tuple(results)

    def _check_dirty(self, args: Sequence[Any], given: Sequence[Any]) -> None:
        for t in self.ctx.dirty:
            if not _among(t, args) or not _among(t, given):
                raise AutogradError(
                    f"{self.what}: what is marked dirty must be an argument that is changed in "
                    f"place and given back as a result, at {format_locs(here())}"
                )

    def _attach(self, o: Any, i: int, args: Sequence[Any]) -> Any:
        """Output ``i`` as a result."""
        if not isinstance(o, Tensor):
            return o
        vertex = self if self._single else Output(self, i)
        if _among(o, self.ctx.dirty):
            o._bump()
            stand_for(o, vertex)
            return o
        if _among(o, args) or o._vertex is not None or o._view is not None:
            o = o.detach()
        if o.dtype.is_floating and not _among(o, self.ctx.non_differentiable):
            o._vertex = vertex
        return o

    def pull(self, ct: Any, edges: Sequence[Vertex | None], retain: bool) -> Sequence[Any]:
        """The cotangents of the arguments, from ``backward``."""
        cts = [ct] if self._single else [ct.get(i) for i in range(len(self._results))]
        if self.ctx.materialize_grads:
            cts = [
                zeros_like(r) if c is None and r is not None else c
                for c, r in zip(cts, self._results, strict=True)
            ]
        show(cts)
        found = self.function.backward(self.ctx, *cts)
        if not retain and self._saved:
            self._saved = None
        return [
            self._check_gradient(g, i) if e is not None else None
            for i, (g, e) in enumerate(zip(self._check_count(found), edges, strict=True))
        ]

    def _check_count(self, found: Any) -> Sequence[Any]:
        """One gradient for each argument."""
        grads = list(found) if isinstance(found, tuple | list) else [found]
        wanted = len(self._arguments)
        while len(grads) > wanted and grads[-1] is None:
            grads.pop()
        if len(grads) != wanted:
            raise AutogradError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{wanted}, got {len(grads)}), one for each argument of forward; applied at "
                f"{format_locs(self.locs)}"
            )
        for i, (g, a) in enumerate(zip(grads, self._arguments, strict=True)):
            if g is not None and a is None:
                raise AutogradError(
                    f"function {self.name()} returned a gradient different from None at position "
                    f"{i}, but the corresponding forward input was not a tensor; applied at "
                    f"{format_locs(self.locs)}"
                )
        return grads

    def _check_gradient(self, g: Any, i: int) -> Any:
        """Gradient ``i`` in the shape and dtype of its argument."""
        if g is None:
            return None
        if not isinstance(g, Tensor):
            raise DTypeError(
                f"function {self.name()} returned {type(g).__name__} at position {i}; a gradient "
                f"is a tensor or None; applied at {format_locs(self.locs)}"
            )
        like = self._arguments[i]
        assert like is not None
        if g.shape != like.shape:
            if not _stretches(like.shape, g.shape):
                raise ShapeError(
                    f"function {self.name()} returned an invalid gradient at index {i} - got "
                    f"{list(g.shape)} but expected shape compatible with {list(like.shape)}; "
                    f"applied at {format_locs(self.locs)}"
                )
            g = sum_to(g, like.__sf_shape__)
        return lend(g if g.dtype is like.dtype else cast(g, dtype=like.dtype))

    # -- what one asks of it ------------------------------------------------------------------

    @property
    def what(self) -> str:
        """What errors call it."""
        return self.function.__name__

    def name(self) -> str:
        """The name that ``grad_fn`` prints."""
        return f"{self.what}Backward"

    def saved_name(self, position: int) -> str:
        """What errors call saved tensor ``position``."""
        return f"{self.what}: saved tensor {position}"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """What the arguments came from, as in PyTorch."""
        return functions_of(self.edges)

    def saved_values(self) -> tuple[Any, ...]:
        """The tensors that ``save_for_backward`` was given; one that was changed since is
        refused."""
        if self._saved is None:
            raise AutogradError(
                f"backward goes through {self.what} (made at {format_locs(self.locs)}) a second "
                f"time, but its saved values were freed by the first; {WALKED_AGAIN}"
            )
        return tuple(
            None if s is None else load_value(s[0], self._edge_of(*s[1:]), self, i)
            for i, s in enumerate(self._saved)
        )

    def _edge_of(self, position: int | None, edge: Vertex | None) -> Vertex | None:
        """The vertex of a saved tensor: argument ``position``, a result if that is negative, or
        another tensor, which has the ``edge``."""
        if position is None:
            return edge
        if position >= 0:
            return self.edges[position]
        return self if self._single else Output(self, -1 - position)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ctx, name)

    def __repr__(self) -> str:
        return f"<{self.name()}>"


def _keep_with_position(t: Tensor, position: int | None) -> tuple[Any, int | None, Vertex | None]:
    """A saved tensor with its position among the arguments, or else its edge. A result does not
    retain its vertex, which would be a reference cycle."""
    return save_value(t), position, t._current_vertex() if position is None else None


def _among(t: Any, group: Sequence[Any]) -> bool:
    return bool(group) and id(t) in map(id, group)


def _stretches(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(small, large) == large
    except ValueError:
        return False


class Function:
    """A function with a backward of its own: subclass it, and call its ``apply``.

    ``forward(ctx, *args)`` computes with tensors, unrecorded; ``backward(ctx, *cotangents)`` gives
    a gradient or None for each argument, from one cotangent for each result. Written in ops,
    backward can be differentiated again. Instead of taking ``ctx`` in ``forward``, a subclass may
    define ``setup_context(ctx, inputs, output)``.

    Applied to symbols, both are traced into the graph.

    >>> import staticflow as sf
    >>> class Exp(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...     @staticmethod
    ...     def backward(ctx, ct):
    ...         (y,) = ctx.saved_tensors
    ...         return ct * y
    >>> Exp.apply(sf.zeros(1, requires_grad=True))
    tensor([1.], grad_fn=<ExpBackward>)
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The results, a tensor or a tuple. Each subclass says."""
        raise NotImplementedError(
            f"a Function defines forward, as a staticmethod, at {format_locs(here())}"
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Store in ``ctx`` what backward needs, where ``forward`` does not take it: it is called
        where a subclass has its own."""
        raise NotImplementedError("this Function has no setup_context; its forward takes ctx")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments. Each subclass says."""
        raise NotImplementedError(
            "a Function that is to be differentiated defines backward, as a staticmethod"
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function. Keywords are put in the positions that ``forward`` gives them, and
        where there is a ``setup_context``, that gets the defaults of ``forward`` among its
        inputs."""
        state = thread.state
        if kwargs or cls._is_set_up():
            args = cls._by_position(args, kwargs)
        if state.tracing or any(isinstance(a, Symbol) for a in args):
            return apply_traced(cls, FunctionCtx(), args)
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        if not (state.recording and any(ctx.needs_input_grad)):
            with no_grad():
                return cls.run(ctx, args)
        edges = tuple(a._current_vertex() if isinstance(a, Tensor) else None for a in args)
        node = FunctionNode(cls, ctx, args, edges)
        with no_grad():
            outputs = cls.run(ctx, args)
        return node.record(args, outputs)

    @classmethod
    def run(cls, ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
        """The outputs of ``forward``, in either of its forms."""
        if not cls._is_set_up():
            return cls.forward(ctx, *args)
        outputs = cls.forward(*args)
        cls.setup_context(ctx, args, outputs)
        return outputs

    @classmethod
    def _is_set_up(cls) -> bool:
        return cls.setup_context is not Function.setup_context

    @classmethod
    def _by_position(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments of ``forward`` but its ``ctx``, by position."""
        ctx = () if cls._is_set_up() else (None,)
        bound = inspect.signature(cls.forward).bind(*ctx, *args, **kwargs)
        bound.apply_defaults()
        return bound.args[len(ctx) :]


class LinearMap(Function):
    """What a linear map gives of tensors, where only these have a history: their gradients are what
    the transposed map gives. Both take tensors and give a list of them."""

    @staticmethod
    def forward(ctx: Any, product: Any, transposed: Any, *given: Any) -> tuple[Any, ...]:
        """The ``product`` of the tensors that are ``given``."""
        ctx.transposed = transposed
        return tuple(product(given))

    @staticmethod
    def backward(ctx: Any, *cts: Any) -> tuple[Any, ...]:
        """The transposed product of cotangents, which is recorded where these are."""
        return None, None, *ctx.transposed(cts)
