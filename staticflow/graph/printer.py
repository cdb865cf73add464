"""The text of graphs. `staticflow.graph.parser` reads it back.

The grammar::

    text    := ("size" NAME "below" size)* graph             bounds of symbols that have one
    graph   := "graph" "(" [param ("," param)*] ")" "{" line* "return" [value ("," value)*] "}"
    param   := value ":" tensor ["declared" tensor]          declared: before sizes were unified
    line    := value ":" type "=" "constant" elements
             | value ":" type "=" OP "(" [value ("," value)*] ")" ["{" attr ("," attr)* "}"]
             | "assume" size "==" size "because" STRING      an equality of the graph
    attr    := NAME "=" datum
    datum   := size | FLOAT | STRING | "true" | "false" | "none" | DTYPE | tensor
             | tensor elements                               a literal
             | "[" [datum ("," datum)*] "]"                  a tuple
             | graph                                         a region
    type    := tensor | "(" [tensor ("," tensor)*] ")"
    tensor  := DTYPE "[" [size ("," size)*] "]"
    elements := NUMBER | "true" | "false" | "[" [elements ("," elements)*] "]"
             | "stored" STRING                       those of an array that is kept beside the text
    value   := "%" (NAME | STRING | INT)

Params keep their names, other nodes are numbered; a region's values are its own, since it captures
none. Floats are written with the fewest digits that give them back, so text is exact but for the
payload of a NaN. ``#`` starts a comment. What a param stands for (``source``) and source lines are
not part of the text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from types import NoneType
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import substitute_dim, symbols_of
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import DTYPES, DType
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import Graph
from staticflow.graph.locs import Locs
from staticflow.graph.node import Literal, Node, constant, param
from staticflow.graph.types import TensorType, Type

__all__ = [
    "ATTR_CLASSES",
    "WORDS",
    "Stored",
    "excerpt",
    "print_graph",
    "store_graph",
    "value_names",
]

WORDS = frozenset(d.short for d in DTYPES) | {
    "true", "false", "none", "inf", "nan", "graph", "stored",
}  # fmt: skip
"""What the text gives a meaning of its own, so that no dim symbol is called that."""

_MAX_LINE = 160

_FEW = 16
"""Elements that are written into the text of a graph that is stored."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A graph as data: its ``text``, the ``arrays`` that this names, the source lines of all that
    it defines, params, nodes and equalities, in their order, and the ``symbols`` by the names that
    they have in it."""

    text: str
    arrays: Mapping[str, np.ndarray[Any, Any]]
    locs: tuple[Locs, ...]
    symbols: Mapping[str, Sym] = field(compare=False)


def print_graph(graph: Graph, locs: bool = False) -> str:
    """The graph as text, one node a line, ending in a line end.

    With ``locs``, each node's source lines follow it in a comment, as ``# file.py:12``.
    """
    printer = _Printer(locs)
    printer.graph(graph, "")
    return printer.text()


def store_graph(graph: Graph, few: int = _FEW) -> Stored:
    """The graph as data, of which `parse_graph` makes it again, with its lines and the payloads of
    NaNs in what has more than a ``few`` elements."""
    printer = _Printer(stores_above=few)
    printer.graph(graph, "")
    return Stored(printer.text(), printer.arrays, tuple(printer.places), printer.symbols())


def excerpt(graph: Graph, at: Node | Graph, around: int = 3) -> str:
    """The lines of ``graph``'s text around that of ``at``, which is marked with ``>>``: a node, or
    a region for its first line."""
    printer = _Printer(locs=True)
    printer.graph(graph, "")
    marked = printer.line_of[at]
    lines = []
    for number in range(max(marked - around, 0), min(marked + around + 1, len(printer.lines))):
        line = printer.lines[number]
        cut = line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 3] + "..."
        lines.append((">> " if number == marked else "   ") + cut)
    return "\n".join(lines)


class _Printer:
    """Lines so far, the line on which each node and graph starts, the source lines of all that is
    defined, names for dim symbols, and arrays that are stored."""

    def __init__(self, locs: bool = False, stores_above: int | None = None) -> None:
        self.locs, self.stores_above = locs, stores_above
        self.lines = [""]
        self.places: list[Locs] = []
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._stored: dict[Literal, str] = {}
        self.line_of: dict[Node | Graph, int] = {}
        self._symbols: dict[Sym, Size] = {}
        self._taken = set(WORDS)
        self._texts: dict[Dim | TensorType, str] = {}

    def write(self, text: str) -> None:
        """Go on with the last line."""
        self.lines[-1] += text

    def text(self) -> str:
        """All of it."""
        return "\n".join([*self.bounds(), *self.lines, ""])

    def bounds(self) -> list[str]:
        """The lines that give the bounds of symbols."""
        named = (d.terms[0][0][0] for d in self._symbols.values() if isinstance(d, Dim))
        return [
            f"size {s.name} below {s.upper}"
            for s in named
            if isinstance(s, Sym) and s.upper is not None
        ]

    def symbols(self) -> dict[str, Sym]:
        """The symbols by their names."""
        return {str(named): symbol for symbol, named in self._symbols.items()}

    # -- graphs and nodes --------------------------------------------------------------------------

    def graph(self, graph: Graph, indent: str) -> None:
        """Write a graph, its first line going on with the last one."""
        names = value_names(graph)
        declared = dict(zip(graph.params, graph.declared, strict=False))
        self.line_of.setdefault(graph, len(self.lines) - 1)
        for p in graph.params:
            self.line_of.setdefault(p, len(self.lines) - 1)
            self.places.append(p.locs)
        params = (self._param(names[p], p.type, declared.get(p)) for p in graph.params)
        self.write(f"graph ({', '.join(params)}) {{")
        for node in graph.nodes[len(graph.params) :]:
            self.lines.append(indent + "  ")
            self.line_of.setdefault(node, len(self.lines) - 1)
            self.places.append(node.locs)
            self._node(node, names, indent + "  ")
        for equality in graph.equalities:
            self.lines.append(indent + "  ")
            self._equality(equality)
        outputs = ", ".join(names[o] for o in graph.outputs)
        self.lines += [f"{indent}  return {outputs}".rstrip(), indent + "}"]

    def _param(self, name: str, type: Type, declared: TensorType | None) -> str:
        text = f"{name}: {self.type(type)}"
        if declared is not None and declared != type:
            text += f" declared {self.tensor(declared)}"
        return text

    def _node(self, node: Node, names: dict[Node, str], indent: str) -> None:
        self.write(f"{names[node]}: {self.type(node.type)} = {node.op.name}")
        if _is_bare_constant(node):
            self.write(" " + self.elements(node.attrs["value"]))
        else:
            self.write(f"({', '.join(names[a] for a in node.args)})")
            self._attrs(node, indent)
        self._comment(node.locs)

    def _attrs(self, node: Node, indent: str) -> None:
        # A param among the nodes belongs to another graph; its type is on the line already.
        unwritten = ("type", "source") if node.op is param else ()
        before = " {"
        for name, value in node.attrs.items():
            if name not in unwritten:
                self.write(f"{before}{name}=")
                self._datum(value, indent)
                before = ", "
        if before != " {":
            self.write("}")

    def _equality(self, equality: Equality) -> None:
        self.places.append(equality.locs)
        a, b = self.size(equality.a), self.size(equality.b)
        self.write(f"assume {a} == {b} because {_quote(equality.reason)}")
        self._comment(equality.locs)

    def _comment(self, locs: Locs) -> None:
        if self.locs and locs:
            lines = (f"{os.path.basename(loc.file)}:{loc.line}" for loc in locs)
            self.write("  # " + ", ".join(dict.fromkeys(lines)))

    # -- types and sizes ---------------------------------------------------------------------------

    def type(self, type: Type) -> str:
        """The text of a node's type."""
        if isinstance(type, tuple):
            return f"({', '.join(map(self.tensor, type))})"
        return self.tensor(type)

    def tensor(self, type: TensorType) -> str:
        """The text of one tensor's type."""
        text = self._texts.get(type)
        if text is None:
            text = f"{type.dtype}[{', '.join(map(self.size, type.shape))}]"
            if type.strides is not None:
                text += f" strides [{', '.join(map(self.size, type.strides))}]"
            self._texts[type] = text
        return text

    def size(self, size: Size) -> str:
        """The text of a size, in which different symbols have different names."""
        if isinstance(size, int):
            return str(size)
        text = self._texts.get(size)
        if text is None:
            self._texts[size] = text = str(self._with_unique_names(size))
        return text

    def _with_unique_names(self, size: Size) -> Size:
        for symbol in sorted(symbols_of(size), key=Sym.sort_key):
            if symbol not in self._symbols:
                upper = None if symbol.upper is None else self._with_unique_names(symbol.upper)
                name = re.sub(r"\W|^(?=\d|$)", "_", symbol.name)
                self._symbols[symbol] = Dim.of(Sym(_unique(name, self._taken), 0, upper))
        return substitute_dim(size, self._symbols)

    # -- attributes --------------------------------------------------------------------------------

    def elements(self, literal: Literal) -> str:
        """The elements of a literal, or under which name they are stored."""
        if self.stores_above is None or literal.array.size <= self.stores_above:
            return _elements(literal)
        name = self._stored.setdefault(literal, str(len(self._stored)))
        self.arrays[name] = literal.array
        return f"stored {_quote(name)}"

    def _datum(self, value: Any, indent: str) -> None:
        write = _DATA.get(type(value))
        if write is None:
            self.write(f"<{type(value).__name__}>")  # no text; the verifier refuses it
        else:
            write(self, value, indent)

    def _tuple(self, values: Iterable[Any], indent: str) -> None:
        self.write("[")
        for position, value in enumerate(values):
            if position:
                self.write(", ")
            self._datum(value, indent)
        self.write("]")


