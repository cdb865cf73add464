"""Loops that keep less for their derivative and compute more.

A loop keeps the carries of all its iterations. One that runs in *segments*, a loop of loops, keeps
those with which a segment began, and on the way back the carries of one segment at a time, which it
runs again. With segments of k iterations out of T that is T / k + k carries instead of T; k near
the square root of T is least (Chen et al. 2016, "Training deep nets with sublinear memory cost").
Where the number of iterations shows only as the loop runs, each segment is an iteration longer than
the one before: S segments cover S * (S + 1) / 2 iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow import pytree
from staticflow.errors import ArgumentError
from staticflow.graph.dims import Dim, Size, ceil_div, closed_size, dim_max, floor_div, root, same
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.axes import flip
from staticflow.ops.basics.creation import new_zeros
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.slicing import as_position
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.declaring.late import prefix_op, unprefix_op
from staticflow.ops.loops.carry import call, check_flag, check_pair, check_tree
from staticflow.ops.loops.ragged import measure

__all__ = [
    "Checkpoint", "check_choice", "scan_in_segments", "scan_until_in_segments",
    "segment_iterations", "while_in_segments",
]  # fmt: skip

Checkpoint = str | int | Callable[[Size], Size] | None


def segment_iterations(what: str, checkpoint: Checkpoint, length: Size) -> Size | None:
    """The iterations of a segment of a loop of ``length`` iterations; None for a loop that keeps
    all."""
    if callable(checkpoint):
        return dim_max(_check(what, checkpoint(length)), 1)
    if checkpoint in (None, "all"):
        return None
    if checkpoint == "sqrt":
        return dim_max(root(length), 1)
    return _check(what, checkpoint)


def check_choice(what: str, checkpoint: Checkpoint, memory_budget: int | None) -> None:
    """Refuse a ``checkpoint`` beside a ``memory_budget``, and what is no number of bytes."""
    if memory_budget is None:
        return
    if checkpoint is not None:
        raise ArgumentError(
            f"{what}: give checkpoint or memory_budget, not both, at {format_locs(here())}"
        )
    if not isinstance(memory_budget, int) or memory_budget < 0:
        raise ArgumentError(
            f"{what}: memory_budget is a number of bytes, an int from 0 on, not {memory_budget!r}, "
            f"at {format_locs(here())}"
        )


def _check(what: str, checkpoint: Any) -> Size:
    iterations = as_position(checkpoint)
    if isinstance(iterations, Dim) or (iterations is not None and iterations >= 1):
        return iterations
    raise ArgumentError(
        f'{what}: checkpoint is "all", "sqrt", a number of iterations from 1 on, or a function '
        f"that gives one for the length, not {checkpoint!r}, at {format_locs(here())}"
    )


def scan_in_segments(
    scan: Callable[..., tuple[Any, Any]],
    fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: Size,
    reverse: bool,
    iterations: Size,
    inner: Callable[..., tuple[Any, Any]] | None = None,
) -> tuple[Any, Any]:
    """``scan(fn, init, xs, length, reverse)`` as a scan of scans of ``iterations`` rows, and one
    over the rows that are left at the end. ``inner``, with the arguments of a scan, is what each of
    the scans is instead."""
    inner = inner or scan
    segments = floor_div(length, iterations)
    head = segments * iterations
    tail = length - head

    def whole(carry: Any) -> tuple[Any, Any]:
        rows = pytree.map_tree(
            lambda x: narrow(x, 0, 0, head).reshape(segments, iterations, *x.shape[1:]), xs
        )
        carry, ys = scan(
            lambda c, x: inner(fn, c, x, iterations, reverse), carry, rows, segments, reverse
        )
        return carry, pytree.map_tree(lambda y: y.reshape(head, *y.shape[2:]), ys)

    def rest(carry: Any) -> tuple[Any, Any]:
        rows = pytree.map_tree(lambda x: narrow(x, 0, head, tail), xs)
        return scan(fn, carry, rows, tail, reverse)

    if same(tail, 0):
        return whole(init)
    if reverse:
        carry, last = rest(init)
        carry, first = whole(carry)
    else:
        carry, first = whole(init)
        carry, last = rest(carry)
    return carry, pytree.map_tree(lambda a, b: cat([a, b]), first, last)


def scan_until_in_segments(
    scan: Callable[..., tuple[Any, Any]],
    fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: Size,
    reverse: bool,
    until: Callable[[Any, Any], Any],
    iterations: Size,
) -> tuple[Any, Any]:
    """``scan(fn, init, xs, length, reverse, until)`` as a scan of scans of ``iterations`` rows.

    Either ends where ``until`` says so or all rows are through: the last segment is filled up with
    zeros, which no iteration gets to see, and so are the ys of the segment that ends early.
    """
    segments = ceil_div(length, iterations)

    def blocks(x: Any) -> Any:
        x = flip(x, 0) if reverse else x
        missing = closed_size(segments * iterations - length)
        padded = x if same(missing, 0) else cat([x, new_zeros(x, missing, *x.shape[1:])])
        return padded.reshape(segments, iterations, *x.shape[1:])

    def step(state: Any, x: Any) -> tuple[Any, Any]:
        carry, made, _ = state
        after, y = check_pair(call("scan", "fn", fn, carry, x))
        after = check_tree("scan", carry, after)
        answer = call("scan", "until", until, after, y)
        ends = check_flag("scan: what until(carry, y) gives", answer)
        return (after, made + 1, (made + 1 >= length) | ends), y

    def segment(state: Any, rows: Any) -> tuple[Any, Any]:
        state, ys = scan(step, state, rows, iterations, until=lambda state, y: state[2])
        return state, pytree.map_tree(lambda y: unprefix_op(y, y, size=iterations), ys)

    (carry, made, _), ys = scan(
        segment, (init, 0, False), pytree.map_tree(blocks, xs), segments,
        until=lambda state, y: state[2],
    )  # fmt: skip
    rows = measure(made, length)

    def flat(y: Any) -> Any:
        y = prefix_op(y.reshape(y.shape[0] * iterations, *y.shape[2:]), rows)
        return flip(y, 0) if reverse else y

    return carry, pytree.map_tree(flat, ys)


def while_in_segments(
    while_loop: Callable[..., Any],
    condition: Callable[[Any], Any],
    body: Callable[[Any], Any],
    init: Any,
    checkpoint: Checkpoint,
) -> Any:
    """``while_loop(condition, body, init)`` in segments of ``checkpoint`` iterations, or, for
    "sqrt", of one more each."""
    if checkpoint != "sqrt":
        _check("while_loop", checkpoint)

    def segment(number: Any, carry: Any) -> tuple[Any, Any]:
        iterations = number if checkpoint == "sqrt" else checkpoint
        _, carry = while_loop(
            lambda i, c: (i < iterations) & condition(c),
            lambda i, c: (i + 1, check_tree("while_loop", c, body(c))),
            (number * 0, carry),
        )
        return number + 1, carry

    _, last = while_loop(lambda number, carry: condition(carry), segment, (1, init))
    return last
