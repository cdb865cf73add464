"""Loops over the first dim, with a carried state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from staticflow import pytree
from staticflow.errors import ShapeError
from staticflow.graph.dims import Size, dim_min
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.loops.budget import with_budget
from staticflow.ops.loops.carry import (
    call,
)
from staticflow.ops.loops.checkpoint import (
    Checkpoint,
    check_choice,
    scan_in_segments,
    scan_until_in_segments,
    segment_iterations,
)
from staticflow.ops.loops.lags import Lagged, Taps
from staticflow.ops.loops.leaves import tensors_of
from staticflow.ops.loops.meets_symbol import in_graph, run_or_write, write_first
from staticflow.ops.loops.plain_scan import ENDLESS, PlainScan
from staticflow.ops.loops.ragged import Ragged, RaggedUntil
from staticflow.ops.loops.region import trace_at_once
from staticflow.ops.loops.truncated import check_truncate, scan_truncated
from staticflow.ops.loops.unrolled import check_unroll, unrolled_iterations, write_iterations

__all__ = ["map", "scan"]


def scan(
    fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: Size | None = None,
    reverse: bool = False,
    until: Callable[[Any, Any], Any] | None = None,
    lengths: Any = None,
    taps: Taps | None = None,
    ys_init: Any = None,
    checkpoint: Checkpoint = None,
    memory_budget: int | None = None,
    unroll: int | bool = 1,
    truncate: Size | None = None,
) -> tuple[Any, Any]:
    """Call ``carry, y = fn(carry, x)`` for each x along the first dim of ``xs``, from ``init`` on.

    ``init``, ``xs`` and the ys are trees (tuples, lists, dicts) of tensors; ``fn`` gives the carry
    back in the structure, shapes and dtypes that it got. With ``xs`` None, ``length`` says how many
    iterations there are. Returns the last carry and the ys stacked along a new first dim, in the
    order of ``xs`` also where ``reverse`` runs it from the end. On symbols this is one loop of the
    graph, whatever the length; on tensors it runs now.

    ``until(carry, y)``, a bool of no dims, is asked after each iteration: where it is true the loop
    ends, and the ys are those of the iterations that were made, that one included. How many they
    are is known only as the program runs, and so is the size of their first dim; gradients need no
    bound.

    ``taps={"xs": lags}`` gives ``fn`` a tuple in place of x, its rows that many iterations back,
    and leaves out the first iterations, which have no such rows. Where ``xs`` is a dict, a tuple or
    a list, ``lags`` may be one, too, with lags for each of its entries, or None for the row itself:
    x is such a container of tuples and rows. ``taps={"ys": lags}`` calls
    ``fn(carry, x, past)`` with a tuple of the ys that many iterations back; the rows of ``ys_init``
    are those before the first iteration, the last one last. Iterations are counted as the loop
    runs: with ``reverse`` the row an iteration back is the next one of ``xs``.

    ``lengths``, one integer for each row of a batch, is for xs with time as their first dim and the
    batch as the second, and carries and ys with the batch as their first: past its length the carry
    of a row stays as it is and its ys are zero. ``fn`` is called on the rows that go on, so the
    cost follows the lengths. So is ``until``, which answers for each of these rows, or with one
    bool for all: where it is true the row is over, as if that were its length, and the loop ends
    with the last row. The lengths are those of ``xs``: a row of ``taps`` makes as many iterations
    fewer as the longest lag into the xs.

    A graph that differentiates the loop keeps the carries of every iteration, unless ``checkpoint``
    says how many iterations are computed again instead: a number of them, ``"sqrt"`` for the square
    root of the length, which keeps least, or a function of the length (which is that of ``xs``,
    wherever the loop ends). The values and gradients are the same. A ``memory_budget`` is the bytes
    that a program with this loop, or its derivative, may take: those of its arena and of its
    outputs. The loop keeps all where that surely fits, and least otherwise; where that is too much,
    compiling the program, or the call that tells the sizes, raises `ArgumentError` with what it
    takes. Eager tensors that require gradients are kept as they always are.

    ``unroll`` iterations of a graph's loop, True for all, become one that does the work of as many;
    those that are left over are a loop of their own. The values are the same, and eagerly there is
    nothing to unroll. With ``truncate`` the derivative goes back through that many iterations, the
    last ones, and no further (truncated backpropagation through time, Williams and Peng 1990): the
    loop of those before is detached, its ys too. Neither goes with ``until``, nor ``truncate`` with
    ``lengths``: which iterations come last shows only as such a loop runs.

    >>> import staticflow as sf
    >>> xs = sf.tensor([1.0, 2.0, 3.0])
    >>> total, sums = sf.scan(lambda c, x: (c + x, c + x), sf.tensor(0.0), xs)
    >>> total.item(), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    >>> sf.scan(lambda c, x: (c + x, c + x), sf.tensor(0.0), xs, until=lambda c, y: y > 2)[1]
    tensor([1., 3.])
    >>> sf.scan(lambda c, x: (c, x[0] - x[1]), (), xs, taps={"xs": (0, 1)})[1]
    tensor([1., 1.])
    """
    check_unroll("scan", unroll, until)
    check_truncate("scan", truncate, until, lengths)
    if taps is not None or ys_init is not None:

        def run_lagged() -> tuple[Any, Any]:
            lagged = Lagged(fn, taps or {}, ys_init, reverse)
            stop = None if until is None else lambda carry, y: until(carry[0], y)
            (last, _), ys = scan(
                lagged.step, lagged.init(init), lagged.xs(xs), length, reverse, stop,
                lagged.lengths(lengths, xs), checkpoint=checkpoint, memory_budget=memory_budget,
                unroll=unroll, truncate=truncate,
            )  # fmt: skip
            return last, ys

        return run_or_write(run_lagged, (init, xs, ys_init, lengths, length), fn, until)
    if lengths is not None:

        def run_ragged() -> tuple[Any, Any]:
            ragged = (
                Ragged(fn, lengths, xs) if until is None
                else RaggedUntil(fn, until, lengths, xs, reverse)
            )  # fmt: skip
            return ragged.finish(*scan(
                ragged.step, ragged.init(init), ragged.xs(xs), length, reverse, ragged.until,
                checkpoint=checkpoint, memory_budget=memory_budget, unroll=unroll,
            ))  # fmt: skip

        return run_or_write(run_ragged, (init, xs, lengths, length), fn, until)
    init_leaves, carry_tree = pytree.flatten(init)
    xs_leaves, xs_tree = pytree.flatten(xs)
    init_leaves = tensors_of("scan", "init", carry_tree, init_leaves)
    xs_leaves = tensors_of("scan", "xs", xs_tree, xs_leaves)
    length = _common_length("scan", xs_leaves, pytree.paths(xs_tree, "xs"), length)
    check_choice("scan", checkpoint, memory_budget)
    if truncate is not None:
        start, rows = (
            pytree.unflatten(carry_tree, init_leaves),
            pytree.unflatten(xs_tree, xs_leaves),
        )
        last = dim_min(as_size(truncate), length)

        def run_part(carry: Any, xs: Any, length: Size) -> tuple[Any, Any]:
            return scan(
                fn, carry, xs, length, reverse, checkpoint=checkpoint,
                memory_budget=memory_budget, unroll=unroll,
            )  # fmt: skip

        return run_or_write(
            lambda: scan_truncated(run_part, start, rows, length, reverse, last),
            (init_leaves, xs_leaves, length, last), fn,
        )  # fmt: skip
    many = unrolled_iterations("scan", unroll, length)
    iterations = segment_iterations("scan", checkpoint, length)
    loop = PlainScan(fn, init_leaves, carry_tree, xs_leaves, xs_tree, length, reverse, until)

    def write() -> tuple[Any, Any]:
        if memory_budget is not None:
            return _within(memory_budget, loop, unroll)
        if iterations is None and many == 1:
            return loop.in_graph()
        carry, rows = loop.init_as_given(), loop.xs_as_given()
        if iterations is None:
            return scan_in_segments(scan, fn, carry, rows, length, reverse, many, write_iterations)
        if until is not None:
            return scan_until_in_segments(scan, fn, carry, rows, length, reverse, until, iterations)
        part = scan if many == 1 else partial(scan, unroll=many)
        return scan_in_segments(part, fn, carry, rows, length, reverse, iterations)

    if in_graph(*init_leaves, *xs_leaves, length):
        return trace_at_once(write)
    written = write_first(write, fn, until)
    return loop.now() if written is None else written[0]


_SURE = 2
"""Times the bytes that an iteration computes: more than a loop and its derivative keep of it."""


_FEW = 6
"""Iterations up to which a loop that keeps all takes less than one in segments, with its
derivative: 5,120 bytes against 6,144 for 4 iterations of a small RNN, 9,216 against 7,168 for 8."""


def _within(budget: int, loop: PlainScan, unroll: int | bool) -> tuple[Any, Any]:
    """``loop``, in segments unless it has few iterations, or all that it may keep is far less than
    the ``budget``; either way the program that it becomes part of is held to that."""
    marked = with_budget("scan", budget, [*loop.init, *loop.xs]) if loop.init or loop.xs else []
    loop.init, loop.xs = marked[: len(loop.init)], marked[len(loop.init) :]
    length = loop.length
    kept = loop.bytes_of_iteration() * length * _SURE
    is_short = isinstance(length, int) and length <= _FEW
    keeps_all = is_short or (isinstance(kept, int) and kept <= budget)
    return scan(
        loop.fn, loop.init_as_given(), loop.xs_as_given(), loop.length, loop.reverse, loop.until,
        checkpoint=None if keeps_all else "sqrt", unroll=unroll,
    )  # fmt: skip


def map(fn: Callable[[Any], Any], xs: Any, unroll: int | bool = 1) -> Any:
    """``fn`` of each row along the first dim of ``xs`` (a tree), the results stacked. ``unroll`` is
    that of `scan`.

    >>> import staticflow as sf
    >>> sf.map(lambda x: x.sum(), sf.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([3., 7.])
    """
    leaves, tree = pytree.flatten(xs)
    _common_length("map", leaves, pytree.paths(tree, "xs"), None)
    check_unroll("map", unroll)
    return scan(lambda _, x: (None, call("map", "fn", fn, x)), None, xs, unroll=unroll)[1]


def _common_length(
    what: str, leaves: Sequence[Any], names: Sequence[str], length: Size | None
) -> Size:
    for leaf, name in zip(leaves, names, strict=True):
        if not leaf.shape:
            raise ShapeError(
                f"{what}: {name} is 0-d; it has no first dim to loop over, at {format_locs(here())}"
            )
        own = leaf.shape[0]
        if length is None:
            length = own
        elif isinstance(length, int) and isinstance(own, int) and own != length:
            raise ShapeError(
                f"{what}: {name} has {own} rows where {length} are needed, at {format_locs(here())}"
            )
    if length is None:
        wanted = "xs or length" if what == "scan" else "xs"
        raise ShapeError(f"{what}: give {wanted}, at {format_locs(here())}")
    length = as_size(length)
    if isinstance(length, int) and length < 0:
        raise ShapeError(f"scan: a loop of length {length}, at {format_locs(here())}")
    if isinstance(length, int) and length >= ENDLESS:
        raise ShapeError(
            f"{what}: {length} iterations are more than 64 bits count; give a length below 2**63, "
            f"at {format_locs(here())}"
        )
    return length
