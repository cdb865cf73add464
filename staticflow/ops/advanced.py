"""Whole slices selected by index tensors, and put back: ``x[i, :, j]`` and its kin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.arithmetic import where
from staticflow.ops.creation import new_full, zeros_like
from staticflow.ops.declare import normalize_dim, strict
from staticflow.ops.indexing import check_dtype, check_range, chosen
from staticflow.ops.lowering import Index, LoopNest
from staticflow.ops.slicing import from_front
from staticflow.ops.view import atleast_1d, common_shape, expand, ravel, reshape, unsqueeze

__all__ = [
    "Frame", "embedding", "embedding_op", "fill", "filling", "fitted", "index_add", "index_add_op",
    "index_copy", "index_copy_op", "index_fill", "index_op", "index_put", "index_put_op",
    "index_select", "index_select_op", "take", "take_op",
]  # fmt: skip

_SAVED = tuple(range(1, 64))
"""The index tensors, which stand behind the first argument."""


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

    def place(self, chosen: Sequence[Size], head: Index, tail: Index) -> Index:
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
    return Frame(x.shape, dims, facts.broadcast([i.shape for i in indices], "the indices meet"))


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


@contextmanager
def _chosen_rows(nest: Any, first: int, wrap: bool, kind: str) -> Iterator[Any]:
    """Loops over what stands before the slices; gives that index, loops over a slice (which
    argument ``first - 1`` has, too), and a function from the index in the slice to the index in
    argument 0."""
    frame = _frame_in(nest, first)
    with nest.loops((*frame.head, *frame.batch), kind) as at:
        head, place = at[: len(frame.head)], at[len(frame.head) :]
        named = [
            chosen(nest, first + i, place, nest.in_shape(0)[d], wrap)
            for i, d in enumerate(frame.dims)
        ]
        ends = frame.at == frame.dims[0]  # a slice is what lies at the end of argument 0
        rest = nest.loops(frame.tail, "parallel", merged=ends and nest.in_memory(first - 1))
        yield at, rest, lambda tail: frame.place(named, head, tail)


# -- selection ------------------------------------------------------------------------------------


def _pick_infer(
    facts: Facts, x: TensorType, *indices: TensorType, dims: tuple[int, ...], **_: Any
) -> TensorType:
    return TensorType(x.dtype, _frame(facts, x, indices, dims).shape)


def _pick_vjp(
    needs: Sequence[bool], ct: Any, out: Any, x: Any, *indices: Any, dims: tuple[int, ...]
) -> list[Any]:
    back = index_put_op(zeros_like(x), ct, *indices, dims=dims, accumulate=True)
    return [back, *(None for _ in indices)]


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
            _chosen_rows(nest, 1, wrap, "parallel") as (at, rest, place),
            rest as tail,
        ):
            nest.store(0, (*at, *tail), nest.load(0, place(tail)))

    return Op(
        name=name,
        doc=doc,
        infer=_pick_infer,
        reference=reference,
        vjp=vjp,
        lowering=LoopNest(emit),
        saves=_SAVED,
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
    **_: Any,
) -> TensorType:
    if values.dtype is not x.dtype:
        raise DTypeError(f"the values are {values.dtype} and the target {x.dtype}")
    wanted = _frame(facts, x, indices, dims).shape
    if values.ndim != len(wanted):
        raise ShapeError(f"the values are {values}; what is indexed has the shape {list(wanted)}")
    for axis, (n, m) in enumerate(zip(values.shape, wanted, strict=True)):
        facts.equal(n, m, f"dim {axis} of the values {values} is that of what is indexed")
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
    return [kept, moved, *(None for _ in indices)]


def _put_reference(name: str, wrap: bool) -> Callable[..., Any]:
    def reference(
        xp: Any, x: Any, values: Any, *indices: Any, dims: tuple[int, ...], accumulate: bool
    ) -> Any:
        out = x.copy()
        key = _key(xp, x, indices, dims, name, wrap)
        try:
            if accumulate:
                xp.add.at(out, key, values)
            else:
                out[key] = values
        except IndexError:
            _outside(xp, x, indices, dims, name, wrap)
            raise
        return out

    return strict(_put_infer, reference)


def _put_emit(wrap: bool) -> Callable[[Any], None]:
    def emit(nest: Any) -> None:
        k = nest.k
        nest.copy(0)
        with (  # in order: places may repeat, but not within a slice
            _chosen_rows(nest, 2, wrap, "serial") as (at, rest, place),
            rest as tail,
        ):
            value = nest.load(1, (*at, *tail))
            if nest.attrs["accumulate"]:
                value = k.add(nest.load_out(0, place(tail)), value)
            nest.store(0, place(tail), value)

    return emit


def _put(name: str, doc: str, grad_name: str, wrap: bool) -> Op:
    """An op ``(x, values, *indices, dims, accumulate)`` that puts values in, places that repeat in
    order; ``wrap`` if an index may count from the end."""
    return Op(
        name=name,
        doc=doc,
        infer=_put_infer,
        reference=_put_reference(name, wrap),
        vjp=_put_vjp,
        lowering=LoopNest(_put_emit(wrap)),
        saves=_SAVED[1:],
        eager="large",
        grad_name=grad_name,
    )


index_put_op = _put(
    "index_put",
    "``x`` with ``values`` put, or with ``accumulate`` added, where index tensors, one for each of "
    "``dims``, name slices together.",
    "IndexPutBackward0",
    wrap=True,
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


# -- the functions --------------------------------------------------------------------------------


def _vector(index: Any, what: str) -> Any:
    if index.ndim > 1:
        raise ShapeError(
            f"{what}: the index must be a vector, not of shape {list(index.shape)}, "
            f"at {format_locs(here())}"
        )
    return reshape(index, (1,)) if index.ndim == 0 else index


def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices of ``input`` along ``dim`` that the vector ``index`` (int32 or int64) names.

    Raises `IndexRangeError` for an index outside ``[0, input.shape[dim])``.

    >>> import staticflow as sf
    >>> sf.index_select(sf.tensor([[1, 2], [3, 4]]), 0, sf.tensor([1, 1]))
    tensor([[3, 4],
            [3, 4]])
    """
    at = normalize_dim(dim, input.ndim, "index_select")
    rows = index_select_op(atleast_1d(input), _vector(index, "index_select"), dims=(at,))
    return rows if input.ndim else reshape(rows, ())


