"""Views of whole tensors: the same elements, in their order, under another shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dims import Dim, Size, is_provably_ge, prod, same, same_shape
from staticflow.graph.dtypes import DType, dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.memory_formats import require_rows
from staticflow.graph.op import Op
from staticflow.graph.rowmajor import is_slow, row_major
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import elementwise, normalize_dim, normalize_dims, per_arg
from staticflow.ops.declaring.lowering import Index, View, delinear, linear
from staticflow.ops.declaring.numpy_names import numpy_names
from staticflow.ops.declaring.required import require_equal, require_other
from staticflow.ops.declaring.sizes import as_sizes, needed_sizes_of, several_of

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "contiguous",
    "contiguous_op",
    "flatten",
    "is_one_at_most",
    "of_size",
    "ravel",
    "reshape",
    "reshape_as",
    "reshape_copied",
    "reshape_op",
    "same_view",
    "squeeze",
    "squeeze_op",
    "unflatten",
    "unsqueeze",
    "unsqueeze_op",
    "view",
    "view_as",
    "with_ones",
]  # fmt: skip


# -- memory -------------------------------------------------------------------------------------


def same_view(x: Any, op: Op, **attrs: Any) -> Any:
    """What the view ``op`` gives that changes nothing: another tensor on the memory of ``x``, as in
    PyTorch, with a history of its own."""
    return x._view_of_all() if x.__sf_mode__.rank else op(x, **attrs)


contiguous_op = elementwise(
    "contiguous",
    "The same values in memory of their own, in row-major order.",
    lambda xp, x: row_major(x),
    lambda k, x: x,
    (lambda ct, out, x: ct,),
    grad_name="CloneBackward0",
    numpy="faster",
)


@by_shape
def contiguous(x: Any, memory_format: Any = None) -> Any:
    """``x`` itself if its elements lie in row-major order in memory, else a copy where they do. A
    ``memory_format`` is None, `preserve_format` or `contiguous_format`.
    """
    require_rows("contiguous", memory_format)
    if x.__sf_mode__.rank:
        return x._perhaps_itself()
    return x if x.is_contiguous() else contiguous_op(x)


# -- reshape ------------------------------------------------------------------------------------


def _reshape_infer(facts: Facts, x: TensorType, *, shape: Shape) -> TensorType:
    facts.equal(x.size, prod(shape), f"the elements of {x} and of {list(shape)}")
    return TensorType(x.dtype, shape)


def _regroup(index: Index, src: Shape, dst: Shape) -> Index:
    """Where the element of ``dst`` at ``index`` lies in ``src``. Dims that hold the same elements
    in both are taken by themselves, so that their positions need no division by unknown sizes."""
    ends = {prod(dst[:b]): b for b in range(len(dst))}
    position: list[Size] = []
    a0 = b0 = 0
    for a in range(1, len(src) + 1):
        b = len(dst) if a == len(src) else ends.get(prod(src[:a]), -1)
        if b >= b0:
            position += delinear(linear(index[b0:b], dst[b0:b]), src[a0:a])
            a0, b0 = a, b
    return tuple(position)


def _reshape_array(xp: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    if is_slow(x) and not _same_memory(x.shape, x.strides, shape):
        x = row_major(x)
    return x.reshape(shape)


reshape_op = Op(
    name="reshape",
    doc="The same elements, in row-major order, in another ``shape``.",
    infer=_reshape_infer,
    reference=_reshape_array,
    vjp=per_arg(lambda ct, out, x, *, shape: reshape(ct, x.shape)),
    lowering=View(lambda i, src, dst, *, shape: _regroup(i, src, dst)),
    grad_name="ViewBackward0",
)


def _complete(shape: Shape, sizes: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """``sizes`` with a size of -1 worked out from ``shape``."""
    missing = [i for i, s in enumerate(sizes) if isinstance(s, int) and s < 0]
    if not missing:
        return sizes
    known = prod(s for i, s in enumerate(sizes) if i not in missing)
    wrong = (
        "leaves more than one size open" if len(missing) > 1
        else f"has the negative size {sizes[missing[0]]}" if sizes[missing[0]] != -1
        else "leaves a size open that could be any size" if known == 0
        else None
    )  # fmt: skip
    if wrong:
        raise ShapeError(
            f"{what}: {list(sizes)} {wrong}; the tensor is of shape {list(shape)}, "
            f"at {format_locs(here())}"
        )
    rest = prod(shape) // known
    return tuple(rest if i in missing else s for i, s in enumerate(sizes))


@by_shape
def reshape(input: Any, *sizes: Any, shape: Sequence[Any] | None = None) -> Any:
    """The elements of ``input`` in another shape; one size may be -1 and is worked out.

    >>> import staticflow as sf
    >>> sf.reshape(sf.arange(6), 2, -1).shape
    (2, 3)
    """
    wanted = _complete(input.shape, needed_sizes_of(sizes, shape), "reshape")
    if same_shape(wanted, input.shape):
        return same_view(input, reshape_op, shape=wanted)
    return reshape_op(input, shape=wanted)


def of_size(x: Any, dim: int, size: Size) -> Any:
    """``x``, of whose ``dim`` the size is ``size``: assumed where that is not known, and asked as
    the program runs."""
    shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
    return x if same_shape(shape, x.shape) else _view_as_shape(x, shape)


def is_one_at_most(size: Size) -> bool:
    """Whether a size is 1, or known to be no larger as soon as it is known."""
    return same(size, 1) or (isinstance(size, Dim) and is_provably_ge(1, size))


def stretching_ones(shapes: Sequence[Shape]) -> Sequence[Shape]:
    """The shapes, with 1 for unknown sizes that are 1 at most where another shape, counted from the
    back, has another size: in the shape in which all meet these are the ones that stretch."""
    if not any(isinstance(size, Dim) for shape in shapes for size in shape):  # as eagerly
        return shapes
    found = []
    for shape in shapes:
        own = list(shape)
        for axis in range(-len(shape), 0):
            size = own[axis]
            if isinstance(size, Dim) and any(
                len(other) >= -axis and not same(other[axis], size) and not same(other[axis], 1)
                for other in shapes
            ):
                own[axis] = 1 if is_provably_ge(1, size) else size
        found.append(tuple(own))
    return found


def stretchable(x: Any, shape: Shape) -> Any:
    """``x`` with 1 for the sizes that are 1 at most, as that of ``y[:1]``, where it is to stretch
    to ``shape``: assumed to be 1, and asked as the program runs."""
    for dim, (own, wanted) in enumerate(zip(x.shape, shape[len(shape) - x.ndim :], strict=True)):
        if not (same(own, wanted) or same(wanted, 1)) and is_one_at_most(own):
            x = of_size(x, dim, 1)
    return x


@by_shape
def view(x: Any, *shape: Any, size: Sequence[Size] | None = None, dtype: Any = None) -> Any:
    """``x`` in another shape on the same memory; or, of a dtype alone, its bits as that, the last
    dim growing or shrinking with the size of an element.

    Raises `ShapeError` where the strides of ``x`` do not allow that; `reshape` copies then.
    """
    if len(shape) == 1 and isinstance(shape[0], DType | type):
        dtype = shape[0]
    if dtype is not None:
        wanted = dtype_of(dtype)
        return view(x, x.shape) if wanted is x.dtype else x._bits_as(wanted)
    sizes = _complete(x.shape, needed_sizes_of(shape, size), "view")
    eager = not x.__sf_mode__.rank
    if eager and not x.is_contiguous() and not _same_memory(x.shape, x.stride(), sizes):
        raise ShapeError(
            f"view: the shape {list(sizes)} is not compatible with a tensor of shape "
            f"{list(x.shape)} and strides {list(x.stride())}: a dim would span parts of memory "
            f"that do not adjoin; use .reshape(...), which copies, at {format_locs(here())}"
        )
    if same_shape(sizes, x.shape):
        return same_view(x, reshape_op, shape=sizes)
    return _view_as_shape(x, sizes)


def _view_as_shape(x: Any, shape: Shape) -> Any:
    """`reshape_op` where it is a view whatever the strides of ``x``."""
    return x._view_as_shape(shape) if x.__sf_mode__.rank else reshape_op(x, shape=shape)


def _same_memory(shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether elements that lie at ``strides`` can be strided in the shape ``wanted``, too."""
    if 0 in shape or prod(shape) != prod(wanted):
        return True  # nothing to copy; or the type rule refuses it
    runs: list[int] = []  # sizes of the parts of memory in which one stride serves, innermost first
    adjoining = 0
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 1:
            continue
        if runs and stride == adjoining:
            runs[-1] *= size
        else:
            runs.append(size)
        adjoining = stride * size
    sizes = (s for s in reversed(wanted) if s != 1)
    for run in runs:
        while run > 1:
            size = next(sizes)
            if run % size:
                return False
            run //= size
    return True


