"""Tensors of which each process has a part in memory."""

from __future__ import annotations

import functools
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.distributed.collectives import all_gather
from staticflow.distributed.mesh import Axis
from staticflow.eager.mode import PartArray
from staticflow.eager.tensor import Tensor
from staticflow.errors import RankError, SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import stop_gradient
from staticflow.ops.declaring.communicator import Array
from staticflow.ops.symbols.captured import note_part, part_of

__all__ = [
    "Part", "checksum", "find_odd_rank", "keep_part", "keep_part_of_parameter",
    "refuse_other_elements",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """What a process has of a tensor of this ``shape``: its part of a ``dim`` that is split over an
    axis of a mesh, as evenly as may be."""

    shape: tuple[int, ...]
    axis: Axis
    dim: int

    @property
    def chunk(self) -> int:
        """The elements along the dim that each process has, but the last ones."""
        return -(-self.shape[self.dim] // self.axis.size)

    @property
    def spec(self) -> tuple[str, ...]:
        """The names of axes by which `shard` splits a tensor so."""
        return tuple([self.axis.name if d == self.dim else "" for d in range(len(self.shape))])

    def cut(self, whole: Any) -> Any:
        """This process's part of a whole tensor, a view."""
        size = self.shape[self.dim]
        start = min(self.axis.rank * self.chunk, size)
        rows = slice(start, min(start + self.chunk, size))
        return whole[(slice(None),) * self.dim + (rows,)]

    def put(self, tensor: Tensor, whole: Any) -> None:
        """Write this process's part of a whole tensor or array into the memory of ``tensor``."""
        Tensor._wrap(np.asarray(tensor._data))[...] = self.cut(whole)
        tensor._bump()

    def gather(self, tensor: Tensor) -> Tensor:
        """The whole of ``tensor``, on every process. All processes of the axis ask for it."""
        padded = list(self.shape)
        padded[self.dim] = self.chunk
        own = np.zeros(padded, tensor.dtype.numpy)
        own[tuple(map(slice, tensor._data.shape))] = tensor._data
        whole = all_gather(Tensor._wrap(own), self.axis, self.dim)
        found: Tensor = whole[tuple(map(slice, self.shape))]
        return found


def keep_part(tensor: Tensor, part: Part) -> None:
    """Let a tensor be its part, and graphs have the whole."""
    tensor.data = Tensor._wrap(part.cut(tensor._data).copy())
    note_part(tensor, part)


def keep_part_of_parameter(tensor: Tensor, part: Part) -> None:
    """Let a parameter have its part alone in memory. It stays the object that modules and
    optimisers hold, of the shape of the whole, and is a symbol to every operation."""
    keep_part(tensor, part)
    tensor._data = tensor._data.view(PartArray)
    tensor.grad = None
    kind: Any = type(tensor)
    tensor.__class__ = _class_in_parts(kind)


def checksum(tensor: Tensor) -> int:
    """A number that tells tensors with other elements apart."""
    data: Any = tensor._data
    own = np.ascontiguousarray(data.get() if hasattr(data, "get") else data)
    return zlib.crc32(own.reshape(-1).view(np.uint8).data)


def find_odd_rank(told: Sequence[Any]) -> tuple[int, int] | None:
    """The first of the ranks, which have ``told`` these, that has told something else than most,
    and the first of most; None where all have told the same. Of two halves that of rank 0 is most.

    >>> find_odd_rank([7, 7, 3, 7]), find_odd_rank([1, 2]), find_odd_rank([5, 5])
    ((2, 0), (1, 0), None)
    """
    counts = Counter(told)
    if len(counts) == 1:
        return None
    usual = max(counts, key=lambda each: counts[each])  # which are in the order of the ranks
    return next(r for r, each in enumerate(told) if each != usual), told.index(usual)


def refuse_other_elements(what: str, names: Sequence[str], told: Sequence[Array]) -> None:
    """Raise `RankError` where a rank has told another checksum than most of any of the tensors of
    these names."""
    found = find_odd_rank([numbers.tobytes() for numbers in told])
    if not found:
        return
    odd, usual = found
    differ = np.flatnonzero(told[odd] != told[usual]).tolist()
    more = f" and {len(differ) - 1} others" if len(differ) > 1 else ""
    raise RankError(
        f"{what}: on rank {odd} the tensor {names[differ[0]]!r}{more} has other elements than on "
        f"rank {usual}; seed all ranks alike (sf.manual_seed), or broadcast from one, at "
        f"{format_locs(here())}"
    )


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
        part = part_of(self)
        raise SymbolicError(
            f"{name}: {self.name or 'the parameter'} of shape {list(self.shape)} is in parts along "
            f"{part.axis.name!r}, of which each process has one; read and write the whole by the "
            f"state_dict() and load_state_dict() of its module, at {format_locs(here())}"
        )

    return refuse


class _InParts:
    """What a parameter in parts is otherwise than others."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole."""
        found: tuple[int, ...] = part_of(self).shape
        return found

    __sf_shape__ = shape

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    def numel(self) -> int:
        """The number of elements of the whole."""
        return int(np.prod(self.shape))

    nelement = numel

    def detach(self) -> Any:
        """A symbol of the whole, without history."""
        return stop_gradient(self)

    data = property(_refusal("data"), _refusal("data"))
    numpy, item, tolist = _refusal("numpy"), _refusal("item"), _refusal("tolist")
    __array__, __dlpack__ = _refusal("__array__"), _refusal("__dlpack__")
    __copy__, __deepcopy__ = _refusal("copy"), _refusal("deepcopy")
    __reduce_ex__, __setitem__ = _refusal("pickle"), _refusal("an assignment of elements")
    _update, _assign = _refusal("a change in place"), _refusal("a change in place")
    copy_, fill_, zero_ = _refusal("copy_"), _refusal("fill_"), _refusal("zero_")

    def __repr__(self) -> str:
        part: Any = part_of(self)
        return f"<parameter of shape {list(part.shape)}, of which this is the part of {part.axis}>"


@functools.cache
def _class_in_parts(kind: Any) -> Any:
    return type(f"{kind.__name__}InParts", (_InParts, kind), {"__slots__": ()})
