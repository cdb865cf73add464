"""Kernels that programs share for work on rows of unknown length (`RowWork`).

Such a kernel is called ``shared_``, the name of its work, ``_`` and the short name of the dtype,
with ``_apart`` behind it if the elements of the row do not lie one behind the other. It takes the
row, what it writes to, and memory to work in.
"""

from __future__ import annotations

from staticflow.codegen.kernel import Buffer, Kernel, Operand, Shared
from staticflow.codegen.lower.nest_loops import NestLoops
from staticflow.codegen.maths.scalars import Scalars
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import DTYPES, DType
from staticflow.ops.along.order import SORT_DOWN, SORT_UP
from staticflow.ops.along.ranks import RANK
from staticflow.ops.declaring.lowering import RowWork

__all__ = ["RowNest", "RowWorkKernel", "emit_row_work", "is_row_work", "share_row_work"]

_WORKS = {work.name: work for work in (SORT_UP, SORT_DOWN, RANK)}

_APART = "_apart"


class RowNest(NestLoops):
    """What work on a row sees of the kernel that is built for it."""

    has_teams = False

    def __init__(self, k: Scalars, step: Size) -> None:
        """``step`` is how many elements of memory neighbours of the row lie apart."""
        super().__init__(k)
        self._step = step

    def key_at(self, j: Size) -> Operand:
        """An element of the row."""
        return self.k.load("keys", j * self._step)

    @property
    def dtype(self) -> DType:
        """The dtype of the row."""
        return self.k.buffers["keys"].dtype


@dataclass(frozen=True, slots=True)
class RowWorkKernel:
    """A kernel that does work on a row, the variables of its loops to vectorise, and the width of
    the elements there; whether it looks if the user wants to stop."""

    kernel: Kernel
    inner: tuple[Sym, ...]
    bits: int
    looks: bool


def is_row_work(name: str) -> bool:
    """Whether a kernel of that name, which programs share, does work on a row."""
    return name.split("_")[1] in _WORKS


def share_row_work(work: RowWork, dtype: DType, is_apart: bool = False) -> Shared:
    """The kernel for rows of a dtype, as those know it that call it; of rows whose elements lie
    apart it takes the step last."""
    name = f"shared_{work.name}_{dtype.short}{_APART if is_apart else ''}"
    sizes = _sizes(work, is_apart)
    return Shared(name, _buffers(work, dtype), sizes, lambda: emit_row_work(name).kernel)


def emit_row_work(name: str) -> RowWorkKernel:
    """The kernel of that name."""
    is_apart = name.endswith(_APART)
    _, of_work, short = name.removesuffix(_APART).split("_")
    work, dtype = _WORKS[of_work], next(d for d in DTYPES if d.short == short)
    sizes = _sizes(work, is_apart)
    k = Scalars([*_buffers(work, dtype)], [*sizes])
    nest = RowNest(k, Dim.of(sizes[-1]) if is_apart else 1)
    work.emit(nest, *map(Dim.of, sizes[: len(work.sizes)]))
    bits = max(d.bits for _, d, _ in work.results(dtype, 0))
    return RowWorkKernel(k.kernel(name), tuple(nest.innermost), bits, work.looks)


def _sizes(work: RowWork, is_apart: bool) -> tuple[Sym, ...]:
    return (*map(Sym, work.sizes), *((Sym("step"),) if is_apart else ()))


def _buffers(work: RowWork, dtype: DType) -> tuple[Buffer, ...]:
    own = *work.results(dtype, 0), *work.rooms(dtype, 0)
    return (Buffer("keys", dtype, "in"), *(Buffer(name, d, "inout") for name, d, _ in own))
