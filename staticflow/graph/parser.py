"""Reads the text of graphs; the grammar is in `staticflow.graph.printer`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from staticflow.graph.dims import Size, Sym
from staticflow.graph.dtypes import DTYPES, DType, bool_
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import Graph, new_param
from staticflow.graph.locs import Locs
from staticflow.graph.node import Literal, Node, constant, item, param
from staticflow.graph.op import Op
from staticflow.graph.printer import WORDS
from staticflow.graph.size_text import read_size
from staticflow.graph.tokens import Tokens
from staticflow.graph.types import Shape, TensorType, Type

__all__ = ["parse_graph"]

T = TypeVar("T")

_STRUCTURAL = {op.name: op for op in (param, constant, item)}
_DTYPES = {d.short: d for d in DTYPES}
_NO_ARRAYS: dict[str, np.ndarray[Any, Any]] = {}
_VALUES: dict[str, bool | None] = {"true": True, "false": False, "none": None}


def parse_graph(
    text: str,
    ops: Mapping[str, Op],
    arrays: Mapping[str, np.ndarray[Any, Any]] = _NO_ARRAYS,
    locs: Iterable[Locs] = (),
) -> Graph:
    """The graph that ``text`` describes, with ops looked up in ``ops`` by name, and what is stored
    beside the text in ``arrays``.

    Nothing is merged, dropped or inferred, and it is not verified, so that a wrong graph can be
    read. Symbols are the ones of their names. ``locs`` are the source lines of what is defined, in
    the order of the text (`store_graph`); nodes for which there are none left have none.

    Raises `ParseError`, with line, column and what was expected, for text outside the grammar, an
    op that is not in ``ops`` and a value that no line before defines.
    """
    tokens = Tokens(text)
    parser = _Parser(tokens, ops, arrays, iter(locs))
    parser.bounds()
    graph = parser.graph()
    tokens.expect_end()
    return graph


class _Parser:
    """The tokens, what is beside the text, and the dim symbols seen so far, which regions share
    with what is around them."""

    def __init__(
        self,
        tokens: Tokens,
        ops: Mapping[str, Op],
        arrays: Mapping[str, np.ndarray[Any, Any]],
        locs: Iterator[Locs],
    ) -> None:
        self.tokens, self.arrays, self.locs = tokens, arrays, locs
        self.ops = {**ops, **_STRUCTURAL}
        self.symbols = _Symbols(tokens.names_behind("binds", "=", "["))

    def bounds(self) -> None:
        """The bounds of symbols, before the graph."""
        while self.tokens.accept("size"):
            name = self.tokens.name("the name of a size")
            self.tokens.expect("below")
            self.symbols.bound(name, self.size())

    # -- graphs and nodes --------------------------------------------------------------------------

    def graph(self) -> Graph:
        """A graph or region, from the word ``graph`` to its closing brace."""
        self.tokens.expect("graph")
        values: dict[str, Node] = {}
        declared: list[TensorType] = []
        self.read_list("(", lambda: self.param(values, declared), ")")
        params = tuple(values.values())
        equalities: list[Equality] = []
        self.tokens.expect("{")
        while not self.tokens.accept("return"):
            if self.tokens.accept("assume"):
                equalities.append(self.equality())
            else:
                self.node(values)
        outputs: list[Node] = []
        while not self.tokens.accept("}"):
            if outputs:
                self.tokens.expect(",")
            outputs.append(self.value(values))
        return Graph(params, tuple(outputs), tuple(equalities), tuple(declared))

    def param(self, values: dict[str, Node], declared: list[TensorType]) -> None:
        """A param, which joins ``values``, and its declared type."""
        name, locs = self.new_name(values), next(self.locs, ())
        self.tokens.expect(":")
        type = self.tensor()
        called = _unquote(name) if name.startswith('"') else name
        values[name] = new_param(type, called, None, locs)
        declared.append(self.tensor() if self.tokens.accept("declared") else type)

    def node(self, values: dict[str, Node]) -> None:
        """The definition of a value, which joins ``values``."""
        name, locs = self.new_name(values), next(self.locs, ())
        self.tokens.expect(":")
        type = self.type()
        self.tokens.expect("=")
        op = self.ops.get(self.tokens.next)
        if op is None:
            raise self.tokens.error("the name of an op")
        self.tokens.take()
        args: tuple[Node, ...] = ()
        if op is constant and not self.tokens.sees("("):
            if not isinstance(type, TensorType):
                raise self.tokens.error("arguments, since a constant of this type has no elements")
            attrs: dict[str, Any] = {"value": self.literal(type), "type": type}
        else:
            args = self.read_list("(", lambda: self.value(values), ")")
            attrs = self.attrs()
        if op is param:
            attrs |= {"type": type, "source": None}
        values[name] = Node(op, args, attrs, type, locs)

    def equality(self) -> Equality:
        """An equality, after the word ``assume``."""
        locs = next(self.locs, ())
        a = self.size()
        self.tokens.expect("=")
        self.tokens.expect("=")
        b = self.size()
        self.tokens.expect("because")
        return Equality(a, b, self.string("the reason in quotes"), locs)

    def new_name(self, values: Mapping[str, Node]) -> str:
        """The name of a value that is defined here, as it is written."""
        self.tokens.expect("%")
        if self.tokens.next in values:
            raise self.tokens.error("a name that no value has yet")
        if not (self.tokens.sees_kind("name") or self.tokens.sees_kind("number")):
            self.expect_string("the name of a value")
        return self.tokens.take()

    def value(self, values: Mapping[str, Node]) -> Node:
        """A value that is used here."""
        self.tokens.expect("%")
        if self.tokens.next not in values:
            raise self.tokens.error("a value that a line before defines")
        return values[self.tokens.take()]

    # -- types and sizes ---------------------------------------------------------------------------

    def type(self) -> Type:
        """A node's type, of one tensor or several."""
        return self.read_list("(", self.tensor, ")") if self.tokens.sees("(") else self.tensor()

    def tensor(self) -> TensorType:
        """The type of one tensor."""
        dtype = self.dtype()
        shape = self.read_list("[", self.size, "]")
        strides = self.read_list("[", self.size, "]") if self.tokens.accept("strides") else None
        return TensorType(dtype, shape, strides)

    def dtype(self) -> DType:
        """A dtype, by its short name."""
        if self.tokens.next not in _DTYPES:
            raise self.tokens.error("a dtype, one of " + ", ".join(_DTYPES))
        return _DTYPES[self.tokens.take()]

    def size(self) -> Size:
        """A size; names that are new in it are symbols from then on."""
        return read_size(self.tokens, self.symbols)

    # -- attributes --------------------------------------------------------------------------------

    def attrs(self) -> dict[str, Any]:
        """The attributes of a node, if it has any."""
        found: dict[str, Any] = {}

        def attr() -> None:
            if self.tokens.next in found:
                raise self.tokens.error("an attribute that is not given yet")
            name = self.tokens.name("the name of an attribute")
            self.tokens.expect("=")
            found[name] = self.datum()

        if self.tokens.sees("{"):
            self.read_list("{", attr, "}")
        return found

    def datum(self) -> Any:
        """The value of an attribute; what no other kind starts with is a size."""
        tokens = self.tokens
        if tokens.next in _VALUES:
            return _VALUES[tokens.take()]
        if tokens.next in _DTYPES:
            return self.of_dtype()
        if tokens.sees("["):
            return self.read_list("[", self.datum, "]")
        if tokens.sees("graph"):
            return self.graph()
        if tokens.sees_kind("string"):
            return self.string("a string")
        head = tokens.after if tokens.sees("-") else tokens.next
        if isinstance(_number(head), float):
            return self.number()
        return self.size()

    def of_dtype(self) -> DType | TensorType | Literal:
        """A dtype, or the tensor type that it starts, or the literal that this starts."""
        if not self.tokens.sees(self.tokens.next, "["):
            return self.dtype()
        type = self.tensor()
        ends = self.tokens.sees(",") or self.tokens.sees("]") or self.tokens.sees("}")
        return type if ends else self.literal(type)

    def literal(self, type: TensorType) -> Literal:
        """The elements of a value of ``type``, whose shape must be numbers."""
        if self.tokens.accept("stored"):
            return self.stored_literal(type)
        elements: list[bool | int | float] = []
        self.elements(type.dtype, type.shape, elements)
        wide = np.array(elements, np.float64 if type.dtype.is_floating else type.dtype.numpy)
        with np.errstate(over="ignore"):
            return Literal(wide.astype(type.dtype.numpy).reshape(type.shape))

    def stored_literal(self, type: TensorType) -> Literal:
        """A literal whose elements are an array beside the text, after the word ``stored``."""
        what = f"the name of an array {type} that is stored beside the text"
        self.expect_string(what)
        array = self.arrays.get(_unquote(self.tokens.next))
        if array is None or array.dtype != type.dtype.numpy or array.shape != type.shape:
            raise self.tokens.error(what)
        self.tokens.take()
        return Literal(array)

    def elements(self, dtype: DType, shape: Shape, into: list[bool | int | float]) -> None:
        """The elements of an array of ``shape``, nested as deeply as it has dims."""
        if not shape:
            into.append(self.element(dtype))
            return
        if not isinstance(shape[0], int):
            raise self.tokens.error(f"no elements, since the size {shape[0]} is no number")
        self.tokens.expect("[")
        for position in range(shape[0]):
            if position:
                self.tokens.expect(",")
            self.elements(dtype, shape[1:], into)
        self.tokens.expect("]")

    def element(self, dtype: DType) -> bool | int | float:
        """An element that ``dtype`` can hold; a float is rounded to it."""
        if dtype is bool_ and self.tokens.next in ("true", "false"):
            return self.tokens.take() == "true"
        negative = self.tokens.accept("-")
        value = _number(self.tokens.next)
        if value is not None and dtype is not bool_:
            value = -value if negative else value
            if dtype.is_floating or (isinstance(value, int) and _holds(dtype, value)):
                self.tokens.take()
                return value
        raise self.tokens.error(f"an element of {dtype}")

    # -- scalars and lists -------------------------------------------------------------------------

    def number(self) -> int | float:
        """A number with its sign."""
        negative = self.tokens.accept("-")
        value = _number(self.tokens.next)
        if value is None:
            raise self.tokens.error("a number")
        self.tokens.take()
        return -value if negative else value

    def string(self, what: str) -> str:
        """A string; ``what`` says for the error what it is."""
        self.expect_string(what)
        return _unquote(self.tokens.take())

    def expect_string(self, what: str) -> None:
        """The next token must be a string, with the escapes that JSON has."""
        try:
            json.loads(self.tokens.next if self.tokens.sees_kind("string") else "")
        except ValueError:
            raise self.tokens.error(what) from None

    def read_list(self, opening: str, one: Callable[[], T], closing: str) -> tuple[T, ...]:
        """Things between brackets, with commas between them."""
        self.tokens.expect(opening)
        found: list[T] = []
        while not self.tokens.accept(closing):
            if found and not self.tokens.accept(","):
                raise self.tokens.error(f"',' or {closing!r}")
            found.append(one())
        return tuple(found)


class _Symbols(dict[str, Sym]):
    """Symbols by name. Any name is that of a symbol, which is made where it is asked for. The
    ``late`` ones are those that a node binds, which may be named before."""

    def __init__(self, late: Collection[str]) -> None:
        super().__init__()
        self.late = late

    def bound(self, name: str, upper: Size) -> None:
        """Say that the symbol of this name is below ``upper``."""
        self[name] = Sym(name, 0, upper, name in self.late)

    def __contains__(self, name: object) -> bool:
        return name not in WORDS

    def __missing__(self, name: str) -> Sym:
        self[name] = symbol = Sym(name, 0, None, name in self.late)
        return symbol


def _unquote(text: str) -> str:
    return str(json.loads(text))


def _number(text: str) -> int | float | None:
    """The number that a token is, if it is one."""
    if text.isdecimal():
        return int(text)
    return float(text) if text in ("inf", "nan") or text[:1].isdecimal() else None


def _holds(dtype: DType, value: int) -> bool:
    limits = np.iinfo(dtype.numpy)
    return int(limits.min) <= value <= int(limits.max)