def take(input: Any, index: Any) -> Any:
    """The elements that ``index`` names, counted through all of ``input`` in row-major order;
    negative ones count from the end. In the shape of ``index``."""
    return take_op(ravel(input), index, dims=(0,))


def embedding(weight: Any, indices: Any, padding_idx: int | None = None) -> Any:
    """The rows of the matrix ``weight`` that ``indices``, of any shape, name: shape
    ``(*indices.shape, weight.shape[1])``. The row ``padding_idx`` gets no gradient.

    Raises `IndexRangeError` for an index outside ``[0, weight.shape[0])``.
    """
    if weight.ndim != 2:
        raise ShapeError(
            f"embedding: the weight must be a matrix, not of shape {list(weight.shape)}, "
            f"at {format_locs(here())}"
        )
    row = None if padding_idx is None else from_front(padding_idx, weight.shape[0], 0)
    return embedding_op(weight, indices, dims=(0,), padding_idx=row)


def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """``input`` with ``values`` (broadcast) where the tensors ``indices`` name elements or slices
    along the first dims; with ``accumulate`` added to what is there. ``input`` is not changed.

    >>> import staticflow as sf
    >>> i = sf.tensor([0, 0, 2])
    >>> sf.index_put(sf.zeros(3), (i,), sf.ones(3), accumulate=True)
    tensor([2., 0., 1.])
    """
    dims = tuple(range(len(indices)))
    if not 0 < len(dims) <= input.ndim:
        raise ShapeError(
            f"index_put: {len(dims)} indices for a tensor of {input.ndim} dims, "
            f"at {format_locs(here())}"
        )
    return put_at(input, indices, dims, values, accumulate)


def put_at(
    x: Any, indices: Sequence[Any], dims: tuple[int, ...], values: Any, accumulate: bool = False
) -> Any:
    """`index_put_op` with ``values`` broadcast to what the indices name."""
    batch = common_shape([i.shape for i in indices], "index_put")
    shape = Frame(x.shape, dims, batch).shape
    return index_put_op(x, fitted(values, shape), *indices, dims=dims, accumulate=accumulate)


def fitted(value: Any, shape: Sequence[Size]) -> Any:
    """``value`` broadcast to ``shape``; leading dims of size 1 that are too many are left out, as
    PyTorch does where values are stored."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = reshape(value, value.shape[1:])
    return expand(value, tuple(shape))


def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    """``input`` with ``alpha * source`` added to the slices along ``dim`` that the vector ``index``
    names; ``input`` is not changed.

    Raises `IndexRangeError` for an index outside ``[0, input.shape[dim])``.
    """
    scaled = source if alpha == 1 else source * alpha
    return _into(index_add_op, input, dim, index, scaled, accumulate=True)


def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """``input`` with ``source`` in place of the slices along ``dim`` that the vector ``index``
    names; ``input`` is not changed. Of places that repeat the last one counts.

    Raises `IndexRangeError` for an index outside ``[0, input.shape[dim])``.
    """
    return _into(index_copy_op, input, dim, index, source, accumulate=False)


def _into(op: Op, x: Any, dim: int, index: Any, source: Any, accumulate: bool) -> Any:
    at = normalize_dim(dim, x.ndim, op.name)
    rows = _vector(index, op.name)
    out = op(atleast_1d(x), atleast_1d(source), rows, dims=(at,), accumulate=accumulate)
    return out if x.ndim else reshape(out, ())


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """``input`` with ``value`` (a number or 0-d tensor) in the slices along ``dim`` that the vector
    ``index`` names; negative ones count from the end. ``input`` is not changed."""
    at = normalize_dim(dim, input.ndim, "index_fill")
    one = filling(value, input, "index_fill")
    out = put_at(atleast_1d(input), (_vector(index, "index_fill"),), (at,), one)
    return out if input.ndim else reshape(out, ())


def fill(x: Any, value: Any) -> Any:
    """``value`` (a number or 0-d tensor) everywhere, in the shape and dtype of ``x``."""
    return expand(filling(value, x, "fill"), x.shape)


def filling(value: Any, x: Any, what: str) -> Any:
    """A number or 0-d tensor to fill places of ``x`` with, in its dtype."""
    if not hasattr(value, "__sf_mode__"):
        return new_full(x, (), value)
    if value.ndim:
        raise ShapeError(
            f"{what}: the value must be a number or 0-d, not of shape {list(value.shape)}, "
            f"at {format_locs(here())}"
        )
    return value.to(x.dtype)
