"""The nodes of an ONNX graph as they are written, one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import SymbolicError
from staticflow.graph.dim_queries import as_symbol, symbols_of
from staticflow.graph.dims import Call, Dim, Size, Sym, terms_of
from staticflow.graph.dtypes import DType, dtype_of, int64
from staticflow.graph.locs import Locs, format_locs
from staticflow.graph.types import Shape, TensorType
from staticflow.onnx.types import KIND, computed_in, element_type

__all__ = ["Scope", "Value", "Writer"]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the ONNX graph: its name, and the dtype of its elements."""

    name: str
    dtype: DType


@dataclass(slots=True)
class Scope:
    """An ONNX graph that is being written, the whole or that of a loop or branch: its ``nodes``,
    the types of their results, and the sizes that are known in it."""

    nodes: list[Any] = field(default_factory=list)
    infos: dict[str, Any] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    sources: dict[Sym, tuple[Value, int]] = field(default_factory=dict)
    sizes: dict[Size, Value] = field(default_factory=dict)


class Writer:
    """Writes nodes into the innermost of its scopes. Names are given once in all of them, so that a
    graph inside sees every value of those around it."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.helper = library.helper
        self.scopes = [Scope()]
        self.initializers: list[Any] = []
        self.label = "value"
        self.locs: Locs = ()
        self._taken: dict[str, int] = {}
        self._constants: dict[Any, Value] = {}
        self._dim_names: dict[Sym, str] = {}

    @property
    def scope(self) -> Scope:
        """The scope that nodes are written into."""
        return self.scopes[-1]

    @contextmanager
    def inner(self) -> Iterator[Scope]:
        """A scope within this one, for the graph of a loop or branch."""
        self.scopes.append(Scope())
        yield self.scopes[-1]
        self.scopes.pop()

    @contextmanager
    def of(self, label: str, locs: Locs) -> Iterator[None]:
        """Nodes are called by ``label``, and say these lines."""
        before = self.label, self.locs
        self.label, self.locs = label, locs or self.locs
        yield
        self.label, self.locs = before

    def name(self, wanted: str) -> str:
        """A name that nothing has: ``wanted``, with a number behind it if that is taken."""
        count = self._taken.get(wanted, 0) + 1
        self._taken[wanted] = count
        if count == 1:
            return wanted
        return self.name(f"{wanted}_{count}")

    # -- nodes -------------------------------------------------------------------------------------

    def several(
        self, kind: str, inputs: Sequence[Value | None], dtypes: Sequence[DType], **attrs: Any
    ) -> list[Value]:
        """The results of one node, which have these ``dtypes``. An input that is None is left
        out."""
        name = self.name(self.label)
        outputs = [name if i == 0 else self.name(f"{name}_{i}") for i in range(len(dtypes))]
        lines = ", ".join(f"{os.path.basename(loc.file)}:{loc.line}" for loc in self.locs)
        made = self.helper.make_node(
            kind, ["" if v is None else v.name for v in inputs], outputs, name, lines, **attrs
        )
        self.scope.nodes.append(made)
        self.scope.made.update(outputs)
        return [Value(o, d) for o, d in zip(outputs, dtypes, strict=True)]

    def node(self, kind: str, *inputs: Value | None, dtype: DType, **attrs: Any) -> Value:
        """The result of one node, which has this ``dtype``."""
        return self.several(kind, inputs, (dtype,), **attrs)[0]

    def apply(
        self,
        kind: str,
        *inputs: Value | None,
        dtype: DType | None = None,
        keep: Sequence[int] = (),
        **attrs: Any,
    ) -> Value:
        """The result of an operator on operands of one dtype, that of the first input but for those
        that ``keep`` theirs. It is computed in a dtype that runtimes have it for, and comes in
        ``dtype``; None for that of the operands."""
        own = next(v.dtype for i, v in enumerate(inputs) if v is not None and i not in keep)
        wide = computed_in(kind, own)
        found = [
            self.cast(v, wide) if v is not None and v.dtype is own and i not in keep else v
            for i, v in enumerate(inputs)
        ]
        result = self.node(kind, *found, dtype=wide if dtype is None else dtype, **attrs)
        return self.cast(result, own) if dtype is None else result

    def cast(self, x: Value, dtype: DType) -> Value:
        """``x`` in ``dtype``."""
        if x.dtype is dtype:
            return x
        return self.node("Cast", x, dtype=dtype, to=element_type(dtype))

    def constant(self, array: Any, name: str = "constant") -> Value:
        """An initializer of the whole graph, one for all constants that are alike."""
        array = np.asarray(array)
        key = (array.dtype.str, str(array.dtype), array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.initializer(array, self.name(name))
        return self._constants[key]

    def initializer(self, array: Any, name: str, kind: str = "constant") -> Value:
        """A tensor with a name that is taken for it, which says of what ``kind`` it is."""
        dtype = dtype_of(array.dtype)
        tensor = self.library.TensorProto(
            name=name, data_type=element_type(dtype), dims=array.shape,
            raw_data=np.ascontiguousarray(array).tobytes(),
            metadata_props=[self.library.StringStringEntryProto(key=KIND, value=kind)],
        )  # fmt: skip
        self.initializers.append(tensor)
        return Value(name, dtype)

    def number(self, value: Any, dtype: DType) -> Value:
        """A number as a constant of no dims."""
        return self.constant(np.asarray(value, dtype.numpy))

    def ints(self, values: Sequence[int]) -> Value:
        """Integers as a constant vector."""
        return self.constant(np.asarray(values, np.int64).reshape(-1))

    # -- types -------------------------------------------------------------------------------------

    def dim_name(self, size: Size) -> Any:
        """What a size is called in a type: its number, or the expression of the unknown ones, of
        which no two have one name."""
        if isinstance(size, int):
            return size
        for sym in _symbols_of(size):
            if sym not in self._dim_names:
                taken = set(self._dim_names.values())
                same = [sym.name, *(f"{sym.name}_{i}" for i in range(2, len(taken) + 3))]
                self._dim_names[sym] = next(n for n in same if n not in taken)
        text = str(size)
        symbols = _symbols_of(size)
        if len(symbols) == 1 and text == symbols[0].name:
            return self._dim_names[symbols[0]]
        return text

    def info(self, value: Value, type: TensorType) -> Any:
        """The type of a value."""
        shape = [self.dim_name(d) for d in type.shape]
        return self.helper.make_tensor_value_info(value.name, element_type(type.dtype), shape)

    def note(self, value: Value, type: TensorType) -> None:
        """Say the type of a value, and what sizes it tells."""
        if value.name in self.scope.made:
            self.scope.infos.setdefault(value.name, self.info(value, type))
        self.learn(value, type)

    def learn(self, value: Value, type: TensorType) -> None:
        """Note which unknown sizes the shape of a value is."""
        for axis, size in enumerate(type.shape):
            sym = as_symbol(size)
            if sym is not None and not any(sym in s.sources for s in self.scopes):
                self.scope.sources[sym] = (value, axis)

    def bind(self, size: Dim, number: Value) -> None:
        """Say what a size is that a node finds out: an int64 of no dims."""
        with self.of(str(size), self.locs):
            self.scope.sizes[size] = self.apply("Reshape", number, self.ints([1]))

    # -- sizes -------------------------------------------------------------------------------------

    def size(self, size: Size) -> Value:
        """A size as a vector of one int64."""
        if isinstance(size, int):
            return self.ints([size])
        size = size.dim
        for scope in self.scopes:
            if size in scope.sizes:
                return scope.sizes[size]
        with self.of("size", self.locs):
            self.scope.sizes[size] = found = self._compute(size)
        return found

    def scalar(self, size: Size) -> Value:
        """A size as an int64 of no dims."""
        if isinstance(size, int):
            return self.number(size, int64)
        return self.apply("Reshape", self.size(size), self.ints([]))

    def shape(self, shape: Shape) -> Value:
        """A shape as a vector of int64."""
        if all(isinstance(d, int) for d in shape):
            return self.ints([int(d) for d in shape])
        if len(shape) == 1:
            return self.size(shape[0])
        return self.node("Concat", *map(self.size, shape), dtype=int64, axis=0)

    def _compute(self, size: Dim) -> Value:
        sym = as_symbol(size)
        if sym is not None:
            for scope in self.scopes:
                if sym in scope.sources:
                    value, axis = scope.sources[sym]
                    return self.node("Shape", value, dtype=int64, start=axis, end=axis + 1)
            raise SymbolicError(
                f"onnx.export: the size {sym} is that of no input, so the graph cannot tell it, at "
                f"{format_locs(self.locs)}"
            )
        total: Value | None = None
        for monomial, c in terms_of(size):
            product = self.ints([c]) if c != 1 or not monomial else None
            for atom in monomial:
                factor = self._call(atom) if isinstance(atom, Call) else self.size(Dim.of(atom))
                product = factor if product is None else self.apply("Mul", product, factor)
            assert product is not None
            total = product if total is None else self.apply("Add", total, product)
        assert total is not None
        return total

    def _call(self, atom: Call) -> Value:
        return self.call(atom.fn, self.size(atom.a), self.size(atom.b))

    def call(self, fn: str, a: Value, b: Value) -> Value:
        """The function ``fn`` of a `Call` of two int64."""
        if fn in ("max", "min"):
            return self.apply(fn.title(), a, b)
        if fn == "floordiv":  # Div rounds towards zero, Mod has the sign of the divisor
            return self.apply("Div", self.apply("Sub", a, self.apply("Mod", a, b)), b)
        raise SymbolicError(
            "onnx.export: the root of a size, which no operator takes of integers; give the size "
            f"a number, at {format_locs(self.locs)}"
        )

    # -- graphs ------------------------------------------------------------------------------------

    def results(self, values: Sequence[Value], names: Sequence[str] = ()) -> list[Value]:
        """Values as results of the graph of this scope: each is made in it, and is there once."""
        found: list[Value] = []
        for i, value in enumerate(values):
            with self.of(names[i] if names else "result", ()):
                found.append(self.node("Identity", value, dtype=value.dtype))
        return found

    def graph(
        self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], initializers: Any = ()
    ) -> Any:
        """The graph of this scope."""
        scope = self.scope
        given = {o.name for o in outputs}
        infos = [i for name, i in scope.infos.items() if name not in given]
        return self.helper.make_graph(
            scope.nodes, name, inputs, outputs, initializers, value_info=infos
        )


def _symbols_of(size: Size) -> list[Sym]:
    return sorted(symbols_of(size), key=Sym.sort_key)
