"""Loops that go on as long as a condition holds, and loops over a range of numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from staticflow import pytree
from staticflow.errors import ArgumentError, DTypeError, ShapeError
from staticflow.graph.dims import Dim, Size, dim_max, fresh_sym
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import TensorType
from staticflow.ops.basics.creation import full, iota
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.declaring.thread import thread
from staticflow.ops.loops.budget import with_budget
from staticflow.ops.loops.carry import (
    call,
    check_flag,
    check_leaves,
    check_tree,
    detach_unrecorded,
    loop_over,
    note_iteration,
)
from staticflow.ops.loops.checkpoint import Checkpoint, check_choice, while_in_segments
from staticflow.ops.loops.inner_sizes import refuse_inner_sizes
from staticflow.ops.loops.isolation import Apart
from staticflow.ops.loops.leaves import tensor_of, tensors_of
from staticflow.ops.loops.meets_symbol import in_graph, refuse_late, run_or_write, write_first
from staticflow.ops.loops.region import trace, trace_at_once
from staticflow.ops.loops.scan import scan
from staticflow.ops.loops.unrolled import check_unroll
from staticflow.ops.symbols.symbol import STATIC, Symbol, to_node

__all__ = ["fori_loop", "while_loop"]


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    init: Any,
    *,
    checkpoint: Checkpoint = None,
    memory_budget: int | None = None,
) -> Any:
    """Call ``carry = body_fn(carry)`` as long as ``cond_fn(carry)`` is true, from ``init`` on.

    ``init`` is a tree of tensors; if it is a tuple the functions get its elements as arguments of
    their own, ``cond_fn(*init)``. ``cond_fn`` gives one bool, ``body_fn`` what it was given, in the
    same structure, shapes and dtypes. Returns the last carry. On symbols this is one loop of the
    graph; it can be differentiated any number of times without a bound on its iterations, whose
    number is known only as the program runs. A loop that changes nothing that is asked for is taken
    to end, and left out. On tensors it runs now.

    A graph that differentiates the loop keeps the carry of every iteration, unless ``checkpoint``
    says how many iterations are computed again instead: a number of them, or ``"sqrt"`` for as many
    as the square root of twice the iterations, whatever their number turns out to be. A
    ``memory_budget``, the bytes that a program with this loop or its derivative may take, makes it
    ``"sqrt"``; a call that would take more ends with `ArgumentError` before it does.

    >>> import staticflow as sf
    >>> sf.while_loop(lambda n, x: x < 100, lambda n, x: (n + 1, x * 2), (0, sf.tensor(3.0)))
    (tensor(6), tensor(192.))
    """
    leaves, tree = pytree.flatten(init)
    leaves = tensors_of("while_loop", "init", tree, leaves)
    init = pytree.unflatten(tree, leaves)

    def condition(carry: Any) -> Any:
        args = carry if type(carry) is tuple else (carry,)
        answer = call("while_loop", "cond_fn", cond_fn, *args)
        return check_flag("while_loop: what cond_fn gives", answer)

    def iteration(carry: Any) -> list[Any]:
        args = carry if type(carry) is tuple else (carry,)
        result = call("while_loop", "body_fn", body_fn, *args)
        return check_leaves("while_loop", tree, leaves, result)

    def body(carry: Any) -> Any:
        return pytree.unflatten(tree, iteration(carry))

    check_choice("while_loop", checkpoint, memory_budget)

    def write() -> Any:
        if memory_budget is not None and leaves:
            start = pytree.unflatten(tree, with_budget("while_loop", memory_budget, leaves))
            return while_in_segments(while_loop, condition, body, start, "sqrt")
        if checkpoint not in (None, "all"):
            return while_in_segments(while_loop, condition, body, init, checkpoint)
        return _in_graph(condition, body, leaves, tree)

    if in_graph(*leaves):
        return trace_at_once(write)
    written = write_first(write, cond_fn, body_fn)
    return _now(condition, iteration, leaves, tree, body_fn) if written is None else written[0]


def _now(
    condition: Callable[[Any], Any],
    body: Callable[[Any], list[Any]],
    leaves: list[Any],
    tree: pytree.TreeDef,
    code: Any,
) -> Any:
    """Run on tensors; ``code`` is the function of the user's that ``body`` calls."""
    apart = Apart("while_loop", leaves)
    state = thread.state
    sizes: int | None = state.sizes
    for iteration in itertools.count():
        carry = pytree.unflatten(tree, apart.carry)
        going = condition(carry)
        if isinstance(going, Symbol):
            refuse_late("while_loop", "cond_fn")
        if not iteration:
            apart.refuse_changed_carry("cond_fn")
        if not going:
            del carry
            return detach_unrecorded(pytree.unflatten(tree, eager.own(apart.carry)))
        try:
            after = body(carry)
            if Symbol in map(type, after):
                refuse_late("while_loop", "body_fn")
            if sizes not in (None, state.sizes):
                sizes = None
                _refuse_inner_sizes(body, leaves, tree, code)
            apart.follow(after, [])
        except Exception as error:
            note_iteration(error, iteration, "while_loop")
            raise


