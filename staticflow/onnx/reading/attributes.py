"""Attributes of nodes as values, held to what the operator's schema says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from staticflow.onnx.reading.refuse import WrongModel, short

__all__ = ["PLAIN", "default_of", "plain_value", "refuse_strange"]

PLAIN: Mapping[int, Callable[[Any], Any]] = {
    1: lambda a: float(a.f),
    2: lambda a: int(a.i),
    3: lambda a: a.s.decode("utf-8", "replace"),
    6: lambda a: [float(v) for v in a.floats],
    7: lambda a: [int(v) for v in a.ints],
    8: lambda a: [s.decode("utf-8", "replace") for s in a.strings],
}
"""By ``AttributeProto.type`` how numbers and texts are taken out; others are tensors (4), graphs
(5) and what is refused."""


def plain_value(attr: Any) -> Any:
    """The number, text or list of them that an attribute is.

    Raises `WrongModel` for any other.
    """
    if attr.type not in PLAIN:
        raise WrongModel(f"has the attribute {short(attr.name)}, of a kind that is not read")
    return PLAIN[attr.type](attr)


def default_of(declared: Any) -> Any:
    """What an attribute is where a node does not say it; None where that is not declared."""
    default = declared.default_value
    return PLAIN[default.type](default) if default.type in PLAIN else None


def refuse_strange(attrs: Mapping[str, Any], schema: Any) -> None:
    """Raises `WrongModel` unless attributes are those that the schema of an operator has, of the
    types that it says, and none that must be there is left out."""
    for name, attr in attrs.items():
        declared = schema.attributes.get(name)
        if declared is None:
            raise WrongModel(
                f"has the attribute {short(name)}, which {schema.name} of version "
                f"{schema.since_version} does not take"
            )
        if attr.type != declared.type.value:
            raise WrongModel(
                f"has the attribute {short(name)}, which is not of the type that it must be"
            )
    for name, declared in schema.attributes.items():
        if declared.required and name not in attrs:
            raise WrongModel(f"lacks the attribute {name}, which must be given")
