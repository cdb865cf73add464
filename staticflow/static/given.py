"""What `compile` is given: inputs with their names, and updates that fit their tensors."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from staticflow import pytree
from staticflow.eager.tensor import Tensor
from staticflow.errors import AutogradError, ShapeError, SymbolicError
from staticflow.graph.equalities import Equality
from staticflow.graph.locs import format_locs, here, merge_locs
from staticflow.graph.node import Node, param, toposort
from staticflow.graph.types import TensorType
from staticflow.ops.symbols.captured import capture, whole_shape
from staticflow.ops.symbols.effect import without_effects
from staticflow.ops.symbols.symbol import Symbol, to_node
from staticflow.runtime.overlaps import find_sharing, overlaps_itself
from staticflow.static.inputs import refuse_crowd

__all__ = [
    "add_effects", "assume_fits", "captured_params", "describe_shared_elements", "name_inputs",
    "new_value", "pair_updates", "refuse_shared_elements",
]  # fmt: skip


def name_inputs(inputs: Any) -> tuple[tuple[str, ...], list[Symbol]]:
    """The names of the inputs and a handle of each. Raises `SymbolicError` for what is no
    placeholder, and for two of one name."""
    if callable(inputs):
        raise SymbolicError(
            "compile: takes symbols, not a function; sf.jit(f) traces one"
            f", at {format_locs(here())}"
        )
    if isinstance(inputs, Symbol) or not isinstance(inputs, Iterable):
        raise SymbolicError(
            f"compile: inputs are a list, as in compile([x], ...), at {format_locs(here())}"
        )
    named = isinstance(inputs, Mapping)
    given = list(inputs.values() if isinstance(inputs, Mapping) else inputs)
    # a placeholder that was printed is the same placeholder
    handles = [Symbol(without_effects(h.node)) if isinstance(h, Symbol) else h for h in given]
    refuse_crowd(len(handles), "compile")
    for h in handles:
        if (
            not isinstance(h, Symbol)
            or h.node.op is not param
            or h.node.attrs["source"] is not None
        ):
            shown = reprlib.repr(h) if isinstance(h, list | tuple | dict) else repr(h)
            if pytree.flatten(h)[1].kind not in (None, type(None)):
                raise SymbolicError(
                    f"compile: an input is {shown}; an input is one placeholder, and no tree of "
                    "them: give the leaves, [*staticflow.pytree.flatten(tree)[0]], or jit a "
                    f"function, which takes trees, at {format_locs(here())}"
                )
            raise SymbolicError(
                f"compile: an input is {shown}; inputs are what sf.placeholder made, and not what "
                "an in-place operation made of it: change a clone (y = x.clone(); y += 1), "
                f"at {format_locs(here())}"
            )
    if len({h.node for h in handles}) != len(handles):
        raise SymbolicError(f"compile: an input is named twice, at {format_locs(here())}")
    names = tuple(inputs) if named else tuple(h.node.attrs["name"] for h in handles)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise SymbolicError(
            f"compile: two inputs are called {twice[0]!r}; give them names of their own, "
            f"at {format_locs(here())}"
        )
    return names, handles


def pair_updates(updates: Any) -> list[tuple[Tensor, Any]]:
    """The updates as pairs of a tensor and its new value. Raises `SymbolicError` for what is no
    such pair."""
    if not isinstance(updates, Mapping | Iterable | None):
        raise SymbolicError(
            f"compile: updates are a mapping {{tensor: new value}}, not {type(updates).__name__}; "
            f"an optimiser gives one, updates=opt.minimize(loss), at {format_locs(here())}"
        )
    pairs = list(updates.items() if isinstance(updates, Mapping) else updates or ())
    seen: set[Tensor] = set()
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], Tensor):
            raise SymbolicError(
                "compile: updates are a mapping {tensor: new value}, or pairs of the two, not "
                f"{pair!r}, at {format_locs(here())}"
            )
        t, value = pair
        if isinstance(value, Tensor):
            raise SymbolicError(
                f"compile: the new value of a tensor of shape {list(t.shape)} is an eager tensor, "
                "computed once and now; start from sf.symbol(t), as in "
                f"updates={{t: sf.symbol(t) + 1}}, at {format_locs(here())}"
            )
        if t in seen:
            raise ShapeError(
                f"compile: a tensor of shape {list(t.shape)} is updated twice, at "
                f"{format_locs(here())}"
            )
        seen.add(t)
        _refuse_history(t)
    return pairs


def _refuse_history(t: Tensor) -> None:
    """Raise `AutogradError` if a tensor that is to be updated was computed from others, or is a
    view of such a one: a graph computes it anew where it is read, and would not see the update. A
    view of a leaf stays what it is."""
    base = t if t._view is None else t._view.base
    vertex = base._current_vertex()
    if vertex is None or vertex is base:
        return
    raise AutogradError(
        f"compile: the updates have {_name(t)}, which was computed by {vertex.name()} (made at "
        f"{format_locs(vertex.locs)}) from a tensor that requires a gradient: a graph computes it "
        "anew wherever it is read, so that no update would be seen, and its history would not be "
        "that of the new value; update t.detach(), which is on the same memory, or a copy, "
        f"sf.variable(t), at {format_locs(here())}"
    )


def refuse_shared_elements(updated: Sequence[Tensor]) -> None:
    """Raise `ShapeError` if what is ``updated`` has two elements in one place of memory."""
    found = describe_shared_elements(updated)
    if found:
        raise ShapeError(f"compile: {found}, at {format_locs(here())}")


def describe_shared_elements(updated: Sequence[Tensor]) -> str:
    """In words, which of the tensors ``updated`` have elements in one place of memory, that cannot
    take a new value each, and what to do; nothing if none have."""
    on_host = [t for t in updated if t.__sf_gpu__ is None]
    for t in on_host:
        if overlaps_itself(t._data):
            return (
                f"the updates have {_name(t)} with strides {list(t.stride())}, of which several "
                "elements lie in one place of memory and cannot take a new value each; update "
                "t.clone(), or the tensor that it was expanded from"
            )
    pair = find_sharing([t._data for t in on_host])
    if pair is None:
        return ""
    one, other = (on_host[i] for i in pair)
    return (
        f"the updates have {_name(one)} with strides {list(one.stride())} and {_name(other)} with "
        f"strides {list(other.stride())}, which have elements in one place of memory, and each "
        "gives these a new value; update one of the two, or a clone of one"
    )


def _name(t: Tensor) -> str:
    return f"{t.name or 'a tensor'}, {TensorType(t.dtype, t.shape)},"


def add_effects(
    pairs: Sequence[tuple[Tensor, Any]], changed: Mapping[Node, Node]
) -> list[tuple[Tensor, Any]]:
    """The updates, with those of the variables that the graph changes on its way."""
    given = {t for t, _ in pairs}
    more = [(v.attrs["source"], Symbol(new)) for v, new in changed.items()]
    for t, new in more:
        if t in given:
            raise ShapeError(
                f"compile: {t.name or 'a tensor'} of shape {list(t.shape)} is among the updates, "
                f"and the graph changes it on its way, at {format_locs(new.node.locs)}; leave it "
                f"out of the updates, at {format_locs(here())}"
            )
    return [*pairs, *more]


def new_value(t: Tensor, value: Any) -> Node:
    """The node of the new ``value`` of a tensor, of its dtype and rank."""
    node = to_node(value, t.dtype)
    have = node.tensor_type
    if have.dtype is not t.dtype or have.ndim != t.ndim:
        raise ShapeError(
            f"compile: the new value of a variable {TensorType(t.dtype, whole_shape(t))} is "
            f"{have}; they "
            f"must agree, at {format_locs(merge_locs(node.locs, here()))}"
        )
    return node


def assume_fits(t: Tensor, value: Node) -> Iterator[Equality]:
    """What must hold of sizes for ``value`` to be stored over ``t``."""
    shape = whole_shape(t)
    what = f"the new value of a variable {TensorType(t.dtype, shape)} is {value.tensor_type}"
    for a, b in zip(value.tensor_type.shape, shape, strict=True):
        if a != b:
            yield Equality(a, b, what, merge_locs(value.locs, here()))


def captured_params(
    inputs: Sequence[Node], outputs: Sequence[Node], updated: Sequence[Tensor]
) -> list[Node]:
    """The params that stand for eager tensors, those that are only written included."""
    found: dict[Node, None] = {}
    known = set(inputs)
    for node in toposort(outputs):
        if node.op is not param or node in known:
            continue
        if node.attrs["source"] is None:
            raise SymbolicError(
                f"compile: the outputs need the placeholder {node.attrs['name']!r} ({node.type}, "
                f"made at {format_locs(node.locs)}), which is not among the inputs, "
                f"at {format_locs(here())}"
            )
        found[node] = None
    for t in updated:
        found[capture(t)] = None
    return list(found)
