"""Programs that the eager mode computes by: how they are made, kept and found.

A *program* is a function of ops that was traced on symbols and compiled for operands of a *kind*:
the dtypes of the arrays, their ranks, which sizes are 1, and how they lie in memory. Other sizes
stay unknown, so that the next batch compiles nothing. Where the function asks for them, there is a
program for each set of sizes. `Programs` keeps those of one function; five modules are its clients:

=============  =============================  ================  ============  ==================
module         traces                         writes over       fixed sizes   arrays that lie
=============  =============================  ================  ============  ==================
`kernels`      an op                          nothing           if asked for  in rows, any order
`pullback`     what is worth it of a vjp      nothing           if asked for  row-major
`fused`        a function, its derivative     nothing           if asked for  row-major
`updates`      a step of an optimiser         the first arrays  never         row-major
`overwrite`    a function of an array         that array        never         in rows
=============  =============================  ================  ============  ==================

A program depends on what is *known*: the arguments that are no arrays. They are constants of it,
but for numbers that change from call to call, which become operands of no dims: those among the
attributes of elementwise ops, and arguments that no function treats apart from others
(`staticflow.eager.numbers`). A *call* is what is known with the shapes of the arrays and how they
lie. One that was met before finds its program by one look into `Programs.by_call`; some are found
by native code in `Programs.latest`. Arrays that a program does not take, it declines. Then, and
where there is no program, the client leaves the call to the operations, one by one.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager.costs import NARROW
from staticflow.eager.numbers import NumberSymbol, rewrite_numbers
from staticflow.eager.rows import Steps, steps_of
from staticflow.errors import IndexRangeError, ShapeError, StaticflowError, VerifyError
from staticflow.graph.collector import without_collection
from staticflow.graph.dims import Size, fresh_sym, same
from staticflow.graph.dtypes import BY_NUMPY
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import Graph, close, new_param
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.declaring.tracing import tracing
from staticflow.ops.symbols.symbol import Symbol, to_node
from staticflow.passes.order import AS_WRITTEN
from staticflow.runtime.build import build
from staticflow.runtime.executable import Executable
from staticflow.runtime.object_layout import BoxType, box_type
from staticflow.runtime.once import compiling
from staticflow.runtime.recipe import Recipe

__all__ = [
    "MOST_CALLS", "NUMBER", "UNMET", "ArrayKind", "Kinds", "Programs", "close_over",
    "compile_function", "compile_graph", "fill", "kind_of", "mark", "packer", "params_of",
    "position", "run", "sizes_along_rows", "trace", "with_sizes",
]  # fmt: skip

P = TypeVar("P")
K = TypeVar("K", bound=Hashable)

MOST_KINDS = 256
"""Programs of a function that are kept; then it begins anew. A number that is an attribute and
changes at every step would otherwise fill the memory with code."""

MOST_CALLS = 1024
"""Shapes that find their program of a function in one step; then it begins anew."""

UNMET: Any = object()
"""What stands for a call that was not met before."""


# -- kinds ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """What a program knows of an array: the dtype; the ``sizes``, with 0 for one that it does not
    know; and the strides as `steps_of` says them, None for a row-major array."""

    dtype: Any
    sizes: tuple[int, ...]
    steps: Steps = None

    def type(self, name: str) -> TensorType:
        """The type of such an array, with fresh symbols that begin with ``name`` for what is
        unknown."""
        shape: tuple[Size, ...] = tuple(
            n or fresh_sym(f"{name}_{d}") for d, n in enumerate(self.sizes)
        )
        strides: tuple[Size, ...] | None = None
        if self.steps is not None:
            strides = tuple(
                fresh_sym(f"{name}_s{d}") if s is None else s for d, s in enumerate(self.steps)
            )
        return TensorType(BY_NUMPY[self.dtype], shape, strides)


Kinds = tuple[ArrayKind, ...]


def kind_of(array: np.ndarray[Any, Any]) -> ArrayKind:
    """The kind of an array of which a program knows the sizes of 1, which broadcast."""
    return ArrayKind(array.dtype, tuple([int(n == 1) for n in array.shape]), steps_of(array))


def sizes_along_rows(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes that a program knows which goes along rows: those of 1, which broadcast, and how
    long rows are that fill no vector. 0 stands for the others."""
    ones = tuple([int(n == 1) for n in shape])
    return (*ones[:-1], shape[-1]) if len(shape) > 1 and shape[-1] <= NARROW else ones


