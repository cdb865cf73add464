"""States of optimisers, and parameters, in parts: each process keeps and updates its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.distributed.mesh import Axis
from staticflow.distributed.parts import (
    Part,
    checksum,
    keep_part,
    keep_part_of_parameter,
    refuse_other_elements,
)
from staticflow.errors import DeviceError, DTypeError, SymbolicError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.communicator import current
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.symbols.captured import part_of

__all__ = ["split_parameters", "split_state"]

SMALLEST = 1 << 14
"""Bytes below which a tensor stays whole: its part would save less than a message costs."""


def split_state(optimizer: Any, axis: Axis, dim: int | None = None) -> None:
    """Split what an optimiser keeps of each parameter, as Adam its two moments, over an axis of the
    mesh: from now on this process has its part, along ``dim``, else the longest one, in memory, and
    a program that is compiled for the mesh updates that alone, and is sent that part alone of the
    sum of a gradient. The parameters stay whole. These are stages 1 and 2 of ZeRO (Rajbhandari et
    al. 2020, arXiv:1910.02054).

    ``optimizer.state_dict()`` gives the whole state, on every process, which all call; so what was
    saved by four is loaded by one or by three: ``load_state_dict`` takes whole states. Tensors of
    less than 16 KiB stay whole. Raises `DTypeError` for what is no optimiser or no axis,
    `DimRangeError` for a dim that a tensor lacks, `DeviceError` for parameters on a GPU, and
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
    _check("split_state", optimizer, axis)
    states = [t for state in optimizer.make_state().values() for t in state.values()]
    large = [tensor for tensor in states if _is_large(tensor)]
    # All parts, any of which may be an error, before one is kept.
    for tensor, part in [(t, _part("split_state", t, axis, dim)) for t in large]:
        keep_part(tensor, part)
    optimizer.register_step_pre_hook(_refuse_step)


def split_parameters(optimizer: Any, axis: Axis, dim: int | None = None) -> None:
    """Split the parameters of an optimiser over an axis of the mesh, along ``dim``, else the
    longest one of each, and what it keeps of them, as `split_state` does: from now on this process
    has its part of either in memory. A program that is compiled for the mesh gathers a parameter
    where it is used, drops it after, gathers it again where the way back needs it, and updates the
    part. This is stage 3 of ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054). Where `shard` splits
    a parameter so, too, it is used in parts, and never gathered.

    The parameters keep their shape, and are symbols to all operations, so a module of them is for
    programs. ``module.state_dict()`` gives the whole, on every process, which all call, and
    ``load_state_dict`` takes it. Tensors of less than 16 KiB stay whole. Raises what `split_state`
    raises, and `RankError` where ranks have parameters with other elements, as if they were seeded
    otherwise.

    >>> import staticflow as sf
    >>> def bytes_of_parameters():
    ...     mesh = sf.distributed.mesh(data=-1)
    ...     sf.manual_seed(0)
    ...     layer = sf.nn.Linear(64, 256)
    ...     sf.distributed.split_parameters(sf.optim.Adam(layer.parameters()), mesh.axis("data"))
    ...     return layer.weight.shape, layer.weight.nbytes
    >>> sf.distributed.simulate(bytes_of_parameters, 4)[0]
    ((256, 64), 16384)
    """
    _check("split_parameters", optimizer, axis)
    large = [p for group in optimizer.param_groups for p in group.params if _is_large(p)]
    parts = [_part("split_parameters", p, axis, dim) for p in large]
    _hold_alike(large)
    split_state(optimizer, axis, dim)
    for tensor, part in zip(large, parts, strict=True):
        keep_part_of_parameter(tensor, part)


def _hold_alike(tensors: Sequence[Any]) -> None:
    """Raise `RankError` where another rank has other elements, of which no program could tell."""
    communicator, own = current(), np.array([checksum(t) for t in tensors], np.uint64)
    ranks = range(communicator.size)
    label = f"split_parameters of {len(own)} at {format_locs(here())}"
    names = [tensor.name or f"parameter {i}" for i, tensor in enumerate(tensors)]
    told = communicator.exchange(label, ranks, [own] * len(ranks))
    refuse_other_elements("split_parameters", names, told)


def _check(name: str, optimizer: Any, axis: Any) -> None:
    if not hasattr(optimizer, "make_state"):
        raise DTypeError(
            f"{name}: takes an optimiser, not {with_article(type(optimizer))}, at "
            f"{format_locs(here())}"
        )
    if any(group.is_free for group in optimizer.param_groups):
        raise SymbolicError(
            f"{name}: {type(optimizer).__name__} has a step of its own, which runs now and is "
            f"no part of a program; give it a rule (update) instead, at {format_locs(here())}"
        )
    where = {p.device.type for group in optimizer.param_groups for p in group.params}
    if where - {"cpu"}:
        raise DeviceError(
            f"{name}: the parameters are on {', '.join(sorted(where))}; parts are kept on the CPU "
            f"alone, at {format_locs(here())}"
        )
    if not isinstance(axis, Axis):
        raise DTypeError(
            f"{name}: the axis is {with_article(type(axis))}; it must be one of a mesh, as "
            f'mesh.axis("data"), at {format_locs(here())}'
        )


def _is_large(tensor: Any) -> bool:
    return part_of(tensor) is None and tensor._data.nbytes >= SMALLEST


def _part(name: str, tensor: Any, axis: Axis, dim: int | None) -> Part:
    """The part along a dim, else the longest one, the first of several."""
    shape = tensor.shape
    if dim is None:
        return Part(shape, axis, max(range(len(shape)), key=lambda d: shape[d]))
    return Part(shape, axis, normalize_dim(dim, len(shape), name))


def _refuse_step(optimizer: Any, *_: Any) -> None:
    raise SymbolicError(
        f"{type(optimizer).__name__}.step: the state is in parts, of which each process has one; "
        "compile the updates of optimizer.minimize(loss) with mesh=, at "
        f"{format_locs(here())}"
    )
