"""State that a layer changes on its way: running statistics, the counter of a generator.

`read` and `effect` act at once on tensors. In a graph they are marks, in the order in which they
were made, and `settle` takes them out before the graph is closed: a program stores the last value
of each variable as an update, a loop hands it from trip to trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.node import Node, toposort
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.declare import per_arg
from staticflow.ops.symbol import STATIC, symbolic, tracing_state

__all__ = ["effect", "read", "settle", "states"]


def _effect_infer(facts: Facts, y: TensorType, variable: TensorType, new: TensorType) -> TensorType:
    if new.dtype is not variable.dtype or new.ndim != variable.ndim:
        raise ShapeError(f"the new value of a variable {variable} is {new}; they must agree")
    for a, b in zip(new.shape, variable.shape, strict=True):
        facts.equal(a, b, f"the new value of a variable {variable} is {new}")
    return y


def _unsettled(*_: Any) -> Any:
    raise AssertionError("a graph is closed without its marks of state")


_read_op = Op(
    name="read",
    doc="The value that a variable has at this point of the program.",
    infer=lambda facts, variable: variable,
    reference=_unsettled,
    vjp=per_arg(lambda ct, out, variable: ct),
)

_effect_op = Op(
    name="effect",
    doc="``y``; from here on ``variable`` has the value ``new``.",
    infer=_effect_infer,
    reference=_unsettled,
    vjp=per_arg(lambda ct, out, y, variable, new: ct, None, None),
)


def read(variable: Any, *beside: Any) -> Any:
    """The value that the tensor ``variable`` has at this point of the program, without history.

    In a graph, that is inside a trace or where one of the values ``beside`` is a symbol, it is what
    the last `effect` made before has given it, or else its value when the program is called.
    """
    in_graph = tracing_state.active or symbolic(variable, *beside)
    return STATIC.apply(_read_op, (variable,), {}) if in_graph else variable.detach()


def effect(y: Any, variable: Any, new: Any) -> Any:
    """``y``, and the tensor ``variable`` has the value ``new`` from here on.

    ``new`` has the shape and dtype of ``variable``. In a graph the change happens in every program
    that computes this ``y``, also one whose passes find that nobody needs it.

    >>> import staticflow as sf
    >>> calls, x = sf.zeros(()), sf.placeholder((2,), name="x")
    >>> y = effect(x * 2, calls, read(calls, x) + 1)
    >>> f = sf.compile([x], effect(y * 2, calls, read(calls, x) + 1))
    >>> f(sf.ones(2)), calls
    (tensor([4., 4.]), tensor(2.))
    """
    if tracing_state.active or symbolic(y, new):
        return STATIC.apply(_effect_op, (y, variable, new), {})
    variable.copy_(new.detach())
    return y


def states(outputs: Iterable[Node]) -> dict[Node, bool]:
    """The variables whose state ``outputs`` read or change, and whether they change it, in the
    order of the program."""
    found: dict[Node, bool] = {}
    for node in sorted(toposort(outputs), key=lambda n: n.serial):
        if node.op is _read_op:
            found.setdefault(node.args[0], False)
        elif node.op is _effect_op:
            found[node.args[1]] = True
    return found


def settle(
    outputs: Sequence[Node], starts: Mapping[Node, Node] | None = None
) -> tuple[list[Node], dict[Node, Node]]:
    """``outputs`` without the marks, and the last value of each variable that is changed.

    The values that variables begin with are the variables themselves, or what ``starts`` says.
    Nodes are made after their arguments, so the order in which they were made is one in which they
    can be computed, and it is the order of the program.
    """
    now: dict[Node, Node] = dict(starts or {})
    changed: dict[Node, None] = {}
    settled: dict[Node, Node] = {}
    for node in sorted(toposort(outputs), key=lambda n: n.serial):
        args = tuple(settled[a] for a in node.args)
        if node.op is _read_op:
            (variable,) = node.args
            settled[node] = now.get(variable, variable)
        elif node.op is _effect_op:
            variable = node.args[1]
            settled[node], now[variable] = args[0], args[2]
            changed[variable] = None
        elif all(a is b for a, b in zip(args, node.args, strict=True)):
            settled[node] = node
        else:
            settled[node] = Node(node.op, args, node.attrs, node.type, node.locs)
    return [settled[o] for o in outputs], {v: now[v] for v in changed}
