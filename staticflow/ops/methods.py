"""The operators and methods that tensors have in both modes, written once."""

from __future__ import annotations

from typing import Any

from staticflow.errors import SymbolicError
from staticflow.graph.dims import Size, prod
from staticflow.graph.dtypes import DType, bool_, dtype_of, float16, float32, float64, int64
from staticflow.graph.types import Shape
from staticflow.ops import arithmetic as ar
from staticflow.ops import contract as con
from staticflow.ops import indexing, reduce, slicing, view
from staticflow.ops import maths as m
from staticflow.ops import softmax as sm
from staticflow.ops.creation import ones_like, zeros_like
from staticflow.ops.promote import result_type

__all__ = ["Methods", "clamp"]


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """``x`` held between ``min`` and ``max``: numbers, or tensors to broadcast; NaN stays."""
    if isinstance(min, int | float | None) and isinstance(max, int | float | None):
        bounds = [b for b in (min, max) if b is not None]
        dtype = result_type([x, *bounds])
        x = x if x.dtype is dtype else ar.cast(x, dtype=dtype)
        return ar.clamp_op(x, min=min, max=max) if bounds else x
    if min is not None:
        x = ar.maximum(x, min)
    return x if max is None else ar.minimum(x, max)


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

    def __add__(self, other: Any) -> Any:
        return ar.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return ar.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return ar.sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return ar.sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return ar.mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return ar.mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return ar.div(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return ar.div(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return ar.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return ar.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return ar.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return ar.remainder(other, self)

    def __pow__(self, other: Any) -> Any:
        return m.pow(self, other)

    def __rpow__(self, other: Any) -> Any:
        return m.pow(other, self)

    def __matmul__(self, other: Any) -> Any:
        return con.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return con.matmul(other, self)

    def __neg__(self) -> Any:
        return ar.neg(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return m.abs(self)

    def __lt__(self, other: Any) -> Any:
        return ar.lt(self, other)

    def __le__(self, other: Any) -> Any:
        return ar.le(self, other)

    def __gt__(self, other: Any) -> Any:
        return ar.gt(self, other)

    def __ge__(self, other: Any) -> Any:
        return ar.ge(self, other)

    def __eq__(self, other: object) -> Any:
        return False if other is None else ar.eq(self, other)

    def __ne__(self, other: object) -> Any:
        return True if other is None else ar.ne(self, other)

    def __and__(self, other: Any) -> Any:
        return ar.logical_and(self, other)

    def __or__(self, other: Any) -> Any:
        return ar.logical_or(self, other)

    def __xor__(self, other: Any) -> Any:
        return ar.logical_xor(self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__  # they commute

    def __invert__(self) -> Any:
        return ar.logical_not(self)

    def __getitem__(self, key: Any) -> Any:
        return slicing.index(self, key)

    # -- functions as methods -----------------------------------------------------------------

    add = __add__
    sub = __sub__
    mul = __mul__
    div = __truediv__
    pow = __pow__
    neg = __neg__
    abs = __abs__
    lt, le, gt, ge, eq, ne = __lt__, __le__, __gt__, __ge__, __eq__, __ne__
    matmul = __matmul__
    mm, bmm, dot = con.mm, con.bmm, con.dot
    clamp = clamp
    reshape = view.reshape
    flatten, squeeze, unsqueeze = view.flatten, view.squeeze, view.unsqueeze
    permute, transpose, t = view.permute, view.transpose, view.t
    expand, narrow = view.expand, slicing.narrow
    view = view.reshape  # the last use of the module's name in this class body
    sum, mean, max, min = reduce.sum, reduce.mean, reduce.max, reduce.min
    argmax, argmin, all, any = reduce.argmax, reduce.argmin, reduce.all, reduce.any
    softmax, log_softmax, logsumexp = sm.softmax, sm.log_softmax, sm.logsumexp
    gather, scatter_add = indexing.gather, indexing.scatter_add

    def exp(self) -> Any:
        """``e ** x``."""
        return m.exp(self)

    def expm1(self) -> Any:
        """``e ** x - 1``, exact near 0."""
        return m.expm1(self)

    def log(self) -> Any:
        """The natural logarithm."""
        return m.log(self)

    def log1p(self) -> Any:
        """``log(1 + x)``, exact near 0."""
        return m.log1p(self)

    def sqrt(self) -> Any:
        """The square root."""
        return m.sqrt(self)

    def rsqrt(self) -> Any:
        """``1 / sqrt(x)``."""
        return m.rsqrt(self)

    def reciprocal(self) -> Any:
        """``1 / x``."""
        return m.reciprocal(self)

    def sin(self) -> Any:
        """The sine."""
        return m.sin(self)

    def cos(self) -> Any:
        """The cosine."""
        return m.cos(self)

    def tan(self) -> Any:
        """The tangent."""
        return m.tan(self)

    def tanh(self) -> Any:
        """The hyperbolic tangent."""
        return m.tanh(self)

    def sigmoid(self) -> Any:
        """``1 / (1 + exp(-x))``."""
        return m.sigmoid(self)

    def erf(self) -> Any:
        """The error function."""
        return m.erf(self)

    def relu(self) -> Any:
        """``x`` where it is above 0, else 0."""
        return m.relu(self)

    def sign(self) -> Any:
        """-1, 0 or 1."""
        return m.sign(self)

    def floor(self) -> Any:
        """The largest integer not above ``x``."""
        return m.floor(self)

    def ceil(self) -> Any:
        """The smallest integer not below ``x``."""
        return m.ceil(self)

    def round(self) -> Any:
        """The nearest integer, halves to even."""
        return m.round(self)

    def trunc(self) -> Any:
        """``x`` without its fraction."""
        return m.trunc(self)

    def isnan(self) -> Any:
        """Whether ``x`` is NaN."""
        return m.isnan(self)

    def square(self) -> Any:
        """``x * x``."""
        return m.pow(self, 2)

    @property
    def T(self) -> Any:
        """The transpose of a matrix."""
        return view.t(self)

    @property
    def mT(self) -> Any:
        """The last two dims exchanged."""
        return con.mT(self)

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

    def add_(self, other: Any) -> Any:
        """Add in place."""
        return self._assign(self + other)

    def sub_(self, other: Any) -> Any:
        """Subtract in place."""
        return self._assign(self - other)

    def mul_(self, other: Any) -> Any:
        """Multiply in place."""
        return self._assign(self * other)

    def div_(self, other: Any) -> Any:
        """Divide in place."""
        return self._assign(self / other)

    def clamp_(self, min: Any = None, max: Any = None) -> Any:
        """Clamp in place."""
        return self._assign(clamp(self, min, max))

    def copy_(self, other: Any) -> Any:
        """Take the values of ``other``, broadcast and cast to the own shape and dtype."""
        # a product, since a sum with 0 would lose the sign of -0.0
        return self._assign(ar.mul(other, ones_like(self)).to(self.dtype))

    def zero_(self) -> Any:
        """Become zeros."""
        return self._assign(zeros_like(self))

    __iadd__, __isub__, __imul__, __itruediv__ = add_, sub_, mul_, div_
