"""What the attributes of ops are, by their names: of one name, one kind, whatever the op, but where
the name of an op stands before it.

A graph that is read from a text may have anything for an attribute. What a kind does not say, such
as how many numbers there are, or up to which, is up to the type rule of the op. What a user gives,
a scalar of NumPy for one, becomes one of its kind as the node is made (`fit_attrs`).
"""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import DTypeError
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import DType
from staticflow.graph.graph import Graph
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.open_size import OpenSize
from staticflow.graph.printer import ATTR_CLASSES

__all__ = ["KINDS", "Kind", "fit_attrs", "kind_of_attr"]


@dataclass(frozen=True, slots=True)
class Kind:
    """What an attribute may be: in ``words``, and whether a value ``is_one``."""

    words: str
    is_one: Callable[[Any], bool]


def _of(words: str, *classes: type) -> Kind:
    """Values of just these classes: True is no integer."""
    return Kind(words, lambda value: type(value) in classes)


def _words(*words: str) -> Kind:
    return Kind(f"one of {', '.join(words)}", lambda value: type(value) is str and value in words)


def _some(kind: Kind) -> Kind:
    """Several of a kind."""
    return Kind(
        f"[{kind.words}, ...]", lambda value: type(value) is tuple and all(map(kind.is_one, value))
    )


def _or(*kinds: Kind) -> Kind:
    words = " or ".join(kind.words for kind in kinds)
    return Kind(words, lambda value: any(kind.is_one(value) for kind in kinds))


_NONE = _of("none", type(None))
_FLAG = _of("true or false", bool)
_INTEGER = _of("an integer", int)
_COUNT = Kind("an integer from 0 on", lambda value: type(value) is int and value >= 0)
_POSITIVE = Kind("an integer from 1 on", lambda value: type(value) is int and value >= 1)
_SIZE = Kind("a size", lambda value: type(value) is Dim or _COUNT.is_one(value))
_PLACE = _of("an integer or size", int, Dim)
_WIDTH = Kind(
    "an integer from 0 to 2**31, or a size",
    lambda value: type(value) is Dim or (_COUNT.is_one(value) and value < 1 << 31),
)
_NUMBER = _of("a number", int, float)
_FINITE = Kind("a finite number", lambda value: _NUMBER.is_one(value) and math.isfinite(value))
_FILL = Kind("a number below infinity", lambda v: _NUMBER.is_one(v) and v < math.inf)
_ELEMENT = _of("a number or bool", bool, int, float)
_TEXT = _of("a string", str)
_GRAPH = _of("a graph", Graph)
_PAIR = Kind("[size, size]", lambda value: _some(_PLACE).is_one(value) and len(value) == 2)

KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(
        (
            "accumulate", "ceil", "complete", "descending", "exchanges", "full", "include_pad",
            "keepdim", "largest", "mean", "reverse", "right", "with_scores",
        ),
        _FLAG,
    ),
    **dict.fromkeys(("body", "true", "false", "backward"), _GRAPH),
    **dict.fromkeys(("template", "what", "of"), _TEXT),
    **dict.fromkeys(("names", "roles", "spec"), _some(_TEXT)),
    "dtype": _of("a dtype", DType),
    **dict.fromkeys(("along", "axes", "senders", "receivers"), _some(_COUNT)),
    "collective": _words("all_gather", "all_reduce", "reduce_scatter"),
    "mesh": _some(_POSITIVE),
    "root": _COUNT,
    "all_reduce.reduce": _words("amax", "amin", "sum"),
    "mode": _words("circular", "reflect", "replicate"),
    "reduce": _words("amax", "amin", "prod"),
    **dict.fromkeys(("dim", "dim0", "dim1", "dim2"), _COUNT),
    "dims": _some(_COUNT),
    **dict.fromkeys(("carries", "xs", "results", "ndim", "n", "count"), _COUNT),
    "own": _some(_COUNT),
    "groups": _POSITIVE,
    "ignore_index": _PLACE,
    **dict.fromkeys(("diagonal", "offset", "shift"), _PLACE),
    "padding_idx": _or(_NONE, _PLACE),
    "divisor": _or(_NONE, _INTEGER),
    "index": _PLACE,
    "bytes": _SIZE,
    "most": _SIZE,
    "classes": _SIZE,
    "k": _SIZE,
    "length": _or(_NONE, _SIZE),
    "binds": Kind("[size]", lambda value: _some(_of("", Dim)).is_one(value) and len(value) == 1),
    **dict.fromkeys(("shape", "sizes"), _some(_SIZE)),
    "size": _or(_SIZE, _some(_SIZE)),
    **dict.fromkeys(
        (
            "fold.size", "masked_take.size", "repeated_index.size", "row_order.size", "size.size",
            "unfold.size", "unprefix.size", "unresample.size",
        ),
        _SIZE,
    ),
    "start": _some(_PLACE),
    "step": _some(_PLACE),
    **dict.fromkeys(("fold.step", "unfold.step"), _POSITIVE),
    **dict.fromkeys(
        ("kernel", "stride", "dilation", "padding", "before", "after"), _some(_WIDTH)
    ),
    "as_strided.stride": _some(_PLACE),
    "class_index.ignore_index": _or(_NONE, _PLACE),
    "pairs": _some(_PAIR),
    **dict.fromkeys(
        (
            "correction", "eps", "fill", "input_scale", "lambd", "max_val",
            "min_val", "nan", "neginf", "negative_slope", "ord", "posinf", "scale", "threshold",
        ),
        _NUMBER,
    ),
    "softshrink.lambd": Kind("a number from 0 on", lambda v: _NUMBER.is_one(v) and v >= 0),
    "attend.fill": _FILL,
    "attend_back.fill": _FILL,
    "attend.scale": _FINITE,
    "attend_back.scale": _FINITE,
    "cap": _FINITE,
    **dict.fromkeys(("alpha", "beta"), _or(_NUMBER, _PLACE)),
    "low": _NUMBER,
    **dict.fromkeys(("logit.low", "high", "rcond"), _or(_NONE, _NUMBER)),
    "value": _ELEMENT,
    **dict.fromkeys(("min", "max"), _or(_NONE, _ELEMENT)),
}  # fmt: skip