def with_sizes(kinds: Kinds, arrays: Sequence[np.ndarray[Any, Any]]) -> Kinds:
    """The kinds of arrays of which a program knows all sizes: where it is asked for them."""
    return tuple([replace(kind, sizes=a.shape) for kind, a in zip(kinds, arrays, strict=True)])


NUMBER: Any = object()
"""Stands for a number that is an operand, until `mark` gives it a position."""


class Position:
    """Stands for operand ``index`` among the arguments of a call, an array or a number."""

    __slots__ = ("index", "is_number")

    def __init__(self, index: int, is_number: bool = False) -> None:
        self.index, self.is_number = index, is_number


position = functools.cache(Position)


def mark(
    arguments: Iterable[Any], is_array: Callable[[Any], bool], first: int = 0
) -> tuple[Any, ...]:
    """``arguments``, and the tuples among them, with positions, counted from ``first``, for arrays
    and for `NUMBER`."""
    numbers = itertools.count(first)

    def visit(a: Any) -> Any:
        if a is NUMBER or is_array(a):
            return position(next(numbers), a is NUMBER)
        return tuple(map(visit, a)) if type(a) is tuple else a

    return tuple(map(visit, arguments))


def fill(arguments: tuple[Any, ...], operands: Sequence[Any]) -> tuple[Any, ...]:
    """``arguments``, and the tuples among them, with ``operands`` at their positions."""

    def visit(a: Any) -> Any:
        if type(a) is not Position:
            return fill(a, operands) if type(a) is tuple else a
        operand = operands[a.index]
        return NumberSymbol(operand.node) if a.is_number else operand

    return tuple(map(visit, arguments))


# -- programs that are kept ----------------------------------------------------------------------


class Programs(Generic[P]):
    """The programs of one function: by kind, and by the calls that they serve.

    None stands where there can be none. ``programs.by_call.get(call, UNMET)`` is all that a call
    takes that was met before. Native code finds in the cell ``latest`` the entry of the program
    that computed last, if a client put it there.
    """

    __slots__ = ("by_call", "by_kind", "latest")

    def __init__(self) -> None:
        self.by_call: dict[Hashable, P | None] = {}
        self.by_kind: dict[Hashable, P | None] = {}
        self.latest = ctypes.py_object()

    def remember(self, call: Hashable, program: P | None) -> P | None:
        """``program``, which ``call`` finds from now on."""
        if len(self.by_call) >= MOST_CALLS:
            self.by_call.clear()
        self.by_call[call] = program
        return program

    def find(self, known: Hashable, make: Callable[[K], P | None], *ways: K) -> P | None:
        """The program for what is ``known`` and the first of ``ways`` that has one; None if none
        has. A way is the kinds of the operands: those of unknown sizes come first, which serve most
        calls, and then, if there are such programs, those of known ones.

        ``make(way)`` gives the program, once, whichever threads ask. Where it raises an error of
        the package, or one of a function that has no symbols in mind, there is none: the operations
        say what is wrong. A `VerifyError` tells of a fault in the package itself, and is raised.
        """
        for way in ways:
            program: P | None = self.by_kind.get((known, way), UNMET)
            if program is UNMET:
                program = self._make((known, way), make, way)
            if program is not None:
                return program
        return None

    def _make(self, key: Hashable, make: Callable[[K], P | None], way: K) -> P | None:
        with compiling:
            program: P | None = self.by_kind.get(key, UNMET)
            if program is UNMET:
                try:
                    program = make(way)
                except VerifyError:  # a fault of the package's own, which is not to be hidden
                    raise
                except (StaticflowError, TypeError, AttributeError):
                    program = None
                if len(self.by_kind) >= MOST_KINDS:
                    self.by_kind.clear()
                    self.by_call.clear()
                self.by_kind[key] = program
            return program


