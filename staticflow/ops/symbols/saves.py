"""Which values the vjp of an op uses, seen by calling it on symbols.

The tape keeps of an operation the values that its backward needs, and of the other arguments only
shapes and dtypes. Nobody declares which: when an op is recorded for the first time, its vjp is
called on symbols that note whether an operation takes them. What was seen serves every later call
with as many arguments; an op whose vjp uses more in some calls than in others, as its attributes
tell, states all of it in `Op.saves`. A value that was not kept raises where it is asked for
(`staticflow.eager.saved`), so too small an answer is an error, never a wrong gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from staticflow.graph.dtypes import BY_PYTHON, DType
from staticflow.graph.graph import new_param
from staticflow.graph.locs import using
from staticflow.graph.node import Node
from staticflow.graph.op import OUT, Op
from staticflow.graph.types import Facts, Shape, TensorType, Type, types_of
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.declaring.tracing import tracing
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["Saves", "place_of_result", "saves_of", "used_values"]

Saves = Sequence[frozenset[int]]
"""For each argument of an op, the arguments (by position, `OUT` for the result, or the first of
several, and so on as `place_of_result` says) whose values its cotangent uses."""

_MOST = 32
"""Results of an op that are told apart; those behind are one."""

_ALL = frozenset(range(OUT - _MOST, OUT + 1))
"""All results of an op."""


def place_of_result(number: int) -> int:
    """The position of result ``number`` of several: `OUT` of the first, and each next one less."""
    return OUT - min(number, _MOST)


_saves: dict[tuple[Op, int], Saves] = {}


def saves_of(op: Op, args: Sequence[Any], attrs: Mapping[str, Any], out: Any = None) -> Saves:
    """What the cotangents of the arguments of a call use. ``args`` are tensors and Python numbers,
    of the dtypes that the op computes in, ``out`` is what it gave, a tensor or several; None: what
    the type rule says."""
    key = op, len(args)
    saves = _saves.get(key)
    if saves is None:  # threads that are here at a time come to the same
        saves = _saves.setdefault(key, _find_saves(op, args, attrs, out))
    return saves


def _find_saves(op: Op, args: Sequence[Any], attrs: Mapping[str, Any], out: Any) -> Saves:
    if op.saves is not None:
        stated = frozenset(i for i in op.saves if i < len(args))
        return (stated | _ALL if OUT in stated else stated,) * len(args)
    try:
        return used_values(op, [_type_of(a, args) for a in args], attrs, _types_of(out))
    except (MemoryError, RecursionError):  # which tell nothing of the vjp
        raise
    except Exception:  # the vjp looks at values, so it may use any
        return (_ALL.union(range(len(args))),) * len(args)


def _type_of(a: Any, args: Sequence[Any]) -> TensorType:
    """The type of an argument; a number has no dims and the dtype of the floats beside it."""
    if type(a) not in BY_PYTHON:
        return TensorType(a.dtype, a.shape)
    dtypes = [b.dtype for b in args if type(b) not in BY_PYTHON and b.dtype.is_floating]
    return TensorType(dtypes[0] if dtypes else BY_PYTHON[type(a)], ())


def _types_of(out: Any) -> Type | None:
    if isinstance(out, tuple):
        return tuple(TensorType(y.dtype, y.shape) for y in out)
    return None if out is None else TensorType(out.dtype, out.shape)


def used_values(
    op: Op,
    types: Sequence[TensorType],
    attrs: Mapping[str, Any],
    result: Type | None = None,
) -> Saves:
    """What the cotangent of each argument uses in a call on arguments of these types, and with this
    ``result`` if the type rule is not to be asked; nothing where there is none. Raises what the vjp
    raises of symbols."""
    result = result or op.type_of(Facts(), types, attrs)
    return tuple(
        _used_by(op, i, types, result, attrs) if t.dtype.is_floating else frozenset()
        for i, t in enumerate(types)
    )


def _used_by(
    op: Op, wanted: int, types: Sequence[TensorType], result: Type, attrs: Mapping[str, Any]
) -> frozenset[int]:
    """The values that the vjp uses where it is asked for the cotangent of argument ``wanted``
    alone."""
    used: set[int] = set()
    given = types_of(result)
    args = [_Watched(new_param(t, f"x{i}"), used, i) for i, t in enumerate(types)]
    out: Any = tuple(
        _Watched(new_param(t, "y"), used, place_of_result(i)) for i, t in enumerate(given)
    )
    ct: Any = [Symbol(new_param(t, "ct")) if t.dtype.is_floating else None for t in given]
    if isinstance(result, TensorType):
        (out,), (ct,) = out, ct
    needs = [i == wanted for i in range(len(types))]
    assert op.vjp is not None
    with tracing(), for_itself(), using(()):
        pulled = op.vjp(needs, ct, out, *args, **attrs)
        if pulled[wanted] is not None:
            to_node(pulled[wanted])  # it may be an argument
    return frozenset(used)


class _Watched(Symbol):
    """A symbol that puts its ``position`` into ``used`` as soon as anything but its shape and dtype
    is asked for."""

    __slots__ = ("_position", "_used")

    def __init__(self, node: Node, used: set[int], position: int) -> None:
        super().__init__(node)
        self._used, self._position = used, position

    @property
    def node(self) -> Node:
        """The node, which an operation on the symbol takes."""
        self._used.add(self._position)
        return super().node

    @node.setter
    def node(self, node: Node) -> None:
        self._node = node

    @property
    def shape(self) -> Shape:
        """The sizes of the dims, all of them known."""
        return self._node.tensor_type.shape

    __sf_shape__ = shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._node.tensor_type.dtype
