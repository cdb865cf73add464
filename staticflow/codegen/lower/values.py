"""The values of a cluster's nodes at an index, as registers of a kernel that is being built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import LANE_SYM, Operand
from staticflow.codegen.lower.refusals import CODES
from staticflow.errors import CompileError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size
from staticflow.graph.locs import format_locs
from staticflow.graph.node import Node, constant
from staticflow.ops.declaring.lowering import Checked, Elementwise, Generate, Index, View
from staticflow.passes.access import broadcast_index, source_of

__all__ = ["Values"]


class Values:
    """Emits what elements of nodes need, once for each index, in one block without stores.

    ``buffers`` are the arrays that stand in memory; ``known`` the nodes that are already in a
    register, each at one index. With ``lanes`` the index names ``lane``, and lanes at or past
    ``bound`` are not read. Without ``checks`` what is to be checked is known to be right.
    """

    def __init__(
        self,
        k: Builder,
        buffers: Mapping[Node, str],
        known: Mapping[Node, tuple[Index, Operand]] | None = None,
        lanes: int = 1,
        bound: Size | None = None,
        checks: bool = True,
    ) -> None:
        self.k, self.buffers = k, dict(buffers)
        self.known = dict(known or {})
        self.lanes, self.bound, self.checks = lanes, bound, checks
        self._done: dict[tuple[Node, Index], Operand] = {}

    def know(self, more: Mapping[Node, tuple[Index, Operand]]) -> None:
        """Learn of nodes that are in registers."""
        self.known |= more

    def hold(self, node: Node, buffer: str) -> None:
        """Learn of an array that stands in memory by now."""
        self.buffers[node] = buffer

    def at(self, node: Node, index: Index) -> Operand:
        """The element of ``node`` at ``index``. Iterative, as a cluster may be deep."""
        done = self._done
        stack = [(node, index)]
        while stack:
            key = stack[-1]
            if key in done:
                stack.pop()
                continue
            missing = [p for p in self._parts(*key) if p not in done]
            if missing:
                stack.extend(reversed(missing))
                continue
            done[key] = self._emit(*key, [done[p] for p in self._parts(*key)])
            stack.pop()
        return done[node, index]

    def _parts(self, node: Node, index: Index) -> list[tuple[Node, Index]]:
        """The elements that this one is computed from."""
        if node in self.known or node in self.buffers:
            return []
        if isinstance(node.op.lowering, View):
            return [source_of(node, index)]
        if isinstance(node.op.lowering, Elementwise):
            return [(a, broadcast_index(index, a.tensor_type.shape)) for a in node.args]
        return []

    def _emit(self, node: Node, index: Index, parts: list[Operand]) -> Operand:
        if node in self.known:
            known_index, operand = self.known[node]
            if known_index != index and not _is_one_element(node, known_index, index):
                raise CompileError(
                    f"{node.op.name} is computed at {known_index} and read at {index}, from "
                    f"{format_locs(node.locs)}; a bug in fusion"
                )
            return self._wide(operand)
        if node in self.buffers:
            return self._load(node, index)
        emit = _EMITTERS.get(type(node.op.lowering))
        if emit is None and node.op is not constant:
            raise CompileError(
                f"{node.op.name} ({node.type}, at {format_locs(node.locs)}) has no lowering that "
                "a kernel could inline"
            )
        operand = (
            _constant(self, node, index, parts) if emit is None else emit(self, node, index, parts)
        )
        return self.k.cast(operand, node.tensor_type.dtype)

    def _load(self, node: Node, index: Index) -> Operand:
        at = node.tensor_type.offset(index)
        lanes = self.lanes if LANE_SYM in symbols_of(at) else 1
        return self._wide(
            self.k.load(self.buffers[node], at, lanes, self.bound if lanes > 1 else None)
        )

    def _wide(self, operand: Operand) -> Operand:
        return operand if operand.lanes == self.lanes else self.k.splat(operand, self.lanes)


def _is_one_element(node: Node, a: Index, b: Index) -> bool:
    """Whether two indices differ only along dims of size 1, where the index is 0 however it is
    written: a loop's variable for what loops, 0 for what broadcasts."""
    shape = node.tensor_type.shape
    return broadcast_index(a, shape) == broadcast_index(b, shape)


def _constant(values: Values, node: Node, index: Index, parts: list[Operand]) -> Operand:
    number = node.attrs["value"].array.item()
    return values.k.const(number, node.tensor_type.dtype, values.lanes)


def _elementwise(values: Values, node: Node, index: Index, parts: list[Operand]) -> Operand:
    result: Operand = node.op.lowering.emit(values.k, *parts, **node.attrs)
    return result


def _check_and_emit(values: Values, node: Node, index: Index, parts: list[Operand]) -> Operand:
    if values.checks:
        inside = node.op.lowering.inside(values.k, *parts, **node.attrs)
        values.k.check(inside, CODES["index"])
    return _elementwise(values, node, index, parts)


def _generate(values: Values, node: Node, index: Index, parts: list[Operand]) -> Operand:
    result: Operand = node.op.lowering.emit(values.k, index, values.lanes, **node.attrs)
    return result


_EMITTERS: dict[type, Callable[..., Any]] = {
    Checked: _check_and_emit,
    Elementwise: _elementwise,
    Generate: _generate,
    View: lambda values, node, index, parts: parts[0],
}