@by_shape
def view_as(x: Any, other: Any) -> Any:
    """``x`` in the shape of ``other`` on the same memory, as `view`."""
    return view(x, other.shape)


def reshape_copied(input: Any, shape: Sequence[Any]) -> Any:
    """The elements of ``input`` in another shape, in memory of their own also where a view would
    do: what PyTorch copies may be changed in place."""
    if input.__sf_mode__.rank:
        return reshape(input, shape).clone()
    return reshape(contiguous_op(input), shape)


@by_shape
def reshape_as(x: Any, other: Any) -> Any:
    """``x`` in the shape of ``other``, as `reshape`."""
    return reshape(x, other.shape)


@by_shape
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dims ``start_dim`` to ``end_dim`` (inclusive) as one."""
    a = normalize_dim(start_dim, input.ndim, "flatten")
    b = normalize_dim(end_dim, input.ndim, "flatten")
    if a == b and input.ndim:
        return input
    if a > b:
        raise ShapeError(
            f"flatten: start_dim {start_dim} lies behind end_dim {end_dim}, "
            f"at {format_locs(here())}"
        )
    return reshape(input, (*input.shape[:a], prod(input.shape[a : b + 1]), *input.shape[b + 1 :]))


@by_shape
def ravel(input: Any) -> Any:
    """All elements in one dim."""
    return reshape(input, (prod(input.shape),))


@by_shape
def unflatten(input: Any, dim: int, sizes: Sequence[Size]) -> Any:
    """``dim`` split into dims of ``sizes``, of which one may be -1.

    >>> import staticflow as sf
    >>> sf.zeros(6, 4).unflatten(0, (2, -1)).shape
    (2, 3, 4)
    """
    at = normalize_dim(dim, input.ndim, "unflatten")
    if input.ndim == 0:
        raise ShapeError(f"unflatten: takes one dim at least, not 0, at {format_locs(here())}")
    size = input.shape[at]
    parts = _complete((size,), as_sizes(sizes), "unflatten")
    if isinstance(prod(parts) - size, int) and not same(prod(parts), size):
        raise ShapeError(
            f"unflatten: {list(sizes)} do not make up dim {at} of shape {list(input.shape)}, "
            f"at {format_locs(here())}"
        )
    what = f"unflatten: {list(sizes)} and dim {at} of shape {list(input.shape)}"
    input = require_equal(input, prod(parts), size, what)
    shape = (*input.shape[:at], *parts, *input.shape[at + 1 :])
    return reshape(input, shape) if same_shape(shape, input.shape) else _view_as_shape(input, shape)


# -- dims of size 1 -----------------------------------------------------------------------------


def _drop_dims(shape: Sequence[Any], dims: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(d for i, d in enumerate(shape) if i not in dims)


def with_ones(shape: Sequence[Any], dims: tuple[int, ...], one: Any) -> tuple[Any, ...]:
    """``shape`` with ``one`` put in so that it stands at each of ``dims``, which ascend."""
    full = list(shape)
    for d in dims:
        full.insert(d, one)
    return tuple(full)


def _squeeze_infer(facts: Facts, x: TensorType, *, dims: tuple[int, ...]) -> TensorType:
    for d in dims:
        facts.equal(x.shape[d], 1, f"the size of dim {d} of {x} and 1")
    return TensorType(x.dtype, _drop_dims(x.shape, dims))


squeeze_op: Op = Op(
    name="squeeze",
    doc="Without ``dims``, each of which has the size 1.",
    infer=_squeeze_infer,
    reference=lambda xp, x, *, dims: x.reshape(_drop_dims(x.shape, dims)),
    vjp=per_arg(lambda ct, out, x, *, dims: unsqueeze_op(ct, dims=dims)),
    lowering=View(lambda i, src, dst, *, dims: with_ones(i, dims, 0)),
    grad_name="SqueezeBackward0",
)

unsqueeze_op: Op = Op(
    name="unsqueeze",
    doc="With new dims of size 1, which are ``dims`` of the result.",
    infer=lambda facts, x, *, dims: TensorType(x.dtype, with_ones(x.shape, dims, 1)),
    reference=lambda xp, x, *, dims: x.reshape(with_ones(x.shape, dims, 1)),
    vjp=per_arg(lambda ct, out, x, *, dims: squeeze_op(ct, dims=dims)),
    lowering=View(lambda i, src, dst, *, dims: _drop_dims(i, dims)),
    grad_name="UnsqueezeBackward0",
)


@by_shape
@numpy_names
def squeeze(input: Any, dim: int | Sequence[int] | None = None) -> Any:
    """Without every dim whose size is 1, or without those of ``dim`` (one or several) whose size is
    1. A size known only as the program runs stays, and the run refuses it where it is 1; one that
    is 1 at most, as that of ``x[:1]``, is assumed to be 1, and asked as the program runs."""
    named = normalize_dims(dim, input.ndim, "squeeze") if input.ndim else ()
    dims = tuple(d for d in named if is_one_at_most(input.shape[d]))
    for d in named:
        size = input.shape[d]
        if isinstance(size, Dim) and d not in dims:
            what = (
                f"squeeze: the unknown size of dim {d} of shape {list(input.shape)}, which stays,"
            )
            input = require_other(input, size, 1, what)
    return squeeze_op(input, dims=dims) if dims else same_view(input, squeeze_op, dims=())


@by_shape
@numpy_names
def unsqueeze(input: Any, dim: int | Sequence[int]) -> Any:
    """``input`` with a new dim of size 1 at ``dim``, or at each of several: positions in the
    result.

    >>> import staticflow as sf
    >>> sf.unsqueeze(sf.ones(3), (0, 2)).shape
    (1, 3, 1)
    """
    if isinstance(dim, int):
        return unsqueeze_op(input, dims=(normalize_dim(dim, input.ndim + 1, "unsqueeze"),))
    dims = as_sizes(dim)
    return unsqueeze_op(input, dims=normalize_dims(dims, input.ndim + len(dims), "unsqueeze"))


def atleast_1d(*tensors: Any) -> Any:
    """Each tensor with one dim at least; a tuple if several are given."""
    return _each(tensors, lambda x: reshape(x, (1,)) if x.ndim == 0 else x)


def atleast_2d(*tensors: Any) -> Any:
    """Each tensor with two dims at least, new ones in front; a tuple if several are given."""
    return _each(tensors, lambda x: reshape(x, (1,) * (2 - x.ndim) + x.shape) if x.ndim < 2 else x)


def atleast_3d(*tensors: Any) -> Any:
    """Each tensor with three dims at least; a matrix gets its new one behind, a vector one on
    either side. A tuple if several are given."""

    def grow(x: Any) -> Any:
        if x.ndim >= 3:
            return x
        return reshape(x, {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[x.ndim])

    return _each(tensors, grow)


def _each(tensors: tuple[Any, ...], fn: Any) -> Any:
    """``fn`` of one tensor, or the tuple of several; they may come in one list."""
    several = several_of(tensors)
    made = tuple(fn(x) for x in several)
    return made[0] if len(tensors) == 1 and several is tensors else made
