"""Arguments that a jitted function changes in place: the caller's tensors take the new elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from staticflow.data_classes import dataclass
from staticflow.eager.in_place import assign, refuse_change
from staticflow.eager.tensor import Tensor
from staticflow.eager.vertex import Output
from staticflow.errors import ShapeError, SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node
from staticflow.ops.basics.arithmetic import keep_history
from staticflow.ops.declaring.thread import recording, thread
from staticflow.ops.symbols.effect import without_effects
from staticflow.ops.symbols.symbol import Symbol
from staticflow.runtime.overlaps import share_elements

__all__ = ["Change", "apply_changes", "find_changes", "is_recorded", "refuse_changes"]


@dataclass(frozen=True, slots=True)
class Change:
    """The array argument at ``position``, which errors call ``name``, takes the value of the result
    ``result`` of the call, which a derivative reaches from the operands ``behind``; and its
    history, where the change is ``recorded``."""

    position: int
    name: str
    result: int
    behind: frozenset[int]
    recorded: bool


def find_changes(
    inputs: Sequence[Symbol], handles: Sequence[Symbol], names: Sequence[str]
) -> Iterator[tuple[int, str, Node]]:
    """The positions, names and new values of the arguments ``inputs`` that their ``handles`` name
    no more after the trace.

    Raises `ShapeError` where such a value has another shape.
    """
    for position, (given, handle, name) in enumerate(zip(inputs, handles, names, strict=True)):
        node = without_effects(handle.node)
        if node is given.node:
            continue
        if node.type != given.node.type:
            raise ShapeError(
                f"jit: the function makes {node.type} of its argument {name}, {given.node.type}, "
                f"in place (at {format_locs(node.locs)}); a change in place keeps the shape of the "
                f"caller's tensor: return the new one instead, at {format_locs(here())}"
            )
        yield position, name, handle.node


def is_recorded(node: Node, operands: Sequence[Node]) -> bool:
    """Whether the new value ``node`` has another history than one of ``operands`` has, which was
    changed where operations are not recorded."""
    while node.op is keep_history:
        node = without_effects(node.args[0])
    return node not in operands


def refuse_changes(changes: Sequence[Change], arguments: int, operands: Sequence[Tensor]) -> None:
    """Refuse, before anything is done, what an eager change refuses (a leaf that requires a
    gradient, memory that is read-only or was expanded), and a change that would show in another of
    the ``operands``, of which the first so many are ``arguments``."""
    for change in changes:
        x = operands[change.position]
        what = f"a change of argument {change.name} of a jitted function in place"
        behind = any(operands[i].requires_grad for i in change.behind)
        with recording(thread.state.recording and change.recorded):
            refuse_change(x, behind, what)
        for i, other in enumerate(operands):
            if i != change.position and share_elements(x._data, other._data):
                who = "another argument" if i < arguments else "a tensor that it closes over"
                raise SymbolicError(
                    f"{what} would show in {who}, {other.dtype.name}{list(other.shape)}, on the "
                    "same memory, of which the compiled program does not know; pass a clone of one "
                    f"of them, at {format_locs(here())}"
                )


def apply_changes(
    changes: Sequence[Change], operands: Sequence[Tensor], results: Sequence[Tensor], since: int
) -> None:
    """Put the new values, among the ``results`` of a call that was recorded ``since``, in place."""
    for change in changes:
        x, value = operands[change.position], results[change.result]
        if x.shape != value.shape:
            raise ShapeError(
                f"jit: an in-place operation cannot change the shape {list(x.shape)} of argument "
                f"{change.name} to {list(value.shape)}, at {format_locs(here())}"
            )
    recorded = [c.recorded and any(operands[i].requires_grad for i in c.behind) for c in changes]
    entry = next((r._vertex.entry for r in results if type(r._vertex) is Output), None)
    for change, with_history in zip(changes, recorded, strict=True):
        x, value = operands[change.position], results[change.result]
        if entry is not None:  # the call keeps its operands for its derivative
            entry.copy_before_change(x._own_memory())
        with recording(thread.state.recording and change.recorded):
            assign(x, value if with_history else value.detach(), since)