def kind_of_attr(op: Op, name: str) -> Kind | None:
    """The kind of the attribute ``name`` of an op; None of one that nobody has named here."""
    return KINDS.get(f"{op.name}.{name}") or KINDS.get(name)


class _OwnKinds(dict[str, "Kind | None"]):
    """The kinds of the attributes of an op, each looked up when it is first asked for."""

    def __init__(self, op: Op) -> None:
        super().__init__()
        self.op = op

    def __missing__(self, name: str) -> Kind | None:
        self[name] = kind = kind_of_attr(self.op, name)
        return kind


@cache
def _kinds_of(op: Op) -> _OwnKinds:
    return _OwnKinds(op)


def fit_attrs(op: Op, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of an op as a node holds them: a scalar of NumPy, a fraction or whatever else
    counts as a number is the number of Python that its kind takes, a list is a tuple, and every
    size is closed.

    Raises `DTypeError` for an object that no graph can hold. Tensors and symbols stay: what is to
    be done with those is up to the caller.
    """
    kinds = _kinds_of(op)
    for name, value in attrs.items():
        kind = kinds[name]
        if kind is None or not kind.is_one(value):
            return {name: _fit(op, name, value, kinds[name]) for name, value in attrs.items()}
    return attrs


def _fit(op: Op, name: str, value: Any, kind: Kind | None) -> Any:
    """An attribute as its kind takes it, or as it is if that is for the type rule to refuse."""
    plain = _plain(value)
    if kind is None or kind.is_one(plain):
        return plain
    for other in _other_meanings(plain):
        if kind.is_one(other) and not (kind is _FLAG and hasattr(plain, "dtype")):
            return other
    for part in _parts(plain):
        if type(part) not in ATTR_CLASSES and not hasattr(part, "__sf_mode__"):
            module = type(part).__module__
            named = "" if module in ("builtins", "__main__") else f"{module}."
            raise DTypeError(
                f"{op.name}: {name} is of the class {named}{type(part).__qualname__}, and must be "
                f"{kind.words}, at {format_locs(here())}",
                value,
                kind.words,
            )
    return plain


def _other_meanings(value: Any) -> Iterator[Any]:
    """What else a value may mean: 1 and 0 are true and false, and the other way round."""
    if type(value) is int and value in (0, 1):
        yield bool(value)
    if isinstance(value, np.bool_):  # which PyTorch refuses where it wants a switch
        yield bool(value)
    yield _with_whole_bools(value)


def _with_whole_bools(value: Any) -> Any:
    """``value`` with 1 and 0 for true and false, as Python counts these."""
    if type(value) is tuple:
        return tuple(map(_with_whole_bools, value))
    return int(value) if type(value) is bool else value


def _parts(value: Any) -> Iterator[Any]:
    """A value, or what a tuple holds at any depth."""
    if type(value) is tuple:
        for part in value:
            yield from _parts(part)
    else:
        yield value


def _plain(value: Any) -> Any:
    """A value of a class that graphs hold, which means the same; itself if there is none."""
    kind = type(value)
    if kind in ATTR_CLASSES and kind is not tuple:
        return value
    if kind is OpenSize:
        return value.dim
    if isinstance(value, tuple | list):
        return tuple([_plain(v) for v in value])
    if isinstance(value, np.generic) or (kind is np.ndarray and value.ndim == 0):
        if value.dtype.kind == "b":
            return np.bool_(value)
        if value.dtype.kind in "iu":
            return int(value)
        return float(value) if value.dtype.kind in "fV" else value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float | numbers.Real) and not isinstance(value, int):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    decimal = sys.modules.get("decimal")  # nobody has a number of a module that is not imported
    if decimal is not None and isinstance(value, decimal.Decimal):
        return float(value)
    if (
        hasattr(kind, "__index__")
        and not isinstance(value, Dim)
        and not hasattr(value, "__sf_mode__")
    ):
        return int(operator.index(value))
    return value
