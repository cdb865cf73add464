"""Loops that go on as long as a condition holds, and loops over a range of numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from staticflow import pytree
from staticflow.errors import DTypeError
from staticflow.graph.dims import Dim, dim_max, fresh_sym
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.carry import (
    check_carry,
    check_flag,
    held,
    in_graph,
    is_in_graph,
    leaves_as,
    loop_over,
    nodes_as,
    note_trip,
)
from staticflow.ops.checkpoint import Checkpoint, while_in_segments
from staticflow.ops.creation import full, iota
from staticflow.ops.region import trace
from staticflow.ops.scan import scan
from staticflow.ops.sizes import as_size
from staticflow.ops.symbol import STATIC, Symbol, to_node

__all__ = ["fori_loop", "while_loop"]


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    init: Any,
    *,
    checkpoint: Checkpoint = None,
) -> Any:
    """Call ``carry = body_fn(carry)`` as long as ``cond_fn(carry)`` is true, from ``init`` on.

    ``init`` is a tree of tensors; if it is a tuple the functions get its elements as arguments of
    their own, ``cond_fn(*init)``. ``cond_fn`` gives one bool, ``body_fn`` what it was given, in the
    same structure, shapes and dtypes. Returns the last carry. On symbols this is one loop of the
    graph; it can be differentiated any number of times without a bound on its trips, whose number
    is known only as the program runs. A loop that changes nothing that is asked for is taken to
    end, and left out. On tensors it runs now.

    A graph that differentiates the loop keeps the carry of every trip, unless ``checkpoint`` says
    how many trips are computed again instead: a number of them, or ``"sqrt"`` for as many as the
    square root of twice the trips, whatever their number turns out to be.

    >>> import staticflow as sf
    >>> sf.while_loop(lambda n, x: x < 100, lambda n, x: (n + 1, x * 2), (0, sf.tensor(3.0)))
    (6, tensor(192.))
    """
    leaves, tree = pytree.flatten(init)

    def condition(carry: Any) -> Any:
        answer = cond_fn(*carry) if type(carry) is tuple else cond_fn(carry)
        return check_flag("while_loop: what cond_fn gives", answer)

    def body(carry: Any) -> Any:
        return body_fn(*carry) if type(carry) is tuple else body_fn(carry)

    if checkpoint not in (None, "all") and in_graph(*leaves):
        return while_in_segments(while_loop, condition, body, init, checkpoint)
    if in_graph(*leaves):
        return _in_graph(condition, body, leaves, tree)
    carry = init
    for trip in itertools.count():
        going = condition(carry)
        if isinstance(going, Symbol):
            return _in_graph(condition, body, pytree.flatten(carry)[0], tree)
        if not going:
            return carry
        try:
            carry = body(carry)
        except Exception as error:
            note_trip(error, trip, "while_loop")
            raise
        after = leaves_as("while_loop", tree, carry)
        check_carry("while_loop", tree, leaves, after)


def _in_graph(
    condition: Callable[[Any], Any],
    body: Callable[[Any], Any],
    leaves: list[Any],
    tree: pytree.TreeDef,
) -> Any:
    nodes = [to_node(v) for v in leaves]
    going = to_node(condition(pytree.unflatten(tree, map(Symbol, nodes))))

    def trip(values: list[Symbol]) -> tuple[Any, list[Any]]:
        carry = body(pytree.unflatten(tree, values[1:]))
        after = nodes_as(leaves_as("while_loop", tree, carry), nodes)
        before = [n.tensor_type for n in nodes]
        check_carry("while_loop", tree, before, [n.tensor_type for n in after])
        return condition(pytree.unflatten(tree, map(Symbol, after))), after

    own, (again, after), began = trace(trip, [going.tensor_type, *(n.tensor_type for n in nodes)])
    last, _ = loop_over(
        [going, *nodes],
        [],
        own,
        [to_node(again), *after],
        began,
        None,
        binds=(fresh_sym("trips", late=True),),
    )
    return pytree.unflatten(tree, last[1:])


def fori_loop(lo: Any, hi: Any, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """``carry = body(i, carry)`` for i from ``lo`` up to, not including, ``hi``; the last carry.

    The bounds are ints, sizes or integer tensors of no dims; ``i`` is an int64 tensor of no dims,
    or an int where there is no tensor at all. The carry is a tree of tensors that ``body`` gives
    back as it got it.

    >>> import staticflow as sf
    >>> sf.fori_loop(0, 4, lambda i, x: x + i, sf.tensor(0.0))
    tensor(6.)
    """
    lo, hi = map(_bound, (lo, hi))

    def trip(i: Any, carry: Any) -> Any:
        return held("fori_loop", carry, body(i, carry))

    if isinstance(lo, int | Dim) and isinstance(hi, int | Dim):
        leaves = pytree.flatten(init)[0]
        beside = next((x for x in leaves if hasattr(x, "__sf_mode__")), None)
        length = dim_max(hi - lo, 0)
        static = in_graph(*leaves, length)
        if beside is None and not static:
            carry = init
            for i in range(int(lo), int(hi)):
                carry = trip(i, carry)
                if is_in_graph(carry):  # it closes over symbols
                    break
            else:
                return carry
        mode = STATIC if beside is None or static else beside.__sf_mode__
        numbers = mode.apply(iota, (), {"shape": (length,), "dim": 0, "dtype": int64})
        return scan(lambda carry, i: (trip(i, carry), None), init, numbers + lo)[0]
    beside = hi if isinstance(lo, int | Dim) else lo
    zero = full.beside(beside, shape=(), value=0, dtype=int64)
    start, end = zero + lo, zero + hi
    _, last = while_loop(
        lambda i, carry: i < end, lambda i, carry: (i + 1, trip(i, carry)), (start, init)
    )
    return last


def _bound(given: Any) -> Any:
    """A bound of a `fori_loop`: an int, a size, or a tensor of one integer."""
    if not hasattr(given, "__sf_mode__"):
        return as_size(given)
    if given.ndim or given.dtype.kind not in "iu":
        raise DTypeError(
            f"fori_loop: a bound is {given.dtype.name}{list(given.shape)}; it must be an integer, "
            f"or a tensor of an integer dtype and of no dims, at {format_locs(here())}"
        )
    return given
