"""Walks along a dim with a state, by one thread or by a block of them for each row, rows that are
cut into parts, and the linear recurrences that derivatives of products are.

How few long rows or columns are cut, so that all of a GPU works on them, depends on the sizes
alone, and what parts come to is combined in one order, so that results are the same each time. Of
unknown sizes a program has both ways, of which one has no iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, is_provably_ge, prod
from staticflow.graph.dtypes import dtype_of, float64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.basics.reduce import longest, wide
from staticflow.ops.declaring.declare import per_arg
from staticflow.ops.declaring.lowering import Index, LoopNest, delinear

__all__ = [
    "Parts", "count_parts", "cut_rows", "goes_in_chunks", "recurrence_op", "running", "same_type",
    "shift_op", "walk", "walk_in_chunks",
]  # fmt: skip


_CHUNKS = 256
"""Parts of a row, one for each thread of a block."""

_LEAST = 256
"""Elements of a row of which fewer are for one thread, as they are in many rows side by side."""

_MOST = 256
"""Parts of a row: behind the last, a block goes through what all others have come to."""

_MANY = 512
"""Rows side by side in memory of which a thread each keeps a GPU busy."""

Registers = list[Any]


def same_type(facts: Facts, x: TensorType, *others: TensorType, **attrs: Any) -> TensorType:
    """The type rule of what gives an element for each."""
    return x


def running(
    start: float, step: Callable[..., Any], before: bool = False, *, exact: bool = False
) -> LoopNest:
    """The loop nest of ``state = step(k, state, *elements)`` along ``dim``, where each state is
    stored, or with ``before`` the one that the step began with. An ``exact`` state is of 64 bits:
    of a million equal numbers the running sum in float32 is wrong by a hundredth."""

    def emit(nest: Any) -> None:
        k, dim = nest.k, nest.attrs["dim"]
        n: Size = nest.out_shape(0)[dim]
        dtype = (longest if exact else wide)(nest.out_type(0).dtype)
        first = nest.attrs.get("fill", start)
        with nest.rows(nest.out_shape(0), dim) as at:
            state = k.var(k.const(first if dtype.is_floating else int(first), dtype))
            with k.loop("j", n) as j:
                position = at(n - 1 - j if nest.attrs.get("reverse") else j)
                elements = [k.cast(nest.load(i, position), dtype) for i in range(nest.n_in)]
                if before:
                    nest.store(0, position, state)
                k.set(state, step(k, state, *elements))
                if not before:
                    nest.store(0, position, state)

    return LoopNest(emit)


def walk(
    xp: Any, fn: Callable[..., Any], dim: int, reverse: bool, *xs: Any, exact: bool = False
) -> Any:
    """``fn`` of arrays in the dtype that accumulates, ``exact`` or not, with ``dim`` in front and
    in the order of the walk; its result as the first of ``xs`` is."""

    def turn(x: Any) -> Any:
        return xp.flip(x, 0) if reverse else x

    dtype = (longest if exact else wide)(dtype_of(xs[0].dtype)).numpy
    out = fn(*(turn(xp.moveaxis(x, dim, 0)).astype(dtype) for x in xs))
    return xp.ascontiguousarray(xp.moveaxis(turn(out), 0, dim).astype(xs[0].dtype))


def goes_in_chunks(nest: Any, dim: int) -> bool:
    """Whether the rows of the first argument along ``dim`` are each for a block of threads."""
    shape = nest.in_shape(0)
    rows = prod((*shape[:dim], *shape[dim + 1 :]))
    if not nest.has_teams or (isinstance(shape[dim], int) and shape[dim] < _LEAST):
        return False
    return dim == len(shape) - 1 or not isinstance(rows, int) or rows < _MANY


def walk_in_chunks(
    nest: Any,
    dim: int,
    start: Sequence[Any],
    step: Callable[[Registers, Any, Any], None],
    store: Callable[[Registers, Any], None],
    neutral: Sequence[Any],
    absorb: Callable[[Registers, Any, Any], None],
    combine: Callable[[Registers, Registers, Callable[[], None]], None],
) -> None:
    """A walk along each row that begins with the state ``start``, takes a ``step(state, at, j)`` to
    each element, and stores there what it has: ``store(state, at)``.

    A thread first goes through its chunk of the row and ``absorb(summary, at, j)`` its elements
    into a summary, which is ``neutral`` before. Then it finds the state at the beginning of its
    chunk: ``combine(state, summary, again)`` makes that behind a chunk of that ahead of it, or has
    ``again()`` take the steps of the chunk one by one. From there it goes through its chunk again.

    Where ``absorb`` is ``step``, summaries are states, and `combine` never has anything done again:
    then few long rows are cut into parts, each for a block. One launch has their summaries, and
    another makes of those ahead of a part the state that it begins with.
    """
    k, shape, dim_size = nest.k, nest.in_shape(0), nest.in_shape(0)[dim]
    outer = (*shape[:dim], *shape[dim + 1 :])
    reverse = nest.attrs.get("reverse", False)
    parts = cut_rows(nest, dim, _MOST) if absorb is step and dim == len(shape) - 1 else None

    def variables(values: Sequence[Any]) -> Registers:
        return [k.var(v) for v in values]

    class Chunks:
        """The chunks of ``n`` positions from ``first`` on of the row that ``at`` gives elements
        of."""

        def __init__(self, at: Callable[[Size], Index], first: Size, n: Size) -> None:
            self.at, self.first, self.n = at, first, n
            self.length = ceil_div(n, _CHUNKS)
            self.summaries = [k.local(v.dtype, _CHUNKS, "shared") for v in neutral]

        def go_through(self, chunk: Size, visit: Callable[[Any, Any], None]) -> None:
            """Visit the elements of a chunk in order."""
            first = chunk * self.length
            with k.loop("i", dim_max(0, dim_min(self.length, self.n - first))) as i:
                j = self.first + first + i
                visit(self.at(dim_size - 1 - j if reverse else j), j)

        def summarize(self) -> None:
            """Leave the summary of each chunk in shared memory."""
            with k.loop("chunk", _CHUNKS, kind="threads") as chunk:
                own = variables(neutral)
                self.go_through(chunk, lambda at, j: absorb(own, at, j))
                for name, value in zip(self.summaries, own, strict=True):
                    k.store(name, chunk, value)

        def summary_of(self, chunk: Size) -> Registers:
            """The summary of a chunk."""
            return [k.load(name, chunk) for name in self.summaries]

        def store_all(self, ahead: Sequence[Any]) -> None:
            """Go through all chunks from the state ``ahead`` of them on, and store."""
            with k.loop("chunk", _CHUNKS, kind="threads") as chunk:
                state = variables(ahead)
                with k.loop("before", chunk) as c:

                    def again() -> None:
                        self.go_through(c, lambda at, j: step(state, at, j))

                    combine(state, self.summary_of(c), again)

                def visit(at: Any, j: Any) -> None:
                    step(state, at, j)
                    store(state, at)

                self.go_through(chunk, visit)

    def never_again() -> None:
        """The ``again`` of summaries that are states: no steps, as `combine` does not call it."""

    if parts is None or parts.is_cut != 1:
        rows = prod(outer) * (1 if parts is None else 1 - parts.is_cut)
        with k.loop("row", rows, kind="blocks") as row:
            index = delinear(row, outer)
            whole = Chunks(lambda i: (*index[:dim], i, *index[dim:]), 0, dim_size)
            whole.summarize()
            whole.store_all(start)
    if parts is None:
        return
    made = [nest.scratch(v.dtype, parts.room) for v in neutral]
    with parts.each("blocks") as (row, part, at, first, length):
        chunks = Chunks(at, first, length)
        chunks.summarize()
        total = variables(neutral)
        with k.loop("chunk", _CHUNKS) as chunk:
            combine(total, chunks.summary_of(chunk), never_again)
        for name, value in zip(made, total, strict=True):
            k.store(name, parts.place(row, part), k.freeze(value))
    with parts.each("blocks") as (row, part, at, first, length):
        chunks = Chunks(at, first, length)
        chunks.summarize()
        ahead = variables(start)
        with k.loop("before", part) as before:
            combine(ahead, [k.load(name, parts.place(row, before)) for name in made], never_again)
        chunks.store_all([k.freeze(a) for a in ahead])


# -- parts of rows --------------------------------------------------------------------------------

_THREADS = 1 << 17
"""Threads that keep a large GPU busy, as it runs half as many again at a time. Not measured."""

_LEAST_OF_THREAD = 64
"""Elements of a column that are worth a thread of their own."""

_BLOCKS = 1024
"""Blocks of threads that keep a large GPU busy."""

_LEAST_OF_BLOCK = 1 << 12
"""Elements of a row that are worth a block of threads of their own."""

_FEW_ROWS, _FEW_COLUMNS = 128, 1 << 14
"""Rows, and columns, up to which what goes over them several times is cut, since each time takes
launches of its own: of more rows there is a block for each multiprocessor. Not measured."""


def count_parts(
    rows: Size, length: Size, *, inward: bool, several: bool, most: int = 1 << 12
) -> Size:
    """In how many parts each of some ``rows`` of a ``length`` is cut, 1 where there are enough of
    them: rows along memory, if ``inward``, or side by side, which something goes over ``several``
    times."""
    threads, least, few = _THREADS, _LEAST_OF_THREAD, _FEW_COLUMNS
    if inward:
        threads, least, few = _BLOCKS, _LEAST_OF_BLOCK, _FEW_ROWS
    some = dim_max(rows, 1)
    count = dim_min(dim_min(length // least, threads // some), most)
    if several:
        count = count * dim_min(few // some, 1)
    return dim_max(count, 1)


@dataclass(frozen=True, slots=True)
class Parts:
    """The rows of ``shape`` along ``dim``, each in ``count`` parts of ``size`` elements at most.
    ``is_cut`` is 1 where there are several parts, and 0 at sizes where there is one."""

    nest: Any
    shape: Shape
    dim: int
    count: Size
    size: Size
    is_cut: Size

    @property
    def inward(self) -> bool:
        """Whether the rows lie along memory."""
        return self.dim == len(self.shape) - 1

    @property
    def outer(self) -> Shape:
        """The sizes of the other dims."""
        return (*self.shape[: self.dim], *self.shape[self.dim + 1 :])

    @property
    def room(self) -> Size:
        """The parts of all rows together, none where they are not cut."""
        return prod(self.outer) * self.count * self.is_cut

    @contextmanager
    def each_whole(self) -> Iterator[Callable[[Size], Index]]:
        """A loop over the rows at sizes where they are not cut; gives the function from a position
        along a row to the index."""
        with self._loop(prod(self.outer) * (1 - self.is_cut)) as at:
            yield self._index(delinear(at, self.outer))

    @contextmanager
    def each_row(self) -> Iterator[tuple[Size, Callable[[Size], Index]]]:
        """A loop over the rows that are cut, each for a warp; gives the number, and the
        function."""
        with self.nest.k.loop("row", prod(self.outer) * self.is_cut, kind="warps") as at:
            yield at, self._index(delinear(at, self.outer))

    @contextmanager
    def each(
        self, kind: str = "parallel"
    ) -> Iterator[tuple[Size, Size, Callable[[Size], Index], Size, Size]]:
        """A loop of a kind over the parts; gives the numbers of the row and of the part, the
        function, the first position and how many there are."""
        k, n = self.nest.k, self.shape[self.dim]
        rows = prod(self.outer)
        sizes = (rows, self.count) if self.inward else (self.count, rows)
        with self._loop(prod(sizes) * self.is_cut, kind) as at:
            pair = [
                k.bind(k.index_value(i), upper=s)
                for i, s in zip(delinear(at, sizes), sizes, strict=True)
            ]
            row, part = pair if self.inward else pair[::-1]
            start = part * self.size
            length = dim_max(dim_min(self.size, n - start), 0)
            some = k.bind(k.index_value(length), "length", upper=self.size + 1)
            yield row, part, self._index(delinear(row, self.outer)), start, some

    def place(self, row: Size, part: Size) -> Size:
        """Where a part has its number in memory of `room` elements: beside those that are read
        together."""
        return row * self.count + part if self.inward else part * prod(self.outer) + row

    @contextmanager
    def _loop(self, number: Size, kind: str = "parallel") -> Iterator[Size]:
        with self.nest.loops((number,), kind) as (at,):
            yield at
        if self.inward and kind == "parallel":
            self.nest.innermost.pop()

    def _index(self, outer: Sequence[Size]) -> Callable[[Size], Index]:
        return lambda position: (*outer[: self.dim], position, *outer[self.dim :])


def cut_rows(nest: Any, dim: int, most: int) -> Parts | None:
    """The rows of the first argument along ``dim`` in ``most`` parts at most; None where they are
    not cut whatever the sizes, as on a CPU."""
    shape = nest.in_shape(0)
    if not nest.has_teams or nest.only_looks:
        return None
    rows, inward = prod((*shape[:dim], *shape[dim + 1 :])), dim == len(shape) - 1
    count = count_parts(rows, shape[dim], inward=inward, several=True, most=most)
    if is_provably_ge(1, count):
        return None
    is_cut: Size = 1 if is_provably_ge(count, 2) else dim_min(count - 1, 1)
    return Parts(nest, shape, dim, count, nest.name_size(ceil_div(shape[dim], count)), is_cut)


# -- recurrences -----------------------------------------------------------------------------------

_by_steps = running(0.0, lambda k, state, x: x, before=True)


def _shift_emit(nest: Any) -> None:
    """Threads take each element from its neighbour; without them a row goes through a register."""
    if not nest.has_teams:
        _by_steps.emit(nest)
        return
    k, dim, reverse = nest.k, nest.attrs["dim"], nest.attrs["reverse"]
    shape, dtype = nest.out_shape(0), nest.out_type(0).dtype
    fill = k.const(nest.attrs["fill"] if dtype.is_floating else int(nest.attrs["fill"]), dtype)
    last = shape[dim] - 1
    with nest.loops(shape, "parallel") as at:
        own = at[dim]
        before = dim_min(own + 1, last) if reverse else dim_max(own - 1, 0)
        is_first = k.compare("eq", k.index_value(own), k.index_value(last if reverse else 0))
        x = nest.load(0, (*at[:dim], before, *at[dim + 1 :]))
        nest.store(0, at, k.select(is_first, fill, x))


shift_op: Op = Op(
    name="shift",
    doc="Each element one position on along ``dim``, back with ``reverse``; ``fill`` at the start.",
    infer=same_type,
    reference=lambda xp, x, *, dim, fill, reverse: walk(
        xp, lambda x: xp.concatenate([xp.full_like(x[:1], fill), x[:-1]]), dim, reverse, x
    ),
    vjp=per_arg(
        lambda ct, out, x, *, dim, fill, reverse: shift_op(
            ct, dim=dim, fill=0.0, reverse=not reverse
        )
    ),
    lowering=LoopNest(_shift_emit),
    numpy="slower",
    grad_name="ShiftBackward0",
)


def _recurrence_reference(xp: Any, b: Any, a: Any, *, dim: int, reverse: bool) -> Any:
    def run(b: Any, a: Any) -> Any:
        out = b.copy()
        for j in range(1, len(b)):
            out[j] += a[j] * out[j - 1]
        return out

    return walk(xp, run, dim, reverse, b, a, exact=True)


def _recurrence_vjp(
    needs: Sequence[bool], ct: Any, out: Any, b: Any, a: Any, *, dim: int, reverse: bool
) -> list[Any]:
    back = shift_op(a, dim=dim, fill=0.0, reverse=not reverse)
    total = recurrence_op(ct, back, dim=dim, reverse=not reverse)
    return [total, total * shift_op(out, dim=dim, fill=0.0, reverse=reverse) if needs[1] else None]


_one_by_one = running(0.0, lambda k, h, b, a: k.add(b, k.mul(a, h)), exact=True)


def _recurrence_emit(nest: Any) -> None:
    """In order, or in chunks, each of which is ``h -> b + a * h`` for some ``a`` and ``b``
    (Blelloch, "Prefix sums and their applications", 1990). Where ``a``, ``b`` or ``h`` is no finite
    number, its elements are gone through one by one, as not all of them may be such."""
    k, dim = nest.k, nest.attrs["dim"]
    if not goes_in_chunks(nest, dim):
        _one_by_one.emit(nest)
        return

    def elements(at: Any) -> tuple[Any, Any]:
        return k.cast(nest.load(0, at), float64), k.cast(nest.load(1, at), float64)

    def step(state: list[Any], at: Any, j: Any) -> None:
        b, a = elements(at)
        k.set(state[0], k.add(b, k.mul(a, state[0])))

    def absorb(own: list[Any], at: Any, j: Any) -> None:
        b, a = elements(at)
        k.set(own[0], k.mul(a, own[0]))
        k.set(own[1], k.add(b, k.mul(a, own[1])))

    def combine(state: list[Any], found: list[Any], again: Callable[[], None]) -> None:
        a, b = found
        is_finite = k.apply("and", k.isfinite(a), k.isfinite(b))
        is_finite = k.apply("and", is_finite, k.isfinite(state[0]))
        k.choose(is_finite, lambda: k.set(state[0], k.add(b, k.mul(a, state[0]))), again)

    zero, one = k.const(0.0, float64), k.const(1.0, float64)
    walk_in_chunks(
        nest, dim, [zero], step, lambda state, at: nest.store(0, at, state[0]),
        [one, zero], absorb, combine,
    )  # fmt: skip


recurrence_op: Op = Op(
    name="recurrence",
    doc="``h[j] = b[j] + a[j] * h[j - 1]`` along ``dim``, with ``reverse`` from the end.",
    infer=same_type,
    reference=_recurrence_reference,
    vjp=_recurrence_vjp,
    lowering=LoopNest(_recurrence_emit),
    kinds="f",
    promote="common",
    grad_name="RecurrenceBackward0",
    numpy="slower",
)
