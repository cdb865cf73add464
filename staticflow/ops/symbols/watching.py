"""Hooks in graphs: functions that the gradient of a value goes through when it is made.

A hook is called with a symbol, once, as the derivative is written: what it computes is a part of
that. The hooks of a value that a function traced into a region has made become a `watch_op` of that
region, since a region keeps no nodes of the trace.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from staticflow.errors import AutogradError, DTypeError, ShapeError
from staticflow.graph.dims import same_shape
from staticflow.graph.graph import substitute_nodes
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node, item, make_node, toposort
from staticflow.graph.op import Op
from staticflow.graph.types import TensorType
from staticflow.ops.symbols.handle import Handle

__all__ = [
    "has_hooks", "register_hook", "run_hooks", "run_leaf_hooks", "through", "watch_nodes",
    "watch_op",
]  # fmt: skip

_tables: weakref.WeakKeyDictionary[Node, dict[Handle, Any]] = weakref.WeakKeyDictionary()


def register_hook(node: Node, hook: Callable[[Any], Any]) -> Handle:
    """Let the gradient of ``node`` go through ``hook``, until the handle is removed."""
    return Handle(_tables.setdefault(node, {}), hook)


def has_hooks(node: Node) -> bool:
    """Whether hooks wait for the gradient of ``node``."""
    return bool(_tables.get(node))


def run_hooks(node: Node, ct: Any) -> Any:
    """The cotangent that the hooks of ``node`` make of ``ct``."""
    table = _tables.get(node)
    return ct if table is None or ct is None else through(table.values(), ct)


def run_leaf_hooks(tensor: Any, ct: Any) -> Any:
    """The gradient that the hooks of ``tensor``, a leaf of the tape that a graph names, make of
    ``ct``. Raises `AutogradError` for what waits for the gradient to be in its ``.grad``."""
    hooks = tensor._hooks
    if hooks is None:
        return ct
    if hooks.after:
        raise AutogradError(
            f"a post accumulate grad hook of {tensor.name or 'a tensor'}, "
            f"{TensorType(tensor.dtype, tensor.shape)}: nothing is accumulated in .grad by a "
            "graph; use register_hook, or change the update that is compiled, at "
            f"{format_locs(here())}"
        )
    return through(hooks.before.values(), ct)


def through(hooks: Iterable[Any], ct: Any) -> Any:
    """The gradient that ``hooks`` make of ``ct``, one after the other: each gives another or None.

    Raises `DTypeError` or `ShapeError` for what is no gradient of the same tensor.
    """
    for hook in list(hooks):
        new = hook(ct)
        if new is None:
            continue
        name = getattr(hook, "__qualname__", repr(hook))
        if not hasattr(new, "__sf_mode__"):
            raise DTypeError(
                f"hook {name} gave {type(new).__name__}; a hook gives the new gradient, a tensor, "
                f"or None to leave it, at {format_locs(here())}"
            )
        if not same_shape(new.shape, ct.shape):
            raise ShapeError(
                f"hook {name} has changed the size of the gradient from {list(ct.shape)} to "
                f"{list(new.shape)}, at {format_locs(here())}"
            )
        ct = new.to(ct.dtype)
    return ct


def watch_nodes(roots: Sequence[Node], values: Mapping[Node, Node]) -> dict[Node, Node]:
    """``values``, what to put in the place of nodes, and for each node with hooks that ``roots``
    need a `watch_op` of it."""
    found = dict(values)
    for node in toposort(roots, known=values) if _tables else ():
        table = _tables.get(node)
        if table:
            (inner,) = substitute_nodes([node], found)
            found[node] = _watch(inner, partial(_through_one, table))
    return found


def _through_one(table: Mapping[Handle, Any], cts: Sequence[Any]) -> list[Any]:
    return [through(table.values(), ct) for ct in cts]


def _watch(node: Node, watcher: Callable[..., Any]) -> Node:
    watch = make_node(watch_op, (node,), {"watcher": watcher}, node.locs)
    return make_node(item, (watch,), {"index": 0}, node.locs)


def _vjp(needs: Any, cts: Sequence[Any], out: Any, *args: Any, watcher: Any) -> list[Any]:
    return [ct if need else None for ct, need in zip(watcher(cts), needs, strict=True)]


watch_op = Op(
    name="watch",
    doc="The arguments as they are; their gradients pass through ``watcher``.",
    infer=lambda facts, *xs, watcher: xs,
    reference=lambda xp, *xs, watcher: tuple(
        xp.array(x) for x in xs
    ),  # no two tensors on one memory
    vjp=_vjp,
    saves=(),  # said, since a trace of the vjp would call the user's hooks
    decompose=lambda *xs, watcher: xs,
    grad_name="BackwardHookFunctionBackward",
)
