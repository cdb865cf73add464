"""Small graphs drawn from the pattern of a rewrite rule, so that a rule has them as soon as it stands
in a table.

A variable becomes a param or a special number, an op of the pattern that op, and an attribute that
the pattern leaves open is drawn by its name. What no op takes is drawn again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.errors import StaticflowError
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import DTYPES, DType
from staticflow.graph.graph import Graph, close, new_param
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.node import Literal, Node, constant, make_node
from staticflow.graph.op import Op
from staticflow.graph.types import TensorType
from staticflow.graph.verify import verify_graph
from staticflow.ops.basics.axes import permute_op
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.joining import cat_op, stack_op
from staticflow.ops.basics.slicing import embed_op, select_op, slice_op
from staticflow.ops.basics.view import reshape_op, squeeze_op, unsqueeze_op
from staticflow.ops.matrices.triangle import diag_embed_op
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.pattern import Either, Many, Pattern, Rule, Var, attr
from staticflow.ops.windows.border import border_op
from staticflow.passes.rewrite import Counts, rewrite

__all__ = ["OPEN", "draw_firing"]

OPEN = Sym("N")
"""The size that is open in some of the graphs."""

_REFUSED = (StaticflowError, OverflowError, ValueError, TypeError, ZeroDivisionError, IndexError)
NUMBERS = (0, 1, -1, 2, 3, 4, 8, -2, 0.0, -0.0, 0.5, 0.25, -0.5, 1.5, 2.0**-120, 2.0**100,
            float("inf"), float("-inf"), float("nan"), True, False)  # fmt: skip
"""Numbers of which a graph is made, awkward ones among them."""

TAME = (1, 2, 3, 4, 0.5, 1.5, 0.25)
"""Numbers of which a graph is made that is held to usual values."""


class _Draw:
    """One graph in the making: its dtype, the shape that most of it has, and what is bound."""

    def __init__(
        self, rng: random.Random, dtype: DType, root: Pattern, numbers: Sequence[Any]
    ) -> None:
        self.rng, self.dtype, self.root, self.numbers = rng, dtype, root, numbers
        sizes: list[Size] = [rng.choice((1, 2, 2, 3, 3, 4)) for _ in range(rng.randrange(4))]
        if sizes and rng.random() < 0.3:
            sizes[rng.randrange(len(sizes))] = _open_size()
        self.shape = tuple(sizes)
        self.params: list[Node] = []
        self.bound: dict[str, Any] = {}

    def node(self, pattern: Any, like: DType | None = None) -> Node:
        """A node of the form of ``pattern``."""
        if not isinstance(pattern, Pattern):
            return self.number(pattern, like or self.dtype)
        if isinstance(pattern, Var):
            if pattern.name not in self.bound:
                self.bound[pattern.name] = self.leaf(like)
            return self.bound[pattern.name]
        if isinstance(pattern, Either):
            return self.node(self.rng.choice(pattern.options), like)
        assert pattern.op is not None
        if pattern.op is constant:
            return self.constant(pattern)
        if len(pattern.args) == 1 and isinstance(pattern.args[0], Many):
            args = self.several()
        else:
            args = self.operands(pattern.args, like)
        return make_node(pattern.op, tuple(args), self.attrs(pattern, args), ())

    def number(self, value: Any, dtype: DType) -> Node:
        """A node that is a number everywhere, of no dims or of the common shape."""
        if self.rng.random() < 0.7:
            return constant_node(value, dtype)
        filled = value if dtype.is_floating else dtype.numpy.type(value).item()
        attrs = {"shape": self.shape, "value": filled, "dtype": dtype}
        return make_node(full, (), attrs, ())

    def constant(self, pattern: Pattern) -> Node:
        """A constant of one element, of no dims or of sizes of 1, to whose attributes the names of
        the pattern are bound."""
        shape = (1,) * self.rng.randrange(3)
        array = np.full(shape, self.rng.choice(NUMBERS), self.dtype.numpy)
        attrs = {"value": Literal(array), "type": TensorType(self.dtype, shape)}
        self.bound |= {wanted.name: attrs[name] for name, wanted in pattern.attrs.items()}
        return make_node(constant, (), attrs, ())

    def operands(self, patterns: Sequence[Any], like: DType | None) -> list[Node]:
        """The arguments of an op; numbers have the dtype of what stands beside them."""
        found = {i: self.node(p, like) for i, p in enumerate(patterns) if isinstance(p, Pattern)}
        beside = next((n.tensor_type.dtype for n in list(found.values())[::-1]), like)
        return [found[i] if i in found else self.node(p, beside) for i, p in enumerate(patterns)]

    def param(self, dtype: DType, shape: Sequence[Size]) -> Node:
        made = new_param(TensorType(dtype, tuple(shape)), f"x{len(self.params)}")
        self.params.append(made)
        return made

    def leaf(self, like: DType | None) -> Node:
        """A param of the common shape, or of one that is stretched to it, or a number."""
        rng, dtype = self.rng, like or self.dtype
        kind = rng.random()
        if kind < 0.35:
            return self.number(rng.choice(self.numbers), dtype)
        if kind < 0.45:
            dtype = rng.choice(DTYPES)
        shape = self.shape
        if kind < 0.6 and len(self.root.args) == 1 and not self.root.attrs:
            return make_node(self.root.op, (self.param(dtype, shape),), {}, ())
        if kind > 0.85:
            shape = tuple(1 if rng.random() < 0.5 else n for n in shape)[rng.randrange(2) :]
        return self.param(dtype, shape)

    def several(self) -> list[Node]:
        """What is joined or stacked: tensors, parts of one, or such that are joined already."""
        rng, source = self.rng, self.param(self.dtype, self.shape)
        way, found, at = rng.randrange(4), [], 0
        for _ in range(rng.choice((1, 2, 2, 3))):
            if way == 0 or not self.shape:
                found.append(self.param(self.dtype, self.shape))
            elif way == 1:  # parts, most of which lie one behind the other
                length = rng.choice((0, 1, 1, 2))
                size = (length, *self.shape[1:])
                start = (at if rng.random() < 0.9 else 0, *(0 for _ in self.shape[1:]))
                attrs = {"start": start, "size": size, "step": (1,) * len(size)}
                found.append(make_node(slice_op, (source,), attrs, ()))
                at += length
            elif way == 2:
                attrs = {"dim": 0, "index": at if rng.random() < 0.9 else 0}
                found.append(make_node(select_op, (source,), attrs, ()))
                at += 1
            else:
                op = rng.choice((cat_op, stack_op))
                pair = (source, self.param(self.dtype, self.shape))
                found.append(make_node(op, pair, {"dim": 0}, ()))
        return found

    def attrs(self, pattern: Pattern, args: Sequence[Node]) -> dict[str, Any]:
        """The attributes that a pattern says, and drawn ones where it leaves them open."""
        found = {}
        for name, wanted in pattern.attrs.items():
            if not isinstance(wanted, attr):
                found[name] = wanted
            elif wanted.name in self.bound:
                found[name] = self.bound[wanted.name]
            else:
                found[name] = self.bound[wanted.name] = self.attribute(pattern.op, name, args)
        if pattern.op is full and not found["dtype"].is_floating:
            found["value"] = found["dtype"].numpy.type(found["value"]).item()
        return found

    def attribute(self, op: Op | None, name: str, args: Sequence[Node]) -> Any:
        """A value of an attribute, by its name and by what the op takes."""
        draw = _OF_OP.get((op, name)) or _ATTRIBUTES.get(name)
        if draw is None:
            raise AssertionError(f"say in {__name__} how the attribute {name!r} is drawn")
        shape = args[0].tensor_type.shape if args else self.shape
        return draw(self.rng, shape)


def _open_size() -> Size:
    return Dim.of(OPEN)


def _some_dims(rng: random.Random, shape: Sequence[Size]) -> tuple[int, ...]:
    return tuple(d for d in range(len(shape)) if rng.random() < 0.6)


def _permutation(rng: random.Random, shape: Sequence[Size]) -> tuple[int, ...]:
    return tuple(rng.sample(range(len(shape)), len(shape)))


def _any_dim(rng: random.Random, shape: Sequence[Size]) -> int:
    return rng.randrange(len(shape)) if shape else 0


def _another_shape(rng: random.Random, shape: Sequence[Size]) -> tuple[Size, ...]:
    sizes = list(shape)
    if rng.random() < 0.4:
        return (prod_of(sizes),)
    if rng.random() < 0.5:
        sizes.insert(rng.randrange(len(sizes) + 1), 1)
    return tuple(sizes)


def prod_of(sizes: Sequence[Size]) -> Size:
    """The product of sizes."""
    total: Size = 1
    for n in sizes:
        total = total * n
    return total


def _stretched(rng: random.Random, shape: Sequence[Size]) -> tuple[Size, ...]:
    sizes = tuple(rng.choice((1, 2, 3, _open_size())) if n == 1 else n for n in shape)
    return (*(rng.choice((1, 2, 0, _open_size())) for _ in range(rng.randrange(2))), *sizes)


def _each(*values: int) -> Callable[[random.Random, Sequence[Size]], tuple[int, ...]]:
    return lambda rng, shape: tuple(rng.choice(values) for _ in shape)


_ATTRIBUTES: Mapping[str, Callable[[random.Random, Sequence[Size]], Any]] = {
    "spec": lambda rng, shape: tuple(f"axis{i}" for i in range(len(shape))),
    "dims": _some_dims,
    "dim": _any_dim, "dim0": _any_dim, "dim1": _any_dim,
    "index": lambda rng, shape: rng.randrange(3),
    "reverse": lambda rng, shape: rng.random() < 0.5,
    "shift": lambda rng, shape: rng.choice((0, 1, -1, 2, -3, 5)),
    "keepdim": lambda rng, shape: rng.random() < 0.5,
    "dtype": lambda rng, shape: rng.choice(DTYPES),
    "value": lambda rng, shape: rng.choice(NUMBERS),
    "min": lambda rng, shape: rng.choice((None, 0, -1, 1, 0.5, 2, -2.5, 3)),
    "max": lambda rng, shape: rng.choice((None, 0, -1, 1, 0.5, 2, -2.5, 3)),
    "start": _each(0, 0, 1), "step": _each(1, 1, 2),
    "size": lambda rng, shape: tuple(
        n if rng.random() < 0.5 else rng.choice((0, 1, 2, 3)) for n in shape
    ),
    "alpha": lambda rng, shape: rng.choice((1, 0.5)),
}  # fmt: skip
"""How an attribute is drawn, by its name."""

_OF_OP: Mapping[tuple[Op | None, str], Callable[[random.Random, Sequence[Size]], Any]] = {
    (permute_op, "dims"): _permutation,
    (reshape_op, "shape"): _another_shape,
    (expand_op, "shape"): _stretched,
    (full, "shape"): lambda rng, shape: tuple(shape),
    (embed_op, "shape"): lambda rng, shape: tuple(n + rng.randrange(4) for n in shape),
    (diag_embed_op, "shape"): lambda rng, shape: (*shape, *shape[-1:]),
    (diag_embed_op, "offset"): lambda rng, shape: 0,
    (diag_embed_op, "dim1"): lambda rng, shape: len(shape) - 1,
    (diag_embed_op, "dim2"): lambda rng, shape: len(shape),
    (border_op, "before"): lambda rng, shape: (rng.randrange(3),),
    (border_op, "after"): lambda rng, shape: (rng.randrange(3),),
    (border_op, "mode"): lambda rng, shape: rng.choice(("reflect", "replicate", "circular")),
    (unsqueeze_op, "dims"): lambda rng, shape: (rng.randrange(len(shape) + 1),),
    (squeeze_op, "dims"): lambda rng, shape: tuple(i for i, n in enumerate(shape) if n == 1),
}  # fmt: skip
"""How an attribute of one op is drawn, where its name means something else there."""


def ones_for(graph: Graph, size: int) -> list[np.ndarray[Any, Any]]:
    """Arguments of ones, with the open size ``size``."""
    shapes = ([evaluate_dim(n, {OPEN: size}) for n in p.tensor_type.shape] for p in graph.params)
    return [
        np.ones(s, p.tensor_type.dtype.numpy) for s, p in zip(shapes, graph.params, strict=True)
    ]


def draw_firing(r: Rule, rng: random.Random, tries: int, tame: bool = False) -> Graph | None:
    """A graph in which a rule fires, of numbers that are ``tame`` or not; None if ``tries`` of them
    are not found."""
    for _ in range(tries):
        draw = _Draw(rng, rng.choice(DTYPES), r.pattern, TAME if tame else NUMBERS)
        try:
            with np.errstate(all="ignore"):
                root = draw.node(r.pattern)
            if not isinstance(root.type, TensorType):
                continue
            graph = verify_graph(close(draw.params, [root]))  # of sizes that a param gives
            interpret_graph(graph, ones_for(graph, 2))
        except _REFUSED:
            continue
        counts = Counts()
        rewrite(graph, [r], counts)
        if counts[r.name]:
            return graph
    return None
