"""The values of a cluster's nodes at an index, as registers of a kernel that is being built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import LANE_SYM, Operand
from staticflow.codegen.lower.refusals import code_of
from staticflow.errors import CompileError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs
from staticflow.graph.node import Node, constant
from staticflow.ops.declaring.lowering import (
    Checked,
    Elementwise,
    Generate,
    Index,
    IndexCheck,
    LoopNest,
    View,
)
from staticflow.passes.access import broadcast_index, chosen_from, source_of

__all__ = ["Values"]


class Values:
    """Emits what elements of nodes need, once for each index, in one block without stores.

    ``buffers`` are the arrays that stand in memory; ``known`` the nodes that are already in a
    register, each at one index. With ``lanes`` the index names ``lane``, and lanes at or past
    ``bound`` are not read. Without ``checks`` what is to be checked is known to be right; else
    the members of ``checked`` are told apart by their positions in it.
    """

    def __init__(
        self,
        k: Builder,
        buffers: Mapping[Node, str],
        known: Mapping[Node, tuple[Index, Operand]] | None = None,
        lanes: int = 1,
        bound: Size | None = None,
        checks: bool = True,
        checked: Sequence[Node] = (),
    ) -> None:
        self.k, self.buffers = k, dict(buffers)
        self.known = dict(known or {})
        self.lanes, self.bound, self.checks = lanes, bound, checks
        self._members = {node: number for number, node in enumerate(checked)}
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

    def check(self, node: Node, index: Index) -> None:
        """Look at what is to be checked of the element of ``node`` at ``index``, and at no more."""
        chosen = chosen_from(node, index)
        if chosen is None:
            self.at(node, index)
        else:
            self.positions(node, [self.at(*part) for part in self._parts(node, index)])

    def positions(self, node: Node, named: Sequence[Operand]) -> list[Size]:
        """The positions that a node chooses, from those that index tensors hold, which are
        checked."""
        k = self.k
        checks: Sequence[IndexCheck] = node.op.lowering.checks(
            *(a.tensor_type for a in node.args), **node.attrs
        )
        found: list[Size] = []
        for value, check in zip(named, checks, strict=True):
            value = k.cast(value, int64)
            size = k.index_value(check.size)
            if check.wraps:
                from_end = k.compare("lt", value, 0)
                value = k.select(from_end, k.apply("add", value, size), value)
            self.refuse(
                node, k.apply("and", k.compare("ge", value, 0), k.compare("lt", value, size))
            )
            found.append(k.bind(value, "at", check.size))
        return found

    def refuse(self, node: Node, unless: Operand, reason: str = "index") -> None:
        """End the program for what is checked of ``node``, unless it is known to be right."""
        if self.checks:
            self.k.check(unless, code_of(reason, self._members.get(node, 0)))

    def _parts(self, node: Node, index: Index) -> list[tuple[Node, Index]]:
        """The elements that this one is computed from."""
        if node in self.known or node in self.buffers:
            return []
        if isinstance(node.op.lowering, View):
            return [source_of(node, index)]
        if isinstance(node.op.lowering, Elementwise):
            return [(a, broadcast_index(index, a.tensor_type.shape)) for a in node.args]
        chosen = chosen_from(node, index)
        return [] if chosen is None else [*zip(node.args[1:], chosen[0], strict=True)]

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
        emit = _constant if node.op is constant else _EMITTERS.get(type(node.op.lowering))
        made = None if emit is None else emit(self, node, index, parts)
        if made is None:
            raise CompileError(
                f"{node.op.name} ({node.type}, at {format_locs(node.locs)}) has no lowering that "
                "a kernel could inline"
            )
        return self.k.cast(made, node.tensor_type.dtype)

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
        values.refuse(node, inside, node.op.lowering.reason)
    return _elementwise(values, node, index, parts)


def _choose(values: Values, node: Node, index: Index, parts: list[Operand]) -> Operand | None:
    chosen = chosen_from(node, index)
    if chosen is None:
        return None
    return values.at(node.args[0], chosen[1](values.positions(node, parts)))


def _generate(values: Values, node: Node, index: Index, parts: list[Operand]) -> Operand:
    result: Operand = node.op.lowering.emit(values.k, index, values.lanes, **node.attrs)
    return result


_EMITTERS: dict[type, Callable[..., Any]] = {
    Checked: _check_and_emit,
    Elementwise: _elementwise,
    Generate: _generate,
    LoopNest: _choose,
    View: lambda values, node, index, parts: parts[0],
}
