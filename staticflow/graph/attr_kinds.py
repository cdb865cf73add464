"""What the attributes of ops are, by their names: of one name, one kind, whatever the op, but where
the name of an op stands before it.

A graph that is read from a text may have anything for an attribute. What a kind does not say, such
as how many numbers there are, or up to which, is up to the type rule of the op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import DType
from staticflow.graph.graph import Graph

__all__ = ["KINDS", "Kind"]


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
_LOW = Kind("a number up to 0", lambda value: _NUMBER.is_one(value) and value <= 0)
_ELEMENT = _of("a number or bool", bool, int, float)
_TEXT = _of("a string", str)
_GRAPH = _of("a graph", Graph)
_PAIR = Kind("[size, size]", lambda value: _some(_PLACE).is_one(value) and len(value) == 2)

KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(
        (
            "accumulate", "ceil", "complete", "descending", "full", "include_pad", "keepdim",
            "largest", "mean", "reverse", "right",
        ),
        _FLAG,
    ),
    **dict.fromkeys(("body", "true", "false", "backward"), _GRAPH),
    **dict.fromkeys(("template", "what", "of"), _TEXT),
    **dict.fromkeys(("names", "roles"), _some(_TEXT)),
    "dtype": _of("a dtype", DType),
    "mode": _words("circular", "reflect", "replicate"),
    "reduce": _words("amax", "amin", "prod"),
    **dict.fromkeys(("dim", "dim0", "dim1", "dim2"), _COUNT),
    "dims": _some(_COUNT),
    **dict.fromkeys(("carries", "xs", "results", "ndim", "n", "count"), _COUNT),
    "own": _some(_COUNT),
    "groups": _POSITIVE,
    "ignore_index": _INTEGER,
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
            "fold.size", "masked_take.size", "repeated_index.size", "size.size", "unfold.size",
            "unprefix.size", "unresample.size",
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
    "pairs": _some(_PAIR),
    **dict.fromkeys(
        (
            "correction", "eps", "fill", "input_scale", "lambd", "max_val",
            "min_val", "nan", "neginf", "negative_slope", "ord", "posinf", "scale", "threshold",
        ),
        _NUMBER,
    ),
    "softshrink.lambd": Kind("a number from 0 on", lambda v: _NUMBER.is_one(v) and v >= 0),
    "attend.fill": _LOW,
    "attend_back.fill": _LOW,
    **dict.fromkeys(("alpha", "beta"), _or(_NUMBER, _PLACE)),
    "low": _NUMBER,
    **dict.fromkeys(("logit.low", "high"), _or(_NONE, _NUMBER)),
    "value": _ELEMENT,
    **dict.fromkeys(("min", "max"), _or(_NONE, _ELEMENT)),
}  # fmt: skip