_DATA: dict[type, Callable[[_Printer, Any, str], None]] = {
    bool: lambda p, v, _: p.write(str(v).lower()),
    int: lambda p, v, _: p.write(str(v)),
    float: lambda p, v, _: p.write(repr(v)),
    str: lambda p, v, _: p.write(_quote(v)),
    NoneType: lambda p, v, _: p.write("none"),
    Dim: lambda p, v, _: p.write(p.size(v)),
    DType: lambda p, v, _: p.write(str(v)),
    TensorType: lambda p, v, _: p.write(p.tensor(v)),
    Literal: lambda p, v, _: p.write(f"{p.tensor(v.type)} {p.elements(v)}"),
    tuple: lambda p, v, indent: p._tuple(v, indent),
    Graph: lambda p, v, indent: p.graph(v, indent),
}

ATTR_CLASSES = frozenset(_DATA)
"""The classes that an attribute's value may be of, which are those that have a text."""


def _unique(name: str, taken: set[str]) -> str:
    """``name``, or ``name_2`` and so on where it is taken; the result is taken from then on."""
    free, copy = name, 1
    while free in taken:
        copy += 1
        free = f"{name}_{copy}"
    taken.add(free)
    return free


def value_names(graph: Graph) -> dict[Node, str]:
    """What the text calls each node: ``%x`` for a param, ``%3`` for others."""
    taken: set[str] = set()
    names: dict[Node, str] = {}
    for p in graph.params:
        name = _unique(p.attrs.get("name", p.op.name), taken)
        names[p] = f"%{name}" if re.fullmatch(r"[^\W\d]\w*", name) else f"%{_quote(name)}"
    for number, node in enumerate(graph.nodes[len(graph.params) :]):
        names[node] = f"%{number}"
    return names


def _is_bare_constant(node: Node) -> bool:
    """Whether the type on its line says all but the elements."""
    value = node.attrs.get("value")
    plain = node.op is constant and isinstance(value, Literal) and value.type == node.type
    return plain and node.attrs.get("type") == node.type and len(node.attrs) == 2


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _elements(literal: Literal) -> str:
    array = literal.array
    text = _ELEMENTS[literal.type.dtype.kind]

    def nest(part: Any, depth: int) -> str:
        if depth == 0:
            return text(part)
        return f"[{', '.join(nest(p, depth - 1) for p in part)}]"

    return nest(array[()], array.ndim)


def _float_text(value: Any) -> str:
    """The fewest digits: those of float32 for what is no wider, unless they would be read, by way
    of float64, as its neighbour."""
    exact = float(value)
    if value.dtype.itemsize == 8:
        return repr(exact)
    short = str(np.float32(value))
    return short if np.float32(float(short)) == exact or exact != exact else repr(exact)


_ELEMENTS: dict[str, Callable[[Any], str]] = {
    "b": lambda v: str(bool(v)).lower(),
    "i": str,
    "u": str,
    "f": _float_text,
}
