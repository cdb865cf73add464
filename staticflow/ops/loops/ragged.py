"""Scans over rows of different lengths: each iteration computes only the rows that are not over
yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from staticflow import pytree
from staticflow.errors import ShapeError
from staticflow.graph.dims import Size, fresh_sym, same_shape
from staticflow.graph.dtypes import bool_, int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.extremes import amax, amin
from staticflow.ops.along.order import argsort
from staticflow.ops.basics.arithmetic import cast, where
from staticflow.ops.basics.creation import full, iota, new_full
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.late import measure_op, prefix_op, tied_op, unprefix_op
from staticflow.ops.indexing.index_functions import index_select
from staticflow.ops.loops.carry import call, check_pair, check_tree
from staticflow.ops.loops.leaves import tensors_of
from staticflow.ops.loops.meets_symbol import in_graph
from staticflow.ops.symbols.symbol import STATIC

__all__ = ["Falling", "FallingOrder", "Ragged", "RaggedUntil", "check_lengths", "measure"]


def measure(count: Any, most: Size) -> Any:
    """``count`` rows, at ``most`` so many, as a tensor of no elements."""
    if in_graph(count, most):
        binds = (fresh_sym("active", most + 1, late=True),)
        return measure_op(count, most=most, what="a size", binds=binds)
    return full.beside(count, shape=(int(count), 0), value=False, dtype=bool_)


class FallingOrder:
    """The rows of a batch in falling order of their ``lengths``, and back.

    ``xs`` (a tree) has time as its first dim and the batch as the second. ``self.lengths`` are
    those of the rows in falling order.
    """

    def __init__(self, lengths: Any, xs: Any) -> None:
        lengths, _, self.rows = check_lengths(lengths, xs)
        self.order = argsort(lengths, descending=True, stable=True)
        self.positions = argsort(self.order)
        self.lengths = index_select(lengths, 0, self.order)

    def put(self, tree: Any, dim: int, name: str) -> Any:
        """The tensors of a ``tree``, whose ``dim`` is the batch, in that order; an error calls the
        tree ``name``."""
        tree = _batch(tree, dim, self.rows, name)
        return pytree.map_tree(lambda x: index_select(x, dim, self.order), tree)

    def put_back(self, tree: Any, dim: int) -> Any:
        """The tensors of a ``tree`` in the order in which the batch was given."""
        return pytree.map_tree(lambda x: index_select(x, dim, self.positions), tree)


class Falling:
    """A scan over a batch whose rows are in falling order of their ``lengths``: so those that go on
    are the first ones at every iteration, which computes these. The carry of the others stays, and
    their ys are zero."""

    until = None

    def __init__(self, fn: Callable[[Any, Any], Any], lengths: Any) -> None:
        self.fn = self.__wrapped__ = fn
        self.lengths, self.rows = lengths, lengths.shape[0]

    def xs(self, xs: Any) -> Any:
        """The rows; for each iteration how many take part, and which."""
        xs = _batch(xs, 1, self.rows, "xs")
        going = _times(self.lengths, pytree.flatten(xs)[0][0].shape[0]) < self.lengths
        return xs, cast(going, dtype=int64).sum(1), going

    def init(self, init: Any) -> Any:
        """The carry."""
        return _batch(init, 0, self.rows, "carry")

    def step(self, carry: Any, x: Any) -> Any:
        """One iteration of the rows that go on."""
        row, count, going = x
        active = measure(count, self.rows)
        return _step(
            self.fn, carry, row, going,
            lambda v: prefix_op(v, active),
            lambda v: unprefix_op(v, active, size=self.rows),
        )  # fmt: skip

    def finish(self, carry: Any, ys: Any) -> tuple[Any, Any]:
        """Carry and ys."""
        return carry, ys


class Ragged(Falling):
    """A scan over a batch whose rows have ``lengths`` in any order."""

    def __init__(self, fn: Callable[[Any, Any], Any], lengths: Any, xs: Any) -> None:
        self.order = FallingOrder(lengths, xs)
        super().__init__(fn, self.order.lengths)

    def xs(self, xs: Any) -> Any:
        """Those of the rows in falling order."""
        return super().xs(self.order.put(xs, 1, "xs"))

    def init(self, init: Any) -> Any:
        """The carry in that order."""
        return self.order.put(init, 0, "carry")

    def finish(self, carry: Any, ys: Any) -> tuple[Any, Any]:
        """Carry and ys in the order in which the batch was given."""
        return self.order.put_back(carry, 0), self.order.put_back(ys, 1)


class RaggedUntil:
    """A scan over a batch whose rows have ``lengths`` and may end earlier, where ``until`` says so.

    Which rows go on only the run can tell, so every iteration brings those to the front. The loop
    carries which rows are over, and whether all of them are.
    """

    def __init__(
        self,
        fn: Callable[[Any, Any], Any],
        ask: Callable[[Any, Any], Any],
        lengths: Any,
        xs: Any,
        reverse: bool,
    ) -> None:
        self.fn, self.ask, self.reverse = fn, ask, reverse
        self.__wrapped__ = fn, ask
        self.lengths, self.steps, self.rows = check_lengths(lengths, xs)

    def xs(self, xs: Any) -> Any:
        """The rows as they are; for each iteration which lengths reach it, and which go no
        further."""
        times = _times(self.lengths, self.steps)
        xs = _batch(xs, 1, self.rows, "xs")
        return xs, times < self.lengths, self.lengths <= (times * 0 if self.reverse else times + 1)

    def init(self, init: Any) -> Any:
        """The carry, and that no row is over."""
        return _batch(init, 0, self.rows, "carry"), self.lengths < 0, False

    def step(self, state: Any, x: Any) -> Any:
        """One iteration of the rows that go on, and what it ends."""
        carry, over, _ = state
        row, reached, last = x
        going = reached & ~over
        order = argsort(cast(going, dtype=int64), descending=True, stable=True)
        positions = argsort(order)
        count = cast(going, dtype=int64).sum()
        active = measure(count, self.rows)

        def put(v: Any) -> Any:
            return index_select(unprefix_op(v, active, size=self.rows), 0, positions)

        answers = []

        def run_and_ask(carry: Any, x: Any) -> Any:
            after, y = check_pair(call("scan", "fn", self.fn, carry, x))
            after = check_tree("scan", carry, after)
            answers.append(_check_answer(call("scan", "until", self.ask, after, y)))
            return after, y

        result = _step(
            run_and_ask,
            carry,
            row,
            going,
            lambda v: prefix_op(index_select(v, 0, order), active),
            put,
        )
        (ends,) = answers
        over = over | (put(ends) if ends.shape else ends & (count > 0))
        return (result[0], over, (over | last).all()), result[1]

    @staticmethod
    def until(state: Any, y: Any) -> Any:
        """Whether all rows are over."""
        return state[2]

    def finish(self, state: Any, ys: Any) -> tuple[Any, Any]:
        """Carry and ys."""
        return state[0], ys


def check_lengths(lengths: Any, xs: Any) -> tuple[Any, Size, Size]:
    """The lengths as i64, which are held to the number of iterations; iterations and rows.

    Raises `ShapeError` for a length that is negative or larger; in a graph, as it runs.
    """
    leaves = pytree.flatten(xs)[0]
    if not leaves or any(len(x.shape) < 2 for x in leaves):
        _refuse("with lengths the xs have time as their first dim and the batch as the second")
    if not hasattr(lengths, "dtype") or lengths.dtype.kind not in "iu" or lengths.ndim != 1:
        _refuse("lengths is a tensor of integers of one dim, one for each row of the batch")
    steps = leaves[0].shape[0]
    lengths = cast(lengths, dtype=int64)
    none = new_full(lengths, (1,), 0)  # there may be no row
    least, most = amin(cat([lengths, none])), amax(cat([lengths, none]))
    worst = where(least < 0, least, most)
    if in_graph(lengths, steps):
        binds = (fresh_sym("longest", steps + 1, late=True),)
        held = measure_op(worst, most=steps, what="one of the lengths", binds=binds)
        lengths = tied_op(lengths, held)
    elif not 0 <= int(worst) <= steps:
        _refuse(f"one of the lengths is {int(worst)}, where there are {steps} iterations")
    return lengths, steps, lengths.shape[0]


def _batch(tree: Any, dim: int, rows: Size, name: str) -> Any:
    """The tensors of ``tree``, whose ``dim`` is the batch: as many ``rows`` as there are lengths.
    What is not known yet is assumed."""
    leaves, structure = pytree.flatten(tree)
    for path, x in zip(pytree.paths(structure, name), leaves, strict=True):
        shape = getattr(x, "shape", ())
        if len(shape) <= dim:
            _refuse(f"with lengths {path} has the batch as dim {dim}, and it is {len(shape)}-d")
        if isinstance(shape[dim], int) and isinstance(rows, int) and shape[dim] != rows:
            _refuse(f"{path} has {shape[dim]} rows in dim {dim}, and there are {rows} lengths")

    def fit(x: Any) -> Any:
        wanted = (*x.shape[:dim], rows, *x.shape[dim + 1 :])
        return (
            x if same_shape(x.shape, wanted) else STATIC.apply(expand_op, (x,), {"shape": wanted})
        )

    return pytree.map_tree(fit, tree)


def _check_answer(answer: Any) -> Any:
    if not hasattr(answer, "dtype") or answer.dtype is not bool_ or answer.ndim > 1:
        _refuse(
            "with lengths, until(carry, y) gives a bool for each row that goes on, which ends that "
            "row, or one for all"
        )
    return answer


def _times(beside: Any, steps: Size) -> Any:
    return iota.beside(beside, shape=(steps, 1), dim=0, dtype=int64)


def _step(
    fn: Callable[[Any, Any], Any],
    carry: Any,
    row: Any,
    going: Any,
    take: Callable[[Any], Any],
    put: Callable[[Any], Any],
) -> Any:
    """``fn`` of what ``take`` leaves of carry and row, ``put`` back; a row that is not ``going``
    keeps its carry and has a y of zeros."""
    rows = pytree.map_tree(take, carry)
    after, y = check_pair(call("scan", "fn", fn, rows, pytree.map_tree(take, row)))
    after = check_tree("scan", rows, after)
    leaves, tree = pytree.flatten(y)
    y = pytree.unflatten(tree, tensors_of("scan", "y", tree, leaves))

    def join(old: Any, new: Any) -> Any:
        whole = put(new)
        return where(reshape(going, (going.shape[0], *(1,) * (whole.ndim - 1))), whole, old)

    def pad(new: Any) -> Any:
        if not new.shape:
            _refuse("with lengths a y has the batch as its first dim, and one is 0-d")
        return put(new)

    return pytree.map_tree(join, carry, after), pytree.map_tree(pad, y)


def _refuse(why: str) -> NoReturn:
    raise ShapeError(f"scan: {why}, at {format_locs(here())}")
