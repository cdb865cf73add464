"""Loops over the first dim, with a carried state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from staticflow import pytree
from staticflow.errors import ShapeError
from staticflow.graph.dims import Size, fresh_sym
from staticflow.graph.dtypes import bool_
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import TensorType
from staticflow.ops.arithmetic import logical_not
from staticflow.ops.carry import (
    check_carry,
    check_flag,
    in_graph,
    is_in_graph,
    leaves_as,
    loop_over,
    nodes_as,
    note_trip,
)
from staticflow.ops.checkpoint import (
    Checkpoint,
    scan_in_segments,
    scan_until_in_segments,
    segment_trips,
)
from staticflow.ops.creation import full
from staticflow.ops.joining import stack
from staticflow.ops.ragged import Ragged, RaggedUntil
from staticflow.ops.region import trace
from staticflow.ops.sizes import as_size
from staticflow.ops.symbol import constant_node, to_node
from staticflow.ops.taps import Lagged
from staticflow.ops.thread import thread

__all__ = ["map", "scan"]


def scan(
    fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: Size | None = None,
    reverse: bool = False,
    until: Callable[[Any, Any], Any] | None = None,
    lengths: Any = None,
    taps: Mapping[str, Sequence[int]] | None = None,
    ys_init: Any = None,
    checkpoint: Checkpoint = None,
    memory_budget: int | None = None,
) -> tuple[Any, Any]:
    """Call ``carry, y = fn(carry, x)`` for each x along the first dim of ``xs``, from ``init`` on.

    ``init``, ``xs`` and the ys are trees (tuples, lists, dicts) of tensors; ``fn`` gives the carry
    back in the structure, shapes and dtypes that it got. With ``xs`` None, ``length`` says how many
    steps there are. Returns the last carry and the ys stacked along a new first dim, in the order
    of ``xs`` also where ``reverse`` runs it from the end. On symbols this is one loop of the graph,
    whatever the length; on tensors it runs now.

    ``until(carry, y)``, a bool of no dims, is asked after each step: where it is true the loop
    ends, and the ys are those of the steps that were made, that one included. How many they are is
    known only as the program runs, and so is the size of their first dim; gradients need no bound.

    ``taps={"xs": lags}`` gives ``fn`` a tuple in place of x, its rows that many steps back, and
    leaves out the first steps, which have no such rows. ``taps={"ys": lags}`` calls
    ``fn(carry, x, past)`` with a tuple of the ys that many steps back; the rows of ``ys_init`` are
    those before the first step, the last one last. Steps are counted as the loop runs: with
    ``reverse`` the row a step back is the next one of ``xs``.

    ``lengths``, one integer for each row of a batch, is for xs with time as their first dim and the
    batch as the second, and carries and ys with the batch as their first: past its length the carry
    of a row stays as it is and its ys are zero. ``fn`` is called on the rows that go on, so the
    cost follows the lengths. So is ``until``, which answers for each of these rows, or with one
    bool for all: where it is true the row is over, as if that were its length, and the loop ends
    with the last row. The lengths are those of ``xs``: a row of ``taps`` makes as many steps fewer
    as the longest lag into the xs.

    A graph that differentiates the loop keeps the carries of every trip, unless ``checkpoint`` says
    how many trips are computed again instead: a number of them, ``"sqrt"`` for the square root of
    the length, which keeps least, or a function of the length (which is that of ``xs``, wherever
    the loop ends). With ``memory_budget``, in bytes, so many that the carries fit it. The values
    and gradients are the same.

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
    if taps is not None or ys_init is not None:
        lagged = Lagged(fn, taps or {}, ys_init, reverse)
        stop = None if until is None else lambda carry, y: until(carry[0], y)
        (last, _), ys = scan(
            lagged.step, lagged.init(init), lagged.xs(xs), length, reverse, stop,
            lagged.lengths(lengths, xs), checkpoint=checkpoint, memory_budget=memory_budget,
        )  # fmt: skip
        return last, ys
    if lengths is not None:
        ragged = (
            Ragged(fn, lengths, xs) if until is None
            else RaggedUntil(fn, until, lengths, xs, reverse)
        )  # fmt: skip
        return ragged.finish(*scan(
            ragged.step, ragged.init(init), ragged.xs(xs), length, reverse, ragged.until,
            checkpoint=checkpoint, memory_budget=memory_budget,
        ))  # fmt: skip
    init_leaves, carry_tree = pytree.flatten(init)
    xs_leaves, xs_tree = pytree.flatten(xs)
    length = _common_length("scan", xs_leaves, pytree.paths(xs_tree, "xs"), length)
    trips = segment_trips("scan", checkpoint, memory_budget, length, init_leaves)
    if trips is not None and in_graph(*init_leaves, *xs_leaves, length):
        if until is not None:
            return scan_until_in_segments(scan, fn, init, xs, length, reverse, until, trips)
        return scan_in_segments(scan, fn, init, xs, length, reverse, trips)
    loop = _Scan(fn, init_leaves, carry_tree, xs_leaves, xs_tree, length, reverse, until)
    if in_graph(*init_leaves, *xs_leaves, length):
        return loop.in_graph()
    return loop.now()


