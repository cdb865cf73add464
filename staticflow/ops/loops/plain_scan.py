"""A scan as it is without lags, lengths and segments: run on tensors, or a loop of the graph."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NoReturn

import numpy as np

from staticflow import pytree
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Size, fresh_sym
from staticflow.graph.dtypes import bool_
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import TensorType
from staticflow.ops.basics.arithmetic import logical_not
from staticflow.ops.basics.joining import stack
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import thread
from staticflow.ops.loops.budget import bytes_of_iteration
from staticflow.ops.loops.carry import (
    call,
    check_flag,
    check_leaves,
    check_pair,
    detach_unrecorded,
    loop_over,
    note_iteration,
)
from staticflow.ops.loops.inner_sizes import refuse_inner_sizes
from staticflow.ops.loops.isolation import Apart
from staticflow.ops.loops.leaves import tensor_of, tensors_of
from staticflow.ops.loops.meets_symbol import refuse_late
from staticflow.ops.loops.region import trace, types_of_result
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["ENDLESS", "PlainScan"]

ENDLESS = 1 << 63
"""The first number of iterations, or of bytes, that 64 bits with a sign do not count."""


class PlainScan:
    """The arguments of a scan, and its two ways."""

    def __init__(
        self,
        fn: Callable[[Any, Any], tuple[Any, Any]],
        init: Sequence[Any],
        carry_tree: pytree.TreeDef,
        xs: Sequence[Any],
        xs_tree: pytree.TreeDef,
        length: Size,
        reverse: bool,
        until: Callable[[Any, Any], Any] | None,
    ) -> None:
        self.fn, self.until = fn, until
        self.init, self.carry_tree = init, carry_tree
        self.xs, self.xs_tree = xs, xs_tree
        self.length, self.reverse = length, reverse

    def init_as_given(self) -> Any:
        """The tree of the carry."""
        return pytree.unflatten(self.carry_tree, self.init)

    def xs_as_given(self) -> Any:
        """The tree of the xs."""
        return pytree.unflatten(self.xs_tree, self.xs)

    def now(self) -> tuple[Any, Any]:
        """Run on tensors."""
        apart, y_tree, columns = self._run()
        step = -1 if self.reverse else 1
        stacked = [stack(column[::step]) for column in columns]
        ys = pytree.unflatten(y_tree, stacked) if y_tree is not None else self._nothing()
        del columns
        return detach_unrecorded(pytree.unflatten(self.carry_tree, eager.own(apart.carry))), ys

    def _run(self) -> tuple[Apart, pytree.TreeDef | None, list[tuple[Any, ...]]]:
        """The carry after all iterations, and the leaves of their ys, those of one position
        together. The functions get a carry of their own, and rows that cannot be changed: a change
        in place would reach the tensors that the loop was given."""
        apart = Apart("scan", self.init)
        xs = [eager.protect(leaf[:]) for leaf in self.xs]
        rows: list[list[Any]] = []
        y_tree: pytree.TreeDef | None = None
        assert isinstance(self.length, int)
        state = thread.state
        sizes: int | None = state.sizes
        for step in reversed(range(self.length)) if self.reverse else range(self.length):
            x = pytree.unflatten(self.xs_tree, [leaf[step] for leaf in xs])
            try:
                after, y, tree = self._step(pytree.unflatten(self.carry_tree, apart.carry), x)
                if Symbol in builtins.map(type, (*after, *y)):
                    refuse_late("scan", "fn")
                if sizes not in (None, state.sizes):
                    sizes = None
                    refuse_inner_sizes("scan", self._trace_step, self._types(), self.fn)
                y_tree = y_tree or tree
                if tree != y_tree:
                    _refuse_another(y_tree, tree)
                if not rows and self.until is None:
                    _refuse_endless(self.length, y)
                rows.append(apart.follow(after, y))
                if self.until is not None and self._stops_now(apart, y_tree, rows):
                    break
            except Exception as error:
                note_iteration(error, len(rows), "scan")
                raise
        if self.until is not None:
            state.sizes += 1  # the number of the iterations
        columns = list(zip(*rows, strict=True))
        for name, column in zip(pytree.paths(y_tree or pytree.NONE, "y"), columns, strict=True):
            apart.refuse_changed_ys(column)
            _check_column(name, column)
        return apart, y_tree, columns

    def _stops_now(self, apart: Apart, y_tree: pytree.TreeDef, rows: list[list[Any]]) -> bool:
        """Whether the loop ends after the iteration that gave the last of the ``rows``."""
        y = pytree.unflatten(y_tree, rows[-1])
        stops = self._stops(pytree.unflatten(self.carry_tree, apart.carry), y)
        if type(stops) is Symbol:
            refuse_late("scan", "until")
        if len(rows) == 1:
            apart.refuse_changed_carry("until")
        return bool(stops)

    def _nothing(self) -> Any:
        """The ys of no iteration: a trace tells what they would be."""
        _, y = types_of_result(self._trace_step, self._types())
        beside = next(iter((*self.init, *self.xs)), None)
        return pytree.map_tree(
            lambda v: tensor_of(np.zeros((0, *v.shape), v.dtype.numpy), beside=beside), y
        )

    def bytes_of_iteration(self) -> Size:
        """The bytes of all that an iteration computes."""
        return bytes_of_iteration(self._trace_step, self._types())

    def _types(self) -> list[TensorType]:
        types = [TensorType(leaf.dtype, leaf.__sf_shape__) for leaf in self.init]
        return [*types, *(TensorType(x.dtype, x.__sf_shape__[1:]) for x in self.xs)]

    def _step(self, carry: Any, x: Any) -> tuple[list[Any], list[Any], pytree.TreeDef]:
        """What an iteration gives: the tensors of the carry, those of y, and the tree of y."""
        result = check_pair(call("scan", "fn", self.fn, carry, x))
        after = check_leaves("scan", self.carry_tree, self.init, result[0])
        y_leaves, y_tree = pytree.flatten(result[1])
        return after, tensors_of("scan", "y", y_tree, y_leaves), y_tree

    def _trace_step(self, values: Sequence[Any]) -> tuple[Any, Any]:
        split = len(self.init)
        after, y, y_tree = self._step(
            pytree.unflatten(self.carry_tree, values[:split]),
            pytree.unflatten(self.xs_tree, values[split:]),
        )
        return pytree.unflatten(self.carry_tree, after), pytree.unflatten(y_tree, y)

    def _stops(self, carry: Any, y: Any) -> Any:
        return check_flag(
            "scan: what until(carry, y) gives", call("scan", "until", self.until, carry, y)
        )

    def in_graph(self) -> tuple[Any, Any]:
        """A loop of the graph."""
        flag = [] if self.until is None else [constant_node(True, bool_)]
        carries = [*flag, *(to_node(x) for x in self.init)]
        turned = self.reverse and self.until is not None
        rows = [to_node(x.flip(0) if turned else x) for x in self.xs]

        def step(values: Sequence[Any]) -> tuple[Any, Any, Any]:
            carry, y = self._trace_step(values[len(flag) :])
            if self.until is None:
                return None, carry, y
            stop = self._stops(carry, y)
            return not stop if isinstance(stop, bool) else logical_not(stop), carry, y

        own, (go_on, carry, y), began = trace(
            step,
            [
                *(c.tensor_type for c in carries),
                *(TensorType(r.tensor_type.dtype, r.tensor_type.shape[1:]) for r in rows),
            ],
            what="scan: fn",
            users=(self.fn, self.until),
        )
        y_leaves, y_tree = pytree.flatten(y)
        flags = [to_node(go_on)] if flag else []
        binds = (fresh_sym("iterations", self.length + 1, late=True),) if flag else ()
        outs = [to_node(v) for v in (*pytree.flatten(carry)[0], *y_leaves)]
        last, ys = loop_over(
            carries, rows, own, [*flags, *outs], began, self.length, self.reverse, binds
        )
        if turned:
            ys = [y.flip(0) for y in ys]
        return (
            pytree.unflatten(self.carry_tree, last[len(flag) :]),
            pytree.unflatten(y_tree, ys),
        )


_type_of = attrgetter("dtype", "__sf_shape__")


def _check_column(name: str, column: Sequence[Any]) -> None:
    """Hold the ``column`` of what the iterations give for one leaf of y to the type of the
    first."""
    types = [*builtins.map(_type_of, column)]
    if types.count(types[0]) < len(types):
        first, other = types[0], next(t for t in types if t != types[0])
        error = DTypeError if first[0] is not other[0] else ShapeError
        _refuse_another(f"{name} {TensorType(*first)}", f"{name} {TensorType(*other)}", error)


def _refuse_another(
    first: object, later: object, error: type[DTypeError | ShapeError] = ShapeError
) -> NoReturn:
    """Refuse the y of a ``later`` iteration that is not as that of the ``first``."""
    raise error(
        f"scan: y is {first} in the first iteration, and {later} in a later one; every iteration "
        f"must give the same structure, shapes and dtypes, as they are stacked, "
        f"at {format_locs(here())}"
    )


def _refuse_endless(length: int, y: Sequence[Any]) -> None:
    """Refuse ys of so many rows like ``y`` that no memory has an address for each byte."""
    bytes_ = sum(leaf.numel() * leaf.dtype.itemsize for leaf in y)
    if length * bytes_ >= ENDLESS:
        raise ShapeError(
            f"scan: {length} rows of {bytes_} bytes are more than any memory holds; give a smaller "
            f"length, or carry what is needed of y, at {format_locs(here())}"
        )
