"""Nodes for values that a graph is given as it is written: constants, whose elements are in the
graph, and params for eager tensors that it captures by reference."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from staticflow.graph.dtypes import DType
from staticflow.graph.graph import new_param
from staticflow.graph.locs import here
from staticflow.graph.node import Literal, Node, constant, make_node
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.tracing import tracing_state
from staticflow.ops.random.frozen import warn_of_draw
from staticflow.ops.symbols.attributes import SymbolAttributes

__all__ = [
    "capture", "constant_node", "follow", "note_part", "note_split", "part_of",
    "source_of_detached", "split_of", "whole_shape",
]  # fmt: skip

_captured: weakref.WeakValueDictionary[int, Node] = weakref.WeakValueDictionary()


def constant_node(value: Any, dtype: DType) -> Node:
    """A node that is a number or an array known now."""
    array = np.asarray(value, dtype=dtype.numpy)
    attrs = {"value": Literal(array), "type": TensorType(dtype, array.shape)}
    return make_node(constant, (), attrs, here())


def capture(tensor: Any) -> Node:
    """The param that stands for an eager tensor: the same one each time, while anyone holds it.
    The node keeps the tensor alive, so its id is not given to another meanwhile."""
    node = _captured.get(id(tensor))
    own = TensorType(tensor.dtype, whole_shape(tensor))
    if node is None or node.type != own:  # its data may have been replaced by another dtype's
        if not tracing_state.active:
            warn_of_draw(tensor, lambda v: isinstance(v, SymbolAttributes))
        name = getattr(tensor, "name", None) or "captured"
        node = new_param(own, name, tensor, here())
        _captured[id(tensor)] = node
    return node


_parts: dict[int, tuple[Any, Any]] = {}
"""By the id of a tensor, a weak reference to it, which takes the entry away, and of what it is a
part."""


def note_part(tensor: Any, part: Any) -> None:
    """Let graphs have the whole, of ``part.shape``, where the memory of ``tensor`` is what one of
    several processes has of it."""
    address = id(tensor)
    _parts[address] = weakref.ref(tensor, lambda _: _parts.pop(address, None)), part


def part_of(tensor: Any) -> Any:
    """What a tensor is a part of, as `note_part` was told; else None."""
    found = _parts.get(id(tensor)) if _parts else None
    return None if found is None else found[1]


def whole_shape(tensor: Any) -> tuple[int, ...]:
    """The shape that a graph has for a tensor: its own, but of a part."""
    part = part_of(tensor)
    shape: tuple[int, ...] = tensor.shape if part is None else part.shape
    return shape


_followed: dict[int, tuple[Any, Any]] = {}
"""By the id of a tensor, a weak reference to it, which takes the entry away, and its source."""


def follow(detached: Any, source: Any) -> None:
    """Let a graph that is being traced have ``source`` itself, without a gradient, for what
    `detach` gives of it: the next run of this line would give its memory of then."""
    address = id(detached)
    _followed[address] = weakref.ref(detached, lambda _: _followed.pop(address, None)), source


def source_of_detached(tensor: Any) -> Any:
    """What a graph that is being traced has for ``tensor``, as `follow` was told; else None."""
    found = _followed.get(id(tensor))
    return None if found is None else found[1]


_splits: dict[int, tuple[Any, Any, tuple[str, ...]]] = {}
"""By the id of a tensor, a weak reference to it, which takes the entry away, its source, and how
that is split."""


def note_split(view: Any, source: Any, spec: tuple[str, ...]) -> None:
    """Let graphs have, for the ``view`` of all of a tensor, that tensor, split as ``spec`` says."""
    address = id(view)
    _splits[address] = weakref.ref(view, lambda _: _splits.pop(address, None)), source, spec


def split_of(tensor: Any) -> tuple[Any, tuple[str, ...]] | None:
    """The source of ``tensor`` and how that is split, as `note_split` was told; else None."""
    found = _splits.get(id(tensor)) if _splits else None
    return None if found is None else found[1:]
