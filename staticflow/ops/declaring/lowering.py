"""The kinds of lowering by which an op says how kernels compute it.

They hold functions over ``k``, the builder of a kernel that is passed in (a
`staticflow.codegen.maths.scalars.Scalars`); operands are registers or constants of it, of one lane
or many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import DType
from staticflow.graph.types import Shape

__all__ = [
    "Attend",
    "Checked",
    "Contract",
    "Correlate",
    "CorrelateKernel",
    "Elementwise",
    "Generate",
    "Host",
    "IndexCheck",
    "LoopNest",
    "Measure",
    "Place",
    "Prefix",
    "Reduce",
    "Region",
    "Room",
    "RowWork",
    "View",
]

Index = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Elementwise:
    """``emit(k, *operands, **attrs)`` gives one element of the result from those at the same index
    of the arguments (broadcast). In the arguments' dtype; the result is cast to the node's."""

    emit: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Checked(Elementwise):
    """Elementwise work that ends the program, for a ``reason`` as an index outside of its dim is
    one, unless ``inside(k, *operands, **attrs)`` is true of every element."""

    inside: Callable[..., Any]
    reason: str = "index"


@dataclass(frozen=True, slots=True)
class Generate:
    """``emit(k, index, lanes, **attrs)`` gives the element at ``index`` from the index alone."""

    emit: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class View:
    """``source(index, in_shape, out_shape, **attrs)`` is the index in the argument whose element
    stands at ``index`` of the result; no arithmetic on elements.

    Of a part of the argument, which has no element of it twice, ``span(in_shape, **attrs)`` is the
    dim and the positions in it, from the first to the end, if the part is all that lies there; None
    if it is another."""

    source: Callable[..., Index]
    span: Callable[..., tuple[int, int, int] | None] | None = None


@dataclass(frozen=True, slots=True)
class Reduce:
    """Elements along ``dims`` (an attribute, with ``keepdim``) combined by ``combine``, one of
    ``add``, ``mul``, ``max``, ``min``, ``and``, ``or``."""

    combine: str


@dataclass(frozen=True, slots=True)
class Contract:
    """A matrix product over the last two dims, the others batched:
    ``out[b, m, n] = sum_k x[b, m, k] * y[b, k, n]``."""


@dataclass(frozen=True, slots=True)
class Correlate(Contract):
    """A matrix product for each window: ``out[n, o, p] = sum_{c, k} x[n, c, p*s + k*d] w[o, c, k]``
    with the attributes of `staticflow.ops.windows.correlate.correlate_op`."""


@dataclass(frozen=True, slots=True)
class CorrelateKernel(Contract):
    """Its counterpart for the kernel:
    ``out[o, c, k] = sum_{n, p} y[n, o, p] x[n, c, p*s + k*d]``."""


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """A check that every element of an ``argument`` is below ``size`` and no less than 0, or, if it
    ``wraps``, than ``-size``. It is made where all the loops ``around`` have an iteration."""

    argument: int
    size: Size
    wraps: bool = False
    around: Shape = ()


@dataclass(frozen=True, slots=True)
class Attend:
    """Weights of queries and keys, worked out and used block by block, and never in memory as a
    whole. The first arguments are ``matrices``, then come ``rows``, a number for each query, and
    then what stands for each query and each key, which the kernel works out from what it is made
    of. ``backward`` says which of the two kernels it is."""

    matrices: int
    rows: int = 0
    backward: bool = False


Place = Callable[[Sequence[Size]], Index]
"""The index of an element in an array, from the positions that index tensors name."""


@dataclass(frozen=True, slots=True)
class LoopNest:
    """``emit(nest)`` writes the whole loop nest into a `staticflow.codegen.lower.nest.Nest`. One
    that ``updates`` begins with a copy of argument 0, reads no more of that, and stores to some
    places: where the result lies over the argument it is written twice, first for its checks
    alone. One that can fail for nothing but indices says so in ``checks``: given the types of the
    arguments and the attributes it gives what is checked of which. One of which each element is
    one of argument 0, at positions that the others, index tensors, name, may be worked out where
    it is read: ``source(index, *shapes, **attrs)`` gives for an element at ``index`` where each of
    the others is read, and the `Place` in argument 0; None where they name more than elements.
    ``checks`` has one check of each of them then, in order. One that ``inlines`` reads each element
    of an argument once, row by row, so that it may be worked out there."""

    emit: Callable[..., None]
    updates: bool = False
    inlines: bool = False
    checks: Callable[..., Sequence[IndexCheck]] | None = None
    source: Callable[..., tuple[Sequence[Index], Place] | None] | None = None


Room: TypeAlias = tuple[str, DType, Size]
"""A buffer: its name, its dtype, and how many elements of it a row needs."""


@dataclass(frozen=True, slots=True)
class RowWork:
    """Work on a row of unknown length that is the same in every program: a kernel of its own does
    it, which programs share, so that none of them has to compile it. The elements of the row are of
    one dtype and lie one behind the other, or a ``step`` apart if it ``takes_steps``.

    The ``name`` is of letters. For ``n`` elements of a dtype, ``results(dtype, n)`` are the buffers
    that it writes to, and ``rooms(dtype, n)`` those that it works in.
    ``emit(nest, *sizes)`` writes the work into a `staticflow.codegen.lower.row_work.RowNest`; the
    first of the ``sizes`` is the number of elements. ``work(n)`` is about how much that is, as
    `staticflow.codegen.work` counts it. Work that ``looks`` ends early if the user wants to stop:
    where a row may take seconds; a search looks between rows alone, since looking in one of 1,000
    elements takes half as long again.
    """

    name: str
    results: Callable[[DType, Size], tuple[Room, ...]]
    rooms: Callable[[DType, Size], tuple[Room, ...]]
    emit: Callable[..., None]
    work: Callable[[Size], Size]
    sizes: tuple[str, ...] = ("n",)
    takes_steps: bool = False
    looks: bool = False


@dataclass(frozen=True, slots=True)
class Region:
    """A loop over a nested graph, lowered to a loop of the program, not of a kernel."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number in memory becomes a size of the program."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first rows of an array: the same memory."""


@dataclass(frozen=True, slots=True)
class Host:
    """No kernel does it: the program asks Python, which runs the op's reference on the operands in
    memory. The attributes name no sizes."""


def linear(index: Sequence[Size], shape: Shape) -> Size:
    """The position of ``index`` in a row-major array of ``shape``."""
    at: Size = 0
    for i, d in zip(index, shape, strict=True):
        at = at * d + i
    return at


def delinear(at: Size, shape: Shape) -> Index:
    """The index at position ``at`` of a row-major array of ``shape``; zeros where there is none."""
    if 0 in shape:
        return (0,) * len(shape)
    index: list[Size] = []
    for d in reversed(shape[1:]):
        index.append(at % d)
        at = at // d
    if shape:
        index.append(at)
    return tuple(reversed(index))
