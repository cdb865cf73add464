"""The operators and methods that tensors have in both modes: a function of ops by each name."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

from staticflow.errors import DimRangeError, DTypeError, SymbolicError
from staticflow.graph.dims import Size, prod
from staticflow.graph.dtypes import DType
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import Shape
from staticflow.ops.along import (
    counts,
    cumulative,
    extremes,
    multiplication,
    order,
    places,
    ranks,
    sets,
)
from staticflow.ops.along import softmax as sm
from staticflow.ops.basics import arithmetic as ar
from staticflow.ops.basics import axes, casting, creation, joining, reduce, slicing, splitting
from staticflow.ops.basics import expand as expanding
from staticflow.ops.basics import view as views
from staticflow.ops.basics.creation import ones_like, zeros_like
from staticflow.ops.declaring.foreign import refuses_foreign, refuses_foreign_of
from staticflow.ops.declaring.thread import autocasting, thread
from staticflow.ops.elementwise import bits, maths
from staticflow.ops.indexing import (
    data_dependent,
    gather_ops,
    index_functions,
    mask_ops,
    mask_put,
    memory_views,
    roll_repeat,
    scatter_ops,
)
from staticflow.ops.matrices import contract as con
from staticflow.ops.matrices import (
    determinants,
    exponential,
    factors,
    products,
    reflections,
    singular_values,
    solving,
    triangle,
    triangular,
)
from staticflow.ops.statistics import distances, moments, samples
from staticflow.ops.tensors import namespace, queries, shortcuts, subscript
from staticflow.ops.tensors.array_functions import array_function
from staticflow.ops.tensors.elementwise_methods import ElementwiseMethods, in_place
from staticflow.ops.tensors.torch_functions import refuse_torch_function
from staticflow.ops.tensors.ufuncs import array_ufunc

__all__ = ["REFLECTED", "Methods", "reflect"]

Function = Callable[..., Any]

REFLECTED: dict[Function, Any] = {}
"""What the operators do whose operands stand the other way round, by method."""


def reflect(fn: Function) -> Function:
    """``other <op> self``, asked of ``self``."""

    def method(self: Any, other: Any) -> Any:
        return fn(other, self)

    REFLECTED[method] = fn
    return method


def _in_shape(fn: Function) -> Function:
    """The form that gives the tensor itself the shape of what ``fn`` gives, a view of it."""

    @wraps(fn, (), ())  # of which it has the signature
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._take_shape(fn, args, kwargs)

    method.__name__ = method.__qualname__ = f"{fn.__name__}_"
    method.__doc__ = f"`{fn.__name__}` in place."
    worded: Function = refuses_foreign(method)
    return worded


_fill_where_diagonal = in_place(triangle.fill_diagonal)


def _fill_diagonal(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """`fill_diagonal` in place."""
    if wrap or self.ndim < 2:
        return _fill_where_diagonal(self, fill_value, wrap)
    part = self
    while part.ndim > 1:
        part = triangle.diagonal(part)
    part.fill_(fill_value)
    return self


_fill_diagonal.__name__ = _fill_diagonal.__qualname__ = "fill_diagonal_"


def _eq(self: Any, other: Any) -> Any:
    return False if other is None else ar.eq(self, other)


def _ne(self: Any, other: Any) -> Any:
    return True if other is None else ar.ne(self, other)


def _copy_of(self: Any, other: Any) -> Any:
    """``other`` broadcast and cast to the shape and dtype of ``self``."""
    # a product, since a sum with 0 would lose the sign of -0.0
    return ar.mul(other, ones_like(self)).to(self.dtype)


def _zeros(x: Any) -> Any:
    """Zeros in the place of ``x``."""
    return zeros_like(x)


class Methods(ElementwiseMethods):
    """What `Tensor` and `Symbol` share: everything that is an op of their class's mode."""

    __slots__ = ()
    __array_ufunc__ = array_ufunc
    __array_function__ = array_function
    __array_namespace__, to_device = namespace.array_namespace, namespace.to_device
    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        refuse_torch_function(func, args, kwargs or {})

    @property
    def shape(self) -> Shape:
        """The sizes of the dims."""
        raise NotImplementedError

    @property
    def dtype(self) -> DType:
        """The element type."""
        raise NotImplementedError

    def _assign(self, value: Any) -> Any:
        """Take another value."""
        raise NotImplementedError

    def _update(self, fn: Function, args: Any, kwargs: Any) -> Any:
        """Take the value of ``fn(self, *args, **kwargs)``, as the in-place forms do."""
        if thread.state.autocast is not None:  # what is written in place is not cast for
            with autocasting(None):
                return self._assign(fn(self, *args, **kwargs))
        return self._assign(fn(self, *args, **kwargs))

    def _take_shape(self, fn: Function, args: Any, kwargs: Any) -> Any:
        """Become ``fn(self, *args, **kwargs)``, which has the same elements in another shape."""
        raise NotImplementedError

    # -- about itself -------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    def dim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dim; raises `DimRangeError` where there is no such dim."""
        shape = self.shape
        if dim is None:
            return shape
        try:
            return shape[dim]
        except IndexError:
            raise DimRangeError(
                f"size: a tensor of {len(shape)} dims has no dim {dim}, at {format_locs(here())}"
            ) from None

    def numel(self) -> Size:
        """The number of elements."""
        return prod(self.shape)

    nelement, ndimension = numel, dim
    is_same_size, is_nonzero = queries.is_same_size, queries.is_nonzero

    def __len__(self) -> int:
        if not self.shape:
            raise DTypeError(f"len() of a 0-d tensor, at {format_locs(here())}")
        size = self.shape[0]
        if not isinstance(size, int):
            raise SymbolicError(
                f"len(): the size {size} is known only when the program runs; use x.shape[0], "
                "or have it known, by a number in the placeholder or sf.jit(fn, dynamic=False), "
                f"at {format_locs(here())}"
            )
        return size

    # -- operators ----------------------------------------------------------------------------

    __add__, __radd__ = ar.add, reflect(ar.add)
    __sub__, __rsub__ = ar.sub, reflect(ar.sub)
    __mul__, __rmul__ = ar.mul, reflect(ar.mul)
    __truediv__, __rtruediv__ = ar.div, reflect(ar.div)
    __floordiv__, __rfloordiv__ = ar.floor_divide, reflect(ar.floor_divide)
    __mod__, __rmod__ = ar.remainder, reflect(ar.remainder)
    __pow__, __rpow__ = maths.pow, reflect(maths.pow)
    __matmul__, __rmatmul__ = con.matmul, reflect(con.matmul)
    __neg__, __abs__, __invert__ = ar.neg, maths.abs, bits.bitwise_not
    __lt__, __le__, __gt__, __ge__ = ar.lt, ar.le, ar.gt, ar.ge
    __eq__ = _eq
    __ne__ = _ne
    __and__ = __rand__ = bits.bitwise_and  # they commute
    __or__ = __ror__ = bits.bitwise_or
    __xor__ = __rxor__ = bits.bitwise_xor
    __lshift__ = bits.bitwise_left_shift
    __rlshift__ = reflect(bits.bitwise_left_shift)
    __rshift__ = bits.bitwise_right_shift
    __rrshift__ = reflect(bits.bitwise_right_shift)
    __getitem__, __setitem__ = subscript.get, subscript.put_in_place

    def __delitem__(self, key: Any) -> NoReturn:
        raise DTypeError(
            "del x[...]: a tensor has all its elements; choose those that stay, as in x[1:] or "
            f"x[mask], at {format_locs(here())}"
        )

    def __contains__(self, element: Any) -> bool:
        found = self == element
        if isinstance(found, bool):  # Python's own answer for what no operation takes
            raise DTypeError(
                f"what is looked for in a tensor is a number or a tensor, not "
                f"{type(element).__name__}, at {format_locs(here())}"
            )
        return bool(found.any())

    def where(self, condition: Any, other: Any) -> Any:
        """The own elements where ``condition`` is true, those of ``other`` elsewhere."""
        return ar.where(condition, self, other)

    def __pos__(self) -> Any:
        return self

    # -- functions as methods -----------------------------------------------------------------

    # products
    matmul, mm, bmm, dot = con.matmul, con.mm, con.bmm, con.dot
    mv, vdot, outer, ger = products.mv, products.vdot, products.outer, products.ger
    inner, cross, kron = products.inner, products.cross, products.kron
    addmm, baddbmm, addbmm = products.addmm, products.baddbmm, products.addbmm
    addmv, addr = products.addmv, products.addr
    det, logdet, slogdet = determinants.det, determinants.logdet, determinants.slogdet
    inverse, cholesky, matrix_power = solving.inv, solving.cholesky, solving.matrix_power
    qr, svd = factors.qr_by_some, factors.svd_by_columns
    pinverse, cholesky_solve = singular_values.pinverse, triangular.cholesky_solve
    matrix_exp, cholesky_inverse = exponential.matrix_exp, reflections.cholesky_inverse
    renorm, dist = shortcuts.renorm, distances.dist
    # shape
    view, view_as, reshape, reshape_as = views.view, views.view_as, views.reshape, views.reshape_as
    flatten, unflatten, ravel = views.flatten, views.unflatten, views.ravel
    squeeze, unsqueeze, as_strided = views.squeeze, views.unsqueeze, memory_views.as_strided
    expand, expand_as = expanding.expand, expanding.expand_as
    broadcast_to = expanding.broadcast_to
    permute, movedim, moveaxis = axes.permute, axes.movedim, axes.moveaxis
    transpose, swapaxes, swapdims = axes.transpose, axes.swapaxes, axes.swapdims
    t, adjoint = axes.t, axes.adjoint
    flip, fliplr, flipud, rot90 = axes.flip, axes.fliplr, axes.flipud, axes.rot90
    narrow, split, chunk = splitting.narrow, splitting.split_method, splitting.chunk
    tensor_split, unbind = splitting.tensor_split, splitting.unbind
    hsplit, vsplit, dsplit = splitting.hsplit, splitting.vsplit, splitting.dsplit
    repeat, tile, roll = joining.repeat, joining.tile, roll_repeat.roll
    repeat_interleave, contiguous = roll_repeat.repeat_interleave, views.contiguous
    diagonal, diag, trace = triangle.diagonal, triangle.diag, triangle.trace
    diag_embed, diagonal_scatter = triangle.diag_embed, triangle.diagonal_scatter
    tril, triu, unfold = triangle.tril, triangle.triu, triangle.unfold
    narrow_copy, split_with_sizes = shortcuts.narrow_copy, shortcuts.split_with_sizes
    diagflat, sum_to_size = shortcuts.diagflat, shortcuts.sum_to_size
    select, slice_scatter = subscript.select, slicing.slice_scatter
    select_scatter = slicing.select_scatter
    # reductions
    sum, mean, all, any = reduce.sum, reduce.mean, reduce.all, reduce.any
    nansum, nanmean, count_nonzero = reduce.nansum, reduce.nanmean, reduce.count_nonzero
    max, min, amax, amin = extremes.max, extremes.min, extremes.amax, extremes.amin
    argmax, argmin, aminmax = extremes.argmax, extremes.argmin, extremes.aminmax
    prod, cumsum, cumprod = multiplication.prod, cumulative.cumsum, cumulative.cumprod
    logcumsumexp, cummax, diff = cumulative.logcumsumexp, cumulative.cummax, cumulative.diff
    cummin, var, std, norm = cumulative.cummin, moments.var, moments.std, moments.norm
    quantile, nanquantile = samples.quantile, samples.nanquantile
    cov, corrcoef = samples.cov, samples.corrcoef
    histc, bincount, histogram = counts.histc, counts.bincount, counts.histogram
    # order
    mode, msort = samples.mode, shortcuts.msort
    unique, unique_consecutive = sets.unique, sets.unique_consecutive
    sort, argsort, topk = order.sort, order.argsort, order.topk
    kthvalue, median, nanmedian = ranks.kthvalue, ranks.median, ranks.nanmedian
    softmax, log_softmax, logsumexp = sm.softmax, sm.log_softmax, sm.logsumexp
    # selection
    gather, scatter_add = gather_ops.gather, gather_ops.scatter_add
    scatter, scatter_reduce = scatter_ops.scatter, scatter_ops.scatter_reduce
    index_reduce, put = scatter_ops.index_reduce, scatter_ops.put
    take, take_along_dim = index_functions.take, gather_ops.take_along_dim
    index_select, index_add = index_functions.index_select, index_functions.index_add
    index_copy, index_fill = index_functions.index_copy, index_functions.index_fill
    index_put, masked_fill = mask_put.index_put, mask_ops.masked_fill
    masked_scatter, masked_select = mask_ops.masked_scatter, data_dependent.masked_select
    nonzero, argwhere = data_dependent.nonzero, data_dependent.argwhere
    nonzero_static = places.nonzero_static

    T, mT, H, mH = map(property, (axes.reverse_dims, axes.mT, axes.H, axes.mT))

    # -- dtypes -------------------------------------------------------------------------------

    to, type, type_as = casting.to, casting.type_, casting.type_as
    bool, byte, char = casting.bool_, casting.byte, casting.char
    short, int, long = casting.short, casting.int_, casting.long
    half, bfloat16, float, double = casting.half, casting.bfloat16, casting.float_, casting.double
    is_floating_point, is_signed = casting.is_floating_point, casting.is_signed
    is_complex = casting.is_complex

    # -- tensors beside it --------------------------------------------------------------------

    new_full, new_zeros = creation.new_full, creation.new_zeros
    new_ones, new_empty = creation.new_ones, creation.new_empty

    # -- in-place forms -----------------------------------------------------------------------

    __iadd__, __isub__ = in_place(ar.add), in_place(ar.sub)
    __imul__, __itruediv__ = in_place(ar.mul), in_place(ar.div)
    __ifloordiv__, __imod__ = in_place(ar.floor_divide), in_place(ar.remainder)
    __ipow__, __iand__ = in_place(maths.pow), in_place(bits.bitwise_and)
    __ior__, __ixor__ = in_place(bits.bitwise_or), in_place(bits.bitwise_xor)
    __ilshift__ = in_place(bits.bitwise_left_shift)
    __irshift__ = in_place(bits.bitwise_right_shift)
    zero_ = in_place(_zeros, "zero")
    copy_ = in_place(_copy_of, "copy")
    fill_, fill_diagonal_ = in_place(index_functions.fill), _fill_diagonal
    tril_, triu_ = in_place(triangle.tril), in_place(triangle.triu)
    masked_fill_ = in_place(mask_ops.masked_fill)
    masked_scatter_ = in_place(mask_ops.masked_scatter)
    index_add_, index_copy_ = (
        in_place(index_functions.index_add),
        in_place(index_functions.index_copy),
    )
    index_fill_, index_put_ = in_place(index_functions.index_fill), in_place(mask_put.index_put)
    scatter_, scatter_add_ = in_place(scatter_ops.scatter), in_place(gather_ops.scatter_add)
    scatter_reduce_ = in_place(scatter_ops.scatter_reduce)
    index_reduce_, put_ = in_place(scatter_ops.index_reduce), in_place(scatter_ops.put)
    renorm_, cumsum_ = in_place(shortcuts.renorm), in_place(cumulative.cumsum)
    cumprod_, addmm_ = in_place(cumulative.cumprod), in_place(products.addmm)
    addbmm_, baddbmm_ = in_place(products.addbmm), in_place(products.baddbmm)
    addmv_, addr_ = in_place(products.addmv), in_place(products.addr)
    t_, transpose_ = _in_shape(axes.t), _in_shape(axes.transpose)
    swapaxes_, swapdims_ = _in_shape(axes.swapaxes), _in_shape(axes.swapdims)
    squeeze_, unsqueeze_ = _in_shape(views.squeeze), _in_shape(views.unsqueeze)


refuses_foreign_of(ElementwiseMethods)
refuses_foreign_of(Methods, but=("bmm", "dot", "matmul", "mm"))