# -- a program is made ---------------------------------------------------------------------------


def params_of(kinds: Kinds, updated: int = 0) -> list[Node]:
    """Params for arrays of ``kinds``; a program overwrites the first ``updated`` of them."""
    return [
        new_param(kind.type(f"x{i}"), f"x{i}", object() if i < updated else None)
        for i, kind in enumerate(kinds)
    ]


Pack = Callable[[Iterable[Any]], Any]


def packer(results: Any) -> Pack | None:
    """What makes of as many others the tuple that ``results`` are, which may have names; None where
    they are one result."""
    several = isinstance(results, tuple | list)
    return getattr(type(results), "_make", tuple) if several else None


def trace(fn: Callable[..., Any], params: Sequence[Node]) -> tuple[list[Node], Pack | None]:
    """What ``fn`` gives of symbols of ``params``, and the `packer` of that."""
    with tracing(), for_itself():
        results = fn(*map(Symbol, params))
    pack = packer(results)
    return rewrite_numbers([to_node(r) for r in (results if pack else (results,))]), pack


def compile_function(fn: Callable[..., Any], kinds: Kinds, updated: int = 0) -> Executable:
    """The program of ``fn`` for arrays of ``kinds``. It puts the first ``updated`` results in the
    place of as many arrays."""
    params = params_of(kinds, updated)
    return compile_graph(close_over(params, trace(fn, params)[0]))


def close_over(params: Sequence[Node], outputs: Sequence[Node]) -> Graph:
    """The graph of ``outputs``, of which the first are the new values of those ``params`` that are
    overwritten, each of its shape. Raises `ShapeError` for one of other dims."""
    equalities = []
    for source, p, o in zip(_sources(params), params, outputs, strict=False):
        if source is None:
            continue
        old, new = p.tensor_type.shape, o.tensor_type.shape
        if len(old) != len(new):
            raise ShapeError(f"a new value has {len(new)} dims, and the old has {len(old)}")
        equalities += [
            Equality(a, b, "a new value is of the shape of the old", ())
            for a, b in zip(old, new, strict=True)
            if not same(a, b)
        ]
    return close(params, outputs, equalities)


def compile_graph(graph: Graph, passes: tuple[str, ...] = AS_WRITTEN) -> Executable:
    """The program of a graph without variables. It overwrites the params that have a source with
    the outputs, as many as there are."""
    names = tuple(p.attrs["name"] for p in graph.params)
    updated = tuple(source for source in _sources(graph.params) if source is not None)
    with without_collection():
        return build(Recipe(graph, names, updated, passes=passes, keeps_arena=False), _box())


def _sources(params: Sequence[Node]) -> list[object]:
    return [p.attrs["source"] for p in params]


class _Box:
    """What the native entry takes beside arrays; nobody makes one."""

    __slots__ = ("array",)


@functools.cache
def _box() -> BoxType | None:
    return box_type(_Box, "array")


# -- a program is run ----------------------------------------------------------------------------


def run(program: Executable, arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
    """What a program gives of ``arrays``, one array or a tuple of them. What does not lie as the
    program takes it is copied. None where an index is out of range: the words would be of the line
    of another call, and the operations say what is wrong of this one. Raises what else a call of a
    program refuses, such as sizes that are to be equal: a reference may take them."""
    result = program.fast(*arrays)
    if result is None and not all(a.flags.c_contiguous for a in arrays):
        arrays = program.in_rows(arrays)
        result = program.fast(*arrays)
    if result is None:  # not as the native entry takes them
        try:
            results = program(arrays)
        except IndexRangeError:
            return None
        return results[0] if len(results) == 1 else tuple(results)
    return None if type(result) is int else result