def map(fn: Callable[[Any], Any], xs: Any) -> Any:
    """``fn`` of each row along the first dim of ``xs`` (a tree), the results stacked.

    >>> import staticflow as sf
    >>> sf.map(lambda x: x.sum(), sf.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([3., 7.])
    """
    leaves, tree = pytree.flatten(xs)
    _common_length("map", leaves, pytree.paths(tree, "xs"), None)
    return scan(lambda carry, x: (carry, fn(x)), (), xs)[1]


class _Scan:
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

    def now(self) -> tuple[Any, Any]:
        """Run on tensors."""
        carry = pytree.unflatten(self.carry_tree, self.init)
        ys: list[Any] = []
        assert isinstance(self.length, int)
        for step in reversed(range(self.length)) if self.reverse else range(self.length):
            x = pytree.unflatten(self.xs_tree, [leaf[step] for leaf in self.xs])
            try:
                carry, y = _checked_pair(self.fn(carry, x))
            except Exception as error:
                note_trip(error, len(ys), "scan")
                raise
            if not ys and is_in_graph((carry, y)):
                return self.in_graph()
            leaves = leaves_as("scan", self.carry_tree, carry)
            check_carry("scan", self.carry_tree, self.init, leaves)
            ys.append(y)
            if self.until is not None and _stop(self.until(carry, y)):
                break
        if not ys:
            return carry, self._nothing()
        if self.reverse:
            ys.reverse()
        return carry, pytree.map_tree(lambda *rows: stack(rows), ys[0], *ys[1:])

    def _nothing(self) -> Any:
        """The ys of no step: a trace tells what they would be."""
        state = thread.state
        before, state.types_only = state.types_only, True
        try:
            types = [to_node(leaf).tensor_type for leaf in self.init]
            rows = [TensorType(x.dtype, x.shape[1:]) for x in self.xs]
            _, (_, y), _ = trace(self._step, [*types, *rows])
        finally:
            state.types_only = before
        like = (*self.init, *self.xs)
        return pytree.map_tree(
            lambda v: full.beside(
                next(x for x in like if hasattr(x, "__sf_mode__")),
                shape=(0, *v.shape), value=False if v.dtype is bool_ else 0, dtype=v.dtype,
            ),
            y,
        )  # fmt: skip

    def _step(self, values: Sequence[Any]) -> tuple[Any, Any]:
        split = len(self.init)
        return _checked_pair(
            self.fn(
                pytree.unflatten(self.carry_tree, values[:split]),
                pytree.unflatten(self.xs_tree, values[split:]),
            )
        )

    def in_graph(self) -> tuple[Any, Any]:
        """A loop of the graph."""
        flag = [] if self.until is None else [constant_node(True, bool_)]
        carries = [*flag, *(to_node(x) for x in self.init)]
        turned = self.reverse and self.until is not None
        rows = [to_node(x.flip(0) if turned else x) for x in self.xs]

        def step(values: Sequence[Any]) -> tuple[Any, Any, Any]:
            carry, y = self._step(values[len(flag) :])
            if self.until is None:
                return None, carry, y
            stop = _stop(self.until(carry, y))
            return not stop if isinstance(stop, bool) else logical_not(stop), carry, y

        own, (go_on, carry, y), began = trace(
            step,
            [
                *(c.tensor_type for c in carries),
                *(TensorType(r.tensor_type.dtype, r.tensor_type.shape[1:]) for r in rows),
            ],
        )
        first = carries[len(flag) :]
        outs = nodes_as(leaves_as("scan", self.carry_tree, carry), first)
        before, after = ([n.tensor_type for n in nodes] for nodes in (first, outs))
        check_carry("scan", self.carry_tree, before, after)
        y_leaves, y_tree = pytree.flatten(y)
        flags = [to_node(go_on)] if flag else []
        binds = (fresh_sym("trips", self.length + 1, late=True),) if flag else ()
        last, ys = loop_over(
            carries, rows, own, [*flags, *outs, *(to_node(v) for v in y_leaves)], began,
            self.length, self.reverse, binds,
        )  # fmt: skip
        if turned:
            ys = [y.flip(0) for y in ys]
        return (
            pytree.unflatten(self.carry_tree, last[len(flag) :]),
            pytree.unflatten(y_tree, ys),
        )


def _stop(answer: Any) -> Any:
    return check_flag("scan: what until(carry, y) gives", answer)


def _checked_pair(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ShapeError(
            f"scan: fn must return (carry, y), not {type(result).__name__}; return (carry, None) "
            f"if there is no y, at {format_locs(here())}"
        )
    return result


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
    return length
