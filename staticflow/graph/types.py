"""What is known of a value before it is computed: its dtype and its shape; and the rules by which
shapes meet.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import field

from staticflow.data_classes import dataclass
from staticflow.errors import ShapeError
from staticflow.graph.dim_queries import substitute_dim
from staticflow.graph.dims import Size, Sym, dim_max, is_provably_ge, prod, same, same_shape
from staticflow.graph.dtypes import DType

__all__ = ["Assumption", "Facts", "Shape", "TensorType", "Type", "types_of"]

Shape = tuple[Size, ...]

MOST_DIMS = 64
"""Dims of an array of NumPy's, at most."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The dtype and shape of one tensor, printed as ``f32[N, 10]``.

    An array that a program is given may lie ``strides`` apart in memory, in elements along each
    dim, as part of a wider one does (``f32[N, 10] strides [16, 1]``). Any other is row-major.
    """

    dtype: DType
    shape: Shape
    strides: Shape | None = None

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def size(self) -> Size:
        """The number of elements."""
        return prod(self.shape)

    @property
    def dense(self) -> TensorType:
        """The type of an array in row-major order, of this dtype and shape."""
        return self if self.strides is None else TensorType(self.dtype, self.shape)

    @property
    def sizes(self) -> Shape:
        """All that an array of the type tells: its shape, and its strides where they may differ."""
        return self.shape + (self.strides or ())

    def check_possible(self) -> None:
        """Raise `ShapeError` if no array has this type, whatever the unknown sizes are."""
        if len(self.shape) > MOST_DIMS:
            raise ShapeError(f"an array has at most {MOST_DIMS} dims, not {len(self.shape)}")
        most = self.dtype.numpy.itemsize
        for size in self.shape:
            if type(size) is int and size:  # NumPy counts so, too: empty arrays are held to it
                most *= size
        if most > sys.maxsize:
            raise ShapeError(f"{self} is no type of arrays, which have at most {sys.maxsize} bytes")

    def offset(self, index: Shape) -> Size:
        """Where in memory the element at ``index`` lies, counted from the first."""
        at: Size = 0
        if self.strides is None:
            for i, d in zip(index, self.shape, strict=True):
                at = at * d + i
        else:
            for i, s in zip(index, self.strides, strict=True):
                at = at + i * s
        return at

    def substitute(self, values: dict[Sym, Size]) -> TensorType:
        """The type with dim symbols replaced."""

        def put_in(sizes: Shape) -> Shape:
            return tuple(substitute_dim(d, values) for d in sizes)

        strides = None if self.strides is None else put_in(self.strides)
        return TensorType(self.dtype, put_in(self.shape), strides)

    def __str__(self) -> str:
        shape = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        if self.strides is None:
            return shape
        return f"{shape} strides [{', '.join(map(str, self.strides))}]"


Type = TensorType | tuple[TensorType, ...]
"""A node gives one tensor, or a tuple of them of which `item` takes one."""


def types_of(t: Type) -> tuple[TensorType, ...]:
    """The tensors of a type, one or several."""
    return t if isinstance(t, tuple) else (t,)


@dataclass(frozen=True, slots=True)
class Assumption:
    """Two sizes that an op needs to be equal, to be checked when sizes are known."""

    a: Size
    b: Size
    reason: str


@dataclass(slots=True)
class Facts:
    """Collects what shape rules assume about unknown sizes."""

    assumptions: list[Assumption] = field(default_factory=list)

    def equal(self, a: Size, b: Size, what: str, otherwise: str = "") -> Size:
        """One size for two that must be the same: those of ``what``, a noun ("the rows of x and
        of y"). What may be done ``otherwise`` stands behind that in the error.

        Raises `ShapeError` if they never are; where it depends on the run it is assumed.
        """
        if same(a, b):
            return a
        if isinstance(a - b, int) or is_provably_ge(a, b + 1) or is_provably_ge(b, a + 1):
            raise ShapeError(f"{what}: {a} and {b} differ; they must be equal{otherwise}")
        self.assumptions.append(Assumption(a, b, what))
        return a if isinstance(a, int) else b  # a number tells more than a name

    def at_least(self, size: Size, least: Size, what: str) -> None:
        """The ``size`` of ``what``, a noun, is ``least`` or more.

        Raises `ShapeError` if it never is; where it depends on the run it is assumed.
        """
        if is_provably_ge(size, least):
            return
        if isinstance(size - least, int) or is_provably_ge(least - 1, size):
            raise ShapeError(f"{what}: {size} is too small; it must be at least {least}")
        self.assumptions.append(Assumption(dim_max(size, least), size, what))

    def broadcast(self, shapes: Sequence[Shape], what: str = "the sizes") -> Shape:
        """NumPy's broadcasting, where only a literal 1 stretches."""
        if len(shapes) > 1 and all(same_shape(s, shapes[0]) for s in shapes[1:]):  # as most are
            return tuple(shapes[0])
        ndim = max((len(s) for s in shapes), default=0)
        out: list[Size] = []
        for axis in range(-ndim, 0):
            size: Size = 1
            for s in shapes:
                if -axis > len(s) or same(s[axis], 1):
                    continue
                if same(size, 1):
                    size = s[axis]
                else:
                    stretched = ", or one of them 1"
                    size = self.equal(size, s[axis], f"{what} at dim {axis}", stretched)
            out.append(size)
        return tuple(out)
