"""What is carried from trip to trip: a tree of tensors that every trip gives back as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow import pytree
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Dim, Size
from staticflow.graph.dtypes import BY_PYTHON, DType, bool_
from staticflow.graph.graph import close, new_param
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType
from staticflow.ops.late import ties_of
from staticflow.ops.loop import scan_op, while_op
from staticflow.ops.region import affect, begun, close_over
from staticflow.ops.symbol import STATIC, Symbol, symbolic, to_node, tracing_state

__all__ = [
    "check_carry", "check_flag", "held", "in_graph", "is_in_graph", "leaves_as", "loop_over",
    "node_as", "nodes_as", "note_trip",
]  # fmt: skip


def in_graph(*values: Any) -> bool:
    """Whether a function called on ``values`` becomes part of a graph: inside a trace, and where
    one of them is a symbol or an unknown size."""
    return tracing_state.active or symbolic(*values)


def is_in_graph(tree: Any) -> bool:
    """Whether a result shows that what was called on tensors closes over symbols."""
    return any(isinstance(leaf, Symbol) for leaf in pytree.flatten(tree)[0])


def note_trip(error: Exception, trip: int, what: str) -> None:
    """Note in which trip of a loop that runs now an error was raised."""
    error.add_note(f"in trip {trip} of the {what} at {format_locs(here())}")


def held(what: str, before: Any, after: Any, name: str = "carry") -> Any:
    """``after``, if it is as a trip got it: where a loop carries more than its user gives, this is
    what its user may get wrong."""
    leaves, tree = pytree.flatten(before)
    check_carry(what, tree, leaves, leaves_as(what, tree, after, name), name)
    return after


def leaves_as(what: str, tree: pytree.TreeDef, carry: Any, name: str = "carry") -> list[Any]:
    """The leaves of a carry, of the structure that it came in with."""
    leaves, own = pytree.flatten(carry)
    if own != tree:
        raise ShapeError(
            f"{what}: the {name} came in as {tree} and went out as {own}, at {format_locs(here())}"
        )
    return leaves


def check_carry(
    what: str,
    tree: pytree.TreeDef,
    before: Sequence[Any],
    after: Sequence[Any],
    name: str = "carry",
) -> None:
    """Hold the leaves ``after`` a trip to those ``before``, of the ``name`` that the user knows.

    Sizes unknown on either side are left to the graph's assumptions; Python numbers take the dtype
    of the other.
    """
    wrong: list[str] = []
    error: type[DTypeError | ShapeError] = ShapeError
    for path, a, b in zip(pytree.paths(tree, name), before, after, strict=True):
        if not hasattr(a, "dtype") or type(b) in BY_PYTHON or _agree(a, b):
            continue
        if not hasattr(b, "dtype") or a.dtype is not b.dtype:
            error = DTypeError
        wrong.append(f"{path} came in as {_kind(a)} and went out as {_kind(b)}")
    if wrong:
        raise error(
            f"{what}: {', '.join(wrong)}; every step must give it back as it was: begin with a "
            f"value of that type, or convert the result, at {format_locs(here())}"
        )


def _agree(a: Any, b: Any) -> bool:
    return (
        hasattr(b, "dtype")
        and a.dtype is b.dtype
        and len(a.shape) == len(b.shape)
        and all(map(_may_agree, a.shape, b.shape))
    )


def _may_agree(a: Size, b: Size) -> bool:
    return a == b or isinstance(a, Dim) or isinstance(b, Dim)


def _kind(x: Any) -> TensorType | str:
    return TensorType(x.dtype, x.shape) if hasattr(x, "dtype") else type(x).__name__


def check_flag(what: str, flag: Any) -> Any:
    """``flag``, if it is one bool."""
    if isinstance(flag, bool):
        return flag
    if not hasattr(flag, "dtype") or flag.dtype != bool_ or flag.shape != ():
        raise DTypeError(
            f"{what} must be one bool, a tensor of no dims, not {_kind(flag)}; compare, as in "
            f"x > 0, and take .all() or .any() of several, at {format_locs(here())}"
        )
    return flag


def loop_over(
    carries: Sequence[Node],
    rows: Sequence[Node],
    own: Sequence[Node],
    outputs: Sequence[Node],
    began: int,
    length: Size | None,
    reverse: bool = False,
    binds: tuple[Dim, ...] = (),
) -> tuple[list[Any], list[Any]]:
    """The loop whose body computes ``outputs`` (carries, then ys) from its ``own`` params, traced
    from the serial number ``began`` on; guarded if it ``binds`` its number of trips. Gives the last
    carries and the stacked ys.

    Variables whose state the body changes are carried, too.
    """
    n = len(carries)
    region = close_over(own, outputs, began)
    changed, kept = region.changed, region.kept
    ties = ties_of([*carries, *rows, *region.captured], {"length": length})
    params = [
        *own[:n], *(s.start for s in changed.values()),
        *own[n:], *region.captured.values(), *(s.start for s in kept.values()),
        *(new_param(tie.tensor_type, "tie") for tie in ties),
    ]  # fmt: skip
    body = close(
        params, [*region.outputs[:n], *(s.end for s in changed.values()), *region.outputs[n:]]
    )
    operands = [
        *map(Symbol, carries), *begun(changed),
        *map(Symbol, (*rows, *region.captured)), *begun(kept), *map(Symbol, ties),
    ]  # fmt: skip
    attrs = {"body": body, "carries": n + len(changed), "xs": len(rows), "length": length}
    attrs |= {"binds": binds} if binds else {"reverse": reverse}
    values = STATIC.apply(while_op if binds else scan_op, operands, attrs)
    split = n + len(changed)
    news = dict(zip(changed, values[n:split], strict=True))
    always = [v for v, s in changed.items() if s.always]
    results = affect([*values[:n], *values[split:]], news, always)
    return results[:n], results[n:]


def nodes_as(leaves: Sequence[Any], carries: Sequence[Node]) -> list[Node]:
    """The nodes of what a trip gives back; numbers take the dtype of the carry."""
    return [node_as(v, c.tensor_type.dtype) for v, c in zip(leaves, carries, strict=True)]


def node_as(value: Any, dtype: DType | None) -> Node:
    """The node of ``value``; a number in ``dtype``, unless that has no room for its kind."""
    own = BY_PYTHON.get(type(value))
    fits = own is None or dtype is None or own.category <= dtype.category
    return to_node(value, dtype if fits else None)
