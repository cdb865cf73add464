"""The operators and methods that tensors have in both modes: a function of ops by each name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.errors import SymbolicError
from staticflow.graph.dims import Size, prod
from staticflow.graph.dtypes import DType, bool_, dtype_of, float16, float32, float64, int64
from staticflow.graph.types import Shape
from staticflow.ops import arithmetic as ar
from staticflow.ops import contract as con
from staticflow.ops import indexing, maths, reduce, slicing
from staticflow.ops import softmax as sm
from staticflow.ops import view as views
from staticflow.ops.creation import ones_like, zeros_like

__all__ = ["Methods"]

Function = Callable[..., Any]


def _reflected(fn: Function) -> Function:
    """``other <op> self``, asked of ``self``."""

    def method(self: Any, other: Any) -> Any:
        return fn(other, self)

    return method


def _in_place(fn: Function) -> Function:
    """The form that stores what ``fn`` gives in the tensor itself."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._assign(fn(self, *args, **kwargs))

    name = getattr(fn, "__name__", None) or getattr(fn, "name", "")
    method.__name__ = f"{name}_"
    method.__doc__ = f"`{name}` in place."
    return method


def _eq(self: Any, other: Any) -> Any:
    return False if other is None else ar.eq(self, other)


def _ne(self: Any, other: Any) -> Any:
    return True if other is None else ar.ne(self, other)


def _copied(self: Any, other: Any) -> Any:
    """``other`` broadcast and cast to the shape and dtype of ``self``."""
    # a product, since a sum with 0 would lose the sign of -0.0
    return ar.mul(other, ones_like(self)).to(self.dtype)


class Methods:
    """What `Tensor` and `Symbol` share: everything that is an op of their class's mode."""

    __slots__ = ()
    __array_priority__ = 1000  # NumPy leaves `array + tensor` to the tensor
    __array_ufunc__: Any = None
    __hash__ = object.__hash__

    @property
    def shape(self) -> Shape:
        """The sizes of the dims."""
        raise NotImplementedError

    @property
    def dtype(self) -> DType:
        """The element type."""
        raise NotImplementedError

    def _assign(self, value: Any) -> Any:
        """Take another value, as the in-place forms do."""
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
        """The shape, or the size of one dim."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> Size:
        """The number of elements."""
        return prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        size = self.shape[0]
        if not isinstance(size, int):
            raise SymbolicError(f"len(): the size {size} is known only at run time; use x.shape[0]")
        return size

    # -- operators ----------------------------------------------------------------------------

    __add__, __radd__ = ar.add, _reflected(ar.add)
    __sub__, __rsub__ = ar.sub, _reflected(ar.sub)
    __mul__, __rmul__ = ar.mul, _reflected(ar.mul)
    __truediv__, __rtruediv__ = ar.div, _reflected(ar.div)
    __floordiv__, __rfloordiv__ = ar.floor_divide, _reflected(ar.floor_divide)
    __mod__, __rmod__ = ar.remainder, _reflected(ar.remainder)
    __pow__, __rpow__ = maths.pow, _reflected(maths.pow)
    __matmul__, __rmatmul__ = con.matmul, _reflected(con.matmul)
    __neg__, __abs__, __invert__ = ar.neg, maths.abs, ar.logical_not
    __lt__, __le__, __gt__, __ge__ = ar.lt, ar.le, ar.gt, ar.ge
    __eq__ = _eq
    __ne__ = _ne
    __and__ = __rand__ = ar.logical_and  # they commute
    __or__ = __ror__ = ar.logical_or
    __xor__ = __rxor__ = ar.logical_xor
    __getitem__ = slicing.index

    def __pos__(self) -> Any:
        return self

    # -- functions as methods -----------------------------------------------------------------

    # arithmetic
    add, sub, mul, div, neg = ar.add, ar.sub, ar.mul, ar.div, ar.neg
    lt, le, gt, ge, eq, ne = ar.lt, ar.le, ar.gt, ar.ge, ar.eq, ar.ne
    clamp = ar.clamp
    # functions of real numbers
    exp, expm1, log, log1p = maths.exp, maths.expm1, maths.log, maths.log1p
    sqrt, rsqrt, reciprocal, square = maths.sqrt, maths.rsqrt, maths.reciprocal, maths.square
    sin, cos, tan, tanh = maths.sin, maths.cos, maths.tan, maths.tanh
    sigmoid, erf, relu = maths.sigmoid, maths.erf, maths.relu
    pow, abs, sign = maths.pow, maths.abs, maths.sign
    floor, ceil, round, trunc = maths.floor, maths.ceil, maths.round, maths.trunc
    isnan = maths.isnan
    # products
    matmul, mm, bmm, dot = con.matmul, con.mm, con.bmm, con.dot
    # shape
    view = reshape = views.reshape
    flatten, squeeze, unsqueeze = views.flatten, views.squeeze, views.unsqueeze
    permute, transpose, t = views.permute, views.transpose, views.t
    expand, narrow = views.expand, slicing.narrow
    # reductions
    sum, mean, max, min = reduce.sum, reduce.mean, reduce.max, reduce.min
    argmax, argmin, all, any = reduce.argmax, reduce.argmin, reduce.all, reduce.any
    softmax, log_softmax, logsumexp = sm.softmax, sm.log_softmax, sm.logsumexp
    # selection
    gather, scatter_add = indexing.gather, indexing.scatter_add

    @property
    def T(self) -> Any:
        """The transpose of a matrix."""
        return views.t(self)

    @property
    def mT(self) -> Any:
        """The last two dims exchanged."""
        return con.mT(self)

    # -- dtypes -------------------------------------------------------------------------------

    def to(self, dtype: Any) -> Any:
        """The tensor in another dtype; itself if it has that dtype."""
        wanted = dtype_of(dtype)
        return self if wanted is self.dtype else ar.cast(self, dtype=wanted)

    def type(self, dtype: Any) -> Any:
        """The tensor in another dtype."""
        return self.to(dtype)

    def float(self) -> Any:
        """The tensor in float32."""
        return self.to(float32)

    def double(self) -> Any:
        """The tensor in float64."""
        return self.to(float64)

    def half(self) -> Any:
        """The tensor in float16."""
        return self.to(float16)

    def long(self) -> Any:
        """The tensor in int64."""
        return self.to(int64)

    def bool(self) -> Any:
        """The tensor as bools, true where it is nonzero."""
        return self.to(bool_)

    # -- in-place forms -----------------------------------------------------------------------

    __iadd__ = add_ = _in_place(ar.add)
    __isub__ = sub_ = _in_place(ar.sub)
    __imul__ = mul_ = _in_place(ar.mul)
    __itruediv__ = div_ = _in_place(ar.div)
    clamp_ = _in_place(ar.clamp)
    zero_ = _in_place(zeros_like)
    copy_ = _in_place(_copied)
