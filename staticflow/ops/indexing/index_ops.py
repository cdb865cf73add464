"""The operations behind ``x[i, :, j]``: whole slices selected by index tensors, and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Size, prod, same_shape
from staticflow.graph.dtypes import dtype_of, int64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.creation import iota, new_full, zeros_like
from staticflow.ops.basics.expand import common_shape
from staticflow.ops.basics.reduce import add_wide
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.declaring.array_modules import combine_at, put_at
from staticflow.ops.declaring.declare import strict
from staticflow.ops.declaring.lowering import Index, IndexCheck, LoopNest, Place
from staticflow.ops.indexing.gather_ops import added_by, check_dtype, check_range, load_index

__all__ = [
    "Frame", "embedding_op", "index_add_op", "index_copy_op", "index_op", "index_put_op",
    "index_select_op", "take_op",
]  # fmt: skip

# -- how dims meet --------------------------------------------------------------------------------


class Frame:
    """How dims of ``x`` and of index tensors meet in ``x[..., i, j, ...]``: the indexed ``dims``,
    which ascend, give way to the dims of the indices broadcast together. These stand where the
    indexed dims stood if they adjoin, else in front. ``head`` are the sizes before them, ``tail``
    those behind."""

    __slots__ = ("at", "batch", "dims", "head", "tail")

    def __init__(self, shape: Shape, dims: tuple[int, ...], batch: Shape) -> None:
        rest = tuple(d for axis, d in enumerate(shape) if axis not in dims)
        adjoin = dims == tuple(range(dims[0], dims[0] + len(dims)))
        self.at = dims[0] if adjoin else 0
        self.dims, self.batch = dims, batch
        self.head, self.tail = rest[: self.at], rest[self.at :]

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return (*self.head, *self.batch, *self.tail)

    def position(self, chosen: Sequence[Size], head: Index, tail: Index) -> Index:
        """The index in ``x`` where the indices name ``chosen``."""
        named = dict(zip(self.dims, chosen, strict=True))
        rest = iter((*head, *tail))
        ndim = len(self.dims) + len(self.head) + len(self.tail)
        return tuple(named[axis] if axis in named else next(rest) for axis in range(ndim))


def _frame(
    facts: Facts, x: TensorType, indices: Sequence[TensorType], dims: tuple[int, ...]
) -> Frame:
    """The frame of index tensors, whose dtypes are checked."""
    for index in indices:
        check_dtype(index)
    if len(indices) != len(dims) or not all(0 <= d < x.ndim for d in dims):
        raise ShapeError(f"{len(indices)} indices cannot stand for the dims {list(dims)} of {x}")
    return Frame(
        x.shape, dims, facts.broadcast([i.shape for i in indices], "the sizes of the indices")
    )


def _key(
    xp: Any, x: Any, indices: Sequence[Any], dims: tuple[int, ...], op: str, wrap: bool
) -> tuple[Any, ...]:
    """The key under which NumPy selects the same; the indices are checked, but for those that NumPy
    checks as we do."""
    key: list[Any] = [slice(None)] * x.ndim
    for dim, index in zip(dims, indices, strict=True):
        if not wrap or xp is not np or index.dtype.kind not in "iu":
            check_range(xp, index, x.shape[dim], op, dim, wrap)
        key[dim] = index
    return tuple(key)


def _outside(
    xp: Any, x: Any, indices: Sequence[Any], dims: tuple[int, ...], op: str, wrap: bool
) -> None:
    """Say which index it was that NumPy refused."""
    for dim, index in zip(dims, indices, strict=True):
        check_dtype(TensorType(dtype_of(index.dtype), index.shape))
        check_range(xp, index, x.shape[dim], op, dim, wrap)


def _frame_in(nest: Any, first: int) -> Frame:
    """The frame in a loop nest, whose index tensors are the arguments from ``first`` on."""
    shapes = [nest.in_shape(i) for i in range(first, nest.n_in)]
    return Frame(nest.in_shape(0), nest.attrs["dims"], Facts().broadcast(shapes))


def _checks(first: int, wrap: bool) -> Callable[..., list[IndexCheck]]:
    """What is checked of index tensors, the arguments from ``first`` on."""

    def checks(*types: TensorType, dims: tuple[int, ...], **_: Any) -> list[IndexCheck]:
        shape = types[0].shape
        frame = Frame(shape, dims, Facts().broadcast([t.shape for t in types[first:]]))
        found = []
        for i, d in enumerate(dims, first):
            around = frame.head if same_shape(types[i].shape, frame.batch) else frame.shape
            found.append(IndexCheck(i, shape[d], wrap, around))
        return found

    return checks


@contextmanager
def _chosen_rows(nest: Any, first: int, wrap: bool, kind: str) -> Iterator[Any]:
    """Loops over what stands before the slices; gives that index, loops over a slice (which
    argument ``first - 1`` has, too), and a function from the index in the slice to the index in
    argument 0."""
    frame = _frame_in(nest, first)
    with nest.loops((*frame.head, *frame.batch), kind) as at:
        head, position = at[: len(frame.head)], at[len(frame.head) :]
        named = [
            load_index(nest, first + i, position, nest.in_shape(0)[d], wrap)
            for i, d in enumerate(frame.dims)
        ]
        ends = frame.at == frame.dims[0]  # a slice is what lies at the end of argument 0
        rest = nest.loops(frame.tail, "parallel", merged=ends and nest.in_memory(first - 1))
        yield at, rest, lambda tail: frame.position(named, head, tail)


# -- selection ------------------------------------------------------------------------------------


def _pick_infer(
    facts: Facts, x: TensorType, *indices: TensorType, dims: tuple[int, ...], **_: Any
) -> TensorType:
    return TensorType(x.dtype, _frame(facts, x, indices, dims).shape)


def _pick_vjp(
    needs: Sequence[bool], ct: Any, out: Any, x: Any, *indices: Any, dims: tuple[int, ...]
) -> list[Any]:
    back = add_wide(
        lambda zeros, ct: index_put_op(zeros, ct, *indices, dims=dims, accumulate=True),
        zeros_like(x),
        ct,
    )
    return [back, *(None for _ in indices)]


def _pick_source(
    index: Index, x: Shape, *shapes: Shape, dims: tuple[int, ...], **_: Any
) -> tuple[list[Index], Place] | None:
    """Where an element comes from if all dims are indexed."""
    if len(dims) < len(x):
        return None
    at = [
        tuple(0 if d == 1 else i for i, d in zip(index[len(index) - len(s) :], s, strict=True))
        for s in shapes
    ]
    return at, lambda chosen: Frame(x, dims, ()).position(chosen, (), ())


def _pick(name: str, doc: str, grad_name: str, wrap: bool, vjp: Any = _pick_vjp) -> Op:
    """An op ``(x, *indices, dims)`` that selects; ``wrap`` if an index may count from the end."""

    def reference(xp: Any, x: Any, *indices: Any, dims: tuple[int, ...], **_: Any) -> Any:
        try:
            found = x[_key(xp, x, indices, dims, name, wrap)]
        except IndexError:
            _outside(xp, x, indices, dims, name, wrap)
            raise
        return found if any(i.ndim for i in indices) else found.copy()

    def emit(nest: Any) -> None:
        with (
            _chosen_rows(nest, 1, wrap, "parallel") as (at, rest, position),
            rest as tail,
        ):
            nest.store(0, (*at, *tail), nest.load(0, position(tail)))

    return Op(
        name=name,
        doc=doc,
        infer=_pick_infer,
        reference=reference,
        vjp=vjp,
        lowering=LoopNest(emit, checks=_checks(1, wrap), source=_pick_source),
        numpy="small",
        exact=True,
        grad_name=grad_name,
    )


index_op = _pick(
    "index",
    "The slices of ``x`` that index tensors, one for each of ``dims``, name together; negative "
    "ones count from the end.",
    "IndexBackward0",
    wrap=True,
)
index_select_op = _pick(
    "index_select",
    "The slices of ``x`` along one dim that an index tensor names.",
    "IndexSelectBackward0",
    wrap=False,
)
take_op = _pick(
    "take",
    "The elements of a vector that an index tensor names; negative ones count from the end.",
    "TakeBackward0",
    wrap=True,
)


def _embedding_vjp(
    needs: Sequence[bool],
    ct: Any,
    out: Any,
    x: Any,
    index: Any,
    *,
    dims: tuple[int, ...],
    padding_idx: int | None,
) -> list[Any]:
    if padding_idx is not None:
        ct = where(unsqueeze(index != padding_idx, -1), ct, 0)
    return _pick_vjp(needs, ct, out, x, index, dims=dims)


embedding_op = _pick(
    "embedding",
    "The rows of a matrix that an index tensor names; row ``padding_idx`` gets no gradient.",
    "EmbeddingBackward0",
    wrap=False,
    vjp=_embedding_vjp,
)


# -- putting back ---------------------------------------------------------------------------------


def _put_infer(
    facts: Facts,
    x: TensorType,
    values: TensorType,
    *indices: TensorType,
    dims: tuple[int, ...],
    accumulate: bool,
) -> TensorType:
    if values.dtype is not x.dtype:
        raise DTypeError(f"the values are {values.dtype} and the target {x.dtype}")
    wanted = _frame(facts, x, indices, dims).shape
    if values.ndim != len(wanted):
        raise ShapeError(f"the values are {values}; what is indexed has the shape {list(wanted)}")
    for axis, (n, m) in enumerate(zip(values.shape, wanted, strict=True)):
        facts.equal(n, m, f"dim {axis} of the values {values} and of what is indexed")
    return x


def _put_vjp(
    needs: Sequence[bool],
    ct: Any,
    out: Any,
    x: Any,
    values: Any,
    *indices: Any,
    dims: tuple[int, ...],
    accumulate: bool,
) -> list[Any]:
    kept, moved = None, None
    if needs[0]:
        kept = ct if accumulate else index_put_op(
            ct, zeros_like(values), *indices, dims=dims, accumulate=False
        )  # fmt: skip
    if needs[1]:
        moved = index_op(ct, *indices, dims=dims)
        if not accumulate:
            stays = _stays(x, values, indices, dims)
            moved = moved if stays is None else where(stays, moved, 0)
    return [kept, moved, *(None for _ in indices)]


def _stays(x: Any, values: Any, indices: Sequence[Any], dims: tuple[int, ...]) -> Any:
    """Which slices of ``values`` stay where positions repeat, broadcast to them: the last of each
    position. None if no position can repeat."""
    frame = Frame(x.shape, dims, common_shape([i.shape for i in indices], "index_put"))
    count = prod(frame.batch)
    if isinstance(count, int) and count <= 1:
        return None
    number = reshape(iota.beside(x, shape=(count,), dim=0, dtype=int64), frame.batch)
    own = tuple(range(len(dims)))
    positions = new_full(number, tuple(x.shape[d] for d in dims), 0)
    last = index_op(
        index_put_op(positions, number, *indices, dims=own, accumulate=False), *indices, dims=own
    )
    return reshape(last == number, (*frame.batch, *(1 for _ in frame.tail)))


def _put_reference(name: str, wrap: bool) -> Callable[..., Any]:
    def reference(
        xp: Any, x: Any, values: Any, *indices: Any, dims: tuple[int, ...], accumulate: bool
    ) -> Any:
        out = x.copy()
        key = _key(xp, x, indices, dims, name, wrap)
        try:
            if accumulate:
                combine_at(xp, "add", out, key, values)
            else:
                put_at(xp, out, key, values)
        except IndexError:
            _outside(xp, x, indices, dims, name, wrap)
            raise
        return out

    return strict(_put_infer, reference)


def _put_emit(wrap: bool) -> Callable[[Any], None]:
    def emit(nest: Any) -> None:
        k = nest.k
        nest.copy(0)
        with (  # in order: positions may repeat, but not within a slice
            _chosen_rows(nest, 2, wrap, "serial") as (at, rest, position),
            rest as tail,
        ):
            value = nest.load(1, (*at, *tail))
            if nest.attrs["accumulate"]:
                value = k.apply(added_by(value), nest.load_out(0, position(tail)), value)
            nest.store(0, position(tail), value)

    return emit


def _put(name: str, doc: str, grad_name: str, wrap: bool, saves: Sequence[int] | None = None) -> Op:
    """An op ``(x, values, *indices, dims, accumulate)`` that puts values in, positions that repeat
    in order; ``wrap`` if an index may count from the end."""
    return Op(
        name=name,
        doc=doc,
        infer=_put_infer,
        reference=_put_reference(name, wrap),
        vjp=_put_vjp,
        lowering=LoopNest(_put_emit(wrap), updates=True, checks=_checks(2, wrap)),
        saves=saves,
        numpy="slower",
        grad_name=grad_name,
    )


index_put_op = _put(
    "index_put",
    "``x`` with ``values`` put, or with ``accumulate`` added, where index tensors, one for each of "
    "``dims``, name slices together.",
    "IndexPutBackward0",
    wrap=True,
    saves=range(2, 64),  # the indices, which the cotangent of x does without if values are added
)
index_add_op = _put(
    "index_add",
    "``x`` with ``values`` added to the slices along one dim that an index tensor names.",
    "IndexAddBackward0",
    wrap=False,
)
index_copy_op = _put(
    "index_copy",
    "``x`` with ``values`` in place of the slices along one dim that an index tensor names.",
    "IndexCopyBackward0",
    wrap=False,
)