def _refuse_inner_sizes(
    body: Callable[[Any], Any], leaves: list[Any], tree: pytree.TreeDef, code: Any
) -> None:
    types = [TensorType(v.dtype, v.__sf_shape__) for v in leaves]
    refuse_inner_sizes("while_loop", lambda v: body(pytree.unflatten(tree, v)), types, code)


def _in_graph(
    condition: Callable[[Any], Any],
    body: Callable[[Any], Any],
    leaves: list[Any],
    tree: pytree.TreeDef,
) -> Any:
    nodes = [to_node(v) for v in leaves]
    going = to_node(trace_at_once(lambda: condition(pytree.unflatten(tree, map(Symbol, nodes)))))

    def iteration(values: list[Symbol]) -> tuple[Any, Any]:
        carry = body(pytree.unflatten(tree, values[1:]))
        return condition(carry), carry

    own, (again, carry), began = trace(
        iteration,
        [going.tensor_type, *(n.tensor_type for n in nodes)],
        what="while_loop: body",
        users=(condition, body),
    )
    after = [to_node(v) for v in pytree.flatten(carry)[0]]
    last, _ = loop_over(
        [going, *nodes],
        [],
        own,
        [to_node(again), *after],
        began,
        None,
        binds=(fresh_sym("iterations", late=True),),
    )
    return pytree.unflatten(tree, last[1:])


def fori_loop(
    lo: Any, hi: Any, body: Callable[[Any, Any], Any], init: Any, unroll: int | bool = 1
) -> Any:
    """``carry = body(i, carry)`` for i from ``lo`` up to, not including, ``hi``; the last carry.

    The bounds are ints, sizes or integer tensors of no dims; ``i`` is an int64 tensor of no dims.
    The carry is a tree of tensors that ``body`` gives back as it got it; a number in it is a tensor
    of no dims. ``unroll`` is that of `scan`; it needs bounds that are ints or sizes.

    >>> import staticflow as sf
    >>> sf.fori_loop(0, 4, lambda i, x: x + i, sf.tensor(0.0))
    tensor(6.)
    """
    lo, hi = map(_as_bound, (lo, hi))
    check_unroll("fori_loop", unroll)
    given, tree = pytree.flatten(init)
    leaves = tensors_of("fori_loop", "init", tree, given)
    init = pytree.unflatten(tree, leaves)

    def iteration(i: Any, carry: Any) -> Any:
        return check_tree("fori_loop", carry, call("fori_loop", "body", body, i, carry))

    def run() -> Any:
        if isinstance(lo, int | Dim) and isinstance(hi, int | Dim):
            count = dim_max(hi - lo, 0)
            if isinstance(count, int) and count >= 1 << 63:
                raise ShapeError(
                    f"fori_loop: {count} iterations are more than 64 bits count; give bounds that "
                    f"are nearer, at {format_locs(here())}"
                )
            numbers = _range(lo, count, leaves)
            return scan(lambda carry, i: (iteration(i, carry), None), init, numbers, unroll=unroll)[
                0
            ]
        if unroll is True or unroll > 1:
            raise ArgumentError(
                "fori_loop: unroll needs bounds that are ints or sizes, and one is a tensor; leave "
                f"it out, at {format_locs(here())}"
            )
        beside = hi if isinstance(lo, int | Dim) else lo
        zero = full.beside(beside, shape=(), value=0, dtype=int64)
        start, end = zero + lo, zero + hi
        _, last = while_loop(
            lambda i, carry: i < end, lambda i, carry: (i + 1, iteration(i, carry)), (start, init)
        )
        return last

    return run_or_write(run, (lo, hi, leaves), body)


def _range(lo: Size, length: Size, leaves: list[Any]) -> Any:
    """The numbers from ``lo`` on, in the mode and on the device of the carry ``leaves``."""
    if in_graph(*leaves, length, lo):
        return STATIC.apply(iota, (), {"shape": (length,), "dim": 0, "dtype": int64}) + lo
    beside = next(iter(leaves), None)
    return tensor_of(np.arange(int(length), dtype=np.int64), beside=beside) + lo


def _as_bound(given: Any) -> Any:
    """A bound of a `fori_loop`: an int, a size, or a tensor of one integer."""
    if not hasattr(given, "__sf_mode__"):
        return as_size(given)
    if given.ndim or given.dtype.kind not in "iu":
        raise DTypeError(
            f"fori_loop: a bound is {given.dtype.name}{list(given.shape)}; it must be an integer, "
            f"or a tensor of an integer dtype and of no dims, at {format_locs(here())}"
        )
    return given
