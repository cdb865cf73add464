"""What a branch gives, as far as the other one must give the same: a structure, shapes, dtypes.

The branch of a `cond` that does not run is traced to know. That costs far more than running it, so
what it gave is remembered for branches of the same code on arguments of the same kinds.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from types import CellType, FunctionType, NoneType
from typing import Any

from staticflow import pytree
from staticflow.data_classes import dataclass
from staticflow.errors import ShapeError, SymbolicError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import BY_PYTHON, dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.promote import is_number
from staticflow.ops.loops.leaves import refuse_leaf
from staticflow.ops.loops.region import types_of_result

__all__ = ["Result", "kind_of", "result_of_other"]


@dataclass(frozen=True, slots=True)
class Result:
    """The structure of what a branch gives, and the type of each leaf: of a number the one that it
    has alone. ``numbers`` are the leaves that are numbers."""

    tree: pytree.TreeDef
    types: tuple[TensorType, ...]
    numbers: frozenset[int]

    @staticmethod
    def of(what: str, tree: pytree.TreeDef, leaves: Sequence[Any]) -> Result:
        """What the ``leaves`` of a result of a branch of ``what`` are."""
        numbers = frozenset(i for i, v in enumerate(leaves) if is_number(v))
        named = zip(pytree.paths(tree, "result"), leaves, strict=True)
        return Result(tree, tuple(_type_of(what, path, v) for path, v in named), numbers)

    @property
    def has_numbers(self) -> bool:
        """Whether a leaf is a number, whose dtype follows from the other branch."""
        return bool(self.numbers)

    def is_of(self, tree: pytree.TreeDef, leaves: Sequence[Any]) -> bool:
        """Whether the ``leaves``, all of them tensors, are such a result."""
        return not self.numbers and self.tree == tree and all(map(_is_of_type, leaves, self.types))

    def beside(self, *others: Result) -> Result:
        """This result with each number in the dtype of what the ``others`` have in its place,
        tensors before numbers, unless that is of a lower category."""
        alike = [o for o in others if len(o.types) == len(self.types)]
        types = list(self.types)
        for i in self.numbers:
            for other in sorted(alike, key=lambda o: i not in o.numbers):
                if types[i].dtype.category <= other.types[i].dtype.category:
                    types[i] = replace(types[i], dtype=other.types[i].dtype)
        return replace(self, types=tuple(types)) if self.numbers else self


def _is_of_type(x: Any, t: TensorType) -> bool:
    return hasattr(x, "__sf_mode__") and x.dtype is t.dtype and x.__sf_shape__ == t.shape


def _type_of(what: str, path: str, value: Any) -> TensorType:
    if hasattr(value, "__sf_mode__"):
        return TensorType(value.dtype, value.__sf_shape__)
    if is_number(value):
        return TensorType(BY_PYTHON[int if isinstance(value, Dim) else type(value)], ())
    if not hasattr(value, "__array_interface__"):
        refuse_leaf(what, path, value)
    return TensorType(dtype_of(value.dtype), value.shape)


_MOST = 512
"""Kinds of branches that are remembered."""

_DEEPEST = 8
"""Functions in functions that are looked through: one may close over itself."""

_known: dict[Hashable, Result | None] = {}


def result_of_other(branch: partial[Any], fresh: bool = False) -> Result | None:
    """What ``branch``, `call` of what it is a branch of and a function, would give where it is not
    run; None if it asks for values of tensors, so that no trace can tell. ``fresh``: not as it was
    remembered."""
    key = kind_of(branch.args[1:])
    if key is None:
        return _trace(branch)
    if fresh or key not in _known:
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = _trace(branch)
    return _known[key]


def _trace(branch: partial[Any]) -> Result | None:
    what = branch.args[0]
    try:
        leaves, tree = pytree.flatten(types_of_result(lambda _: branch(), []))
    except (SymbolicError, RecursionError):  # a function that calls itself ends where values say so
        return None
    except Exception as error:
        error.add_note(
            f"in a branch that is not taken, which the {what} at {format_locs(here())} traces to "
            "hold it to what the other one gives"
        )
        raise
    result = Result.of(what, tree, leaves)
    for t in result.types:
        if any(s.late for d in t.shape for s in symbols_of(d)):
            raise ShapeError(
                f"{what}: a result of a branch that is not taken is {t}, of a size that only the "
                "inside can tell; reduce it, or write it into a tensor of a known size, at "
                f"{format_locs(here())}"
            )
    return result


def kind_of(value: Any) -> Hashable | None:
    """What equal values share of which the same function makes results of the same types; None
    where nothing tells that."""
    try:
        return _kind(value)
    except _UnknownKind:
        return None


class _UnknownKind(Exception):
    """A value of which nothing tells what a function makes of it."""


def _kind(value: Any, depth: int = 0) -> Hashable:
    """`kind_of`, or `_UnknownKind`, of what stands ``depth`` values deep."""
    kind = type(value)
    find = _KINDS.get(kind)
    if find is not None:
        if depth == _DEEPEST:
            raise _UnknownKind
        return find(value, depth + 1)
    if hasattr(kind, "__sf_mode__"):
        return value.dtype, value.__sf_shape__
    if pytree.is_registered(kind) and depth < _DEEPEST:
        leaves, tree = pytree.flatten(value)
        return tree, *[_kind(leaf, depth + 1) for leaf in leaves]
    try:
        reference = weakref.ref(value)
        hash(reference)
    except TypeError:
        raise _UnknownKind from None
    return reference


def _kind_of_function(fn: FunctionType, depth: int) -> Hashable:
    return (
        fn.__code__,
        fn.__defaults__ and _kind(fn.__defaults__, depth),
        fn.__kwdefaults__ and _kind(fn.__kwdefaults__, depth),
        tuple([_kind(_content(c), depth) for c in fn.__closure__ or ()]),
    )


def _kind_of_partial(call: partial[Any], depth: int) -> Hashable:
    parts = (call.func, *call.args, call.keywords)
    return tuple([_kind(v, depth) for v in parts])


def _kind_of_dict(d: dict[Any, Any], depth: int) -> Hashable:
    return tuple([(k, _kind(v, depth)) for k, v in d.items()])


def _kind_of_sequence(values: Sequence[Any], depth: int) -> Hashable:
    return type(values), *[_kind(v, depth) for v in values]


def _itself(value: Any, depth: int) -> Hashable:
    """The kind of what may be a size, or a choice."""
    return type(value), value


def _type_alone(value: Any, depth: int) -> Hashable:
    return (type(value),)


_KINDS: dict[type, Callable[[Any, int], Hashable]] = {
    FunctionType: _kind_of_function, partial: _kind_of_partial, dict: _kind_of_dict,
    tuple: _kind_of_sequence, list: _kind_of_sequence, int: _itself, bool: _itself, str: _itself,
    float: _type_alone, NoneType: _type_alone,
}  # fmt: skip


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it has no value yet
        raise _UnknownKind from None
