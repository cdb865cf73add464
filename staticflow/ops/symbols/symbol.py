"""Symbols: what a user holds of a graph while it is being written.

A symbol is a thin handle on a node, with the operators and methods of a tensor. Every operation on
it makes a node; in-place forms make the handle name another node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from staticflow.errors import AutogradError, DTypeError, ShapeError, StaticflowError, SymbolicError
from staticflow.graph.attr_kinds import fit_attrs
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, closed_size
from staticflow.graph.dtypes import DType, dtype_of, float64, weak_dtype
from staticflow.graph.locs import format_locs, here, is_rewriting, using
from staticflow.graph.masked_arrays import refuse_masked
from staticflow.graph.node import Node, item, make_node, param
from staticflow.graph.numbers import fitting
from staticflow.graph.op import Op
from staticflow.graph.open_size import OpenSize, open_shape
from staticflow.graph.types import Shape, types_of
from staticflow.ops.along.collectives import shard_op
from staticflow.ops.basics.arithmetic import cast, keep_history, stop_gradient
from staticflow.ops.basics.autocast import apply_cast, autocasts_now
from staticflow.ops.basics.creation import size_value
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.view import contiguous, of_size, reshape_op, stretchable
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.foreign import how_to_wrap, kind_of
from staticflow.ops.declaring.late import add_ties, behind
from staticflow.ops.declaring.lowering import Elementwise
from staticflow.ops.declaring.promote import (
    as_number,
    integer_beside,
    is_number,
    is_weak,
    operand_dtype,
)
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import for_itself, thread
from staticflow.ops.declaring.tracing import tracing, tracing_state
from staticflow.ops.indexing.memory_views import bitcast_op
from staticflow.ops.random.frozen import note_draws
from staticflow.ops.symbols.attributes import SymbolAttributes
from staticflow.ops.symbols.captured import capture, constant_node, source_of_detached, split_of
from staticflow.ops.symbols.flow import is_real, operands
from staticflow.ops.symbols.handle import Handle
from staticflow.ops.symbols.refused_values import RefusedValues
from staticflow.ops.symbols.watching import register_hook
from staticflow.ops.tensors.methods import Methods
from staticflow.ops.tensors.symbol_views import Alias, Detached, Perhaps, alias, view_of

__all__ = [
    "STATIC", "SYMBOLIC", "StaticMode", "Symbol", "results_of", "symbolic", "to_node", "tracing",
    "tracing_state",
]  # fmt: skip


def _node_of_tensor(tensor: Any) -> Node:
    """An eager tensor in a graph: a param that stands for it; of one with a history the operations
    that the tape has of it, unless the graph is itself an operation of the tape, as a jitted call
    is, through which gradients reach the tensor and go on."""
    state = tracing_state.state
    split = split_of(tensor) if state.guards is None and not state.types_only else None
    if split is not None:
        return _split_node(*split)
    if getattr(tensor, "grad_fn", None) is None:
        is_traced = state.tracing and state.guards is None
        source = source_of_detached(tensor) if is_traced else None
        return capture(tensor) if source is None else _without_gradient(source)
    if state.types_only or state.guards is not None:
        return capture(tensor)
    node: Node = eager.expression(tensor).node
    return node


def _split_node(source: Any, spec: tuple[str, ...]) -> Node:
    with for_itself():
        node: Node = shard_op(Symbol(_node_of_tensor(source)), spec=spec).node
    return node


def _without_gradient(source: Any) -> Node:
    with for_itself():
        node: Node = stop_gradient(Symbol(_node_of_tensor(source))).node
    return node


def to_node(x: Any, dtype: DType | None = None, op: Op | None = None) -> Node:
    """The node of anything that may stand in a symbolic expression: a symbol, an eager tensor
    (captured by reference, or what the tape has of it), a NumPy array or number (a constant), a
    size. It is an argument of ``op``, if that is given."""
    if isinstance(x, Symbol):
        return x.node
    if hasattr(x, "__sf_mode__"):
        return _node_of_tensor(x)
    if isinstance(x, Dim):
        attrs = {"size": closed_size(x), "dtype": dtype or dtype_of(int)}
        return make_node(size_value, tuple(add_ties((), attrs)), attrs, here())
    if isinstance(x, np.ndarray | np.generic):  # first: np.float64 is a Python float, too
        refuse_masked(x)
        return constant_node(x, dtype_of(x.dtype))
    if isinstance(x, bool | int | float):
        dtype = dtype or weak_dtype(x, None)
        return constant_node(fitting(x, dtype, "a number in a graph"), dtype)
    what = f"{op.name}: {kind_of(x)}" if op else kind_of(x)
    use = "use symbols, tensors, NumPy arrays or numbers"
    raise SymbolicError(
        f"{what} cannot stand in a symbolic expression; "
        f"{how_to_wrap(x) if hasattr(x, '__dlpack__') else use}, at {format_locs(here())}"
    )


class StaticMode:
    """Makes nodes. Outranks the eager mode: an op with one symbol among its arguments is
    symbolic."""

    rank = 1

    def apply(self, op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The result of ``op``, a symbol or several; no gradient flows through it where operations
        are not recorded."""
        if autocasts_now():
            return apply_cast(self.apply, op, args, attrs)
        out = self.make(op, args, attrs)
        if thread.state.recording or not any(map(_leads_on, out if type(out) is tuple else (out,))):
            return out
        with for_itself():
            if type(out) is tuple:
                return tuple(stop_gradient(y) if _leads_on(y) else y for y in out)
            stopped = stop_gradient(out)
        view = out._alias
        stopped._alias = replace(view, recorded=False) if type(view) is Alias else view
        return stopped

    def make(self, op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """One node of ``op``, through which gradients flow; a symbol, or a tuple of them where the
        op gives several."""
        attrs = fit_attrs(op, attrs)
        _refuse_symbolic(op, attrs)
        if op.promote != "none":
            args = [as_number(a) for a in args]
            if any(map(is_weak, args)) and all(is_number(a) or is_weak(a) for a in args):
                return self._of_numbers(op, args, attrs)
        operands = [
            a if is_number(a) or isinstance(a, Symbol) else Symbol(to_node(a, None, op))
            for a in args
        ]
        if len(operands) > 1 and isinstance(op.lowering, Elementwise):
            operands = _beside_each_other(operands)
        dtype = operand_dtype(op, operands)
        nodes = []
        for position, x in enumerate(operands):
            wanted = None if op.promote == "tail" and position == 0 else dtype
            if type(x) is int and wanted is not None and wanted.kind in "iu":
                x = integer_beside(op, position, x, wanted)
            node = to_node(x, wanted)
            if wanted is not None and node.tensor_type.dtype is not wanted:
                node = make_node(cast, (node,), {"dtype": wanted}, here())
            nodes.append(node)
        try:
            node = make_node(op, tuple(add_ties(nodes, attrs)), attrs, here())
        except (ShapeError, DTypeError) as error:
            raise type(error)(describe(op, [n.type for n in nodes], error)) from None
        if any(map(_is_of_the_run, attrs.values())):
            return _in_parts(op, node, attrs)
        if not is_rewriting():
            note_draws()
        for size in attrs.get("binds", ()):
            for sym in symbols_of(size):
                sym.bound_by(node)
        if isinstance(node.type, tuple):
            return results_of(node)
        return Symbol(node, alias(op, args[0], attrs) if args else None)

    def _of_numbers(self, op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The result of ``op`` on numbers that count as Python's: such a number again."""
        whole = all(isinstance(a, int | Dim) or (is_weak(a) and a.dtype.kind != "f") for a in args)
        wanted = None if whole else float64
        out = self.apply(op, [Symbol(to_node(a, wanted)) for a in args], attrs)
        if isinstance(out, Symbol):
            out.weak = True
        return out

    def beside(self, op: Op, other: Any, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """A node of an op without tensor arguments, beside the symbol ``other``."""
        return self.apply(op, args, attrs)


def _refuse_symbolic(op: Op, attrs: Mapping[str, Any]) -> None:
    """Refuse numbers that only the run can tell where a kernel has Python's in its code. Of sizes
    there are ops that take them, but none is elementwise, unless it checks its elements."""
    if op.lowering is None:  # other ops, whose operands they become
        return
    for name, value in attrs.items():
        kind = type(value)
        if _is_of_the_run(value) or (kind is Dim and type(op.lowering) is Elementwise):
            raise SymbolicError(
                f"{op.name}: {name} is {value}, which is known only when the program runs; it must "
                "be a Python number: give one, or write the function out with operators and "
                f"sf.where, which take such numbers, at {format_locs(here())}"
            )


def _is_of_the_run(value: Any) -> bool:
    """Whether only the run can tell a value, of a class that kernels do not take for a number."""
    return type(value) is Symbol or (
        hasattr(value, "__sf_mode__") and not isinstance(value, Symbol)
    )


def _in_parts(op: Op, node: Node, attrs: Mapping[str, Any]) -> Any:
    """What a node would give that has a number for an attribute which only the run can tell: that
    is an operand of what the op is made of, and the parts stand in the graph at once."""
    with using(node.locs), behind(node.args):
        return op.decompose(*map(Symbol, node.args), **attrs) if op.decompose else None


def _beside_each_other(operands: list[Any]) -> list[Any]:
    """Operands that are to broadcast, with 1 for unknown sizes that are 1 at most."""
    symbols = [x for x in operands if isinstance(x, Symbol)]
    shapes = [x.__sf_shape__ for x in symbols]
    if not shapes or shapes.count(shapes[0]) == len(shapes):  # as most are
        return operands
    found = []
    for x in operands:
        if isinstance(x, Symbol) and any(isinstance(size, Dim) for size in x.shape):
            for other in symbols:
                x = stretchable(x, (*x.shape[: max(x.ndim - other.ndim, 0)], *other.shape))
        found.append(x)
    return found


def results_of(node: Node) -> tuple[Symbol, ...]:
    """What a node of several results gives."""
    count = len(types_of(node.type))
    return tuple(Symbol(make_node(item, (node,), {"index": i}, node.locs)) for i in range(count))


def describe(op: Op, types: Sequence[Any], error: StaticflowError) -> str:
    """An error of a type rule with the op, its operands and the user's line."""
    return f"{op.name}({', '.join(map(str, types))}): {error}, at {format_locs(here())}"


def _leads_on(x: Symbol) -> bool:
    """Whether a gradient of a new symbol may go on to what it was made of."""
    node = x._node
    if node.op is item:
        node = node.args[0]
    return x.dtype.is_floating and any(map(is_real, operands(node)))


STATIC = StaticMode()


class Symbol(RefusedValues, SymbolAttributes, Methods):
    """A value of a graph that is not computed yet. Make one with ``sf.placeholder``. One that is
    ``weak`` counts as a Python number beside tensors: what follows from sizes alone, as a float,
    and the scalars of NumPy that a jitted function is given."""

    __slots__ = ("_alias", "_node", "_within", "weak")
    __sf_mode__ = STATIC

    def __init__(self, node: Node, alias: Alias | Detached | Perhaps | None = None) -> None:
        self._node, self._alias = node, alias
        self._within = tracing_state.state.within[-1]
        self.weak = False

    @property
    def node(self) -> Node:
        """The node that the handle names; of a view, of what it is a view of now."""
        view = self._alias
        if view is not None and view.seen is not None and view.root.node is not view.seen:
            self._node = view.read().node
            view.seen = view.root.node
        return self._node

    @node.setter
    def node(self, node: Node) -> None:
        self._node, self._alias = node, None

    @property
    def shape(self) -> Shape:
        """The sizes of the dims: ints, or `OpenSize` where they are known only as the program
        runs; rules of passes and derivatives, which no user wrote, compare expressions."""
        shape = self.node.tensor_type.shape
        return shape if is_rewriting() else open_shape(shape)

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.__sf_shape__)

    @property
    def __sf_shape__(self) -> Shape:
        """The sizes of the dims as the framework compares them: ints, or `Dim` expressions."""
        return self.node.tensor_type.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.node.tensor_type.dtype

    @property
    def requires_grad(self) -> bool:
        """False of what has no gradient for sure: integers, and what was detached or made where
        operations are not recorded. Raises `SymbolicError` for all else."""
        if not self.dtype.is_floating or self.node.op is stop_gradient:
            return False
        self._refuse(
            "requires_grad",
            "of any such value a gradient may be asked for, by sf.grad: write what holds either "
            "way, or ask it of a parameter",
        )

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Symbol:
        """A constant of the graph with a copy of ``data``, by default in the dtype of this."""
        out = Symbol(constant_node(data, dtype_of(dtype or self.dtype)))
        return out.requires_grad_() if as_bool("requires_grad", requires_grad) else out

    def _assign(self, value: Any) -> Symbol:
        if self.weak:  # a number, of which every name has its own
            return value if isinstance(value, Symbol) else Symbol(to_node(value))
        self._own("an in-place operation", "carry or return it, or change a clone")
        new = Symbol(to_node(value, self.dtype))
        if new.dtype.category > self.dtype.category:
            raise DTypeError(
                f"an in-place operation cannot put {new.dtype.name} into a symbol of "
                f"{self.dtype.name}; compute out of place (y = y + x), at {format_locs(here())}"
            )
        if new.ndim != self.ndim or any(
            isinstance(a, int) and isinstance(b, int) and a != b
            for a, b in zip(new.shape, self.shape, strict=True)
        ):
            raise ShapeError(
                f"an in-place operation cannot change the shape {list(self.shape)} to "
                f"{list(new.shape)}, at {format_locs(here())}"
            )
        new = new if new.dtype is self.dtype else cast(new, dtype=self.dtype)
        for dim, size in enumerate(self.shape):
            if isinstance(size, int):  # also where that of the value is not known
                new = of_size(new, dim, size)
        new = expand(new, self.shape)  # sizes that are not known are assumed to agree
        view = self._alias
        if type(view) is not Alias:  # it has a history of its own, which goes on
            if not thread.state.recording and new.dtype.is_floating:
                with for_itself():
                    new = keep_history(self, new)
            if isinstance(view, Perhaps):
                view.lose()
                view = self._alias = None
            self._node = new.node
            if view is not None:
                view.put(new)
                view.seen = view.root.node
            return self
        view.put(new)
        view.seen = getattr(view.root, "node", None)
        self._node = (new if thread.state.recording else view.read()).node
        return self

    @property
    def _is_view(self) -> bool:
        """Whether it has a part of the elements of another symbol, in an order of its own, or may
        have."""
        return type(self._alias) in (Alias, Perhaps)

    @property
    def _is_row_major(self) -> bool:
        """Whether the elements lie in row-major order for sure, eagerly too."""
        view, node = self._alias, self.node
        if isinstance(view, Perhaps):
            return view.fn is contiguous
        made = not node.args and node.op is not param
        return view is None and (made or not node.tensor_type.shape)

    def _view_as_shape(self, shape: Shape) -> Symbol:
        """The symbol in another shape, on the same memory."""
        out: Symbol = reshape_op(self, shape=shape)
        if type(out._alias) is Perhaps:
            recorded = thread.state.recording
            out._alias = replace(view_of(reshape_op, self, {"shape": shape}), recorded=recorded)
        return out

    def _perhaps_itself(self) -> Symbol:
        """The symbol itself, or a copy: what `contiguous` gives."""
        return Symbol(self.node, Perhaps(self, self.node, contiguous, {}))

    def _own(self, what: str, instead: str) -> None:
        """Raise `SymbolicError` unless this was made by the function that is being traced."""
        if self._within != tracing_state.state.within[-1]:
            raise SymbolicError(
                f"{what} on a symbol ({self.node.type}, made at {format_locs(self.node.locs)}) "
                "that was made outside of the function that is traced here: a loop or branch gives "
                f"new values; {instead}, at {format_locs(here())}"
            )

    def _take_shape(self, fn: Any, args: Any, kwargs: Any) -> Symbol:
        self.node = fn(self, *args, **kwargs).node
        return self

    def _bits_as(self, dtype: DType) -> Any:
        return bitcast_op(self, dtype=dtype)

    def clone(self) -> Symbol:
        """The value in a node of its own: in-place forms of one leave the other, and its gradient
        and its hooks are those of the clone alone. No gradient flows through one that is made where
        operations are not recorded."""
        if not self.dtype.is_floating or is_rewriting():
            return Symbol(self.node)
        recorded = thread.state.recording
        with for_itself():
            return Symbol((keep_history(self, self) if recorded else stop_gradient(self)).node)

    def _view_of_all(self) -> Symbol:
        """A view that changes nothing: the same elements in a node of its own."""
        if not self.dtype.is_floating or self.weak or is_rewriting():
            return self
        out, view = self.clone(), view_of(reshape_op, self, {"shape": self.__sf_shape__})
        out._alias = replace(view, recorded=thread.state.recording)
        return out

    def detach(self) -> Any:
        """A symbol of the value of this one, through which no gradient flows. A change in place of
        either shows in the other, as in memory."""
        out = Symbol(stop_gradient(self).node)
        out._alias = Detached(self, self.node, Symbol(out.node))
        return out

    def _begin_history(self, node: Node) -> None:
        """Let the handle name ``node``, which has the same value and leads back to nothing."""
        self._node = node
        if isinstance(self._alias, Detached):
            self._alias.own = Symbol(node)

    def detach_(self) -> Symbol:
        """Let no gradient flow through this value from now on. Raises `AutogradError` for a view,
        whose history is that of its base."""
        if self._is_view:
            raise AutogradError(f"detach_() of a view; use detach(), at {format_locs(here())}")
        self._node = stop_gradient(self).node
        return self

    def register_hook(self, hook: Callable[[Symbol], Any]) -> Handle:
        """Let the gradient of this value go through ``hook``, until the handle is removed: a
        function of the gradient, a symbol, that gives another or None. It is called as a derivative
        is written. Raises `SymbolicError` for a symbol of outside of the function that is traced,
        and `AutogradError` for one that has no gradient: integers, and what was detached.
        """
        if not self.dtype.is_floating or self.node.op is stop_gradient:
            raise AutogradError(
                "register_hook of a tensor that does not require a gradient: nothing would ever "
                f"come; register it before it is detached or cast, at {format_locs(here())}"
            )
        self._own("a hook", "register it outside, or on what is made here")
        return register_hook(self.node, hook)

    def __repr__(self) -> str:
        made = format_locs(self.node.locs)
        return f"<symbol {self.node.op.name}: {self.node.type}, made at {made}>"


def symbolic(*values: Any) -> bool:
    """Whether any of ``values`` is a symbol or an unknown size."""
    return not SYMBOLIC.isdisjoint(map(type, values))


SYMBOLIC = frozenset((Symbol, Dim, OpenSize))
"""What stands for something that only a run of the program tells."""
