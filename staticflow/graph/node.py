"""Nodes: what a graph is made of, and the walk over them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from staticflow.graph.dtypes import dtype_of
from staticflow.graph.locs import Locs
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType, Type

__all__ = ["Literal", "Node", "constant", "item", "make_node", "maker_of", "param", "toposort"]

_serials = itertools.count()


class Node:
    """``(op, args, attrs, type)``: frozen, compared by identity.

    ``locs`` are the user's lines it stems from, ``serial`` orders nodes by when they were made.
    """

    __slots__ = ("__weakref__", "args", "attrs", "locs", "op", "serial", "type")

    op: Op
    args: tuple[Node, ...]
    attrs: Mapping[str, Any]
    type: Type
    locs: Locs
    serial: int

    def __init__(
        self, op: Op, args: tuple[Node, ...], attrs: Mapping[str, Any], type: Type, locs: Locs = ()
    ) -> None:
        put = object.__setattr__
        put(self, "op", op)
        put(self, "args", args)
        put(self, "attrs", attrs)
        put(self, "type", type)
        put(self, "locs", locs)
        put(self, "serial", next(_serials))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Node is immutable; {name} cannot be set")

    def __deepcopy__(self, memo: object) -> Node:
        return self  # it never changes

    @property
    def tensor_type(self) -> TensorType:
        """The type of a node that gives one tensor."""
        assert isinstance(self.type, TensorType)
        return self.type

    def __repr__(self) -> str:
        return f"<node {self.op.name} : {self.type}>"


def make_node(op: Op, args: tuple[Node, ...], attrs: Mapping[str, Any], locs: Locs = ()) -> Node:
    """A node whose type follows from the op's rule."""
    return Node(op, args, attrs, op.type_of(Facts(), [a.type for a in args], attrs), locs)


def toposort(outputs: Iterable[Node], known: Iterable[Node] = ()) -> list[Node]:
    """Every node that ``outputs`` need, arguments before their users, without the ``known`` ones
    and what only they need; iterative."""
    order: list[Node] = []
    seen: set[Node] = set(known)
    open_: list[Node] = []  # whose arguments come first
    stack: list[Node | None] = [*reversed(list(outputs))]
    while stack:
        node = stack.pop()
        if node is None:
            order.append(open_.pop())
        elif node not in seen:
            seen.add(node)
            first = [a for a in node.args if a not in seen]
            if first:
                open_.append(node)
                stack.append(None)
                stack += first[::-1]
            else:
                order.append(node)
    return order


class Literal:
    """The value of a `constant`: a read-only array, compared by dtype, shape and bytes."""

    __slots__ = ("_key", "array")

    def __init__(self, array: Any) -> None:
        self.array = array.copy()
        self.array.flags.writeable = False
        self._key = (self.array.dtype, self.array.shape, self.array.tobytes())

    @property
    def type(self) -> TensorType:
        """Its dtype and shape."""
        return TensorType(dtype_of(self.array.dtype), self.array.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.array.tolist())


def _no_reference(*_: Any, **attrs: Any) -> Any:
    raise AssertionError("a param has no value of its own")


param = Op(
    name="param",
    doc="An input of a graph or region. ``source`` is the tensor it stands for, if it stands for "
    "one, which also tells params apart that have the same name.",
    infer=lambda facts, *, type, name, source: type,
    reference=_no_reference,
    vjp=None,
)

constant = Op(
    name="constant",
    doc="A value known when the graph is built.",
    infer=lambda facts, *, value, type: type,
    reference=lambda xp, *, value, type: xp.asarray(value.array),
    vjp=None,
)

item = Op(
    name="item",
    doc="One tensor of a node that gives several.",
    infer=lambda facts, t, *, index: t[index],
    reference=lambda xp, t, *, index: t[index],
    vjp=None,
)


def maker_of(node: Node) -> Node:
    """The node that computes a value: behind `item`, the one that gives several."""
    return node.args[0] if node.op is item else node
