"""States of optimisers in parts: each process keeps and updates its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.distributed.collectives import all_gather
from staticflow.distributed.mesh import Axis
from staticflow.eager.tensor import Tensor
from staticflow.errors import DTypeError, SymbolicError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here
from staticflow.ops.symbols.captured import note_part, part_of

__all__ = ["Part", "split_state"]

SMALLEST = 1 << 14
"""Bytes below which a tensor stays whole: its part would save less than a message costs."""


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

    def cut(self, whole: Any) -> Any:
        """This process's part of a whole tensor, a view."""
        size = self.shape[self.dim]
        start = min(self.axis.rank * self.chunk, size)
        rows = slice(start, min(start + self.chunk, size))
        return whole[(slice(None),) * self.dim + (rows,)]

    def gather(self, part: Tensor) -> Tensor:
        """The whole tensor, on every process. All processes of the axis ask for it."""
        padded = list(self.shape)
        padded[self.dim] = self.chunk
        own = np.zeros(padded, part.dtype.numpy)
        own[tuple(map(slice, part.shape))] = part.detach().numpy()
        whole = all_gather(Tensor._wrap(own), self.axis, self.dim)
        found: Tensor = whole[tuple(map(slice, self.shape))]
        return found


def split_state(optimizer: Any, axis: Axis) -> None:
    """Split what an optimiser keeps of each parameter, as Adam its two moments, over an axis of the
    mesh: from now on this process has its part, along the longest dim, in memory, and a program
    that is compiled for the mesh updates that alone. The parameters stay whole. This is stage 1 of
    ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054).

    ``optimizer.state_dict()`` gives the whole state, on every process, which all call; so what was
    saved by four is loaded by one or by three: ``load_state_dict`` takes whole states. Tensors of
    less than 16 KiB stay whole. Raises `DTypeError` for what is no optimiser or no axis, and
    `SymbolicError` for an optimiser with a step of its own. ``optimizer.step()``, which runs now,
    is a `SymbolicError` from then on.

    >>> import staticflow as sf
    >>> def bytes_of_state():
    ...     mesh = sf.distributed.mesh(data=-1)
    ...     w = sf.nn.Parameter(sf.ones(64, 256))
    ...     optimizer = sf.optim.Adam([w])
    ...     sf.distributed.split_state(optimizer, mesh.axis("data"))
    ...     return optimizer.state[w]["exp_avg"].shape
    >>> sf.distributed.simulate(bytes_of_state, 3)
    [(64, 86), (64, 86), (64, 84)]
    """
    if not hasattr(optimizer, "make_state"):
        raise DTypeError(
            f"split_state: takes an optimiser, not {with_article(type(optimizer))}, at "
            f"{format_locs(here())}"
        )
    if any(group.is_free for group in optimizer.param_groups):
        raise SymbolicError(
            f"split_state: {type(optimizer).__name__} has a step of its own, which runs now and is "
            f"no part of a program; give it a rule (update) instead, at {format_locs(here())}"
        )
    if not isinstance(axis, Axis):
        raise DTypeError(
            f"split_state: the axis is {with_article(type(axis))}; it must be one of a mesh, as "
            f'mesh.axis("data"), at {format_locs(here())}'
        )
    for state in optimizer.make_state().values():
        for tensor in state.values():
            if part_of(tensor) is None and tensor._data.nbytes >= SMALLEST:
                _keep_part(tensor, axis)
    optimizer.register_step_pre_hook(_refuse_step)


def _keep_part(tensor: Tensor, axis: Axis) -> None:
    part = Part(tensor.shape, axis, _longest(tensor.shape))
    tensor.data = Tensor._wrap(part.cut(tensor._data).copy())
    note_part(tensor, part)


def _longest(shape: Sequence[int]) -> int:
    return max(range(len(shape)), key=lambda d: shape[d])


def _refuse_step(optimizer: Any, *_: Any) -> None:
    raise SymbolicError(
        f"{type(optimizer).__name__}.step: the state is in parts, of which each process has one; "
        "compile the updates of optimizer.minimize(loss) with mesh=, at "
        f"{format_locs(here())}"
    )
