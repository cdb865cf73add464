"""What the initializers of a model are: parameters, buffers, or numbers that shapes are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from staticflow.graph.dtypes import dtype_of
from staticflow.onnx.reading.plan import GraphPlan, NodePlan
from staticflow.onnx.reading.table import ROWS

__all__ = ["Role", "names_read", "roles_of"]

Role = Literal["parameter", "buffer", "constant"]

_MOST_CONSTANT = 1024
"""So many elements a number that is read has at most; of more, a tensor is made."""


def roles_of(plan: GraphPlan, kinds: Mapping[str, str]) -> dict[str, Role]:
    """The role of each initializer: that of ``kinds``, where its file says one.

    What nodes read as numbers (axes, shapes, bounds), and what such numbers are computed of, is
    constant; what training leaves alone is a buffer, and so are all that is not floating and, where
    the file does not say that it is a parameter, a number of no dims: exporters write the exponents
    and epsilons of a model so. What is left are parameters.
    """
    read, fixed, other = set[str](), set[str](), set[str]()
    _walk(plan, read, fixed, other)
    found: dict[str, Role] = {}
    for name, array in plan.constants.items():
        kind = kinds.get(name)
        floating = dtype_of(array.dtype).is_floating
        if kind == "constant" or (name in read and array.size <= _MOST_CONSTANT):
            found[name] = "constant"
        elif (
            kind == "buffer"
            or not floating
            or (name in fixed and name not in other)
            or (kind is None and not array.ndim)
        ):
            found[name] = "buffer"
        else:
            found[name] = "parameter"
    return found


def names_read(plan: GraphPlan) -> set[str]:
    """The names of values that nodes read as numbers, or that such numbers are computed of."""
    read = set[str]()
    _walk(plan, read, set(), set())
    return read


def _walk(plan: GraphPlan, read: set[str], fixed: set[str], other: set[str]) -> None:
    for node in reversed(plan.nodes):
        row = None if node.row is None else ROWS[node.row]
        for inner in (v for v in node.attrs.values() if isinstance(v, GraphPlan)):
            _walk(inner, read, fixed, other)
        if node.body is not None:
            inside = names_read(node.body)
            pairs = zip(node.body.inputs, node.given, strict=False)
            read.update(name for spec, name in pairs if name and spec.name in inside)
        for role, name in _roles(node):
            if row is not None and role in row.static:
                read.add(name)
            elif row is not None and role in row.fixed:
                fixed.add(name)
            else:
                other.add(name)
        if row is not None and row.known is not None and read & set(node.outputs):
            read.update(node.inputs)


def _roles(node: NodePlan) -> list[tuple[str, str]]:
    pairs = [(role, name) for role, name in node.named.items()]
    if node.row is not None:
        names, _ = ROWS[node.row].positional
        for place, name in enumerate(node.given):
            if name is not None:
                pairs.append((names[place] if place < len(names) else "", name))
    else:
        pairs += [("", name) for name in node.given if name is not None]
    return pairs
