"""State that a layer changes on its way: running statistics, the counter of a generator.

`read` and `effect` act at once on tensors. In a graph they are marks, in the order in which they
were made, and `settle` takes them out before the graph is closed: a program stores the last value
of each variable as an update, a loop hands it from iteration to iteration.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.node import Node, toposort
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.declaring.declare import per_arg
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import STATIC, Symbol, symbolic, tracing_state

__all__ = [
    "count", "effect", "effect_mark", "is_mark", "leave", "marks_since", "read", "read_mark",
    "settle", "states", "without_effects",
]  # fmt: skip


_order = itertools.count()


def _effect_infer(
    facts: Facts, y: TensorType, variable: TensorType, new: TensorType, *, order: int
) -> TensorType:
    if new.dtype is not variable.dtype or new.ndim != variable.ndim:
        raise ShapeError(f"the new value of a variable {variable} is {new}; they must agree")
    for a, b in zip(new.shape, variable.shape, strict=True):
        facts.equal(a, b, f"the sizes of a variable {variable} and its new value {new}")
    return y


def _refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("a graph is closed without its marks of state")


_read_op = Op(
    name="read",
    doc="The value that a variable has at this point of the program.",
    infer=lambda facts, variable, *, order: variable,
    reference=_refuse,
    vjp=per_arg(lambda ct, out, variable, *, order: ct),
)

_effect_op = Op(
    name="effect",
    doc="``y``; from here on ``variable`` has the value ``new``.",
    infer=_effect_infer,
    reference=_refuse,
    vjp=per_arg(lambda ct, out, y, variable, new, *, order: ct, None, None),
    flows=lambda order: ((0,),),
)


def _mark(op: Op, *args: Any) -> Any:
    """A mark. ``order`` is its position in the program, whatever later becomes of the nodes
    around."""
    return STATIC.make(op, args, {"order": next(_order)})


def read(variable: Any, *beside: Any) -> Any:
    """The value that the tensor ``variable`` has at this point of the program, without history.

    In a graph, that is inside a trace or where one of the values ``beside`` is a symbol, it is what
    the last `effect` made before has given it, or else its value when the program is called.
    """
    if isinstance(variable, Symbol):  # an argument: the handle names what it is now
        return variable.detach()
    in_graph = tracing_state.active or symbolic(*beside)
    return read_mark(variable) if in_graph else variable.detach()


def effect(y: Any, variable: Any, new: Any) -> Any:
    """``y``, and the tensor ``variable`` has the value ``new`` from here on.

    ``new`` has the shape and dtype of ``variable``. In a graph the change happens in every program
    that computes this ``y``, also one whose passes find that nobody needs it, and inside a trace
    (a jitted function, a body of a loop, a forward on symbols) wherever that is computed, whoever
    needs ``y``; a symbol, such as an argument of a jitted function, names the new value from here
    on.

    >>> import staticflow as sf
    >>> calls, x = sf.zeros(()), sf.placeholder((2,), name="x")
    >>> y = effect(x * 2, calls, read(calls, x) + 1)
    >>> f = sf.compile([x], effect(y * 2, calls, read(calls, x) + 1))
    >>> f(sf.ones(2)), calls
    (tensor([4., 4.]), tensor(2.))
    """
    if isinstance(variable, Symbol):
        variable._assign(new.detach())
        return y
    if tracing_state.active or symbolic(y, new):
        return _effect_in_graph(y, variable, new)
    variable.copy_(new.detach())
    return y


def _effect_in_graph(y: Any, variable: Any, new: Any) -> Any:
    """`effect` in a graph. What a traced function does happens whoever needs ``y``, as eagerly."""
    if not thread.state.regions:
        return effect_mark(y, variable, new)
    mark = effect_mark(new, variable, new)
    leave(mark)
    return mark if y is new else effect_mark(y, variable, mark)


def read_mark(variable: Any) -> Any:
    """`read` in a graph, of what stands there for the tensor ``variable``."""
    return _mark(_read_op, variable)


def effect_mark(y: Any, variable: Any, new: Any) -> Any:
    """`effect` in a graph, on what stands there for the tensor ``variable``."""
    return _mark(_effect_op, y, variable, new)


def count(y: Any, variable: Any) -> Any:
    """``y``, behind an effect by which the integer ``variable`` is one more from here on."""
    if tracing_state.active or symbolic(y):
        return effect(y, variable, read(variable, y) + 1)
    variable.add_(1)
    return y


def leave(mark: Symbol) -> None:
    """Let an effect happen that no result of the function that is being traced depends on."""
    thread.state.left.append(mark.node)


def is_mark(node: Node) -> bool:
    """Whether a node marks where a variable is read or changed."""
    return node.op is _effect_op or node.op is _read_op


def without_effects(node: Node) -> Node:
    """The value that a node is, beside its effects."""
    while node.op is _effect_op:
        node = node.args[0]
    return node


def marks_since(began: int) -> list[Node]:
    """The marks so left that were made since the serial number ``began``. They are the caller's."""
    left = thread.state.left
    found = [n for n in left if n.serial >= began]
    left[:] = [n for n in left if n.serial < began]
    return found


def _marks(outputs: Iterable[Node]) -> list[Node]:
    """The marks that ``outputs`` depend on, in the order of the program."""
    found = [n for n in toposort(outputs) if n.op in (_read_op, _effect_op)]
    return sorted(found, key=lambda n: n.attrs["order"])


def states(outputs: Iterable[Node]) -> dict[Node, bool]:
    """The variables whose state ``outputs`` read or change, and whether they change it, in the
    order of the program."""
    found: dict[Node, bool] = {}
    for mark in _marks(outputs):
        if mark.op is _read_op:
            found.setdefault(mark.args[0], False)
        else:
            found[mark.args[1]] = True
    return found


def settle(
    outputs: Sequence[Node], starts: Mapping[Node, Node] | None = None
) -> tuple[list[Node], dict[Node, Node]]:
    """``outputs`` without the marks, and the last value of each variable that is changed.

    The values that variables begin with are the variables themselves, or what ``starts`` says. A
    mark depends only on marks before it, so each is settled when its turn comes.
    """
    now: dict[Node, Node] = dict(starts or {})
    changed: dict[Node, None] = {}
    settled: dict[Node, Node] = {}

    def settle_args(nodes: Iterable[Node]) -> list[Node]:
        nodes = list(nodes)
        for node in toposort(nodes, known=settled):
            args = tuple(settled[a] for a in node.args)
            same = all(a is b for a, b in zip(args, node.args, strict=True))
            settled[node] = node if same else Node(node.op, args, node.attrs, node.type, node.locs)
        return [settled[n] for n in nodes]

    for mark in _marks(outputs):
        args = settle_args(mark.args)
        if mark.op is _read_op:
            (variable,) = mark.args
            settled[mark] = now.get(variable, variable)
        else:
            variable = mark.args[1]
            settled[mark], now[variable] = args[0], args[2]
            changed[variable] = None
    return settle_args(outputs), {v: now[v] for v in changed}
